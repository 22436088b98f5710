package store_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	benchBatch    = 500
	benchContacts = 10_000
)

// benchmark runs step on as many workers as usual for the database until it reports that nothing is left.
func benchmark(b *testing.B, prepare func(f fixture, n int), step func(f fixture) (int, error)) {
	for _, database := range storetest.Databases(b) {
		b.Run(database, func(b *testing.B) {
			s := storetest.Open(b, storetest.URL(b, database))
			f := setup(b, s)
			prepare(f, b.N)
			if database == "postgres" {
				if _, err := s.Exec(b.Context(), "ANALYZE"); err != nil {
					b.Fatal(err)
				}
			}
			workers := map[string]int{"postgres": 4, "sqlite": 1}[database]
			var done atomic.Int64
			b.ResetTimer()
			var group sync.WaitGroup
			for range workers {
				group.Go(func() {
					for {
						n, err := step(f)
						if err != nil {
							b.Error(err)
						}
						if done.Add(int64(n)); n == 0 || err != nil {
							return
						}
					}
				})
			}
			group.Wait()
			if done.Load() != int64(b.N) {
				b.Errorf("%d done, want %d", done.Load(), b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func benchPerson(i int) store.RecipientRef {
	ref := person(fmt.Sprintf("c-%d", i%benchContacts), "")
	ref.Lock = true
	return ref
}

// benchInstances stores n due instances and all contacts.
func benchInstances(f fixture, n int) {
	var refs []store.RecipientRef
	for i := range benchContacts {
		refs = append(refs, person(fmt.Sprintf("c-%d", i), ""))
	}
	f.ingest(ingestRequest{Recipients: refs}, func(ingestState) (w store.OccasionWrites, err error) { return w, nil })
	for i := 0; i < n; i += 1000 {
		var w store.OccasionWrites
		for k := i; k < min(i+1000, n); k++ {
			w.Instances = append(w.Instances, f.instance(fmt.Sprintf("survey:visit:event:%064x", k*7919), instance.Pending))
		}
		f.add(w)
	}
}

func BenchmarkFanOut(b *testing.B) {
	benchmark(b, benchInstances, func(f fixture) (int, error) {
		return f.fanOut(now, dueAt(now, benchBatch), func(_ int, in store.DueInstance) store.Audience {
			return store.Audience{Refs: []store.RecipientRef{benchPerson(int(in.ID >> 10))}}
		}, func(due []store.DueInstance, people []store.People) ([]result, error) {
			results, err := complete(due, people)
			for i, in := range due {
				results[i].Deliveries = []delivery.Row{f.delivery(in.Row, people[i].Persons[0].ID)}
			}
			return results, err
		})
	})
}

func BenchmarkSend(b *testing.B) {
	benchmark(b, func(f fixture, n int) {
		p := make([]store.RecipientRef, benchContacts)
		for i := range p {
			p[i] = person(fmt.Sprintf("c-%d", i), "")
		}
		var people []delivery.Person
		f.ingest(ingestRequest{Recipients: p}, func(s ingestState) (w store.OccasionWrites, err error) { people = s.Persons; return w, nil })
		for i := 0; i < n; i += 1000 {
			var w store.OccasionWrites
			for k := i; k < min(i+1000, n); k++ {
				w.Deliveries = append(w.Deliveries, f.delivery(f.instance(fmt.Sprintf("survey:visit:event:%064x", k*7919), instance.Completed), people[k%benchContacts].ID))
			}
			f.add(w)
		}
	}, func(f fixture) (int, error) {
		claims, err := claimDue(f.Context(), f.s, now, benchBatch, nil)
		if err != nil || len(claims) == 0 {
			return 0, err
		}
		list := make([]settlement, len(claims))
		for i, c := range claims {
			list[i] = accepted(c)
		}
		_, err = settle(f.Context(), f.s, list...)
		return len(claims), err
	})
}

// One event in each transaction, as an API without batches posts them.
func BenchmarkIngestOne(b *testing.B) {
	var left atomic.Int64
	benchmark(b, func(_ fixture, n int) { left.Store(int64(n)) }, func(f fixture) (int, error) {
		i := int(left.Add(-1))
		if i < 0 {
			return 0, nil
		}
		return 1, ingest(f.Context(), f.s, f.ws, ingestRequest{Keys: []string{fmt.Sprint(i)}, Recipients: []store.RecipientRef{benchPerson(i)}}, func(s ingestState) (store.OccasionWrites, error) {
			event, in := f.event("x"), f.instance(fmt.Sprint(i), instance.Completed)
			in.Event = event.ID
			return store.OccasionWrites{Events: []store.EventRow{event}, Instances: []instance.Row{in}, Deliveries: []delivery.Row{f.delivery(in, s.Persons[0].ID)}}, nil
		})
	})
}

// A cancel of a large occasion takes as long for 100,000 deliveries as for a thousand. Its transaction does what operator.CancelInstance does:
// lock the instance, count up to a bound, look for what is left, mark, and wait for claims.
func BenchmarkMarkCancelled(b *testing.B) {
	for _, database := range storetest.Databases(b) {
		for _, n := range []int{10, 1_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", database, n), func(b *testing.B) {
				s := storetest.Open(b, storetest.URL(b, database))
				f := setup(b, s)
				in := f.spread("k", n)
				b.ResetTimer()
				for range b.N {
					f.must(s.Write(b.Context(), func(tx *store.Tx) error {
						row, err := tx.LockInstance(f.ws, in.ID)
						if err != nil {
							return err
						}
						if _, err := tx.CountDeliveries(f.ws, in.ID, 501); err != nil {
							return err
						}
						if left, _, err := tx.LeftToCancel(f.ws, in.ID); err != nil || !left {
							return fmt.Errorf("left: %t, %w", left, err)
						}
						marked := row
						marked.CancelDeliveries(now)
						if err := tx.UpdateInstance(now, row, marked); err != nil {
							return err
						}
						return tx.AwaitClaims()
					}))
				}
			})
		}
	}
}

// spread stores an ended occasion with deliveries to n contacts that have no rows.
func (f fixture) spread(key string, n int) instance.Row {
	f.Helper()
	in := f.instance(key, instance.Completed)
	f.add(store.OccasionWrites{Instances: []instance.Row{in}})
	for i := 0; i < n; i += 1000 {
		var w store.OccasionWrites
		for k := i; k < min(i+1000, n); k++ {
			w.Deliveries = append(w.Deliveries, f.delivery(in, subject.ContactID(k+1)))
		}
		f.add(w)
	}
	return in
}

// What the lookup of the mark costs a claim: the statement that claims, with and without it, in one run.
func BenchmarkClaimMark(b *testing.B) {
	for _, database := range storetest.Databases(b) {
		b.Run(database, func(b *testing.B) {
			const n = 20_000
			s := storetest.Open(b, storetest.URL(b, database))
			f := setup(b, s)
			f.spread("k", n)
			for i := range 100 { // some occasions are cancelled
				in := f.instance(fmt.Sprint("c", i), instance.Completed)
				f.add(store.OccasionWrites{Instances: []instance.Row{in}})
				f.must(f.mark(in.ID))
			}
			plain := strings.Replace(store.ClaimDeliveries, ", "+store.CancelledSince, ", 0", 1)
			if plain == store.ClaimDeliveries {
				b.Fatal("the claim has no lookup")
			}
			if database == "postgres" {
				if _, err := s.Exec(b.Context(), "ANALYZE"); err != nil {
					b.Fatal(err)
				}
			}
			var spent [2][]time.Duration
			args := []any{now.Add(time.Hour).UnixMicro(), int64(500), now.Add(2 * time.Hour).UnixMicro()}
			for range 4 { // from the beginning of each priority
				args = append(args, int64(0), int64(0))
			}
			for i := range b.N {
				for k := range 2 { // in turns, so that both meet the same machine
					k = (k + i) % 2
					elapsed := clock.Monotonic()
					claimed, err := s.Claimed(b.Context(), []string{store.ClaimDeliveries, plain}[k], args...)
					spent[k] = append(spent[k], elapsed())
					if f.must(err); claimed != 500 {
						b.Fatalf("%d claimed", claimed)
					}
				}
			}
			var median [2]time.Duration
			for k := range spent {
				slices.Sort(spent[k])
				median[k] = spent[k][len(spent[k])/2]
			}
			b.ReportMetric(float64(median[0])/float64(median[1]), "ratio")
			b.ReportMetric(float64(median[0].Microseconds()), "µs/claim-of-500")
		})
	}
}

// What it costs to count what has become of a large occasion: up to the bound of a page, and all of it.
func BenchmarkTally(b *testing.B) {
	for _, database := range storetest.Databases(b) {
		const n = 1_000_000
		s := storetest.Open(b, storetest.URL(b, database))
		f := setup(b, s)
		in := f.spread("k", n)
		for _, limit := range []int{100_000, 2 * n} {
			b.Run(fmt.Sprintf("%s/%d", database, limit), func(b *testing.B) {
				for range b.N {
					t, err := s.Tally(b.Context(), in, limit)
					f.must(err)
					if t.Deliveries != min(n, limit+1) {
						b.Fatal(t)
					}
				}
			})
		}
	}
}
