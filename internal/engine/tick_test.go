package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// One tick sends at most a batch, the messages that are due longest first, and sends before it expires.
//
// Shows: C17, C18.
func TestATickIsOneBoundedPassInOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		quiet := b.Post(visit).Instances[0].Deliveries[0].ID
		b.At(b.Now())
		b.At(b.Now().Add(day))
		events := make([]string, engine.TickBatch+5)
		for i := range events {
			events[i] = fmt.Sprintf(`{"kind": "service-visit-closed", "payload": {"jobType": "GR", "wip": %d},
				"recipient": {"address": "p%d@x.org"}}`, i, i)
		}
		b.Clock.Set(b.Now().Add(30*day + time.Second))
		b.PostAll(events...)
		b.Journal()
		first := b.At(b.Now())
		if first.Processed != engine.TickBatch || first.Expired != 1 {
			t.Errorf("the first pass: %+v, want %d processed and 1 expired", first, engine.TickBatch)
		}
		var order []journal.What
		for _, e := range b.Journal() {
			if len(order) == 0 || order[len(order)-1] != e.What {
				order = append(order, e.What)
			}
		}
		if len(order) != 2 || order[0] != journal.Sent || order[1] != journal.Expired {
			t.Errorf("the passes ran as %v", order)
		}
		if row := b.Delivery(quiet); row.Status != delivery.Expired {
			t.Errorf("the quiet one: %s", row.Status)
		}
		sent := b.Provider.Sent()
		for i, out := range sent[len(sent)-engine.TickBatch:] {
			if want := fmt.Sprintf("p%d@x.org", i); out.Address != want {
				t.Fatalf("message %d went to %s, want %s", i, out.Address, want)
			}
		}
		if second := b.At(b.Now()); second.Processed != 5 {
			t.Errorf("the second pass: %+v", second)
		}
	})
}

// Failed messages are found by status and reason, in rows and in the log of attempts.
//
// Shows: C48.
func TestFailuresAreFound(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		b.Provider.Next(channel.Permanent(errors.New("no such number")))
		id := b.Post(visit).Instances[0].Deliveries[0].ID
		b.At(b.Now())
		rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{Status: delivery.Failed, Reason: reason.PermanentError}, store.Page{Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].ID != id || rows[0].CompletedAt.IsZero() || !rows[0].Slot.IsZero() {
			t.Errorf("got %+v, %v", rows, err)
		}
		if log := b.Attempts(id); len(log) != 1 || log[0].Outcome != delivery.AttemptFailed || log[0].Error != "permanent_error: no such number" {
			t.Errorf("log %+v", log)
		}
		var failed []journal.Entry
		for _, e := range b.Journal() {
			if e.What == journal.Failed {
				failed = append(failed, e)
			}
		}
		if len(failed) != 1 || failed[0].Reason != reason.PermanentError {
			t.Errorf("reported %+v", failed)
		}
	})
}
