package condition

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Course is what a trigger with a course remembers about a record: where the course began. It stays when the record is closed and when the
// trigger is removed, so that a number is never used twice (R10).
type Course struct {
	Date     civil.Date // the day from which rounds count; zero: there was no course yet
	Moment   time.Time  // when the course began, if it began when its condition was met
	Resets   int        // how many times it has begun again
	Value    string     // identifies the value of reset_on with which it began
	Crossing int        // the number of the crossing with which it began; 0: it began without one
}

// Begun reports whether there is or was a course.
func (c Course) Begun() bool { return c.Date != civil.Date{} }

// Again returns the course that begins in place of c, with another value of reset_on or another crossing. Where it begins is still to be
// set.
func (c Course) Again(value string, crossing int) Course {
	next := Course{Resets: c.Resets, Value: value, Crossing: crossing}
	if c.Begun() {
		next.Resets++
	}
	return next
}

func (c Course) equal(o Course) bool {
	same := c.Moment.Equal(o.Moment)
	c.Moment, o.Moment = time.Time{}, time.Time{}
	return same && c == o
}

func (c Course) stored() *storedCourse {
	if !c.Begun() {
		return nil
	}
	s := &storedCourse{Date: c.Date.String(), Resets: c.Resets, Value: c.Value, Crossing: c.Crossing}
	if !c.Moment.IsZero() {
		s.Moment = c.Moment.UnixMicro()
	}
	return s
}

func (s *storedCourse) course() (c Course) {
	if s == nil {
		return c
	}
	c = Course{Resets: s.Resets, Value: s.Value, Crossing: s.Crossing}
	c.Date, _ = civil.ParseDate(s.Date) // written by stored
	if s.Moment != 0 {
		c.Moment = instant(s.Moment)
	}
	return c
}
