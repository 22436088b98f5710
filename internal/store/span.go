package store

import "time"

// Span is the instants from Since to before Until. A zero end is open.
type Span struct{ Since, Until time.Time }

// clockSlack is how far the clock of a process may be set back while it runs, and rows are still found by when they were made: a
// process makes ids that only grow, so those behind such a step are ahead of their instants.
const clockSlack = time.Minute

// floorID is an id that is not greater than any made at or after t.
func floorID(t time.Time) int64 { return max(t.UnixMicro(), 0) << nodeBits }

// cut is the page without the ids that no row of the span can have. An id is never earlier than the instant at which its row was
// made, so the list is a range of the primary key at both ends.
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

// within narrows a list to the rows of the span; column says when a row was made.
func (l *listing) within(alias, column string, s Span) {
	if !s.Since.IsZero() {
		l.and(alias+".id >= ?", floorID(s.Since))
		l.and(column+" >= ?", micros(s.Since))
	}
	if !s.Until.IsZero() {
		l.and(column+" < ?", micros(s.Until))
	}
}
