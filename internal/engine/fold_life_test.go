package engine_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Whatever happens to a fold head, its members leave or say why not.
//
// Shows: R7, P6.
func TestFoldedMessagesAreNotLost(t *testing.T) {
	t.Parallel()
	defs := func(rest string) string { return folding("{cooldown: 2h}", rest) }
	const three = "10:00 a, 10:30 a, 10:40 b, 10:50 c, 11:00"
	tests := []struct {
		name, defs, before string
		do                 func(w world)
		after, sent, ended string
	}{
		{
			"the fold head is cancelled", defs(""), three,
			func(w world) { w.cancel("a 2") }, "15:00", "10:00 a 1, 12:00 b 3 + c 4", "a 2 cancelled cancelled_by_operator, c 4 skipped folded_into",
		},
		{
			"the fold head's workflow is switched off", defs(""), three,
			func(w world) {
				w.Apply(strings.Replace(defs(""), "workflow: a\n", "workflow: a\nenabled: false\n", 1))
			}, "15:00", "10:00 a 1, 12:00 b 3 + c 4", "c 4 skipped folded_into",
		},
		{
			"a member's workflow is switched off", defs(""), three,
			func(w world) {
				w.Apply(strings.Replace(defs(""), "workflow: b\n", "workflow: b\nenabled: false\n", 1))
			}, "15:00", "10:00 a 1, 12:00 a 2 + c 4", "c 4 skipped folded_into",
		},
		{
			"the person is suppressed", defs(""), three,
			func(w world) {
				if _, err := w.Contacts().Stop(w.Context(), w.Workspace, contact.Suppression{Contact: "ann", Suppress: true, Reason: "asked", Actor: "test"}, w.Clock.Now(), nil); err != nil {
					w.Fatal(err)
				}
			}, "15:00", "10:00 a 1", "a 2 cancelled suppressed, b 3 cancelled suppressed, c 4 cancelled suppressed",
		},
		{
			"limits are lifted", defs(""), three,
			func(w world) { w.person("ann", `"cadence": {"max_per_day": 50}`) }, "15:00",
			"10:00 a 1, 11:00 a 2, 11:00 b 3, 11:00 c 4", "",
		},
		{
			"limits become stricter", defs(""), three,
			func(w world) { w.person("ann", `"cadence": {"cooldown": "3h"}`) }, "15:00", "10:00 a 1, 13:00 a 2 + b 3 + c 4",
			"b 3 skipped folded_into, c 4 skipped folded_into",
		},
		{
			"the fold head would wait too long", strings.Replace(defs(""), "limits: {at_send: fold}", "limits: {at_send: fold}\ntiming: {expire_after: 3h}", 1), three,
			func(w world) { w.script("11:50 siren, 11:51") }, "15:00", "10:00 a 1, 13:50 b 3 + c 4", "a 2 expired deferred_too_long, c 4 skipped folded_into",
		},
		{
			"the text of a member cannot be written", defs(""), "10:00 a, 10:30 a, 10:40 b!, 10:50 c", nil, "15:00",
			"10:00 a 1, 12:00 a 2 + c 4", "b 3bad failed cannot_render, c 4 skipped folded_into",
		},
		{
			"the text of the fold head cannot be written", defs(""), "10:00 a, 10:30 a!, 10:40 b, 10:50 c", nil, "15:00",
			"10:00 a 1, 12:00 b 3 + c 4", "a 2bad failed cannot_render, c 4 skipped folded_into",
		},
		{
			"the fold head fails for good", defs(""), three + ", 11:10 fail", nil, "15:00",
			"10:00 a 1", "a 2 failed permanent_error, b 3 skipped folded_into, c 4 skipped folded_into",
		},
		{
			"the fold head fails for good, and a member has another channel", strings.Replace(defs(""), "limits: {at_send: fold}\n---\nworkflow: c", "limits: {at_send: fold}\nfallback: [email]\n---\nworkflow: c", 1),
			three + ", 11:10 fail, 11:11 fail", nil, "15:00", "10:00 a 1, 12:00 b 3 + ---------- + c 4", "a 2 failed permanent_error, b 3 failed permanent_error, c 4 skipped folded_into",
		},
		{
			"its fallback brings them too", defs("fallback: [email]\n"), three + ", 11:10 fail", nil, "15:00",
			"10:00 a 1, 12:00 a 2 + ---------- + b 3 + ---------- + c 4", "a 2 failed permanent_error, b 3 skipped folded_into, c 4 skipped folded_into",
		},
		{
			"and so does the fallback of the fallback", defs("fallback: [email, memory]\n"), three + ", 11:10 fail, 11:11 fail", nil, "15:00",
			"10:00 a 1, 12:00 a 2 + b 3 + c 4", "a 2 failed permanent_error, a 2 failed permanent_error, b 3 skipped folded_into, c 4 skipped folded_into",
		},
		{
			"the fold head is cancelled between two tries", defs("retry: {backoff: [30m], jitter: none}\n"), three + ", 11:10 later, 12:10",
			func(w world) { w.cancel("a 2") }, "15:00", "10:00 a 1, 12:10 b 3 + c 4", "a 2 cancelled cancelled_by_operator, c 4 skipped folded_into",
		},
		{
			"the engine was away", defs(""), three,
			func(w world) { w.Clock.Set(at("13:30")) }, "15:00", "10:00 a 1, 13:30 a 2 + b 3 + c 4", "b 3 skipped folded_into, c 4 skipped folded_into",
		},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, c.defs)
				w.person("ann", `"persona": "Manager"`)
				sent := w.script(c.before)
				if c.do != nil {
					c.do(w)
				}
				sent = append(sent, w.texts()...)
				sent = slices.DeleteFunc(append(sent, w.script(c.after)...), func(s string) bool { return strings.Contains(s, "siren") })
				w.mustBe("what left", sent, strings.Split(c.sent, ", "))
				var ended []string
				for _, row := range w.rows() {
					if row.Status.Final() {
						ended = append(ended, w.name(row)+" "+string(row.Status)+" "+string(row.Reason))
					}
				}
				slices.Sort(ended)
				if want := strings.Split(c.ended, ", "); c.ended != "" || len(ended) > 0 {
					w.mustBe("how they ended", ended, want)
				}
			})
		})
	}
}

