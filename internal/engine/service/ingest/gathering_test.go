package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Requests that share a transaction store the same rows, and get the same answers, as requests that come one after another: whatever they contain,
// and whatever is wrong with one of them.
// Shows: P1, P2, C11.
func TestGroupIsAsOneByOne(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(database, " ", seed), func(t *testing.T) {
				t.Parallel()
				grouped, single := setup(t, storetest.Open(t, storetest.URL(t, database))), setup(t, storetest.Open(t, storetest.URL(t, database)))
				r := rand.New(rand.NewPCG(seed, 1))
				again := rand.New(rand.NewPCG(seed, 1))
				var all, alone []*call
				for range 3 {
					calls, same := random(r), random(again)
					grouped.together(calls, nil)
					single.apart(same)
					if diff := cmp.Diff(answers(same), answers(calls)); diff != "" {
						t.Fatalf("answers (-one by one +together)\n%s", diff)
					}
					all, alone = append(all, calls...), append(alone, same...)
				}
				if diff := cmp.Diff(single.rows(alone), grouped.rows(all)); diff != "" {
					t.Errorf("rows (-one by one +together)\n%s", diff)
				}
			})
		}
	}
}

func orders(n int) []*call {
	calls := make([]*call, n)
	for i := range calls {
		calls[i] = &call{items: parsed(order(i, 50, fmt.Sprintf("p%d@example.org", i)))}
	}
	return calls
}

// created fails the test for calls that did not make their two instances.
func (b *bench) created(calls ...*call) {
	b.Helper()
	for i, c := range calls {
		if c.err != nil || c.results[0].Outcome != ingest.Created || len(c.results[0].Instances) != 2 {
			b.Errorf("call %d: %+v, %v", i, c.results, c.err)
		}
	}
}

func (b *bench) transactions() int {
	b.door.mu.Lock()
	defer b.door.mu.Unlock()
	return b.door.n
}

// Waiting requests are written in one transaction, up to its bound.
func TestGroupSharesATransaction(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		calls := orders(8)
		b.together(calls, nil)
		b.created(calls...)
		if got := b.transactions(); got != 1 {
			t.Errorf("%d transactions, want 1", got)
		}
		full := orders(3)
		for len(full[1].items) < ingest.MaxBatch {
			full[1].items = append(full[1].items, ingest.Item{Err: &ingest.ItemError{Message: "refused"}})
		}
		if s.Writers() > 1 { // then so many events need not wait for the running transaction
			b.together(full[:1], func() { b.apart(full[1:2]) })
			b.apart(full[2:])
		} else {
			b.together(full, nil)
		}
		if got := b.transactions(); got != 4 {
			t.Errorf("%d transactions, want a full request in one of its own", got)
		}
		for _, c := range full {
			if c.err != nil || c.results[0].Outcome != ingest.Skipped {
				t.Errorf("got %+v, %v", c.results, c.err)
			}
		}
	})
}

// A caller who goes away affects nobody else: not while waiting, and not while writing for others.
func TestGroupOfACallerWhoGoesAway(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		calls := orders(5)
		b.together(calls, func() {
			calls[2].cancel()
			b.await(3)
		})
		if !errors.Is(calls[2].err, context.Canceled) {
			t.Errorf("who left the line: %v", calls[2].err)
		}
		b.created(calls[0], calls[1], calls[3], calls[4])

		more := orders(9)[5:]
		b.door.fail = func(context.Context, int) error { // the group is complete; now they leave
			for _, c := range more[:2] {
				c.cancel()
			}
			return nil
		}
		b.together(more, nil)
		b.door.fail = nil
		b.created(more[0], more[2], more[3])
		counts, err := s.Counts(t.Context(), b.ws.ID)
		if err != nil || counts.Events != 8 {
			t.Errorf("%d events, %v; want 8: all but the one that left the line", counts.Events, err)
		}
	})
}

