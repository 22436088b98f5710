package evaluator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/optout"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// decision is one call of decide: the writes collected so far.
type decision struct {
	*run
	ledger *admission.Ledger
	writes store.EvaluateWrites
}

// decide writes the outcome of the records whose audiences were read, for as many as one transaction may evaluate.
func (r *run) decide(people [][]store.People, stops admission.Stops) (store.EvaluateWrites, error) {
	r.entries, r.next, r.meter = nil, nil, expr.Meter{Calls: r.calls}
	d := decision{run: r, ledger: admission.NewLedger(&r.catalog.Zones, r.now), writes: store.EvaluateWrites{Made: map[subject.WorkspaceID]store.OccasionWrites{}}}
	d.ledger.Heed(stops)
	for i, of := range people {
		if i > 0 && r.meter.Full() {
			break
		}
		if s := r.records[i]; s.err != nil {
			d.putOff(s)
		} else {
			d.record(s, of)
		}
	}
	r.entries = append(r.entries, d.ledger.PassedOver(r.now)...)
	d.settle()
	return d.writes, r.calls.Wanted()
}

// stopped reads to whom of the people nothing is sent.
func (r *run) stopped(tx *store.Tx, people [][]store.People) (admission.Stops, error) {
	var of []admission.Address
	for i, each := range people {
		for n, w := range r.records[i].wanted {
			of = append(of, w.audience.Addresses(r.records[i].Workspace, w.Trigger, each[n])...)
		}
	}
	return optout.Stops(tx, func(ws subject.WorkspaceID) (key.Keyed, error) {
		known, err := r.catalog.Workspace(ws)
		return known.Addresses, err
	}, of)
}

// settle makes sure that a message that is withdrawn, and also superseded by a newer one of its context, is ended once.
func (d *decision) settle() {
	superseded := map[delivery.ID]bool{}
	for _, made := range d.writes.Made {
		for _, row := range made.Ended {
			superseded[row.ID] = true
		}
	}
	d.writes.Ended = slices.DeleteFunc(d.writes.Ended, func(row delivery.Row) bool { return superseded[row.ID] })
}

// record decides about one record.
func (d *decision) record(s *seen, people []store.People) {
	for _, f := range s.faded { // first, because what follows may take their slots
		d.withdraw(f.state, f.over)
	}
	for i, w := range s.wanted {
		d.occasion(s, w, people[i])
	}
	for _, l := range s.evals {
		if s.planChanged(l) {
			d.writePlan(s, l)
		}
		switch {
		case l.Err != nil:
			d.broken(s, l)
		case l.verdict.why != "":
			d.blocked(s, l)
		case !l.free.IsZero(): // evaluated twice at one instant
			l.again(l.free)
		}
		if l.State.Failed && !s.states[condition.Name(l.Workflow.Name, l.Trigger.ID)].Failed {
			d.failed(s, l)
		}
		for _, lapsed := range l.Lapsed {
			d.writes.Reset = append(d.writes.Reset, store.Throttle{ThrottleRef: s.throttle(l, lapsed.Context), Record: s.ID, FiredAt: lapsed.At})
		}
	}
	var next time.Time
	if links := d.links(s); store.LinkText(links) != s.Links {
		d.writes.Links = append(d.writes.Links, store.Links{Workspace: s.Workspace, ID: s.ID, Refs: links})
		if slices.ContainsFunc(links, func(r subject.RecordRef) bool { return r.Type == subject.ContactType || r.Type == subject.ChildrenType }) {
			next = d.now // a write of the contact, or of a child, that is not committed yet may look for the record before it finds the link
		}
	}
	states := s.states.Clone()
	for _, l := range s.evals {
		states[condition.Name(l.Workflow.Name, l.Trigger.ID)] = l.State
		if !l.next.IsZero() && (next.IsZero() || l.next.Before(next)) {
			next = l.next
		}
	}
	if !next.IsZero() && !next.After(d.now) { // an evaluation at once would give the same result
		next = d.now.Add(time.Microsecond)
	}
	d.writes.Evaluated = append(d.writes.Evaluated, store.Evaluated{Workspace: s.Workspace, ID: s.ID, State: states.String(), EvaluateAt: next})
}

