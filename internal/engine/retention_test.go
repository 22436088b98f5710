package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const keep = 100 * 24 * time.Hour

// keepAll keeps events, instances and deliveries for a time.
func keepAll(d time.Duration) retention.Keep {
	return retention.Keep{Occasions: d, Digests: d, Messages: d}
}

// Long after everything has ended its rows are gone, and the same event is still a duplicate. Waiting rows stay.
//
// Shows: P2, C11.
func TestRetention(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, func(c *engine.Config) { c.Retention = keepAll(keep) })
		first := b.Post(visit)
		id := first.Instances[0].ID
		b.At(enginetest.Start)
		end := enginetest.Start.Add(40 * 24 * time.Hour)
		b.At(enginetest.Start.Add(25 * time.Hour)) // the reminder
		b.At(end)                                  // it expires
		gone := func() bool {
			_, err := s.InstanceByID(t.Context(), b.Workspace.ID, id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			return err != nil
		}
		b.At(end.Add(keep))
		if gone() {
			t.Fatal("deleted at the cutoff itself")
		}
		for n := range 100 { // a pass takes several steps, and each tick does one
			if n == 99 {
				t.Fatal("never deleted")
			}
			b.At(end.Add(keep + 2*time.Hour + time.Duration(n)*time.Minute))
			if gone() {
				break
			}
		}
		again := b.Post(visit)
		if again.Outcome != ingest.Skipped || again.Reason != reason.Duplicate || again.Instances[0].ID != id {
			t.Errorf("the same event again: %+v", again)
		}
		if b.At(b.Clock.Now().Add(time.Hour)); len(b.Provider.Sent()) != 2 {
			t.Error("it was sent again")
		}
	})
}

// A running engine deletes old rows by itself.
func TestRetentionRuns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, func(c *engine.Config) { c.Retention = keepAll(keep) })
		b.Post(`{"kind": "nobody-waits-for-it"}`)
		b.Clock.Set(enginetest.Start.Add(keep + time.Hour))
		ctx, halt := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		defer func() {
			halt()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		for elapsed := clock.Monotonic(); ; {
			counts, err := s.Counts(t.Context(), b.Workspace.ID)
			if err != nil {
				t.Fatal(err)
			}
			if counts.Events == 0 {
				return
			}
			if elapsed() > patience {
				t.Fatal("never deleted")
			}
			b.Clock.Set(b.Clock.Now().Add(time.Second))
		}
	})
}

// The last firing of a context is deleted when neither the retention nor any cooldown in force reaches back to it, and never so early that the
// context fires too soon.
func TestRetentionOfThrottles(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := world{enginetest.Setup(t, s, pair("record.morale < 50", "record.owner_id"), func(c *engine.Config) { c.Retention = keepAll(keep) })}
		w.Apply(strings.ReplaceAll(pair("record.morale < 50", "record.owner_id"), "{length: 9h}", "{length: 150d}"))
		w.Clock.Set(ten)
		w.person("alice", `"persona": "Manager"`)
		w.put("team/a", `{"name": "A", "morale": 10, "owner_id": "alice"}`)
		w.put("house/a", `{"name": "A", "morale": 10, "owner_id": "alice"}`)
		var fired []string
		contexts := map[int]int{} // by day
		for n := 0; n <= 300; n += 10 {
			w.Clock.Set(ten.Add(time.Duration(n) * day))
			if n == 10 {
				w.put("house/a", `{"morale": 90}`) // it never fires again
			}
			if n == 120 {
				w.put("team/a", `{"morale": 11}`) // it is evaluated, and its cooldown is checked
			}
			for range 12 { // a pass takes several steps
				w.tick()
			}
			for _, e := range w.Journal() {
				if e.What == journal.Created {
					fired = append(fired, fmt.Sprint(n, " ", e.Record))
				}
			}
			rows, err := s.Throttles(t.Context(), w.Workspace.ID, store.ThrottleFilter{})
			if err != nil {
				t.Fatal(err)
			}
			contexts[n] = len(rows)
		}
		w.mustBe("fired", fired, []string{"0 team/a", "0 house/a", "150 team/a", "300 team/a"})
		if contexts[140] != 2 || contexts[160] != 1 || contexts[300] != 1 {
			t.Errorf("contexts: %d, %d and %d, want 2, 1 and 1", contexts[140], contexts[160], contexts[300])
		}
		w.Apply(pair("record.morale < 50", "record.owner_id")) // with a cooldown of hours the retention decides
		w.put("team/a", `{"morale": 90}`)
		left := func(n int) int {
			w.Clock.Set(ten.Add(time.Duration(n) * day))
			for range 12 {
				w.tick()
			}
			rows, err := s.Throttles(t.Context(), w.Workspace.ID, store.ThrottleFilter{})
			if err != nil {
				t.Fatal(err)
			}
			return len(rows)
		}
		if before, after := left(399), left(402); before != 1 || after != 0 {
			t.Errorf("%d before and %d after the retention", before, after)
		}
	})
}
