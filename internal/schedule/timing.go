// Package schedule says when: at what instant a message and its reminders are due, when a delivery expires, and how
// late is too late.
//
// It is not the calendar (package civil) and not a limit (package cadence): a cap or quiet hours move a message later,
// after this package has said when it is due. It reads no clock; every "now" is an argument.
//
// Invariants:
//   - Sequences hang on an event, which is an instant: a day is 24 hours, whatever the zone (format.md §1).
//   - What recurs on the calendar is a list of local dates first, and of instants afterwards: no change of clocks moves a
//     date, and the instants strictly ascend.
//   - A reminder is due after the message before it was really sent, never at the same instant or before.
package schedule

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

const (
	// DefaultExpireAfter waits a month for an answer (C28).
	DefaultExpireAfter = 30 * 24 * time.Hour
	// DefaultCatchUp lets a weekend's outage pass without losing a message, and sends nothing older (decision 59).
	DefaultCatchUp = 48 * time.Hour
	// Punctual is how late still counts as on time under `catch_up: never`: a sender is never exact to the microsecond,
	// and a minute is also the age at which a slot is given up (slot_grace, model.md §5).
	Punctual = time.Minute
)

// From says what reminders are counted from.
type From string

const (
	FromPrevious From = "previous" // each from the real send of the message before it; the default, also for ""
	FromAnchor   From = "anchor"   // all from the instant for which the first message was planned (decision 37)
)

// Timing is the plan of one delivery: the first message, its reminders and the end. The zero Timing is: at once, no
// reminders, expires after 30 days, is sent up to 48 hours late.
type Timing struct {
	Offset        civil.Duration   // from the anchor to the first message; negative = before it
	Reminders     []civil.Duration // in the order of sending, each greater than zero
	RemindersFrom From
	ExpireAfter   civil.Duration // after the last send (C28, C30); zero = DefaultExpireAfter
	CatchUp       CatchUp
}

// NotBefore returns the instant at which the first message is due.
func (t Timing) NotBefore(anchor time.Time) time.Time { return anchor.Add(t.Offset.Exact()) }

// Next plans the reminder that follows a message sent (or, being late, skipped) at lastSent (C20, C22). remaining is
// the number of reminders not yet planned, len(t.Reminders) at first; it falls when a reminder is planned, not when it
// is sent (decision 36). ok is false when none is left.
//
// Reminders counted from the anchor whose instant had passed at lastSent are left out: nobody is reminded of a message
// before they could read it.
func (t Timing) Next(lastSent, notBefore time.Time, remaining int) (at time.Time, remainingAfter int, ok bool) {
	for remaining = min(remaining, len(t.Reminders)); remaining > 0; {
		wait := t.Reminders[len(t.Reminders)-remaining].Exact()
		remaining--
		if t.RemindersFrom != FromAnchor {
			return lastSent.Add(wait), remaining, true
		}
		if at = notBefore.Add(wait); at.After(lastSent) {
			return at, remaining, true
		}
	}
	return time.Time{}, 0, false
}

// ExpiresAt returns the last instant at which a delivery without further reminders still waits for an answer: it has
// expired when ExpiresAt < now, strictly (C28). A zero lastSent means that it was never sent; created counts then.
func (t Timing) ExpiresAt(lastSent, created time.Time) time.Time {
	after := DefaultExpireAfter
	if !t.ExpireAfter.IsZero() {
		after = t.ExpireAfter.Exact()
	}
	if lastSent.IsZero() {
		return created.Add(after)
	}
	return lastSent.Add(after)
}

// Stale reports whether a message due at due may no longer be sent at now (R2). Exactly at the limit it still may. due
// is the later of not_before and the slot, so that waiting for a limit is never lateness.
func (t Timing) Stale(now, due time.Time) bool { return t.CatchUp.misses(now.Sub(due)) }
