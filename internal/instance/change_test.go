package instance_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
)

var now = time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)

// What each change does in each state, on hold or not.
func TestChanges(t *testing.T) {
	t.Parallel()
	earlier := now.Add(-time.Hour)
	retried := instance.Row{Status: instance.Pending, NextRetryAt: now.Add(time.Hour), RetryCount: 2, Crashes: 1, Delay: instance.DelayedByFailure, Reason: reason.AudienceFailed, DueAt: earlier}
	ended := func(status instance.Status, why reason.Reason) instance.Row {
		return instance.Row{Status: status, Reason: why, CompletedAt: earlier, DueAt: earlier}
	}
	with := func(row instance.Row, change func(*instance.Row)) instance.Row {
		change(&row)
		return row
	}
	hold := func(row instance.Row) instance.Row {
		return with(row, func(r *instance.Row) { r.PutOnHold(instance.HoldConflict, earlier) })
	}
	begun := func(row instance.Row) instance.Row { return with(row, func(r *instance.Row) { r.Event = 5 }) }
	cancel := func(r *instance.Row) { r.Cancel(now) }
	release := func(r *instance.Row) { r.Release(now) }
	retry := func(r *instance.Row) { r.Retry(now) }
	resume := func(r *instance.Row) { r.Resume(now) }
	parked := func(due, retry time.Time) instance.Row {
		return instance.Row{
			Status: instance.Pending, Hold: instance.HoldPaused, HeldAt: earlier, Delay: instance.DelayedByPause, Reason: reason.WorkflowPaused, DueAt: due, NextRetryAt: retry,
		}
	}
	resumed := func(due, retry time.Time) instance.Row {
		return instance.Row{Status: instance.Pending, Delay: instance.DelayedByPause, Reason: reason.WorkflowResumed, DueAt: due, NextRetryAt: retry}
	}
	soon := now.Add(time.Hour)
	end := func(r *instance.Row) { r.End(instance.Deactivated, reason.WorkflowInactive, now) }
	withdrawn, failed := ended(instance.Deactivated, reason.ConditionCleared), ended(instance.Failed, reason.RetriesUsedUp)
	cancelled := func(row instance.Row) instance.Row {
		return with(row, func(r *instance.Row) {
			r.Status, r.Delay, r.Reason, r.CompletedAt, r.NextRetryAt = instance.Cancelled, "", reason.CancelledByPerson, now, time.Time{}
		})
	}
	released := instance.Row{Status: instance.Pending, NextRetryAt: now, Delay: instance.DelayedByHold, Reason: reason.ReleasedByPerson, DueAt: earlier}
	for _, test := range []struct {
		name   string
		row    instance.Row
		change func(*instance.Row)
		want   instance.Row
	}{
		{"cancel, pending", retried, cancel, cancelled(retried)},
		{"cancel, on hold", hold(retried), cancel, cancelled(retried)},
		{"cancel, withdrawn", hold(withdrawn), cancel, cancelled(withdrawn)},
		{"cancel, failed", hold(failed), cancel, cancelled(failed)},
		{"cancel, completed", hold(ended(instance.Completed, reason.Expanded)), cancel, ended(instance.Completed, reason.Expanded)},
		{"cancel, cancelled", hold(ended(instance.Cancelled, reason.Forgotten)), cancel, ended(instance.Cancelled, reason.Forgotten)},
		{"release, pending", hold(retried), release, released},
		{"release, withdrawn", hold(withdrawn), release, released},
		{"release, failed", hold(failed), release, released},
		{"release, failed after it had begun", hold(begun(failed)), release, begun(failed)},
		{"release, completed", hold(ended(instance.Completed, reason.Expanded)), release, ended(instance.Completed, reason.Expanded)},
		{"retry, after a failure", retried, retry, instance.Row{Status: instance.Pending, Delay: instance.DelayedByRetry, Reason: reason.RetryByOperator, DueAt: earlier}},
		{"retry, on hold", hold(retried), retry, instance.Row{Status: instance.Pending, Delay: instance.DelayedByHold, Reason: reason.RetryByOperator, NextRetryAt: now, DueAt: earlier}},
		{"retry, never tried", instance.Row{Status: instance.Pending}, retry, instance.Row{Status: instance.Pending, Delay: instance.DelayedByRetry, Reason: reason.RetryByOperator, NextRetryAt: now}},
		{"resume, due in the pause", parked(earlier, time.Time{}), resume, resumed(earlier, now)},
		{"resume, tried before the pause", parked(earlier, earlier), resume, resumed(earlier, now)},
		{"resume, due now", parked(now, time.Time{}), resume, resumed(now, time.Time{})},
		{"resume, moved to a later instant", parked(soon, earlier), resume, resumed(soon, earlier)},
		{"resume, tried again later", parked(earlier, soon), resume, resumed(earlier, soon)},
		{"end, pending", hold(retried), end, with(retried, func(r *instance.Row) {
			r.Status, r.Delay, r.Reason, r.CompletedAt, r.NextRetryAt = instance.Deactivated, "", reason.WorkflowInactive, now, time.Time{}
		})},
		{"end, completed", hold(ended(instance.Completed, reason.Expanded)), end, ended(instance.Completed, reason.Expanded)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := test.row
			test.change(&got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
