package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/stage/dispatch"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/function"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// lease is how long nobody else tries an event that is on its way.
const lease = dispatch.DefaultTimeout + 10*time.Second

// mortal is an engine whose process dies at a failpoint of dispatching while dies is set.
func mortal(t *testing.T, s *store.Store, point string, dies *bool) asked {
	t.Helper()
	a := ask(t, s, routed("  - {sink: a}\n"), func(c *engine.Config) {
		c.NoJitter = true
		c.Failpoint = func(at string) error {
			if *dies && at == point {
				return errDied
			}
			return nil
		}
	})
	a.At(a.Now())
	if err := a.submit(good); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a asked) dies(at time.Time) {
	a.Helper()
	a.Clock.Set(at)
	if _, err := a.Tick(a.Context()); !errors.Is(err, errDied) {
		a.Fatalf("the process lives on: %v", err)
	}
}

func (a asked) nextDue() time.Time {
	a.Helper()
	at, err := a.NextDue(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	return at
}

// An event of a process that died is tried again when its lease has ended, not before, under the same message id.
//
// Shows: C35, C37.
func TestAProcessDiesWhileItDispatches(t *testing.T) {
	t.Parallel()
	for point, left := range map[string]int{dispatch.AfterClaim: 0, dispatch.BeforeDone: 1} {
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			dies := true
			a := mortal(t, s, point, &dies)
			began := a.Now()
			a.dies(began)
			if _, _, rows := a.whole(); rows["a"].Attempts != 1 || rows["a"].Status != outbox.Pending || !rows["a"].NextAt.Equal(began.Add(lease)) || len(a.ids("a")) != left {
				t.Fatalf("%s: after the loss %+v, %d left", point, rows["a"], len(a.ids("a")))
			}
			if at := a.nextDue(); !at.Equal(began.Add(lease)) {
				t.Errorf("%s: next due %s, want the end of the lease", point, at)
			}
			dies = false
			if a.At(began.Add(lease - time.Microsecond)); len(a.ids("a")) != left {
				t.Errorf("%s: tried again before the lease ended", point)
			}
			a.At(began.Add(lease))
			event, status, rows := a.whole()
			if status != outbox.Dispatched || rows["a"].Attempts != 2 || len(a.ids("a")) != left+1 || !slices.Equal(a.ids("a"), slices.Repeat([]string{event.MessageID}, left+1)) {
				t.Errorf("%s: at the end %s, %+v, %v", point, status, rows["a"], a.ids("a"))
			}
		})
	}
}

// An event that kills its process each time is not tried for ever.
func TestAnEventThatKillsProcesses(t *testing.T) {
	t.Parallel()
	for _, point := range []string{dispatch.AfterClaim, dispatch.BeforeDone} {
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			dies := true
			a := mortal(t, s, point, &dies)
			at := a.Now()
			for range outbox.DefaultAttempts {
				a.dies(at)
				at = a.nextDue()
			}
			a.Journal()
			left := len(a.ids("a"))
			if r := a.At(at); r.Dead != 1 || r.Dispatched != 0 {
				t.Errorf("%s: %+v", point, r)
			}
			if _, status, rows := a.whole(); status != outbox.Dead || rows["a"].Reason != reason.WorkerLost || rows["a"].Attempts != outbox.DefaultAttempts || !rows["a"].EndedAt.Equal(at) {
				t.Errorf("%s: %s, %+v", point, status, rows["a"])
			}
			if len(a.ids("a")) != left {
				t.Errorf("%s: a ninth try left", point)
			}
			if entries := a.Journal(); len(entries) != 1 || entries[0].What != journal.Dead || entries[0].Reason != reason.WorkerLost {
				t.Errorf("%s: journal %+v", point, entries)
			}
		})
	}
}

