package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

var now = time.Date(2026, 5, 14, 5, 12, 34, 123456000, time.UTC)

// fixture is one workspace of a store, and short ways to fill it.
type fixture struct {
	testing.TB
	s  *store.Store
	ws subject.WorkspaceID
}

func setup(t testing.TB, s *store.Store) fixture {
	t.Helper()
	w, err := s.EnsureWorkspace(t.Context(), "clinic", []byte("secret"), now)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{t, s, w.ID}
}

// ingestRequest is what ingest reads before it decides. At is now if it is zero.
type ingestRequest struct {
	At          time.Time
	Definitions int64
	Keys        []string
	Recipients  []store.RecipientRef
}

// ingestState is what ingest has read.
type ingestState struct {
	store.Occasions
	Persons []delivery.Person
}

// ingest writes rows that are decided in the transaction that writes them.
func ingest(ctx context.Context, s *store.Store, ws subject.WorkspaceID, r ingestRequest, decide func(ingestState) (store.OccasionWrites, error)) error {
	if r.At.IsZero() {
		r.At = now
	}
	return s.WriteHoldingDefinitions(ctx, func(tx *store.Tx) (err error) {
		var state ingestState
		if state.Occasions, err = tx.Occasions(ws, r.Definitions, r.Keys); err != nil {
			return err
		}
		if state.Persons, err = tx.Recipients(ws, r.At, r.Recipients, nil, false); err != nil {
			return err
		}
		writes, err := decide(state)
		if err != nil {
			return err
		}
		return tx.WriteOccasions(ws, writes)
	})
}

// pause pauses a workflow.
func (f fixture) pause(workflow string) {
	f.Helper()
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		return tx.SavePause(f.ws, nil, store.Pause{Workflow: workflow, PausedAt: now, Actor: "ops"})
	}))
}

// resume resumes a workflow, and reports whether it was paused.
func (f fixture) resume(workflow string) (was bool, err error) {
	err = f.s.Write(f.Context(), func(tx *store.Tx) (err error) {
		was, err = tx.ResumePause(f.ws, workflow, now)
		return err
	})
	return was, err
}

func (f fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f fixture) mustBe(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error %v, want %v", err, want)
	}
}

func person(ext, address string) store.RecipientRef {
	ref := store.RecipientRef{ExtID: ext, Address: address, NewExtID: ext, Locale: "ar", Create: true}
	if address != "" {
		ref.AddressHash = "hash of " + address
		if ext == "" {
			ref.NewExtID = "addr:" + ref.AddressHash
		}
	}
	return ref
}

func (f fixture) event(kind string) store.EventRow {
	return store.EventRow{
		Event: subject.Event{
			ID: subject.EventID(f.s.NewID(now)), ExtID: "e-" + kind, Kind: kind, OccurredAt: now.Add(-time.Hour), OccurredGiven: true,
			ReceivedAt: now, Recipient: &subject.Recipient{Address: "+96477", Locale: "ar"},
		},
		PayloadJSON: `{"n":1.50,"text":"<a> \"b\" \\ é"}`, Trace: `[]`,
	}
}

func (f fixture) instance(key string, status instance.Status) instance.Row {
	return instance.Row{
		Workspace: f.ws, ID: instance.ID(f.s.NewID(now)), Key: key, Workflow: "visit", WorkflowVersion: 2, Definitions: 3, Type: "survey",
		Trigger: "closed", Source: instance.FromEvent, Status: status, DueAt: now, InputHash: "h1", CreatedAt: now,
	}
}

// delivery returns a delivery that is due now.
func (f fixture) delivery(i instance.Row, p subject.ContactID) delivery.Row {
	return delivery.Row{
		Workspace: f.ws, ID: delivery.ID(f.s.NewID(now)), Key: fmt.Sprintf("%s|%d|sms:twilio", i.Key, p), Instance: i.ID, Event: i.Event,
		Contact: p, Workflow: i.Workflow, WorkflowVersion: 2, Definitions: 3, Type: "survey", Trigger: "closed", Channel: "sms:twilio",
		Address: "+96477", Locale: "ar", CustomerRef: "c-1", Status: delivery.Scheduled, NotBefore: now, SendAt: now, Slot: now,
		RemindersRemaining: 2, Trace: `{"rule":1}`, CreatedAt: now,
	}
}

