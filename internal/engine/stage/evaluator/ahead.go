package evaluator

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/joiner"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// Triggers that plan ahead make no deliveries here. If a record asks for something else than at its last evaluation, the evaluation compares the
// desired occurrences with the stored rows and writes the difference: it withdraws rows first, then ensures the desired ones (B32). The fan-out takes
// rows up when they are due.

// orphans returns evaluations of triggers that are defined no longer but have planned something or counted crossings.
func (s *seen) orphans() (evals []*evaluation) {
	known := map[string]bool{}
	for _, l := range s.evals {
		known[condition.Name(l.Workflow.Name, l.Trigger.ID)] = true
	}
	for _, name := range s.states.Names() {
		state := s.states[name]
		if known[name] || state.Ahead.Fingerprint == "" && state.Ahead.By == "" {
			continue
		}
		workflow, trigger, _ := strings.Cut(name, "/")
		state.Ahead.Fingerprint, state.Ahead.By, state.Ahead.Level = "", "", nil
		l := &evaluation{}
		l.Workflow, l.Trigger = &definition.Workflow{Name: workflow}, &definition.Trigger{ID: trigger}
		l.Ahead, l.State = &plan.Ahead{Known: true, Reason: reason.WorkflowInactive}, state
		if w := s.set.Workflow(workflow); w != nil && w.Enabled { // only the trigger was removed
			l.Ahead.Reason = reason.RuleChanged
		}
		evals = append(evals, l)
	}
	return evals
}

// planChanged reports whether the desired occurrences of an evaluation differ from the planned ones.
func (s *seen) planChanged(l *evaluation) bool {
	return l.Ahead != nil && l.Ahead.Known && l.Ahead.State.Fingerprint != s.states[condition.Name(l.Workflow.Name, l.Trigger.ID)].Ahead.Fingerprint
}

func (s *seen) planRef(l *evaluation) store.PlanRef {
	return planRef(s.Workspace, s.ID, &l.Evaluation)
}

// planRef names what a trigger has planned of a record, with the people who have courses of their own.
func planRef(ws subject.WorkspaceID, id subject.RecordID, l *plan.Evaluation) store.PlanRef {
	ref := store.PlanRef{Workspace: ws, Record: id, Workflow: l.Workflow.Name, Trigger: l.Trigger.ID, OfCourse: l.Ahead.Continues}
	if c := l.Ahead.Course; c != nil {
		ref.Since = c.DatesFrom()
		if c.Fresh() {
			ref.Own, ref.Resets = true, c.Resets()
		}
	}
	return ref
}

// know tells an evaluation what is stored of its course beside what waits.
func know(l *plan.Evaluation, stored store.Plan) {
	l.Ahead.People = joiner.People(stored.Own...)
	l.Ahead.Had(stored.Dated...)
}

// keys returns the names of the desired occurrences.
func keys(l *evaluation) []key.Instance {
	list := make([]key.Instance, len(l.Ahead.Desired))
	for i, desired := range l.Ahead.Desired {
		list[i] = desired.Key
	}
	return list
}

// writePlan writes the difference between the desired occurrences of a record and the stored rows.
func (d *decision) writePlan(s *seen, l *evaluation) {
	if l.Ahead.Error != "" && !l.State.Failed { // a failed condition is reported with all conditions
		e := d.entry(journal.Failed, s, l, l.Ahead.Reason)
		e.Error = l.Ahead.Error
		d.entries = append(d.entries, e)
		d.keep(s, l, l.Ahead.Reason, trace.Trace{Error: l.Ahead.Error})
	}
	for _, refused := range l.Ahead.Refused {
		e := d.entry(journal.Failed, s, l, reason.OutsideCalendar)
		e.Error = refused
		d.entries = append(d.entries, e)
		d.keep(s, l, reason.OutsideCalendar, trace.Trace{Error: refused})
	}
	stored := d.state.Plans[s.planRef(l)]
	know(&l.Evaluation, stored)
	for _, c := range l.Diff(standing(stored), plan.BySource, d.now) {
		if c.Changed() {
			d.change(s, l, stored, &c)
		}
	}
	d.unplan(l, stored)
}

