package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// checkup asks people two or three questions by text message, whenever a visit is over.
const checkup = `
workflow: checkup
type: survey
triggers: {id: over, event: visit}
audience: {to: event.recipient}
channel: sms
message: {survey: health, mode: conversation}
---
survey: health
title: How are you?
questions:
  - {id: fever, type: yes_no, required: true, text: {en: "Fever, {{ event.name }}?", sw: Una homa?}}
  - id: since
    type: choice
    text: Since when?
    show_when: answers.fever == true
    options: [{value: today, text: Today}, {value: earlier, text: {en: Earlier, sw: Mapema}}]
  - {id: pain, type: number, text: "Pain, 0 to 10?", min: 0, max: 10, valid_when: answers.pain != 9}
conversation:
  invalid: Please answer again.
  reminders: [6h]
  expire_after: 2d
  closing: Thank you.
---
channel: sms
provider: memory
---
channel: whatsapp
provider: memory
`

// visit has somebody asked.
func (w world) visit(who, n string) {
	w.Helper()
	w.Post(fmt.Sprintf(`{"kind": "visit", "id": %q, "recipient": {"customer_ref": %q}, "payload": {"name": "you"}}`, n, who))
}

// after lets time pass and everything that is due happen.
func (w world) after(d time.Duration) {
	w.Helper()
	w.Clock.Set(w.Clock.Now().Add(d))
	w.calm()
}

// spoken are the texts that the provider accepted since the last call.
func (w world) spoken() (texts []string) {
	w.Helper()
	w.calm()
	for _, m := range w.Provider.Sent() {
		texts = append(texts, m.Text)
	}
	return texts
}

// answered are the responses as they are stored, the newest first.
func (w world) answered() (list []string) {
	w.Helper()
	all, err := w.Store.Responses(w.Context(), w.Workspace.ID, store.ResponseFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range all {
		d := w.Delivery(r.Delivery)
		list = append(list, strings.TrimSpace(fmt.Sprint(d.CustomerRef, " ", r.Answers, " ", d.Status, " ", d.Reason)))
	}
	return list
}

// sessions are the conversations, the newest first.
func (w world) sessions() (list []string) {
	w.Helper()
	all, err := w.Store.Sessions(w.Context(), w.Workspace.ID, store.SessionFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range all {
		list = append(list, strings.TrimSpace(fmt.Sprint(s.Status, " ", s.Reason, " ", s.Question, " ", s.Answers)))
	}
	return list
}

// A survey is asked by messages: one question each, by the answers before it, until all are answered.
func TestAConversation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		w.mustBe("a session", w.sessions(), []string{"open  fever map[]"})
		w.after(time.Minute)
		w.mustBe("no answer", w.replies("sms:default", "+254700000001", "maybe"), []string{"ann  invalid_answer"})
		w.mustBe("asked again", w.spoken(), []string{"Please answer again."})
		w.after(time.Minute)
		w.mustBe("an answer", w.replies("sms:default", "254700000001", "Yes!"), []string{"ann"})
		w.mustBe("the next question", w.spoken(), []string{"Since when?\n1. Today\n2. Earlier"})
		w.mustBe("a session", w.sessions(), []string{"open  since map[fever:true]"})
		w.after(6 * time.Hour)
		w.mustBe("the question once more", w.spoken(), []string{"Since when?\n1. Today\n2. Earlier"})
		w.after(6 * time.Hour)
		w.mustBe("and no more", w.spoken(), nil)
		w.mustBe("an answer by its number", w.replies("sms:default", "+254700000001", "2"), []string{"ann"})
		w.mustBe("the last question", w.spoken(), []string{"Pain, 0 to 10?"})
		w.after(time.Minute)
		w.mustBe("one that is not taken", w.replies("sms:default", "+254700000001", "9"), []string{"ann  invalid_answer"})
		w.mustBe("asked again", w.spoken(), []string{"Please answer again."})
		w.after(time.Minute)
		w.mustBe("the last answer", w.replies("sms:default", "+254700000001", "seven"), []string{"ann"})
		w.mustBe("the end", w.spoken(), []string{"Thank you."})
		w.mustBe("the response", w.answered(), []string{"ann map[fever:true pain:7 since:earlier] responded answered"})
		w.mustBe("a session", w.sessions(), []string{"ended answered pain map[fever:true pain:7 since:earlier]"})
		w.after(time.Minute)
		w.mustBe("after the end", w.replies("sms:default", "+254700000001", "8"), []string{"ann  session_over"})
		w.after(10 * 24 * time.Hour)
		w.mustBe("nothing more", w.spoken(), nil)
	})
}