func (f fixture) ingest(r ingestRequest, decide func(ingestState) (store.OccasionWrites, error)) {
	f.Helper()
	var tried []instance.Row // those with the state of later tries
	f.must(ingest(f.Context(), f.s, f.ws, r, func(s ingestState) (store.OccasionWrites, error) {
		w, err := decide(s)
		tried = nil
		w.Instances = slices.DeleteFunc(slices.Clone(w.Instances), func(i instance.Row) bool {
			if !store.Fresh(&i) {
				tried = append(tried, i)
			}
			return !store.Fresh(&i)
		})
		return w, err
	}))
	if len(tried) > 0 {
		f.must(f.s.InsertTriedInstances(f.Context(), tried))
	}
}

// contact makes a contact.
func (f fixture) contact(ext string) subject.ContactID {
	f.Helper()
	var id subject.ContactID
	f.ingest(ingestRequest{Recipients: []store.RecipientRef{person(ext, "")}}, func(s ingestState) (store.OccasionWrites, error) {
		id = s.Persons[0].ID
		return store.OccasionWrites{}, nil
	})
	return id
}

// add stores rows. Instances and deliveries may have the state of later tries.
func (f fixture) add(w store.OccasionWrites) {
	f.Helper()
	var tried []delivery.Row
	w.Deliveries = slices.DeleteFunc(slices.Clone(w.Deliveries), func(d delivery.Row) bool {
		if !store.Untried(&d) {
			tried = append(tried, d)
		}
		return !store.Untried(&d)
	})
	f.ingest(ingestRequest{}, func(ingestState) (store.OccasionWrites, error) { return w, nil })
	f.must(f.s.InsertTried(f.Context(), tried))
}

// scheduled stores n deliveries of one completed instance to one person, each changed by change, and returns them.
func (f fixture) scheduled(n int, change func(i int, d *delivery.Row)) []delivery.Row {
	f.Helper()
	p := f.contact(fmt.Sprintf("person-%d", f.s.NewID(now)))
	var w store.OccasionWrites
	for i := range n {
		in := f.instance(fmt.Sprintf("survey:visit:event:%d", f.s.NewID(now)), instance.Completed)
		d := f.delivery(in, p)
		if change != nil {
			change(i, &d)
		}
		w.Instances, w.Deliveries = append(w.Instances, in), append(w.Deliveries, d)
	}
	f.add(w)
	return w.Deliveries
}

func (f fixture) row(id delivery.ID) delivery.Row {
	f.Helper()
	row, err := f.s.DeliveryByID(f.Context(), f.ws, id)
	f.must(err)
	return row
}

