package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
)

// Cause is what a comparison of the implied with the stored follows from.
type Cause string

// The causes.
const (
	BySource Cause = "source" // what a trigger reads has changed: a write, time, an edit
	ByRepair Cause = "repair" // reconciliation: it makes what is missing, and revives only what was withdrawn (decision 23)
)

// Effect is what a comparison makes of a row.
type Effect string

// The effects (B20–B23).
const (
	Inserted    Effect = "inserted"
	Updated     Effect = "updated"     // it waits already; it may be due at another instant
	Reactivated Effect = "reactivated" // it was ended without having been sent
	Exists      Effect = "exists"      // it is done, or being done
	Conflict    Effect = "conflict"    // the same key with other inputs: a person decides
	NotRevived  Effect = "skipped"     // not for this cause to revive
	Withdrawn   Effect = "withdrawn"
)

// Change is what a comparison makes of one occasion.
type Change struct {
	Effect  Effect
	Row     instance.Row // as it is to be; of one that is inserted only what Due, Status and the like say
	Was     instance.Row
	Desired Desired // none where it is withdrawn
}

// Changed reports whether the row is to be written.
func (c *Change) Changed() bool { return c.Effect == Inserted || c.Row != c.Was }

// Moved reports whether what waits is due at another instant than before.
func (c *Change) Moved() bool { return c.Effect == Updated && !c.Row.DueAt.Equal(c.Was.DueAt) }

