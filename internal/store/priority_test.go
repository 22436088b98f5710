package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
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
		if next, err := s.EarliestDue(t.Context(), now); err != nil || !next.Equal(now.Add(-56*time.Minute)) {
			t.Errorf("next due %s %v", next, err)
		}
		mustBe("the rest", take(10), due{flow.Digest, -56}, due{flow.Digest, -55})
		mustBe("nothing else is due", take(10))
		if next, err := s.EarliestDue(t.Context(), now.Add(time.Minute-time.Second)); err != nil || next.After(now.Add(time.Minute)) || next.IsZero() {
			t.Errorf("next due %s %v", next, err)
		}
	})
}

// A workspace with very many deliveries due makes the others wait for a batch, not for all of them. What is more urgent waits for no turn, and a workspace that
// is alone has no turns.
func TestClaimsAreFairAmongWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		of := map[string]fixture{}
		names := map[subject.WorkspaceID]string{}
		for _, name := range []string{"flood", "small", "idle", "other"} {
			w, err := s.EnsureWorkspace(t.Context(), name, []byte("secret"), now)
			if err != nil {
				t.Fatal(err)
			}
			of[name], names[w.ID] = fixture{t, s, w.ID}, name
		}
		put := func(name string, n int, p flow.Priority, ago time.Duration) {
			of[name].scheduled(n, func(i int, d *delivery.Row) {
				d.Priority, d.SendAt = p, now.Add(-ago+time.Duration(i)*time.Second)
				d.Slot = d.SendAt
			})
		}
		take := func(limit int) string {
			claims, err := claimDue(t.Context(), s, now, limit, nil)
			if err != nil {
				t.Fatal(err)
			}
			n := map[string]int{}
			for _, c := range claims {
				n[names[c.Workspace]+" "+fmt.Sprint(int(c.Priority))]++
			}
			return strings.TrimPrefix(fmt.Sprint(n), "map")
		}
		mustBe := func(what, want string, limit int) {
			t.Helper()
			if got := take(limit); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		put("flood", 60, flow.Digest, time.Hour)
		mustBe("alone", "[flood 2:10]", 10)
		put("small", 3, flow.Digest, time.Minute)
		put("other", 12, flow.Digest, 2*time.Minute)
		mustBe("a full claim", "[flood 2:10]", 10)
		mustBe("the turn of the flood", "[flood 2:10]", 10)
		mustBe("the turns of the others", "[other 2:7 small 2:3]", 10)
		mustBe("in order again", "[flood 2:10]", 10)
		put("idle", 1, flow.Urgent, 0)
		put("flood", 1, flow.Transactional, 0)
		mustBe("more urgent", "[flood 0:1 flood 2:8 idle -1:1]", 10)
		mustBe("a new round", "[flood 2:10]", 10)
		mustBe("the turns of the others, and the rest", "[flood 2:2 other 2:5]", 10)
		mustBe("nothing is left", "[]", 10)
	})
}