// claimDue claims up to limit deliveries that are due at an instant, for 30 seconds, and writes what decide says; nil: nothing.
func claimDue(ctx context.Context, s *store.Store, at time.Time, limit int, decide func(*store.Tx, []delivery.Claim) (store.ClaimWrites, error)) (claims []delivery.Claim, err error) {
	err = s.WriteClaiming(ctx, func(tx *store.Tx) (err error) {
		if claims, err = tx.ClaimDueDeliveries(at, at.Add(30*time.Second), limit); err != nil || decide == nil {
			return err
		}
		w, err := decide(tx, claims)
		if err != nil {
			return err
		}
		return tx.SaveClaims(at, w)
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// personsOf returns the persons of claims.
func personsOf(claims []delivery.Claim) []delivery.PersonRef {
	refs := make([]delivery.PersonRef, len(claims))
	for i, c := range claims {
		refs[i] = delivery.PersonRef{Workspace: c.Workspace, ID: c.Contact}
	}
	return refs
}

// claim claims the deliveries that are due at an instant, for 30 seconds, and sends all of them.
func (f fixture) claim(at time.Time) []delivery.Claim {
	f.Helper()
	claims, err := claimDue(f.Context(), f.s, at, 1000, nil)
	f.must(err)
	return claims
}

func (f fixture) exec(text string, args ...any) {
	f.Helper()
	n, err := f.s.Exec(f.Context(), text, args...)
	f.must(err)
	if n == 0 {
		f.Fatalf("no row changed: %s", text)
	}
}

// settlement is what follows from an attempt.
type settlement struct {
	delivery.Claim
	delivery.Change
	Attempt delivery.Attempt
	Content *store.Content
}

// accepted returns the settlement of a first message that was accepted, with a reminder a day later.
func accepted(c delivery.Claim) settlement {
	return settlement{
		Claim: c, Change: delivery.Change{
			Accepted: true, Step: c.Step + 1, Status: delivery.Sent,
			SendAt: now.Add(24 * time.Hour), ExpiresAt: now.Add(30 * 24 * time.Hour), Remaining: 1, Reason: reason.Delivered,
		},
		Attempt: delivery.Attempt{
			Workspace: c.Workspace, Delivery: c.ID, Number: c.AttemptNo, Step: c.Step + 1, Channel: c.Channel, IdempotencyKey: "k",
			IntentAt: c.IntentAt, SettledAt: now, Outcome: delivery.AttemptDelivered, Reason: reason.Delivered, ProviderID: "p-1",
		},
	}
}

// refused returns the settlement of a try that failed and is repeated in five minutes.
func refused(c delivery.Claim) settlement {
	s := accepted(c)
	s.Change = delivery.Change{Step: c.Step, Status: c.Status, SendAt: now.Add(5 * time.Minute), ExpiresAt: s.Change.ExpiresAt, RetryCount: 1, Remaining: c.RemindersRemaining}
	s.Change.Reason, s.Attempt.Outcome, s.Attempt.Reason, s.Attempt.ProviderID = reason.TemporaryError, delivery.AttemptFailed, reason.TemporaryError, ""
	return s
}

// settle writes results and returns those that came too late. The first try takes the rows as they were claimed.
func settle(ctx context.Context, s *store.Store, list ...settlement) (stale []delivery.ID, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	tries := 0
	err = s.Write(ctx, func(tx *store.Tx) error {
		stale = nil
		held, err := held(tx, &tries, list, func(s settlement) delivery.Row { return s.Row })
		if err != nil {
			return err
		}
		var writes []store.Settlement
		for _, s := range list {
			row, ok := held[s.ID]
			if !ok {
				stale = append(stale, s.ID)
				continue
			}
			next, release := delivery.Settled(row, s.Change, now)
			writes = append(writes, store.Settlement{Row: next, Was: row.Status, Release: release, Attempt: s.Attempt, Content: s.Content})
		}
		return tx.WriteSettlements(now, writes)
	})
	return stale, err
}

// release releases claims, which move to at; zero: they stay where they are.
func release(ctx context.Context, s *store.Store, at time.Time, claims ...delivery.Claim) error {
	tries := 0
	return s.Write(ctx, func(tx *store.Tx) error {
		held, err := held(tx, &tries, claims, func(c delivery.Claim) delivery.Row { return c.Row })
		var rows []delivery.Row
		for _, row := range held {
			rows = append(rows, delivery.Released(row, at, `{"until":1}`))
		}
		if err != nil {
			return err
		}
		return tx.ReleaseClaims(now, rows)
	})
}

func held[T any](tx *store.Tx, tries *int, of []T, row func(T) delivery.Row) (map[delivery.ID]delivery.Row, error) {
	var rows []delivery.Row
	var refs []store.LeaseRef
	for _, v := range of {
		rows = append(rows, row(v))
		refs = append(refs, store.LeaseRef{Workspace: row(v).Workspace, ID: row(v).ID, Version: row(v).Version})
	}
	if *tries++; *tries > 1 {
		var err error
		if rows, err = tx.LockClaims(refs); err != nil {
			return nil, err
		}
	}
	held := map[delivery.ID]delivery.Row{}
	for _, row := range rows {
		held[row.ID] = row
	}
	return held, nil
}

func (f fixture) settle(list ...settlement) []delivery.ID {
	f.Helper()
	stale, err := settle(f.Context(), f.s, list...)
	f.must(err)
	return stale
}

// large stores an ended occasion with deliveries to so many contacts, on so many channels each.
func (f fixture) large(key string, contacts, channels int) instance.Row {
	f.Helper()
	in := f.instance(key, instance.Completed)
	in.CompletedAt = now
	var refs []store.RecipientRef
	for i := range contacts {
		refs = append(refs, person(fmt.Sprintf("c-%d", i), ""))
	}
	f.ingest(ingestRequest{Recipients: refs}, func(state ingestState) (w store.OccasionWrites, err error) {
		w.Instances = []instance.Row{in}
		for _, p := range state.Persons {
			for n := range channels {
				d := f.delivery(in, p.ID)
				d.Channel = fmt.Sprintf("sms:%d", n)
				d.Key += fmt.Sprint(n)
				w.Deliveries = append(w.Deliveries, d)
			}
		}
		return w, nil
	})
	return in
}

// one returns the number that a query has as its one text.
func (f fixture) one(text string, args ...any) (n int64) {
	f.Helper()
	found, err := f.s.Strings(f.Context(), text, args...)
	f.must(err)
	if _, err := fmt.Sscan(found[0], &n); err != nil {
		f.Fatal(err)
	}
	return n
}
