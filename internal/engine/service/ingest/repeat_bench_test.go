package ingest_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// BenchmarkRepeats measures how many events a second are ingested, one to a request with an Idempotency-Key, when none, 2 % and 10 % of the requests
// are sent a second time while the first one runs. The three take turns, so that other load on the machine affects each of them; "kept-2%" and
// "kept-10%" are the rates relative to the one without repeats.
func BenchmarkRepeats(b *testing.B) {
	const (
		callers = 32
		slice   = 1024 // requests of one turn
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
			var took [3]float64
			for b.Loop() {
				for i, percent := range shares {
					before := b.Elapsed()
					turn(percent)
					took[i] += (b.Elapsed() - before).Seconds()
				}
			}
			b.ReportMetric(float64(slice*b.N)/took[0], "events/s")
			b.ReportMetric(took[0]/took[1], "kept-2%")
			b.ReportMetric(took[0]/took[2], "kept-10%")
		})
	}
}
