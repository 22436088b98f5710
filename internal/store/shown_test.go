package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A delivery of a marked instance is shown as cancelled before its row is ended, in lists, under filters and in counts: as delivery.Row.Shown
// says. Nothing else changes.
func TestShownDeliveries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		id := f.scheduled(1, nil)[0].ID
		for _, marked := range []time.Time{{}, now} {
			f.exec("UPDATE instance SET cancelled_at = $1", microsOf(marked))
			for _, status := range delivery.Statuses() {
				for n := range 8 {
					planned, completed, intent := n&1 > 0 && (status == delivery.Scheduled || status == delivery.Sent || status == delivery.Opened), n&2 > 0, n&4 > 0
					at := func(holds bool) int64 {
						if holds {
							return now.UnixMicro()
						}
						return 0
					}
					f.exec("UPDATE delivery SET status = $1, reason = $2, send_at = $3, completed_at = $4, intent_at = $5",
						string(status), string(reason.ChannelDown), at(planned), at(completed), at(intent))
					f.shownAs(id, marked)
				}
			}
		}
	})
}

// shownAs checks how the only delivery is shown whose occasion was cancelled at an instant.
func (f fixture) shownAs(id delivery.ID, cancelled time.Time) {
	f.Helper()
	one, err := f.s.DeliveryByID(f.Context(), f.ws, id)
	f.must(err)
	var row delivery.Row
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		rows, err := tx.LockDeliveriesOfInstance(f.ws, one.Instance)
		row = rows[0]
		return err
	}))
	want := row.Shown(cancelled)
	same := func(where string, got delivery.Row) {
		f.Helper()
		if got.Status != want.Status || got.Reason != want.Reason || !got.SendAt.Equal(want.SendAt) || !got.CompletedAt.Equal(want.CompletedAt) {
			f.Errorf("%s: %s %s %s, want %s %s %s (%+v)", where, got.Status, got.Reason, got.SendAt, want.Status, want.Reason, want.SendAt, row)
		}
	}
	same("by id", one)
	several, err := f.s.DeliveriesByID(f.Context(), f.ws, []delivery.ID{id})
	f.must(err)
	same("of several", several[id])
	listed := func(filter store.DeliveryFilter) bool {
		f.Helper()
		list, err := f.s.Deliveries(f.Context(), f.ws, filter, store.Page{Limit: 2})
		if f.must(err); len(list) == 0 {
			return false
		}
		same("listed", list[0])
		return true
	}
	if !listed(store.DeliveryFilter{}) {
		f.Error("it is not listed")
	}
	for _, status := range delivery.Statuses() {
		if got := listed(store.DeliveryFilter{Status: status}); got != (status == want.Status) {
			f.Errorf("listed as %s: %t, want %s (%+v)", status, got, want.Status, row)
		}
	}
	for _, why := range []reason.Reason{reason.ChannelDown, reason.CancelledByPerson} {
		if got := listed(store.DeliveryFilter{Reason: why}); got != (why == want.Reason) {
			f.Errorf("listed for %s: %t, want %s (%+v)", why, got, want.Reason, row)
		}
		rows, _, err := f.s.Selected(f.Context(), f.ws, delivery.Selection{Reason: why}, 0, id, 10)
		if f.must(err); (len(rows) > 0) != (why == want.Reason) {
			f.Errorf("selected for %s: %d, want %s (%+v)", why, len(rows), want.Reason, row)
		}
	}
	counts, err := f.s.Counts(f.Context(), f.ws)
	if f.must(err); len(counts.DeliveriesByStatus) != 1 || counts.DeliveriesByStatus[want.Status] != 1 {
		f.Errorf("counted as %v, want %s (%+v)", counts.DeliveriesByStatus, want.Status, row)
	}
	recent, err := f.s.Recent(f.Context(), f.ws, time.Time{})
	if f.must(err); len(recent.Counts) != 1 || recent.Counts[0].Status != want.Status || recent.Counts[0].Reason != want.Reason {
		f.Errorf("recent %+v, want %s (%+v)", recent, want.Status, row)
	}
	comes := !row.SendAt.IsZero() && cancelled.IsZero()
	for name, list := range map[string]func() ([]delivery.Row, error){
		"upcoming": func() ([]delivery.Row, error) { return f.s.Upcoming(f.Context(), f.ws, 10) },
		"leaving":  func() ([]delivery.Row, error) { return f.s.Leaving(f.Context(), f.ws, 10) },
		"of the contact": func() (rows []delivery.Row, err error) {
			return rows, f.s.Read(f.Context(), func(tx *store.Tx) error {
				rows, err = tx.WaitingForContact(f.ws, row.Contact, row.Workflow, 10)
				return err
			})
		},
	} {
		rows, err := list()
		if f.must(err); slices.ContainsFunc(rows, func(d delivery.Row) bool { return d.ID == id }) != comes {
			f.Errorf("%s: %d, want %t (%+v)", name, len(rows), comes, row)
		}
	}
}
