package cadence_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

// The lines of a person's limits, and of a message that waits for two of them.
//
// Shows: A36.
func TestUsage(t *testing.T) {
	t.Parallel()
	policy := cadence.Policy{
		Cooldown: 2 * time.Hour, MaxPerDay: 5, MaxPerWeek: 20, MaxPerMonth: 80, TypeLimits: map[string]int{"alert": 3, "report": 1},
		Quiet: civil.Span{From: 22 * 3600, To: 7 * 3600},
	}
	history := sent(t, "2026-05-12T10:00:00Z", "2026-05-14T10:00:00Z", "2026-05-14T12:00:00Z", "2026-05-14T14:00:00Z")
	now := instant(t, "2026-05-14T14:01:00Z")
	says := func(uses []cadence.Use) (lines []string) {
		for _, u := range uses {
			lines = append(lines, string(u.Limit)+": "+u.Sentence(now, time.UTC))
		}
		return lines
	}
	want := []string{
		"cooldown: cooldown until 16:00",
		"type_limits: 3 of 3 alerts today, free again 2026-05-15 00:00",
		"type_limits: 0 of 1 reports today",
		"max_per_day: 3 of 5 today",
		"max_per_week: 4 of 20 this week",
		"max_per_month: 4 of 80 this month",
		"quiet_hours: free",
	}
	if diff := cmp.Diff(want, says(cadence.NewHistory(history).Usage(policy, time.UTC, now))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want[:2], says(cadence.NewHistory(history).Blocks(policy, time.UTC, now, cadence.Message{Type: "alert"}))); diff != "" {
		t.Errorf("blocks (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want[:1], says(cadence.NewHistory(history).Blocks(policy, time.UTC, now, cadence.Message{Type: "report"}))); diff != "" {
		t.Errorf("blocks of a report (-want +got)\n%s", diff)
	}
	policy.Types = []string{"report"}
	if blocks := cadence.NewHistory(history).Blocks(policy, time.UTC, now, cadence.Message{Type: "alert"}); len(blocks) > 0 {
		t.Errorf("a type that does not count is blocked: %v", says(blocks))
	}
	policy = cadence.Policy{MaxPerDay: 5, ResumeAt: 8 * 3600, Total: cadence.Total{MaxPerDay: 4, MaxPerWeek: 9}}
	elsewhere := append(slices.Clone(history), cadence.Slot{At: instant(t, "2026-05-14T11:00:00Z"), Type: "report", N: 1, Sent: true, Elsewhere: true})
	want = []string{
		"max_per_day: 3 of 5 today",
		"total.max_per_day: 4 of 4 today over all channels, free again 2026-05-15 08:00",
		"total.max_per_week: 5 of 9 this week over all channels",
	}
	if diff := cmp.Diff(want, says(cadence.NewHistory(elsewhere).Usage(policy, time.UTC, now))); diff != "" {
		t.Errorf("total (-want +got)\n%s", diff)
	}
	m := cadence.Message{Type: "alert", At: 9 * 3600, Zone: zone(t, "Europe/Berlin")} // 07:00 UTC, so that it waits until 8
	if diff := cmp.Diff(want[1:2], says(cadence.NewHistory(elsewhere).Blocks(policy, time.UTC, now, m))); diff != "" {
		t.Errorf("blocks by the total (-want +got)\n%s", diff)
	}
	policy = cadence.Policy{MaxPerSlot: 1, MaxPerDay: 1, Rolling: true}
	now = instant(t, "2026-05-14T14:00:00Z")
	want = []string{"max_per_slot: the instant is taken, free again 14:00", "max_per_day: 3 of 1 in 24 hours, free again 2026-05-15 14:00"}
	if diff := cmp.Diff(want, says(cadence.NewHistory(history).Usage(policy, time.UTC, now))); diff != "" {
		t.Errorf("rolling (-want +got)\n%s", diff)
	}
}

// The layer of each limit (product decision 11).
func TestLayerOf(t *testing.T) {
	t.Parallel()
	own, persona := cadence.Policy{MaxPerDay: 1}, cadence.Policy{MaxPerDay: 2, Cooldown: time.Hour}
	for _, c := range []struct {
		limit        cadence.Limit
		own, persona cadence.Policy
		want         cadence.Layer
	}{
		{cadence.LimitMaxPerDay, own, persona, cadence.LayerPerson},
		{cadence.LimitCooldown, own, persona, cadence.LayerPersona},
		{cadence.LimitMaxPerDay, cadence.Policy{}, persona, cadence.LayerPersona},
		{cadence.LimitMaxPerDay, own, cadence.Policy{}, cadence.LayerPerson},
		{cadence.LimitMaxPerDay, cadence.Policy{}, cadence.Policy{}, cadence.LayerDefault},
	} {
		if got := cadence.LayerOf(c.limit, c.own, c.persona, cadence.LayerDefault); got != c.want {
			t.Errorf("%s of %+v over %+v: %s, want %s", c.limit, c.own, c.persona, got, c.want)
		}
	}
}

// Blocks agrees with Decide: it returns limits exactly if the message waits, the first one is its reason, and none ends after the
// instant of the decision.
func TestBlocksAgree(t *testing.T) {
	t.Parallel()
	locations := zones(t)
	rapid.Check(t, func(t *rapid.T) {
		policy, loc, now := policies.Draw(t, "policy"), locations[zoneNames.Draw(t, "zone")], starts.Draw(t, "start")
		var history []cadence.Slot
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			at := now.Add(time.Duration(rapid.IntRange(-24*60, 48*60).Draw(t, "minute")) * time.Minute)
			one := types.Draw(t, "type of it")
			if v := cadence.Decide(policy, history, loc, at, at.Add(90*24*time.Hour), cadence.Message{Type: one}); !v.At.IsZero() {
				history = append(history, cadence.Slot{At: v.At, Type: one, N: 1})
			}
		}
		m := cadence.Message{Type: types.Draw(t, "type"), Window: spans.Draw(t, "window")}
		v := cadence.Decide(policy, history, loc, now, now.Add(400*24*time.Hour), m)
		blocks := cadence.NewHistory(history).Blocks(policy, loc, now, m)
		if (len(blocks) > 0) != !v.At.Equal(now) {
			t.Fatalf("decided %+v, blocks %+v", v, blocks)
		}
		for i, b := range blocks {
			if i == 0 && b.Reason != v.Reason && !v.At.IsZero() {
				t.Fatalf("decided by %s, explained by %s", v.Reason, b.Reason)
			}
			if b.Free.After(v.At) && !v.At.IsZero() {
				t.Fatalf("%s ends at %s, after the decision %s", b.Limit, b.Free, v.At)
			}
		}
	})
}
