package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The number of statements does not depend on the size of the batch. The figures show when a change makes a step send more
// statements.
func TestStatementsDoNotGrowWithTheBatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		count := func(step string, n int, want int64, run func()) {
			t.Helper()
			before := s.Statements()
			run()
			if got := s.Statements() - before; got != want {
				t.Errorf("%s of %d: %d statements, want %d", step, n, got, want)
			}
		}
		for _, n := range []int{1, 10, 400} { // fewer rows than tables are analyzed at
			request := ingestRequest{}
			for i := range n {
				ref := person(fmt.Sprintf("c-%d-%d", n, i), fmt.Sprintf("%d@%d", i, n))
				ref.Lock = true
				request.Recipients = append(request.Recipients, ref)
				request.Keys = append(request.Keys, fmt.Sprintf("k:%d:%d", n, i))
			}
			write := func(state ingestState) (w store.OccasionWrites, err error) {
				for i, p := range state.Persons {
					if _, ok := state.Instances[request.Keys[i]]; ok {
						continue
					}
					event, in := f.event("x"), f.instance(request.Keys[i], instance.Completed)
					in.Event = event.ID
					due := f.instance(request.Keys[i]+":due", instance.Pending)
					due.Event = event.ID
					w.Events = append(w.Events, event)
					w.Instances = append(w.Instances, in, due)
					w.Deliveries = append(w.Deliveries, f.delivery(in, p.ID))
					w.Decisions = append(w.Decisions, store.Decision{At: now, Event: event.ID})
				}
				return w, nil
			}
			// begin, definitions with instances, recipients, 3 for new contacts, lock, slots, events, instances,
			// deliveries, decisions, commit
			count("ingest", n, 13, func() { f.ingest(request, write) })
			// begin, definitions with instances, their deliveries, recipients, lock, slots, commit
			count("ingest of duplicates", n, 7, func() { f.ingest(request, write) })
			// begin, due, events, recipients, lock, slots, deliveries, instances, commit
			count("expand", n, 9, func() {
				got, err := f.fanOut(now, dueAt(now, 1000), func(i int, _ store.DueInstance) store.Audience {
					return store.Audience{Refs: request.Recipients[i : i+1]}
				}, func(due []store.DueInstance, people []store.People) ([]result, error) {
					results, err := complete(due, people)
					for i, in := range due {
						results[i].Deliveries = []delivery.Row{f.delivery(in.Row, people[i].Persons[0].ID)}
					}
					return results, err
				})
				if got != n || err != nil {
					t.Errorf("expanded %d of %d: %v", got, n, err)
				}
			})
			var claims []delivery.Claim
			// begin, claim, persons, commit
			count("intents", n, 4, func() { claims = f.claim(now) })
			if len(claims) != 2*n {
				t.Fatalf("%d claims, want %d", len(claims), 2*n)
			}
			results := make([]settlement, len(claims))
			refs := make([]store.LeaseRef, len(claims))
			for i, c := range claims {
				results[i], refs[i] = refused(c), lease(c)
				results[i].Change.SendAt = now
			}
			// begin, renew, commit
			count("renewal", n, 3, func() {
				if lost, err := s.RenewLeases(t.Context(), now.Add(time.Second), refs); len(lost) > 0 || err != nil {
					t.Errorf("lost %d: %v", len(lost), err)
				}
			})
			// begin, deliveries, attempts, commit
			count("results", n, 4, func() { f.settle(results...) })
			// begin, claim, persons, lock, slots, moves, attempts, commit
			count("intents with everything", n, 8, func() {
				_, err := claimDue(t.Context(), s, now, 1000, func(tx *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
					_, err = tx.LockPersons(now, personsOf(claims), nil)
					for _, c := range claims {
						c.Slot = now
						w.Claims = append(w.Claims, c.Row)
						w.Attempts = append(w.Attempts, delivery.Attempt{Workspace: c.Workspace, Delivery: c.ID, Outcome: delivery.AttemptNone})
					}
					return w, err
				})
				f.must(err)
			})
			// The leases have ended, and so has the pause of up to ten seconds between two scans from the beginning.
			claims = f.claim(now.Add(31 * time.Second))
			for i, c := range claims {
				results[i] = refused(c)
				results[i].Change = delivery.Change{Step: c.Step, Status: delivery.Unknown, UnknownSince: now, ExpiresAt: now, Release: true}
				results[i].Content = &store.Content{Workspace: c.Workspace, Delivery: c.ID, Step: 1, At: now}
			}
			// begin, deliveries, slots, attempts, contents, commit
			count("results with everything", n, 6, func() { f.settle(results...) })
			// begin, expire, commit
			count("expiry", n, 3, func() {
				if rows, err := f.expire(now.Add(time.Second), 1000); len(rows) != 2*n || err != nil {
					t.Errorf("expired %d: %v", len(rows), err)
				}
			})
		}
		count("a step without work", 0, 3, func() { f.claim(now) })
		count("nothing to settle", 0, 0, func() { f.settle() })
	})
}

// Many goroutines call every method on the one connection of a database in memory. A method that waits for a connection while
// it holds one would hang here.
func TestMemoryIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	s := storetest.Memory(t)
	f := setup(t, s)
	var made atomic.Int64
	s.OnCommit(func(store.Due) {
		if _, err := s.Counts(t.Context(), f.ws); err != nil {
			t.Error(err)
		}
	})
	race(t, 12, func(n int) error {
		for i := range 20 {
			switch n % 6 {
			case 0:
				in := f.instance(fmt.Sprintf("k:%d:%d", n, i), instance.Pending)
				f.add(store.OccasionWrites{Instances: []instance.Row{in}})
				made.Add(1)
			case 1:
				f.expand(nil)
			case 2:
				if _, err := s.Instances(t.Context(), f.ws, store.InstanceFilter{}, store.Page{}); err != nil {
					return err
				}
			case 3:
				for _, c := range f.claim(now) {
					f.settle(accepted(c))
				}
			case 4:
				f.scheduled(2, nil)
			default:
				if _, err := s.EarliestDue(t.Context(), now); err != nil {
					return err
				}
			}
		}
		return nil
	})
	counts, err := s.Counts(t.Context(), f.ws)
	f.must(err)
	total := int64(0)
	for _, n := range counts.InstancesByStatus {
		total += n
	}
	if deliveries := counts.DeliveriesByStatus[delivery.Scheduled] + counts.DeliveriesByStatus[delivery.Sent]; deliveries != 80 || total != made.Load()+80 {
		t.Errorf("%+v", counts)
	}
}