// change writes and reports what happens to one occasion.
func (d *decision) change(s *seen, l *evaluation, stored store.Plan, c *plan.Change) {
	e := d.entry(whatOf(c), s, l, c.Row.Reason)
	e.Key, e.Instance, e.Due = c.Row.Key, c.Row.ID, c.Row.DueAt
	row := c.Row
	if c.Effect == plan.Inserted && c.Desired.Course {
		d.ensure(s, l, c)
		return
	}
	if c.Effect == plan.Inserted {
		if stored.Spent[c.Desired.Key] {
			return // it is done, and its rows are gone
		}
		if n := stored.Freed[c.Desired.Key]; n > 0 {
			row.Key = string(c.Desired.Key.Retry(n))
		}
		row.Workspace, row.ID, row.Workflow, row.Type, row.Trigger = s.Workspace, instance.ID(d.store.NewID(d.now)), l.Workflow.Name, l.Workflow.Type, l.Trigger.ID
		row.Definitions, row.Record, row.CreatedAt, row.Trace = s.set.Number, s.ID, d.now, d.planTrace(l, c.Desired)
		e.Key, e.Instance = row.Key, row.ID
		made := d.writes.Made[s.Workspace]
		made.Instances = append(made.Instances, row)
		d.writes.Made[s.Workspace] = made
	} else {
		if row.WorkflowVersion != c.Was.WorkflowVersion {
			row.Definitions = s.set.Number
		}
		d.writes.Planned = append(d.writes.Planned, row)
	}
	if c.Effect == plan.Conflict {
		e.Reason = reason.InputConflict
	}
	if reported := c.Effect != plan.Updated || c.Moved(); reported {
		d.entries = append(d.entries, e)
	}
}

// ensure makes the next message of a course. Which one that is depends on those that have ended.
func (d *decision) ensure(s *seen, l *evaluation, c *plan.Change) {
	first, instead, until := c.Desired, c.Instead, c.Until
	planned := d.planTrace(l, first)
	if slices.ContainsFunc(d.writes.Planned, func(row instance.Row) bool { return instead.ID != 0 && row.ID == instead.ID }) {
		instead.Version++ // it is written before
	}
	d.next = append(d.next, next{seen: s, evaluation: l, instead: instead, rows: func(yield func(instance.Row) bool) {
		for row := range c.Course.Rows(first, d.now) {
			if at := (schedule.Position{Round: row.Round - 1, Message: row.Message}); instead.ID != 0 && at == until {
				return
			}
			row.Workspace, row.ID, row.Record, row.Definitions = s.Workspace, instance.ID(d.store.NewID(d.now)), s.ID, s.set.Number
			if row.Key == string(first.Key) {
				row.Trace = planned
			}
			if !yield(row) {
				return
			}
		}
	}})
}

// next is a message of a course that has to exist: the first of its rows that has not ended.
type next struct {
	*seen
	*evaluation
	rows    iter.Seq[instance.Row]
	instead instance.Row // the one that waits until now, as it is when another one is made; no ID: none waits
}

// follow makes the next messages of courses, and reports them.
func (r *run) follow(tx *store.Tx) ([]tell.InstanceChange, error) {
	lists := make([]iter.Seq[instance.Row], len(r.next))
	for i, n := range r.next {
		lists[i] = n.rows
	}
	made, err := tx.EnsureOccasions(lists)
	if err != nil {
		return nil, err
	}
	var replaced []instance.Row
	changes := make([]tell.InstanceChange, len(made))
	for i, m := range made {
		n := r.next[m.Of]
		if row := n.instead; row.ID != 0 {
			e := r.entry(journal.Withdrawn, n.seen, n.evaluation, row.Reason)
			e.Key, e.Instance, e.Due = row.Key, row.ID, row.DueAt
			r.entries, replaced = append(r.entries, e), append(replaced, row)
		}
		e := r.entry(journal.Created, n.seen, n.evaluation, "")
		e.Key, e.Instance, e.Due = m.Key, m.ID, m.DueAt
		r.entries = append(r.entries, e)
		changes[i] = tell.InstanceChange{Is: m.Row}
	}
	if len(replaced) == 0 {
		return changes, nil
	}
	return changes, tx.WritePlanned(r.now, nil, replaced)
}