// Diff compares what a trigger implies of a record with all rows that it has of it, and says what is to be done: first what
// is withdrawn, then what is ensured (B32), in the order of the offsets or thresholds. Rows whose keys were freed
// (decision 64) are not among them.
//
// A row of an older version of the workflow is taken to the present one without a comparison of its inputs (model.md §7):
// what has changed there is the definition, and not what it says about the same thing.
func (l *Evaluation) Diff(rows []instance.Row, by Cause, now time.Time) (changes []Change) {
	a := l.Ahead
	for _, row := range rows {
		if _, implied := a.Find(row); implied || row.Status != instance.Pending || Begun(row) || row.Processing(now) {
			continue
		}
		c := Change{Effect: Withdrawn, Row: row, Was: row}
		c.Row.Status, c.Row.Reason, c.Row.CompletedAt = instance.Deactivated, l.withdrawal(row), now
		c.Row.NextRetryAt, c.Row.ExpandCursor = time.Time{}, 0
		c.Row.Unhold()
		changes = append(changes, c)
	}
	for _, row := range rows { // an occasion makes its rows of zones, and revives them, when it begins: those that wait follow it
		if i, implied := a.Find(row); implied && OfZone(row) && row.Status == instance.Pending {
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

// standsFor finds the row of an occasion: that of its latest name.
func standsFor(rows []instance.Row, k key.Instance) (row instance.Row, found bool) {
	latest := -1
	for _, r := range rows {
		if base, n := key.Instance(r.Key).Base(); base == k && n > latest {
			row, found, latest = r, true, n
		}
	}
	return row, found
}

// Begun reports whether some people of an occasion have their deliveries already: it goes on as it began (R17). One that goes over
// its people for their zones, and has told nobody yet, has not.
func Begun(row instance.Row) bool { return row.Event != 0 }

// insert plans an occasion that there is no row of (B20). One that is too late is kept as such (decision 28).
func (l *Evaluation) insert(i Desired, now time.Time) Change {
	c := Change{Effect: Inserted, Desired: i}
	c.Row.Key, c.Row.Status = string(i.Key), instance.Pending
	l.place(&c.Row, i, now)
	return c
}

// place writes down when an occasion is due.
func (l *Evaluation) place(row *instance.Row, i Desired, now time.Time) {
	row.DueAt, row.LocalDate, row.Timezone = i.Due, "", i.Zone
	if i.Due.IsZero() {
		row.DueAt = now.Add(l.Trigger.Dates.Offsets[0].Exact())
	} else {
		row.LocalDate = i.Date.String()
	}
	row.InputHash, row.WorkflowVersion = l.Ahead.Inputs, l.Workflow.Version
	if l.Trigger.Timing.Stale(now, i.Ends(row.DueAt)) {
		row.Status, row.Reason, row.CompletedAt = instance.Skipped, reason.Stale, now
	}
}

// ensure compares an occasion with its row (B21–B23).
func (l *Evaluation) ensure(row instance.Row, i Desired, by Cause, now time.Time) Change {
	c := Change{Row: row, Was: row, Desired: i}
	ended := row.Status == instance.Completed || row.Status == instance.Skipped
	// A crossing has a key of its own: what has become of its message is not undone by an edit that is taken back.
	if final := by == ByRepair || l.Trigger.Fire == definition.FireFalseToTrue; final && (row.Status == instance.Failed || row.Status == instance.Cancelled) {
		c.Effect = NotRevived
		return c
	}
	if row.InputHash != l.Ahead.Inputs && row.WorkflowVersion >= l.Workflow.Version {
		c.Effect = Conflict
		c.Row.Hold(now)
		if row.Status == instance.Pending {
			c.Row.Reason = reason.InputConflict
		}
		if !ended && !Begun(row) && l.Moves(row, i) { // when it is due is no input (decision 21)
			c.Row.DueAt, c.Row.LocalDate, c.Row.Timezone = i.Due, i.Date.String(), i.Zone
		}
		return c
	}
	switch {
	case ended || Begun(row) || row.Processing(now):
		c.Effect = Exists
	case row.Status == instance.Pending:
		c.Effect = Updated
		if i.Elsewhere != "" && by == BySource && !row.HeldUp() { // it goes over its people again: there may be other zones by now
			c.Row.NextRetryAt, c.Row.ExpandCursor = time.Time{}, 0
		}
		if l.Moves(row, i) && !(row.Reason == reason.RetryByOperator && !i.Due.After(now)) { // else a person has it done late
			c.Row.DueAt, c.Row.LocalDate, c.Row.Timezone, c.Row.NextRetryAt = i.Due, i.Date.String(), i.Zone, time.Time{}
		}
		if row.InputHash != l.Ahead.Inputs {
			c.Row.InputHash, c.Row.WorkflowVersion = l.Ahead.Inputs, l.Workflow.Version
		}
	default:
		c.Effect = Reactivated
		c.Row.Status, c.Row.Reason, c.Row.CompletedAt, c.Row.RetryCount, c.Row.NextRetryAt = instance.Pending, row.HeldFor(), time.Time{}, 0, time.Time{}
		c.Row.ExpandCursor = 0
		l.place(&c.Row, i, now)
	}
	return c
}

// Moves reports whether what waits is due at another instant than was planned. A zone that is not followed moves nothing, unless it
// was that of each contact.
func (l *Evaluation) Moves(row instance.Row, i Desired) bool {
	return !i.Due.IsZero() && !i.Due.Equal(row.DueAt) && !(l.Trigger.Dates.KeepZone && i.Zone != row.Timezone && row.Timezone != firstZone)
}

// Find is the occasion that a row was planned for, among those that are implied; for the row of a zone, as it is there. What is
// said once a day is so as long as its threshold is reached: a row of an earlier day waits for its offset.
func (a *Ahead) Find(row instance.Row) (Desired, bool) {
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

// withdrawal is why a row is no longer implied.
func (l *Evaluation) withdrawal(row instance.Row) reason.Reason {
	a := l.Ahead
	switch {
	case a.Reason == reason.WorkflowInactive || a.Reason == reason.TriggerDisabled || a.Reason == reason.RecordClosed:
		return a.Reason
	case row.InputHash != a.Inputs:
		return reason.RuleChanged
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

// unreached is why a threshold is no longer reached: the value has fallen below it, or it is none any more.
func (l *Evaluation) unreached(row instance.Row) reason.Reason {
	m := l.Trigger.Metric
	if m == nil || m.Has(key.ThresholdOf(key.Instance(row.Key))) {
		return reason.ConditionCleared
	}
	return reason.RuleChanged
}

// target is the name of an occasion without its offset, and without the workflow's type.
func target(k key.Instance) string {
	base, _ := k.Everywhere().Base()
	_, text, _ := strings.Cut(string(base), ":")
	return text[:max(strings.LastIndexByte(text, ':'), 0)]
}
