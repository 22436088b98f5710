package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// slow is an engine whose only message stays in flight until goOn is closed.
type slow struct {
	*engine.Engine
	inFlight, goOn chan struct{}
	done           chan error
	reported       chan journal.Entry
}

func newSlow(t *testing.T, b *enginetest.Bundle) *slow {
	t.Helper()
	s := &slow{inFlight: make(chan struct{}), goOn: make(chan struct{}), done: make(chan error, 1), reported: make(chan journal.Entry, 10)}
	provider := channel.Provider{Name: "memory", Open: func(map[string]string) (channel.Channel, error) {
		return sendFunc(func() error { close(s.inFlight); <-s.goOn; return nil }), nil
	}}
	var err error
	s.Engine, err = engine.New(engine.Config{
		Store: b.Store, Clock: b.Clock, Providers: []channel.Provider{provider}, Journal: func(e journal.Entry) { s.reported <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, err := s.Tick(context.WithoutCancel(t.Context())); s.done <- err }()
	<-s.inFlight
	return s
}

// A message that takes longer than the lease stays with its worker: the lease is renewed at a third of its length.
func TestLeaseOfASlowSendIsRenewed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		id := b.Post(visit).Instances[0].Deliveries[0].ID
		w := newSlow(t, b)
		first := b.Delivery(id).LeaseUntil
		renewed := enginetest.Start.Add(sender.DefaultLease / 3)
		b.Clock.Set(renewed)
		for b.Delivery(id).LeaseUntil.Equal(first) {
			if t.Context().Err() != nil {
				t.Fatal("the lease was never renewed")
			}
		}
		if got, want := b.Delivery(id).LeaseUntil, renewed.Add(sender.DefaultLease); !got.Equal(want) {
			t.Errorf("leased until %s, want %s", got, want)
		}
		if r := b.At(first.Add(time.Second)); r.Processed != 0 {
			t.Errorf("taken over while its worker lives: %+v", r)
		}
		close(w.goOn)
		if err := <-w.done; err != nil {
			t.Fatal(err)
		}
		if row := b.Delivery(id); row.Status != delivery.Sent || len(b.Attempts(id)) != 1 {
			t.Errorf("in the end: %+v", row)
		}
	})
}

// A worker that returns after its row was taken over changes nothing (fencing).
//
// Shows: B26.
func TestAResultAfterTheLeaseIsRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		id := b.Post(visit).Instances[0].Deliveries[0].ID
		w := newSlow(t, b)
		// Its clock stands still, like that of a frozen process; the other process's clock goes on.
		other := enginetest.Setup(t, s, "", nil)
		if r := other.At(enginetest.Start.Add(sender.DefaultLease)); r.Reclaimed != 1 {
			t.Fatalf("not taken over: %+v", r)
		}
		before := b.Delivery(id)
		close(w.goOn)
		if err := <-w.done; err != nil {
			t.Fatal(err)
		}
		if e := <-w.reported; e.What != journal.StaleRefused {
			t.Errorf("reported %s, want %s", e.What, journal.StaleRefused)
		}
		if after := b.Delivery(id); after != before {
			t.Errorf("the late result changed the row:\n%+v\n%+v", before, after)
		}
	})
}
