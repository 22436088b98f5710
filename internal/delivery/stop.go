package delivery

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// StoppedFor returns the row once its person is to get nothing more of it (docs/concepts/model.md). A sent message stays sent, and its link still accepts an
// answer. A row with an open intent is only marked: the result of the attempt decides. stopped is false if nothing of it would be sent anyway.
func (r Row) StoppedFor(why reason.Reason, now time.Time) (row Row, stopped bool) {
	switch {
	case r.Status.Final():
		return r, false
	case !r.IntentAt.IsZero() && r.LeaseUntil.After(now):
		if r.StopReason != "" {
			return r, false
		}
		r.StopReason = why
		return r, true
	}
	if r.Waits() {
		r.Slot = time.Time{}
	}
	if r.Step == 0 {
		r.Status = Cancelled
	}
	r.Unplan()
	r.Reason, r.ExpiresAt, r.CompletedAt = why, time.Time{}, now
	return r, true
}
