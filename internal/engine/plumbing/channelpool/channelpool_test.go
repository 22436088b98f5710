package channelpool_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/subject"
)

var now = time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC)

type door struct{ closed int }

func (*door) Send(context.Context, channel.Outgoing) (channel.Receipt, error) {
	return channel.Receipt{}, nil
}

func (d *door) Close() error { d.closed++; return nil }

func TestAChannelIsClosedWhenItsDefinitionChanges(t *testing.T) {
	t.Parallel()
	var doors []*door
	r := channelpool.New([]channel.Provider{{Name: "door", Open: func(map[string]string) (channel.Channel, error) {
		doors = append(doors, &door{})
		return doors[len(doors)-1], nil
	}}}, func(_ subject.WorkspaceID, s definition.Setting) (string, error) { return s.Value, nil }, 64, slog.New(slog.DiscardHandler))
	get := func(hash string) *channelpool.Channel {
		t.Helper()
		o, err := r.Get(1, &definition.Channel{Key: "sms:a", Provider: "door", Hash: hash, Concurrency: 2})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	old := get("1")
	if get("1") != old || len(doors) != 1 {
		t.Fatal("opened twice")
	}
	verdict, err := old.Begin(now)
	if err != nil || !verdict.OK {
		t.Fatal(verdict, err)
	}
	if get("2") == old || len(doors) != 2 {
		t.Fatal("not opened again")
	}
	if doors[0].closed != 0 {
		t.Error("closed with a request in flight")
	}
	if _, err := old.Begin(now); !errors.Is(err, channelpool.ErrClosed) {
		t.Errorf("one more request: %v", err)
	}
	if old.End(now, verdict, channelpool.Outcome{Signal: flow.Answered}); doors[0].closed != 1 {
		t.Errorf("closed %d times", doors[0].closed)
	}
	if r.Close(); doors[0].closed != 1 || doors[1].closed != 1 {
		t.Errorf("at the stop: closed %d and %d times", doors[0].closed, doors[1].closed)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	r := channelpool.New([]channel.Provider{{Name: "door", Open: func(map[string]string) (channel.Channel, error) { return &door{}, nil }}},
		func(_ subject.WorkspaceID, s definition.Setting) (string, error) { return s.Value, nil }, 64, slog.New(slog.DiscardHandler))
	def := &definition.Channel{Key: "sms:a", Provider: "door", Hash: "1", Rate: flow.Rate{Count: 5, Per: time.Second}}
	if v := r.Resting(1, def, now); !v.OK {
		t.Errorf("a channel that nobody used rests: %+v", v)
	}
	o, err := r.Get(1, def)
	if err != nil {
		t.Fatal(err)
	}
	end := func(now time.Time, number int, signal flow.Signal) channelpool.BreakerWait {
		v, err := o.Begin(now)
		if err != nil {
			t.Fatal(err)
		}
		return o.End(now, v, channelpool.Outcome{Signal: signal, Err: errors.New("gone"), Try: channelpool.Try{Delivery: 7, Number: number}})
	}
	end(now, 1, flow.Away)
	end(now, 2, flow.Answered) // earlier failures did not open the breaker
	for n := 3; n < 2+flow.Threshold; n++ {
		if rest := end(now, n, flow.Away); !rest.OK || len(rest.Tries) > 0 {
			t.Errorf("it rests after try %d: %+v", n, rest)
		}
	}
	rest := end(now, 2+flow.Threshold, flow.Away)
	if rest.OK || !rest.Until.Equal(now.Add(10*time.Second)) || len(rest.Tries) != flow.Threshold-1 || rest.Tries[0].Number != 3 {
		t.Errorf("the breaker opens: %+v", rest)
	}
	want := channelpool.State{
		Workspace: 1, Channel: "sms:a", Provider: "door", Breaker: flow.Open, Failures: flow.Threshold, OpenUntil: now.Add(10 * time.Second),
		Concurrency: 64, Rate: "5/s", FailedAt: now, Failure: "gone",
	}
	if got := r.States(now); len(got) != 1 || got[0] != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if v := r.Resting(1, def, now); v.OK || !v.Until.Equal(want.OpenUntil) {
		t.Errorf("resting %+v", v)
	}
	other := *def
	other.Hash = "2"
	if v := r.Resting(1, &other, now); !v.OK {
		t.Error("a new definition rests because of the old one")
	}
	if v := r.Resting(1, def, want.OpenUntil); !v.OK {
		t.Error("it rests although a probe is due")
	}
}

// A failure that a later request's answer outweighs is not among the tries that open the breaker: it stays counted.
func TestOnlyTheTriesThatOpenABreakerAreUncounted(t *testing.T) {
	t.Parallel()
	r := channelpool.New([]channel.Provider{{Name: "door", Open: func(map[string]string) (channel.Channel, error) { return &door{}, nil }}},
		func(_ subject.WorkspaceID, s definition.Setting) (string, error) { return s.Value, nil }, 64, slog.New(slog.DiscardHandler))
	o, err := r.Get(1, &definition.Channel{Key: "sms:a", Provider: "door", Hash: "1"})
	if err != nil {
		t.Fatal(err)
	}
	var requests []flow.Verdict
	for range flow.Threshold + 3 {
		v, err := o.Begin(now)
		if err != nil || !v.OK {
			t.Fatal(v, err)
		}
		requests = append(requests, v)
	}
	end := func(number int, signal flow.Signal) channelpool.BreakerWait {
		return o.End(now, requests[number-1], channelpool.Outcome{Signal: signal, Try: channelpool.Try{Delivery: 7, Number: number}})
	}
	end(2, flow.Answered)
	end(1, flow.Away)
	for n := 3; n < flow.Threshold+2; n++ {
		if rest := end(n, flow.Away); !rest.OK {
			t.Fatalf("it rests after try %d: %+v", n, rest)
		}
	}
	rest := end(flow.Threshold+2, flow.Away)
	if rest.OK || len(rest.Tries) != flow.Threshold-1 || rest.Tries[0].Number != 3 {
		t.Errorf("the breaker opens: %+v", rest)
	}
	if end(flow.Threshold+3, flow.Answered); r.States(now)[0].Breaker != flow.Closed {
		t.Errorf("a later request was answered: %+v", r.States(now))
	}
}
