package schedule

import (
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Recurrence is a rule for recurring dates. It has no zone and no time of day: dates are computed first, and package civil converts them
// to instants afterwards. So a change of clocks never moves a date.
//
// The fields are those of RFC 5545's recurrence rules. `every` and the days of a cron expression are converted to them too.
type Recurrence struct {
	Frequency Frequency
	Interval  int          // of every Interval days, weeks, months or years, the first; 0 means 1
	Months    []time.Month // the months; none: all
	// MonthDays are days of the month. Negative ones count from its end: -1 is the last day.
	MonthDays []int
	Weekdays  []Weekday
	Positions []int        // positions among the dates of one turn, from 1; negative ones count from the end; none: all dates
	WeekStart time.Weekday // the first day of a week; it has an effect if Interval is more than 1
	// Either: if both MonthDays and Weekdays are given, a date has to match only one of them, as in cron; else both.
	Either bool
	// Missing resolves a day of MonthDays that a month does not have.
	Missing civil.MissingDay
}

// Frequency is the unit of a turn.
type Frequency int

// The values of Frequency. There are none shorter than a day, because their turns have no date of their own.
const (
	Daily Frequency = iota
	Weekly
	Monthly
	Yearly
)

// Weekday is a day of the week and its number in a month or a year: 1 is the first, -1 the last, 0 all.
type Weekday struct {
	Day time.Weekday
	N   int
}

// span is the number of years after which the Gregorian calendar repeats. A date that does not occur within it never does.
const span = 400

// Epoch returns the date from which turns are counted if no first date is given: a Monday that is the first day of a year.
func Epoch() civil.Date { return civil.Date{Year: 2001, Month: time.January, Day: 1} }

// Dates yields the dates of the recurrence from from on, in ascending order. first is in the first turn: Interval counts from it, and it
// is the day of a rule that names no day.
func (r *Recurrence) Dates(first, from civil.Date) iter.Seq[civil.Date] {
	return func(yield func(civil.Date) bool) {
		t := r.turnOf(from, first)
		for last := from.Year; t.year() <= last+span && t.year() <= maxYear; t = t.next() {
			for _, d := range r.turn(t, first) {
				if d.Compare(from) < 0 {
					continue
				}
				if last = d.Year; !yield(d) {
					return
				}
			}
		}
	}
}

const maxYear = 9999

// turn is one day, week, month or year of the rule.
type turn struct {
	frequency Frequency
	step      int
	start     civil.Date // its first day
}

func (t turn) year() int { return t.start.Year }

func (t turn) next() turn {
	switch t.frequency {
	case Daily:
		t.start = t.start.AddDays(t.step)
	case Weekly:
		t.start = t.start.AddDays(7 * t.step)
	case Monthly:
		t.start, _ = t.start.AddMonths(t.step, civil.MissingDayLast)
	case Yearly:
		t.start.Year += t.step
	}
	return t
}

// turnOf returns the last turn that does not begin after the day, week, month or year of a date.
func (r *Recurrence) turnOf(date, first civil.Date) turn {
	t := turn{frequency: r.Frequency, step: max(r.Interval, 1)}
	begin := func(d civil.Date) civil.Date {
		switch r.Frequency {
		case Weekly:
			return d.AddDays(-(int(d.Weekday()-r.WeekStart) + 7) % 7)
		case Monthly:
			d.Day = 1
		case Yearly:
			d.Month, d.Day = time.January, 1
		case Daily:
		}
		return d
	}
	origin, here := begin(first), begin(date)
	var n int // number of days, weeks, months or years between them
	switch r.Frequency {
	case Daily:
		n = origin.DaysUntil(here)
	case Weekly:
		n = origin.DaysUntil(here) / 7
	case Monthly:
		n = 12*(here.Year-origin.Year) + int(here.Month-origin.Month)
	case Yearly:
		n = here.Year - origin.Year
	}
	n -= (n%t.step + t.step) % t.step
	switch r.Frequency {
	case Daily:
		t.start = origin.AddDays(n)
	case Weekly:
		t.start = origin.AddDays(7 * n)
	case Monthly:
		t.start, _ = origin.AddMonths(n, civil.MissingDayLast)
	case Yearly:
		t.start = civil.Date{Year: origin.Year + n, Month: time.January, Day: 1}
	}
	return t
}

// turn returns the dates of one turn in ascending order, each once.
func (r *Recurrence) turn(t turn, first civil.Date) []civil.Date {
	var dates []civil.Date
	switch r.Frequency {
	case Daily:
		if r.fits(t.start) {
			dates = append(dates, t.start)
		}
	case Weekly:
		for i := range 7 {
			d := t.start.AddDays(i)
			if r.inMonth(d.Month) && (len(r.Weekdays) == 0 && d.Weekday() == first.Weekday() || r.onWeekday(d.Weekday())) {
				dates = append(dates, d)
			}
		}
	case Monthly:
		if r.inMonth(t.start.Month) {
			dates = r.month(t.start, first)
		}
	case Yearly:
		dates = r.wholeYear(t.start, first)
	}
	slices.SortFunc(dates, civil.Date.Compare)
	return r.positions(slices.Compact(dates))
}

func (r *Recurrence) positions(dates []civil.Date) []civil.Date {
	if len(r.Positions) == 0 {
		return dates
	}
	var picked []civil.Date
	for i, d := range dates {
		if slices.Contains(r.Positions, i+1) || slices.Contains(r.Positions, i-len(dates)) {
			picked = append(picked, d)
		}
	}
	return picked
}

// fits reports whether a day matches the rule.
func (r *Recurrence) fits(d civil.Date) bool {
	if !r.inMonth(d.Month) {
		return false
	}
	switch {
	case len(r.MonthDays) == 0:
		return len(r.Weekdays) == 0 || r.onWeekday(d.Weekday())
	case len(r.Weekdays) == 0:
		return r.onMonthDay(d)
	case r.Either:
		return r.onMonthDay(d) || r.onWeekday(d.Weekday())
	}
	return r.onMonthDay(d) && r.onWeekday(d.Weekday())
}

// onMonthDay reports whether a date is one of MonthDays.
func (r *Recurrence) onMonthDay(d civil.Date) bool {
	return slices.Contains(r.MonthDays, d.Day) || slices.Contains(r.MonthDays, d.Day-monthLength(d)-1)
}

// month returns the dates of the month that begins on start.
func (r *Recurrence) month(start, first civil.Date) (dates []civil.Date) {
	length := monthLength(start)
	days := r.MonthDays
	if len(days) == 0 && len(r.Weekdays) == 0 {
		days = []int{first.Day}
	}
	if len(days) == 0 {
		return r.nth(start, length)
	}
	for _, day := range days {
		switch {
		case day < 0:
			day += length + 1
		case day > length && r.Missing != civil.MissingDaySkip:
			day = length
		}
		if d := start.AddDays(day - 1); day >= 1 && day <= length && (len(r.Weekdays) == 0 || slices.Contains(r.nth(start, length), d)) {
			dates = append(dates, d)
		}
	}
	return dates
}

// wholeYear returns the dates of the year that begins on start. Weekdays are numbered in the year, or in each month if the rule names
// months (RFC 5545, 3.3.10).
func (r *Recurrence) wholeYear(start, first civil.Date) (dates []civil.Date) {
	if len(r.Weekdays) > 0 && len(r.Months) == 0 {
		dates = r.nth(start, start.DaysUntil(civil.Date{Year: start.Year + 1, Month: time.January, Day: 1}))
		return slices.DeleteFunc(dates, func(d civil.Date) bool { return len(r.MonthDays) > 0 && !r.onMonthDay(d) })
	}
	for m := time.January; m <= time.December; m++ {
		in := slices.Contains(r.Months, m)
		if len(r.Months) == 0 {
			in = len(r.MonthDays) > 0 || m == first.Month
		}
		if in {
			dates = append(dates, r.month(civil.Date{Year: start.Year, Month: m, Day: 1}, first)...)
		}
	}
	return dates
}

// nth returns the dates of the rule's weekdays in the length days from start; of a weekday with a number, only that one.
func (r *Recurrence) nth(start civil.Date, length int) (dates []civil.Date) {
	for _, w := range r.Weekdays {
		var all []civil.Date
		for d := start.AddDays((int(w.Day-start.Weekday()) + 7) % 7); start.DaysUntil(d) < length; d = d.AddDays(7) {
			all = append(all, d)
		}
		switch {
		case w.N == 0:
			dates = append(dates, all...)
		case w.N > 0 && w.N <= len(all):
			dates = append(dates, all[w.N-1])
		case w.N < 0 && -w.N <= len(all):
			dates = append(dates, all[len(all)+w.N])
		}
	}
	return dates
}

func (r *Recurrence) inMonth(m time.Month) bool {
	return len(r.Months) == 0 || slices.Contains(r.Months, m)
}

func (r *Recurrence) onWeekday(day time.Weekday) bool {
	return slices.ContainsFunc(r.Weekdays, func(w Weekday) bool { return w.Day == day })
}

func monthLength(d civil.Date) int {
	d.Day = 1
	next, _ := d.AddMonths(1, civil.MissingDayLast)
	return d.DaysUntil(next)
}
