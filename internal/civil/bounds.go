package civil

import "time"

// DayBounds returns the local day that holds t: its first instant and that of the next day, in UTC.
//
// A day begins when the clocks first show its midnight or, where midnight does not exist, at the first instant after
// it. Where clocks are put back over a midnight, the minutes that are shown again belong to the day that had begun.
func DayBounds(t time.Time, loc *time.Location) (start, end time.Time) {
	d, _ := DateOf(t, loc)
	return bounds(t, loc, d, d.AddDays(1), func(d Date) Date { return d.AddDays(1) })
}

// WeekBounds returns the week of t, Monday to Sunday (ISO 8601), as DayBounds does the day.
func WeekBounds(t time.Time, loc *time.Location) (start, end time.Time) {
	d, _ := DateOf(t, loc)
	monday := d.AddDays(-(int(d.Weekday()) + 6) % 7)
	return bounds(t, loc, monday, monday.AddDays(7), func(d Date) Date { return d.AddDays(7) })
}

// MonthBounds returns the month of t, as DayBounds does the day.
func MonthBounds(t time.Time, loc *time.Location) (start, end time.Time) {
	d, _ := DateOf(t, loc)
	first := Date{Year: d.Year, Month: d.Month, Day: 1}
	return bounds(t, loc, first, nextMonth(first), nextMonth)
}

func nextMonth(first Date) Date {
	next, _ := first.AddMonths(1, MissingDayLast)
	return next
}

// bounds returns the beginnings of the two dates. After a step back over the boundary the date shown is the old one
// although the new span has begun; then both move on.
func bounds(t time.Time, loc *time.Location, from, to Date, after func(Date) Date) (start, end time.Time) {
	end = dayStart(to, loc)
	if !t.Before(end) {
		return end, dayStart(after(to), loc)
	}
	return dayStart(from, loc), end
}

// dayStart returns the first instant at which the clocks of loc show midnight of d or more.
func dayStart(d Date, loc *time.Location) time.Time {
	midnight := int64(d.epochDay()) * secondsPerDay
	p := periodAt(loc, midnight-secondsPerDay)
	for p.end <= midnight-p.offset {
		p = periodAt(loc, p.end)
	}
	return time.Unix(max(p.start, midnight-p.offset), 0).UTC()
}
