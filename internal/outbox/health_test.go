package outbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/reason"
)

const day = 24 * time.Hour

func TestHealthAfter(t *testing.T) {
	t.Parallel()
	failing := func(since, last time.Duration) Health {
		return Health{State: Active, FailingSince: now.Add(-since), FailedAt: now.Add(-last), Reason: reason.TemporaryError}
	}
	failed := func(state State, since time.Duration, why reason.Reason) Health {
		return Health{State: state, FailingSince: now.Add(-since), FailedAt: now, Reason: why}
	}
	rests := func(h Health, rest time.Duration) Health { h.RestUntil = now.Add(rest); return h }
	paused, disabled := failing(6*day, time.Hour), failing(6*day, time.Hour)
	paused.State, disabled.State, disabled.Reason = Paused, Disabled, reason.RetriesUsedUp
	tests := []struct {
		name   string
		health Health
		result Result
		days   time.Duration
		want   Health
	}{
		{"the first success", Health{}, accepted, 0, Health{}},
		{"the first failure", Health{State: Active}, temporary, 0, rests(failed(Active, 0, reason.TemporaryError), time.Second)},
		{"half of the time for which it fails", failing(30*time.Second, time.Second), temporary, 0, rests(failed(Active, 30*time.Second, reason.TemporaryError), 15*time.Second)},
		{"a success clears it", failing(4*day, time.Hour), accepted, 0, Health{State: Active}},
		{"just not for five days", failing(5*day-time.Second, time.Hour), temporary, 0, rests(failed(Active, 5*day-time.Second, reason.TemporaryError), time.Minute)},
		{"for five days", failing(5*day, time.Hour), temporary, 0, rests(failed(Disabled, 5*day, reason.RetriesUsedUp), time.Minute)},
		{"refusals count", failing(5*day, time.Hour), permanent, 0, failed(Disabled, 5*day, reason.RetriesUsedUp)},
		{"for the days of the sink", failing(day, time.Hour), temporary, day, rests(failed(Disabled, day, reason.RetriesUsedUp), time.Minute)},
		{"two failures far apart", failing(6*day, 3*day), temporary, 0, rests(failed(Active, 0, reason.TemporaryError), time.Second)},
		{"gone", Health{}, gone, 0, failed(Disabled, 0, reason.Gone)},
		{"gone while paused", paused, gone, 0, failed(Disabled, 6*day, reason.Gone)},
		{"a paused sink is not disabled by its last failures", paused, temporary, 0, rests(failed(Paused, 6*day, reason.TemporaryError), time.Minute)},
		{"a late success enables nothing", disabled, accepted, 0, Health{State: Disabled, Reason: reason.RetriesUsedUp}},
		{"why it was disabled stays", disabled, temporary, 0, rests(failed(Disabled, 6*day, reason.RetriesUsedUp), time.Minute)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.health.After(tt.result, now, tt.days)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// While a sink fails, one event at a time tries whether it is back.
func TestBatch(t *testing.T) {
	t.Parallel()
	failing := Health{State: Active}.After(temporary, now, 0)
	if got := failing.Batch(16); got != 1 {
		t.Errorf("failing: %d", got)
	}
	for name, h := range map[string]Health{"new": {}, "back": failing.After(accepted, now, 0), "refused one": Health{}.After(permanent, now, 0)} {
		if got := h.Batch(16); got != 16 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestNextTry(t *testing.T) {
	t.Parallel()
	rests := Health{State: Active, FailingSince: now, FailedAt: now, RestUntil: now.Add(time.Minute)}
	paused := rests
	paused.State = Paused
	for name, tt := range map[string]struct {
		health     Health
		from, want time.Time
	}{
		"a new sink":                    {Health{}, now, now},
		"it fails, and rests no longer": {rests, now.Add(time.Hour), now.Add(time.Hour)},
		"it rests":                      {rests, now, now.Add(time.Minute)},
		"nothing is tried":              {rests, time.Time{}, time.Time{}},
		"it is paused":                  {paused, now, time.Time{}},
		"it is disabled":                {Health{State: Disabled}, now, time.Time{}},
	} {
		if got := tt.health.NextTry(tt.from); !got.Equal(tt.want) {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// A redrive ends the rest of a sink, and nothing else: it fails until a try succeeds.
func TestRedriven(t *testing.T) {
	t.Parallel()
	failing := Health{State: Active}.After(temporary, now, 0)
	later := now.Add(time.Millisecond)
	got, ok := failing.Redriven(later)
	want := failing
	want.RestUntil = later
	if !ok || got != want || got.Batch(16) != 1 {
		t.Errorf("got %+v, %t", got, ok)
	}
	for name, h := range map[string]Health{"new": {}, "rests no longer": got} {
		if same, ok := h.Redriven(later); ok || same != h {
			t.Errorf("%s: %+v, %t", name, same, ok)
		}
	}
}

func TestPauseAndEnable(t *testing.T) {
	t.Parallel()
	failing := Health{State: Active, FailingSince: now, FailedAt: now, Reason: reason.TemporaryError}
	paused, ok := failing.Pause()
	if !ok || paused.Sends() || paused.FailingSince != now {
		t.Errorf("pause: %+v, %t", paused, ok)
	}
	if again, ok := paused.Pause(); ok || again != paused {
		t.Errorf("a second pause: %+v, %t", again, ok)
	}
	disabled := failing.After(gone, now, 0)
	if still, ok := disabled.Pause(); ok || still != disabled {
		t.Errorf("pause of a disabled sink: %+v, %t", still, ok)
	}
	for _, h := range []Health{paused, disabled} {
		if got, ok := h.Enable(); !ok || got != (Health{State: Active}) {
			t.Errorf("enable of %s: %+v, %t", h.State, got, ok)
		}
	}
	if same, ok := failing.Enable(); ok || same != failing {
		t.Errorf("enable of an active sink: %+v, %t", same, ok)
	}
	if !(Health{}).Sends() {
		t.Error("a sink of which nothing is known sends")
	}
}

// A sink is disabled only when it is gone or has failed for five days with no success between, and never without a person enabled again.
func TestHealthHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h, at, success := Health{}, now, now
		for range rapid.IntRange(1, 60).Draw(t, "tries") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(day)).Draw(t, "later")))
			before, result := h, anyResult().Draw(t, "result")
			h = h.After(result, at, 0)
			if result.Outcome == Accepted {
				success = at
			}
			switch {
			case before.State == Disabled && h.State != Disabled:
				t.Fatal("enabled by a try")
			case before.State != Disabled && result.Outcome == Gone && h.State != Disabled:
				t.Fatal("gone, and not disabled")
			case before.State != Disabled && h.State == Disabled && result.Outcome != Gone && at.Sub(success) < DefaultDisableAfter:
				t.Fatalf("disabled %s after a success", at.Sub(success))
			}
			if result.Outcome == Accepted && !h.FailingSince.IsZero() {
				t.Fatal("failing after a success")
			}
		}
	})
}
