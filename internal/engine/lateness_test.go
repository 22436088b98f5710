package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The gauges and the histogram of lateness count from the instant from which a message could have left. A retry, an open breaker, a rate, a missing
// channel and a stopped process do not move that instant; an offset, limits, quiet hours, a send window, a hold and a pause do.
func TestEligible(t *testing.T) {
	t.Parallel()
	const start = 0
	const seven = 1*time.Hour + 47*time.Minute + 26*time.Second // 07:00, from Start on
	const quiet = "workspace: default\ncadence: {max_per_day: 0, quiet_hours: \"05:00-07:00\"}\n---\n"
	refused := func() error { return channel.Temporary(errors.New("busy")) }
	away := func() error { return channel.Away(errors.New("refused")) }
	for _, c := range []struct {
		name, definitions string
		do                func(b *enginetest.Bundle) // from Start on
		at                time.Duration              // when the gauge is read
		due               int64
		oldest            time.Duration // from Start; when due > 0
		sent              time.Duration // when all messages leave; 0: they do not
		late              time.Duration // of the latest sent message
	}{
		{"a retry", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.Provider.Next(refused(), refused())
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
			b.At(b.Clock.Now().Add(6 * time.Minute))
		}, 10 * time.Minute, 1, start, time.Hour, time.Hour},
		{"a further channel, after retries", alert("a", "up", "fallback: [memory:other]\n") + memory + "---\nchannel: memory:other\nprovider: memory\n", func(b *enginetest.Bundle) {
			b.Provider.Next(refused(), refused(), channel.Permanent(errors.New("unknown")), refused())
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
			b.At(b.Clock.Now().Add(6 * time.Minute))
			b.At(b.Clock.Now().Add(30 * time.Minute)) // fails for good, and the other channel refuses
			b.At(b.Clock.Now())
		}, 37 * time.Minute, 1, start, 2 * time.Hour, 2 * time.Hour},
		{"an open breaker", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			for range 5 {
				b.Provider.Next(away())
			}
			b.PostAll(many(5)...)
			b.At(enginetest.Start)
			b.Clock.Set(enginetest.Start.Add(time.Second))
			b.Post(event("up", "late", "late@x.org"))
			b.At(b.Clock.Now())
		}, 5 * time.Second, 6, start, time.Hour, time.Hour},
		{"a rate", alert("a", "up", "") + memory + "rate: 1/m\n", func(b *enginetest.Bundle) {
			b.PostAll(many(3)...)
			b.At(enginetest.Start)
		}, time.Second, 2, start, 0, 0},
		{"a missing channel", alert("a", "up", ""), func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start.Add(time.Minute))
		}, time.Hour, 1, start, 0, 0},
		{"an offset", alert("a", "up", "timing: {offset: 2h}\n") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
		}, 3 * time.Hour, 1, 2 * time.Hour, 4 * time.Hour, 2 * time.Hour},
		{"an offset that lasts", alert("a", "up", "timing: {offset: 2h}\n") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
		}, time.Hour, 0, 0, 2 * time.Hour, 0},
		{"quiet hours", quiet + alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
		}, 2 * time.Hour, 1, seven, 3 * time.Hour, 3*time.Hour - seven},
		{"quiet hours that last", quiet + alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
		}, time.Hour, 0, 0, seven, 0},
		{"quiet hours that an offset reaches", quiet + alert("a", "up", "timing: {offset: 1h}\n") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
			b.At(enginetest.Start.Add(time.Hour))
		}, 2 * time.Hour, 1, seven, 3 * time.Hour, 3*time.Hour - seven},
		{"quiet hours that a retry reaches", strings.Replace(quiet, "05:00", "05:15", 1) + alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.Provider.Next(refused())
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
			b.At(enginetest.Start.Add(10 * time.Minute))
		}, 2 * time.Hour, 1, seven, 3 * time.Hour, 3*time.Hour - seven},
		{"a send window", alert("a", "up", "limits: {send_window: \"07:00-09:00\"}\n") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
		}, 2 * time.Hour, 1, seven, 3 * time.Hour, 3*time.Hour - seven},
		{"a send window that is closed", alert("a", "up", "limits: {send_window: \"07:00-09:00\"}\n") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
		}, time.Hour, 0, 0, seven, 0},
		{"a stopped process", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
		}, time.Hour, 1, start, 2 * time.Hour, 2 * time.Hour},
		{"a process that is stopped over an offset", alert("a", "up", "timing: {offset: 2h}\n") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
		}, 3 * time.Hour, 1, 2 * time.Hour, 4 * time.Hour, 2 * time.Hour},
		{"a process that is killed with the message in hand", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.PostAll(many(1)...)
			if err := b.Store.WriteClaiming(b.Context(), func(tx *store.Tx) error {
				claims, err := tx.ClaimDueDeliveries(enginetest.Start, enginetest.Start.Add(time.Minute), 1)
				if len(claims) != 1 {
					b.Errorf("claimed %d", len(claims))
				}
				return err
			}); err != nil {
				b.Fatal(err)
			}
		}, time.Hour, 1, start, 2 * time.Hour, 2 * time.Hour},
		{"a daily limit", "workspace: default\ncadence: {max_per_day: 1}\n---\n" + alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.Post(event("up", "1", "a@x.org"))
			b.Post(event("up", "2", "a@x.org"))
			b.At(enginetest.Start)
		}, time.Hour, 0, 0, 24 * time.Hour, 5*time.Hour + 12*time.Minute + 34*time.Second},
		{"a pause", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			pause(b, "a")
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
			b.Clock.Set(enginetest.Start.Add(time.Hour))
			resume(b, "a")
			for found := true; found; {
				var err error
				if found, err = b.Operator().TakeParked(b.Context(), b.Clock.Now(), 100); err != nil {
					b.Fatal(err)
				}
			}
		}, time.Hour + time.Minute, 1, time.Hour, 2 * time.Hour, time.Hour},
		{"a hold", failingPapers("backoff: []"), func(b *enginetest.Bundle) {
			w := &world{Bundle: b}
			w.put("paper/p", `{"target": "2026-05-14", "people": 0}`)
			b.Clock.Set(time.Date(2026, 5, 14, 7, 0, 0, 0, time.UTC)) // 1:47:26 after the start
			for w.tick() {
			}
			b.Clock.Set(enginetest.Start.Add(2 * time.Hour))
			if _, err := b.Operator().Release(b.Context(), b.Workspace.ID, only(b).ID, "ann", b.Clock.Now()); err != nil {
				b.Fatal(err)
			}
		}, 3 * time.Hour, 1, 2 * time.Hour, 0, 0},
		{"a retry of an instance", failingPapers("backoff: [5m, 1h]"), func(b *enginetest.Bundle) {
			w := &world{Bundle: b}
			w.put("paper/p", `{"target": "2026-05-14", "people": 0}`)
			b.Clock.Set(time.Date(2026, 5, 14, 7, 0, 0, 0, time.UTC))
			for w.tick() {
			}
			b.At(b.Clock.Now().Add(5 * time.Minute))
		}, 2 * time.Hour, 1, time.Date(2026, 5, 14, 7, 0, 0, 0, time.UTC).Sub(enginetest.Start), 0, 0},
		{"a retry by hand", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.Provider.Next(refused(), refused())
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
			retryAll(b, 3*time.Minute)
			b.At(b.Clock.Now())
		}, 10 * time.Minute, 1, start, time.Hour, time.Hour},
		{"a retry by hand under an open breaker", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			for range 6 {
				b.Provider.Next(away())
			}
			b.PostAll(many(5)...)
			b.At(enginetest.Start)
			retryAll(b, 3*time.Minute)
			b.At(b.Clock.Now()) // the provider is still away
		}, 4 * time.Minute, 5, start, time.Hour, time.Hour},
		{"a retry by hand of what a limit holds", "workspace: default\ncadence: {max_per_day: 1}\n---\n" + alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.Post(event("up", "1", "a@x.org"))
			b.Post(event("up", "2", "a@x.org"))
			b.At(enginetest.Start)
			retryAll(b, 3*time.Minute)
		}, 4 * time.Minute, 1, 3 * time.Minute, 0, 0},
		{"what had failed, sent again by hand", alert("a", "up", "") + memory, func(b *enginetest.Bundle) {
			b.Provider.Next(channel.Permanent(errors.New("unknown")))
			b.PostAll(many(1)...)
			b.At(enginetest.Start)
			retryAll(b, 3*time.Minute)
		}, 4 * time.Minute, 1, 3 * time.Minute, time.Hour, 57 * time.Minute},
		{"a retry by hand of an instance", failingPapers("backoff: [5m, 1h]"), func(b *enginetest.Bundle) {
			w := &world{Bundle: b}
			w.put("paper/p", `{"target": "2026-05-14", "people": 0}`)
			b.Clock.Set(time.Date(2026, 5, 14, 7, 0, 0, 0, time.UTC))
			for w.tick() {
			}
			if _, err := b.Operator().RetryInstance(b.Context(), b.Workspace.ID, only(b).ID, "ann", b.Clock.Now().Add(time.Minute)); err != nil {
				b.Fatal(err)
			}
		}, 2 * time.Hour, 1, time.Date(2026, 5, 14, 7, 0, 0, 0, time.UTC).Sub(enginetest.Start), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := enginetest.Setup(t, s, c.definitions, nil)
				c.do(b)
				backlog, err := s.Backlog(t.Context(), enginetest.Start.Add(c.at))
				if err != nil {
					t.Fatal(err)
				}
				if got := backlog.DueDeliveries + backlog.DueInstances; got != c.due || c.due > 0 && !backlog.OldestDue.Equal(enginetest.Start.Add(c.oldest)) {
					t.Errorf("%d are due, the oldest since %s; want %d since %s", got, backlog.OldestDue, c.due, enginetest.Start.Add(c.oldest))
				}
				if c.sent == 0 {
					return
				}
				b.Journal()
				b.At(enginetest.Start.Add(c.sent))
				b.At(enginetest.Start.Add(c.sent).Add(time.Hour)) // messages that came while a probe was in flight
				late, n := time.Duration(0), 0
				for _, e := range b.Journal() {
					if e.What == journal.Sent {
						late, n = max(late, e.HandedAt.Sub(e.Eligible)), n+1
					}
				}
				backlog, err = s.Backlog(t.Context(), b.Clock.Now())
				if err != nil || backlog.DueDeliveries != 0 || n == 0 {
					t.Errorf("after all is sent %d are due, %d were sent (%v)", backlog.DueDeliveries, n, err)
				}
				if late != c.late {
					t.Errorf("handed over %s late, want %s", late, c.late)
				}
			})
		})
	}
}

// retryAll retries all waiting and failed messages, that long after the start.
func retryAll(b *enginetest.Bundle, after time.Duration) {
	b.Helper()
	b.Clock.Set(enginetest.Start.Add(after))
	rows, err := b.Store.Deliveries(b.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
	if err != nil {
		b.Fatal(err)
	}
	for _, row := range rows {
		if row.Status != delivery.Scheduled && row.Status != delivery.Failed {
			continue
		}
		if _, err := b.Operator().RetryDelivery(b.Context(), b.Workspace.ID, row.ID, "ann", b.Clock.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
