package fanout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/joiner"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// evaluationWait is how long a due occasion waits whose record asks for another plan by now: until the evaluation that moves the occasion is done.
const evaluationWait = time.Second

// revalidate checks a due occasion that was planned by a record: do the present record and the definition in force still ask for it (R14, B30, B41)?
// If not, the occasion ends, and the record is evaluated, which plans what it asks for now. That is an outcome and no failure.
func (r *run) revalidate(p *planned, in due, m definition.Match) (input expr.Input, err error) {
	source := in.Source
	if source.Unreadable != nil {
		return input, source.Unreadable
	}
	states, err := condition.Parse(source.State)
	if err != nil {
		return input, err
	}
	observation := plan.Observation{Now: r.now, EvaluateAt: source.EvaluateAt, EvaluatedAt: source.EvaluatedAt, Meter: &r.meter}
	eval := plan.Due(p.live, m, source.Record, r.related[in.Workspace], states, observation, r.zones)
	if eval.Ahead == nil { // the trigger has a cooldown by now, and the evaluation that found so is over
		p.over = &outcome{Patch: instance.Patch{Status: instance.Deactivated, Reason: reason.RuleChanged}, evaluate: true}
		return input, nil
	}
	eval.Ahead.People = joiner.People(in.Own)
	desired, found := eval.Ahead.Find(in.Row)
	unseen := eval.Ahead.State.Fingerprint != states[condition.Name(m.Workflow.Name, m.Trigger.ID)].Ahead.Fingerprint
	newer := m.Workflow.Version > in.WorkflowVersion
	var backlog plan.Overdue
	if found && eval.Ahead.Course != nil {
		p.course = eval.Ahead.CourseOf(in.Row)
		p.at(desired.Position, m.Workflow, in)
		backlog = p.course.CatchUp(in.Row, desired, r.comesAt(in))
		if p.begins = true; in.InCourse() && !in.Beside() { // else what follows it exists
			p.successors = r.follow(in, p.course.Trigger.ID, backlog)
		}
	}
	switch {
	case !eval.Ahead.Known && (!found && (m.Trigger.OnPlan().Dates.ByContact || in.OfZone()) || found && plan.Collected(in.Row, desired)):
		// The trigger's evaluation decides whether it is due by zones.
		p.over = &outcome{Patch: instance.Patch{Status: instance.Pending, Delay: in.Delay, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: condition.TickAfter(r.now, m.Trigger.Watch().Check.Every)}}
	case !eval.Ahead.Known && !found:
		desired = eval.AsPlanned(in.Row)
	case !eval.Ahead.Known: // the trigger cannot be evaluated yet: what it planned holds
	case !found && unseen:
		// The record asks for something else than at its last evaluation. The next one withdraws this occasion, unless the record asks for it again
		// by then.
		p.over = r.awaitEvaluation(in)
	case !found:
		why := reason.SourceGone
		if eval.Ahead.Reason == reason.WorkflowInactive || eval.Ahead.Reason == reason.TriggerDisabled || eval.Ahead.Reason == reason.RecordClosed {
			why = eval.Ahead.Reason
		} else if in.OfPerson() && in.Own.Contact == 0 {
			why = reason.LeftAudience
		}
		p.over = &outcome{Patch: instance.Patch{Status: instance.Deactivated, Reason: why}, evaluate: true}
		if c := eval.Ahead.Course; c != nil && !in.OfPerson() && in.InCourse() { // an evaluation during its lease has left that to its end
			p.successors = []successor{r.successor(in, c.Trigger.ID, c.Coming(r.now), 0)}
		}
	case eval.Ahead.Inputs != in.InputHash && !newer:
		p.over = &outcome{Patch: instance.Patch{Status: instance.Pending, Hold: instance.HoldConflict, Reason: reason.InputConflict, RetryCount: in.RetryCount}}
	case in.Delay == instance.DelayedByRetry || !eval.Moves(in.Row, desired):
	case unseen && desired.Elsewhere != "", desired.Due.After(r.now) && (unseen || !in.OfZone()):
		p.over = r.awaitEvaluation(in) // because of an edit or a related record; the evaluation that writes so is still to come
	case desired.Due.After(r.now): // the rules of its zone have changed since its occasion began
		p.over = &outcome{Patch: instance.Patch{Status: instance.Pending, Delay: in.Delay, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: desired.Due}}
	}
	if p.over != nil || cancelled(p, in) {
		return input, nil
	}
	if backlog.Next != nil && !backlog.Send && in.RetryOf == 0 {
		p.count = backlog.Skipped.Count
		p.over = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: backlog.Reason, Trace: trace.Trace{Skipped: backlog.Skipped}.String()}}
		return input, nil
	}
	// An occasion that failed, was released or has begun is not late at any time (R2).
	if late := !in.HeldUp() && !plan.Begun(in.Row) && eval.Ahead.Course == nil; late && p.trigger.Timing.Stale(r.comesAt(in), desired.Ends(in.DueAt)) {
		p.over = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: reason.Stale}}
		return input, nil
	}
	input = plan.Input(p.live, m.Workflow, nil, r.now)
	input.Record = eval.Fields()
	if desired = r.byZones(p, in, &eval, desired); p.zones != nil && p.zones.opens { // nobody is notified yet
		return input, nil
	}
	if p.event, err = r.event(in, &eval, desired); err != nil {
		return input, err
	}
	return input, nil
}

// relate reads the records that those of due instances depend on.
func relate(tx *store.Tx, list []due) (map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record, error) {
	var sources []related.Record
	for _, in := range list {
		record := cmp.Or(in.Source, in.About)
		if record == nil || record.Unreadable != nil {
			continue
		}
		sources = append(sources, related.Record{Workspace: in.Workspace, Relations: in.live.Relations(record.Type), Record: record.Record})
	}
	read, err := related.Read(tx, sources)
	return read.ByWorkspace(), err
}

// awaitEvaluation makes an occasion wait until its record was evaluated.
func (r *run) awaitEvaluation(in due) *outcome {
	return &outcome{Patch: instance.Patch{Status: instance.Pending, Delay: in.Delay, Reason: in.Reason, RetryCount: in.RetryCount, NextRetryAt: r.now.Add(evaluationWait)}, evaluate: true}
}

// event stores the record as it is now: the texts, and the later chunks of a large audience, read the same record.
func (r *run) event(in due, l *plan.Evaluation, i plan.Desired) (*store.EventRow, error) {
	payload, err := json.Marshal(l.Payload(in.Source.Record, i, r.now))
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", in.Source.Type, in.Source.ExtID, err)
	}
	return &store.EventRow{PayloadJSON: string(payload), Trace: traceList(in.Trace), Event: subject.Event{
		ID: subject.EventID(r.newID()), Kind: subject.OccasionDue, OccurredAt: r.now, ReceivedAt: r.now,
	}}, nil
}

// traceList returns what an event holds of the trace of its occasion.
func traceList(text string) string {
	if _, ok := trace.Read(text); ok {
		return trace.List(text)
	}
	return trace.List()
}

// overEntry reports what happened to an occasion that was not expanded, and how many occasions it represents.
func (r *run) overEntry(in due, result outcome, count int) journal.Entry {
	what := journal.Withdrawn
	switch {
	case result.Hold != "":
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
