// Package civil holds the calendar as people read it: dates, times of day, durations in calendar units, and the one
// rule that turns a local date and time into an instant.
//
// It is not a schedule: it knows what a day is, not which day is wanted. It reads no clock.
//
// Invariants:
//   - Every instant it returns is in UTC; a zone is an argument, never a property of a value.
//   - A local time inside a gap moves forward by the gap's length, one that occurs twice means the first
//     (decision 27). time.Date promises neither, so Resolve does not use it for anything but UTC.
//   - The days of a zone, its weeks and its months each cover the time line without a hole and without an overlap.
package civil

// Error says what is wrong with a written value and what to write instead.
type Error struct {
	Message string // such as `"2 days" is not an offset`
	Hint    string // what to write; may be empty
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Message }
