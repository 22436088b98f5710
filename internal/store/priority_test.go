package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Claims take what is due in the order of priorities, and of each in the order of its instants. What comes later with a higher priority is in the next
// claim, although claims go on where the one before has ended.
func TestClaimsByPriority(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		put := func(p flow.Priority, minutes ...int) {
			f.scheduled(len(minutes), func(i int, d *delivery.Row) {
				d.Priority, d.SendAt = p, now.Add(time.Duration(minutes[i])*time.Minute)
				d.Slot = d.SendAt
			})
		}
		type due struct {
			of     flow.Priority
			minute int
		}
		take := func(limit int) (list []due) {
			claims, err := claimDue(t.Context(), s, now, limit, nil)
			f.must(err)
			for _, c := range claims {
				list = append(list, due{c.Priority, int(c.SendAt.Sub(now) / time.Minute)})
			}
			return list
		}
		mustBe := func(what string, got []due, want ...due) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		put(flow.Digest, -60, -59, -58, -57, -56, -55, 1)
		put(flow.Immediate, -10, -11)
		put(flow.Transactional, -5)
		mustBe("in order", take(4), due{flow.Transactional, -5}, due{flow.Immediate, -11}, due{flow.Immediate, -10}, due{flow.Digest, -60})
		mustBe("a full claim", take(2), due{flow.Digest, -59}, due{flow.Digest, -58})
		put(flow.Urgent, -1)
		put(flow.Transactional, -30)
		mustBe("those that came later", take(3), due{flow.Urgent, -1}, due{flow.Transactional, -30}, due{flow.Digest, -57})
		if next, err := s.NextDue(t.Context(), now); err != nil || !next.Equal(now.Add(-56*time.Minute)) {
			t.Errorf("next due %s %v", next, err)
		}
		mustBe("the rest", take(10), due{flow.Digest, -56}, due{flow.Digest, -55})
		mustBe("nothing else is due", take(10))
		if next, err := s.NextDue(t.Context(), now.Add(time.Minute-time.Second)); err != nil || next.After(now.Add(time.Minute)) || next.IsZero() {
			t.Errorf("next due %s %v", next, err)
		}
	})
}
