package schedule

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// End is what ends a calendar or a course.
type End string

// The ends.
const (
	EndNone     End = ""         // nothing does
	EndTimes    End = "times"    // the number of its occurrences, or of its rounds, is reached
	EndUntil    End = "until"    // its last day is over, or its instant has come
	EndSequence End = "sequence" // each message of its only round was due
)

// End returns what ends the calendar.
func (c *Calendar) End() End {
	switch {
	case c.Count == 0 && c.Until == (civil.Date{}):
		return EndNone
	case c.Count == 0:
		return EndUntil
	}
	n := 0
	for range c.local(c.first()) {
		n++
	}
	if n < c.Count {
		return EndUntil
	}
	return EndTimes
}

// End returns what ends the course.
func (s *StartedCourse) End() End {
	if !s.Until.IsZero() {
		free, course := *s, *s.Course
		course.Until, free.Course = time.Time{}, &course
		if _, more := free.First(s.Until); more {
			return EndUntil
		}
	}
	switch {
	case s.Every.IsZero():
		return EndSequence
	case s.Rounds > 0:
		return EndTimes
	}
	return EndNone
}

// PerRound returns the number of messages of a round, those that a month or a change of clocks leaves out included.
func (s *StartedCourse) PerRound() int { return s.count() }
