package sender

import (
	"log/slog"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/flow"
)

// A message that waits for a probe hears of its end, also when another message of its slot has become the next probe by then: the first one
// showed nothing about the provider.
func TestAProbeAfterAnother(t *testing.T) {
	t.Parallel()
	door := channel.Provider{Name: "door", Open: func(map[string]string) (channel.Channel, error) { return memory.Channel{}, nil }}
	open, err := channelpool.New([]channel.Provider{door}, nil, 9, slog.New(slog.DiscardHandler)).Get(1, &definition.Channel{Key: "sms", Provider: "door"})
	if err != nil {
		t.Fatal(err)
	}
	f := &sendBatch{probes: map[channelRef]chan struct{}{}}
	at := now
	begin := func(id delivery.ID) (*job, flow.Verdict, chan struct{}) {
		t.Helper()
		j := &job{channel: open, claim: delivery.Claim{Row: delivery.Row{Workspace: 1, ID: id, Contact: 1, Channel: "sms", Slot: now}}}
		verdict, probe, err := f.begin(j, at)
		if err != nil {
			t.Fatal(err)
		}
		return j, verdict, probe
	}
	for id := range delivery.ID(flow.Threshold) {
		_, verdict, _ := begin(id)
		open.End(at, verdict, channelpool.Outcome{Signal: flow.Away})
	}
	at = at.Add(time.Minute)
	ended := func(c chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first, verdict, _ := begin(11)
	_, _, waits := begin(12)
	if !verdict.Probe || waits == nil || ended(waits) {
		t.Fatal("nothing waits for the probe")
	}
	open.End(at, verdict, channelpool.Outcome{Signal: flow.Nothing})
	second, verdict, _ := begin(13)
	_, _, waitsToo := begin(14)
	if !verdict.Probe {
		t.Fatal("there is no second probe")
	}
	if f.probed(first); !ended(waits) || ended(waitsToo) {
		t.Errorf("after the first probe: who waited for it goes on: %t; who waits for the second one: %t", ended(waits), ended(waitsToo))
	}
	if f.probed(second); !ended(waitsToo) {
		t.Error("who waited for the second probe waits for ever")
	}
}