// A caller who is alone in a transaction ends it by going away.
func TestLonelyCallerWhoGoesAway(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		c := orders(1)[0]
		b.door.fail = func(ctx context.Context, _ int) error {
			c.cancel()
			<-ctx.Done()
			return nil
		}
		b.together([]*call{c}, nil)
		b.door.fail = nil
		counts, err := s.Counts(t.Context(), b.ws.ID)
		if !errors.Is(c.err, context.Canceled) || err != nil || counts.Events != 0 {
			t.Errorf("%v, %d events, %v", c.err, counts.Events, err)
		}
	})
}

// If a group fails, each request is tried alone. A panic of one group's writer stores nothing, reports nothing and stops no later group: an occasion
// is logged and counted when it is stored.
// Shows: B47.
func TestGroupThatFails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		calls := orders(4)
		b.door.fail = func(_ context.Context, n int) error {
			if n == 1 {
				return errors.New("the failpoint")
			}
			return nil
		}
		b.together(calls, nil)
		b.created(calls...)
		if got := b.transactions(); got != 5 {
			t.Errorf("%d transactions, want the group's and 4", got)
		}
		if n := b.reported(); n != 8 {
			t.Errorf("reported %d occasions", n)
		}

		broken := orders(7)[4:]
		b.door.fail = func(_ context.Context, n int) error {
			if n == 6 {
				runtime.Goexit() // like a panic that the server caught: the goroutine ends in the middle
			}
			return nil
		}
		b.together(broken, nil)
		counts, err := s.Counts(t.Context(), b.ws.ID)
		if err != nil || counts.Events != 4 {
			t.Errorf("%d events, %v; want the first 4", counts.Events, err)
		}
		for _, c := range broken[1:] {
			if c.err == nil {
				t.Error("was answered as if it were stored")
			}
		}
		if n := b.reported(); n != 8 {
			t.Errorf("reported %d occasions, and 8 are stored", n)
		}
		b.door.fail = nil
		for _, c := range broken {
			c.results, c.err = b.Ingest(t.Context(), b.ws, c.items, enginetest.Start, nil)
		}
		b.created(broken...)
	})
}

// If definitions change while a group waits, all its requests are planned again; none uses the old ones.
func TestGroupMeetsNewDefinitions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apart(orders(1)) // the first set is known
		calls := orders(5)[1:]
		bundle := enginetest.Setup(t, s, "", nil)
		b.together(calls, nil)
		b.created(calls...)
		next := orders(9)[5:]
		bundle.Apply(strings.ReplaceAll(rules, "Thank you", "Thanks"))
		b.together(next, nil)
		b.created(next...)
		rows, err := s.Instances(t.Context(), b.ws.ID, store.InstanceFilter{Workflow: "order"}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		by := map[int64]int{}
		for _, row := range rows {
			by[row.WorkflowVersion]++
		}
		if by[1] != 5 || by[2] != 4 {
			t.Errorf("instances by version: %v, want 5 and 4", by)
		}
	})
}

// Many concurrent requests, without help from the test: all are stored once.
func TestGroupsUnderLoad(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		var running sync.WaitGroup
		for worker := range 16 {
			running.Go(func() {
				for i := range 10 {
					got, err := b.Ingest(t.Context(), b.ws, parsed(order(worker*10+i, 50, "same@example.org"), order(i, 50, "same@example.org")), enginetest.Start, nil)
					if err != nil || got[0].Outcome == ingest.Failed || got[1].Outcome == ingest.Failed {
						t.Errorf("%+v, %v", got, err)
					}
				}
			})
		}
		running.Wait()
		rows, err := s.Deliveries(t.Context(), b.ws.ID, store.DeliveryFilter{Workflow: "order"}, store.Page{Limit: 1000})
		if err != nil || len(rows) != 160 {
			t.Errorf("%d deliveries, %v; want 160", len(rows), err)
		}
		if got := b.transactions(); got >= 160 {
			t.Errorf("%d transactions for 160 requests", got)
		}
		if n := slices.IndexFunc(rows, func(d delivery.Row) bool { return d.Contact != rows[0].Contact }); n >= 0 {
			t.Error("one person became two")
		}
	})
}
