package civil

import "time"

// DayBounds returns the local day that contains t: its first instant and the first instant of the next day, in UTC.
//
// A day begins when the clocks first show its midnight or, if midnight does not exist, at the first instant after it. If clocks are put
// back over a midnight, the minutes that are shown again belong to the day that had begun.
func DayBounds(t time.Time, loc *time.Location) (start, end time.Time) {
	return bounds(t, loc, func(today int64) (from, to int64) { return today, today + 1 })
}

// WeekBounds is DayBounds for the week of t, Monday to Sunday (ISO 8601).
func WeekBounds(t time.Time, loc *time.Location) (start, end time.Time) {
	return bounds(t, loc, func(today int64) (from, to int64) {
		monday := today - floorMod(today+3, 7) // 1970-01-01 was a Thursday
		return monday, monday + 7
	})
}

// MonthBounds is DayBounds for the month of t.
func MonthBounds(t time.Time, loc *time.Location) (start, end time.Time) {
	return bounds(t, loc, func(today int64) (from, to int64) {
		d := dateOfDay(int(today))
		first := today - int64(d.Day-1)
		return first, first + int64(daysIn(d.Year, d.Month))
	})
}

// bounds returns the beginnings of the two days that span returns for the day of t. Days are counted from 1970-01-01.
func bounds(t time.Time, loc *time.Location, span func(today int64) (from, to int64)) (start, end time.Time) {
	unix := t.Unix()
	p := periodAt(loc, unix)
	wall := unix + p.offset
	from, to := span((wall - floorMod(wall, secondsPerDay)) / secondsPerDay)
	// Far from transitions a midnight is a subtraction. Clocks are never put back by two days, so that a midnight more than two days
	// after the last transition is shown for the first time.
	if s, e := from*secondsPerDay-p.offset, to*secondsPerDay-p.offset; s-2*secondsPerDay >= p.start && e < p.end {
		return time.Unix(s, 0).UTC(), time.Unix(e, 0).UTC()
	}
	s, e := dayStart(from, loc), dayStart(to, loc)
	if unix >= e {
		// The clocks were put back over the end. They show the old date although the next span has begun.
		_, after := span(to)
		s, e = e, dayStart(after, loc)
	}
	return time.Unix(s, 0).UTC(), time.Unix(e, 0).UTC()
}

// dayStart returns the first instant, in unix seconds, at which the clocks of loc show midnight of a day or more.
func dayStart(day int64, loc *time.Location) int64 {
	midnight := day * secondsPerDay
	p := periodAt(loc, midnight-secondsPerDay)
	for p.end <= midnight-p.offset {
		p = periodAt(loc, p.end)
	}
	return max(p.start, midnight-p.offset)
}

// floorMod returns the remainder of a division that rounds down, which is never negative.
func floorMod(a, b int64) int64 { return (a%b + b) % b }

// Exists reports whether the clocks of loc show any time of the date. A zone that moves across the date line may skip a date, as Apia
// skipped 30 December 2011.
func (d Date) Exists(loc *time.Location) bool {
	day := int64(d.epochDay())
	return dayStart(day, loc) < dayStart(day+1, loc)
}
