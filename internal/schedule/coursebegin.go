package schedule

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Begin returns the start of a course that is triggered at an instant. Messages without a time of day begin at that instant. For others
// the course begins on the first day on which a message of its first round is not past; if whole is set, on the first day on which the first
// message is not past. A course of months begins today or on the first day of a month.
func (c *Course) Begin(now time.Time, loc *time.Location, whole bool) Start {
	today, _ := civil.DateOf(now, loc)
	start := Start{Date: today, Moment: now}
	if !c.Messages[0].Timed {
		return start
	}
	for range 2 * monthDays { // a round begins in every month, so this is a bound
		s := c.Starting(start, loc)
		for m := range s.count() {
			if o, ok := s.At(Position{Message: m}); ok && !o.Due.Before(now) {
				return start
			} else if whole {
				break
			}
		}
		start.Date = c.nextStart(start.Date)
	}
	return Start{Date: today, Moment: now}
}

const monthDays = 31

// nextStart returns the next day on which a course may begin.
func (c *Course) nextStart(d civil.Date) civil.Date {
	switch {
	case c.Every.Months > 0 && c.Messages[0].Day != 0:
		d.Day = 1
		return d.Add(civil.Duration{Months: 1})
	case len(c.StartOn) > 0:
		return d.AddDays(7)
	}
	return d.AddDays(1)
}

// Resume returns the course that began at a start that Begin returned, maybe with other times of day and in another zone. Its first round and
// the number of its rounds stay, and so does a message of them that is now due before the start. First passes over such a message.
func (c *Course) Resume(start Start, loc *time.Location) *StartedCourse {
	return c.started(start, loc, true)
}

// firstOfBegun returns the first round of a course that has begun: the first one with a message on the day of the start or later. It goes by
// days, so that no time of day and no zone changes it.
func (s *StartedCourse) firstOfBegun() int {
	if s.Every.Months == 0 { // no day of a round is before its first one
		return 0
	}
	from := s.start.Date
	if s.first.Compare(from) < 0 {
		from = s.first
	}
	for k := 0; k < patience && s.exists(k); k++ {
		r := s.round(k, time.Time{})
		for i := range s.count() {
			due, ok := r.raw()
			date, _ := civil.DateOf(due, s.loc)
			if m := s.Messages[min(i, len(s.Messages)-1)]; !m.Follows || i == 0 {
				date, ok = s.dayOf(r.first, m)
			}
			if ok && date.Compare(from) >= 0 {
				return k
			}
		}
	}
	return -1
}

// Opening returns the number of the course's first round with a message among those that Rounds counts, from 1.
func (s *StartedCourse) Opening() int { return s.counted(max(s.opens, 0), 0) + 1 }
