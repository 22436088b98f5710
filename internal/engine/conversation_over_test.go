package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A question that could not be sent is not answered by what somebody writes; what may have arrived is. The time of a conversation begins with the first question that leaves.
func TestAQuestionThatCouldNotBeSent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		refused := &channel.SendError{Reason: reason.RateLimited, Retry: true, Err: errors.New("busy")}
		lost := &channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")}
		short, from := strings.NewReplacer("expire_after: 2d", "expire_after: 3m", "  reminders: [6h]\n", "").Replace(checkup), "+254700000001"
		w := newWorld(t, s, "")
		w.Workspace = w.another("later", short)
		w.phone("ann", from)
		w.Provider.Next(refused)
		w.visit("ann", "1")
		w.mustBe("refused", w.spoken(), nil)
		w.after(4 * time.Minute)
		w.mustBe("its time does not begin before", w.sessions(), []string{"waiting  fever map[]"})
		w.after(6 * time.Minute)
		w.mustBe("asked, after the time of the conversation", w.spoken(), []string{"Fever, you?"})
		w.after(2 * time.Minute)
		w.Provider.Next(refused)
		w.mustBe("an answer", w.replies("sms:default", from, "yes"), []string{"ann"})
		w.mustBe("the next one is refused", w.spoken(), nil)
		w.after(time.Second)
		w.mustBe("written before it was asked", w.replies("sms:default", from, "today"), []string{"ann  already_answered"})
		w.mustBe("the question stands", w.sessions(), []string{"open  since map[fever:true]"})
		w.after(5 * time.Minute)
		w.mustBe("its time is over", w.sessions(), []string{"ended no_response since map[fever:true]"})

		for _, c := range []struct {
			what  string
			first error
			heard string
		}{{"refused", refused, "ann  no_session"}, {"unknown", lost, "ann"}} {
			w := newWorld(t, s, "")
			w.Workspace = w.another(c.what, short)
			w.phone("ann", from)
			w.Provider.Next(c.first)
			w.visit("ann", "1")
			w.calm()
			w.after(time.Minute)
			w.mustBe(c.what, w.replies("sms:default", from, "yes"), []string{c.heard})
		}
	})
}

// A question whose request had not begun when its channel came to rest was not asked either.
func TestAQuestionWhoseChannelRests(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(checkup, "channel: sms\nprovider: memory", "channel: sms\nprovider: memory\nconcurrency: 1", 1))
		const people = 12
		for i := range people {
			who := fmt.Sprint("p", i)
			w.phone(who, fmt.Sprintf("+2547000001%02d", i))
			w.visit(who, who)
			w.Provider.Next(channel.Away(errors.New("no connection")))
		}
		w.calm()
		rested := 0
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range rows {
			if d.AttemptNo == 0 {
				rested++
			}
		}
		if rested == 0 || rested == people {
			t.Fatalf("%d of %d were not tried", rested, people)
		}
		for i := range people {
			who := fmt.Sprint("p", i)
			w.mustBe(who, w.replies("sms:default", fmt.Sprintf("+2547000001%02d", i), "yes"), []string{who + "  no_session"})
		}
	})
}

// Who asks for help, or to begin, is in the middle of a conversation still; both are shown in it, and answer nothing.
func TestKeywordsInAConversation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		w.after(time.Minute)
		w.mustBe("keywords", w.replies("sms:default", "+254700000001", "HELP", "start"), []string{"ann help", "ann start"})
		w.mustBe("nothing", w.spoken(), nil)
		w.mustBe("goes on", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		open, err := s.Sessions(t.Context(), w.Workspace.ID, store.SessionFilter{}, store.Page{Limit: 10})
		if err != nil || len(open) != 1 {
			t.Fatalf("%v, %v", open, err)
		}
		talk, err := s.Conversation(t.Context(), w.Workspace.ID, open[0].Delivery)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, l := range talk.Lines {
			if l.Reply != nil {
				said = append(said, strings.TrimSpace(fmt.Sprint(l.Text, " ", l.Reply.Keyword, " ", l.Reply.Question)))
			}
		}
		w.mustBe("what was said", said, []string{"HELP help fever", "start start fever", "no  fever"})
	})
}

