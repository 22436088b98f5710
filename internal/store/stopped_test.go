package store_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A pause stops all waiting rows immediately, due or not. A row that its channel delays counts as due; a finished row does not
// count. Failed deliveries that a person has sent again are counted separately.
func TestStopped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		changes := []func(*delivery.Row){
			func(d *delivery.Row) { d.SendAt = now.Add(-time.Minute) },
			func(d *delivery.Row) { d.SendAt = now.Add(24 * time.Hour) },
			func(d *delivery.Row) {
				d.SendAt, d.Hold, d.EligibleAt, d.Reason = now.Add(time.Hour), delivery.HoldChannelDown, now.Add(-time.Hour), reason.ChannelDown
			},
			func(d *delivery.Row) { d.Hold, d.Reason = delivery.HoldPaused, reason.WorkflowPaused },
			func(d *delivery.Row) { d.Status, d.SendAt = delivery.Failed, time.Time{} },
			func(d *delivery.Row) {
				d.Status, d.SendAt, d.Resent = delivery.Failed, time.Time{}, true
			},
			func(d *delivery.Row) { d.Workflow = "other" },
		}
		rows := f.scheduled(len(changes), func(i int, d *delivery.Row) {
			d.Workflow = "w"
			changes[i](d)
		})
		f.exec("UPDATE delivery SET eligible_at = $1 WHERE id = $2", rows[2].EligibleAt.UnixMicro(), int64(rows[2].ID))
		stopped := func() store.Stopped {
			t.Helper()
			pauses, err := s.Pauses(t.Context(), f.ws)
			f.must(err)
			got, err := s.Stopped(t.Context(), f.ws, pauses, now)
			f.must(err)
			return got["w"]
		}
		listed := func(want int) {
			t.Helper()
			rows, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{Reason: reason.WorkflowPaused}, store.Page{Limit: 100})
			if err != nil || len(rows) != want {
				t.Errorf("%d are listed as paused, want %d (%v)", len(rows), want, err)
			}
		}
		leaving := func(want int) {
			t.Helper()
			rows, err := s.Leaving(t.Context(), f.ws, 100)
			if err != nil || len(rows) != want {
				t.Errorf("%d leave, want %d (%v)", len(rows), want, err)
			}
		}
		if got := stopped(); got != (store.Stopped{}) {
			t.Errorf("without a pause: %+v", got)
		}
		listed(1)
		leaving(4)
		f.pause("w")
		if got := stopped(); got != (store.Stopped{Deliveries: 4, Due: 3}) {
			t.Errorf("paused: %+v", got)
		}
		listed(4)
		leaving(1)
		counts, err := s.Counts(t.Context(), f.ws)
		if err != nil || counts.DeliveriesByStatus[delivery.Failed] != 2 || counts.FailedResent != 1 {
			t.Errorf("%+v, %v", counts, err)
		}
		recent, err := s.Recent(t.Context(), f.ws, now.Add(-time.Hour))
		f.must(err)
		n, resent := int64(0), int64(0)
		for _, r := range recent.Counts {
			if r.Status == delivery.Failed {
				n, resent = n+r.N, resent+r.Resent
			}
		}
		if n != 2 || resent != 1 {
			t.Errorf("%d have failed, %d of them sent again: %+v", n, resent, recent)
		}
		_, err = f.resume("w")
		f.must(err)
		if got := stopped(); got != (store.Stopped{}) {
			t.Errorf("resumed: %+v", got)
		}
	})
}
