package instance

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// The changes that people make to a row. Each of them ends a hold. Resume ends the one of a pause only.
//
//	            pending ──Cancel──▶ cancelled ◀──Cancel── deactivated, failed
//	               │ ▲                                        │
//	Withdraw, End ◀┘ └──────────────── Release ───────────────┘ unless some contacts have their deliveries

// End gives a pending row its final state. It returns false, and only ends the hold, if the row has ended before.
func (r *Row) End(status Status, why reason.Reason, now time.Time) bool {
	r.Unhold()
	if r.Status != Pending {
		return false
	}
	r.Status, r.Delay, r.Reason, r.CompletedAt, r.NextRetryAt = status, "", why, now, time.Time{}
	return true
}

// Cancel ends a row by a person. A row that was withdrawn or failed counts as cancelled from then on, so that it is not planned again. It returns false,
// and only ends the hold, if the row has another final state.
func (r *Row) Cancel(now time.Time) bool {
	if r.Status == Deactivated || r.Status == Failed {
		r.Status = Pending
	}
	return r.End(Cancelled, reason.CancelledByPerson, now)
}

// CancelDeliveries marks the row: none of its deliveries is sent from now on. The first mark stays.
func (r *Row) CancelDeliveries(now time.Time) {
	if r.CancelledAt.IsZero() {
		r.CancelledAt = now
	}
}

// Release ends a hold. A row that waits, or was withdrawn or failed before any contact had a delivery, is taken up again, and its retries begin from the first wait.
func (r *Row) Release(now time.Time) {
	r.unbrake(now)
	r.Unhold()
	if again := (r.Status == Deactivated || r.Status == Failed) && r.Event == 0; again || r.Status == Pending {
		r.Status, r.CompletedAt = Pending, time.Time{}
		r.RetryCount, r.Crashes, r.NextRetryAt, r.Delay, r.Reason = 0, 0, now, DelayedByHold, reason.ReleasedByPerson
	}
}

// unbrake lets a row that its brake has put on hold take up everybody. A row on hold for something else keeps its brake.
func (r *Row) unbrake(now time.Time) {
	if r.Hold == HoldMany {
		r.UnbrakedAt = now
	}
}

// Resume takes up a parked row. What was due during the pause is due now, and does not count as late (R2); what is due later keeps its instant.
func (r *Row) Resume(now time.Time) {
	r.Unhold()
	r.Reason = reason.WorkflowResumed
	if r.DueAt.Before(now) && r.NextRetryAt.Before(now) {
		r.NextRetryAt = now
	}
}

// Retry takes a pending row up at once, and its retries begin from the first wait. A row that failed and is not on hold is late since it was due.
func (r *Row) Retry(now time.Time) {
	r.unbrake(now)
	r.NextRetryAt = now
	if !r.Held() && r.RetryCount > 0 {
		r.NextRetryAt = time.Time{}
	}
	if r.Unhold(); !r.Beside() {
		r.Delay = DelayedByRetry
	}
	r.RetryCount, r.Crashes, r.Reason = 0, 0, reason.RetryByOperator
}