// A conversation that nobody ends, or that another one replaces, hands on what was answered.
func TestAConversationIsLeft(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		w.phone("ann", "+254700000001")
		w.phone("bob", "+254700000002")
		w.visit("ann", "1")
		w.visit("bob", "2")
		w.mustBe("both are asked", w.spoken(), []string{"Fever, you?", "Fever, you?"})
		w.after(time.Minute)
		w.mustBe("one answers", w.replies("sms:default", "+254700000001", "2"), []string{"ann"})
		w.mustBe("the next question", w.spoken(), []string{"Pain, 0 to 10?"})
		w.after(48*time.Hour - 2*time.Minute)
		w.mustBe("reminders", w.spoken(), []string{"Fever, you?", "Pain, 0 to 10?"})
		w.mustBe("still open", w.sessions(), []string{"open  fever map[]", "open  pain map[fever:false]"})
		w.after(time.Minute)
		w.mustBe("over", w.sessions(), []string{"ended no_response fever map[]", "ended no_response pain map[fever:false]"})
		w.mustBe("what was answered", w.answered(), []string{"ann map[fever:false] responded partial"})
		w.mustBe("too late", w.replies("sms:default", "+254700000002", "1"), []string{"bob  session_over"})

		w.visit("bob", "3")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000002", "no"), []string{"bob"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		w.after(time.Minute)
		w.visit("bob", "4")
		w.mustBe("asked once more", w.spoken(), []string{"Fever, you?"})
		w.mustBe("one ended, one open", w.sessions()[:2], []string{"open  fever map[]", "ended session_replaced pain map[fever:false]"})
		w.mustBe("what was answered", w.answered()[:1], []string{"bob map[fever:false] responded partial"})
		w.after(7 * time.Hour)
		w.mustBe("reminded of what is open", w.spoken(), []string{"Fever, you?"})
	})
}

// STOP ends a conversation, and is answered once.
func TestAConversationIsStopped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		w.after(time.Minute)
		w.mustBe("in one call", w.replies("sms:default", "+254700000001", "yes", "stop", "1"), []string{"ann", "ann stop", "ann  session_over"})
		w.mustBe("the answer to the stop alone", w.spoken(), []string{"You have asked us to stop. We will not write again. Reply START to get messages again."})
		w.mustBe("what was answered", w.answered(), []string{"ann map[fever:true] responded partial"})
		w.mustBe("again", w.replies("sms:default", "+254700000001", "Stop "), []string{"ann stop"})
		w.after(10 * 24 * time.Hour)
		w.mustBe("nothing", w.spoken(), nil)
		w.visit("ann", "2")
		w.mustBe("nothing", w.spoken(), nil)
		w.mustBe("started", w.replies("sms:default", "+254700000001", "start"), []string{"ann start"})
		w.visit("ann", "3")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
	})
}

// What answers the person passes the limits and uses none up; the reminders of a question do not.
func TestAConversationAndLimits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "workspace: default\ntimezone: UTC\ncadence: {max_per_day: 1, quiet_hours: \"11:00-13:00\"}\n---\n"+checkup)
		w.phone("ann", "+254700000001")
		w.visit("ann", "1")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(2 * time.Hour)
		w.mustBe("in quiet hours", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("the next question", w.spoken(), []string{"Pain, 0 to 10?"})
		w.after(6 * time.Hour)
		w.mustBe("the reminder waits for the next day", w.spoken(), nil)
		w.Clock.Set(time.Date(2026, 5, 15, 0, 0, 1, 0, time.UTC))
		w.mustBe("then it leaves", w.spoken(), []string{"Pain, 0 to 10?"})
	})
}