// ladder is how long a record waits after each evaluation that could not be finished; the last wait repeats.
var ladder = [...]time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour} //nolint:gochecknoglobals // immutable

// putOff leaves a record unchanged if nothing can be decided about it, and retries later. The first time it stores a decision.
func (d *decision) putOff(s *seen) {
	next := d.now.Add(ladder[min(s.Failures, len(ladder)-1)])
	d.writes.Evaluated = append(d.writes.Evaluated, store.Evaluated{Workspace: s.Workspace, ID: s.ID, State: s.State, EvaluateAt: next, Failures: s.Failures + 1})
	d.entries = append(d.entries, journal.Entry{
		At: d.now, What: journal.Failed, Workspace: s.Workspace, Reason: reason.EvaluationFailed, Record: s.Type + "/" + s.ExtID, Error: s.err.Error(),
		Until: next, Again: s.Failures > 0,
	})
	if s.Failures > 0 {
		return
	}
	text, err := trace.Trace{Error: s.err.Error()}.Encode()
	if err != nil { // texts always have a JSON form
		text = ""
	}
	made := d.writes.Made[s.Workspace]
	made.Decisions = append(made.Decisions, store.Decision{ID: d.store.NewID(d.now), At: d.now, Record: s.ID, Reason: reason.EvaluationFailed, Trace: text})
	d.writes.Made[s.Workspace] = made
}

// sooner moves the next evaluation of a trigger forward to at.
func (l *evaluation) sooner(at time.Time) {
	if l.next.IsZero() || at.Before(l.next) {
		l.next = at
	}
}

// again plans the next try of a blocked firing; the ticks of an interval continue anyway.
func (l *evaluation) again(at time.Time) {
	if l.Rule.Every == 0 || l.Rule.Change {
		l.sooner(at)
	}
}

// blocked records that gate 1 prevented a firing. The first time after a firing it stores a decision; after that it only counts.
func (d *decision) blocked(s *seen, l *evaluation) {
	v := l.verdict
	l.again(v.until)
	var first bool
	l.State, first = l.State.Block(l.Context, v.stamp.FiredAt, s.UpdatedAt.After(s.EvaluatedAt) || l.Ticked)
	e := d.entry(journal.Throttled, s, l, v.why)
	e.Until, e.Again, e.Due = v.until, !first, l.At
	if v.why == reason.Throttled { // A20 gives this text
		e.Message = fmt.Sprintf("Rate limit not yet reached for workflow %s, trigger '%s'. Skipping delivery.", l.Workflow.Name, l.Trigger.ID)
	}
	if first {
		e.Error = l.shares()
	}
	d.entries = append(d.entries, e)
	if first {
		throttled := trace.Trace{Missing: l.Missing, At: d.now, FiredAt: v.stamp.FiredAt, Cooldown: l.Cooldown.String(), Until: v.until, Issues: l.Issues()}
		if !v.stamp.VoidAt.IsZero() {
			throttled.VoidAt = &v.stamp.VoidAt
		}
		d.keep(s, l, v.why, throttled)
	}
}

// shares names the fields that a record lacks; its cooldown is shared by all records that lack them.
func (l *evaluation) shares() string {
	if len(l.Missing) == 0 {
		return ""
	}
	return "cooldown: per: " + strings.Join(l.Missing, ", ") + " has no value: all records without it share one cooldown"
}

// broken reports a context that could not be computed, once until the record has another one.
func (d *decision) broken(s *seen, l *evaluation) {
	var first bool
	if l.State, first = l.State.Block("", time.Time{}, true); !first {
		return
	}
	e := d.entry(journal.Failed, s, l, reason.ExpressionFailed)
	e.Error = l.Err.Error()
	d.entries = append(d.entries, e)
	d.keep(s, l, reason.ExpressionFailed, trace.Trace{Error: e.Error})
}

