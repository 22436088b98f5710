package cadence_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := civil.LoadZone(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

func instant(tb testing.TB, s string) time.Time {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		tb.Fatal(err)
	}
	return at.UTC()
}

// sent returns a history of alerts, one at each instant.
func sent(tb testing.TB, at ...string) (history []cadence.Slot) {
	tb.Helper()
	for _, s := range at {
		history = append(history, cadence.Slot{At: instant(tb, s), Type: "alert", N: 1, Sent: true})
	}
	return history
}

// Shows: A31, A32, A33, A34, A36.
func TestDecide(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	night := civil.Span{From: 20 * 3600, To: 7 * 3600}
	for _, c := range []struct {
		name    string
		policy  cadence.Policy
		window  civil.Span
		history []string
		zone    string // UTC
		now     string
		want    string
		reason  reason.Reason
	}{
		{
			name:    "several messages of one instant share a slot",
			policy:  cadence.Policy{Cooldown: 2 * hour},
			history: []string{"2026-05-14T10:00:00Z", "2026-05-14T10:00:00Z"},
			now:     "2026-05-14T10:00:00Z", want: "2026-05-14T10:00:00Z",
		},
		{
			name:    "a queued slot is joined",
			policy:  cadence.Policy{Cooldown: 2 * hour},
			history: []string{"2026-05-14T10:00:00Z", "2026-05-14T12:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "2026-05-14T12:00:00Z", reason: reason.CadenceCooldown,
		},
		{
			name:    "too near before a queued slot",
			policy:  cadence.Policy{Cooldown: 2 * hour},
			history: []string{"2026-05-14T12:00:00Z"},
			now:     "2026-05-14T11:00:00Z", want: "2026-05-14T12:00:00Z", reason: reason.CadenceCooldown,
		},
		{
			name:    "exactly the cooldown before a queued slot",
			policy:  cadence.Policy{Cooldown: 2 * hour},
			history: []string{"2026-05-14T12:00:00Z"},
			now:     "2026-05-14T10:00:00Z", want: "2026-05-14T10:00:00Z",
		},
		{
			name:    "strict: a full slot",
			policy:  cadence.Policy{Cooldown: 2 * hour, MaxPerSlot: 1},
			history: []string{"2026-05-14T10:00:00Z", "2026-05-14T12:00:00Z"},
			now:     "2026-05-14T10:00:00Z", want: "2026-05-14T14:00:00Z", reason: reason.CadenceCooldown,
		},
		{
			name:    "a full slot without a cooldown: the next instant",
			policy:  cadence.Policy{MaxPerSlot: 1},
			history: []string{"2026-05-14T10:00:00Z"},
			now:     "2026-05-14T10:00:00Z", want: "2026-05-14T10:00:00.000001Z", reason: reason.CadenceCooldown,
		},
		{
			name:    "a full day behind a cooldown: first reason, latest instant",
			policy:  cadence.Policy{Cooldown: hour, MaxPerDay: 1},
			history: []string{"2026-05-14T10:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "2026-05-15T00:00:00Z", reason: reason.CadenceCooldown,
		},
		{
			name:    "tomorrow is full too",
			policy:  cadence.Policy{MaxPerDay: 1},
			history: []string{"2026-05-14T10:00:00Z", "2026-05-15T00:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "2026-05-16T00:00:00Z", reason: reason.CadenceDaily,
		},
		{
			name:    "the week ends on Monday, the month later",
			policy:  cadence.Policy{MaxPerWeek: 1, MaxPerMonth: 1},
			history: []string{"2026-05-14T10:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "2026-06-01T00:00:00Z", reason: reason.CadenceWeekly,
		},
		{
			name:    "the type's limit before the day's",
			policy:  cadence.Policy{MaxPerDay: 1, TypeLimits: map[string]int{"alert": 1}},
			history: []string{"2026-05-14T10:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "2026-05-15T00:00:00Z", reason: reason.CadenceTypeDaily,
		},
		{
			name:    "another type's limit",
			policy:  cadence.Policy{TypeLimits: map[string]int{"report": 1}},
			history: []string{"2026-05-14T10:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "2026-05-14T10:30:00Z",
		},
		{
			name:    "a day without midnight",
			policy:  cadence.Policy{MaxPerDay: 1},
			history: []string{"2018-11-03T12:00:00-03:00"},
			zone:    "America/Sao_Paulo",
			now:     "2018-11-03T13:00:00-03:00", want: "2018-11-04T01:00:00-02:00", reason: reason.CadenceDaily,
		},
		{
			name:    "a day of 25 hours",
			policy:  cadence.Policy{MaxPerDay: 1},
			history: []string{"2026-10-25T00:00:00+02:00"},
			zone:    "Europe/Berlin",
			now:     "2026-10-25T23:59:00+01:00", want: "2026-10-26T00:00:00+01:00", reason: reason.CadenceDaily,
		},
		{
			name:    "a wait for a new day ends in the morning",
			policy:  cadence.Policy{MaxPerDay: 1, ResumeAt: 8 * 3600},
			history: []string{"2026-05-14T10:00:00+02:00"},
			zone:    "Europe/Berlin",
			now:     "2026-05-14T13:00:00+02:00", want: "2026-05-15T08:00:00+02:00", reason: reason.CadenceDaily,
		},
		{
			name:    "a type that the policy does not count",
			policy:  cadence.Policy{Cooldown: hour, MaxPerDay: 1, Types: []string{"report"}},
			history: []string{"2026-05-14T10:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "2026-05-14T10:30:00Z",
		},
		{
			name:    "history in no order",
			policy:  cadence.Policy{Cooldown: 2 * hour},
			history: []string{"2026-05-14T14:00:00Z", "2026-05-14T10:00:00Z", "2026-05-14T12:00:00Z"},
			now:     "2026-05-14T13:00:00Z", want: "2026-05-14T14:00:00Z", reason: reason.CadenceCooldown,
		},
		{
			name:   "quiet hours",
			policy: cadence.Policy{Quiet: night},
			zone:   "Europe/Berlin",
			now:    "2026-05-14T22:30:00+02:00", want: "2026-05-15T07:00:00+02:00", reason: reason.QuietHours,
		},
		{
			name:    "a cooldown that ends in the quiet hours",
			policy:  cadence.Policy{Cooldown: 2 * hour, Quiet: night},
			history: []string{"2026-05-14T19:00:00Z"},
			now:     "2026-05-14T19:30:00Z", want: "2026-05-15T07:00:00Z", reason: reason.CadenceCooldown,
		},
		{
			name:    "quiet hours hold for a type that the policy does not count, and its caps do not",
			policy:  cadence.Policy{Cooldown: 9 * hour, MaxPerDay: 1, Types: []string{"report"}, Quiet: night},
			history: []string{"2026-05-15T01:00:00Z"},
			now:     "2026-05-15T02:00:00Z", want: "2026-05-15T07:00:00Z", reason: reason.QuietHours,
		},
		{
			name:   "the send window",
			window: night.Rest(),
			now:    "2026-05-14T22:30:00Z", want: "2026-05-15T07:00:00Z", reason: reason.SendWindow,
		},
		{
			name:   "quiet hours before the send window",
			policy: cadence.Policy{Quiet: night}, window: civil.Span{From: 9 * 3600, To: 10 * 3600},
			now: "2026-05-14T22:30:00Z", want: "2026-05-15T09:00:00Z", reason: reason.QuietHours,
		},
		{
			name:    "a rolling day",
			policy:  cadence.Policy{MaxPerDay: 1, Rolling: true, ResumeAt: 8 * 3600},
			history: []string{"2026-05-14T10:00:00Z"},
			now:     "2026-05-15T00:00:00Z", want: "2026-05-15T10:00:00Z", reason: reason.CadenceDaily,
		},
		{
			name:    "a rolling day before one that is reserved",
			policy:  cadence.Policy{MaxPerDay: 1, Rolling: true},
			history: []string{"2026-05-14T10:00:00Z", "2026-05-15T20:00:00Z"},
			now:     "2026-05-15T10:00:00Z", want: "2026-05-16T20:00:00Z", reason: reason.CadenceDaily,
		},
		{
			name:    "a rolling month has 30 days",
			policy:  cadence.Policy{MaxPerMonth: 1, Rolling: true},
			history: []string{"2026-04-20T10:00:00Z"},
			now:     "2026-05-14T10:00:00Z", want: "2026-05-20T10:00:00Z", reason: reason.CadenceMonthly,
		},
		{
			name:    "beyond until",
			policy:  cadence.Policy{MaxPerMonth: 1},
			history: []string{"2026-04-30T10:00:00Z", "2026-05-01T10:00:00Z", "2026-06-01T10:00:00Z"},
			now:     "2026-05-14T10:30:00Z", want: "", reason: reason.DeferredTooLong,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.zone == "" {
				c.zone = "UTC"
			}
			now := instant(t, c.now)
			got := cadence.Decide(c.policy, sent(t, c.history...), zone(t, c.zone), now, now.Add(30*24*hour), cadence.Message{Type: "alert", Window: c.window})
			var want time.Time
			if c.want != "" {
				want = instant(t, c.want)
			}
			if !got.At.Equal(want) || got.Reason != c.reason {
				t.Errorf("got %v %q, want %v %q", got.At, got.Reason, want, c.reason)
			}
		})
	}
}

// Messages of types that a policy does not count do not use up its limits.
func TestDecideIgnoresUncountedTypes(t *testing.T) {
	t.Parallel()
	policy := cadence.Policy{MaxPerDay: 1, Types: []string{"report"}}
	now := instant(t, "2026-05-14T10:30:00Z")
	got := cadence.Decide(policy, sent(t, "2026-05-14T10:00:00Z"), time.UTC, now, now.Add(time.Hour), cadence.Message{Type: "report"})
	if want := (cadence.Verdict{At: now}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Until is the last instant that a decision returns.
func TestDecideUntil(t *testing.T) {
	t.Parallel()
	policy := cadence.Policy{MaxPerDay: 1}
	history := sent(t, "2026-05-14T10:00:00Z")
	now, midnight := instant(t, "2026-05-14T10:30:00Z"), instant(t, "2026-05-15T00:00:00Z")
	for _, c := range []struct {
		policy cadence.Policy
		until  time.Time
		want   cadence.Verdict
	}{
		{policy, midnight, cadence.Verdict{At: midnight, Reason: reason.CadenceDaily, Last: reason.CadenceDaily}},
		{policy, midnight.Add(-1), cadence.Verdict{Reason: reason.DeferredTooLong}},
		{policy, now.Add(-1), cadence.Verdict{Reason: reason.DeferredTooLong}},
		{cadence.Policy{}, now, cadence.Verdict{At: now}},
		{cadence.Policy{}, now.Add(-1), cadence.Verdict{Reason: reason.DeferredTooLong}},
	} {
		if got := cadence.Decide(c.policy, history, time.UTC, now, c.until, cadence.Message{Type: "alert"}); got != c.want {
			t.Errorf("until %v: got %+v, want %+v", c.until, got, c.want)
		}
	}
}

func TestFloor(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-05-14T10:30:00Z") // a Thursday
	for _, c := range []struct {
		name   string
		policy cadence.Policy
		want   string
	}{
		{"no limits", cadence.Policy{}, "2026-05-14T10:30:00Z"},
		{"cooldown", cadence.Policy{Cooldown: 2 * time.Hour}, "2026-05-14T08:30:00Z"},
		{"day", cadence.Policy{Cooldown: 2 * time.Hour, MaxPerDay: 5}, "2026-05-14T00:00:00Z"},
		{"type", cadence.Policy{TypeLimits: map[string]int{"alert": 5}}, "2026-05-14T00:00:00Z"},
		{"cooldown longer than the day", cadence.Policy{Cooldown: 11 * time.Hour, MaxPerDay: 5}, "2026-05-13T23:30:00Z"},
		{"week", cadence.Policy{MaxPerDay: 5, MaxPerWeek: 20}, "2026-05-11T00:00:00Z"},
		{"month", cadence.Policy{MaxPerWeek: 20, MaxPerMonth: 80}, "2026-05-01T00:00:00Z"},
	} {
		if got := cadence.Floor(c.policy, time.UTC, now); !got.Equal(instant(t, c.want)) {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	loc := zone(b, "Europe/Paris")
	now := instant(b, "2026-05-14T10:00:00Z")
	until := now.Add(30 * 24 * time.Hour)
	caps := cadence.Policy{Cooldown: time.Hour, MaxPerDay: 5, MaxPerWeek: 20, MaxPerMonth: 80, TypeLimits: map[string]int{"alert": 5}}
	quiet, rolling := caps, caps
	quiet.Quiet, rolling.Rolling = civil.Span{From: 20 * 3600, To: 7 * 3600}, true
	for _, c := range []struct {
		name   string
		policy cadence.Policy
		slots  int // of another type, spread over the last 20 days
	}{
		{"no policy, 30 slots", cadence.Policy{}, 30},
		{"cooldown, 30 slots", cadence.Policy{Cooldown: time.Hour}, 30},
		{"all caps, no slot", caps, 0},
		{"all caps, 5 slots", caps, 5},
		{"all caps, 30 slots", caps, 30},
		{"all caps, 300 slots", caps, 300},
		{"quiet hours, all caps, 30 slots", quiet, 30},
		{"rolling, all caps, 30 slots", rolling, 30},
	} {
		var history []cadence.Slot
		for i := range c.slots {
			ago := time.Duration(c.slots-i) * 20 * 24 * time.Hour / time.Duration(c.slots+1)
			history = append(history, cadence.Slot{At: now.Add(-ago), Type: "report", N: 1})
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cadence.Decide(c.policy, history, loc, now, until, cadence.Message{Type: "alert"})
			}
		})
	}
}
