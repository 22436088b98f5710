package schedule

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// CourseError is what is wrong with a course.
type CourseError struct {
	Message int // the message that is wrong, from 0; -1: the course
	Text    string
	Hint    string // what to do
}

// Error returns the text without the hint.
func (e *CourseError) Error() string { return e.Text }

// farthest bounds offsets and rounds: no sum of a date and one of them leaves the calendar unnoticed.
const farthest = 100 * 12 // months

// Check returns what is wrong with a course whichever its start: the error is a *CourseError. fromRecord holds for each message whether its
// time of day is read from a record, so that it is not known.
func (c *Course) Check(fromRecord []bool) error {
	wrong := func(message int, hint, format string, args ...any) error {
		return &CourseError{Message: message, Text: fmt.Sprintf(format, args...), Hint: hint}
	}
	switch e := c.Every; {
	case e.Negative() || e.Clock != 0 || e.Months != 0 && e.Days != 0:
		return wrong(-1, "write 1d, 2w, 1mo or 1y", "a round lasts days or months, not %s", e)
	case tooFar(e):
		return wrong(-1, "a round is at most 100 years long", "a round of %s is longer than the calendar", e)
	case e.IsZero() && c.Rounds > 1:
		return wrong(-1, "write every: 1d", "it is not known how long each of %d rounds lasts", c.Rounds)
	case len(c.Weekdays) > 0 && (len(c.Messages) != 1 || e.Days == 0 || e.Days%7 != 0):
		return wrong(-1, "write every: 1w, or several messages with day:", "weekdays are for one message in rounds of weeks")
	case tooFar(c.Offset):
		return wrong(-1, "an offset is at most 100 years", "%s is outside of the calendar", c.Offset)
	}
	for i, m := range c.Messages {
		switch {
		case m.After.Negative():
			return wrong(i, "write after: 15m", "a message cannot precede the one that it follows")
		case i > 0 && m.Follows && m.After.IsZero():
			return wrong(i, "write after: 15m", "a message cannot be due at the same time as the one that it follows")
		case tooFar(m.After):
			return wrong(i, "write a shorter length", "%s is longer than the calendar", m.After)
		case m.Follows && i > 0:
		case c.Every.Months > 0:
			if err := c.checkMonthDay(i, m.Day); err != nil {
				return err
			}
		case m.Day < 0:
			return wrong(i, "day 0 is the first day of the round", "day %d is before the round", m.Day)
		case m.Day > farthest*monthDays:
			return wrong(i, "write a smaller number", "day %d is outside of the calendar", m.Day)
		case c.Every.Days > 0 && m.Day >= c.Every.Days:
			return wrong(i, fmt.Sprintf("write a day from 0 to %d, or a longer round", c.Every.Days-1), "a round of %s has no day %d", c.Every, m.Day)
		}
	}
	return c.checkOrder(fromRecord)
}

func tooFar(d civil.Duration) bool {
	const year = 365 * 24 * time.Hour
	return max(d.Exact(), -d.Exact()) > farthest/12*year
}

func (c *Course) checkMonthDay(i, day int) error {
	const firstFromEnd = -28 // every month has this day
	switch {
	case day == 0 && len(c.Messages) > 1:
		return &CourseError{Message: i, Text: "it is not known on which day of the month it is due", Hint: "write day: 1, or day: -1 for the last day"}
	case day > monthDays || day < firstFromEnd:
		return &CourseError{Message: i, Text: fmt.Sprintf("no month has the day %d", day), Hint: "write a day from 1 to 31, or from -1 (the last day) to -28"}
	}
	return nil
}

// within is when a message may be due, from the beginning of its round.
type within struct{ first, last time.Duration }

const wholeDay = 24 * time.Hour

// checkOrder checks that each message can be due after the one before it, and before the next round.
func (c *Course) checkOrder(fromRecord []bool) error {
	months := []int{31, 30, 29, 28} // lengths in days
	if c.Every.Months == 0 {
		months = months[:1]
	}
	ascends := make([]bool, len(c.Messages))
	for _, length := range months {
		times := c.times(length, fromRecord)
		for i := 1; i < len(times); i++ {
			ascends[i] = ascends[i] || c.Messages[i].Follows || times[i].first > times[i-1].last
		}
		next := time.Duration(c.Every.Days) * wholeDay
		if c.Every.Months > 0 {
			next = time.Duration(length+28*(c.Every.Months-1)) * wholeDay
		}
		if last := len(times) - 1; next > 0 && times[0].first+next <= times[last].last {
			return &CourseError{
				Message: last, Text: fmt.Sprintf("it may be due after the next round has begun: a round is %s long", c.Every),
				Hint: "write a longer round, or an earlier message",
			}
		}
	}
	for i, ok := range ascends {
		if i > 0 && !ok {
			return &CourseError{
				Message: i, Text: "it is never due after the message before it",
				Hint: "write messages in the order in which they are due; random times must not overlap",
			}
		}
	}
	return nil
}

// times returns when the messages of a round may be due. A time that is read from a record is taken as the one that fits best.
func (c *Course) times(month int, fromRecord []bool) []within {
	all := make([]within, len(c.Messages))
	for i, m := range c.Messages {
		w := &all[i]
		if m.Follows && i > 0 {
			w.first, w.last = all[i-1].first, all[i-1].last
		} else {
			day := m.Day
			if c.Every.Months > 0 {
				if day < 0 {
					day += month + 1
				}
				day = min(day, month)
			}
			clock := time.Duration(m.At) * time.Second
			w.first, w.last = time.Duration(day)*wholeDay+clock, time.Duration(day)*wholeDay+clock
			if i < len(fromRecord) && fromRecord[i] {
				w.first += wholeDay - time.Second
			}
		}
		w.first += m.After.Exact()
		w.last += m.After.Exact()
		if m.Window > time.Minute {
			w.last += m.Window - time.Minute
		}
	}
	return all
}
