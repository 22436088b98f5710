package evaluator

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// Triggers that plan ahead make no deliveries here. A look compares what they imply of the record with what is stored, if
// that is another thing than at the look before, and writes the difference: what is withdrawn, then what is ensured (B32).
// The expander takes up what is due.

// orphans are looks of triggers that are defined no longer, and have planned something, or counted crossings.
func (s *seen) orphans() (looks []*evaluation) {
	known := map[string]bool{}
	for _, l := range s.looks {
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
		if w := s.set.Workflow(workflow); w != nil && w.Enabled { // the trigger alone is gone
			l.Ahead.Reason = reason.RuleChanged
		}
		looks = append(looks, l)
	}
	return looks
}

// replans reports whether what a look implies is something else than what was planned.
func (s *seen) replans(l *evaluation) bool {
	return l.Ahead != nil && l.Ahead.Known && l.Ahead.State.Fingerprint != s.states[condition.Name(l.Workflow.Name, l.Trigger.ID)].Ahead.Fingerprint
}

func (s *seen) planRef(l *evaluation) store.PlanRef {
	return store.PlanRef{Workspace: s.Workspace, Record: s.ID, Workflow: l.Workflow.Name, Trigger: l.Trigger.ID}
}

// keys are the names of what is implied.
func keys(l *evaluation) []key.Instance {
	list := make([]key.Instance, len(l.Ahead.Desired))
	for i, implied := range l.Ahead.Desired {
		list[i] = implied.Key
	}
	return list
}

// replan writes the difference between what a trigger implies of a record and what is stored.
func (d *decision) replan(s *seen, l *evaluation) {
	if l.Ahead.Error != "" && !l.State.Failed { // a condition that fails is told of with all conditions
		e := d.entry(journal.Failed, s, l, l.Ahead.Reason)
		e.Error = l.Ahead.Error
		d.entries = append(d.entries, e)
		d.keep(s, l, l.Ahead.Reason, failedTrace{Error: l.Ahead.Error})
	}
	for _, refused := range l.Ahead.Refused {
		e := d.entry(journal.Failed, s, l, reason.OutsideCalendar)
		e.Error = refused
		d.entries = append(d.entries, e)
		d.keep(s, l, reason.OutsideCalendar, failedTrace{Error: refused})
	}
	stored := d.state.Plans[s.planRef(l)]
	for _, c := range l.Diff(standing(stored), plan.BySource, d.now) {
		if c.Changed() {
			d.change(s, l, stored, &c)
		}
	}
	d.unplan(l, stored)
}

// change writes what becomes of one occasion, and tells of it.
func (d *decision) change(s *seen, l *evaluation, stored store.Plan, c *plan.Change) {
	e := d.entry(whatOf(c), s, l, c.Row.Reason)
	e.Key, e.Instance, e.Due = c.Row.Key, c.Row.ID, c.Row.DueAt
	row := c.Row
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
	if told := c.Effect != plan.Updated || c.Moved(); told {
		d.entries = append(d.entries, e)
	}
}

// standing are the rows of occasions whose keys were not freed: what was freed may be planned again, under another name.
func standing(stored store.Plan) []instance.Row {
	if len(stored.Freed) == 0 {
		return stored.Instances
	}
	return slices.DeleteFunc(slices.Clone(stored.Instances), func(row instance.Row) bool {
		base, n := key.Instance(row.Key).Everywhere().Base()
		return n < stored.Freed[base]
	})
}

// whatOf is how the journal calls a change.
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

// unplan ends what waits of occasions that are no longer implied although they were due: messages that were never sent, and
// the reminders of those that were.
func (d *decision) unplan(l *evaluation, stored store.Plan) {
	if l.Ahead.Reason == reason.RuleChanged || !l.Trigger.Limits.Revalidate && l.Ahead.Reason != reason.RecordClosed {
		return
	}
	implied := keys(l)
	gone, superseded := map[instance.ID]bool{}, map[instance.ID]bool{}
	for _, i := range stored.Instances {
		base, _ := key.Instance(i.Key).Everywhere().Base()
		gone[i.ID] = !slices.Contains(implied, base)
		_, superseded[i.ID] = l.Ahead.Find(i) // said once a day, and still to be said: by that of the new day
	}
	why := l.Ahead.Reason
	if why == "" || why == reason.ConditionFalse || why == reason.ValueMissing {
		why = reason.ConditionCleared
	}
	for _, row := range stored.Deliveries {
		switch {
		case !gone[row.Instance] || !row.IntentAt.IsZero() && row.LeaseUntil.After(d.now): // what is on its way is on its way
		case row.Status == delivery.Scheduled && !reached(row):
			d.book.Requeue(row)
			row.Status, row.Reason, row.CompletedAt = delivery.Skipped, why, d.now
			if superseded[row.Instance] {
				row.Status, row.Reason = delivery.Superseded, reason.Superseded
			}
			row.SendAt, row.Slot, row.ExpiresAt, row.LeaseUntil, row.IntentAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
			d.writes.Unplanned = append(d.writes.Unplanned, row)
			d.entries = append(d.entries, admission.Entry(row, row.CustomerRef, d.now))
		case !row.LastSentAt.IsZero() && !row.SendAt.IsZero(): // the link still takes an answer
			if row.Waits() {
				d.book.Requeue(row)
				row.Slot = time.Time{}
			}
			row.SendAt, row.RemindersRemaining = time.Time{}, 0
			d.writes.Unplanned = append(d.writes.Unplanned, row)
		}
	}
}

// planTrace says by what an occasion was planned, so that it can be explained.
func (d *decision) planTrace(l *evaluation, i plan.Desired) string {
	t := traceOf(l, d.now)
	t.Planned = &planned{Target: i.Target, Zone: i.Zone, Threshold: i.Threshold}
	if i.Target != "" {
		t.Planned.Offset = i.Offset.String()
	}
	if i.Threshold != "" {
		t.Planned.Metric = &i.Metric
	}
	text, err := json.Marshal(t)
	if err != nil { // instants beyond the year 9999 have no JSON form
		return ""
	}
	return string(text)
}

// planned is what an occasion was planned by.
type planned struct {
	Target    string   `json:"target,omitempty"` // the date or instant that it is about
	Offset    string   `json:"offset,omitempty"` // from there
	Zone      string   `json:"timezone,omitempty"`
	Threshold string   `json:"threshold,omitempty"`
	Metric    *float64 `json:"metric,omitempty"`
}
