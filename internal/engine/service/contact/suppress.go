package contact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/optout"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Stopped is what a suppression, or lifting it, did.
type Stopped struct {
	Changed    bool // false: it was so already
	Contact    subject.ContactRow
	Deliveries []delivery.ID // the stopped deliveries
}

// Suppression is a request to suppress a contact, or to lift the suppression.
type Suppression struct {
	Contact  string // the caller's id
	Suppress bool   // false: lift it
	Kind     string // on this kind of channel alone; empty: everywhere
	Reason   string // in the caller's words
	Actor    string // name of the API key
}

// CheckReason checks the reason of a suppression.
func CheckReason(why string) *upsert.Error {
	if why == "" {
		return invalid("reason", "is missing", "say why in your words, such as complained or asked us to stop")
	}
	return plain("reason", why)
}

// Stop performs the request. A suppressed contact gets nothing more from any workflow: unsent messages are cancelled, reminders end, and a message in
// flight is the last one. Other contacts with the same addresses are suppressed too. Lifting the suppression does not restore what was cancelled.
// store.ErrNotFound: there is no such contact.
func (k *Writer) Stop(ctx context.Context, ws store.Workspace, w Suppression, now time.Time, once *store.Idempotent[Stopped]) (Stopped, error) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	var s stopping
	err := k.store.Write(ctx, func(tx *store.Tx) (err error) {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		if s, err = w.step(tx, ws.ID, hashes, now); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, s.result)
	})
	if err != nil {
		return Stopped{}, fmt.Errorf("suppress: %w", err)
	}
	for _, entry := range s.entries {
		k.journal.Write(entry)
	}
	return s.result, nil
}

// step locks the deliveries first: it waits for an intent that is being committed, and one that comes later finds its delivery taken or ended. So what
// is sent was committed before the suppression (P5). Then it locks the contacts, which waits for transactions that make deliveries for them, and
// reads their deliveries again. A delivery that is made meanwhile for a later instant meets the suppression at its own intent.
func (w Suppression) step(tx *store.Tx, ws subject.WorkspaceID, hashes key.Keyed, now time.Time) (stopping, error) {
	found, err := tx.Contact(ws, w.Contact)
	if err != nil {
		return stopping{}, err
	}
	ids := w.named(found, hashes)
	if _, err := tx.LockDeliveriesOf(ws, ids); err != nil {
		return stopping{}, err
	}
	known, err := tx.LockContacts(ws, ids)
	if err != nil {
		return stopping{}, err
	}
	if contact, ok := known[w.Contact]; !ok || !slices.Equal(w.named(contact, hashes), ids) {
		return stopping{}, store.ErrAgain // its addresses were changed meanwhile
	}
	if w.Kind != "" {
		return w.ofKind(tx, ws, known[w.Contact], hashes, now)
	}
	deliveries, err := tx.LockDeliveriesOfNow(ws, ids)
	if err != nil {
		return stopping{}, err
	}
	contacts := make([]subject.ContactRow, 0, len(ids))
	for _, id := range ids {
		if c, ok := known[id]; ok {
			contacts = append(contacts, c)
		}
	}
	s := w.decide(contacts, deliveries, now)
	if !s.result.Changed {
		return s, nil
	}
	if err := tx.UpdateDeliveries(now, deliveries, s.deliveries); err != nil {
		return s, err
	}
	if w.Suppress {
		tx.EndSessionsOf(now, onKind(ws, contacts, ""), reason.Suppressed)
	}
	if _, _, err := tx.WriteContacts(ws, now, known, s.contacts); err != nil {
		return s, err
	}
	detail, err := json.Marshal(map[string]any{"reason": w.Reason, "deliveries": len(s.deliveries)})
	if err != nil {
		return s, fmt.Errorf("write the audit entry: %w", err)
	}
	return s, tx.Audit(ws, now, store.Audit{At: now, Actor: w.Actor, Action: w.action(), Target: found.ExtID, Detail: detail})
}

// onKind are contacts on a kind of channel, the empty one on all.
func onKind(ws subject.WorkspaceID, of []subject.ContactRow, kind string) []delivery.PersonKind {
	list := make([]delivery.PersonKind, len(of))
	for i, c := range of {
		list[i] = delivery.PersonKind{PersonRef: delivery.PersonRef{Workspace: ws, ID: c.ID}, Kind: kind}
	}
	return list
}

func (w Suppression) action() string {
	switch {
	case w.Suppress && w.Kind != "":
		return "opt out"
	case w.Kind != "":
		return "opt in"
	case w.Suppress:
		return "suppress"
	}
	return "unsuppress"
}

// ErrNoAddress: the contact has no address for the kind of channel.
var ErrNoAddress = errors.New("the contact has no address for this kind of channel")

