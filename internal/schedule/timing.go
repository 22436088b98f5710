// Package schedule computes when a message and its reminders are due, when a delivery expires, and whether a message is too late to be
// sent.
//
// Dates and zones are the part of package civil, limits the part of package cadence: caps and quiet hours defer a message after this package
// has computed when it is due. It reads no clock; every "now" is an argument.
//
// Invariants:
//   - The anchor of a sequence is an event, which is an instant: a day is 24 hours in every zone (docs/reference/definitions.md, Values).
//   - A recurrence gives local dates, which are converted to instants afterwards. No change of clocks moves a date, and the instants
//     strictly ascend.
//   - A reminder is due after the instant at which the message before it was sent, never at that instant or before.
package schedule

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

const (
	// DefaultExpireAfter is how long a delivery waits for an answer (C28).
	DefaultExpireAfter = 30 * 24 * time.Hour
	// DefaultCatchUp is long enough that no message is lost in an outage of a weekend (product decision 59).
	DefaultCatchUp = 48 * time.Hour
	// Punctual is how late still counts as on time with `catch_up: never`, because a sender is not exact to the microsecond. A minute
	// is also the age at which a slot is released (slot_grace).
	Punctual = time.Minute
)

// From is the instant from which reminders are counted.
type From string

const (
	FromPrevious From = "previous" // each from the instant at which the message before it was sent; the default, also for ""
	FromAnchor   From = "anchor"   // all from the instant for which the first message was planned (product decision 37)
)

// Timing is the plan of one delivery: the first message, its reminders and the expiry. With the zero Timing the message is due
// immediately, has no reminders, may be sent up to 48 hours late, and expires after 30 days.
type Timing struct {
	Offset        civil.Duration   // from the anchor to the first message; negative = before it
	Reminders     []civil.Duration // in the order of sending, each greater than zero
	RemindersFrom From
	ExpireAfter   civil.Duration // after the last send (C28, C30); zero = DefaultExpireAfter
	AcceptLate    bool           // an expired delivery still takes an answer (product decision 44)
	CatchUp       CatchUp
}

// NotBefore returns the instant at which the first message is due.
func (t Timing) NotBefore(anchor time.Time) time.Time { return anchor.Add(t.Offset.Exact()) }

// Next plans the reminder after a message that was sent (or skipped as too late) at lastSent (C20, C22). remaining is the number of
// reminders that are not planned yet, len(t.Reminders) at first. It decreases when a reminder is planned, not when it is sent (product decision
// 36). ok is false if none is left.
//
// Reminders that count from the anchor are left out if their instant had passed at lastSent, so that no person is reminded of a message
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

// ExpiresAt returns the last instant at which a delivery without further reminders still waits for an answer. It has expired if ExpiresAt is
// before now (C28). A zero lastSent means that it was never sent; the time then counts from created.
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

// Stale reports whether a message that was due at due is too late to be sent at now (R2). Exactly at the limit it is not. due is the later of
// not_before and the slot, so that a wait for a limit does not make a message late.
func (t Timing) Stale(now, due time.Time) bool { return t.CatchUp.misses(now.Sub(due)) }