// failed reports a condition that could not be evaluated and so counts as not met, once until it can be evaluated.
func (d *decision) failed(s *seen, l *evaluation) {
	e := d.entry(journal.Failed, s, l, l.Failed.Reason)
	e.Error = l.Failed.Source + ": " + l.Failed.Detail
	d.entries = append(d.entries, e)
	d.keep(s, l, e.Reason, trace.Trace{Error: e.Error})
}

// keep stores a decision that makes no instance.
func (d *decision) keep(s *seen, l *evaluation, why reason.Reason, because trace.Trace) {
	made := d.writes.Made[s.Workspace]
	made.Decisions = append(made.Decisions, store.Decision{
		ID: d.store.NewID(d.now), At: d.now, Record: s.ID, Context: l.Context, Workflow: l.Workflow.Name, WorkflowVersion: l.Workflow.Version,
		Trigger: l.Trigger.ID, Reason: why, Trace: because.String(),
	})
	d.writes.Made[s.Workspace] = made
}

// occasion makes the instance of an alert or of its end, with the deliveries for its audience.
func (d *decision) occasion(s *seen, w wanted, people store.People) {
	if w.cleared {
		d.withdraw(w.state, func(instance.Row) bool { return true })
		if len(w.audience.Refs) == 0 {
			return
		}
	}
	in, event := w.instance, w.event
	trigger := *w.Trigger
	if w.cleared { // reported once
		trigger.Timing.Reminders = nil
	}
	var rows, superseded []delivery.Row
	var entries []journal.Entry
	recipients, after := w.audience.Recipients(people)
	if most := trigger.MaxRecipients; most > 0 && len(recipients) > most && !w.cleared { // the fan-out puts it on hold
		recipients, after = recipients[:most], recipients[most].Before
	}
	people.After, in.Recipients = after, len(recipients)
	eligible := w.late
	for _, recipient := range recipients {
		from, of := len(rows), admission.Occasion{Instance: in, Trigger: &trigger, Set: s.set, Now: d.now, Begun: people.After != 0}
		rows = d.ledger.Deliveries(rows, of, recipient.Recipient, func() delivery.ID { return delivery.ID(d.store.NewID(d.now)) })
		for _, row := range rows[from:] {
			entries = append(entries, admission.Entry(row, recipient.Person.ExtID, d.now))
			eligible = eligible || row.Status == delivery.Scheduled
		}
		for _, row := range d.ledger.Ended() { // contacts who have the newer message now
			superseded, entries = append(superseded, row), append(entries, admission.Entry(row, recipient.Person.ExtID, d.now))
		}
	}
	if !eligible && people.After == 0 {
		if !w.cleared {
			d.nobody(s, w.evaluation, rows)
		}
		return
	}
	if w.late || people.After != 0 {
		in.Status, in.CompletedAt, in.Reason, in.ExpandCursor = instance.Pending, time.Time{}, "", int64(people.After)
	}
	made := d.writes.Made[s.Workspace]
	made.Events, made.Instances, made.Deliveries = append(made.Events, event), append(made.Instances, in), append(made.Deliveries, rows...)
	made.Ended = append(made.Ended, superseded...)
	d.writes.Made[s.Workspace] = made
	e := d.entry(journal.Created, s, w.evaluation, "")
	e.Key, e.Event, e.Instance, e.Due = in.Key, in.Event, in.ID, in.DueAt
	if !w.cleared && w.State.Latest == (condition.Latest{}) { // once an episode
		e.Error = w.shares()
	}
	d.entries = append(append(d.entries, e), entries...)
	if !w.cleared {
		d.fired(s, w.evaluation, in.ID)
	}
}

// fired stamps the context.
func (d *decision) fired(s *seen, l *evaluation, id instance.ID) {
	d.writes.Fired = append(d.writes.Fired, store.Throttle{
		ThrottleRef: s.throttle(l, l.Context), Trigger: l.Trigger.ID, Record: s.ID, Instance: id, FiredAt: l.At, Issues: l.Issues(),
	})
	l.State = l.State.Fire(l.Rule, l.Context, l.Outcome.Issues, l.At)
	l.again(l.At.Add(l.Cooldown))
}