// A person cancels the delivery that began a conversation, or its instance: the conversation is over, and a question that could not be asked yet is not asked.
func TestAConversationIsCancelled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		for who, cancel := range map[string]func(store.ListedSession) error{
			"ann": func(at store.ListedSession) error {
				_, err := w.operator().CancelDelivery(t.Context(), w.Workspace.ID, at.Delivery, "eve", w.Clock.Now())
				return err
			},
			"bob": func(at store.ListedSession) error {
				_, err := w.operator().CancelInstance(t.Context(), w.Workspace.ID, at.Instance, "eve", w.Clock.Now())
				return err
			},
		} {
			w.Workspace = w.another(who, checkup)
			w.phone(who, "+254700000001")
			w.visit(who, "1")
			w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
			w.Provider.Next(&channel.SendError{Reason: reason.RateLimited, Retry: true, Err: errors.New("busy")})
			w.after(time.Minute)
			w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{who})
			w.mustBe("not asked yet", w.spoken(), nil)
			open, err := s.Sessions(t.Context(), w.Workspace.ID, store.SessionFilter{Status: delivery.SessionOpen}, store.Page{Limit: 10})
			if err != nil || len(open) != 1 {
				t.Fatalf("%v, %v", open, err)
			}
			if err := cancel(open[0]); err != nil {
				t.Fatal(err)
			}
			w.after(time.Second)
			w.mustBe("it is over", w.sessions(), []string{"ended cancelled_by_operator pain map[fever:false]"})
			w.after(time.Hour)
			w.mustBe("not asked", w.spoken(), nil)
			w.mustBe("too late", w.replies("sms:default", "+254700000001", "7"), []string{who + "  session_over"})
			w.mustBe("no response", w.answered(), nil)
		}
	})
}

