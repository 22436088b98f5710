package fanout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// ofCalendar reports whether a row has no event of its own until it begins: it is due by a schedule, or a person started a run.
func ofCalendar(in due) bool {
	return in.Row.Source == instance.FromSchedule || in.Row.Source == instance.FromPerson
}

// scheduled decides about an occasion of the calendar, or of a manual run, and finds its successor.
func (r *run) scheduled(p *planned, in due, m definition.Match) (input expr.Input, err error) {
	if m.Trigger.OnSchedule() == nil {
		if in.InSeries() {
			return input, errGone
		}
		input = plan.Input(p.live, m.Workflow, nil, r.now)
		return input, r.begin(p, in, map[string]any{"trigger": m.Trigger.ID})
	}
	series, err := plan.SeriesOf(p.live, m, r.zones)
	if err != nil {
		return input, err
	}
	if in.OfZone() {
		if cancelled(p, in) {
			return input, nil
		}
		return r.ofZone(p, in, series)
	}
	if !in.InSeries() {
		payload := series.Payload(series.ByHand(r.now))
		return r.input(series, in, payload), r.begin(p, in, payload)
	}
	payload := series.Payload(series.Occasion(in.Row))
	input = r.input(series, in, payload)
	row, at := in.Row, r.comesAt(in)
	if in.Event != 0 { // it has begun, and goes on as decided then
		row.Attempts, row.Reason, at = 0, "", in.EventRow.ReceivedAt
	}
	o := series.CatchUp(row, at)
	if !in.Later { // else the end of the later one handles it
		p.successors = r.follow(in, series.Trigger.ID, o)
	}
	if series.ByContact() {
		p.zones = r.zonesOf(series, in)
	}
	if why := series.Ended(series.Occasion(in.Row), r.now); in.Event != 0 && series.ByContact() && why != "" { // ends the rest of it
		p.over = &outcome{Patch: instance.Patch{Status: instance.Deactivated, Reason: why}}
	}
	if in.Event != 0 {
		return input, nil
	}
	switch why := series.Ended(series.Occasion(in.Row), r.now); {
	case why != "":
		p.over, p.successors = &outcome{Patch: instance.Patch{Status: instance.Deactivated, Reason: why}}, nil
	case !o.Send:
		r.missed(p, in, m.Trigger, payload)
		p.over, p.count = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: o.Reason, Trace: trace.Trace{Skipped: o.Skipped}.String()}}, o.Skipped.Count
	case !in.PausedAt.IsZero(): // its condition is evaluated when the workflow is resumed
	case m.Trigger.When != nil && (p.zones == nil || !p.zones.opens) && !m.Trigger.When.Holds(input): // an occasion by zones asks when it is due in each
		p.over = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: reason.ConditionFalse}}
	default:
		return input, r.begin(p, in, payload)
	}
	return input, nil
}

// input returns what expressions read; an occasion that has begun reads the input of that instant.
func (r *run) input(s *plan.Series, in due, payload map[string]any) expr.Input {
	if in.Event != 0 {
		payload = in.EventRow.Payload
	}
	input := s.Input(payload, r.now)
	input.Meter = &r.meter
	return input
}

// begin stores what texts read of an occasion; nothing if its first chunk did so.
func (r *run) begin(p *planned, in due, payload map[string]any) error {
	if in.Event != 0 {
		return nil
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("write what is due: %w", err)
	}
	p.event = &store.EventRow{PayloadJSON: string(text), Trace: traceList(in.Trace), Event: subject.Event{
		ID: subject.EventID(r.newID()), Kind: subject.CalendarDue, OccurredAt: r.now, ReceivedAt: r.now, Payload: payload,
	}}
	return nil
}

// follow returns what is ensured with the end of an occasion: the next one, and before it a row for the skipped ones.
func (r *run) follow(in due, trigger string, o plan.Overdue) (successors []successor) {
	if o.Send && o.Skipped != nil {
		row := o.Row
		row.Status, row.Reason, row.CompletedAt = instance.Skipped, o.Reason, r.now
		row.Trace = trace.Trace{Skipped: o.Skipped}.String()
		successors = append(successors, r.successor(in, trigger, func(yield func(instance.Row) bool) { yield(row) }, o.Skipped.Count))
	}
	return append(successors, r.successor(in, trigger, o.Next, 0))
}

// successor is an occasion that has to exist: the first of its rows that has not ended.
type successor struct {
	rows    iter.Seq[instance.Row]
	trigger string
	record  string // that the occasion is about; empty: none
	count   int    // how many skipped occasions it represents
}

func (r *run) successor(in due, trigger string, rows iter.Seq[instance.Row], count int) successor {
	s := successor{trigger: trigger, count: count, rows: func(yield func(instance.Row) bool) {
		for row := range rows {
			row.Workspace, row.ID, row.Record = in.Workspace, instance.ID(r.newID()), in.Record
			row.Definitions, row.CreatedAt, row.EffectiveAt = cmp.Or(row.Definitions, in.InForce), r.now, in.EffectiveAt
			if !yield(row) {
				return
			}
		}
	}}
	if about := cmp.Or(in.Source, in.About); about != nil {
		s.record = about.Type + "/" + about.ExtID
	}
	return s
}

// entry reports a row that was made.
func (s successor) entry(row instance.Row, now time.Time) journal.Entry {
	e := journal.Entry{
		At: now, What: journal.Created, Workspace: row.Workspace, Workflow: row.Workflow, WorkflowVersion: row.WorkflowVersion,
		Trigger: s.trigger, Key: row.Key, Instance: row.ID, Reason: row.Reason, Due: row.DueAt, Count: s.count, Record: s.record,
	}
	if row.Status == instance.Skipped {
		e.What = journal.Skipped
	}
	return e
}
