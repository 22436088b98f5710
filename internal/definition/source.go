package definition

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/schedule"
)

// Source is what makes the occasions of a trigger: *OnEvent, *OnCondition, *OnPlan or *OnSchedule.
type Source interface{ isSource() }

// OnEvent makes an occasion from each event of a kind.
type OnEvent struct {
	Timetable
	Kind         string
	Dedup        []string // paths; nil = the event's id, else the hash of its content
	DedupScope   string   // workflow or workspace
	DedupMissing string   // allow or reject (product decision 40)
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
	Timetable
	Metric    *Metric    // nil = none
	Fire      string     // scope within which it fires once; empty = by its date, else once_per_source
	Reconcile *Reconcile // the repair of missing occasions; nil = none

	crossing Crossing
}

// Timetable says when the messages of an occasion are due: by a date of a record, or as a course. An event without a course has none.
type Timetable struct {
	Dates  Dates
	Course *Course // what the event, the date or the condition begins; nil = one message for each offset
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

// Timetable returns the timetable of a trigger on events or one that plans ahead, nil for all others.
func (t *Trigger) Timetable() *Timetable {
	switch s := t.Source.(type) {
	case *OnEvent:
		return &s.Timetable
	case *OnPlan:
		return &s.Timetable
	}
	return nil
}

// Course returns the course of a trigger; nil: it has none.
func (t *Trigger) Course() *Course {
	if p := t.Timetable(); p != nil {
		return p.Course
	}
	return nil
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

// Values of fire: the scope within which a trigger fires once (B36).
const (
	FireOncePerSource    = "once_per_source"    // the life of the record
	FireOncePerThreshold = "once_per_threshold" // the life of the record, for each threshold
	FireOncePerDay       = "once_per_day"       // a day of the trigger's zone, for each threshold (R12)
	FireFalseToTrue      = "false_to_true"      // from one crossing of a threshold to the next
)

// Metric is a number of a record that is compared with thresholds (B35).
type Metric struct {
	Name       string
	Value      *expr.Program
	Thresholds []Threshold // ascending
}

// Threshold is one threshold of a metric.
type Threshold struct {
	Name  string // the shortest decimal, as in keys
	Value float64
	When  *expr.Condition // the metric has reached it
}

// Has reports whether a threshold, as keys name it, is one of the metric's; the empty name stands for any of them.
func (m *Metric) Has(name string) bool {
	return name == "" || slices.ContainsFunc(m.Thresholds, func(t Threshold) bool { return t.Name == name })
}

// Dates say when the occasions of a record, or the messages of a course, are due.
type Dates struct {
	Offsets []civil.Duration // from the anchor; different ones
	At      At
	// ByContact gives an occasion a row for each zone of its contacts (R15); Zones are then for contacts without one.
	ByContact bool
	// Person is the one contact of the audience, if the zone of the contact comes first and the audience is one contact that the record
	// names; nil: it is not. Zones are then for a contact without a zone.
	Person   *Relation
	Zones    []Zone // tried in order; then the record's own, if there is a record, and the workspace's
	Rule     civil.Rule
	KeepZone bool // pending occasions stay when the zone changes (follow_zone: false)
}

// At is a time of day; the zero At is 09:00 for a date, and the instant's own time for an instant.
type At struct {
	Given  bool
	Time   civil.TimeOfDay
	Random civil.Span    // a minute of this span, chosen once for each occasion; zero = none
	From   *expr.Program // a text; nil = Time
}

// Window returns the length of the span of a random time; 0: it is not random.
func (a At) Window() time.Duration {
	const day = 24 * 60 * 60
	return time.Duration((int(a.Random.To)-int(a.Random.From)+day)%day) * time.Second
}

// Zone is a zone, or the expression that gives its name.
type Zone struct {
	Name string
	From *expr.Program
}

// Reconcile is a slow repair over the records of a trigger that plans ahead (B43): it plans desired occasions that are missing.
type Reconcile struct {
	Every     time.Duration
	DueWithin time.Duration   // for records that were not written since the last repair: how far ahead missing occasions are looked for
	Where     *expr.Condition // the records to check; nil = all
	Batch     int             // records in one step
}