// A conversation that goes on is not begun again. One that is over is: with its first question, and with nothing of what was said before.
func TestAConversationIsRetried(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		open, err := s.Sessions(t.Context(), w.Workspace.ID, store.SessionFilter{}, store.Page{Limit: 10})
		if err != nil || len(open) != 1 {
			t.Fatalf("%v, %v", open, err)
		}
		retry := map[string]func() error{
			"delivery": func() error {
				_, err := w.operator().RetryDelivery(t.Context(), w.Workspace.ID, open[0].Delivery, "eve", w.Clock.Now())
				return err
			},
			"instance": func() error {
				_, err := w.operator().RetryInstance(t.Context(), w.Workspace.ID, open[0].Instance, "eve", w.Clock.Now())
				return err
			},
		}
		for what, again := range retry {
			var refused *operator.StateError
			if err := again(); !errors.As(err, &refused) || refused.Status != "being answered, by message" {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.after(time.Minute)
		w.mustBe("the last answer", w.replies("sms:default", "+254700000001", "3"), []string{"ann"})
		w.mustBe("closed", w.spoken(), []string{"Thank you."})
		w.after(time.Minute)
		if err := retry["instance"](); err != nil {
			t.Fatal(err)
		}
		w.mustBe("asked again", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "yes"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Since when?\n1. Today\n2. Earlier"})
	})
}

// The answer to a stop is in the language of the person, and says which that is.
func TestTheLanguageOfAStop(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		for i, c := range [][2]string{{"sw-KE", "sw"}, {"fi", "en"}, {"", "en"}} {
			phone := fmt.Sprint("+25470000000", i)
			who := fmt.Sprint("p", i)
			item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"locale": %q, "addresses": {"sms": %q}}`, c[0], phone)), who)
			if results, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil); err != nil || results[0].Error != nil {
				t.Fatalf("%v, %v", err, results)
			}
			w.visit(who, who)
			w.calm()
			w.after(time.Minute)
			w.replies("sms:default", phone, "stop")
			w.calm()
			if sent := w.Provider.Sent(); len(sent) == 0 || sent[len(sent)-1].Locale != c[1] {
				t.Errorf("%q: %+v", c[0], sent)
			}
		}
	})
}

// A conversation goes on until the first message of another one may have arrived: what people answer before is for the question that they have.
func TestAConversationIsReplacedByWhatArrives(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		from := "+254700000001"
		w.phone("ann", from)
		asked := func(visit string) {
			t.Helper()
			w.visit("ann", visit)
			w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
			w.after(time.Minute)
			w.mustBe("answered", w.replies("sms:default", from, "no"), []string{"ann"})
			w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
			w.after(time.Minute)
		}

		asked("1")
		w.Provider.Next(channel.Permanent(errors.New("refused")))
		w.visit("ann", "2")
		w.mustBe("refused for good", w.spoken(), nil)
		w.mustBe("the first goes on", w.sessions(), []string{"ended permanent_error fever map[]", "open  pain map[fever:false]"})
		w.mustBe("an answer", w.replies("sms:default", from, "5"), []string{"ann"})
		w.mustBe("closed", w.spoken(), []string{"Thank you."})
		w.after(time.Minute)

		asked("3")
		w.Provider.Next(&channel.SendError{Reason: reason.RateLimited, Retry: true, Err: errors.New("busy")})
		w.visit("ann", "4")
		w.mustBe("refused for now", w.spoken(), nil)
		w.mustBe("waits", w.sessions()[:2], []string{"waiting  fever map[]", "open  pain map[fever:false]"})
		w.mustBe("no answer to either", w.replies("sms:default", from, "high"), []string{"ann  invalid_answer"})
		w.mustBe("asked again", w.spoken(), []string{"Please answer again."})
		w.after(10 * time.Minute)
		w.mustBe("the other one begins", w.spoken(), []string{"Fever, you?"})
		w.after(time.Second)
		w.mustBe("and takes its place", w.sessions()[:2], []string{"open  fever map[]", "ended session_replaced pain map[fever:false]"})
		w.mustBe("answers its question", w.replies("sms:default", from, "no"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		w.after(time.Minute)

		w.Provider.Next(&channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
		w.visit("ann", "5")
		w.after(time.Second)
		w.mustBe("it may have arrived", w.sessions()[:2], []string{"open  fever map[]", "ended session_replaced pain map[fever:false]"})
	})
}

// Two surveys that ask one person at the same moment are asked one after the other: the last one is answered.
func TestTwoConversationsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		w.phone("ann", "+254700000001")
		w.visit("ann", "1")
		w.visit("ann", "2")
		w.visit("ann", "3")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?", "Fever, you?", "Fever, you?"})
		w.after(time.Second)
		w.mustBe("one is open", w.sessions(), []string{"open  fever map[]", "ended session_replaced fever map[]", "ended session_replaced fever map[]"})
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
	})
}

// A reply is for the contact who was asked last at its address, whether or not others have that address too; a stop is for all who are asked there.
func TestRepliesFromASharedNumber(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		from := "+254700000001"
		w.phone("ann", from)
		w.phone("bob", from)
		w.visit("bob", "1")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("who was asked", w.replies("sms:default", from, "no"), []string{"bob"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		w.after(time.Minute)
		w.visit("ann", "2")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("who was asked last", w.replies("sms:default", from, "yes"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Since when?\n1. Today\n2. Earlier"})
		w.after(time.Minute)
		w.mustBe("a stop", w.replies("sms:default", from, "stop"), []string{"ann stop"})
		w.mustBe("is answered once", w.spoken(), []string{"You have asked us to stop. We will not write again. Reply START to get messages again."})
		w.mustBe("and ends both", w.sessions(), []string{"ended opted_out since map[fever:true]", "ended opted_out pain map[fever:false]"})

		w.phone("dan", "+254700000004")
		w.visit("dan", "4")
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.phone("dan", "+254700000005")
		w.phone("eve", "+254700000004")
		w.mustBe("who has the number now", w.replies("sms:default", "+254700000004", "no", "stop"), []string{"eve  no_session", "eve stop"})
		w.mustBe("who has another one", w.replies("sms:default", "+254700000005", "maybe"), []string{"dan  invalid_answer"})
		w.mustBe("is asked there", w.spoken(), []string{"Please answer again."})
		w.after(time.Minute)
		w.phone("eve", "+254700000005")
		w.mustBe("where the question went last", w.replies("sms:default", "+254700000005", "no"), []string{"dan"})

		w.Post(`{"kind": "visit", "id": "3", "recipient": {"customer_ref": "cleo", "address": "+254700000009"}, "payload": {"name": "you"}}`)
		w.mustBe("asked at an address of the event", w.spoken(), []string{"Pain, 0 to 10?", "Fever, you?"})
		w.after(time.Minute)
		w.mustBe("answered from there", w.replies("sms:default", "254700000009", "no"), []string{"cleo"})
	})
}

// Somebody who is to get nothing more, or cannot be asked the next question, is in no conversation any more; what was answered counts.
func TestAConversationThatCannotGoOn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		from := "+254700000001"
		suppress := func(kind string) func() {
			return func() {
				if _, err := w.Contacts().Stop(t.Context(), w.Workspace, contact.Suppression{Contact: "ann", Kind: kind, Suppress: true, Reason: "asked"}, w.Clock.Now(), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for what, c := range map[string]struct {
			act   func()
			ended string
		}{
			"suppressed": {suppress(""), "ended suppressed pain map[fever:false]"},
			"opted out":  {suppress("sms"), "ended opted_out pain map[fever:false]"},
			"its next question cancelled": {func() {
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Status: delivery.Scheduled}, store.Page{Limit: 10})
				if err != nil || len(rows) != 1 || rows[0].Turn != 1 {
					t.Fatalf("%v, %v", rows, err)
				}
				if _, err := w.operator().CancelDelivery(t.Context(), w.Workspace.ID, rows[0].ID, "eve", w.Clock.Now()); err != nil {
					t.Fatal(err)
				}
			}, "ended cancelled_by_operator pain map[fever:false]"},
		} {
			w.Workspace = w.another(strings.ReplaceAll(what, " ", "-"), checkup)
			w.phone("ann", from)
			w.visit("ann", "1")
			w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
			w.after(time.Minute)
			next := []string{"Pain, 0 to 10?"}
			if strings.HasPrefix(what, "its next question") {
				next = nil
				w.Provider.Next(&channel.SendError{Reason: reason.RateLimited, Retry: true, Err: errors.New("busy")})
			}
			w.mustBe("answered", w.replies("sms:default", from, "no"), []string{"ann"})
			w.mustBe("asked on, or not yet", w.spoken(), next)
			c.act()
			w.after(time.Second)
			w.mustBe(what, w.sessions(), []string{c.ended})
			if got := w.answered(); len(got) != 1 || !strings.HasPrefix(got[0], "ann map[fever:false] responded partial") {
				t.Errorf("%s: what was answered is %q", what, got)
			}
			w.after(time.Hour)
			w.mustBe(what, w.spoken(), nil)
			w.mustBe(what, w.replies("sms:default", from, "7"), []string{"ann  session_over"})
		}
	})
}

// The answer to a stop is of no use to somebody who wants messages again, nor days later; the closing of a conversation is not either.
func TestWhatIsSaidTooLate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		from := "+254700000001"
		for what, c := range map[string]struct {
			last  string
			start bool
			wait  time.Duration
			said  []string
		}{
			"a stop that is over":   {"stop", true, time.Minute, nil},
			"a stop of days before": {"stop", false, 25 * time.Hour, nil},
			"a stop of before":      {"stop", false, time.Hour, []string{"You have asked us to stop. We will not write again. Reply START to get messages again."}},
			"a closing of days ago": {"5", false, 25 * time.Hour, nil},
			"a closing of before":   {"5", false, time.Hour, []string{"Thank you."}},
		} {
			w := newWorld(t, s, checkup)
			w.Workspace = w.another(strings.ReplaceAll(what, " ", "-"), checkup)
			w.phone("ann", from)
			w.visit("ann", "1")
			w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
			w.after(time.Minute)
			w.mustBe("answered", w.replies("sms:default", from, "no"), []string{"ann"})
			w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
			w.after(time.Minute)
			if _, err := w.operator().Pause(t.Context(), w.Workspace.ID, "checkup", "why", "eve", w.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			w.replies("sms:default", from, c.last)
			w.mustBe("paused", w.spoken(), nil)
			if c.start {
				w.replies("sms:default", from, "start")
			}
			w.after(c.wait)
			if _, err := w.operator().Resume(t.Context(), w.Workspace.ID, "checkup", "eve", w.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			w.mustBe(what, w.spoken(), c.said)
		}
	})
}

// An answer that was accepted stays, also if its question would not be asked any more.
func TestAnswersStay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(checkup, "show_when: answers.fever == true", "show_when: contact.attributes.sick == true", 1))
		write := func(sick bool) {
			t.Helper()
			item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"sms": "+254700000001"}, "attributes": {"sick": %v}}`, sick)), "ann")
			if results, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil); err != nil || results[0].Error != nil {
				t.Fatalf("%v, %v", err, results)
			}
		}
		write(true)
		w.visit("ann", "1")
		for _, text := range []string{"yes", "today"} {
			w.spoken()
			w.after(time.Minute)
			w.mustBe(text, w.replies("sms:default", "+254700000001", text), []string{"ann"})
		}
		w.spoken()
		w.after(time.Minute)
		write(false)
		w.mustBe("the last one", w.replies("sms:default", "+254700000001", "3"), []string{"ann"})
		w.spoken()
		w.mustBe("all of them", w.answered(), []string{"ann map[fever:true pain:3 since:today] responded answered"})
	})
}

