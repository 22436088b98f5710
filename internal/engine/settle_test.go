package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// away is a store that is unreachable while results are written.
type away struct {
	*store.Store
	gone  atomic.Bool
	tried chan struct{}
}

func (a *away) Write(ctx context.Context, work func(*store.Tx) error) error {
	if a.gone.Load() {
		a.tried <- struct{}{}
		return errors.New("too many connections")
	}
	return a.Store.Write(ctx, work)
}

// blind is a store whose events cannot be read.
type blind struct{ *store.Store }

func (blind) EventsByID(context.Context, []store.EventRef) (map[store.EventRef]store.EventRow, error) {
	return nil, errors.New("too many connections")
}

// A claimed message that could not be rendered has not left: its outcome is not unknown, and it is retried at once.
func TestAnUnsentMessageIsNotUnknown(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		id := b.Post(visit).Instances[0].Deliveries[0].ID
		w := sendersOf(b, blind{s}, provider("memory", func() error { return nil }))
		if _, err := w.Step(t.Context(), b.Now(), 10); err == nil {
			t.Fatal("no error")
		}
		if row := b.Delivery(id); !row.IntentAt.IsZero() || row.LeaseUntil.After(b.Now()) {
			t.Errorf("it still counts as on its way: %+v", row)
		}
		b.At(b.Now())
		var outcomes []delivery.Outcome
		for _, a := range b.Attempts(id) {
			outcomes = append(outcomes, a.Outcome)
		}
		if row := b.Delivery(id); row.Status != delivery.Sent || len(outcomes) != 1 {
			t.Errorf("%s after %v", row.Status, outcomes)
		}
	})
}

// sendersOf returns a sender as Run has it, with many requests in flight at once, on the bundle's clock.
func sendersOf(b *enginetest.Bundle, s sender.Store, providers ...channel.Provider) *sender.Sender {
	plain := func(_ subject.WorkspaceID, s definition.Setting) (string, error) { return s.Value, nil }
	return sender.New(sender.Config{
		Store: s, Catalog: catalog.New(b.Store, enginetest.Options(providers)), Channels: channelpool.New(providers, plain, sender.DefaultConcurrency, slog.New(slog.DiscardHandler)),
		Clock: b.Clock, Log: slog.New(slog.DiscardHandler),
	})
}

func provider(name string, send func() error) channel.Provider {
	return channel.Provider{
		Name: name, Settings: []channel.Setting{{Name: "url"}, {Name: "token", Secret: true}},
		Open: func(map[string]string) (channel.Channel, error) { return sendFunc(send), nil },
	}
}

// A database that is away for less than the lease makes no known outcome unknown.
func TestResultsAreWrittenWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, csi, nil)
		id := b.Post(visit).Instances[0].Deliveries[0].ID
		db := &away{Store: s, tried: make(chan struct{})}
		var sent atomic.Int64
		w := sendersOf(b, db, provider("memory", func() error { db.gone.Store(sent.Add(1) == 1); return nil }))
		times := sleepClock{b.Clock, make(chan time.Time)}
		w.Clock = times
		done := make(chan error, 1)
		go func() { _, err := w.Step(context.WithoutCancel(t.Context()), b.Clock.Now(), 10); done <- err }()
		for tries := 0; ; {
			select {
			case until := <-times.asleep:
				// Before the first try nobody waits for the clock, and the renewal of the lease sleeps longer.
				if tries > 0 && until.Before(b.Clock.Now().Add(time.Second)) {
					b.Clock.Set(until)
				}
			case <-db.tried:
				if tries++; tries == 4 {
					db.gone.Store(false)
				}
			case err := <-done:
				if err != nil {
					t.Fatalf("the results were given up: %v", err)
				}
				if row := b.Delivery(id); row.Status != delivery.Sent || len(b.Attempts(id)) != 1 || sent.Load() != 1 {
					t.Errorf("sent %d times: %+v", sent.Load(), row)
				}
				return
			}
		}
	})
}

// sleepClock is a clock that reports until when a caller is about to sleep.
type sleepClock struct {
	*clock.Manual
	asleep chan time.Time
}

func (c sleepClock) Sleep(ctx context.Context, until time.Time) error {
	select {
	case c.asleep <- until:
	case <-ctx.Done():
	}
	return c.Manual.Sleep(ctx, until)
}

// The answer of one channel is written while another channel hangs.
func TestResultsDoNotWaitForASlowChannel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := alert("quick", "up", "") + strings.Replace(alert("slow", "up", ""), "channel: memory", "channel: http", 1) + memory +
			"---\nchannel: http:default\nprovider: http\nsettings:\n  url: http://x\n"
		b := enginetest.Setup(t, s, definitions, nil)
		var quick delivery.ID
		for _, i := range b.Post(event("up", "1", "a@x.org")).Instances {
			if i.Workflow == "quick" {
				quick = i.Deliveries[0].ID
			}
		}
		hanging, goOn := make(chan struct{}), make(chan struct{})
		w := sendersOf(b, s, provider("memory", func() error { return nil }), provider("http", func() error { close(hanging); <-goOn; return nil }))
		times := sleepClock{b.Clock, make(chan time.Time)}
		w.Clock = times
		done := make(chan error, 1)
		go func() { _, err := w.Step(context.WithoutCancel(t.Context()), b.Clock.Now(), 10); done <- err }()
		<-hanging
		for b.Delivery(quick).Status != delivery.Sent {
			select {
			case until := <-times.asleep:
				if until.Before(b.Clock.Now().Add(time.Second)) { // the renewal of the lease sleeps longer
					b.Clock.Set(until)
				}
			case err := <-done:
				t.Fatalf("the step is over while a channel hangs: %v", err)
			}
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// Any text of a channel's answer is written, and so are the results of the messages beside it.
//
// Shows: C45.
func TestAnAnswerThatNoDatabaseHolds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, nil)
		b.PostAll(event("up", "1", "a@x.org"), event("up", "2", "b@x.org"))
		b.Provider.Next(channel.Temporary(errors.New("a\x00b\xffc")), nil)
		for b.At(enginetest.Start).Any() {
		}
		rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, row := range rows {
			attempts := b.Attempts(row.ID)
			got += fmt.Sprintf("%s %s %d %q\n", row.Status, row.Reason, len(attempts), attempts[0].Error)
		}
		if want := "sent delivered 1 \"\"\nscheduled temporary_error 1 \"temporary_error: abc\"\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
