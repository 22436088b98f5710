package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// pings tell people something at once or an hour later, by text message or else by mail, and answer what they reply.
const pings = `
workflow: ping
type: notice
triggers:
  - {id: now, event: ping}
  - {id: later, event: ping-later, timing: {offset: 1h}}
audience: {to: event.recipient}
channel: sms
fallback: [email]
limits: {critical: true}
message:
  sms: {text: "{{ event.n }}"}
  email: {subject: "{{ event.n }}", text: "{{ event.n }}"}
---
workflow: answer
type: notice
triggers: {id: asked, event: reply.received, when: event.keyword != ""}
audience: {to: event.recipient}
channel: sms
limits: {critical: true}
message: {sms: {text: "{{ event.keyword }}"}}
---
workflow: desk
type: notice
triggers: {id: read, event: reply.received, when: event.keyword == ""}
audience: {to: '"desk"'}
channel: email
limits: {critical: true}
message: {email: {subject: "{{ event.from }} by {{ event.via }}", text: "{{ event.text }}"}}
---
workflow: letter
type: notice
triggers: {id: letter, event: letter, timing: {offset: 1h}}
audience: {to: event.recipient}
channel: email
limits: {critical: true}
message: {email: {subject: "{{ event.n }}", text: "letter {{ event.n }}"}}
---
channel: sms
provider: memory
---
channel: email
provider: memory
`

