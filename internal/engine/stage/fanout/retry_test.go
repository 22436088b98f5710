package fanout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// A panic over one instance fails only that instance: it is retried at once the first time, after the backoff the second time, and put on hold the
// third time.
func TestBreakdowns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		onCrash string
		crashes int
		want    instance.Patch
	}{
		{definition.CrashNow, 0, instance.Patch{Crashes: 1}},
		{definition.CrashNow, 1, instance.Patch{Crashes: 2, RetryCount: 1, NextRetryAt: now.Add(5 * time.Minute)}},
		{definition.CrashLadder, 0, instance.Patch{Crashes: 1, RetryCount: 1, NextRetryAt: now.Add(5 * time.Minute)}},
		{definition.CrashLadder, 2, instance.Patch{Crashes: 3, RetryCount: 1, Hold: instance.HoldCrashes}},
	} {
		r := run{facts: facts{now: now}}
		err := guarded(func() error { panic("a bug") })
		if broken := (*crash)(nil); !errors.As(err, &broken) || !strings.Contains(err.Error(), "a bug") {
			t.Fatalf("got %v", err)
		}
		p := planned{trigger: &definition.Trigger{Retry: definition.Retry{Backoff: []time.Duration{5 * time.Minute}, OnCrash: tt.onCrash}}}
		got := r.fail(&p, due{DueInstance: store.DueInstance{Row: instance.Row{Crashes: tt.crashes}}}, err)
		if got.Reason != reason.WorkerCrashed || got.Status != instance.Pending || got.Crashes != tt.want.Crashes ||
			got.RetryCount != tt.want.RetryCount || got.Hold != tt.want.Hold || !got.NextRetryAt.Equal(tt.want.NextRetryAt) {
			t.Errorf("%s after %d: %+v", tt.onCrash, tt.crashes, got)
		}
	}
}
