// Package fanout turns due instances into deliveries, one for each contact of the audience.
//
// A step takes a bounded batch in one transaction. Row locks hold the batch, so a crash loses nothing and a second process skips these rows. A large
// audience is expanded in chunks, one transaction each. An instance that fails is retried and then put on hold; see ladder.go. If the definition sets
// retry.lease, a transaction of its own takes the instance under a lease first, so that the death of its worker is noticed.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/audience"
	"github.com/carillonhq/carillon/internal/engine/catalog"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// loads is how many definition sets are loaded before a smaller batch is tried.
const loads = 20

// Store is what the fan-out needs of the store.
type Store interface {
	FanOutDue(ctx context.Context, now time.Time, limit int, floor store.Floor,
		relate func([]store.DueInstance, store.Related) []store.RelatedRef,
		resolve func([]store.DueInstance) ([]store.Audience, error),
		decide func([]store.DueInstance, []store.People) ([]store.FanoutResult, error)) (int, error)
	FanOutTaken(ctx context.Context, now time.Time, taken []store.TakenInstance, floor store.Floor,
		relate func([]store.DueInstance, store.Related) []store.RelatedRef,
		resolve func([]store.DueInstance) ([]store.Audience, error),
		decide func([]store.DueInstance, []store.People) ([]store.FanoutResult, error)) (int, error)
	NewID(now time.Time) int64
	// GivenUpUntil is set when the database is a restored copy: what was due up to this instant is not sent.
	GivenUpUntil() time.Time
}

// The names of the failpoints.
const (
	AfterTaken = "after_taken" // instances are under a lease, and nothing else is done
	AfterChunk = "after_chunk" // the chunk is committed, and its journal entries are not written
)

// Fanout is the stage.
type Fanout struct {
	store     Store
	catalog   *catalog.Catalog
	journal   journal.Writer
	failpoint func(point string) error
}

// New makes the stage. An error of failpoint ends a step there as if the process had died; nil = never.
func New(s Store, c *catalog.Catalog, w journal.Writer, failpoint func(point string) error) *Fanout {
	if failpoint == nil {
		failpoint = func(string) error { return nil }
	}
	return &Fanout{store: s, catalog: c, journal: w, failpoint: failpoint}
}

// Step expands up to limit due instances and returns how many it took.
func (x *Fanout) Step(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := x.catalog.Refresh(ctx); err != nil {
		return 0, err
	}
	n, taken, err := x.step(ctx, now, limit, func(r *run, limit int) (int, error) {
		return x.store.FanOutDue(ctx, now, limit, r.floor(), r.relate, r.resolve, r.decide)
	})
	if err != nil || len(taken) == 0 {
		return n, err
	}
	if err := x.failpoint(AfterTaken); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // giving up here would eval like a worker that has died
	for done := 0; done < len(taken); {
		n, _, err := x.step(ctx, now, len(taken)-done, func(r *run, limit int) (int, error) {
			r.taken = true
			return x.store.FanOutTaken(ctx, now, taken[done:min(done+limit, len(taken))], r.floor(), r.relate, r.resolve, r.decide)
		})
		if err != nil {
			return 0, err
		}
		if n == 0 { // the lease had run out, and others have the rest
			break
		}
		done += n
	}
	return n, nil
}

// step runs one transaction, again with the definitions that it lacks, and then writes its journal entries. taken are the instances of which it only
// took the lease.
func (x *Fanout) step(ctx context.Context, now time.Time, limit int, expand func(r *run, limit int) (int, error)) (int, []store.TakenInstance, error) {
	// Every instance of a batch may be pinned to a different set, and the catalog keeps fewer sets than a batch has rows.
	for tries := 1; ; tries++ {
		r := run{Fanout: x, now: now}
		n, err := expand(&r, limit)
		if err == nil {
			if n == 0 {
				return 0, nil, nil // r holds the results of a try that was not committed
			}
			if err := x.failpoint(AfterChunk); err != nil {
				return 0, nil, err
			}
			for _, e := range r.entries {
				x.journal.Write(e)
			}
			return n, r.took, nil
		}
		if loaded, loadErr := x.catalog.Load(ctx, err); loadErr != nil {
			return 0, nil, fmt.Errorf("expand due instances: %w", loadErr)
		} else if !loaded {
			return 0, nil, fmt.Errorf("expand due instances: %w", err)
		}
		if tries%loads == 0 {
			limit = max(limit/4, 1)
		}
		if err := context.Cause(ctx); err != nil {
			return 0, nil, fmt.Errorf("expand due instances: %w", err)
		}
	}
}

