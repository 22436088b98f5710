package civil

import (
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time in calendar units: months and days, whose length depends on the calendar, and a clock part of exact length.
// All parts have the same sign. An offset before its anchor is negative.
type Duration struct {
	Months int           // a year is twelve months
	Days   int           // a week is seven days
	Clock  time.Duration // whole seconds
}

// maxDuration bounds a written duration, so that no sum of a date and a duration overflows: a hundred years.
const maxDuration = 100 * year

const (
	day   = 24 * time.Hour
	month = 30 * day
	year  = 365 * day
)

// unit is one letter of a written duration.
type unit struct {
	name string
	one  Duration
}

// units lists the units of written durations, from the longest to the shortest (docs/reference/definitions.md, Values).
func units() [7]unit {
	return [7]unit{
		{"y", Duration{Months: 12}},
		{"mo", Duration{Months: 1}},
		{"w", Duration{Days: 7}},
		{"d", Duration{Days: 1}},
		{"h", Duration{Clock: time.Hour}},
		{"m", Duration{Clock: time.Minute}},
		{"s", Duration{Clock: time.Second}},
	}
}

// ParseDuration reads a duration such as 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or several joined from the longest to the
// shortest, such as 1h30m (C7). The error is an *Error.
func ParseDuration(s string) (Duration, error) {
	const hint = "a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m"
	return parseDuration(s, s, "a duration", hint)
}

// ParseOffset reads an offset: a duration with a sign, -2d for two days before the anchor, +3d or 3d for three days
// after. The error is an *Error.
func ParseOffset(s string) (Duration, error) {
	const hint = "-2d is two days before the anchor, +3d three days after"
	length, negative := strings.CutPrefix(s, "-")
	if !negative {
		length = strings.TrimPrefix(s, "+")
	}
	d, err := parseDuration(length, s, "an offset", hint)
	if err != nil {
		return Duration{}, err
	}
	if negative {
		d = Duration{Months: -d.Months, Days: -d.Days, Clock: -d.Clock}
	}
	return d, nil
}

// parseDuration reads s, a part of the written text.
func parseDuration(s, written, what, hint string) (Duration, error) {
	refused := &Error{Message: strconv.Quote(written) + " is not " + what, Hint: hint}
	if s == "" {
		return Duration{}, refused
	}
	var sum Duration
	shorter := units()
	left := shorter[:]
	for s != "" {
		n := len(s) - len(strings.TrimLeft(s, "0123456789"))
		count, letters := s[:n], s[n:]
		letters = letters[:len(letters)-len(strings.TrimLeft(letters, "abcdefghijklmnopqrstuvwxyz"))]
		s = s[n+len(letters):]
		for len(left) > 0 && left[0].name != letters {
			left = left[1:]
		}
		if count == "" || len(count) > 1 && count[0] == '0' || len(left) == 0 {
			return Duration{}, refused
		}
		one := left[0].one
		left = left[1:]
		// Comparing before multiplying keeps the product from overflowing.
		k, err := strconv.ParseInt(count, 10, 64)
		if err != nil || k > int64(maxDuration/one.Exact()) {
			return Duration{}, &Error{Message: strconv.Quote(written) + " is too long", Hint: "100y is the longest"}
		}
		sum.Months += int(k) * one.Months
		sum.Days += int(k) * one.Days
		sum.Clock += time.Duration(k) * one.Clock
		if sum.Exact() > maxDuration {
			return Duration{}, &Error{Message: strconv.Quote(written) + " is too long", Hint: "100y is the longest"}
		}
	}
	return sum, nil
}

// String returns the canonical form, which ParseOffset reads back: whole years, months, days, then the clock part; 0d for zero. Equal
// durations have equal strings.
func (d Duration) String() string {
	if d.IsZero() {
		return "0d"
	}
	var b strings.Builder
	if d.Negative() {
		b.WriteByte('-')
		d = Duration{Months: -d.Months, Days: -d.Days, Clock: -d.Clock}
	}
	part := func(n int64, unit string) {
		if n != 0 {
			b.WriteString(strconv.FormatInt(n, 10))
			b.WriteString(unit)
		}
	}
	part(int64(d.Months/12), "y")
	part(int64(d.Months%12), "mo")
	part(int64(d.Days), "d")
	part(int64(d.Clock/time.Hour), "h")
	part(int64(d.Clock/time.Minute%60), "m")
	part(int64(d.Clock/time.Second%60), "s")
	return b.String()
}

// MarshalText returns the text of String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseOffset reads.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseOffset(string(text))
	return err
}

// IsZero reports whether all parts of d are zero.
func (d Duration) IsZero() bool { return d == Duration{} }

// Negative reports whether d goes back in time.
func (d Duration) Negative() bool { return d.Months < 0 || d.Days < 0 || d.Clock < 0 }

// Exact returns the length for anchors that are instants: a day is 24 hours, a month 30 days and a year 365 days.
func (d Duration) Exact() time.Duration {
	return time.Duration(d.Months/12)*year + time.Duration(d.Months%12)*month + time.Duration(d.Days)*day + d.Clock
}

// AddTo moves the local date of t in loc by the months and days of d, keeps the time of day (the default rule resolves a gap or an
// overlap), and then adds the clock part exactly. It is for anchors that are dates with a time of day. An anchor that is an instant moves
// by Exact.
func (d Duration) AddTo(t time.Time, loc *time.Location) time.Time {
	if d.Months == 0 && d.Days == 0 {
		return t.Add(d.Clock)
	}
	date, clock := DateOf(t, loc)
	at, _ := Resolve(date.Add(d), clock, loc, Rule{})
	return at.Add(time.Duration(t.Nanosecond()) + d.Clock)
}
