package civil

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// Date is a day of the Gregorian calendar, without a zone.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// MissingDay is how a day that a month does not have, such as 31 April, is resolved.
type MissingDay string

const (
	MissingDayLast MissingDay = "last" // to the month's last day; the default, also for ""
	MissingDaySkip MissingDay = "skip" // to no day: the month is left out
)

// ParseDate reads a date written as 2026-06-01. The error is an *Error.
func ParseDate(s string) (Date, error) {
	const hint = "a date is written 2026-06-01"
	if len(s) != len("2006-01-02") || s[4] != '-' || s[7] != '-' {
		return Date{}, &Error{Message: strconv.Quote(s) + " is not a date", Hint: hint}
	}
	year, okYear := digits(s[0:4])
	month, okMonth := digits(s[5:7])
	day, okDay := digits(s[8:10])
	switch {
	case !okYear || !okMonth || !okDay || year == 0:
		return Date{}, &Error{Message: strconv.Quote(s) + " is not a date", Hint: hint}
	case month < 1 || month > 12:
		return Date{}, &Error{Message: s + " does not exist", Hint: "months are 01 to 12"}
	}
	d := Date{Year: year, Month: time.Month(month), Day: day}
	if n := daysIn(d.Year, d.Month); day < 1 || day > n {
		return Date{}, &Error{Message: s + " does not exist", Hint: fmt.Sprintf("%s %d has %d days", d.Month, d.Year, n)}
	}
	return d, nil
}

// String returns the date as 2026-06-01.
func (d Date) String() string {
	return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day)
}

// MarshalText returns the text of String.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDate reads.
func (d *Date) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDate(string(text))
	return err
}

// AddDays returns the date n days later; n may be negative.
func (d Date) AddDays(n int) Date { return dateOfDay(d.epochDay() + n) }

// AddMonths returns the same day n months later; n may be negative. missing resolves a day that the month does not have; ok is false only
// for MissingDaySkip.
func (d Date) AddMonths(n int, missing MissingDay) (to Date, ok bool) {
	first := time.Date(d.Year, d.Month+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	to = Date{Year: first.Year(), Month: first.Month(), Day: d.Day}
	if last := daysIn(to.Year, to.Month); to.Day > last {
		if missing == MissingDaySkip {
			return Date{}, false
		}
		to.Day = last
	}
	return to, true
}

// Add returns the date moved by the months and then by the days of by. The clock part of by is ignored. A day that the month does not
// have becomes the month's last day.
func (d Date) Add(by Duration) Date {
	to, _ := d.AddMonths(by.Months, MissingDayLast)
	return to.AddDays(by.Days)
}

// Weekday returns the day of the week.
func (d Date) Weekday() time.Weekday {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Weekday()
}

// Compare returns -1 if d is before other, 0 if they are the same day, and 1 if d is after other.
func (d Date) Compare(other Date) int {
	return cmp.Or(cmp.Compare(d.Year, other.Year), cmp.Compare(d.Month, other.Month), cmp.Compare(d.Day, other.Day))
}

// DaysUntil returns the number of days from d to other. It is negative if other is before d.
func (d Date) DaysUntil(other Date) int { return other.epochDay() - d.epochDay() }

// epochDay counts days from 1970-01-01. UTC has neither gaps nor overlaps, so time.Date is exact there.
func (d Date) epochDay() int {
	return int(time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

func dateOfDay(n int) Date {
	y, m, d := time.Unix(int64(n)*secondsPerDay, 0).UTC().Date()
	return Date{Year: y, Month: m, Day: d}
}

// daysIn returns the number of days of a month.
func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// digits reads a text that consists of ASCII digits.
func digits(s string) (n int, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
