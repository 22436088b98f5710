package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// prioritised has a message to everybody and messages that go before it.
const prioritised = `
workflow: news
type: broadcast
triggers: [{id: t, event: news}]
audience: {everyone: true}
channel: inbox
priority: digest
message: {inbox: {text: news}}
---
workflow: alarm
type: alert
priority: urgent
triggers:
  - {id: t, event: alarm}
  - {id: calm, event: calm, priority: immediate}
audience: [{to: event.recipient}]
channel: inbox
message: {inbox: {text: "{{ event.kind }}"}}
---
workflow: plain
type: alert
triggers: [{id: t, event: plain}]
audience: [{to: event.recipient}]
channel: inbox
message: {inbox: {text: plain}}
---
persona: Manager
---
channel: inbox
provider: inbox
rate: 1/m
`

// A slow channel has messages for hours. An urgent one leaves at the next instant of the channel, one of no special priority after it, and those that it
// overtakes leave all the same. Neither changes how many leave in a minute.
func TestPrioritiesOfAChannel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		people := make([]string, 30)
		for i := range people {
			people[i] = fmt.Sprintf("p%02d", i)
		}
		w := newWorld(t, s, prioritised, people...)
		type told struct {
			what string
			at   time.Time
		}
		var all []told
		pass := func(end time.Time) {
			for now := w.Clock.Now(); ; {
				w.Clock.Set(now)
				for w.tick() {
				}
				for _, m := range w.Provider.Sent() {
					all = append(all, told{m.Text, now})
				}
				next, err := w.NextDue(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if now.Equal(end) {
					return
				}
				if now = next; next.IsZero() || next.After(end) {
					now = end
				}
			}
		}
		w.Post(`{"id": "n", "kind": "news"}`)
		pass(at("10:05"))
		came := w.Clock.Now()
		for i, kind := range []string{"calm", "plain", "alarm", "plain", "alarm"} {
			w.Post(fmt.Sprintf(`{"id": "%d", "kind": %q, "recipient": {"customer_ref": "p%02d", "address": "p%02d"}}`, i, kind, 20+i, 20+i))
		}
		before := len(all)
		pass(came.Add(7 * time.Minute))
		var order []string
		for _, m := range all[before:] {
			order = append(order, m.what)
		}
		w.mustBe("in order", order[:6], []string{"alarm", "alarm", "plain", "plain", "calm", "news"})
		if late := all[before].at.Sub(came); late > 62*time.Second {
			t.Errorf("the first alarm left after %s", late)
		}
		pass(came.Add(40 * time.Minute))
		for i := range all[1:] {
			if space := all[i+1].at.Sub(all[i].at); space < time.Minute {
				t.Errorf("%s and %s left within %s", all[i].what, all[i+1].what, space)
			}
		}
		if news := len(slices.DeleteFunc(slices.Clone(all), func(m told) bool { return m.what != "news" })); news != len(people) || len(all) != len(people)+5 {
			t.Errorf("%d messages, %d of them news to %d people", len(all), news, len(people))
		}
	})
}