// run is one attempt of a step; its functions may be called again from the beginning.
type run struct {
	*Fanout
	now     time.Time
	live    map[subject.WorkspaceID]*definition.Set // in force
	planned []planned
	related map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record // the records that those of the instances name
	types   []string                                                      // of the expanded instances
	entries []journal.Entry
	taken   bool                  // the instances are already under a lease
	took    []store.TakenInstance // those of which it only took the lease
	meter   expr.Meter            // of what resolve or decide evaluates
}

// planned is what is known of an instance before its audience is read.
type planned struct {
	live       *definition.Set // in force
	set        *definition.Set // the set that the instance belongs to
	trigger    *definition.Trigger
	audience   audience.Plan
	event      *store.EventRow     // of an occasion planned by a record: that record, as it is now
	over       *store.FanoutResult // its result, if it is not expanded
	successors []store.Successor   // of the calendar: made once it has ended or is on hold
	count      int                 // of the calendar: how many skipped occasions it represents
	zones      *zonal              // of an occasion that follows the zones of its contacts
	err        error
	lease      time.Duration // the step only takes a lease of this length
}

// resolve returns the audience of each instance, for as many as one transaction may evaluate.
func (r *run) resolve(due []store.DueInstance) ([]store.Audience, error) {
	r.meter = expr.Meter{}
	r.planned, r.live, r.types = make([]planned, len(due)), map[subject.WorkspaceID]*definition.Set{}, []string{}
	audiences := make([]store.Audience, len(due))
	for i, in := range due {
		if i > 0 && r.meter.Full() {
			return audiences[:i], nil
		}
		p := &r.planned[i]
		if !slices.Contains(r.types, in.Type) {
			r.types = append(r.types, in.Type)
		}
		ws, err := r.catalog.Workspace(in.Workspace)
		if err != nil {
			return nil, err
		}
		p.err = guarded(func() error { return r.evaluation(p, in, ws) })
		var missing *catalog.Missing
		if errors.As(p.err, &missing) {
			return nil, p.err
		}
		if p.err == nil {
			audiences[i] = p.audience.Audience
		}
	}
	return audiences, nil
}

// evaluation finds the result of an instance, or its audience.
func (r *run) evaluation(p *planned, in store.DueInstance, ws catalog.Workspace) error {
	m, err := r.find(p, in)
	if err == nil && in.PausedAt.IsZero() {
		if taken, err := r.leased(p, in); taken || err != nil {
			return err
		}
	}
	var input expr.Input
	if err == nil {
		input, err = r.prepare(p, in, m)
	}
	if err == nil {
		input, err = r.resume(p, in, input)
	}
	if err = r.pause(p, in, err); err != nil || p.over != nil {
		return err
	}
	r.live[in.Workspace], input.Meter = p.live, &r.meter
	p.audience, err = audience.Of(p.trigger, input, ws.Addresses, subject.ContactID(in.ExpandCursor))
	switch {
	case p.zones != nil:
		p.zones.narrow(&p.audience)
	case in.Attempts > 0 && (in.Source != nil || ofCalendar(in)): // it may have rows of zones, from before an edit
		p.audience.Occasion = key.Instance(in.Key)
	}
	return err
}

// pause parks an occasion whose workflow is paused, even one that fails: it is not retried meanwhile. An occasion that has ended by now, or was too
// late before the pause began, ends.
func (r *run) pause(p *planned, in store.DueInstance, err error) error {
	var missing *catalog.Missing
	if in.PausedAt.IsZero() || p.over != nil || errors.Is(err, errGone) || errors.As(err, &missing) {
		return err
	}
	p.over, p.successors = &store.FanoutResult{
		Status: instance.Pending, Held: true, Reason: reason.WorkflowPaused, RetryCount: in.RetryCount, NextRetryAt: in.NextRetryAt,
		Cursor: subject.ContactID(in.ExpandCursor),
	}, nil
	return nil
}

