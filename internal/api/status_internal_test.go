package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

func TestStatusLines(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC)
	away := client.Channel{Key: "sms:away"}
	away.State.Breaker, away.State.OpenUntil, away.State.LastFailure = "open", at, "503"
	fine := client.Channel{Key: "sms:fine"}
	fine.State.Breaker = client.BreakerClosed
	lines := (ids{}).statusLines(facts{
		channels: []client.Channel{away, fine},
		lines: store.WaitingCounts{More: true, Counts: []store.WaitingCount{
			{Workflow: "a", Channel: "sms:away", Reason: reason.ChannelDown, N: 3, Oldest: at.Add(-time.Hour)},
			{Workflow: "b", Channel: "sms:away", Reason: reason.ChannelDown, N: 2, Oldest: at},
		}},
		stands: []store.Attention{
			{What: store.AttentionHeld, N: 1, Oldest: at},
			{What: store.AttentionUnknown, N: 4},
			{What: store.AttentionRuns, N: 2, Oldest: at},
			{What: store.AttentionDue, N: 5, More: true, Oldest: at.Add(-2 * time.Hour)},
			{What: store.AttentionRecords, N: 6, Oldest: at},
		},
		recent: store.RecentCounts{More: true, Counts: []store.RecentCount{
			{Channel: "sms:fine", Status: delivery.Failed, Reason: reason.RetriesUsedUp, N: 3, Resent: 1},
			{Channel: "sms:fine", Status: delivery.Failed, Reason: reason.RetriesUsedUp, Workflow: "b", N: 1},
			{Channel: "sms:fine", Status: delivery.Failed, Reason: reason.PermanentError, N: 1},
			{Channel: "sms:away", Status: delivery.Failed, Reason: reason.RetriesUsedUp, N: 2, Resent: 2},
			{Channel: "sms:away", Status: delivery.Sent, N: 9},
		}},
		copied: store.Copied{RestoredAt: at, Why: "its tables were created again"},
		pauses: []store.Pause{{Workflow: "a", PausedAt: at, Why: "a wrong text"}, {Workflow: "b", PausedAt: at, ResumedAt: at}},
		sinks: []client.Sink{
			{Name: "away", State: "disabled", Reason: "retries_used_up", Pending: store.MaxBacklog, Dead: store.MaxBacklog},
			{Name: "down", State: "active", Reason: "temporary_error", Pending: 4, FailingSince: at, NextAt: at.Add(time.Minute)},
			{Name: "fine", State: "active", Pending: 3},
			{Name: "shut", State: "paused"},
			{Name: "sour", State: "active", Dead: 1},
		},
		stopped: map[string]store.Stopped{"a": {Instances: 2, Deliveries: 13, Due: 4, More: true}},
	})
	type line struct {
		What, Name, State, Reason, Command string
		N                                  int64
		More                               bool
	}
	got := make([]line, len(lines))
	for i, l := range lines {
		got[i] = line{l.What, l.Name, l.State, l.Reason, l.Command, l.N, l.More}
	}
	want := []line{
		{"copy", "", "", "its tables were created again", "carillon accept-restore", 0, false},
		{"channel", "sms:away", "open", "", "carillon channels list", 0, false},
		{"channel", "sms:fine", "closed", "", "", 0, false},
		{"due", "", "", "", "carillon instances list --status pending", 5, true},
		{"waiting", "sms:away", "", "channel_down", "carillon deliveries list --channel sms:away --status scheduled --reason channel_down", 5, true},
		{"records", "", "", "", "carillon runs list", 6, false},
		{"held", "", "", "", "carillon instances list --held", 1, false},
		{"unknown", "", "", "", "carillon deliveries list --status unknown", 4, false},
		{"runs", "", "", "", "carillon runs list", 2, false},
		{"failed", "sms:fine", "", "permanent_error", "carillon deliveries list --status failed --channel sms:fine --reason permanent_error --since 1d", 1, true},
		{"failed", "sms:fine", "", "retries_used_up", "carillon deliveries retry --status failed --channel sms:fine --reason retries_used_up --since 1d", 3, true},
		{"paused", "a", "", "a wrong text", "carillon workflows resume a", 15, true},
		{"sink", "away", "disabled", "retries_used_up", "carillon sinks enable away", 100_000, true},
		{"dead", "away", "", "", "carillon outbox list --status dead --sink away", 100_000, true},
		{"sink", "down", "active", "temporary_error", "carillon outbox list --sink down", 4, false},
		{"sink", "shut", "paused", "", "carillon sinks enable shut", 0, false},
		{"dead", "sour", "", "", "carillon outbox list --status dead --sink sour", 1, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, l := range lines {
		if l.Name == "down" && (l.Since != at || l.Until != at.Add(time.Minute)) {
			t.Errorf("a sink that fails does so since %s, and is tried at %s", l.Since, l.Until)
		}
	}
}
