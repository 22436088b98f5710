package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// alarmed reports until when the alarm sleeps, which is the only sleeper that also waits for a channel.
type alarmed struct {
	*clock.Manual
	until chan time.Time
}

func (c alarmed) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) error {
	select {
	case c.until <- until:
	case <-ctx.Done():
	}
	return c.Manual.Wait(ctx, until, wake)
}

// The alarm finds a due message that the sender is about to claim, and the next one becomes due right after: it leaves when it is due, and not after
// the alarm's pause.
func TestWhatFallsDueDuringAStepIsInTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		sent, gate, alarm := make(chan journal.Entry, 10), make(chan struct{}), make(chan time.Time)
		b := enginetest.Setup(t, s, "", func(c *engine.Config) {
			c.Clock = alarmed{c.Clock.(*clock.Manual), alarm}
			c.Failpoint = func(point string) error {
				if point == sender.BeforeIntent {
					<-gate
				}
				return nil
			}
			c.Journal = func(e journal.Entry) {
				if e.What == journal.Sent {
					sent <- e
				}
			}
		})
		sleeps := func(until time.Time) {
			t.Helper()
			for {
				select {
				case at := <-alarm:
					if at.Equal(until) {
						return
					}
				case <-ctx.Done():
					t.Fatalf("the alarm never sleeps until %s", until)
				}
			}
		}
		b.Apply(alert("soon", "soon", "timing:\n  offset: 1s\n") + memory)
		b.Post(event("soon", "first", "a@x.org"))
		b.Clock.Set(enginetest.Start.Add(20 * time.Millisecond))
		b.Post(event("soon", "second", "b@x.org"))
		first, second := enginetest.Start.Add(time.Second), enginetest.Start.Add(1020*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		sleeps(first)
		b.Clock.Set(first)
		sleeps(first.Add(50 * time.Millisecond))
		close(gate)
		<-sent
		sleeps(second)
		b.Clock.Set(second)
		for left := 1; left > 0; {
			select {
			case e := <-sent:
				if left--; !e.At.Equal(second) {
					t.Errorf("sent at %s, due at %s", e.At, second)
				}
			case <-alarm:
			case <-ctx.Done():
				t.Fatal("the second message never left")
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