// A newer alert supersedes a fold head; its members leave all the same. A newer alert supersedes a fold member, too.
//
// Shows: R6, R7.
func TestFoldOfSupersededMessages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		fold := "limits: {at_send: fold}\n"
		other := strings.NewReplacer("type: alert", "type: alert\nlimits: {at_send: fold}", "channel: memory", "channel: inbox", "sms:", "inbox:\n    subject: s").Replace(alert("other", "other", ""))
		w := newWorld(t, s, simple("[5m]", "    cooldown: {length: 30m}\n", fold)+"---\n"+other)
		w.person("ann", `"cadence": {"cooldown": "3h"}`)
		w.put("team/red", `{"name": "Red", "morale": 30, "owner_id": "ann"}`)
		w.live("10:40")
		w.Post(`{"kind": "other", "id": "1", "recipient": {"address": "ann", "customer_ref": "ann"}}`)
		w.live("10:50")
		var head, member delivery.Row
		for _, row := range w.rows() {
			switch {
			case row.Workflow == "other":
				member = row
			case row.Status == delivery.Scheduled:
				head = row
			}
		}
		if member.FoldedInto != head.ID || !member.Slot.IsZero() || !member.LeavesAt().Equal(head.Slot) {
			t.Fatalf("it is not folded: %+v with %+v", member, head)
		}
		w.live("13:10")
		if row := w.Delivery(head.ID); row.Status != delivery.Superseded {
			t.Fatalf("the fold head is %s", row.Status)
		}
		if row := w.Delivery(member.ID); row.Status != delivery.Sent && row.Reason != reason.FoldedInto {
			t.Errorf("what rode with it is lost: %+v", row)
		}

		// Now the other message is the head, and the alerts of the record are its members.
		w.person("ann", `"cadence": {"cooldown": "5h"}`)
		w.put("team/red", `{"morale": 90}`)
		w.live("13:20")
		w.Post(`{"kind": "other", "id": "2", "recipient": {"address": "ann", "customer_ref": "ann"}}`)
		w.live("13:21")
		w.put("team/red", `{"morale": 30}`)
		w.live("14:10")
		ridden := map[delivery.Status]int{}
		for _, row := range w.rows() {
			if row.Workflow == "w" && row.CreatedAt.After(at("13:20")) {
				ridden[row.Status]++
				if row.Status == delivery.Scheduled && !row.IsFoldMember() {
					t.Errorf("it is not folded: %+v", row)
				}
			}
		}
		if ridden[delivery.Scheduled] != 1 || ridden[delivery.Superseded] != 1 {
			t.Errorf("%v, want the newest alone to wait", ridden)
		}
	})
}

