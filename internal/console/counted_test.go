package console_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// counting is a store whose counts are given, and have stopped at a limit if more is set.
type counting struct {
	*store.Store
	more bool
}

func (c counting) Tally(context.Context, instance.Row, int) (delivery.Tally, error) {
	return delivery.Tally{Deliveries: 41, Sent: 42, Waiting: 43, LeftOut: 44, More: c.more, Reasons: []delivery.Counted{{Status: delivery.Skipped, Reason: reason.NoAddress, N: 45}}}, nil
}

func (c counting) WaitingCounts(context.Context, subject.WorkspaceID, time.Time) (store.WaitingCounts, error) {
	return store.WaitingCounts{More: c.more, Counts: []store.WaitingCount{{Workflow: "news", Channel: "inbox:default", N: 51, Oldest: start}}}, nil
}

func (c counting) Recent(context.Context, subject.WorkspaceID, time.Time) (store.RecentCounts, error) {
	return store.RecentCounts{More: c.more, Counts: []store.RecentCount{{Workflow: "news", Channel: "inbox:default", Status: delivery.Failed, Reason: reason.RetriesUsedUp, N: 52}}}, nil
}

func (counting) Pauses(context.Context, subject.WorkspaceID) ([]store.Pause, error) {
	return []store.Pause{{Workflow: "news", PausedAt: start}}, nil
}

func (c counting) Stopped(context.Context, subject.WorkspaceID, []store.Pause, time.Time) (map[string]store.Stopped, error) {
	return map[string]store.Stopped{"news": {Deliveries: 61, Due: 62, More: c.more}}, nil
}

func (c counting) SinksOf(_ context.Context, ws subject.WorkspaceID) ([]store.SinkState, error) {
	n := int64(store.MaxBacklog)
	if !c.more {
		n--
	}
	return []store.SinkState{{SinkRef: store.SinkRef{Workspace: ws, Name: "far"}, Health: outbox.Health{State: outbox.Paused}, Pending: n, Dead: n}}, nil
}

// A number at which counting has stopped is marked on every page; one that is exact is not.
func TestCountsThatHaveStoppedAtALimit(t *testing.T) {
	t.Parallel()
	const news = "workflow: news\ntype: broadcast\ntriggers: {schedule: {every: 1d, from: 2099-01-01, at: \"07:00\", timezone: UTC}}\naudience: {everyone: true}\nchannel: inbox\nmessage: {inbox: {text: x}}\n"
	b := setup(t, storetest.Memory(t))
	if applied, err := b.engine.Apply(t.Context(), b.ws, []definition.File{{Name: "news.yaml", Text: []byte(news)}}, "test"); err != nil || applied.Number == 0 {
		t.Fatal(applied.Problems, err)
	}
	run, err := b.engine.RunManually(t.Context(), b.ws, "news", "1", "ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	b.tick(t)
	one := "/instances/" + engine.PublicIDs(b.ws).Encode(key.KindInstance, int64(b.ws.ID), int64(run.Row.ID))
	for _, more := range []bool{true, false} {
		h, err := console.New(console.Deps{Guest: "default", Store: counting{b.store, more}, Definitions: b.engine, Feed: b.feed, Clock: b.clock})
		if err != nil {
			t.Fatal(err)
		}
		for path, numbers := range map[string][]string{
			"/":               {"51", "52", "61", "62", "100,000"},
			"/workflows":      {"51", "52"},
			"/workflows/news": {"51", "52"},
			"/channels":       {"51", "52"},
			"/sinks":          {"100,000"},
			one:               {"41", "42", "43", "44", "45"},
		} {
			body := get(t, h, path).body
			for _, n := range numbers {
				if n == "100,000" && !more {
					n = "99,999"
				}
				if marked := strings.Contains(body, n+"+"); marked != more || !strings.Contains(body, n) {
					t.Errorf("%s: %s is marked: %t, want %t", path, n, marked, more)
				}
			}
		}
	}
}
