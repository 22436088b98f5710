package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func key(n string) string {
	return "00000000000000000000000000000000000000000000000000000000000000" + n
}

// keyed is a request with an Idempotency-Key.
func keyed(k, request string, c *call) *call {
	c.once = once(key(k), request)
	return c
}

// replayed fails the test for calls whose answer differs from the first one's.
func (b *bench) replayed(first *call, calls ...*call) {
	b.Helper()
	want, err := first.once.Answer(first.results)
	if err != nil || first.err != nil {
		b.Fatalf("the first call: %v, %v", first.err, err)
	}
	for i, c := range calls {
		var again *store.Replay
		if !errors.As(c.err, &again) || again.Answer != want {
			b.Errorf("repeat %d: %+v, %v; want the stored answer", i, c.results, c.err)
		}
	}
}

// A repeated request gets the stored answer; all others of its group share one transaction. It does not matter whether the first request was stored
// before or is in the same group, nor where the repeat is in the group.
// Shows: P1, P2.
func TestRepeatsLeaveTheGroupWhole(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		o := orders(12)
		stored := keyed("01", "a", o[0])
		b.apart([]*call{stored})
		again := func(k, request string, n int) *call { return keyed(k, request, orders(n + 1)[n]) }

		fresh := []*call{o[1], keyed("02", "a", o[2]), o[3], keyed("03", "a", o[4])}
		repeats := []*call{again("01", "a", 0), again("01", "a", 0), again("02", "a", 2), again("02", "a", 2)}
		reused := []*call{again("01", "b", 10), again("02", "b", 11)}
		b.together([]*call{repeats[0], fresh[0], fresh[1], repeats[2], reused[0], fresh[2], repeats[1], reused[1], fresh[3], repeats[3]}, nil)
		if got := b.transactions(); got != 2 {
			t.Errorf("%d transactions, want the first request's and the group's", got)
		}
		b.created(fresh...)
		b.replayed(stored, repeats[:2]...)
		b.replayed(fresh[1], repeats[2:]...)
		for i, c := range reused {
			if !errors.Is(c.err, store.ErrKeyReused) {
				t.Errorf("reused key %d: %v", i, c.err)
			}
		}
		counts, err := s.Counts(t.Context(), b.ws.ID)
		if err != nil || counts.Events != 5 {
			t.Errorf("%d events, %v; want 5", counts.Events, err)
		}
		if n := b.reported(); n != 10 {
			t.Errorf("the journal has %d occasions, want 10", n)
		}
		// A refused request stores nothing, not even the contacts that it names.
		people, err := s.Contacts(t.Context(), b.ws.ID, store.ContactFilter{}, store.Page{Limit: 100})
		if err != nil || len(people) != 5 {
			t.Errorf("%d contacts, %v; want 5", len(people), err)
		}
	})
}

// The evaluation of conditions within a transaction is bounded: if a request exceeds the bound, the rest of its events is refused with a reason, and
// the requests beside it are written in a transaction of their own.
// Shows: reliability 40.
func TestCostlyConditionsEndTheirTransaction(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		enginetest.Setup(t, s, "", nil).Apply(strings.ReplaceAll(rules, "  - to: event.recipient\n", "  - to: event.recipient\n    where: matches(contact.address + event.text, event.pattern)\n"))
		events := func(from, n int) *call {
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf(`{"id":"e%d","kind":"order","payload":{"number":%d,"total":50,"text":%q,"pattern":"x{0,400}y|@"},"recipient":{"address":"p@example.org"}}`,
					from+i, from+i, strings.Repeat("x", 600)))
			}
			return &call{items: parsed(list...)}
		}
		b.apart([]*call{{items: parsed(order(9999, 5, "p@example.org"))}})
		before := b.transactions()
		costly, small, last := events(0, 40), events(100, 1), events(200, 1)
		b.together([]*call{costly, small, last}, nil)
		if got := b.transactions() - before; got != 2 {
			t.Errorf("%d transactions, want the costly request's and another", got)
		}
		created, refused := 0, 0
		for _, r := range costly.results {
			switch {
			case r.Outcome == ingest.Created && refused == 0:
				created++
			case r.Outcome == ingest.Failed && r.Reason == reason.CostExceeded && r.Error != nil:
				refused++
			default:
				t.Errorf("got %+v", r)
			}
		}
		if costly.err != nil || created < 5 || refused < 5 {
			t.Errorf("%d created, %d refused, %v", created, refused, costly.err)
		}
		b.created(small, last)
	})
}

// A group of repeats only writes nothing, and needs no more statements than one of them.
func TestGroupOfRepeatsOnly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		stored := keyed("01", "a", orders(1)[0])
		b.apart([]*call{stored})
		cost := func(n int) int64 {
			var repeats []*call
			for range n {
				repeats = append(repeats, keyed("01", "a", orders(1)[0]))
			}
			before := s.Statements()
			b.together(repeats, nil)
			b.replayed(stored, repeats...)
			return s.Statements() - before
		}
		if one, many := cost(1), cost(20); one != many {
			t.Errorf("%d statements for 20 repeats, %d for one", many, one)
		}
	})
}

// The answer to a request whose events are all refused is not stored. A second request with its key, in the same group, is decided by itself, after
// the group.
func TestRepeatOfARefusedRequest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		o := orders(4)
		refused := keyed("01", "a", &call{items: []ingest.Item{{Err: &ingest.ItemError{Message: "refused"}}}})
		corrected := keyed("01", "b", o[0])
		twice := keyed("01", "b", orders(1)[0])
		b.together([]*call{refused, o[1], corrected, o[2], twice, o[3]}, nil)
		b.created(o...)
		b.replayed(corrected, twice)
		if refused.err != nil || refused.results[0].Outcome != ingest.Failed {
			t.Errorf("the refused request: %+v, %v", refused.results, refused.err)
		}
		if got := b.transactions(); got != 2 {
			t.Errorf("%d transactions, want the group's and one more", got)
		}
	})
}

// A caller of a repeat who goes away while it waits for its second turn leaves nothing behind.
func TestRepeatWhoseCallerGoesAway(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		o := orders(2)
		refused := keyed("01", "a", &call{items: []ingest.Item{{Err: &ingest.ItemError{Message: "refused"}}}})
		corrected := keyed("01", "b", o[1])
		first := b.transactions() + 1
		b.door.fail = func(_ context.Context, n int) error {
			if n == first {
				corrected.cancel()
				<-corrected.done
			}
			return nil
		}
		b.together([]*call{refused, o[0], corrected}, nil)
		b.created(o[0])
		if !errors.Is(corrected.err, context.Canceled) {
			t.Errorf("got %+v, %v", corrected.results, corrected.err)
		}
		if counts, err := s.Counts(t.Context(), b.ws.ID); err != nil || counts.Events != 1 {
			t.Errorf("%d events, %v; want 1", counts.Events, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a turn that nobody takes would stop all others
		defer cancel()
		next := orders(3)[2]
		next.results, next.err = b.Ingest(ctx, b.ws, next.items, enginetest.Start, nil)
		b.created(next)
	})
}