// rows returns all deliveries, the oldest first.
func (w world) rows() []delivery.Row {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 500})
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(rows)
	return rows
}

// name is a delivery's name in the texts of folding: its workflow and the id of its event.
func (w world) name(row delivery.Row) string {
	w.Helper()
	ref := store.EventRef{Workspace: row.Workspace, ID: row.Event}
	events, err := w.Store.EventsByID(w.Context(), []store.EventRef{ref})
	if err != nil {
		w.Fatal(err)
	}
	return row.Workflow + " " + events[ref].ExtID
}

func (w world) cancel(name string) {
	w.Helper()
	for _, row := range w.rows() {
		if w.name(row) == name {
			if _, err := w.Operator().CancelDelivery(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now()); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// A process that dies around the intent of a fold head loses none of the members and sends none twice.
//
// Shows: P3, R7.
func TestFoldSurvivesACrash(t *testing.T) {
	t.Parallel()
	for _, point := range []string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				die := false
				w := world{enginetest.Setup(t, s, folding("{cooldown: 2h}", ""), func(c *engine.Config) {
					c.Failpoint = func(at string) error {
						if die && at == point {
							die = false
							return errDied
						}
						return nil
					}
				})}
				w.Clock.Set(ten)
				w.person("ann", `"persona": "Manager"`)
				sent := w.script("10:00 a, 10:30 a, 10:40 b, 10:50 c, 11:00")
				w.Clock.Set(at("12:00"))
				die = true
				if _, err := w.Tick(w.Context()); !errors.Is(err, errDied) {
					t.Fatalf("it did not die: %v", err)
				}
				sent = append(append(sent, w.texts()...), w.script("15:00")...)
				w.mustBe("what left", sent, []string{"10:00 a 1", "12:00 a 2 + b 3 + c 4"})
				var got []string
				for _, row := range w.rows() {
					got = append(got, w.name(row)+" "+string(row.Status))
				}
				w.mustBe("the rows", got, []string{"a 1 sent", "a 2 sent", "b 3 skipped", "c 4 skipped"})
				if w.Provider.Repeats > 1 {
					t.Errorf("%d requests were repeated", w.Provider.Repeats)
				}
			})
		})
	}
}

// wire is a provider that keeps every request, including those that it refuses.
type wire struct {
	mu     sync.Mutex
	behave []error
	all    []channel.Outgoing
}

func (p *wire) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, out)
	var err error
	if len(p.behave) > 0 {
		err, p.behave = p.behave[0], p.behave[1:]
	}
	return channel.Receipt{ProviderID: "x"}, err
}