// comesAt is the instant by which an occasion's lateness is measured: waiting for a paused workflow is no lateness (R2).
func (r *run) comesAt(in store.DueInstance) time.Time {
	switch at := in.PausedAt; {
	case at.IsZero() || at.After(r.now):
		return r.now
	case at.Before(in.DueAt):
		return in.DueAt
	default:
		return at
	}
}

var errGone = errors.New("the trigger is no longer defined")

// find returns the version that an instance belongs to (its own if pinned, else the latest) and the set in force.
func (r *run) find(p *planned, in store.DueInstance) (m definition.Match, err error) {
	if p.live, err = r.catalog.Loaded(in.Workspace, in.InForce); err != nil {
		return m, err
	}
	set := p.live
	if set.Workflow(in.Workflow) == nil { // a deleted workflow sends nothing, whatever version the row is pinned to
		return m, errGone
	}
	if in.Source == nil && !ofCalendar(in) { // else it follows its definition
		if set, err = r.catalog.Loaded(in.Workspace, in.Definitions); err != nil {
			return m, err
		}
	}
	w := set.Workflow(in.Workflow)
	if w == nil || w.TriggerByID(in.Trigger) == nil {
		return m, errGone
	}
	if p.trigger = w.TriggerByID(in.Trigger); !p.trigger.Pin {
		set = p.live
		if w = set.Workflow(in.Workflow); w == nil || w.TriggerByID(in.Trigger) == nil {
			return m, errGone
		}
		p.trigger = w.TriggerByID(in.Trigger)
	}
	p.set = set
	return definition.Match{Workflow: w, Trigger: p.trigger}, nil
}

// prepare returns what the expressions of an instance read. It revalidates an occasion that was planned by a record.
func (r *run) prepare(p *planned, in store.DueInstance, m definition.Match) (input expr.Input, err error) {
	if in.Source != nil {
		return r.revalidate(p, in, m)
	}
	if ofCalendar(in) {
		return r.scheduled(p, in, m)
	}
	ev := in.EventRow.Event
	input = plan.Input(p.set, m.Workflow, plan.EventFields(ev), r.now)
	if record, issues, _, ok := plan.AlertFields(ev); ok {
		input.Event, input.Record, input.Issues = nil, record, issues
	}
	if elsewhere := plan.Elsewhere(ev); elsewhere != "" && p.trigger.Dates != nil {
		p.zones = r.zonesOfRecord(p, in, elsewhere, false)
		cancelled(p, in)
	}
	return input, nil
}

// resume makes an occasion whose first chunk is done continue with the version with which it began, whatever the latest one says of its audience and
// channels (R17). If its trigger was removed, find has ended it already.
func (r *run) resume(p *planned, in store.DueInstance, input expr.Input) (expr.Input, error) {
	if in.ExpandCursor == 0 || in.Event == 0 || p.over != nil || p.trigger.Pin {
		return input, nil
	}
	set, err := r.catalog.Loaded(in.Workspace, in.Definitions)
	if err != nil {
		return input, err
	}
	if w := set.Workflow(in.Workflow); w != nil && w.TriggerByID(in.Trigger) != nil {
		p.trigger, input.Vars, input.TemplateID = w.TriggerByID(in.Trigger), w.Vars, w.ExtID
	}
	return input, nil
}

// floor returns how far back the slots of contacts matter, by the set in force of their workspace.
func (r *run) floor() store.Floor {
	floors := sync.OnceValue(func() *admission.Floors { return admission.NewFloors(&r.catalog.Zones, r.now, r.types) }) // known when the contacts are read
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time { return floors().Of(r.live[ws], c) }
}

