package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The tries that open a breaker do not count: they stay in the log, each message waits for the channel as one that was not tried, and the next refusal is
// followed by the first wait of the backoff.
func TestTriesThatOpenABreakerDoNotCount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		answer := channel.Away(errors.New("503 Service Unavailable"))
		provider := &station{answer: func(time.Time) error { return answer }}
		b := enginetest.Setup(t, s, alert("a", "up", "retry: {jitter: none}\n")+memory, func(c *engine.Config) { stand(c, provider) })
		b.PostAll(many(flow.Threshold)...)
		b.At(b.Clock.Now())
		rows := world{b}.rows()
		if len(rows) != flow.Threshold {
			t.Fatalf("%d messages", len(rows))
		}
		for _, row := range rows {
			if row.Hold != delivery.HoldChannelDown || row.RetryCount != 0 || !row.SendAt.After(b.Clock.Now()) || len(b.Attempts(row.ID)) != 1 {
				t.Errorf("when the breaker is open: %+v with %d attempts", row, len(b.Attempts(row.ID)))
			}
		}
		answer = channel.Temporary(errors.New("not now"))
		refused := 0
		for range 100 {
			next, err := b.NextDue(t.Context())
			if err != nil || next.IsZero() {
				t.Fatal(next, err)
			}
			b.At(next)
			refused = 0
			for _, row := range (world{b}).rows() {
				if len(b.Attempts(row.ID)) < 2 {
					continue
				}
				refused++
				if row.RetryCount != 1 || row.SendAt.Sub(b.Attempts(row.ID)[1].SettledAt) != 5*time.Minute {
					t.Fatalf("refused once: %+v", row)
				}
			}
			if refused == flow.Threshold {
				return
			}
		}
		t.Errorf("%d messages were refused", refused)
	})
}

// What was refused at one place waits equally long, whatever its jitter is, and leaves together.
//
// Shows: A31.
func TestRefusedAtOnePlaceLeavesTogether(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, limited("{cooldown: 2h}", "retry: {backoff: [12h]}\n"))
		w.person("ann", `"persona": "Manager"`)
		w.Clock.Set(at("10:29:55"))
		w.Provider.Next(channel.Temporary(errors.New("not now")), channel.Temporary(errors.New("not now")), channel.Temporary(errors.New("not now")))
		for n := range 3 {
			w.Post(fmt.Sprintf(`{"kind": "news", "id": "%d", "recipient": {"customer_ref": "ann"}}`, n))
		}
		w.until(dayAt(1, "12:00"))
		left := leftAt(w.Bundle)
		if len(left) != 3 || !left[1].Equal(left[0]) || !left[2].Equal(left[0]) || !left[0].After(at("22:29:55")) {
			t.Errorf("they left at %v", left)
		}
	})
}

// While the first message finds out whether a provider is back, the others of its place wait for it and leave with it.
func TestAPlaceLeavesWithItsProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away, probes := true, 0
		provider := &station{answer: func(time.Time) error {
			if away {
				return channel.Away(errors.New("no connection"))
			}
			if probes++; probes == 1 {
				synctest.Wait() // until each other message of the batch waits, or has given up
			}
			return nil
		}}
		b := enginetest.Setup(t, storetest.Memory(t), limited("{cooldown: 2h}", ""), func(c *engine.Config) {
			c.Concurrency = 2 * flow.Threshold
			provider.clock = c.Clock
			for i := range c.Providers {
				c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return provider, nil }
			}
		})
		w := world{b}
		w.person("ann", `"persona": "Manager"`)
		b.Clock.Set(at("10:30"))
		for n := range flow.Threshold {
			b.Post(fmt.Sprintf(`{"kind": "news", "id": "%d", "recipient": {"customer_ref": "ann"}}`, n))
		}
		b.At(at("10:30"))
		if probes > 0 || len(leftAt(b)) > 0 {
			t.Fatal("something has left")
		}
		away = false
		w.until(at("11:30"))
		left := leftAt(b)
		if len(left) != flow.Threshold {
			t.Fatalf("%d messages have left", len(left))
		}
		for _, at := range left {
			if !at.Equal(left[0]) {
				t.Fatalf("they left at %v", left)
			}
		}
	})
}

// leftAt returns when messages were sent.
func leftAt(b *enginetest.Bundle) (list []time.Time) {
	for _, e := range b.Journal() {
		if e.What == journal.Sent {
			list = append(list, e.At)
		}
	}
	return list
}
