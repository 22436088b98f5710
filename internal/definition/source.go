package definition

import (
	"time"

	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/schedule"
)

// Source is what makes the occasions of a trigger: *OnEvent, *OnCondition, *OnPlan or *OnSchedule.
type Source interface{ isSource() }

// OnEvent makes an occasion from each event of a kind.
type OnEvent struct {
	Kind         string
	Dedup        []string // paths; nil = the event's id, else the hash of its content
	DedupScope   string   // workflow or workspace
	DedupMissing string   // allow or reject (decision 40)

	dedupAt portable.Pos
}

// OnCondition makes an occasion when the condition of a record is met, and again whenever the cooldown has passed while it holds.
type OnCondition struct {
	Watch
	Issues   []Issue // instead of the trigger's When, ordered by name
	Cooldown Cooldown
	Resolved *Message // the message when the condition has cleared; nil = none
}

// OnPlan plans the occasions of a record ahead, each under a key of its own: by a date of the record, by thresholds, or once.
type OnPlan struct {
	Watch
	Dates     Dates
	Metric    *Metric    // nil = none
	Fire      string     // scope within which it fires once; empty = by its date, else once_per_source
	Reconcile *Reconcile // the repair of missing occasions; nil = none

	crossing Crossing
}

// OnSchedule makes an occasion on each day of a calendar (D21, B46).
type OnSchedule struct {
	schedule.Calendar
	Timezone string // empty: the workspace's
	// ByContact gives an occasion a row for each zone of its contacts (R15); Timezone is then for contacts without one.
	ByContact bool
	Backlog   string // which of several overdue occasions are sent: latest, first or all
}

// Watch says which records a trigger evaluates, and when.
type Watch struct {
	Record string        // type of record
	For    time.Duration // how long the condition must have been met (R8)
	Check  Check
}

func (*OnEvent) isSource()     {}
func (*OnCondition) isSource() {}
func (*OnPlan) isSource()      {}
func (*OnSchedule) isSource()  {}

// OnEvent returns the source of a trigger on events, nil for all others.
func (t *Trigger) OnEvent() *OnEvent {
	s, _ := t.Source.(*OnEvent)
	return s
}

// OnCondition returns the source of a trigger with a cooldown, nil for all others.
func (t *Trigger) OnCondition() *OnCondition {
	s, _ := t.Source.(*OnCondition)
	return s
}

// OnPlan returns the source of a trigger that plans ahead, nil for all others.
func (t *Trigger) OnPlan() *OnPlan {
	s, _ := t.Source.(*OnPlan)
	return s
}

// OnSchedule returns the source of a trigger with a schedule, nil for all others.
func (t *Trigger) OnSchedule() *OnSchedule {
	s, _ := t.Source.(*OnSchedule)
	return s
}

// Watch returns which records a trigger evaluates; its Record is empty for triggers on events and schedules.
func (t *Trigger) Watch() Watch {
	switch s := t.Source.(type) {
	case *OnCondition:
		return s.Watch
	case *OnPlan:
		return s.Watch
	}
	return Watch{}
}

// Crosses reports whether a trigger fires each time that a threshold is crossed (fire: false_to_true).
func (t *Trigger) Crosses() bool {
	p := t.OnPlan()
	return p != nil && p.Fire == FireFalseToTrue
}

// ResolvedMessage returns the message that a trigger sends when its condition has cleared, nil when it sends none.
func (t *Trigger) ResolvedMessage() *Message {
	if c := t.OnCondition(); c != nil {
		return c.Resolved
	}
	return nil
}