// beside is a second process over the same store, with the same sinks and a clock of its own.
func (a asked) beside(change func(*engine.Config)) *enginetest.Bundle {
	a.Helper()
	b := enginetest.Setup(a.TB, a.Store, "", func(c *engine.Config) {
		c.NoJitter, c.Sinks = true, []sink.Provider{a.Sinks.SinkProvider()}
		if change != nil {
			change(c)
		}
	})
	b.Clock.Set(a.Now())
	return b
}

// A worker that was frozen while it sent comes back after another one has handed the event over. Its result changes nothing: neither the event nor
// what is known of the sink.
func TestAResultThatComesTooLate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: a}\n"), noJitter)
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		began, thaw, frozen := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		var once sync.Once
		a.Sinks.Wait = func(context.Context, string) {
			first := false
			once.Do(func() { first = true })
			if first {
				close(began)
				<-thaw
			}
		}
		go func() { _, err := a.Tick(a.Context()); frozen <- err }()
		<-began
		b := a.beside(nil)
		if r := b.At(a.Now().Add(lease)); r.Dispatched != 1 {
			t.Errorf("the other process: %+v", r)
		}
		_, _, before := a.whole()
		a.Sinks.Answer("a", sink.NotWanted(errors.New("410")))
		a.Journal()
		close(thaw)
		if err := <-frozen; err != nil {
			t.Fatal(err)
		}
		if _, _, after := a.whole(); before["a"].Status != outbox.Dispatched || !cmp.Equal(before, after) {
			t.Errorf("before %+v, after %+v", before["a"], after["a"])
		}
		if entries := a.Journal(); len(entries) != 1 || entries[0].What != journal.StaleRefused || entries[0].Reason != reason.LeaseLost || entries[0].Sink != "a" {
			t.Errorf("journal %+v", entries)
		}
		sinks, err := s.Sinks(t.Context())
		if err != nil || len(sinks) != 1 || sinks[0].State != outbox.Active || !sinks[0].FailingSince.IsZero() {
			t.Errorf("sinks %+v, %v", sinks, err)
		}
	})
}

// Two replicas hand over the same events at once, while sinks fail: each event is accepted once by each sink, in order per delivery.
func TestTwoReplicasDispatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const people = 12
		parallel := func(c *engine.Config) { c.NoJitter, c.Concurrency = true, 0 }
		a := ask(t, s, routed("  - {sink: a, events: [delivery.sent, response.completed]}\n  - {sink: b, events: [delivery.sent, response.completed]}\n"), parallel)
		links := []answer.Link{a.link}
		for i := 2; i <= people; i++ {
			r := a.Post(visited(fmt.Sprint(i)))
			links = append(links, answer.Link{Workspace: a.Workspace.ID, Delivery: r.Instances[0].Deliveries[0].ID})
		}
		failed := sink.Failed(errors.New("503"))
		a.Sinks.Answer("a", nil, failed, nil, nil, failed, failed)
		a.Sinks.Answer("b", failed, nil, nil, nil, nil, nil, failed, nil, nil, sink.Failed(errors.New("500")))
		b := a.beside(parallel)
		both := func() {
			var ticks sync.WaitGroup
			for _, e := range []*enginetest.Bundle{a.Bundle, b} {
				ticks.Go(func() {
					if _, err := e.Tick(a.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			ticks.Wait()
		}
		both()
		for _, l := range links {
			if _, err := a.Answers().Submit(a.Context(), l, answer.Submission{Answers: good}, a.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; len(a.Sinks.Took("a")) < 2*people || len(a.Sinks.Took("b")) < 2*people; i++ {
			if i == 200 {
				t.Fatalf("%d and %d events arrived, want %d", len(a.Sinks.Took("a")), len(a.Sinks.Took("b")), 2*people)
			}
			both()
			if at := a.nextDue(); at.After(a.Now()) {
				a.Clock.Set(at)
				b.Clock.Set(at)
			}
		}
		both()
		for _, name := range []string{"a", "b"} {
			types := map[string][]string{}
			for _, m := range a.Sinks.Took(name) {
				types[m.Group] = append(types[m.Group], m.Type)
			}
			for group, got := range types {
				if diff := cmp.Diff([]string{"delivery.sent", "response.completed"}, got); diff != "" {
					t.Errorf("sink %s, delivery %s: %s", name, group, diff)
				}
			}
			if len(types) != people {
				t.Errorf("sink %s: %d deliveries", name, len(types))
			}
		}
	})
}

// A sink that panics has failed for now. Its process lives on, and other sinks get their events.
func TestASinkThatPanics(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed(toBoth), noJitter)
		a.At(a.Now())
		a.Sinks.Wait = func(_ context.Context, name string) {
			if name == "a" {
				panic("oh")
			}
		}
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.At(a.Now())
		if _, _, rows := a.whole(); rows["a"].Status != outbox.Pending || rows["a"].Reason != reason.SendThrew || rows["a"].Attempts != 1 || rows["b"].Status != outbox.Dispatched {
			t.Errorf("%+v", rows)
		}
	})
}

