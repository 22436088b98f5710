package schedule

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Calendar is the schedule of a trigger: recurring dates, the times of those days, and the first and last day.
type Calendar struct {
	Recurrence
	Times  []civil.TimeOfDay // of each date, ascending; one, or several at least an hour apart
	Window time.Duration     // each occurrence is due at a random minute from its time on, before the end of the window; 0: at its time
	From   civil.Date        // the first day; zero: no bound
	Until  civil.Date        // the day after the last; zero: no bound
	Count  int               // the number of all occurrences, from From on; 0: no bound
	Rule   civil.Rule        // resolves a time of day that does not exist or occurs twice
	Offset civil.Duration    // from the date and time to the message
	Period Period
	// Draw returns the minute of a window: from 0 to minutes - 1, the same one for a date each time. nil: 0.
	Draw func(date civil.Date, minutes int) int
}

// Period is the time on which an occurrence reports; the zero Period is none.
type Period struct {
	Length civil.Duration
	End    civil.TimeOfDay // the time at which it ends, on the day of the occurrence
}

// Occurrence is one date and time of a calendar.
type Occurrence struct {
	Date civil.Date
	Time civil.TimeOfDay
	Due  time.Time // with the offset
	N    int       // the number of the occurrence since From, the first being 1; 0 without From
}

// lookBehind is how many days before a date an occurrence may be whose instant is after one of that date. The longest gap of any zone
// is a day.
const lookBehind = 3

// SeveralADay reports whether a date has several occurrences, so that the date alone does not identify one.
func (c *Calendar) SeveralADay() bool { return len(c.Times) > 1 }

// first returns the date from which turns are counted.
func (c *Calendar) first() civil.Date {
	if c.From != (civil.Date{}) {
		return c.From
	}
	return Epoch()
}

// local yields the occurrences from a date on, without their instants.
func (c *Calendar) local(from civil.Date) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		n, bound := 0, c.From != (civil.Date{})
		if bound && c.Count == 0 && from.Compare(c.From) > 0 {
			n = c.before(from)
		} else if bound && (c.Count > 0 || from.Compare(c.From) < 0) {
			from = c.From
		}
		for d := range c.Dates(c.first(), from) {
			if c.Until != (civil.Date{}) && d.Compare(c.Until) >= 0 {
				return
			}
			for _, t := range c.Times {
				if n++; c.Count > 0 && n > c.Count {
					return
				}
				o := Occurrence{Date: d, Time: t}
				if bound {
					o.N = n
				}
				if !yield(o) {
					return
				}
			}
		}
	}
}

// before counts the occurrences from From to the day before a date.
func (c *Calendar) before(date civil.Date) (n int) {
	for d := range c.Dates(c.first(), c.From) {
		if d.Compare(date) >= 0 {
			break
		}
		n += len(c.Times)
	}
	return n
}

// Occurrences yields the occurrences from a date on, with their instants in a zone. The instants strictly ascend: if a change of clocks
// gives two times the same instant, only the first is yielded, and a date that the zone skips has no occurrence. `times` counts the
// occurrences of the calendar, also those that a change of clocks leaves out.
func (c *Calendar) Occurrences(from civil.Date, loc *time.Location) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		var last time.Time
		for o := range c.local(from.AddDays(-lookBehind)) {
			due, ok := c.resolve(o, loc)
			if !ok || !last.IsZero() && !due.After(last) {
				continue
			}
			last, o.Due = due, due
			if o.Date.Compare(from) >= 0 && !yield(o) {
				return
			}
		}
	}
}

func (c *Calendar) resolve(o Occurrence, loc *time.Location) (due time.Time, ok bool) {
	if !o.Date.Exists(loc) {
		return time.Time{}, false
	}
	const day = civil.TimeOfDay(24 * 60 * 60)
	clock := o.Time
	if minutes := int(c.Window / time.Minute); c.Draw != nil && minutes > 0 {
		clock += civil.TimeOfDay(c.Draw(o.Date, minutes) * 60)
	}
	at, ok := civil.Resolve(o.Date.Add(c.Offset).AddDays(int(clock/day)), clock%day, loc, c.Rule)
	return at.Add(c.Offset.Clock), ok
}

// Since yields the occurrences that are due at an instant or later.
func (c *Calendar) Since(at time.Time, loc *time.Location) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		from, _ := civil.DateOf(at, loc)
		back := civil.Duration{Months: -c.Offset.Months, Days: -c.Offset.Days - 1 - int(c.Offset.Clock/(24*time.Hour))}
		if c.Offset.Months != 0 { // months differ in length
			back.Days -= lookBehind
		}
		from = from.Add(civil.Duration{Months: back.Months}).AddDays(back.Days)
		for o := range c.Occurrences(from, loc) {
			if o.Due.Before(at) {
				continue
			}
			if !yield(o) {
				return
			}
		}
	}
}

// Find returns the occurrence of a date and, if there are several a day, of a time.
func (c *Calendar) Find(date civil.Date, at civil.TimeOfDay, loc *time.Location) (Occurrence, bool) {
	for o := range c.Occurrences(date, loc) {
		switch {
		case o.Date != date:
			return Occurrence{}, false
		case o.Time == at || !c.SeveralADay():
			return o, true
		}
	}
	return Occurrence{}, false
}

// Never reports whether the calendar has no occurrence at all, in a zone that skips no date.
func (c *Calendar) Never() bool {
	for range c.local(c.first()) {
		return false
	}
	return true
}

// PeriodOf returns the time [start, end) on which the occurrence of a date reports; ok is false if the calendar has no period.
func (c *Calendar) PeriodOf(date civil.Date, loc *time.Location) (start, end time.Time, ok bool) {
	if c.Period.Length.IsZero() {
		return time.Time{}, time.Time{}, false
	}
	back := civil.Duration{Months: -c.Period.Length.Months, Days: -c.Period.Length.Days}
	end, _ = civil.Resolve(date, c.Period.End, loc, civil.Rule{}) // a gap moves it forward, so there is an instant
	start, _ = civil.Resolve(date.Add(back), c.Period.End, loc, civil.Rule{})
	return start.Add(-c.Period.Length.Clock), end, true
}

// Skip is the decision about several overdue occurrences of a series (R3).
type Skip struct {
	Send    []int // indexes of the occurrences that are still sent, ascending
	Dropped []int // the others
}

// Backlog values.
const (
	BacklogLatest = "latest" // the latest one that is not too late; the default, also for ""
	BacklogFirst  = "first"  // the oldest one, if it is not too late; the others are dropped
	BacklogAll    = "all"    // every one that is not too late
)

// Overdue decides which of several occurrences are still sent. Due are their instants, ascending and all past.
func (t Timing) Overdue(backlog string, now time.Time, due []time.Time) Skip {
	var s Skip
	timely := func(i int) bool { return !t.Stale(now, due[i]) }
	switch cmp.Or(backlog, BacklogLatest) {
	case BacklogFirst:
		if len(due) > 0 && timely(0) {
			s.Send = []int{0}
		}
	case BacklogAll:
		for i := range due {
			if timely(i) {
				s.Send = append(s.Send, i)
			}
		}
	default:
		if last := len(due) - 1; last >= 0 && timely(last) {
			s.Send = []int{last}
		}
	}
	for i := range due {
		if !slices.Contains(s.Send, i) {
			s.Dropped = append(s.Dropped, i)
		}
	}
	return s
}
