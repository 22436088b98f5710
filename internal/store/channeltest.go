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

// BeginTest writes the audit entry of a test before it is made, and reports whether its address belongs to a suppressed
// contact. A message cannot be sent in a transaction. So once stores the answer for a test whose outcome is unknown, and
// EndTest replaces it with the real one. A request that is repeated meanwhile, or after a crash, sends nothing.
func (s *Store) BeginTest(ctx context.Context, ws subject.WorkspaceID, now time.Time, test ChannelTest, once *Idempotent[bool]) (suppressed bool, err error) {
	err = s.Write(ctx, func(t *Tx) (err error) {
		if err := once.Begin(t, ws); err != nil {
			return err
		}
		if suppressed, err = t.suppressedAt(ws, now, test.AddressHash); err != nil {
			return err
		}
		if err := t.Audit(ws, now, test.Audit); err != nil {
			return err
		}
		return once.Keep(t, ws, suppressed)
	})
	if err != nil {
		return false, fmt.Errorf("begin test: %w", err)
	}
	return suppressed, nil
}

// suppressedAt checks the contact that has the address and the one that was made for it.
func (t *Tx) suppressedAt(ws subject.WorkspaceID, now time.Time, hash string) (bool, error) {
	persons, err := t.persons(now, []recipient{
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

// EndTest replaces the answer stored by BeginTest with the one of the finished test.
func (s *Store) EndTest(ctx context.Context, ws subject.WorkspaceID, k KeptAnswer) error {
	err := s.Write(ctx, func(t *Tx) error {
		_, err := t.exec(replaceAnswer, int64(k.Status), k.Body, int64(ws), k.Key, k.Request)
		return err
	})
	if err != nil {
		return fmt.Errorf("end test: %w", err)
	}
	return nil
}
