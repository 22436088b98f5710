package civil

import (
	"strconv"
	"strings"
	"time"
)

// Span is a part of the day from From to before To. If To is before From, the span crosses midnight. The zero Span is empty.
type Span struct{ From, To TimeOfDay }

// ParseSpan reads a span of the day written as 22:00-07:00. The error is an *Error.
func ParseSpan(s string) (Span, error) {
	from, to, ok := strings.Cut(s, "-")
	begin, errFrom := ParseTimeOfDay(from)
	end, errTo := ParseTimeOfDay(to)
	switch {
	case !ok || errFrom != nil || errTo != nil:
		return Span{}, &Error{
			Message: strconv.Quote(s) + " is not a span of the day",
			Hint:    `a span of the day is written "22:00-07:00"; it may cross midnight`,
		}
	case begin == end:
		return Span{}, &Error{Message: strconv.Quote(s) + " ends where it begins", Hint: "write two different times of day"}
	}
	return Span{From: begin, To: end}, nil
}

// IsZero reports whether the span is empty.
func (s Span) IsZero() bool { return s == Span{} }

// String returns the span as it is written; an empty text for the zero Span.
func (s Span) String() string {
	if s.IsZero() {
		return ""
	}
	return s.From.String() + "-" + s.To.String()
}

// Rest returns the other part of the day. The rest of the zero Span is the zero Span.
func (s Span) Rest() Span { return Span{From: s.To, To: s.From} }

// Shows reports whether a clock that shows t is inside the span.
func (s Span) Shows(t TimeOfDay) bool {
	if s.From <= s.To {
		return s.From <= t && t < s.To
	}
	return t >= s.From || t < s.To
}

// Contains reports whether the clocks of loc show a time inside the span at t. If clocks are put back into the span, the repeated times
// are inside too. The times of a gap are never shown.
func (s Span) Contains(t time.Time, loc *time.Location) bool {
	if s.IsZero() {
		return false
	}
	_, clock := DateOf(t, loc)
	return s.Shows(clock)
}

// After returns the earliest instant from t on that is not in the span: t itself, or the first instant at which the clocks of loc show the
// end of the span, or a later time if they are put forward over the end.
func (s Span) After(t time.Time, loc *time.Location) time.Time {
	if !s.Contains(t, loc) {
		return t
	}
	for unix := t.Unix(); ; {
		p := periodAt(loc, unix)
		clock := floorMod(unix+p.offset, secondsPerDay)
		if !s.Shows(TimeOfDay(clock)) {
			return time.Unix(unix, 0).UTC()
		}
		free := unix + floorMod(int64(s.To)-clock, secondsPerDay)
		if free < p.end {
			return time.Unix(free, 0).UTC()
		}
		unix = p.end
	}
}
