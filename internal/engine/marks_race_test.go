package engine_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Expansion, senders, retries by hand and a cancel at once: nothing leaves after the cancel but what was claimed before, and what a person has
// asked for again.
// Shows: P5.
func TestCancelRacesSenders(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n, atOnce = 150, 40
		w := newBroadcast(t, s, n, atOnce)
		id := oldest(w.Bundle).ID
		w.Clock.Set(w.Clock.Now().Add(time.Second))
		var stop atomic.Bool
		done := make(chan error, 2)
		for range 2 {
			go func() {
				for !stop.Load() {
					if _, err := w.Tick(t.Context()); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for len(w.deliveriesOf(id)) == 0 {
			if t.Context().Err() != nil {
				t.Fatal("no delivery was made")
			}
		}
		r := w.cancelOccasion(id)
		begun := map[string]bool{}
		for _, d := range w.deliveriesOf(id) {
			if d.AttemptNo > 0 || d.Step > 0 {
				begun[d.Address] = true
			}
		}
		for {
			open := false
			for _, d := range w.deliveriesOf(id) {
				open = open || !d.Status.Final() && d.StopReason == ""
			}
			if !open {
				break
			}
		}
		stop.Store(true)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for w.tick() {
		}
		sent := w.Provider.Sent()
		for _, out := range sent {
			if !begun[out.Address] {
				t.Errorf("%s was claimed after the cancel", out.Address)
			}
		}
		t.Logf("%d of %d had been claimed, %d were sent, %+v", len(begun), n, len(sent), r.Job)
	})
}

// A cancel at any moment lets nothing leave that was not on its way, whatever else happens, with rows that are ended at once or in pages.
// Shows: P5.
func TestCancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	enough := storetest.Lives(30)
	rapid.Check(t, func(r *rapid.T) {
		if enough() {
			return
		}
		s := storetest.Memory(t)
		const n = 6
		w := newBroadcast(t, s, n, rapid.IntRange(1, n+1).Draw(r, "at once"))
		id := oldest(w.Bundle).ID
		sent := map[string]int{} // by key, since the cancel
		cancelled, retried := false, map[instance.ID]bool{}
		collect := func() {
			for _, out := range w.Provider.Sent() {
				if cancelled {
					sent[out.Address]++
				}
			}
		}
		for range rapid.IntRange(3, 14).Draw(r, "steps") {
			now := w.Clock.Now()
			switch rapid.SampledFrom([]string{"tick", "tick", "cancel", "fail", "later", "retry", "pause", "resume", "forget"}).Draw(r, "step") {
			case "tick":
				w.tick()
			case "fail":
				w.Provider.Next(channel.Temporary(errors.New("busy")), channel.Lost(errors.New("no answer")), nil, channel.Permanent(errors.New("no")))
			case "later":
				w.Clock.Set(now.Add(time.Duration(rapid.IntRange(1, 30).Draw(r, "hours")) * time.Hour))
			case "pause":
				pause(w.Bundle, "news")
			case "resume":
				resume(w.Bundle, "news")
			case "retry":
				if rows := w.deliveriesOf(id); len(rows) > 0 {
					got, err := w.Operator().RetryDelivery(w.Context(), w.Workspace.ID, rapid.SampledFrom(rows).Draw(r, "of").ID, "ann", now)
					var refused *operator.StateError
					if err != nil && !errors.As(err, &refused) {
						r.Fatal(err)
					}
					if cancelled && err == nil && got.NewInstance == 0 {
						r.Fatalf("a delivery of a cancelled occasion goes on: %+v", got)
					}
					retried[got.NewInstance] = true
				}
			default:
				collect()
				var err error
				if rapid.Bool().Draw(r, "forget") {
					_, err = w.Operator().Forget(w.Context(), w.Workspace.ID, w.Instance(id).Key, "ann", now)
				} else {
					_, err = w.Operator().CancelInstance(w.Context(), w.Workspace.ID, id, "ann", now)
				}
				var refused *operator.StateError
				if err != nil && !errors.As(err, &refused) {
					r.Fatal(err)
				}
				cancelled = true
			}
			collect()
			if cancelled {
				for _, d := range w.shownOf(id) {
					if d.IntentAt.IsZero() && !d.SendAt.IsZero() {
						r.Errorf("it is cancelled, and shown as %+v", d)
					}
				}
			}
		}
		if !cancelled {
			return
		}
		w.Clock.Set(w.Clock.Now().Add(72 * time.Hour))
		resume(w.Bundle, "news")
		for range 50 {
			if !w.tick() {
				break
			}
		}
		collect()
		asked := map[string]int{}
		for in := range retried {
			if in != 0 {
				for _, d := range w.deliveriesOf(in) {
					asked[d.Address] += 2 // with its reminder
				}
			}
		}
		for to, n := range sent {
			if n > asked[to] {
				r.Errorf("%s got %d messages after the cancel, and a person asked for %d", to, n, asked[to])
			}
		}
		for _, d := range w.deliveriesOf(id) {
			if !d.SendAt.IsZero() {
				r.Errorf("still to come: %+v", d)
			}
		}
	})
}
