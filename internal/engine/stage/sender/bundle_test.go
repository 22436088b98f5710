package sender

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
)

// TestRequeueFolded: a message that cannot leave with its fold head is planned by itself, and no hold of before keeps it back.
func TestRequeueFolded(t *testing.T) {
	now := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	row := delivery.Row{ID: 2, Status: delivery.Skipped, Reason: reason.FoldedInto, CompletedAt: now, Hold: delivery.HoldRate}
	row.SetFold(delivery.FoldMember, 1)
	got := requeueFolded(delivery.Claim{Row: delivery.Row{ID: 1}}, row, reason.CannotRender, nil, now)
	want := delivery.Row{ID: 2, Status: delivery.Scheduled, SendAt: now}
	if got.Row != want {
		t.Errorf("got %+v, want %+v", got.Row, want)
	}
	if got.entry.Reason != reason.CannotRender || got.entry.Delivery != 2 {
		t.Errorf("entry %+v", got.entry)
	}
}
