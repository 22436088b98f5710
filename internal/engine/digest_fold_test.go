package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const digestsThatCarry = `
workspace: default
cadence: {max_per_day: 1}
---
workflow: doors
type: alert
triggers: [{id: t, event: door}]
audience: [{to: event.recipient}]
channel: inbox
message: {inbox: {text: "door {{ event.number }}"}}
limits: {at_send: fold}
---
workflow: plain
type: alert
triggers: [{id: t, event: plain}]
audience: [{to: event.recipient}]
channel: inbox
message: {inbox: {text: "plain {{ event.number }}"}}
---
` + digestsOfTopics

// carrying is a world in which ann has had today's message and follows tax daily, and in which doors 2 and 3 wait until midnight.
func carrying(t *testing.T, s *store.Store, definitions string) world {
	t.Helper()
	w := newWorld(t, s, definitions, "ann")
	w.Clock.Set(dayAt(1, "06:00"))
	w.subscribe("ann", "tax", "daily")
	return w
}

func (w world) door(kind, number string) {
	w.Helper()
	w.Post(`{"kind": "` + kind + `", "id": "` + kind + number + `", "payload": {"number": ` + number + `}, "recipient": {"customer_ref": "ann"}}`)
	for w.tick() {
	}
}

func (w world) states() (list []string) {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, d := range rows {
		list = append(list, strings.TrimSpace(d.Workflow+" "+string(d.Status)+" "+string(d.Reason)))
	}
	return list
}

// putOff has ann get door 1 at six, which uses up the day, so that the digest of half past eight waits until the next day, and doors 2 and 3 until
// the one after that.
func (w world) putOff() {
	w.Helper()
	w.publish(tagged("1", "tax"))
	w.door("door", "1")
	w.mustBe("what left", w.texts(), []string{"06:00 door 1"})
	w.until(dayAt(1, "09:00"))
	w.door("door", "2")
	w.until(dayAt(1, "10:00"))
	w.door("door", "3")
	w.door("plain", "1")
	w.mustBe("what waits", w.states(), []string{"plain scheduled", "doors scheduled", "doors scheduled", "news scheduled", "doors sent delivered"})
}

// What limits put off leaves with the person's next digest, if that leaves before its own slot. It counts once, and what waits without at_send: fold stays.
//
// Shows: R7.
func TestWhatWaitsLeavesWithADigest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := carrying(t, s, digestsThatCarry)
		w.putOff()
		w.until(dayAt(2, "08:30"))
		w.mustBe("what leaves with it", w.texts(), []string{"08:30 daily tax:1, + door 2 + door 3"})
		w.mustBe("what became of them", w.states(), []string{"news scheduled", "plain scheduled", "doors skipped folded_into", "doors skipped folded_into", "news sent delivered", "doors sent delivered"})
		w.until(dayAt(5, "00:00"))
		w.mustBe("afterwards", w.texts(), []string{"00:00 plain 1"})
	})
}

// A digest that fails for good, or whose answer is lost, keeps nothing from leaving: what was to leave with it leaves by itself, or in the same text again.
//
// Shows: R7, P3.
func TestADigestThatFailsSetsFree(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refuse error
		texts  []string
	}{
		"refused for a while": {channel.Temporary(errors.New("busy")), []string{"daily tax:1, + door 2 + door 3"}},
		"its answer is lost":  {channel.Lost(errors.New("no answer")), []string{"daily tax:1, + door 2 + door 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := carrying(t, s, digestsThatCarry)
				w.putOff()
				w.Provider.Next(tt.refuse)
				w.until(dayAt(2, "08:32"))
				var got []string
				for _, out := range w.Provider.Sent() {
					got = append(got, strings.ReplaceAll(out.Text, "\n\n", " + "))
				}
				w.mustBe("what left", got, tt.texts)
			})
		})
	}
}

// What may not leave at that instant by its own rules stays, and so does what goes to another channel.
//
// Shows: R7.
func TestADigestTakesOnlyWhatMayLeave(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from, to string
		together bool
	}{
		"nothing is in its way":       {"", "", true},
		"its own slot is a bit later": {"cadence: {max_per_day: 1}", "cadence: {max_per_day: 1, types: [alert], resume_at: \"09:00\"}", true},
		"its send window is closed":   {"limits: {at_send: fold}", "limits: {at_send: fold, send_window: 12:00-20:00}", false},
		"the digest does not count":   {"digest: {duplicates: each}", "digest: {duplicates: each}\nlimits: {counts: false}", false},
		"it does not fold":            {"limits: {at_send: fold}", "limits: {at_send: defer}", false},
		"it goes to another channel":  {"limits: {at_send: fold}\n", "limits: {at_send: fold}\n---\nchannel: inbox:other\nprovider: inbox\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				definitions := strings.Replace(digestsThatCarry, tt.from, tt.to, 1)
				if strings.Contains(tt.to, "inbox:other") {
					definitions = strings.Replace(definitions, "channel: inbox\nmessage: {inbox: {text: \"door", "channel: inbox:other\nmessage: {inbox: {text: \"door", 1)
				}
				w := carrying(t, s, definitions)
				w.publish(tagged("1", "tax"))
				w.door("door", "1")
				w.until(dayAt(1, "09:00"))
				w.publish(tagged("2", "tax")) // the digest of the first day may have left
				w.door("door", "2")
				w.until(dayAt(2, "08:31"))
				texts, together := w.texts(), false
				for _, text := range texts {
					together = together || strings.Contains(text, "tax") && strings.Contains(text, "door 2")
				}
				if together != tt.together {
					t.Errorf("%q, %q", texts, w.states())
				}
			})
		})
	}
}