// A survey that is answered at the link of a further message is the one that was begun, answered once.
func TestAPageOfAFurtherMessage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		w.after(time.Minute)
		w.mustBe("answered", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.spoken()
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
		if err != nil || len(rows) != 2 || rows[0].Turn != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		link := answer.Link{Workspace: w.Workspace.ID, Delivery: rows[0].ID}
		if _, err := w.Answers().Submit(t.Context(), link, answer.Submission{Answers: map[string]any{"fever": false}}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		w.mustBe("one response", w.answered(), []string{"ann map[fever:false] responded answered"})
		if all, err := s.Responses(t.Context(), w.Workspace.ID, store.ResponseFilter{}, store.Page{Limit: 10}); err != nil || len(all) != 1 || all[0].Delivery != rows[1].ID {
			t.Errorf("%+v, %v", all, err)
		}
		w.mustBe("it is over", w.sessions(), []string{"ended answered pain map[fever:false]"})
	})
}

// When a reply was written is what its provider says, unless nobody can have written one then; the others of its call count all the same.
func TestRepliesOfNoTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		w.phone("ann", "+254700000001")
		w.phone("bob", "+254700000002")
		w.visit("ann", "1")
		w.spoken()
		w.after(time.Minute)
		taken, err := w.Replies().Take(t.Context(), w.Workspace, "sms:default", []reply.Reply{
			{ID: "1", From: "+254700000002", Text: "stop"},
			{ID: "2", From: "+254700000001", Text: "yes", At: time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)},
			{ID: "3", From: "+254700000002", Text: "hello", At: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)},
		}, w.Clock.Now(), nil)
		if err != nil || taken[0].Keyword != "stop" || taken[1].Question != "fever" || taken[1].Reason != "" {
			t.Errorf("%+v, %v", taken, err)
		}
	})
}

