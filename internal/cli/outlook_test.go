package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
)

// What a delivery waits for leads, and an absent provider stands beside it where it binds for less.
func TestOutlook(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		next client.Outlook
		want string
	}{
		{client.Outlook{At: at}, "leaves at 2026-11-24T00:00:00Z"},
		{client.Outlook{At: at, Away: true}, "leaves at 2026-11-24T00:00:00Z. Besides, its provider is away now."},
		{client.Outlook{At: at, Reason: "daily", Message: "Today is full.", Away: true}, "leaves at 2026-11-24T00:00:00Z at the earliest: Today is full. Besides, its provider is away now."},
		{client.Outlook{Reason: "workflow_paused", Message: "Paused.", Away: true}, "does not leave: Paused. Besides, its provider is away now."},
		{client.Outlook{At: at, Reason: "channel_down", Message: "Away."}, "does not leave before its provider is back: Away."},
	} {
		if got := outlook(output{Timezone: zone{time.UTC}}, client.DeliveryDetail{Outlook: &c.next}); got != c.want {
			t.Errorf("%+v: %s", c.next, got)
		}
	}
}

// What lets a held instance go on depends on why it is held, and on how far it was.
func TestNextOfAHeldInstance(t *testing.T) {
	t.Parallel()
	const stop = "; carillon instances cancel i_1 stops it for good"
	for _, c := range []struct {
		held, status string
		want         string
	}{
		{"retries_used_up", "pending", "held: carillon instances release i_1 lets it go on, with a new ladder of tries" + stop},
		{"expression_failed", "pending", "held: carillon instances release i_1 lets it go on, with a new ladder of tries" + stop},
		{"workflow_paused", "pending", "held: carillon workflows resume order lets everything go on that the pause has parked"},
		{"input_conflict", "pending", "held: carillon instances release i_1 accepts the new inputs, and it goes on" + stop},
		{"input_conflict", "completed", "held: carillon instances release i_1 accepts the new inputs, and it is not sent again; carillon instances retry i_1 has it done again"},
		{"input_conflict", "cancelled", "held: carillon instances release i_1 accepts the new inputs, and it is not sent again; carillon instances retry i_1 has it done again"},
	} {
		if got := nextOf(client.Instance{ID: "i_1", Workflow: "order", Held: true, HeldFor: c.held, Status: c.status}); got != c.want {
			t.Errorf("%s, %s: %s", c.held, c.status, got)
		}
	}
	if got := nextOf(client.Instance{ID: "i_1", Status: "pending"}); got != "" {
		t.Errorf("not held: %s", got)
	}
}

// Only a retry of what was refused for good is warned of.
func TestReasonsOfASelection(t *testing.T) {
	t.Parallel()
	answer := client.BulkAnswer{ByReason: map[string]int{"permanent_error": 2, "channel_down": 1}}
	for done, warned := range map[string]bool{"retried": true, "cancelled": false} {
		var out strings.Builder
		(&session{Stdio: Stdio{Out: &out}}).printReasons(answer, done)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[1], "channel_down\t1\t") || !strings.HasPrefix(lines[2], "permanent_error\t2\t") ||
			strings.HasSuffix(lines[2], "It will probably be refused again.") != warned || strings.HasSuffix(lines[1], "again.") {
			t.Errorf("%s:\n%s", done, out.String())
		}
	}
}