// A retry of a fold has the same text under the same key, whatever has become due for the contact meanwhile.
//
// Shows: P3, R7.
func TestFoldRetriesTheSame(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		p := &wire{}
		w := world{enginetest.Setup(t, s, folding("{cooldown: 2h}", "retry: {backoff: [10m], jitter: none}\n"), func(c *engine.Config) {
			for i := range c.Providers {
				c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return p, nil }
			}
		})}
		w.Clock.Set(ten)
		w.person("ann", `"persona": "Manager"`)
		w.script("10:00 a, 10:30 a, 10:40 b, 10:50 c")
		p.behave = []error{
			&channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")},
		}
		w.script("12:05 b, 12:30")
		if len(p.all) != 3 {
			t.Fatalf("%d requests: %+v", len(p.all), p.all)
		}
		first, again := p.all[1], p.all[2]
		again.Attempt = first.Attempt
		if fmt.Sprintf("%+v", first) != fmt.Sprintf("%+v", again) || first.Text != "a 2\n\nb 3\n\nc 4" {
			t.Errorf("first %+v\nagain %+v", first, again)
		}
	})
}

// Folded emails keep the content that each of them would have shown alone.
func TestFoldOfEmails(t *testing.T) {
	t.Parallel()
	defs := "channel: email\nprovider: memory\n---\n"
	for _, name := range []string{"a", "b", "c"} {
		defs += "workflow: " + name + "\ntype: alert\ntriggers:\n  - {id: t, event: " + name + "}\naudience:\n  - to: event.recipient\nchannel: email\nlimits: {at_send: fold}\n" +
			"message:\n  email:\n    subject: \"" + name + " {{ event.id }}\"\n    markdown: \"**" + name + "** {{ event.id }}\"\n---\n"
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, defs+"persona: Manager\ncadence: {cooldown: 2h}\n")
		w.person("ann", `"persona": "Manager"`)
		w.Clock.Set(ten)
		for i, kind := range []string{"c", "b", "a", "c"} {
			w.live(fmt.Sprintf("10:%d0", i))
			w.Post(fmt.Sprintf(`{"kind": %q, "id": "%d", "recipient": {"address": "ann@example.org", "customer_ref": "ann"}}`, kind, i+1))
			w.live(fmt.Sprintf("10:%d1", i))
		}
		w.Provider.Sent()
		w.live("13:00")
		sent := w.Provider.Sent()
		if len(sent) != 1 || sent[0].Subject != "b 2 (+2)" {
			t.Fatalf("sent %+v, %v", sent, w.diary())
		}
		if want := "<p><strong>b</strong> 2</p>\n\n<hr>\n<p><strong>a</strong> 3</p>\n\n<hr>\n<p><strong>c</strong> 4</p>\n"; !strings.Contains(sent[0].HTML, want) {
			t.Errorf("html %q", sent[0].HTML)
		}
	})
}

// Two processes share the work: each message leaves once, no limit is exceeded, and nothing is lost.
func TestFoldWithTwoProcesses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, folding("{cooldown: 2h, max_per_slot: 1}", ""))
		other := enginetest.Setup(t, s, "", func(c *engine.Config) {
			for i := range c.Providers {
				c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return w.Provider, nil }
			}
		})
		other.Clock.Set(ten)
		const people = 12
		for i := range people {
			who := fmt.Sprintf("p%d", i)
			w.person(who, `"persona": "Manager"`)
			w.event("a", "first-"+who, who)
		}
		w.live("10:00")
		for i := range people {
			for _, kind := range []string{"a", "b", "c"} {
				w.event(kind, fmt.Sprintf("%d-%s", i, kind), fmt.Sprintf("p%d", i))
			}
		}
		w.Provider.Sent()
		w.Clock.Set(at("12:00"))
		other.Clock.Set(at("12:00"))
		var wg sync.WaitGroup
		for _, b := range []*enginetest.Bundle{w.Bundle, other} {
			wg.Go(func() {
				for range 4 {
					if _, err := b.Tick(b.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		sent := w.Provider.Sent()
		whole := regexp.MustCompile(`^a (\d+)-a\n\nb (\d+)-b\n\nc (\d+)-c$`)
		for _, out := range sent {
			if !whole.MatchString(out.Text) {
				t.Errorf("in parts: %q", out.Text)
			}
		}
		if len(sent) != people {
			t.Errorf("%d messages to %d people", len(sent), people)
		}
	})
}