// Two replies at once, to two processes: one answers the question, and the next one is asked once.
func TestRepliesToOneQuestionAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		other := world{enginetest.Setup(t, s, "", nil)}
		other.Clock.Set(w.Clock.Now())
		w.phone("ann", "+254700000001")
		for round := range 5 {
			w.visit("ann", fmt.Sprint(round))
			w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
			w.Clock.Set(w.Clock.Now().Add(time.Minute))
			other.Clock.Set(w.Clock.Now())
			var all sync.WaitGroup
			var mu sync.Mutex
			became := map[reason.Reason]int{}
			for n := range 6 {
				in := []world{w, other}[n%2]
				all.Go(func() {
					taken, err := in.Replies().Take(t.Context(), w.Workspace, "sms:default", []reply.Reply{{ID: fmt.Sprint(round, "-", n), From: "+254700000001", Text: "no"}}, w.Clock.Now(), nil)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
						return
					}
					became[taken[0].Reason]++
				})
			}
			all.Wait()
			if became[""] != 1 || became[reason.AlreadyAnswered] != 5 {
				t.Errorf("of six equal replies %v", became)
			}
			w.mustBe("the next question, once", w.spoken(), []string{"Pain, 0 to 10?"})
		}
	})
}

// A survey that is asked by messages is answered on its page, by a program, as well: the conversation is over then.
func TestAConversationIsAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		open, err := s.Sessions(t.Context(), w.Workspace.ID, store.SessionFilter{Status: delivery.SessionOpen}, store.Page{Limit: 10})
		if err != nil || len(open) != 1 {
			t.Fatalf("%v, %v", open, err)
		}
		link := answer.Link{Workspace: w.Workspace.ID, Delivery: open[0].Delivery}
		if _, err := w.Answers().Submit(t.Context(), link, answer.Submission{Answers: map[string]any{"fever": true, "since": "today"}}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		w.mustBe("it is over", w.sessions(), []string{"ended answered pain map[fever:false]"})
		w.after(7 * time.Hour)
		w.mustBe("no reminder", w.spoken(), nil)
		w.mustBe("too late", w.replies("sms:default", "+254700000001", "7"), []string{"ann  session_over"})
		w.mustBe("nothing", w.spoken(), nil)
		w.mustBe("one response", w.answered(), []string{"ann map[fever:true since:today] responded answered"})
		w.mustBe("ended", w.sessions(), []string{"ended answered pain map[fever:false]"})
	})
}

// Two contacts become one in the middle of a conversation: it goes on with the one that is left. If both have one, that of the survivor does.
func TestAConversationIsMerged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		w.phone("ann", "+254700000001")
		w.phone("bob", "+254700000002")
		w.phone("cid", "+254700000003")
		w.visit("ann", "1")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		w.merge("ann", "bob")
		w.phone("bob", "+254700000001") // the number of both
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "3"), []string{"bob"})
		w.mustBe("the end", w.spoken(), []string{"Thank you."})
		if got := w.answered(); len(got) != 1 || !strings.Contains(got[0], "map[fever:false pain:3] responded answered") {
			t.Errorf("%q", got)
		}
		w.visit("bob", "2")
		w.visit("cid", "3")
		w.mustBe("both are asked", w.spoken(), []string{"Fever, you?", "Fever, you?"})
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000003", "no"), []string{"cid"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		w.merge("cid", "bob")
		w.calm()
		w.mustBe("one ends", w.sessions()[:2], []string{"ended session_replaced pain map[fever:false]", "open  fever map[]"})
		w.after(7 * time.Hour)
		w.mustBe("a reminder of the other", w.spoken(), []string{"Fever, you?"})
	})
}

// A conversation goes on with the questions with which it began, whatever they are now.
func TestAConversationKeepsItsQuestions(t *testing.T) {
	t.Parallel()
	unpinned := strings.Replace(checkup, "type: survey\n", "type: survey\npin: false\n", 1)
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, unpinned)
		w.phone("ann", "+254700000001")
		w.phone("bob", "+254700000002")
		w.visit("ann", "1")
		w.visit("bob", "1b")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?", "Fever, you?"})
		w.Apply(strings.NewReplacer("Fever,", "Hot,", "Pain, 0 to 10?", "Ache?", "max: 10", "max: 5", "Thank you.", "Bye.").Replace(unpinned))
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("as before", w.spoken(), []string{"Pain, 0 to 10?"})
		w.after(6 * time.Hour)
		w.mustBe("reminded as before", w.spoken(), []string{"Fever, you?", "Pain, 0 to 10?"})
		w.mustBe("answered as before", w.replies("sms:default", "+254700000001", "8"), []string{"ann"})
		w.mustBe("the end as before", w.spoken(), []string{"Thank you."})
		w.visit("ann", "2")
		w.mustBe("asked", w.spoken(), []string{"Hot, you?"})
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("as it is now", w.spoken(), []string{"Ache?"})
	})
}

