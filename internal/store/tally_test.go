package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The deliveries of an occasion are counted up to a limit, and those of a cancelled one are cancelled before their rows are ended.
func TestTallyOfAnInstance(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.spread("k", 20)
		other := f.spread("other", 3)
		must := func(what string, limit int, want delivery.Tally) {
			t.Helper()
			row, err := s.InstanceByID(t.Context(), f.ws, in.ID)
			f.must(err)
			got, err := s.Tally(t.Context(), row, limit)
			f.must(err)
			got.Reasons = nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		must("all", 20, delivery.Tally{Deliveries: 20, Waiting: 20})
		must("one too many", 19, delivery.Tally{Deliveries: 20, Waiting: 20, More: true})
		f.exec(`UPDATE delivery SET last_sent_at = 5, status = 'sent', send_at = 0, completed_at = 7 WHERE instance_id = $1 AND contact_id % 2 = 0`, int64(in.ID))
		const sent = 10
		must("a part has left", 20, delivery.Tally{Deliveries: 20, Sent: sent, Waiting: 20 - sent})
		f.must(f.mark(in.ID))
		must("cancelled", 20, delivery.Tally{Deliveries: 20, Sent: sent, LeftOut: 20 - sent})
		row, err := s.InstanceByID(t.Context(), f.ws, other.ID)
		f.must(err)
		if got, err := s.Tally(t.Context(), row, 20); err != nil || got.Waiting != 3 || got.Deliveries != 3 {
			t.Errorf("another one: %+v %v", got, err)
		}
	})
}
