package console

import (
	"testing"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// What has failed is offered to be sent again by its reason; what its provider refuses for good is not, and what was sent again by
// hand is not counted.
func TestFailures(t *testing.T) {
	t.Parallel()
	got := failures(store.RecentCounts{Counts: []store.RecentCount{
		{Channel: "sms:a", Workflow: "v", Status: delivery.Failed, Reason: reason.RetriesUsedUp, N: 3, Resent: 1},
		{Channel: "sms:a", Workflow: "w", Status: delivery.Failed, Reason: reason.RetriesUsedUp, N: 1},
		{Channel: "sms:a", Workflow: "w", Status: delivery.Failed, Reason: reason.PermanentError, N: 2},
		{Channel: "sms:b", Workflow: "w", Status: delivery.Failed, Reason: reason.RetriesUsedUp, N: 2, Resent: 2},
		{Channel: "sms:b", Workflow: "w", Status: delivery.Sent, Reason: reason.Delivered, N: 9},
	}})
	want := []struct{ name, n, command string }{
		{"failed in a day, sms:a, permanent error", "2", ""},
		{"failed in a day, sms:a, retries used up", "3", "carillon deliveries retry --status failed --channel sms:a --reason retries_used_up --since 1d"},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		if g := got[i]; g.name != w.name || g.badge.word != w.n || g.command != w.command {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
}