// nobody reports an alert that has no audience: the context is not stamped, and the alert is tried again (product decision 8). rows are the deliveries of
// contacts who cannot be reached.
func (d *decision) nobody(s *seen, l *evaluation, rows []delivery.Row) {
	l.again(d.now.Add(retryAfter))
	var first bool
	l.State, first = l.State.Block(l.Context, time.Time{}, true)
	e := d.entry(journal.Skipped, s, l, reason.NoRecipient)
	e.Until, e.Again = l.next, !first
	d.entries = append(d.entries, e)
	if !first {
		return
	}
	why := map[reason.Reason]int{}
	for _, row := range rows {
		why[row.Reason]++
	}
	because := trace.Trace{At: d.now, People: new(int), Until: l.next}
	*because.People = len(rows)
	if len(rows) > 0 {
		because.Reasons.People = why
	}
	d.keep(s, l, reason.NoRecipient, because)
}

// instance makes the row of an occasion, with the event that holds the evaluated record.
func (r *run) instance(s *seen, w wanted) (in instance.Row, event store.EventRow, err error) {
	k, kind, due := w.Key(s.Record), subject.ConditionMet, w.Due
	if w.cleared {
		k, kind, due = w.ResolvedKey(s.Record), subject.ConditionCleared, r.now
	}
	payload, err := json.Marshal(w.Alert(s.Record, r.now))
	if err != nil {
		return in, event, fmt.Errorf("%s/%s: %w", s.Type, s.ExtID, err)
	}
	note, err := traceOf(w.evaluation, r.now).Encode()
	if err != nil {
		return in, event, fmt.Errorf("%s/%s: %w", s.Type, s.ExtID, err)
	}
	event = store.EventRow{PayloadJSON: string(payload), Trace: trace.List(note), Event: subject.Event{
		ID: subject.EventID(r.store.NewID(r.now)), Kind: kind, OccurredAt: r.now, ReceivedAt: r.now,
	}}
	in = instance.Row{
		Workspace: s.Workspace, ID: instance.ID(r.store.NewID(r.now)), Key: string(k), Workflow: w.Workflow.Name, WorkflowVersion: w.Workflow.Version,
		Definitions: s.set.Number, Type: w.Workflow.Type, Trigger: w.Trigger.ID, Source: instance.FromCondition, Event: event.ID, Record: s.ID, Episode: w.State.Episodes,
		Context: w.context(), Status: instance.Completed, DueAt: due, Reason: reason.Expanded, InputHash: w.Trigger.Inputs(), Trace: note,
		CreatedAt: r.now, CompletedAt: r.now,
	}
	return in, event, nil
}

// context is the name by which gate 1 knows an occasion; a notification that a condition cleared does not pass gate 1.
func (w wanted) context() string {
	if w.cleared {
		return ""
	}
	return w.Context
}

// traceOf is what a trigger evaluated of a record.
func traceOf(l *evaluation, now time.Time) trace.Trace {
	t := trace.Trace{Workflow: l.Workflow.Name, Version: l.Workflow.Version, Trigger: l.Trigger.ID, Reason: reason.Matched, Issues: l.Issues(), Missing: l.Missing}
	if !l.At.Equal(now) {
		t.Tick = &l.At
	}
	for _, j := range l.Judged {
		for _, c := range j.Clauses {
			t.Clauses = append(t.Clauses, trace.Clause{Issue: j.Issue, Line: c.Source, Met: c.Met, Reason: c.Reason, Field: c.Field, Value: c.Value, Detail: c.Detail})
		}
	}
	return t
}

func (r *run) entry(what journal.What, s *seen, l *evaluation, why reason.Reason) journal.Entry {
	return journal.Entry{
		At: r.now, What: what, Workspace: s.Workspace, Workflow: l.Workflow.Name, WorkflowVersion: l.Workflow.Version, Trigger: l.Trigger.ID,
		Reason: why, Record: s.Type + "/" + s.ExtID, Context: l.Context,
	}
}
