package civil

import (
	"strconv"
	"time"
)

// ParseMoment reads an instant that a person writes: RFC 3339, or a duration such as 1d, which means that long before now, with the days
// and months of the calendar in loc. An empty text gives the zero time. The error is an *Error.
func ParseMoment(text string, now time.Time, loc *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return time.Time{}, &Error{
			Message: strconv.Quote(text) + " is neither an instant nor a duration",
			Hint:    "write an instant such as 2026-05-14T05:00:00Z, or how long ago it is, such as 1d or 6h",
		}
	}
	ago := Duration{Months: -d.Months, Days: -d.Days, Clock: -d.Clock}
	return ago.AddTo(now, loc).UTC(), nil
}
