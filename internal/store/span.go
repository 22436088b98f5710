package store

import (
	"time"

	"github.com/carillonhq/carillon/internal/key"
)

// Span is the time from Since to before Until. A zero bound is open.
type Span struct{ Since, Until time.Time }

// clockSlack is how far the clock of a process may be set back while it runs, so that rows are still found by the time at which
// they were made. The ids of a process only grow, so after the clock was set back they are ahead of the clock.
const clockSlack = time.Minute

// floorID returns an id that is not greater than any id made at t or later.
func floorID(t time.Time) int64 { return max(t.UnixMicro(), 0) << key.NodeBits }

// cut returns the page without ids that are later than the span. An id is never earlier than the instant at which its row was
// made, so both ends of the list are bounds of the primary key.
func (s Span) cut(p Page) Page {
	if s.Until.IsZero() {
		return p
	}
	end := floorID(s.Until.Add(clockSlack))
	if end = max(end, 1); p.Before <= 0 || end < p.Before {
		p.Before = end
	}
	return p
}

// within narrows a list to the rows of the span. column holds the instant at which a row was made.
func (l *listing) within(alias, column string, s Span) {
	if !s.Since.IsZero() {
		l.and(alias+".id >= ?", floorID(s.Since))
		l.and(column+" >= ?", micros(s.Since))
	}
	if !s.Until.IsZero() {
		l.and(column+" < ?", micros(s.Until))
	}
}
