package plan

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
)

// Upcoming is what a workflow is going to do if nothing changes.
type Upcoming struct {
	Occurrences []Occurrence // by At, as many as were asked for
	Triggers    []TriggerOutlook
}

// Occurrence is one occasion that is to come.
type Occurrence struct {
	Desired
	Trigger string
	// At is when it is due; of one that failed, or was released, when it is tried. None of one that waits for a person follows.
	At     time.Time
	Status OccurrenceStatus
	Reason reason.Reason // why it is on hold, delayed or overdue; empty: nothing kept it
	Row    instance.Row  // the row that waits; no ID: it is made later
	Of     int           // the number of messages in a round of its course; 0: it is no message of a course
	// Event and Recipient are, of a message after an event that has arrived, the event and the id of the contact whom it names; empty: none.
	Event     subject.EventID
	Recipient string
	Clock     *ClockChange // a change of clocks in its zone since the occurrence before, or since now; nil: none
}

// OccurrenceStatus says how far an occurrence is.
type OccurrenceStatus string

// The states of an occurrence.
const (
	OccurrencePlanned OccurrenceStatus = "planned" // it has no row yet
	OccurrenceWaiting OccurrenceStatus = "waiting" // its row waits for its instant
	OccurrenceOverdue OccurrenceStatus = "overdue" // it is due, and is taken up next
	OccurrenceDelayed OccurrenceStatus = "delayed" // it is tried again, or was released
	OccurrencePaused  OccurrenceStatus = "paused"  // it came due while its workflow was paused
	OccurrenceHeld    OccurrenceStatus = "held"    // a person decides
	OccurrenceAssumed OccurrenceStatus = "assumed" // an event that arrives now would cause it
)

// OccurrenceStatuses lists every status.
func OccurrenceStatuses() []OccurrenceStatus {
	return []OccurrenceStatus{OccurrencePlanned, OccurrenceWaiting, OccurrenceOverdue, OccurrenceDelayed, OccurrencePaused, OccurrenceHeld, OccurrenceAssumed}
}

// ClockChange is a change of the offset from UTC.
type ClockChange struct {
	At      time.Time
	Date    civil.Date // local, before the change
	Forward bool
	Length  time.Duration // greater than zero
}

// Ends that a trigger has beside those of its calendar or course.
const (
	EndStopWhen  schedule.End = "stop_when" // its stop condition is true by then
	EndDates     schedule.End = "dates"     // the dates of the record have no further message
	EndCondition schedule.End = "condition" // the condition is false by then, for as far ahead as was computed
)

// Ends lists every end.
func Ends() []schedule.End {
	return []schedule.End{schedule.EndTimes, schedule.EndUntil, schedule.EndSequence, EndStopWhen, EndDates, EndCondition}
}

// TriggerOutlook says of one trigger what the list of occurrences leaves open.
type TriggerOutlook struct {
	Trigger *definition.Trigger

	Listens   string // the kind of event that it waits for: beyond what waits nothing is known ahead
	Record    string // the type of record that it follows
	Waits     string // the condition, issues or thresholds that it waits for: when they are met is not known ahead
	Zone      string // of its schedule; with ByContact that of the contact
	ByContact bool   // each contact has the occasion in a zone of their own

	Coming int       // how many occurrences are known
	More   int       // how many of them are not in the list
	Last   time.Time // the last one of all; none: more follow than were computed, or there is none
	// Endless is set if more follow than were computed.
	Endless bool
	End     schedule.End // why nothing follows the last one; empty: Reason says why, or it is endless
	Times   int          // with EndTimes: the number

	Reason reason.Reason // why nothing comes; empty: something does
	Field  string        // the field or expression behind Reason
	Error  string
	Until  time.Time // when it may be otherwise without a write: the end of a wait, or the next evaluation; none: never, or it is not known
	// LeftOut counts occurrences that are left out: they are too late or part of a backlog, or the condition is false by then.
	LeftOut int
	LostWhy reason.Reason // why the first of them is
}

// Leaves adds occurrences that are left out.
func (t *TriggerOutlook) leaves(n int, why reason.Reason) {
	if t.LeftOut == 0 {
		t.LostWhy = why
	}
	t.LeftOut += n
}

// changes notes changes of clocks on the first occurrence after each.
func (u *Upcoming) changes(now time.Time, zones *civil.Zones) {
	before := map[string]time.Time{}
	for n := range u.Occurrences {
		o := &u.Occurrences[n]
		loc, err := zones.Load(o.Zone)
		if o.Zone == "" || err != nil {
			continue
		}
		from, ok := before[o.Zone]
		if !ok {
			from = now
		}
		if o.At.After(from) {
			o.Clock = changeBetween(from, o.At, loc)
			before[o.Zone] = o.At
		}
	}
}

// maxChanges bounds the changes of clocks that are searched between two occurrences.
const maxChanges = 50

// changeBetween returns the last change of clocks in (from, to], nil if there is none or the offset is the same as before.
func changeBetween(from, to time.Time, loc *time.Location) *ClockChange {
	first, until := civil.OffsetAt(from, loc)
	var last *ClockChange
	ahead := first
	for range maxChanges {
		if until.IsZero() || until.After(to) {
			break
		}
		at := until
		var now time.Duration
		now, until = civil.OffsetAt(at, loc)
		if now != ahead {
			date, _ := civil.DateOf(at.Add(-time.Second), loc)
			last = &ClockChange{At: at.UTC(), Date: date, Forward: now > ahead, Length: (now - ahead).Abs()}
		}
		ahead = now
	}
	if ahead == first {
		return nil
	}
	return last
}
