package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// SuppressState is a contact with everything that may still go to them, locked. Others are contacts that stand for its
// addresses.
type SuppressState struct {
	Contact    ContactRow
	Others     []ContactRow
	Deliveries []delivery.Row
}

// SuppressChange is what suppressing, or the end of it, changes, in one transaction with its audit entry.
type SuppressChange struct {
	Contacts   []ContactRow
	Deliveries []delivery.Row
	Audit      Audit
}

// Suppress carries out one person's wish about a contact, whom others names the ids of contacts that stand for the same
// addresses. ErrNotFound: there is no such contact.
//
// It locks the deliveries first: an intent that is being committed is waited for, and one that comes later finds its
// delivery taken or ended, so that what is sent was committed before the suppression is (P5). Then it locks the
// contacts, which waits for whoever is making a delivery for them that is due, and looks for deliveries again: when an
// intent holds one of these, the whole is done again. One that somebody makes meanwhile for a later instant meets the
// suppression at its own intent.
func (s *Store) Suppress(
	ctx context.Context, ws subject.WorkspaceID, now time.Time, id string, others func(ContactRow) []string,
	decide func(SuppressState) (SuppressChange, error), once *Idempotent[SuppressChange],
) error {
	err := s.Write(ctx, func(t *Tx) error {
		_, err := once.run(t, ws, func() (SuppressChange, error) { return t.suppress(ctx, ws, now, id, others, decide) })
		return err
	})
	if err != nil {
		return fmt.Errorf("suppress: %w", err)
	}
	return nil
}

func (t *Tx) suppress(
	ctx context.Context, ws subject.WorkspaceID, now time.Time, id string, others func(ContactRow) []string,
	decide func(SuppressState) (SuppressChange, error),
) (none SuppressChange, err error) {
	found, err := query(t, scanContactRow, contactRow, int64(ws), id)
	if err != nil {
		return none, fmt.Errorf("read contact: %w", err)
	}
	if len(found) == 0 {
		return none, fmt.Errorf("contact: %w", ErrNotFound)
	}
	ids := []string{id}
	for _, other := range others(found[0]) {
		if other != id {
			ids = append(ids, other)
		}
	}
	if _, err := t.lockDeliveriesOf(lockDeliveriesOf, ws, ids); err != nil {
		return none, err
	}
	known, err := t.lockContacts(ws, ids)
	if err != nil {
		return none, err
	}
	state := SuppressState{Contact: known[id]}
	if strings.Join(others(state.Contact), "\n") != strings.Join(others(found[0]), "\n") {
		return none, ErrAgain // its addresses were changed meanwhile
	}
	for _, other := range ids[1:] {
		if c, ok := known[other]; ok {
			state.Others = append(state.Others, c)
		}
	}
	if state.Deliveries, err = t.lockDeliveriesOf(lockDeliveriesOfNow, ws, ids); err != nil {
		return none, err
	}
	theirs := state
	theirs.Deliveries = slices.Clone(state.Deliveries) // decide may change them in place
	change, err := decide(theirs)
	if err != nil || len(change.Contacts) == 0 {
		return change, err
	}
	if err := t.updateDeliveries(now, state.Deliveries, change.Deliveries); err != nil {
		return none, err
	}
	writes := make([]ContactWrite, len(change.Contacts))
	for i, c := range change.Contacts {
		writes[i].ContactRow = c
	}
	if _, err := t.writeContacts(ws, now, writes); err != nil {
		return none, err
	}
	return change, t.audit(ws, now, change.Audit)
}
