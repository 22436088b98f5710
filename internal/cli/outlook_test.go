package cli

import (
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
