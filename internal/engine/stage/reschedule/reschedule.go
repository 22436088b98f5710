// Package reschedule plans waiting messages again when the limits of their contacts have changed (R5).
//
//	apply of a persona or the workspace ─▶ job ─▶ mark on each contact ─┐
//	write of a contact ──────────────────────────▶ mark on the contact ─┴─▶ its messages take their slots again
//
// One transaction under the contact's lock releases all slots of the contact, and takes new ones from now on in the order in which the messages were
// due. So no message is lost or overtaken, and a crash leaves the mark. A message whose slot has come is not planned again: the sender checks its
// limits.
package reschedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/groups"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/listed"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

const (
	// people bounds the contacts of one transaction: each may have many waiting messages.
	people = 50
)

// Store is what the stage needs of the store.
type Store interface {
	jobs.Store
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
}

// Rescheduler is the stage.
type Rescheduler struct {
	store   Store
	catalog *catalog.Catalog
	journal journal.Writer
	jobs    *jobs.Worker
}

// New makes the stage.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Rescheduler {
	return &Rescheduler{store: s, catalog: c, journal: w, jobs: jobs.New(s, Jobs(s), groups.Jobs(s, c))}
}

// Result is what a step did.
type Result struct {
	People int // contacts whose messages were planned again
	Marked int // contacts that a job went over
	More   bool
}

// Step plans the messages of a bounded number of contacts again. If fewer are marked, it does the next page of a job: one that marks contacts, or that
// computes their groups.
func (p *Rescheduler) Step(ctx context.Context, now time.Time) (r Result, err error) {
	if r.People, err = p.due(ctx, now); err != nil {
		return r, err
	}
	if r.More = r.People >= people; r.More {
		return r, nil
	}
	for { // past the ends of jobs
		if r.Marked, r.More, err = p.jobs.Step(ctx, now); err != nil {
			return r, err
		}
		if r.Marked > 0 || !r.More {
			return r, nil
		}
	}
}

func (p *Rescheduler) due(ctx context.Context, now time.Time) (int, error) {
	if err := p.catalog.Refresh(ctx); err != nil {
		return 0, err
	}
	var r run
	n := 0
	err := p.catalog.Supply(ctx, people, func(limit int) error {
		r = run{catalog: p.catalog, now: now}
		return p.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) (err error) {
			n, err = r.step(tx, limit)
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("plan messages again: %w", err)
	}
	for _, e := range r.entries {
		p.journal.Write(e)
	}
	return n, nil
}

// run is one attempt of a step; its functions may be called again from the beginning.
type run struct {
	catalog *catalog.Catalog
	now     time.Time
	entries []journal.Entry
}

// person is a contact whose limits have changed, with the messages that wait for a later slot.
type person struct {
	store.DueReschedule
	facts    delivery.Person
	messages []delivery.Row
}

// step plans the messages of up to limit contacts again, and returns how many contacts there were.
func (r *run) step(tx *store.Tx, limit int) (int, error) {
	r.entries = nil
	due, err := tx.DueReschedules(r.now, limit)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	refs := make([]delivery.PersonRef, len(due))
	for i, d := range due {
		refs[i] = d.PersonRef
	}
	facts, err := tx.LockedPersons(r.now, refs, r.floor(due))
	if err != nil {
		return 0, err
	}
	messages, err := tx.DeliveriesToReschedule(r.now, refs)
	if err != nil {
		return 0, err
	}
	var places listed.Rows
	for _, d := range due {
		live, err := r.catalog.Loaded(d.Workspace, d.InForce)
		if err != nil {
			return 0, err
		}
		for i := range messages[d.PersonRef] {
			places.Add(&messages[d.PersonRef][i], live)
		}
	}
	if err := places.Find(tx); err != nil {
		return 0, err
	}
	people := make([]person, len(due))
	for i, d := range due {
		people[i] = person{d, facts[d.PersonRef], messages[d.PersonRef]}
	}
	changed, err := r.decide(people)
	if err != nil {
		return 0, err
	}
	if err := tx.WriteRescheduled(r.now, changed); err != nil {
		return 0, err
	}
	if err := r.tell(tx, messages, changed); err != nil {
		return 0, err
	}
	return len(due), tx.ClearReschedules(refs)
}

// tell writes the outcomes of messages.
func (r *run) tell(tx *store.Tx, messages map[delivery.PersonRef][]delivery.Row, changed []delivery.Row) error {
	was := make(map[delivery.ID]delivery.Row, len(changed))
	for _, rows := range messages {
		for _, row := range rows {
			was[row.ID] = row
		}
	}
	changes := make([]tell.Change, len(changed))
	for i, row := range changed {
		changes[i] = tell.Change{Was: was[row.ID], Is: row}
	}
	return tell.Deliveries(r.catalog, tell.InForce(r.catalog), tx, r.now, changes)
}

// floor returns how far back the slots of contacts matter, by the set in force. If that is not loaded, decide asks for it.
func (r *run) floor(due []store.DueReschedule) store.Floor {
	live := map[subject.WorkspaceID]*definition.Set{}
	for _, d := range due {
		if set, err := r.catalog.Loaded(d.Workspace, d.InForce); err == nil {
			live[d.Workspace] = set
		}
	}
	floors := admission.NewFloors(&r.catalog.Zones, r.now, nil)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time {
		if live[ws] == nil {
			return time.Time{}
		}
		return floors.Of(live[ws], c)
	}
}

// waiting is a message with its rules.
type waiting struct {
	delivery.Row
	ask     admission.SlotRequest
	trigger *definition.Trigger
}

// moved reports whether the plan differs from the stored row.
func (w waiting) moved(row delivery.Row) bool {
	return row.Status != w.Status || row.Step != w.Step || !row.SendAt.Equal(w.SendAt) || row.Hold != w.Hold || row.DeferredBy != w.DeferredBy ||
		row.FoldedInto != w.FoldedInto || row.Type != w.Type
}

// decide returns the messages that move, with their new values.
func (r *run) decide(people []person) (changed []delivery.Row, err error) {
	for _, p := range people {
		live, err := r.catalog.Loaded(p.Workspace, p.InForce)
		if err != nil {
			return nil, err
		}
		list, err := r.waiting(p, live)
		if err != nil {
			return nil, err
		}
		ledger := admission.NewLedger(&r.catalog.Zones, r.now)
		for _, w := range list {
			ledger.Release(w.ask, w.Slot, w.Type)
		}
		for _, w := range list {
			if row := r.place(ledger, w); w.moved(row) {
				changed = append(changed, row)
				r.entries = append(r.entries, admission.Entry(row, p.facts.ExtID, r.now))
			}
		}
		r.entries = append(r.entries, ledger.PassedOver(r.now)...)
	}
	return changed, nil
}

// waiting returns the messages of a contact with their rules, in the order in which they were due. A message that is not defined any more is left out:
// its next claim ends it.
func (r *run) waiting(p person, live *definition.Set) (list []waiting, err error) {
	rows := slices.SortedFunc(slices.Values(p.messages), func(a, b delivery.Row) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.ID, b.ID))
	})
	for _, row := range rows {
		w := waiting{Row: row}
		var flow *definition.Workflow
		if flow, w.trigger, err = r.rules(row, live); err != nil {
			return nil, err
		}
		if w.trigger == nil {
			continue
		}
		from := row.NotBefore
		if row.Step > 0 { // a reminder waits for as long as the first message may
			from = row.Due()
		}
		w.ask = admission.SlotRequest{
			Workspace: row.Workspace, Set: live, Person: p.facts, Channel: row.Channel, Type: flow.Type, Limits: w.trigger.Limits,
			Planned: admission.OwnClock(row, &r.catalog.Zones), Now: r.now, Until: w.trigger.Timing.ExpiresAt(from, from),
			Fold: w.trigger.Limits.AtSend == definition.LimitFold && row.Step == 0 && row.AttemptNo == 0 && !row.OutcomeUnknown(),
		}
		list = append(list, w)
	}
	return list, nil
}

