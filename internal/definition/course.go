package definition

import (
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/schedule"
)

// Course makes a series of messages from one event, or from one occasion of a record: a round of messages, which may repeat. Package schedule computes when
// they are due, once the expressions have values.
type Course struct {
	Messages   []CourseMessage // of a round, in the order of sending; at least one
	StartOn    []time.Weekday  // one weekday; none: any day
	Whole      bool            // a course that begins when its condition is met waits for a whole round (first: whole)
	Every      civil.Duration  // the length of a round: days or months; zero: there is one round
	Weekdays   []time.Weekday  // of the first week of a round, on which its only message goes out
	Rounds     int             // 0: no bound
	AllRounds  bool            // months without the day count as rounds (count: all)
	UntilDate  civil.Date      // nothing is due from its first midnight on, in the workspace's zone; zero: no bound
	Until      *expr.Program   // the same, read from the record or the event: a date or an instant; nil: no bound
	MissingDay civil.MissingDay
	ResetOn    *expr.Program // of a record: any change of its value begins the course again; nil: nothing does
	Backlog    string        // which of several overdue messages are sent: latest, first or all
	LateJoiner LateJoiner    // what becomes of who comes into the audience of the running course
}

// LateJoiner is what becomes of people who come into the audience of a course after its first message.
type LateJoiner string

// What becomes of them.
const (
	LateJoin  LateJoiner = "join"  // they get the next message
	LateSkip  LateJoiner = "skip"  // they get nothing of this course
	LateFresh LateJoiner = "fresh" // they get a course of their own, from its first message on
)

// ByMember reports whether it counts who was in the audience when the first message of the course was expanded.
func (c *Course) ByMember() bool { return c.LateJoiner == LateSkip || c.LateJoiner == LateFresh }

// Programs returns what decides when messages of the course are due: nil where it reads nothing.
func (c *Course) Programs() []*expr.Program {
	programs := []*expr.Program{c.Until, c.ResetOn}
	for _, m := range c.Messages {
		programs = append(programs, m.At.From)
	}
	return programs
}

// CourseRule returns the rule of the trigger's course without what is read from a record or an event: Until, and times of day. dated is
// whether it counts from a date, so that a message has a time of day, 09:00 if none is written.
func (p *Timetable) CourseRule(dated bool) schedule.Course {
	c := p.Course
	r := schedule.Course{
		Offset: p.Dates.Offsets[0], StartOn: c.StartOn, Every: c.Every, Weekdays: c.Weekdays, Rounds: c.Rounds, AllRounds: c.AllRounds,
		Missing: c.MissingDay, Rule: p.Dates.Rule,
	}
	for _, m := range c.Messages {
		at := m.At
		if !at.Given {
			at = p.Dates.At
		}
		s := schedule.CourseMessage{Day: m.Day, Follows: m.Follows, After: m.After, Timed: dated || at.Given, At: at.Time}
		switch {
		case !at.Given && dated:
			s.At = morning
		case !at.Random.IsZero():
			s.At, s.Window = at.Random.From, at.Window()
		}
		r.Messages = append(r.Messages, s)
	}
	return r
}

// HasTime reports whether a message of the trigger's course has a time of day of its own; dated is as for CourseRule.
func (p *Timetable) HasTime(message int, dated bool) bool {
	if p.Course == nil {
		return false
	}
	messages := p.CourseRule(dated).Messages
	m := messages[min(message, len(messages)-1)]
	return m.Timed && !m.Follows
}

// morning is the time of day of a date without one.
const morning = civil.TimeOfDay(9 * 60 * 60)

// CourseMessage is when one message of a round is due: on a day of it, or after the message before it.
type CourseMessage struct {
	Day     int
	Follows bool           // After counts from the message before it
	After   civil.Duration // of the first message: from Day and At
	At      At             // with Day; not given: the timing's
	Own     *Trigger       // the trigger with the audience, channels and texts of this message; nil: it has those of the trigger
}

// Of returns the trigger as it is for one message of its course: with the audience, channels and texts of that message.
func (t *Trigger) Of(message int) *Trigger {
	c := t.Course()
	if c == nil || message >= len(c.Messages) || c.Messages[message].Own == nil {
		return t
	}
	return c.Messages[message].Own
}

// Lists reports whether the messages of the trigger's course have audiences, channels and texts of their own.
func (t *Trigger) Lists() bool {
	c := t.Course()
	return c != nil && slices.ContainsFunc(c.Messages, func(m CourseMessage) bool { return m.Own != nil })
}

// Forms returns the trigger as it is for each of its messages.
func (t *Trigger) Forms() []*Trigger {
	c := t.Course()
	if c == nil {
		return []*Trigger{t}
	}
	forms := make([]*Trigger, len(c.Messages))
	for i := range forms {
		forms[i] = t.Of(i)
	}
	return forms
}

// Forms yields the workflow's triggers, each as it is for each of its messages.
func (w *Workflow) Forms() iter.Seq[*Trigger] {
	return func(yield func(*Trigger) bool) {
		for _, t := range w.Trigger {
			for _, form := range t.Forms() {
				if !yield(form) {
					return
				}
			}
		}
	}
}

// TriggerOf returns the trigger of that id as it is for one message of its course, nil when there is none.
func (w *Workflow) TriggerOf(id string, message int) *Trigger {
	if t := w.TriggerByID(id); t != nil {
		return t.Of(message)
	}
	return nil
}

// AnchorNow is the anchor of a trigger on events that counts from the moment at which the event is received.
const AnchorNow = "now"