// Questions of one name in two conversations have nothing to do with each other, also when their contacts become one.
func TestQuestionsOfOneName(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		for i, who := range []string{"ann", "bob"} {
			from := fmt.Sprint("+25470000000", i+1)
			w.phone(who, from)
			w.visit(who, who)
			w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
			w.after(time.Minute)
			w.Provider.Next(&channel.SendError{Reason: reason.RateLimited, Retry: true, Err: errors.New("busy")})
			w.mustBe("answered", w.replies("sms:default", from, "no"), []string{who})
			w.mustBe("not asked yet", w.spoken(), nil)
		}
		w.merge("ann", "bob")
		w.after(time.Second)
		w.mustBe("that of the survivor goes on", w.sessions(), []string{"open  pain map[fever:false]", "ended session_replaced pain map[fever:false]"})
		w.after(10 * time.Minute)
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		w.mustBe("answered", w.replies("sms:default", "+254700000002", "3"), []string{"bob"})
	})
}

// A late report of a first message that had failed leaves its fallback: the conversation of the message is over, and only the fallback can be answered.
func TestAConversationKeepsItsFallback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(checkup, "channel: sms\n", "channel: sms\nfallback: [whatsapp]\n", 1))
		item := contact.Parse(json.RawMessage(`{"addresses": {"sms": "+254700000001", "whatsapp": "+254700000001"}}`), "ann")
		if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.Provider.Next(channel.Permanent(errors.New("no")))
		w.Provider.Next(&channel.SendError{Reason: reason.RateLimited, Retry: true, Err: errors.New("busy")})
		w.visit("ann", "1")
		w.mustBe("nothing yet", w.spoken(), nil)
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Status: delivery.Failed}, store.Page{Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		taken, err := w.Receipts().Take(t.Context(), w.Workspace, []receipt.Report{{Status: feedback.Delivered, Delivery: rows[0].ID, Step: 1}}, w.Clock.Now(), nil)
		if err != nil || taken[0].Cancelled != 0 {
			t.Errorf("%+v, %v", taken, err)
		}
		w.after(10 * time.Minute)
		w.mustBe("asked", w.spoken(), []string{"Fever, you?"})
		w.after(time.Minute)
		w.mustBe("answered", w.replies("whatsapp:default", "+254700000001", "no"), []string{"ann"})
	})
}
