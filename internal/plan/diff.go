package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// Cause is what made the engine compare the desired occasions with the stored rows.
type Cause string

// The causes.
const (
	BySource Cause = "source" // an input of the trigger has changed: by a write, by time or by an edit
	ByRepair Cause = "repair" // reconciliation: it creates missing rows and revives only withdrawn ones (product decision 23)
)

// Effect is what a comparison does to a row.
type Effect string

// The effects (B20–B23).
const (
	Inserted    Effect = "inserted"
	Updated     Effect = "updated"     // it was pending already; its due instant may have moved
	Reactivated Effect = "reactivated" // it had ended without being sent
	Exists      Effect = "exists"      // it is completed, or being processed
	Conflict    Effect = "conflict"    // the same key with other inputs: a person decides
	NotRevived  Effect = "skipped"     // this cause must not revive it
	Withdrawn   Effect = "withdrawn"
)

// Change is the result of a comparison for one occasion.
type Change struct {
	Effect  Effect
	Row     instance.Row // the row after the change; of an inserted row only the key, the status and the fields about its due instant are set
	Was     instance.Row
	Desired Desired // zero when the row is withdrawn
	Course  *Course // of an inserted message of a course
	// Instead is set for a message of a course that comes before the one that waits, whose row this is, withdrawn: it is written if the
	// message, or one between the two, is made. All of them may have ended, and then the row stays. Until is the position of that row.
	Instead instance.Row
	Until   schedule.Position
}

// Changed reports whether the row must be written.
func (c *Change) Changed() bool { return c.Effect == Inserted || c.Row != c.Was }

// Moved reports whether the due instant of a pending row changes.
func (c *Change) Moved() bool { return c.Effect == Updated && !c.Row.DueAt.Equal(c.Was.DueAt) }

// Diff compares the desired occasions of a trigger for a record with all its rows for that record. It returns the changes: first the
// rows to withdraw, then the rows to ensure (B32), in the order of the offsets or thresholds. Rows must not contain rows whose keys
// were freed (product decision 64).
//
// A row of an older version of the workflow is moved to the present one without comparing its inputs: the definition
// itself has changed, so different inputs are no conflict.
func (l *Evaluation) Diff(rows []instance.Row, by Cause, now time.Time) (changes []Change) {
	a := l.Ahead
	if a.Course != nil {
		return l.diffCourse(rows, by, now)
	}
	for _, row := range rows {
		if _, desired := a.Find(row); desired || row.Status != instance.Pending || Begun(row) || row.Processing(now) {
			continue
		}
		changes = append(changes, l.withdrawn(row, now))
	}
	for _, row := range rows { // an occasion creates and revives its rows of zones when it begins; here only the pending ones are updated
		if i, desired := a.Find(row); desired && row.OfZone() && row.Status == instance.Pending {
			changes = append(changes, l.ensure(row, i, by, now))
		}
	}
	for _, i := range a.Desired {
		row, found := standsFor(rows, i.Key)
		if !found {
			changes = append(changes, l.insert(i, now))
			continue
		}
		changes = append(changes, l.ensure(row, i, by, now))
	}
	return changes
}

// withdrawn withdraws a row that is no longer desired.
func (l *Evaluation) withdrawn(row instance.Row, now time.Time) Change {
	c := Change{Effect: Withdrawn, Row: row, Was: row}
	c.Row.Status, c.Row.Delay, c.Row.Reason, c.Row.CompletedAt = instance.Deactivated, "", l.withdrawal(row), now
	c.Row.NextRetryAt, c.Row.ExpandCursor = time.Time{}, 0
	c.Row.Unhold()
	return c
}

// standsFor finds the row of an occasion: the one with the highest retry number in its key.
func standsFor(rows []instance.Row, k key.Instance) (row instance.Row, found bool) {
	latest := -1
	for _, r := range rows {
		if base, n := key.Instance(r.Key).Base(); base == k && n > latest {
			row, found, latest = r, true, n
		}
	}
	return row, found
}

// Begun reports whether some contacts of an occasion have their deliveries already, so that the occasion continues as it began (R17).
// An occasion that only collects the zones of its contacts, and has no deliveries yet, has not begun.
func Begun(row instance.Row) bool { return row.Event != 0 }

// insert plans an occasion that has no row yet (B20). An occasion that is too late is stored as skipped (product decision 28).
func (l *Evaluation) insert(i Desired, now time.Time) Change {
	c := Change{Effect: Inserted, Desired: i}
	c.Row.Key, c.Row.Source, c.Row.Status = string(i.Key), instance.FromPlan, instance.Pending
	if i.Course {
		c.Row.Round, c.Row.Message, c.Row.MessageDate, c.Row.MessageNumber = i.Position.Round+1, i.Position.Message, i.Dated.Date.String(), i.Dated.Number
	}
	l.place(&c.Row, i, now)
	return c
}

// place sets the due instant of a row from its occasion.
func (l *Evaluation) place(row *instance.Row, i Desired, now time.Time) {
	row.DueAt, row.LocalDate, row.Timezone = i.Due, "", i.Zone
	if i.Due.IsZero() {
		row.DueAt = now.Add(l.Trigger.OnPlan().Dates.Offsets[0].Exact())
	} else {
		row.LocalDate = i.Date.String()
	}
	row.InputHash, row.WorkflowVersion = l.Ahead.Inputs, l.Workflow.Version
	if l.Trigger.Timing.Stale(now, i.Ends(row.DueAt)) {
		row.Status, row.Delay, row.Reason, row.CompletedAt = instance.Skipped, "", reason.Stale, now
	}
}

