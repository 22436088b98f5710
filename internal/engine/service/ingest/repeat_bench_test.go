package ingest_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// BenchmarkRepeats measures how many events a second are ingested, one to a request with an Idempotency-Key, when none, 2 % and 10 % of the requests
// are sent a second time while the first one runs. The three take turns, so that other load on the machine affects each of them; "kept-2%" and
// "kept-10%" are the medians of the rates relative to the one without repeats in the same round of turns. After twenty rounds it fails if one is below 0.9.
func BenchmarkRepeats(b *testing.B) {
	const (
		callers = 32
		slice   = 1024 // requests of one turn
		enough  = 20   // rounds
		least   = 0.9
	)
	shares := []int{0, 2, 10}
	for _, database := range storetest.Databases(b) {
		b.Run(database, func(b *testing.B) {
			in := setup(b, storetest.Open(b, storetest.URL(b, database)))
			var number atomic.Int64
			send := func(n int64, first bool) {
				c := keyed("", "a", &call{items: parsed(order(int(n), 50, fmt.Sprintf("p%d@example.org", n)))})
				c.once.Key = fmt.Sprintf("%064x", uint64(n)*0x9e3779b97f4a7c15)
				_, err := in.Ingest(b.Context(), in.ws, c.items, enginetest.Start, c.once)
				var again *store.Replay
				if err != nil && !errors.As(err, &again) {
					b.Errorf("first %v: %v", first, err)
				}
			}
			turn := func(percent int) {
				var left atomic.Int64
				left.Store(slice)
				var running sync.WaitGroup
				for range callers {
					running.Go(func() {
						for left.Add(-1) >= 0 {
							n := number.Add(1)
							var repeat sync.WaitGroup
							if n%100 < int64(percent) {
								repeat.Go(func() { send(n, false) })
							}
							send(n, true)
							repeat.Wait()
						}
					})
				}
				running.Wait()
			}
			turn(0) // everything is prepared
			var all float64
			kept := map[int][]float64{} // in each round of turns, by percent
			for b.Loop() {
				var without float64
				for _, percent := range shares {
					before := b.Elapsed()
					turn(percent)
					took := (b.Elapsed() - before).Seconds()
					if percent == 0 {
						without = took
						all += took
						continue
					}
					kept[percent] = append(kept[percent], without/took)
				}
			}
			b.ReportMetric(float64(slice*b.N)/all, "events/s")
			for percent, rounds := range kept {
				slices.Sort(rounds)
				median := rounds[len(rounds)/2]
				b.ReportMetric(median, fmt.Sprintf("kept-%d%%", percent))
				if len(rounds) >= enough && median < least {
					b.Errorf("%d %% of repeats leave %.2f of the rate, less than %.1f", percent, median, least)
				}
			}
		})
	}
}
