package fanout

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// unlooked is how long an occasion waits that is due by another plan than its record implies now: until the look that moves
// it is over.
const unlooked = time.Second

// revalidate asks, when something is due that was planned by a record, whether the record as it is now, and the definition
// in force, still imply it (R14, B30, B41). What no longer is ends, and its record is looked at, which plans what is. That is
// an outcome and no failure.
func (r *run) revalidate(p *planned, in store.DueInstance, m definition.Match) (input expr.Input, err error) {
	source := in.Source
	if source.Unreadable != nil {
		return input, source.Unreadable
	}
	states, err := condition.Parse(source.State)
	if err != nil {
		return input, err
	}
	glance := plan.Observation{Now: r.now, EvaluateAt: source.EvaluateAt, EvaluatedAt: source.EvaluatedAt, Meter: &r.meter}
	look := plan.Due(p.live, m, source.Record, r.related[in.Workspace], states, glance, &r.catalog.Zones)
	if look.Ahead == nil { // the trigger has a cooldown by now, and the look that found so is over
		p.over = &store.FanoutResult{Status: instance.Deactivated, Reason: reason.RuleChanged, Evaluate: true}
		return input, nil
	}
	implied, found := look.Ahead.Find(in.Row)
	unseen := look.Ahead.State.Fingerprint != states[condition.Name(m.Workflow.Name, m.Trigger.ID)].Ahead.Fingerprint
	newer := m.Workflow.Version > in.WorkflowVersion
	switch {
	case !look.Ahead.Known && !found && m.Trigger.Dates.ByContact: // whether it is due by zones is seen when the trigger looks
		p.over = &store.FanoutResult{Status: instance.Pending, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: condition.TickAfter(r.now, m.Trigger.Check.Every)}
	case !look.Ahead.Known && !found:
		implied = look.AsPlanned(in.Row)
	case !look.Ahead.Known: // it is not time for the trigger to look: what it planned holds
	case !found && unseen:
		// What is implied has changed since the last look. The next one withdraws this, unless it is implied again by then.
		p.over = r.unlooked(in)
	case !found:
		why := reason.SourceGone
		if look.Ahead.Reason == reason.WorkflowInactive || look.Ahead.Reason == reason.TriggerDisabled || look.Ahead.Reason == reason.RecordClosed {
			why = look.Ahead.Reason
		}
		p.over = &store.FanoutResult{Status: instance.Deactivated, Reason: why, Evaluate: true}
	case look.Ahead.Inputs != in.InputHash && !newer:
		p.over = &store.FanoutResult{Status: instance.Pending, Held: true, Reason: reason.InputConflict, RetryCount: in.RetryCount}
	case in.Reason == reason.RetryByOperator || !look.Moves(in.Row, implied):
	case unseen && implied.Elsewhere != "", implied.Due.After(r.now) && (unseen || !plan.OfZone(in.Row)):
		p.over = r.unlooked(in) // by an edit or a parent, and the look that writes so is still to come
	case implied.Due.After(r.now): // the rules of its zone have changed since its occasion began
		p.over = &store.FanoutResult{Status: instance.Pending, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: implied.Due}
	}
	if p.over != nil || cancelled(p, in) {
		return input, nil
	}
	// What failed, was released or has begun is not late, whatever the time (R2).
	if late := !in.HeldUp() && !plan.Begun(in.Row); late && p.trigger.Timing.Stale(r.comesAt(in), implied.Ends(in.DueAt)) {
		p.over = &store.FanoutResult{Status: instance.Skipped, Reason: reason.Stale}
		return input, nil
	}
	input = plan.Input(p.live, m.Workflow, nil, r.now)
	input.Record = look.Fields()
	if implied = r.byZones(p, in, &look, implied); p.zones != nil && p.zones.opens { // nobody is told yet
		return input, nil
	}
	if p.event, err = r.event(in, &look, implied); err != nil {
		return input, err
	}
	return input, nil
}

// relate says which records have to be read that those of due instances depend on.
func (r *run) relate(due []store.DueInstance, read store.Related) (more []store.RelatedRef) {
	r.related = read.ByWorkspace()
	for _, in := range due {
		if in.Source == nil || in.Source.Unreadable != nil {
			continue
		}
		set, err := r.catalog.Loaded(in.Workspace, in.InForce)
		if err != nil {
			continue // what comes next tells of it
		}
		for _, ref := range plan.Related(r.related[in.Workspace]).Unread(set.Relations(in.Source.Type), in.Source.Record) {
			more = append(more, store.RelatedRef{Workspace: in.Workspace, RecordRef: ref})
		}
	}
	return more
}

// unlooked has an occasion wait until its record was looked at.
func (r *run) unlooked(in store.DueInstance) *store.FanoutResult {
	return &store.FanoutResult{Status: instance.Pending, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: r.now.Add(unlooked), Evaluate: true}
}

// event holds the record as it is seen now: texts, and whoever expands a large audience later, read the same.
func (r *run) event(in store.DueInstance, l *plan.Evaluation, i plan.Desired) (*store.EventRow, error) {
	payload, err := json.Marshal(l.Payload(in.Source.Record, i, r.now))
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", in.Source.Type, in.Source.ExtID, err)
	}
	return &store.EventRow{PayloadJSON: string(payload), Trace: traceList(in.Trace), Event: subject.Event{
		ID: subject.EventID(r.store.NewID(r.now)), Kind: subject.OccasionDue, OccurredAt: r.now, ReceivedAt: r.now,
	}}, nil
}

// traceList is what an event holds of the trace of its occasion.
func traceList(trace string) string {
	if trace != "" && json.Valid([]byte(trace)) {
		return "[" + trace + "]"
	}
	return "[]"
}

// overEntry tells what became of an occasion that was not expanded, and for how many it stands.
func (r *run) overEntry(in store.DueInstance, result store.FanoutResult, count int) journal.Entry {
	what := journal.Withdrawn
	switch {
	case result.Held:
		what = journal.Held
	case result.Status == instance.Skipped:
		what = journal.Skipped
	case result.Status == instance.Pending:
		what = journal.Retried
	}
	e := entry(what, in, result, r.now)
	e.Until, e.Again = result.NextRetryAt, what == journal.Retried
	if e.Count = count; in.Source != nil {
		e.Record = in.Source.Type + "/" + in.Source.ExtID
	}
	return e
}
