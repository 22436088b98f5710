package delivery

import "time"

// SlotUsed reports whether the slot of a row belongs to a message that was sent already: a reminder has no slot before it is due
// (R1).
func SlotUsed(row Row) bool {
	return row.Step > 0 && !row.Slot.IsZero() && !row.Slot.After(row.LastSentAt)
}

// Unsent returns a claimed row whose message does not leave now, after a change. The attempt that the claim counted did not take
// place. A step that ends unsent releases its slot, unless an earlier attempt of it may have arrived.
func Unsent(row Row, c Change, now time.Time) Row {
	over := c.Release || row.Step > 0 && (c.Step > row.Step || c.Completed)
	if over && !row.OutcomeUnknown() && !SlotUsed(row) {
		row.Slot = time.Time{}
	}
	row.Status, row.SendAt, row.Hold, row.ExpiresAt, row.EligibleAt = c.Status, c.SendAt, c.Hold, c.ExpiresAt, c.EligibleAt
	row.Step, row.RemindersRemaining = c.Step, c.Remaining
	if !c.SendAt.IsZero() {
		row.ExpiresAt = time.Time{} // it counts only when nothing more is planned
	}
	if c.Completed {
		row.CompletedAt = now
	}
	row.AttemptNo--
	row.LeaseUntil, row.IntentAt = time.Time{}, time.Time{}
	return row
}

// sendable reports whether a row of that status may have a message to send.
func sendable(s Status) bool { return s == Scheduled || s == Sent || s == Opened }

// Settled returns a row after the result of its attempt, and whether its slot is released. While the attempt was in flight, others may
// have written a stop and raised the status to opened or responded:
//
//	stopped      the attempt was not accepted and nothing was before: cancelled for the reason of the stop
//	answered     stays responded, and nothing more is sent
//	any stop     nothing more is sent; without an expiry to wait for, the delivery is complete
//	opened       stays opened where the outcome is scheduled, sent or unknown
//
// LastSentAt is never before the slot, even on a clock that was set back. This distinguishes the slot of a sent message from the slot of a
// reminder.
func Settled(row Row, c Change, now time.Time) (next Row, release bool) {
	answered, stop := row.Status == Responded, row.StopReason != ""
	cancelled := stop && row.Step == 0 && !c.Accepted && c.Status != Unknown && !answered
	if !sendable(c.Status) {
		c.SendAt, c.Hold = time.Time{}, ""
		if c.Status != Unknown {
			c.ExpiresAt = time.Time{}
		}
	}
	next = row
	switch {
	case answered:
	case cancelled:
		next.Status, next.Reason = Cancelled, row.StopReason
	case row.Status == Opened && (c.Status == Scheduled || c.Status == Sent || c.Status == Unknown):
		next.Reason = c.Reason
	case stop && !c.Accepted && c.Status == Scheduled:
		next.Reason = c.Reason
	default:
		next.Status, next.Reason = c.Status, c.Reason
	}
	next.SendAt, next.Hold, next.EligibleAt, next.ExpiresAt = c.SendAt, c.Hold, c.EligibleAt, c.ExpiresAt
	if answered || stop {
		next.SendAt, next.Hold, next.EligibleAt = time.Time{}, "", time.Time{}
	}
	if answered || cancelled || !next.SendAt.IsZero() {
		next.ExpiresAt = time.Time{}
	}
	if row.CompletedAt.IsZero() && (c.Completed || cancelled || stop && c.ExpiresAt.IsZero()) {
		next.CompletedAt = now
	}
	if c.Accepted {
		if next.LastSentAt = now; row.Slot.After(now) {
			next.LastSentAt = row.Slot
		}
	}
	next.Step, next.RetryCount, next.RemindersRemaining, next.UnknownSince, next.DueAt = c.Step, c.RetryCount, c.Remaining, c.UnknownSince, c.DueAt
	next.LeaseUntil, next.IntentAt = c.HeldBackTo, time.Time{}
	// A message was planned in the slot and is not sent any more. While an outcome is unknown, the slot stays taken, because the message may
	// have arrived.
	unplanned := next.SendAt.IsZero() && !c.SendAt.IsZero() && !c.Accepted && c.UnknownSince.IsZero()
	return next, c.Release || unplanned && next.Slot.After(next.LastSentAt)
}

// Released returns a claimed row whose request has not begun: it loses lease and intent, and the attempt does not count. If its channel is
// unavailable until at, it waits for that and stays due; the zero at leaves it where it is. A row with a stop request is not moved: its next
// claim ends it.
func Released(row Row, at time.Time, trace string) Row {
	next := row
	next.LeaseUntil, next.IntentAt = time.Time{}, time.Time{}
	next.AttemptNo--
	if at.IsZero() || row.SendAt.IsZero() || row.StopReason != "" {
		return next
	}
	next.AwaitChannel(at)
	next.Trace = trace
	return next
}
