package delivery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/reason"
)

// What was parked is due now, whatever kept it back before, and keeps its slot, its step and its tries.
func TestResume(t *testing.T) {
	t.Parallel()
	before := now.Add(-time.Hour)
	parked := Row{Status: Sent, SendAt: before, Hold: HoldPaused, Reason: reason.WorkflowPaused, Slot: before, Step: 1, RetryCount: 2, LastSentAt: before}
	want := parked
	want.SendAt, want.Hold, want.Reason = now, "", reason.WorkflowResumed
	for name, change := range map[string]func(*Row){
		"as planned":                     func(*Row) {},
		"it waited for its channel":      func(r *Row) { r.DueAt, r.EligibleAt = before.Add(-time.Hour), before.Add(-time.Minute) },
		"it was parked ahead of its due": func(r *Row) { r.SendAt = now.Add(time.Hour) },
	} {
		row := parked
		change(&row)
		row.Resume(now)
		if diff := cmp.Diff(want, row); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// A message that waits for its channel stays due since when it was, however often that moves it.
func TestAwaitChannel(t *testing.T) {
	t.Parallel()
	before, at := now.Add(-time.Hour), now.Add(time.Hour)
	want := Row{SendAt: at, Hold: HoldChannelDown, Reason: reason.ChannelDown, DueAt: before, EligibleAt: before, RetryCount: 2}
	row := Row{SendAt: before, RetryCount: 2}
	row.AwaitChannel(now)
	row.AwaitChannel(at)
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A fold member that does not leave with its head waits by itself, or has failed. It is of no head any more.
func TestLeaveFold(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]Row{
		"planned to leave with it": {Status: Scheduled, SendAt: now.Add(FoldMemberDelay), Fold: FoldMember, FoldedInto: 9, Version: 3},
		"in its message":           {Status: Skipped, Reason: reason.FoldedInto, CompletedAt: now.Add(-time.Hour), Fold: Folded, FoldedInto: 9, Version: 3},
	} {
		alone, failed := row, row
		alone.LeaveFold(now)
		failed.FailOutOfFold(reason.CannotRender, now)
		if diff := cmp.Diff(Row{Status: Scheduled, SendAt: now, Version: 3}, alone); diff != "" {
			t.Errorf("%s, alone (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(Row{Status: Failed, Reason: reason.CannotRender, CompletedAt: now, Version: 3}, failed); diff != "" {
			t.Errorf("%s, failed (-want +got)\n%s", name, diff)
		}
	}
}