// What was answered of a conversation that did not reach its end is dropped if the survey says so.
func TestAConversationIsDropped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(checkup, "expire_after: 2d", "expire_after: 2d\n  partial: drop", 1))
		w.phone("ann", "+254700000001")
		result := w.Post(`{"kind": "visit", "id": "1", "recipient": {"customer_ref": "ann"}, "payload": {"name": "you"}}`)
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.after(48 * time.Hour)
		w.mustBe("no response", w.answered(), nil)
		if d := w.Delivery(result.Instances[0].Deliveries[0].ID); d.Status != delivery.Expired || d.Reason != reason.NoResponse || d.CompletedAt.IsZero() {
			t.Errorf("%s, %s, %s", d.Status, d.Reason, d.CompletedAt)
		}
	})
}

// A workflow that listens to replies answers a stop; the conversation does not answer it a second time.
func TestAStopIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup+"---\nworkflow: answer\ntype: notice\ntriggers: {id: asked, event: reply.received, when: event.keyword != \"\"}\naudience: {to: event.recipient}\nchannel: sms\nlimits: {critical: true}\nmessage: {sms: {text: \"{{ event.keyword }}\"}}\n")
		w.phone("ann", "+254700000001")
		w.visit("ann", "1")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("stopped", w.replies("sms:default", "+254700000001", "stop"), []string{"ann stop"})
		w.mustBe("answered", w.spoken(), []string{"stop"})
	})
}

// A question that fails for good is not asked on another channel, on which no reply would be an answer.
func TestAQuestionDoesNotFallBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(checkup, "channel: sms\n", "channel: sms\nfallback: [whatsapp]\n", 1))
		item := contact.Parse(json.RawMessage(`{"addresses": {"sms": "+254700000001", "whatsapp": "+254700000001"}}`), "ann")
		if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.visit("ann", "1")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.Provider.Next(channel.Permanent(errors.New("no")))
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("not asked", w.spoken(), nil)
		w.after(49 * time.Hour)
		w.mustBe("nothing", w.spoken(), nil)
		w.mustBe("what was answered", w.answered(), []string{"ann map[fever:false] responded partial"})

		w.Provider.Next(channel.Permanent(errors.New("no")))
		w.visit("ann", "2")
		w.mustBe("the first question does", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("and takes its answer there", w.replies("whatsapp:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
	})
}

// What is written before a question is asked does not answer it; what is no answer has the question asked again, once at a time and five times at most.
func TestRepliesThatAnswerNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		asked := w.Clock.Now()
		w.after(time.Minute)
		early := reply.Reply{ID: "early", From: "+254700000001", Text: "yes", At: asked.Add(-2 * time.Second)}
		taken, err := w.Replies().Take(t.Context(), w.Workspace, "sms:default", []reply.Reply{early}, w.Clock.Now(), nil)
		if err != nil || taken[0].Reason != reason.AlreadyAnswered {
			t.Errorf("%v, %v", taken, err)
		}
		w.mustBe("two at once", w.replies("sms:default", "+254700000001", "what?", "who?"), []string{"ann  invalid_answer", "ann  invalid_answer"})
		w.mustBe("are answered once", w.spoken(), []string{"Please answer again."})
		for n := range 6 {
			w.after(time.Minute)
			w.mustBe("no answer", w.replies("sms:default", "+254700000001", fmt.Sprint("what ", n)), []string{"ann  invalid_answer"})
		}
		w.mustBe("four more times", w.spoken(), []string{"Please answer again.", "Please answer again.", "Please answer again.", "Please answer again."})
		first := reply.Reply{ID: "first", From: "+254700000001", Text: "no", At: asked}
		if taken, err = w.Replies().Take(t.Context(), w.Workspace, "sms:default", []reply.Reply{first}, w.Clock.Now(), nil); err != nil || taken[0].Reason != "" || taken[0].Question != "fever" {
			t.Errorf("an answer is an answer still: %v, %v", taken, err)
		}
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		if rows, err := w.Store.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Status: delivery.Opened}, store.Page{Limit: 10}); err != nil || len(rows) != 1 || rows[0].Turn != 0 {
			t.Errorf("who has answered has opened it: %v, %v", rows, err)
		}
	})
}

// askedWorld has Ann asked the first question of the checkup.
func askedWorld(t *testing.T, s *store.Store) world {
	t.Helper()
	w := newWorld(t, s, checkup)
	w.phone("ann", "+254700000001")
	w.visit("ann", "1")
	w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
	return w
}
