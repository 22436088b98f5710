package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// watched is a workflow on records, whose message is followed by a reminder.
const watched = `
workflow: task
type: alert
triggers: [{id: t, record: task, when: record.open}]
audience: [{to: '"ann"'}]
channel: inbox
message: {inbox: {subject: s, text: t}}
timing: {reminders: [30m]}
limits: {revalidate: true}
retry: {backoff: [5m], jitter: none}
---
record_type: task
fields: {open: bool}
---
`

// A message that is stopped while it waits releases its slot: nothing left in it, so it delays nobody. A message that may have arrived keeps its
// slot. Each day ends with another message to the same contact.
//
// Shows: A31, A39.
func TestSlotsOfStoppedMessages(t *testing.T) {
	t.Parallel()
	lost := &channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")}
	for _, c := range []struct {
		name, cadence, rest string
		stop                string  // when; "in flight": during the second request
		results             []error // of the requests
		dies                bool    // the process, over the first request
		next, want          string  // the next message, and its result
	}{
		{name: "a reminder that waits for a limit", cadence: "{cooldown: 2h}", rest: "timing: {reminders: [30m]}\n", stop: "10:40", next: "12:30", want: "12:30 sent inbox"},
		{name: "a message that waits for its retry", cadence: "{cooldown: 2h}", rest: steady, stop: "10:03", results: []error{channel.Temporary(errors.New("not now"))}, next: "10:04", want: "10:04 sent inbox"},
		{name: "a reminder that is refused meanwhile", cadence: "{cooldown: 20m}", rest: steady + "timing: {reminders: [30m]}\n", stop: "in flight", results: []error{nil, channel.Temporary(errors.New("not now"))}, next: "10:40", want: "10:40 sent inbox"},
		{name: "a message whose answer was lost", cadence: "{cooldown: 2h}", rest: steady, stop: "10:03", results: []error{lost}, next: "10:40", want: "10:40 deferred inbox 12:00 cooldown"},
		{name: "a reminder whose answer was lost", cadence: "{cooldown: 20m}", rest: steady + "timing: {reminders: [30m]}\n", stop: "10:33", results: []error{nil, lost}, next: "10:40", want: "10:40 deferred inbox 10:50 cooldown"},
		{name: "a message over which the process died", cadence: "{cooldown: 2h}", rest: steady, stop: "10:03", dies: true, next: "10:40", want: "10:40 deferred inbox 12:00 cooldown"},
	} {
		for _, how := range []string{"cancelled", "suppressed", "closed"} {
			if how == "closed" && c.stop == "in flight" {
				continue // a message in flight cannot be stopped
			}
			t.Run(c.name+", "+how, func(t *testing.T) {
				t.Parallel()
				storetest.Each(t, func(t *testing.T, s *store.Store) {
					die := c.dies
					requests, inFlight := 0, func() {}
					provider := &station{answer: func(time.Time) error {
						if requests++; requests == 2 && c.stop == "in flight" {
							inFlight()
						}
						if requests <= len(c.results) {
							return c.results[requests-1]
						}
						return nil
					}}
					w := world{enginetest.Setup(t, s, watched+limited(c.cadence, c.rest), func(config *engine.Config) {
						provider.clock = config.Clock
						for i := range config.Providers {
							config.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return provider, nil }
						}
						config.Failpoint = func(point string) error {
							if die && point == sender.AfterIntent {
								die = false
								return errDied
							}
							return nil
						}
					})}
					w.Clock.Set(ten)
					w.person("ann", `"persona": "Manager"`)
					if how == "closed" {
						w.put("task/1", `{"open": true}`)
					} else {
						w.post("news", "ann")
					}
					for range 3 {
						if _, err := w.Tick(t.Context()); err != nil && !errors.Is(err, errDied) {
							t.Fatal(err)
						}
						if c.dies && !die {
							break
						}
					}
					row := w.newest()
					stop := func() {
						switch how {
						case "closed":
							w.put("task/1", `{"open": false}`)
						case "suppressed":
							w.suppress("ann", true)
							w.suppress("ann", false)
						default:
							if _, err := w.operator().CancelDelivery(t.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now()); err != nil {
								t.Fatal(err)
							}
						}
					}
					switch inFlight = stop; {
					case c.dies:
						w.Clock.Set(at(c.stop))
						stop()
					case c.stop != "in flight":
						w.live(c.stop)
						stop()
					}
					if how == "closed" {
						w.evaluateOnly()
					}
					w.live(c.next)
					w.Journal()
					w.post("news", "ann")
					w.live(c.next)
					if now := w.Delivery(row.ID); now.Status == delivery.Skipped && strings.Contains(c.want, "cooldown") {
						t.Errorf("it may have arrived, and is called %s (%s)", now.Status, now.Reason)
					}
					if got := w.diary(); !slices.Contains(got, c.want) {
						t.Errorf("got %q, want %q", got, c.want)
					}
				})
			})
		}
	}
}

// A message that is retried by hand takes its reminders over: the waiting one releases its slot.
func TestSlotsOfRetriedMessages(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"delivery", "instance"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, limited("{cooldown: 2h, max_per_day: 3}", "timing: {reminders: [30m]}\n"))
				w.person("ann", `"persona": "Manager"`)
				w.post("news", "ann")
				w.live("10:40")
				var err error
				if row := w.newest(); how == "delivery" {
					_, err = w.operator().RetryDelivery(t.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
				} else {
					_, err = w.operator().RetryInstance(t.Context(), w.Workspace.ID, row.Instance, "test", w.Clock.Now())
				}
				if err != nil {
					t.Fatal(err)
				}
				w.live("14:30")
				want := []string{"10:00 sent inbox", "12:00 sent inbox", "14:00 sent inbox"}
				if got := slices.DeleteFunc(w.diary(), func(line string) bool { return !strings.Contains(line, " sent ") }); !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		})
	}
}

// A process dies after an alert has left, before it could store the result; then its contact is suppressed, and the suppression is lifted. The
// contact may have got the alert, so the cooldown counts.
func TestACooldownCountsIfAMessageMayHaveArrived(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		die := true
		w := world{enginetest.Setup(t, s, simple("[change]", "    cooldown: {length: 1d}", ""), func(config *engine.Config) {
			config.Failpoint = func(point string) error {
				if die && point == sender.BeforeResult {
					die = false
					return errDied
				}
				return nil
			}
		})}
		w.Clock.Set(ten)
		w.person("alice", `"persona": "Manager"`)
		w.morale("team/1", 40)
		for die {
			if _, err := w.Tick(t.Context()); err != nil && !errors.Is(err, errDied) {
				t.Fatal(err)
			}
		}
		w.Clock.Set(at("10:05"))
		w.suppress("alice", true)
		w.suppress("alice", false)
		w.live("11:00")
		if sent := w.Provider.Sent(); len(sent) != 1 {
			t.Errorf("%d alerts went out", len(sent))
		}
	})
}