// standing returns the rows of occasions whose keys were not freed: a freed one may be planned again under another name.
func standing(stored store.Plan) []instance.Row {
	if len(stored.Freed) == 0 {
		return stored.Instances
	}
	return slices.DeleteFunc(slices.Clone(stored.Instances), func(row instance.Row) bool {
		base, n := key.Instance(row.Key).Everywhere().Base()
		return n < stored.Freed[base]
	})
}

// whatOf returns the journal's name of a change.
func whatOf(c *plan.Change) journal.What {
	switch c.Effect {
	case plan.Withdrawn:
		return journal.Withdrawn
	case plan.Conflict:
		return journal.Held
	case plan.Updated:
		return journal.Moved
	case plan.Reactivated, plan.Inserted, plan.Exists, plan.NotRevived:
	}
	if c.Row.Status == instance.Skipped {
		return journal.Skipped
	}
	return journal.Created
}

// unplan ends the rest of occasions that were due and are no longer desired: messages that were never sent, and the reminders of those that were.
func (d *decision) unplan(l *evaluation, stored store.Plan) {
	if l.Ahead.Course != nil { // the messages of its earlier rounds go on
		return
	}
	if l.Ahead.Reason == reason.RuleChanged || !l.Trigger.Limits.Revalidate && l.Ahead.Reason != reason.RecordClosed {
		return
	}
	desired := keys(l)
	gone, superseded := map[instance.ID]bool{}, map[instance.ID]bool{}
	for _, i := range stored.Instances {
		base, _ := key.Instance(i.Key).Everywhere().Base()
		gone[i.ID] = !slices.Contains(desired, base)
		_, superseded[i.ID] = l.Ahead.Find(i) // a daily occasion that is still desired is superseded by the one of the new day
	}
	why := l.Ahead.Reason
	if why == "" || why == reason.ConditionFalse || why == reason.ValueMissing {
		why = reason.ConditionCleared
	}
	for _, row := range stored.Deliveries {
		switch {
		case !gone[row.Instance] || !row.IntentAt.IsZero() && row.LeaseUntil.After(d.now): // in flight
		case row.Status == delivery.Scheduled && !reached(row):
			d.ledger.Requeue(row)
			row.Status, row.Reason, row.CompletedAt = delivery.Skipped, why, d.now
			if superseded[row.Instance] {
				row.Status, row.Reason = delivery.Superseded, reason.Superseded
			}
			row.Unplan()
			row.Slot, row.ExpiresAt, row.LeaseUntil, row.IntentAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
			d.writes.Unplanned = append(d.writes.Unplanned, row)
			d.entries = append(d.entries, admission.Entry(row, row.CustomerRef, d.now))
		case !row.LastSentAt.IsZero() && !row.SendAt.IsZero(): // the link still accepts an answer
			if row.Waits() {
				d.ledger.Requeue(row)
				row.Slot = time.Time{}
			}
			row.Unplan()
			row.RemindersRemaining = 0
			d.writes.Unplanned = append(d.writes.Unplanned, row)
		}
	}
}

// planTrace explains how an occasion was planned.
func (d *decision) planTrace(l *evaluation, i plan.Desired) string {
	t := traceOf(l, d.now)
	t.Planned = &trace.Planned{Target: i.Target, Zone: i.Zone, Threshold: i.Threshold}
	if i.Target != "" {
		t.Planned.Offset = i.Offset.String()
	}
	if i.Threshold != "" {
		t.Planned.Metric = &i.Metric
	}
	if i.Course {
		t.Planned.Iteration = &i.Iteration
	}
	return t.String()
}
