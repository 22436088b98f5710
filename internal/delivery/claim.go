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
	row.Status, row.SendAt, row.ExpiresAt, row.Step, row.RemindersRemaining, row.EligibleAt = c.Status, c.SendAt, c.ExpiresAt, c.Step, c.Remaining, c.EligibleAt
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
