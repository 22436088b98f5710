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