// A sink that does not answer delays no other sink and no message.
func TestASilentSinkHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		silence, sent, taken := make(chan struct{}), make(chan struct{}, 100), make(chan string, 100)
		a := asked{Bundle: enginetest.Setup(t, s, routed(toBoth), func(c *engine.Config) {
			c.Clock, c.Timeout, c.Patience, c.Concurrency, c.Workers = &clock.System{}, time.Hour, 20*time.Millisecond, 0, 1
			c.Journal = func(e journal.Entry) {
				switch e.What { //nolint:exhaustive // the others say nothing here
				case journal.Sent:
					sent <- struct{}{}
				case journal.Dispatched:
					taken <- e.Sink
				}
			}
		})}
		a.Sinks.Wait = func(_ context.Context, name string) {
			if name == "a" {
				<-silence
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		var now clock.System
		const rounds = 3
		for i := range rounds {
			a.Clock.Set(now.Now())
			r := a.Post(visited(fmt.Sprint(i + 1)))
			<-sent
			l := answer.Link{Workspace: a.Workspace.ID, Delivery: r.Instances[0].Deliveries[0].ID}
			if _, err := a.Answers().Submit(t.Context(), l, answer.Submission{Answers: good}, now.Now(), nil); err != nil {
				t.Error(err)
			}
			if name := <-taken; name != "b" {
				t.Errorf("sink %s has answered", name)
			}
		}
		close(silence)
		for range rounds {
			if name := <-taken; name != "a" {
				t.Errorf("sink %s got an event twice", name)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// alarm is a clock that notes for how long the engine's alarm sleeps.
type alarm struct {
	clock.System
	slept chan time.Duration
}

// Wait implements clock.Clock; only the alarm waits with a wake-up.
func (c *alarm) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) error {
	if wake != nil {
		select {
		case c.slept <- until.Sub(c.Now()):
		default:
		}
	}
	return c.System.Wait(ctx, until, wake)
}

// While a sink does not answer, what waits behind its requests wakes no stage. It is tried when the sink's rest is over.
func TestASilentSinkWakesNoStage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const atOnce, events = 2, 3
		began, silence, taken := make(chan struct{}, events), make(chan struct{}), make(chan struct{}, events)
		system := &alarm{slept: make(chan time.Duration, 1000)}
		a := asked{Bundle: enginetest.Setup(t, s, routed("  - {sink: a}\n"), func(c *engine.Config) {
			c.Clock, c.Timeout, c.Patience, c.Concurrency, c.Poll, c.SlowPoll = system, time.Hour, time.Millisecond, atOnce, time.Hour, time.Hour
			c.Journal = func(e journal.Entry) {
				if e.What == journal.Dispatched {
					taken <- struct{}{}
				}
			}
		})}
		a.Clock.Set(system.Now())
		var links []answer.Link
		for i := range events {
			r := a.Post(visited(fmt.Sprint(i + 1)))
			links = append(links, answer.Link{Workspace: a.Workspace.ID, Delivery: r.Instances[0].Deliveries[0].ID})
		}
		if _, err := a.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if _, err := a.Answers().Submit(t.Context(), l, answer.Submission{Answers: good}, system.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		a.Sinks.Answer("a", sink.Failed(errors.New("503")), sink.Failed(errors.New("503")))
		a.Sinks.Wait = func(context.Context, string) { began <- struct{}{}; <-silence }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		for range atOnce {
			<-began
		}
		const most = 30 // wake-ups until it sleeps: some were under way
		for n := 1; ; n++ {
			if d := <-system.slept; d > time.Minute {
				break
			}
			if n == most {
				t.Errorf("%d wake-ups in a row, and it is still awake", n)
				break
			}
		}
		close(silence)
		select {
		case <-taken:
		case <-time.After(patience):
			t.Error("what waited behind the failed requests was not tried")
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A stop waits for a sink that does not answer until its time is up, and writes what became of the event.
func TestAStopWaitsForASinkOnlyItsTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		began := make(chan struct{}, 1)
		a := ask(t, s, routed("  - {sink: a}\n"), func(c *engine.Config) { c.Timeout = 50 * time.Millisecond })
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.Sinks.Answer("a", sink.Lost(context.DeadlineExceeded))
		a.Sinks.Wait = func(ctx context.Context, _ string) { began <- struct{}{}; <-ctx.Done() }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		<-began
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("the process does not stop")
		}
		if _, _, rows := a.whole(); rows["a"].Status != outbox.Pending || rows["a"].Reason != reason.ReplyLost || rows["a"].Attempts != 1 {
			t.Errorf("%+v", rows["a"])
		}
	})
}

// A stop waits for a function that ignores its context, and for a sink that heeds it, a short while only, and writes what became of the event.
func TestAStopWaitsForASinkAShortWhile(t *testing.T) {
	t.Parallel()
	for name, heeds := range map[string]bool{"one that heeds its context": true, "one that ignores it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				began, over := make(chan struct{}, 1), make(chan struct{})
				defer close(over)
				own := function.Provider("own", func(ctx context.Context, _ sink.Message) error {
					began <- struct{}{}
					if heeds {
						<-ctx.Done()
						return ctx.Err()
					}
					<-over
					return nil
				})
				definitions := strings.ReplaceAll(routed("  - {sink: a}\n"), "provider: test\nsettings: {name: a}", "provider: own")
				a := ask(t, s, definitions, func(c *engine.Config) {
					c.Timeout, c.SinkGrace, c.Sinks = time.Hour, 20*time.Millisecond, append(c.Sinks, own)
				})
				a.At(a.Now())
				if err := a.submit(good); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- a.Run(ctx) }()
				<-began
				stop()
				select {
				case err := <-done:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(patience):
					t.Fatal("the process does not stop")
				}
				if _, _, rows := a.whole(); rows["a"].Status != outbox.Pending || rows["a"].Reason != reason.ReplyLost || rows["a"].Attempts != 1 {
					t.Errorf("%+v", rows["a"])
				}
			})
		})
	}
}

// One answer goes to a thousand sinks, each of which gets it once.
func TestAThousandSinks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const sinks = 1000
		var routes, defs strings.Builder
		for i := range sinks {
			fmt.Fprintf(&routes, "  - {sink: s%d}\n", i)
			fmt.Fprintf(&defs, "---\nsink: s%d\nprovider: test\nsettings: {name: all}\n", i)
		}
		a := ask(t, s, routed(routes.String())+defs.String(), func(c *engine.Config) { c.Concurrency = 0 })
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		if r := a.At(a.Now()); r.Dispatched != sinks {
			t.Errorf("%+v", r)
		}
		got := map[string]int{}
		for _, m := range a.Sinks.Took("all") {
			got[m.Sink]++
		}
		if _, status, _ := a.whole(); status != outbox.Dispatched || len(got) != sinks || len(a.Sinks.Took("all")) != sinks {
			t.Errorf("%s: %d sinks took %d messages", status, len(got), len(a.Sinks.Took("all")))
		}
	})
}
