// Package expander turns due instances into deliveries, one for each person of the audience.
//
// A step takes a bounded batch in one transaction: the rows are held by row locks, so a crash loses nothing and a
// second process passes over them. A large audience is taken up in chunks, one a transaction. What cannot be computed climbs the ladder of retries and is then held.
package expander

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/audience"
	"github.com/carillonhq/carillon/internal/engine/catalog"
	"github.com/carillonhq/carillon/internal/engine/gate"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// ladder is what a run waits after each failure before it is held (decision 31).
var ladder = [...]time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}

// loads is how many definition sets are fetched before a smaller batch is tried.
const loads = 20

// Store is what the expander needs of the store.
type Store interface {
	ExpandDue(ctx context.Context, now time.Time, limit int, floor store.Floor,
		relate func([]store.DueInstance, store.Relatives) []store.Relative,
		resolve func([]store.DueInstance) ([]store.Audience, error),
		decide func([]store.DueInstance, []store.People) ([]store.ExpandResult, error)) (int, error)
	NewID(now time.Time) int64
}

// AfterChunk is the point at which a step can be made to die: what it wrote is committed, and nobody was told.
const AfterChunk = "after_chunk"

// Expander is the stage.
type Expander struct {
	store     Store
	catalog   *catalog.Catalog
	journal   journal.Writer
	failpoint func(point string) error
}

// New makes the stage. An error of failpoint ends a step there as if the process had died; nil = never.
func New(s Store, c *catalog.Catalog, w journal.Writer, failpoint func(point string) error) *Expander {
	if failpoint == nil {
		failpoint = func(string) error { return nil }
	}
	return &Expander{store: s, catalog: c, journal: w, failpoint: failpoint}
}

// Step expands up to limit due instances and returns how many it took up.
func (x *Expander) Step(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := x.catalog.Refresh(ctx); err != nil {
		return 0, err
	}
	// Each instance of a batch may be pinned to a set of its own, and fewer sets are kept than a batch has rows.
	for tries := 1; ; tries++ {
		r := run{Expander: x, now: now}
		n, err := x.store.ExpandDue(ctx, now, limit, r.floor(), r.relate, r.resolve, r.decide)
		if err == nil {
			if n == 0 {
				return 0, nil // what stands in r is of a try that was not committed
			}
			if err := x.failpoint(AfterChunk); err != nil {
				return 0, err
			}
			for _, e := range r.entries {
				x.journal.Write(e)
			}
			return n, nil
		}
		if loaded, loadErr := x.catalog.Load(ctx, err); loadErr != nil {
			return 0, fmt.Errorf("expand due instances: %w", loadErr)
		} else if !loaded {
			return 0, fmt.Errorf("expand due instances: %w", err)
		}
		if tries%loads == 0 {
			limit = max(limit/4, 1)
		}
		if err := context.Cause(ctx); err != nil {
			return 0, fmt.Errorf("expand due instances: %w", err)
		}
	}
}

// run is one attempt of a step; its functions may be called again from the beginning.
type run struct {
	*Expander
	now     time.Time
	live    map[subject.WorkspaceID]*definition.Set // in force
	planned []planned
	kin     map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record // that the records of the instances name
	types   []string                                                      // of what is expanded
	entries []journal.Entry
}

// planned is what is known of an instance before its people are: the definitions it belongs to, and whom they name.
type planned struct {
	live     *definition.Set // in force
	trigger  *definition.Trigger
	audience audience.Plan
	event    *store.EventRow     // of what was planned by a record: that record, as it is now
	over     *store.ExpandResult // what becomes of it instead
	seeds    []store.Seed        // of the calendar: what follows once it has ended or is held
	count    int                 // of the calendar: for how many occasions it stands that are not sent
	zones    *zonal              // of a schedule that follows the zones of its people
	err      error
}

