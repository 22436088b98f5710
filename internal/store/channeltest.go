package store

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// ChannelTest is a message that a person sends through a channel to see whether it works. It belongs to no delivery.
type ChannelTest struct {
	AddressHash string // keyed hash of the address's normal form
	Audit       Audit
}

// BeginTest writes the audit entry of a test that is about to be made, and tells whether its address belongs to
// somebody who is suppressed. A message cannot be sent in a transaction, so the answer that once makes here is the one
// for a test of whose end nobody will ever hear; EndTest puts the true one in its place. Whoever repeats the request
// meanwhile, or after a crash, sends nothing.
func (s *Store) BeginTest(ctx context.Context, ws subject.WorkspaceID, now time.Time, test ChannelTest, once *Idempotent[bool]) (suppressed bool, err error) {
	err = s.write(ctx, func(t *Tx) (err error) {
		suppressed, err = once.run(ctx, t, ws, func() (bool, error) {
			stopped, err := t.suppressedAt(ctx, ws, now, test.AddressHash)
			if err != nil {
				return false, err
			}
			return stopped, t.audit(ctx, ws, now, test.Audit)
		})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("begin test: %w", err)
	}
	return suppressed, nil
}

// suppressedAt looks at the contact that has the address and at the one that was made for it.
func (t *Tx) suppressedAt(ctx context.Context, ws subject.WorkspaceID, now time.Time, hash string) (bool, error) {
	persons, err := t.persons(ctx, now, []recipient{
		{ws, RecipientRef{ExtID: subject.MadePrefix + hash}},
		{ws, RecipientRef{AddressHash: hash}},
	}, nil)
	if err != nil {
		return false, err
	}
	for _, p := range persons {
		if p.Found && p.Suppressed {
			return true, nil
		}
	}
	return false, nil
}

const replaceAnswer = `
UPDATE idempotency SET status = $1, answer = $2
WHERE ws = $3 AND key = $4 AND request = $5`

// EndTest keeps the answer to a test that has ended in place of the one that BeginTest kept.
func (s *Store) EndTest(ctx context.Context, ws subject.WorkspaceID, k KeptAnswer) error {
	err := s.write(ctx, func(t *Tx) error {
		_, err := t.exec(ctx, replaceAnswer, int64(k.Status), k.Body, int64(ws), k.Key, k.Request)
		return err
	})
	if err != nil {
		return fmt.Errorf("end test: %w", err)
	}
	return nil
}
