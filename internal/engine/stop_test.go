package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A step that is stopped releases all claims that have not begun: no outcome is unknown, and another process sends them at once.
//
// Shows: P4.
func TestStopLeavesNothingUnknown(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		const messages = 20
		b := enginetest.Setup(t, s, `
channel: email
provider: memory
---
workflow: letter
type: alert
triggers: [{id: t, event: e}]
audience: [{to: event.recipient}]
channel: email
message: {email: {subject: Hello, text: Hello}}
`, func(c *engine.Config) {
			c.Concurrency = 4
			open := c.Providers[0].Open
			c.Providers[0].Open = func(settings map[string]string) (channel.Channel, error) {
				ch, err := open(settings)
				return stopping{ch, stop}, err
			}
		})
		for i := range messages {
			b.Post(fmt.Sprintf(`{"id": "%d", "kind": "e", "payload": {}, "recipient": {"address": "p%d@example.org"}}`, i, i))
		}
		_, _ = b.Tick(ctx) // its first message stops it
		first := len(b.Provider.Sent())
		if first == 0 || first == messages { // on a busy machine some leave before the stop arrives
			t.Fatalf("%d messages left before the stop", first)
		}
		b.At(enginetest.Start)
		if rest := len(b.Provider.Sent()); first+rest != messages || b.Provider.Repeats > 0 {
			t.Errorf("%d and %d messages left of %d, %d twice", first, rest, messages, b.Provider.Repeats)
		}
	})
}

// A step that is stopped while a provider is silent releases the rest before that provider answers: other messages wait neither for it nor for the
// end of the lease.
//
// Shows: C51, P4.
func TestAStopDoesNotWaitForASilentProvider(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		const messages = 5
		first := &silent{stop: stop, began: make(chan struct{}), answer: make(chan struct{})}
		b := enginetest.Setup(t, s, `
channel: email
provider: memory
concurrency: 1
---
workflow: letter
type: alert
triggers: [{id: t, event: e}]
audience: [{to: event.recipient}]
channel: email
message: {email: {subject: Hello, text: Hello}}
`, func(c *engine.Config) {
			c.Concurrency, c.Lease = 4, 10_000*time.Hour
			open := c.Providers[0].Open
			c.Providers[0].Open = func(settings map[string]string) (ch channel.Channel, err error) {
				first.Channel, err = open(settings)
				return first, err
			}
		})
		for i := range messages {
			b.Post(fmt.Sprintf(`{"id": "%d", "kind": "e", "payload": {}, "recipient": {"address": "p%d@example.org"}}`, i, i))
		}
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			_, _ = b.Tick(ctx)
		}()
		<-first.began
		free := func() (n int) {
			rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: messages})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if row.Status == delivery.Scheduled && row.LeaseUntil.IsZero() && row.IntentAt.IsZero() {
					n++
				}
			}
			return n
		}
		for tries := 0; free() < messages-1; tries++ {
			if tries == 10_000 {
				t.Fatalf("%d of %d were released", free(), messages-1)
			}
			b.Clock.Set(b.Clock.Now().Add(time.Second)) // what is to be written waits by the clock
		}
		close(first.answer)
		<-stopped
	})
}

// silent is a channel whose messages stop the engine and wait for their answer.
type silent struct {
	channel.Channel
	stop          context.CancelFunc
	began, answer chan struct{}
}

func (s *silent) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	s.stop()
	close(s.began)
	<-s.answer
	return s.Channel.Send(ctx, out)
}

// stopping is a channel whose first message stops the engine.
type stopping struct {
	channel.Channel
	stop context.CancelFunc
}

func (s stopping) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	s.stop()
	return s.Channel.Send(ctx, out)
}