// ofKind opts the address of a locked contact out of a kind of channel, or in, as if its person had replied so.
func (w Suppression) ofKind(tx *store.Tx, ws subject.WorkspaceID, of subject.ContactRow, hashes key.Keyed, now time.Time) (s stopping, err error) {
	s = stopping{Suppression: w, now: now, result: Stopped{Contact: of}}
	address := subject.NormalizeAddress(of.AddressOn(w.Kind))
	if address == "" {
		return s, ErrNoAddress
	}
	if s.result.Changed, err = optout.Mark(tx, ws, hashes, address, w.Kind, w.Suppress, now); err != nil || !s.result.Changed {
		return s, err
	}
	if w.Suppress {
		ended, entries, err := optout.Cancel(tx, ws, map[string]subject.ContactRow{of.ExtID: of}, w.Kind, now)
		if err != nil {
			return s, err
		}
		tx.EndSessionsOf(now, onKind(ws, []subject.ContactRow{of}, w.Kind), reason.OptedOut)
		for _, d := range ended {
			s.result.Deliveries = append(s.result.Deliveries, d.ID)
		}
		s.entries = entries
	}
	detail, err := json.Marshal(map[string]any{"kind": w.Kind, "reason": w.Reason, "deliveries": len(s.result.Deliveries)})
	if err != nil {
		return s, fmt.Errorf("write the audit entry: %w", err)
	}
	return s, tx.Audit(ws, now, store.Audit{At: now, Actor: w.Actor, Action: w.action(), Target: of.ExtID, Detail: detail})
}

// Stops returns the kinds of channels on which nothing is sent to a contact at their address, and why.
func (k *Writer) Stops(ctx context.Context, ws store.Workspace, of subject.Contact) (kinds []store.StoppedKind, err error) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	var refs []store.AddressOn
	for _, kind := range subject.AddressKinds() {
		if address := subject.NormalizeAddress(of.AddressOn(kind)); address != "" && kind != "inbox" {
			refs = append(refs, store.AddressOn{AddressRef: delivery.AddressRef{Workspace: ws.ID, Hash: hashes.Hash(address)}, Kind: kind})
		}
	}
	err = k.store.Read(ctx, func(tx *store.Tx) error {
		stopped, err := tx.StoppedAddresses(refs)
		for _, ref := range refs {
			if stop, ok := stopped[ref]; ok {
				kinds = append(kinds, store.StoppedKind{Kind: ref.Kind, Stop: stop})
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is stopped of a contact: %w", err)
	}
	return kinds, nil
}

// named returns the ids of the contact, first, and of the contacts that have its addresses.
func (w Suppression) named(c subject.ContactRow, hashes key.Keyed) []string {
	ids := []string{w.Contact}
	add := func(id string) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, address := range append([]string{subject.NormalizeAddress(c.Address)}, addressesOf(c)...) {
		if address != "" {
			add(subject.MadePrefix + hashes.Hash(address))
		}
	}
	if w.Suppress && c.Claimant != "" { // the address belongs to this contact now, and must not be written to
		add(c.Claimant)
	}
	return ids
}

func addressesOf(c subject.ContactRow) []string {
	var all []string
	for _, kind := range subject.AddressKinds() {
		all = append(all, c.Addresses[kind])
	}
	return all
}

// stopping is the decision about a suppression.
type stopping struct {
	Suppression
	now        time.Time
	result     Stopped
	contacts   []store.ContactWrite // with their new values
	deliveries []delivery.Row       // likewise
	entries    []journal.Entry
}

// decide suppresses contacts, or lifts that. The first one is the contact of the request; the others have its addresses.
func (w Suppression) decide(contacts []subject.ContactRow, deliveries []delivery.Row, now time.Time) stopping {
	s := stopping{Suppression: w, now: now}
	for i, c := range contacts {
		if c.Suppressed != w.Suppress {
			c.Suppressed, c.SuppressReason, c.SuppressedAt, c.UpdatedAt = w.Suppress, "", time.Time{}, now
			if w.Suppress {
				c.SuppressReason, c.SuppressedAt = w.Reason, now
			}
			s.contacts = append(s.contacts, store.ContactWrite{ContactRow: c})
		}
		if i == 0 {
			s.result.Contact = c
		}
	}
	s.result.Changed = len(s.contacts) > 0
	if !s.result.Changed || !w.Suppress {
		return s
	}
	for _, d := range deliveries {
		if row, ok := s.stop(d); ok {
			s.deliveries = append(s.deliveries, row)
		}
	}
	return s
}

// stop stops a delivery that may still have something to send.
func (s *stopping) stop(d delivery.Row) (delivery.Row, bool) {
	row, stopped := d.StoppedFor(reason.Suppressed, s.now)
	if !stopped {
		return d, false
	}
	s.result.Deliveries = append(s.result.Deliveries, d.ID)
	s.entries = append(s.entries, journal.Stopped(row, reason.Suppressed, s.result.Contact.ExtID, s.now))
	return row, true
}