// ensure compares an occasion with its row (B21–B23).
func (l *Evaluation) ensure(row instance.Row, i Desired, by Cause, now time.Time) Change {
	c := Change{Row: row, Was: row, Desired: i}
	ended := row.Status == instance.Completed || row.Status == instance.Skipped
	// A crossing has a key of its own, so reverting an edit does not revive its failed or cancelled message.
	if final := by == ByRepair || l.Trigger.Crosses(); final && (row.Status == instance.Failed || row.Status == instance.Cancelled) {
		c.Effect = NotRevived
		return c
	}
	if row.InputHash != l.Ahead.Inputs && row.WorkflowVersion >= l.Workflow.Version {
		c.Effect = Conflict
		c.Row.PutOnHold(instance.HoldConflict, now)
		if !ended && !Begun(row) && l.Moves(row, i) { // the due instant is not an input (product decision 21)
			c.Row.DueAt, c.Row.LocalDate, c.Row.Timezone = i.Due, i.Date.String(), i.Zone
		}
		return c
	}
	switch {
	case ended || Begun(row) || row.Processing(now):
		c.Effect = Exists
	case row.Status == instance.Pending:
		c.Effect = Updated
		if i.Elsewhere != "" && by == BySource && !row.HeldUp() { // collect the contacts' zones again: there may be new ones
			c.Row.NextRetryAt, c.Row.ExpandCursor = time.Time{}, 0
		}
		if l.Moves(row, i) && !(row.Delay == instance.DelayedByRetry && !i.Due.After(now)) { // a row that a person retries late keeps its instant
			c.Row.DueAt, c.Row.LocalDate, c.Row.Timezone, c.Row.NextRetryAt = i.Due, i.Date.String(), i.Zone, time.Time{}
		}
		if row.InputHash != l.Ahead.Inputs {
			c.Row.InputHash, c.Row.WorkflowVersion = l.Ahead.Inputs, l.Workflow.Version
		}
	default:
		c.Effect = Reactivated
		c.Row.Status, c.Row.Reason, c.Row.Delay = instance.Pending, "", ""
		if row.Held() {
			c.Row.PutOnHold(row.Hold, now)
		}
		c.Row.CompletedAt, c.Row.RetryCount, c.Row.NextRetryAt = time.Time{}, 0, time.Time{}
		c.Row.ExpandCursor = 0
		l.place(&c.Row, i, now)
	}
	return c
}

// Moves reports whether an occasion is due at another instant than its row. A change of zone does not move it when the trigger keeps
// the zone, unless the row was due by the zone of each contact.
func (l *Evaluation) Moves(row instance.Row, i Desired) bool {
	return !i.Due.IsZero() && !i.Due.Equal(row.DueAt) && !(l.Trigger.OnPlan().Dates.KeepZone && i.Zone != row.Timezone && row.Timezone != firstZone)
}

// Find returns the desired occasion of a row; for the row of a zone, as it is in that zone. For a trigger that fires once a day, a
// row of an earlier day stays desired while its threshold is reached: it may still wait for its offset.
func (a *Ahead) Find(row instance.Row) (Desired, bool) {
	if a.Course != nil {
		own := a.CourseOf(row)
		if own == nil {
			return Desired{}, false
		}
		return own.find(row)
	}
	base, _ := key.Instance(row.Key).Everywhere().Base()
	for _, i := range a.Desired {
		if i.Key != base {
			continue
		}
		if zone := key.Instance(row.Key).Zone(); zone != "" {
			return a.In(i, zone)
		}
		return i, true
	}
	if lasting := key.Lasting(base); lasting != base {
		for _, i := range a.Desired {
			if key.Lasting(i.Key) == lasting {
				return i, true
			}
		}
	}
	return Desired{}, false
}

// withdrawal returns why a row is no longer desired.
func (l *Evaluation) withdrawal(row instance.Row) reason.Reason {
	a := l.Ahead
	switch {
	case a.Reason == reason.WorkflowInactive || a.Reason == reason.TriggerDisabled || a.Reason == reason.RecordClosed:
		return a.Reason
	case row.InputHash != a.Inputs:
		return reason.RuleChanged
	case a.Course != nil:
		return a.withdrawal(row)
	case l.Trigger.Anchor == nil:
		return l.unreached(row)
	case len(a.Desired) > 0 && slices.ContainsFunc(a.Desired, func(i Desired) bool { return target(i.Key) == target(key.Instance(row.Key)) }):
		return reason.RuleChanged // the same date, without this offset
	case len(a.Desired) > 0 || a.Reason == reason.ValueMissing && a.Field == l.Trigger.Anchor.Source():
		return reason.DateChanged
	case a.Reason == reason.ExpressionFailed || a.Reason == reason.CostExceeded:
		return a.Reason
	}
	return reason.ConditionCleared
}

// unreached returns why a threshold is no longer reached: the metric fell below it, or the threshold was removed.
func (l *Evaluation) unreached(row instance.Row) reason.Reason {
	plan := l.Trigger.OnPlan()
	if plan == nil || plan.Metric == nil || plan.Metric.Has(key.ThresholdOf(key.Instance(row.Key))) {
		return reason.ConditionCleared
	}
	return reason.RuleChanged
}

// target returns the key of an occasion without its offset and without the workflow's type.
func target(k key.Instance) string {
	base, _ := k.Everywhere().Base()
	_, text, _ := strings.Cut(string(base), ":")
	return text[:max(strings.LastIndexByte(text, ':'), 0)]
}
