package civil

import (
	"strconv"
	"strings"
)

// Span is a part of the day, from From up to and without To. One whose end is before its beginning crosses midnight.
// The zero Span is none.
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

// IsZero reports whether there is no span.
func (s Span) IsZero() bool { return s == Span{} }

// String returns the span as it is written, empty for none.
func (s Span) String() string {
	if s.IsZero() {
		return ""
	}
	return s.From.String() + "-" + s.To.String()
}
