package contact

import (
	"context"
	"encoding/json"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Stopped is what a suppression, or lifting it, did.
type Stopped struct {
	Changed    bool // false: it was so already
	Contact    store.ContactRow
	Deliveries []delivery.ID // the stopped deliveries
}

// Suppression is a request to suppress a contact, or to lift the suppression.
type Suppression struct {
	Contact  string // the caller's id
	Suppress bool   // false: lift it
	Reason   string // in the caller's words
	Actor    string // name of the API key
}

// CheckReason checks the reason of a suppression.
func CheckReason(why string) *Error {
	if why == "" {
		return invalid("reason", "is missing", "say why in your words, such as complained or asked us to stop")
	}
	return plain("reason", why)
}

// Stop performs the request. A suppressed contact gets nothing more from any workflow: unsent messages are cancelled, reminders end, and a message in
// flight is the last one. Other contacts with the same addresses are suppressed too. Lifting the suppression does not restore what was cancelled.
func (k *Writer) Stop(ctx context.Context, ws store.Workspace, w Suppression, now time.Time, once *store.Idempotent[Stopped]) (Stopped, error) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	others := func(c store.ContactRow) []string {
		var ids []string
		for _, address := range append([]string{subject.NormalizeAddress(c.Address)}, addressesOf(c)...) {
			if address != "" {
				ids = append(ids, subject.MadePrefix+hashes.Hash(address))
			}
		}
		if w.Suppress && c.Claimant != "" { // the address belongs to this contact now, and must not be written to
			ids = append(ids, c.Claimant)
		}
		return ids
	}
	var s *stopping
	err := k.store.Suppress(ctx, ws.ID, now, w.Contact, others, func(state store.SuppressState) (store.SuppressChange, error) {
		s = &stopping{Suppression: w, now: now}
		return s.decide(state)
	}, store.From(once, func(store.SuppressChange) Stopped { return s.result }))
	if err != nil {
		return Stopped{}, err
	}
	for _, entry := range s.entries {
		k.journal.Write(entry)
	}
	return s.result, nil
}

func addressesOf(c store.ContactRow) []string {
	var all []string
	for _, kind := range subject.AddressKinds() {
		all = append(all, c.Addresses[kind])
	}
	return all
}

// stopping is one call of the decision.
type stopping struct {
	Suppression
	now     time.Time
	result  Stopped
	entries []journal.Entry
}

func (s *stopping) decide(state store.SuppressState) (store.SuppressChange, error) {
	s.result.Contact = state.Contact
	var change store.SuppressChange
	for i, c := range append([]store.ContactRow{state.Contact}, state.Others...) {
		if c.Suppressed == s.Suppress {
			continue
		}
		c.Suppressed, c.SuppressReason, c.SuppressedAt, c.UpdatedAt = s.Suppress, "", time.Time{}, s.now
		if s.Suppress {
			c.SuppressReason, c.SuppressedAt = s.Reason, s.now
		}
		if i == 0 {
			s.result.Contact = c
		}
		change.Contacts = append(change.Contacts, c)
	}
	if len(change.Contacts) == 0 {
		return change, nil
	}
	s.result.Changed = true
	if s.Suppress {
		for _, d := range state.Deliveries {
			if row, ok := s.stop(d); ok {
				change.Deliveries = append(change.Deliveries, row)
			}
		}
	}
	action := "unsuppress"
	if s.Suppress {
		action = "suppress"
	}
	detail, err := json.Marshal(map[string]any{"reason": s.Reason, "deliveries": len(change.Deliveries)})
	change.Audit = store.Audit{At: s.now, Actor: s.Actor, Action: action, Target: state.Contact.ExtID, Detail: detail}
	return change, err
}

// stop changes a delivery that may still have something to send (model.md §3). A sent message stays sent, and its link still accepts an answer. A
// delivery with an open intent is only marked: the result of the attempt decides.
func (s *stopping) stop(d delivery.Row) (delivery.Row, bool) {
	switch {
	case d.Status.Final():
		return d, false
	case !d.IntentAt.IsZero() && d.LeaseUntil.After(s.now):
		if d.StopReason != "" {
			return d, false
		}
		d.StopReason = reason.Suppressed
	default:
		if d.Waits() {
			d.Slot = time.Time{}
		}
		if d.Step == 0 {
			d.Status = delivery.Cancelled
		}
		d.Reason, d.SendAt, d.ExpiresAt, d.CompletedAt = reason.Suppressed, time.Time{}, time.Time{}, s.now
	}
	s.result.Deliveries = append(s.result.Deliveries, d.ID)
	s.entries = append(s.entries, journal.Entry{
		At: s.now, What: journal.Cancelled, Workspace: d.Workspace, Workflow: d.Workflow, WorkflowVersion: d.WorkflowVersion,
		Trigger: d.Trigger, Key: d.Key, Event: d.Event, Instance: d.Instance, Delivery: d.ID, Contact: s.result.Contact.ExtID,
		Address: d.Address, Channel: d.Channel, Step: d.Step + 1, Reason: reason.Suppressed, Remaining: d.RemindersRemaining,
	})
	return d, true
}