// phone gives a person a telephone and a mailbox.
func (w world) phone(name, number string) {
	w.Helper()
	item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"sms": "%s", "email": "%s@example.org"}}`, number, name)), name)
	results, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		w.Fatalf("%s: %v, %v", name, err, results)
	}
}

// replies hands in texts of one sender, and returns what became of them.
func (w world) replies(channel, from string, texts ...string) (list []string) {
	w.Helper()
	all := make([]reply.Reply, len(texts))
	for i, text := range texts {
		all[i] = reply.Reply{ID: fmt.Sprint(from, w.Clock.Now(), i, text), From: from, Text: text, At: w.Clock.Now()}
	}
	taken, err := w.Replies().Take(w.Context(), w.Workspace, channel, all, w.Clock.Now(), nil)
	if err != nil {
		w.Fatal(err)
	}
	for _, t := range taken {
		list = append(list, strings.TrimSpace(fmt.Sprint(t.Contact, " ", t.Keyword, " ", t.Reason)))
	}
	return list
}

func (w world) bounce(address string) {
	w.Helper()
	if _, err := w.Receipts().Take(w.Context(), w.Workspace, []receipt.Report{{Status: feedback.Bounced, Address: address}}, w.Clock.Now(), nil); err != nil {
		w.Fatal(err)
	}
}

func (w world) ping(kind, who, n string) {
	w.Post(fmt.Sprintf(`{"kind": %q, "id": %q, "recipient": {"customer_ref": %q}, "payload": {"n": %q}}`, kind, n, who, n))
}

// Somebody writes back: a workflow hears of it, and by a word they stop and start what they get on that kind of channel.
//
// Shows: P5.
func TestReplies(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, pings)
		w.phone("ann", "+254 700 000 001")
		w.phone("bob", "+254700000002")
		w.phone("desk", "+254700000099")
		w.mustBe("a text", w.replies("sms:default", "+254700000001", "Is it open? 🙏 \u202bنعم\u202c\x00"), []string{"ann  no_session"})
		w.mustBe("who reads it", w.told(), []string{"desk@example.org Is it open? 🙏 \u202bنعم\u202c"})
		for n, from := range []string{"+254700000001", "254700000001", "00254700000001", "+254 (700) 000-001", " +254.700.000.001 "} {
			w.Clock.Set(w.Clock.Now().Add(time.Minute))
			w.mustBe("from "+from, w.replies("sms:default", from, fmt.Sprint("no ", n)), []string{"ann  no_session"})
		}
		w.told()
		w.mustBe("nobody", w.replies("sms:default", "+254799999999", "stop", "hello"), []string{"stop unknown_sender", "unknown_sender"})
		w.mustBe("no event of nobody", w.told(), nil)

		w.ping("ping-later", "ann", "1")
		w.ping("ping-later", "bob", "2")
		w.ping("letter", "ann", "9")
		w.live("10:30")
		w.Journal()
		w.mustBe("stop, and stop again", w.replies("sms:default", "+254700000001", "STOP!", "stop"), []string{"ann stop", "ann stop"})
		w.mustBe("what waited", w.happened(journal.Cancelled), []string{"10:30 cancelled ann opted_out"})
		w.mustBe("each is answered", w.told(), []string{"+254700000001 stop", "+254700000001 stop"})
		w.ping("ping", "ann", "3")
		w.mustBe("another kind of channel is not stopped", w.told(), []string{"ann@example.org 3"})
		w.live("12:00")
		w.mustBe("who has not stopped, and what leaves by mail", w.told(), []string{"+254700000002 2", "ann@example.org letter 9"})
		w.mustBe("help is answered", w.replies("sms:default", "+254700000001", "help"), []string{"ann help"})
		w.mustBe("help is answered", w.told(), []string{"+254700000001 help"})

		// Who writes from another number of theirs means the one to which text messages go, too.
		w.phone("eve", `+254700000012", "whatsapp": "+254700000011`)
		w.mustBe("from another number", w.replies("sms:default", "+254700000011", "stop"), []string{"eve stop"})
		w.told()
		w.ping("ping", "eve", "10")
		w.mustBe("at the number now", w.told(), []string{"eve@example.org 10"})

		// An address that takes no messages gets no answer either, and a start does not change that.
		w.bounce("+254700000002")
		w.mustBe("stop and start", w.replies("sms:default", "+254700000002", "stop", "start"), []string{"bob stop", "bob start"})
		w.ping("ping", "bob", "11")
		w.mustBe("nothing by text message", w.told(), []string{"bob@example.org 11"})

		// The number stays stopped when another person has it.
		w.phone("ann", "+254700000003")
		w.phone("cyd", "+254700000001")
		w.ping("ping", "cyd", "4")
		w.ping("ping", "ann", "5")
		w.mustBe("a number that has changed hands", w.told(), []string{"+254700000003 5", "cyd@example.org 4"})
		w.phone("dan", "+254799999999")
		w.ping("ping", "dan", "6")
		w.mustBe("who had stopped before we knew them", w.told(), []string{"dan@example.org 6"})
		w.mustBe("start", w.replies("sms:default", "+254700000001", "start"), []string{"cyd start"})
		w.told()
		w.ping("ping", "cyd", "7")
		w.mustBe("started again", w.told(), []string{"+254700000001 7"})
		if changed, err := w.Receipts().Allow(t.Context(), w.Workspace, "+254799999999", "test", w.Clock.Now(), nil); err != nil || !changed {
			t.Errorf("allowed: %v, %v", changed, err)
		}
		w.ping("ping", "dan", "8")
		w.mustBe("allowed by a person", w.told(), []string{"+254799999999 8"})
	})
}

// The answer to a stop leaves, and nothing after it: it has no reminders.
//
// Shows: P5.
func TestTheAnswerToAStopIsTheLastMessage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(pings, "triggers: {id: asked,", "timing: {reminders: [1h]}\ntriggers: {id: asked,", 1))
		w.phone("ann", "+254700000001")
		w.replies("sms:default", "+254700000001", "help")
		w.live("11:30")
		w.mustBe("help has a reminder", w.told(), []string{"+254700000001 help", "+254700000001 help"})
		w.replies("sms:default", "+254700000001", "stop")
		w.live("14:00")
		w.mustBe("stop has none", w.told(), []string{"+254700000001 stop"})
	})
}

// A person of ours stops a kind of channel for somebody, and lets it start again, as if they had replied so.
//
// Shows: P5.
func TestAKindIsStopped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, pings)
		w.phone("ann", `+254700000001", "whatsapp": "+254700000001`)
		stop := func(kind string, on bool) string {
			t.Helper()
			done, err := w.Contacts().Stop(t.Context(), w.Workspace, contact.Suppression{Contact: "ann", Suppress: on, Kind: kind, Reason: "asked us", Actor: "eve"}, w.Clock.Now(), nil)
			if err != nil && !errors.Is(err, contact.ErrNoAddress) {
				t.Fatal(err)
			}
			row, other := s.ContactRow(t.Context(), w.Workspace.ID, "ann")
			kinds, err2 := w.StopsOf(t.Context(), w.Workspace, row.Contact)
			if other != nil || err2 != nil || row.Suppressed {
				t.Fatal(row, other, err2)
			}
			var list []string
			for _, k := range kinds {
				list = append(list, k.Kind+" "+string(k.Reason)+" "+k.At.Format("15:04"))
			}
			return fmt.Sprint(done.Changed, len(done.Deliveries), errors.Is(err, contact.ErrNoAddress), list)
		}
		w.ping("ping-later", "ann", "1")
		w.ping("letter", "ann", "2")
		for _, c := range []struct {
			kind string
			on   bool
			want string
		}{
			{"sms", true, "true 1 false [sms opted_out 10:00]"},
			{"sms", true, "false 0 false [sms opted_out 10:00]"},
			{"push", true, "false 0 true [sms opted_out 10:00]"},
			{"email", false, "false 0 false [sms opted_out 10:00]"},
			{"sms", false, "true 0 false []"},
			{"sms", true, "true 0 false [sms opted_out 10:00]"},
		} {
			if got := stop(c.kind, c.on); got != c.want {
				t.Errorf("%s %t: %s, not %s", c.kind, c.on, got, c.want)
			}
		}
		w.phone("ann", "00254700000001") // the same number, written in another way
		w.ping("ping", "ann", "3")
		w.live("12:00")
		w.mustBe("by mail alone", w.told(), []string{"ann@example.org 3", "ann@example.org letter 2"})
		w.mustBe("they start it themselves", w.replies("sms:default", "+254700000001", "start"), []string{"ann start"})
		w.told()
		w.bounce("ann@example.org")
		if got := stop("push", true); got != "false 0 true [email address_stopped 12:00]" {
			t.Error(got)
		}
		if got := stop("email", true); got != "true 0 false [email address_stopped 12:00]" {
			t.Errorf("an address that takes no messages, and is not wanted: %s", got)
		}
		w.ping("ping", "ann", "4")
		w.mustBe("by text message", w.told(), []string{"00254700000001 4"})
		log, err := s.AuditLog(t.Context(), w.Workspace.ID, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var acts []string
		for _, a := range log {
			if strings.HasPrefix(a.Action, "opt ") {
				acts = append(acts, a.Actor+" "+a.Action+" "+a.Target+" "+string(a.Detail))
			}
		}
		w.mustBe("the audit, the newest first", acts, []string{
			`eve opt out ann {"deliveries":0,"kind":"email","reason":"asked us"}`, `reply opt in ann {"channel":"sms:default","deliveries":0}`,
			`eve opt out ann {"deliveries":0,"kind":"sms","reason":"asked us"}`, `eve opt in ann {"deliveries":0,"kind":"sms","reason":"asked us"}`,
			`eve opt out ann {"deliveries":1,"kind":"sms","reason":"asked us"}`,
		})
	})
}

// A reply counts once, however often it is handed in, and in each workspace and channel for itself.
func TestRepliesCountOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, pings)
		w.phone("ann", "+254700000001")
		w.phone("desk", "+254700000099")
		take := func(channel, id, text string) string {
			t.Helper()
			taken, err := w.Replies().Take(t.Context(), w.Workspace, channel, []reply.Reply{{ID: id, From: "+254700000001", Text: text}, {ID: id, From: "+254700000001", Text: text}}, w.Clock.Now(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(taken[0].Reason, "|", taken[1].Reason)
		}
		for _, c := range [][4]string{{"sms:default", "1", "hello", "no_session|duplicate"}, {"sms:default", "1", "hello", "duplicate|duplicate"}, {"sms:other", "1", "hello", "no_session|duplicate"}, {"sms:default", "2", "stop", "|duplicate"}} {
			if got := take(c[0], c[1], c[2]); got != c[3] {
				t.Errorf("%v: %s", c, got)
			}
		}
		w.mustBe("read", w.told(), []string{"+254700000001 stop", "desk@example.org hello", "desk@example.org hello"})
		take("sms:default", "3", "start")
		take("sms:default", "2", "stop") // handed in again, after the start
		w.told()
		w.ping("ping", "ann", "1")
		w.mustBe("a stop that is handed in late once more", w.told(), []string{"+254700000001 1"})
		taken, err := w.Replies().Take(t.Context(), w.Workspace, "sms:default", []reply.Reply{{ID: "long", From: "+254700000001", Text: strings.Repeat("é", 1<<19)}}, w.Clock.Now(), nil)
		if err != nil || taken[0].Reason != reason.NoSession {
			t.Fatalf("a megabyte: %v, %v", taken, err)
		}
		if sent := w.told(); len(sent) != 1 || len(sent[0]) != len("desk@example.org ")+2*reply.MaxText {
			t.Errorf("a megabyte leaves as %d bytes", len(sent[0]))
		}
	})
}

// Whatever people get and reply, on two replicas, with replies that are handed in again: nobody gets a text message that they have stopped, everybody gets all
// others, and each reply is heard once.
//
// Shows: P5.
func TestRepliesLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one, two := newWorld(t, s, ""), newWorld(t, s, "")
		two.Provider = one.Provider
		lives, enough := 0, storetest.MoreLives(16)
		rapid.Check(t, func(r *rapid.T) {
			if enough() {
				return
			}
			lives++
			one.Clock.Set(ten.AddDate(0, 0, 1)) // what the last life left behind
			one.told()
			one.Clock.Set(ten)
			two.Clock.Set(ten)
			one.Workspace = one.another(fmt.Sprintf("replies-%d", lives), pings)
			two.Workspace = one.Workspace
			one.phone("ann", "+254700000001")
			one.phone("bob", "+254700000002")
			one.phone("desk", "+254700000099")
			life := replyLife{one: one, two: two, out: map[string]bool{}}
			for range rapid.IntRange(5, 25).Draw(r, "steps") {
				life.step(r)
			}
		})
	})
}

// replyLife is what people are to get, by the simplest rules there are.
type replyLife struct {
	one, two world
	n        int
	out      map[string]bool // who wants no text messages
	waits    []waitingPing
	said     []reply.Reply // what was handed in
	want     []string
}

type waitingPing struct {
	at     time.Time
	who, n string
}

var numbers = map[string]string{"ann": "+254700000001", "bob": "+254700000002"} //nolint:gochecknoglobals // never changes

func (l *replyLife) step(r *rapid.T) {
	w := l.one
	w.Clock.Set(w.Clock.Now().Add(time.Duration(rapid.IntRange(1, 40).Draw(r, "minutes")) * time.Minute))
	l.two.Clock.Set(w.Clock.Now())
	who := rapid.SampledFrom([]string{"ann", "bob"}).Draw(r, "who")
	l.want = nil
	l.waits = slices.DeleteFunc(l.waits, func(p waitingPing) bool {
		if due := !p.at.After(w.Clock.Now()); due {
			l.tell(p.who, p.n)
			return true
		}
		return false
	})
	act := rapid.SampledFrom([]string{"ping", "ping", "ping-later", "ping-later", "reply", "reply", "reply", "again", "wait"}).Draw(r, "act")
	if act == "reply" || act == "again" { // what is due leaves first
		l.settle(r)
	}
	switch l.n++; act {
	case "ping":
		l.tell(who, fmt.Sprint(l.n))
		w.ping("ping", who, fmt.Sprint(l.n))
	case "ping-later":
		l.waits = append(l.waits, waitingPing{w.Clock.Now().Add(time.Hour), who, fmt.Sprint(l.n)})
		w.ping("ping-later", who, fmt.Sprint(l.n))
	case "reply":
		text := rapid.SampledFrom([]string{"stop", "Stop", "start", "help", "hello"}).Draw(r, "text")
		l.reply(r, reply.Reply{ID: fmt.Sprint(l.n), From: numbers[who], Text: text})
	case "again":
		if len(l.said) > 0 {
			l.reply(r, rapid.SampledFrom(l.said).Draw(r, "of"))
		}
	}
	l.settle(r)
}

func (l *replyLife) reply(r *rapid.T, said reply.Reply) {
	known := slices.ContainsFunc(l.said, func(o reply.Reply) bool { return o.ID == said.ID })
	if _, err := l.one.Replies().Take(l.one.Context(), l.one.Workspace, "sms:default", []reply.Reply{said}, l.one.Clock.Now(), nil); err != nil {
		r.Fatal(err)
	}
	if known {
		return
	}
	l.said = append(l.said, said)
	who := map[string]string{numbers["ann"]: "ann", numbers["bob"]: "bob"}[said.From]
	switch keyword := strings.ToLower(said.Text); keyword {
	case "hello":
		l.want = append(l.want, "desk@example.org hello")
		return
	case "stop":
		l.out[who] = true
		l.waits = slices.DeleteFunc(l.waits, func(p waitingPing) bool { return p.who == who })
	case "start":
		l.out[who] = false
	}
	l.want = append(l.want, said.From+" "+strings.ToLower(said.Text))
}

// tell has a person get a ping.
func (l *replyLife) tell(who, n string) {
	to := numbers[who]
	if l.out[who] {
		to = who + "@example.org"
	}
	l.want = append(l.want, to+" "+n)
}

// settle sees that all that is due leaves, and nothing else.
func (l *replyLife) settle(r *rapid.T) {
	for l.one.tick() || l.two.tick() {
	}
	slices.Sort(l.want)
	if got := l.one.told(); !slices.Equal(got, l.want) {
		r.Fatalf("at %s: %q left, not %q", l.one.Clock.Now().Format("15:04"), got, l.want)
	}
	l.want = nil
}

// A stop that is not committed yet holds what it ends: no other process sends it, then or later.
//
// Shows: P5.
func TestAStopIsBeingCommitted(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	w := newWorld(t, s, pings)
	w.phone("ann", "+254700000001")
	w.phone("bob", "+254700000002")
	w.ping("ping-later", "ann", "1")
	w.ping("ping-later", "bob", "2")
	w.told()
	w.Clock.Set(at("11:00"))
	o, known := openOf(s), catalog.New(s, enginetest.Options(nil))
	in := reply.New(o, known, ingest.New(s, known, nil), nil)
	ended := make(chan error, 1)
	go func() {
		_, err := in.Take(t.Context(), w.Workspace, "sms:default", []reply.Reply{{ID: "1", From: "+254700000001", Text: "stop"}}, w.Clock.Now(), nil)
		ended <- err
	}()
	<-o.done
	w.mustBe("before the commit", w.told(), []string{"+254700000002 2"})
	close(o.release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.mustBe("after it", w.told(), []string{"+254700000001 stop"})
}
