package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// folding are workflows a, b and c, whose messages fold, and a siren that passes all limits. An event can make the text of b fail. rest is added to
// all three.
func folding(cadence, rest string) string {
	var b strings.Builder
	b.WriteString("channel: email\nprovider: memory\n---\nchannel: sms\nprovider: memory\n---\nchannel: sms:other\nprovider: memory\n---\nchannel: memory\nprovider: memory\n---\n")
	for _, name := range []string{"a", "b", "c", "d", "siren"} {
		on, limits := "sms", "limits: {at_send: fold}\n"+rest
		switch name {
		case "d":
			on = "sms:other"
		case "siren":
			limits = "limits: {critical: true}\n"
		}
		fmt.Fprintf(&b, `workflow: %[1]s
type: alert
triggers:
  - {id: t, event: %[1]s}
audience:
  - to: event.recipient
channel: %[2]s
message:
  sms:
    text: "%[1]s {{ event.id }}{%% if event.id contains 'bad' %%}{{ event.payload.none }}{%% endif %%}"
  email:
    subject: "%[1]s"
    text: "%[1]s {{ event.id }}"
%[3]s---
`, name, on, limits)
	}
	return b.String() + "persona: Manager\ncadence: " + cadence + "\n"
}

// event sends an event of a kind to the engine, for one contact.
func (w world) event(kind, id, who string) {
	w.Helper()
	w.Post(fmt.Sprintf(`{"kind": %q, "id": %q, "recipient": {"address": %[3]q, "customer_ref": %[3]q}}`, kind, id, who))
}

// texts returns the messages that the provider accepted, each as "12:00 text" by the clock of the world.
func (w world) texts() (list []string) {
	for _, out := range w.Provider.Sent() {
		list = append(list, w.Clock.Now().Format("15:04")+" "+strings.ReplaceAll(out.Text, "\n\n", " + "))
	}
	return list
}

// script runs a day that is written as "10:00 a, 10:30 b bad, 11:00 fail" and returns the messages that the provider accepted.
func (w world) script(day string) (sent []string) {
	w.Helper()
	n := 0
	for step := range strings.SplitSeq(day, ", ") {
		when, what, _ := strings.Cut(step, " ")
		for !w.Clock.Now().After(at(when)) {
			next, err := w.NextDue(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			if next.IsZero() || next.After(at(when)) {
				break
			}
			if next.After(w.Clock.Now()) {
				w.Clock.Set(next)
			}
			w.tick()
			sent = append(sent, w.texts()...)
		}
		w.live(when)
		sent = append(sent, w.texts()...)
		kind, who, _ := strings.Cut(what, " ")
		switch kind {
		case "":
		case "fail":
			w.Provider.Next(channel.Permanent(errors.New("no")))
		case "later":
			w.Provider.Next(channel.Temporary(errors.New("not now")))
		case "lose":
			w.Provider.Next(&channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
		default:
			n++
			if who == "" {
				who = "ann"
			}
			kind, bad := strings.CutSuffix(kind, "!") // whose text cannot be written
			id := fmt.Sprint(n)
			if bad {
				id += "bad"
			}
			w.event(kind, id, who)
			w.live(when)
			sent = append(sent, w.texts()...)
		}
	}
	return sent
}

// Messages that wait for one contact on one channel leave as one message, which counts once.
//
// Shows: R7.
func TestFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, cadence, rest, day, sent, diary string }{
		{
			"three workflows, one message", "{cooldown: 2h}", "",
			"10:00 a, 10:30 a, 10:40 b, 10:50 c, 12:30 b, 15:00",
			"10:00 a 1, 12:00 a 2 + b 3 + c 4, 14:00 b 5",
			"10:00 sent sms, 10:30 deferred sms 12:00 cooldown, 10:40 deferred sms 12:00 cooldown, 10:50 deferred sms 12:00 cooldown, " +
				"12:00 folded sms folded_into, 12:00 folded sms folded_into, 12:00 sent sms, 12:30 deferred sms 14:00 cooldown, 14:00 sent sms",
		},
		{
			"which counts once", "{cooldown: 1h, max_per_day: 3, max_per_slot: 1}", "",
			"10:00 a, 10:10 a, 10:20 b, 10:30 c, 11:10 a, 11:20 b, 12:10 c, 23:00",
			"10:00 a 1, 11:00 a 2 + b 3 + c 4, 12:00 a 5 + b 6", "",
		},
		{
			"others are left alone", "{cooldown: 2h}", "",
			"10:00 a, 10:00 a bob, 10:30 a, 10:40 b bob, 10:50 d, 10:55 b, 13:00",
			"10:00 a 1, 10:00 a 2, 12:00 a 3 + b 6, 12:00 b 4, 12:00 d 5", "",
		},
		{
			"what is critical goes by itself, and the bundle waits again", "{cooldown: 2h}", "",
			"10:00 a, 10:30 a, 10:40 b, 11:00 siren, 15:00",
			"10:00 a 1, 11:00 siren 4, 13:00 a 2 + b 3", "",
		},
		{
			"one that would wait too long by itself", "{cooldown: 2h, max_per_day: 2}", "timing: {expire_after: 4h}\n",
			"10:00 a, 10:30 a, 10:40 b, 12:10 c, 23:00",
			"10:00 a 1, 12:00 a 2 + b 3",
			"10:00 sent sms, 10:30 deferred sms 12:00 cooldown, 10:40 deferred sms 12:00 cooldown, 12:00 folded sms folded_into, 12:00 sent sms, 12:10 expired sms deferred_too_long",
		},
		{
			"a retry brings them all", "{cooldown: 2h}", "retry: {backoff: [10m], jitter: none}\n",
			"10:00 a, 10:30 a, 10:40 b, 11:00 later, 13:00 c, 15:00",
			"10:00 a 1, 12:10 a 2 + b 3, 14:10 c 4", "",
		},
		{
			"a lost answer too, under the same key", "{cooldown: 2h}", "retry: {backoff: [10m], jitter: none}\n",
			"10:00 a, 10:30 a, 10:40 b, 11:00 lose, 15:00",
			"10:00 a 1, 12:00 a 2 + b 3", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, folding(c.cadence, c.rest))
				for _, who := range []string{"ann", "bob"} {
					w.person(who, `"persona": "Manager"`)
				}
				w.mustBe("what left", w.script(c.day), strings.Split(c.sent, ", "))
				if diary := w.diary(); c.diary != "" {
					w.mustBe("the day", diary, strings.Split(c.diary, ", "))
				}
			})
		})
	}
}
