package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/intake"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const keep = 100 * 24 * time.Hour

// Long after everything has ended its rows are gone, and the same event still is a duplicate. What waits stays.
//
// Shows: P2, C11.
func TestRetention(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, func(c *engine.Config) { c.Retention = keep })
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
			b.At(end.Add(keep + 2*time.Hour + time.Duration(n)*time.Second))
			if gone() {
				break
			}
		}
		again := b.Post(visit)
		if again.Outcome != intake.Skipped || again.Reason != reason.Duplicate || again.Instances[0].ID != id {
			t.Errorf("the same event again: %+v", again)
		}
		if b.At(b.Clock.Now().Add(time.Hour)); len(b.Provider.Sent()) != 2 {
			t.Error("it was sent again")
		}
	})
}

// A running engine deletes by itself.
func TestRetentionRuns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, func(c *engine.Config) { c.Retention = keep })
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
