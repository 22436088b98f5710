// Package civil implements the calendar of people: dates, times of day, durations in calendar units, and the rule that converts a local
// date and time to an instant.
//
// It does not know schedules, and it reads no clock.
//
// Invariants:
//   - Every instant that it returns is in UTC. A zone is an argument, never a property of a value.
//   - A local time inside a gap moves forward by the gap's length. A local time that occurs twice means the first (product decision 27).
//     time.Date promises neither, so Resolve uses it only for UTC.
//   - The days of a zone cover the time line without holes and overlaps. So do its weeks and its months.
package civil

// Error is an error in a written value, with a hint what to write instead.
type Error struct {
	Message string // such as `"2 days" is not an offset`
	Hint    string // what to write; may be empty
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Message }