// rules returns the rules of a message: of its own version if it is pinned, else of the one in force; no trigger if it is not defined any more. A
// waiting message counts as the type that its workflow has now, like every limit of the workflow.
func (r *run) rules(row delivery.Row, live *definition.Set) (*definition.Workflow, *definition.Trigger, error) {
	set := live
	if row.Definitions > 0 {
		var err error
		if set, err = r.catalog.Loaded(row.Workspace, row.Definitions); err != nil {
			return nil, nil, err
		}
	}
	w := set.Workflow(row.Workflow)
	if w == nil {
		return nil, nil, nil
	}
	return w, w.TriggerOf(row.Trigger, row.Message), nil
}

// place gives a message the first slot that its limits leave from now on.
func (r *run) place(ledger *admission.Ledger, w waiting) delivery.Row {
	row := w.Row
	row.Type = w.ask.Type
	verdict := ledger.Try(w.ask)
	var because trace.Limits
	if verdict.Reason != "" {
		because = ledger.Trace(w.ask, verdict)
	}
	placed, ok := ledger.Place(w.ask, row, verdict)
	if !ok {
		change := delivery.Skip(row, delivery.Policy{Timing: w.trigger.Timing, Awaits: w.trigger.Message.Survey != ""}, verdict.Reason, r.now)
		if row.Status, row.SendAt, row.Hold, row.Slot = change.Status, change.SendAt, change.Hold, (time.Time{}); row.Step == 0 {
			row.Status = delivery.Expired
		}
		row.Step, row.RemindersRemaining, row.Reason = change.Step, change.Remaining, verdict.Reason
		if row.ExpiresAt = change.ExpiresAt; !row.SendAt.IsZero() {
			row.ExpiresAt = time.Time{}
		}
		if change.Completed {
			row.CompletedAt = r.now
		}
		row.Trace = trace.Of(w.Row, w.trigger.Timing, verdict.Reason, r.now, row.SendAt, because)
		return row
	}
	placed.DueAt = time.Time{}
	if placed.DeferredBy != "" {
		placed.Trace = trace.Of(w.Row, w.trigger.Timing, placed.DeferredBy, r.now, placed.SendAt, because)
	}
	return placed
}
