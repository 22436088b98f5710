package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// What a commit makes due wakes the stages that take it, and no other: each looks once, when the engine starts.
func TestStagesAreWokenForTheirWorkAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		system := &clock.System{}
		const stages, messages = 12, 3
		var mu sync.Mutex
		steps := map[string]int{}
		all, sent := make(chan struct{}), make(chan struct{}, 100)
		a := enginetest.Setup(t, s, "", func(c *engine.Config) {
			c.Clock, c.Workers, c.Poll, c.SlowPoll = system, 1, time.Hour, time.Hour
			c.Providers[0].Open = func(map[string]string) (channel.Channel, error) {
				return sendFunc(func() error { sent <- struct{}{}; return nil }), nil
			}
			c.Spans = func(ctx context.Context, name string, _ ...string) (context.Context, func(error)) {
				return ctx, func(error) {
					mu.Lock()
					defer mu.Unlock()
					if stage, is := strings.CutPrefix(name, "step "); is {
						if steps[stage]++; steps[stage] == 1 && len(steps) == stages {
							close(all)
						}
					}
				}
			}
		})
		a.Clock.Set(system.Now())
		a.Apply(alert("a", "up", "") + memory)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		wait := func(what string, c chan struct{}) {
			select {
			case <-c:
			case <-time.After(patience):
				t.Errorf("%s", what)
			}
		}
		wait("not every stage has run", all)
		for i := range messages {
			a.Post(event("up", fmt.Sprint(i), "a@x.org"))
			wait("nothing was sent", sent)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for name, n := range steps {
			switch {
			case name == "send" && n < messages:
				t.Errorf("%d steps sent %d messages", n, messages)
			case name != "send" && name != "end runs" && n != 1:
				t.Errorf("%s: %d times, and nothing was due for it", name, n)
			}
		}
	})
}