// resolve says whom each instance concerns.
func (r *run) resolve(due []store.DueInstance) ([]store.Audience, error) {
	r.planned, r.live, r.types = make([]planned, len(due)), map[subject.WorkspaceID]*definition.Set{}, []string{}
	audiences := make([]store.Audience, len(due))
	for i, in := range due {
		p := &r.planned[i]
		if !slices.Contains(r.types, in.Type) {
			r.types = append(r.types, in.Type)
		}
		input, err := r.prepare(p, in)
		if err == nil {
			input, err = r.resume(p, in, input)
		}
		p.err = err
		r.pause(p, in)
		if p.err == nil && p.over == nil {
			r.live[in.Workspace] = p.live
			ws, err := r.catalog.Workspace(in.Workspace)
			if err != nil {
				return nil, err
			}
			p.audience, p.err = audience.Of(p.trigger, input, ws.Addresses, subject.ContactID(in.ExpandCursor))
			if p.zones != nil {
				p.zones.narrow(&p.audience)
			}
		}
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

// pause puts an occasion aside whose workflow is paused, also one that fails: nothing of it is tried meanwhile. What has come to
// an end by now, or was too late before the pause began, ends.
func (r *run) pause(p *planned, in store.DueInstance) {
	var missing *catalog.Missing
	if in.PausedAt.IsZero() || p.over != nil || errors.Is(p.err, errGone) || errors.As(p.err, &missing) {
		return
	}
	p.over, p.seeds, p.err = &store.ExpandResult{
		Status: instance.Pending, Held: true, Reason: reason.WorkflowPaused, RetryCount: in.RetryCount, NextRetryAt: in.NextRetryAt,
		Cursor: subject.ContactID(in.ExpandCursor),
	}, nil, nil
}

// comesAt is by when an occasion is late or not: to wait for a paused workflow is no lateness (R2).
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

// prepare finds the version that an instance belongs to, its own when pinned, else the latest, and the set in force; and
// what its expressions read. Of what was planned by a record it asks whether it still is.
func (r *run) prepare(p *planned, in store.DueInstance) (input expr.Input, err error) {
	if p.live, err = r.catalog.Loaded(in.Workspace, in.InForce); err != nil {
		return input, err
	}
	set := p.live
	if in.Source == nil && !ofCalendar(in) { // else it follows its definition
		if set, err = r.catalog.Loaded(in.Workspace, in.Definitions); err != nil {
			return input, err
		}
	}
	w := set.Workflow(in.Workflow)
	if w == nil || w.TriggerByID(in.Trigger) == nil {
		return input, errGone
	}
	if p.trigger = w.TriggerByID(in.Trigger); !p.trigger.Pin {
		set = p.live
		if w = set.Workflow(in.Workflow); w == nil || w.TriggerByID(in.Trigger) == nil {
			return input, errGone
		}
		p.trigger = w.TriggerByID(in.Trigger)
	}
	if in.Source != nil {
		return r.revalidate(p, in, definition.Match{Workflow: w, Trigger: p.trigger})
	}
	if ofCalendar(in) {
		return r.scheduled(p, in, definition.Match{Workflow: w, Trigger: p.trigger})
	}
	ev := in.EventRow.Event
	input = plan.Input(set, w, plan.EventFields(ev), r.now)
	if record, issues, _, ok := plan.AlertFields(ev); ok {
		input.Event, input.Record, input.Issues = nil, record, issues
	}
	return input, nil
}

// resume has an occasion whose first people are taken up go on with the version with which it began, whatever that of now
// says of its audience and channels (R17). That its trigger is no more was found before, and ends it.
func (r *run) resume(p *planned, in store.DueInstance, input expr.Input) (expr.Input, error) {
	if in.ExpandCursor == 0 || p.over != nil || p.trigger.Pin {
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

// floor says how far back the slots of people matter, by the set in force of their workspace.
func (r *run) floor() store.Floor {
	floors := sync.OnceValue(func() *gate.Floors { return gate.NewFloors(&r.catalog.Zones, r.now, r.types) }) // known when people are read
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time { return floors().Of(r.live[ws], c) }
}

// decide makes the deliveries of each instance.
func (r *run) decide(due []store.DueInstance, people []store.People) ([]store.ExpandResult, error) {
	r.entries = make([]journal.Entry, 0, 2*len(due))
	book := gate.NewBook(&r.catalog.Zones)
	results := make([]store.ExpandResult, len(due))
	for i, in := range due {
		p := r.planned[i]
		if p.err != nil {
			results[i] = r.fail(in, p.err)
			results[i].Seeds = p.follows(results[i])
			continue
		}
		if p.over != nil {
			results[i] = *p.over
			r.entries = append(r.entries, r.overEntry(in, *p.over, p.count))
			results[i].Seeds = p.follows(results[i])
			continue
		}
		result := store.ExpandResult{Status: instance.Completed, Reason: reason.Expanded, Cursor: people[i].After, Event: p.event}
		if p.event != nil {
			in.Event = p.event.ID
		}
		begun := in.ExpandCursor != 0 || people[i].After != 0
		if begun && in.ExpandCursor == 0 && !p.trigger.Pin {
			in.Definitions, result.Definitions = in.InForce, in.InForce
		}
		for _, recipient := range p.audience.Recipients(people[i]) {
			from := len(result.Deliveries)
			o := gate.Occasion{Instance: in.Row, Trigger: p.trigger, Set: p.live, Now: r.now, Begun: begun}
			if p.zones != nil {
				var theirs bool
				if o.Instance.DueAt, theirs = p.zones.due(r, in, recipient.Person, people[i].Told); !theirs {
					continue
				}
			}
			result.Deliveries = book.Deliveries(result.Deliveries, o, recipient, func() delivery.ID { return delivery.ID(r.store.NewID(r.now)) })
			ended := book.Ended()
			result.Ended = append(result.Ended, ended...)
			for _, row := range slices.Concat(result.Deliveries[from:], ended) {
				r.entries = append(r.entries, gate.Entry(row, recipient.Person.ExtID, r.now))
			}
		}
		if p.zones != nil && p.zones.opens {
			result.Seeds = r.seeds(in, p.zones)
		}
		switch {
		case p.zones != nil && p.zones.opens && result.Cursor == 0: // until it is over everywhere
			result.Status, result.Reason, result.NextRetryAt = instance.Pending, "", p.zones.series.EndsAt(in.Row)
			result.Seeds = append(result.Seeds, p.seeds...)
		case result.Cursor != 0: // there are more people: another chunk
			result.Status, result.Reason = instance.Pending, ""
		case len(result.Deliveries) == 0 && in.ExpandCursor == 0 && !audience.OfEvent(p.trigger) && (p.zones == nil || p.zones.row != ""):
			result.Reason = reason.NoRecipient
		}
		result.Seeds = append(result.Seeds, p.follows(result)...)
		results[i] = result
		r.entries = append(r.entries, book.PassedOver(r.now)...)
		if result.Status == instance.Completed {
			r.entries = append(r.entries, entry(journal.Expanded, in, result, r.now))
		}
	}
	return results, nil
}

// follows is what is ensured with what becomes of an occasion: nothing, while it goes on.
func (p *planned) follows(result store.ExpandResult) []store.Seed {
	if result.Status == instance.Pending && !result.Held {
		return nil
	}
	return p.seeds
}

// fail climbs the ladder; at its end a person decides.
func (r *run) fail(in store.DueInstance, cause error) store.ExpandResult {
	result := store.ExpandResult{
		Status: instance.Pending, Reason: reason.AudienceFailed, RetryCount: in.RetryCount + 1, Trace: cause.Error(), Cursor: subject.ContactID(in.ExpandCursor),
	}
	what := journal.Retried
	switch {
	case errors.Is(cause, errGone):
		result.Status, result.Reason, what = instance.Deactivated, reason.WorkflowInactive, journal.Cancelled
	case in.RetryCount < len(ladder):
		result.NextRetryAt = r.now.Add(ladder[in.RetryCount])
	default:
		result.Held, what = true, journal.Held
	}
	e := entry(what, in, result, r.now)
	e.Error, e.Until = cause.Error(), result.NextRetryAt
	r.entries = append(r.entries, e)
	return result
}

func entry(what journal.What, in store.DueInstance, result store.ExpandResult, now time.Time) journal.Entry {
	return journal.Entry{
		At: now, What: what, Workspace: in.Workspace, Workflow: in.Workflow, WorkflowVersion: in.WorkflowVersion,
		Trigger: in.Trigger, Key: in.Key, Event: in.Event, Instance: in.ID, Reason: result.Reason, Due: in.DueAt,
	}
}
