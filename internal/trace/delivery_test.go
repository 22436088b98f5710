package trace

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// The trace of a row says since when its message could have left, if a retry has moved the instant from which catch_up counts.
func TestTraceEligible(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 5, 14, 5, 20, 52, 0, time.UTC)
	row := delivery.Row{Status: delivery.Scheduled, SendAt: due, EligibleAt: due.Add(-3 * time.Minute)}
	for _, c := range []struct {
		row  delivery.Row
		want any
	}{
		{row, "2026-05-14T05:17:52Z"},
		{delivery.Row{Status: delivery.Scheduled, SendAt: due}, nil},
		{delivery.Row{Status: delivery.Scheduled, SendAt: due.Add(time.Hour), DueAt: due, EligibleAt: due}, nil},
		{delivery.Row{NotBefore: due}, nil},
	} {
		var got map[string]any
		if err := json.Unmarshal([]byte(Of(c.row, schedule.Timing{}, reason.ChannelDown, due, time.Time{}, Limits{})), &got); err != nil {
			t.Fatal(err)
		}
		if got["eligible"] != c.want || got["due"] != "2026-05-14T05:20:52Z" {
			t.Errorf("%+v: %v", c.row, got)
		}
	}
}