// decide makes the deliveries of each instance.
func (r *run) decide(due []store.DueInstance, people []store.People) ([]store.FanoutResult, error) {
	r.entries, r.meter = make([]journal.Entry, 0, 2*len(due)), expr.Meter{}
	ledger := admission.NewLedger(&r.catalog.Zones, r.now)
	results := make([]store.FanoutResult, len(due))
	for i, in := range due {
		if i > 0 && r.meter.Full() {
			return results[:i], nil
		}
		p := r.planned[i]
		if p.err != nil {
			results[i] = r.fail(&p, in, p.err)
			results[i].Successors = p.follows(results[i])
			continue
		}
		if p.lease > 0 {
			results[i] = r.take(p, in)
			continue
		}
		if p.over != nil {
			results[i] = *p.over
			r.entries = append(r.entries, r.overEntry(in, *p.over, p.count))
			results[i].Successors = p.follows(results[i])
			continue
		}
		from := len(r.entries)
		if err := guarded(func() (err error) { results[i], err = r.expand(ledger, p, in, people[i]); return err }); err != nil {
			r.entries = r.entries[:from]
			results[i] = r.fail(&p, in, err)
			results[i].Successors = p.follows(results[i])
		}
	}
	return results, nil
}

// expand makes the deliveries of one instance.
func (r *run) expand(ledger *admission.Ledger, p planned, in store.DueInstance, people store.People) (store.FanoutResult, error) {
	recipients, after, err := p.audience.Recipients(people)
	if err != nil {
		return store.FanoutResult{}, err
	}
	people.After = after
	result := store.FanoutResult{Status: instance.Completed, Reason: reason.Expanded, Cursor: people.After, Event: p.event}
	if p.event != nil {
		in.Event = p.event.ID
	}
	begun := (in.ExpandCursor != 0 || people.After != 0) && (p.event != nil || in.Event != 0)
	if begun && in.ExpandCursor == 0 && !p.trigger.Pin {
		in.Definitions, result.Definitions = in.InForce, in.InForce
	}
	for _, recipient := range recipients {
		from := len(result.Deliveries)
		o := admission.Occasion{Instance: in.Row, Trigger: p.trigger, Set: p.live, Now: r.now, Begun: begun}
		if people.Notified[recipient.Person.ID] {
			continue
		}
		if p.zones != nil {
			var theirs bool
			if o.Instance.DueAt, theirs = p.zones.due(r, in, recipient.Person, people); !theirs {
				continue
			}
		}
		result.Deliveries = ledger.Deliveries(result.Deliveries, o, recipient, func() delivery.ID { return delivery.ID(r.store.NewID(r.now)) })
		ended := ledger.Ended()
		result.Ended = append(result.Ended, ended...)
		for _, row := range slices.Concat(result.Deliveries[from:], ended) {
			r.entries = append(r.entries, admission.Entry(row, recipient.Person.ExtID, r.now))
		}
	}
	if p.zones != nil && p.zones.opens {
		result.Successors = r.successors(in, p.zones)
	}
	switch {
	case p.zones != nil && p.zones.opens && result.Cursor == 0: // until it is over everywhere
		result.Status, result.Reason, result.NextRetryAt = instance.Pending, "", p.zones.ends
		result.Successors = append(result.Successors, p.successors...)
	case result.Cursor != 0: // the audience goes on: another chunk
		result.Status, result.Reason = instance.Pending, ""
	case len(result.Deliveries) == 0 && in.ExpandCursor == 0 && !audience.OfEvent(p.trigger) && (p.zones == nil || p.zones.row != "" || len(people.Zones) == 0):
		result.Reason = reason.NoRecipient
	}
	result.Successors = append(result.Successors, p.follows(result)...)
	r.entries = append(r.entries, ledger.PassedOver(r.now)...)
	if result.Status == instance.Completed {
		r.entries = append(r.entries, entry(journal.Expanded, in, result, r.now))
	}
	return result, nil
}

// follows returns what is ensured with the result of an occasion: nothing while it continues.
func (p *planned) follows(result store.FanoutResult) []store.Successor {
	if result.Status == instance.Pending && !result.Held {
		return nil
	}
	return p.successors
}

func entry(what journal.What, in store.DueInstance, result store.FanoutResult, now time.Time) journal.Entry {
	return journal.Entry{
		At: now, What: what, Workspace: in.Workspace, Workflow: in.Workflow, WorkflowVersion: in.WorkflowVersion,
		Trigger: in.Trigger, Key: in.Key, Event: in.Event, Instance: in.ID, Reason: result.Reason, Due: in.DueAt,
	}
}
