package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const talking = `
workflow: checkup
type: survey
triggers: {id: over, event: over}
audience: {to: event.recipient}
channel: sms:clinic
limits: {critical: true}
message: {survey: health, mode: conversation}
---
survey: health
title: How are you?
questions:
  - {id: fever, type: yes_no, required: true, text: {en: "Do you have a fever?", ar: "هل لديك حمى؟"}}
  - {id: note, type: text, text: {en: "What else?", ar: "ماذا أيضاً؟"}}
conversation: {invalid: {en: Yes or no?, ar: نعم أم لا؟}, closing: {en: Thank you., ar: شكراً}}
---
channel: sms:clinic
provider: inbox
`

// talk begins a conversation with somebody.
func (b *bundle) talk(t *testing.T, who, number, locale string) {
	t.Helper()
	item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"sms": %q}, "locale": %q}`, number, locale)), who)
	if results, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Replace, []contact.Item{item}, b.clock.Now(), nil); err != nil || results[0].Error != nil {
		t.Fatal(results, err)
	}
	b.post(t, fmt.Sprintf(`{"kind": "over", "id": %q, "recipient": {"customer_ref": %[1]q}}`, who))
	b.tick(t)
}

// writes hands in what somebody writes back, a minute later.
func (b *bundle) writes(t *testing.T, number string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		b.clock.Set(b.clock.Now().Add(time.Minute))
		list := []reply.Reply{{ID: number + text, From: number, Text: text, At: b.clock.Now()}}
		if _, err := b.engine.Replies().Take(t.Context(), b.ws, "sms:clinic", list, b.clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		b.tick(t)
	}
	b.tick(t)
}

var sessionLinks = regexp.MustCompile(`href="(/sessions/d_[^"]*)"`)

// A conversation is shown as it was: what was asked, what the person wrote, why a reply was no answer. Open ones have a list of their own.
func TestSessions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, talking)
		h := b.handler(t, console.Deps{Guest: "default"})
		says(t, "an empty list", plain(get(t, h, "/sessions").body), "There is no such conversation.")
		b.talk(t, "ann", "+254700000001", "en")
		b.talk(t, "bob", "+254700000002", "ar")
		b.talk(t, "cyd", "+254700000003", "en")
		b.writes(t, "+254700000001", "perhaps", "NO", hostile)
		b.writes(t, "+254700000002", "نعم")
		b.writes(t, "+254700000003", "Stop")

		list := get(t, h, "/sessions")
		wellFormed(t, "/sessions", list.body)
		says(t, "/sessions", plain(list.body), "open +254700000002 bob", "stopped +254700000003 cyd", "answered +254700000001 ann", "fever no note =HYPERLINK")
		open := plain(get(t, h, "/sessions?status=open").body)
		says(t, "the open ones", open, "bob", "note fever yes")
		if strings.Contains(open, "+254700000001") || strings.Contains(open, "cyd") {
			t.Errorf("a conversation that is over is open:\n%s", open)
		}
		one := get(t, h, "/sessions?contact=cyd").body
		if n := len(sessionLinks.FindAllString(one, -1)); n != 1 || !strings.Contains(one, "cyd") {
			t.Errorf("%d conversations with one person", n)
		}
		byNumber := get(t, h, "/sessions?contact=%2B254+700+000003").body
		if n := len(sessionLinks.FindAllString(byNumber, -1)); n != 1 || !strings.Contains(byNumber, "cyd") {
			t.Errorf("%d conversations with a number", n)
		}
		bogus := get(t, h, "/sessions?status=bogus").body
		wellFormed(t, "a status that is none", bogus)
		says(t, "a status that is none", plain(bogus), `"bogus" is no status of a conversation: give one of waiting, open, ending, ended.`, "No conversation fits.")
		if both := get(t, h, "/sessions?status=open&contact=bob").body; !strings.Contains(both, `<input type="hidden" name="status" value="open"`) {
			t.Errorf("the form forgets the status:\n%s", both)
		}
		says(t, "nobody", plain(get(t, h, "/sessions?contact=nobody").body), "No conversation fits.")

		links := sessionLinks.FindAllStringSubmatch(list.body, -1)
		if len(links) != 3 {
			t.Fatalf("%v", links)
		}
		for i, want := range [][]string{
			{"asks for no further messages", "confirms the stop", "stopped"},
			{"هل لديك حمى؟", "نعم", "answers fever", "ماذا أيضاً؟", "takes replies until", "asks note"},
			{"Do you have a fever?", "perhaps", "no answer to fever", "Yes or no?", "asks fever again", "NO", "answers fever", "What else?", "asks note", "=HYPERLINK", "answers note", "Thank you.", "closing"},
		} {
			page := get(t, h, links[i][1])
			wellFormed(t, links[i][1], page.body)
			text := plain(page.body)
			at := 0
			for _, part := range want {
				next := strings.Index(text[at:], part)
				if next < 0 {
					t.Errorf("%s does not say %q after what comes before:\n%s", links[i][1], part, text)
					break
				}
				if i == 2 {
					at += next
				}
			}
			if strings.Contains(page.body, "<script>alert") {
				t.Error("what somebody wrote became a part of the page")
			}
		}
		turns := rowLinks.FindAllStringSubmatch(get(t, h, "/deliveries?to=%2B254700000001").body, -1)
		if last := get(t, h, turns[0][1]).body; !strings.Contains(last, "turn 3: closing") {
			t.Errorf("the last message says:\n%s", plain(last))
		} else if to := sessionLinks.FindStringSubmatch(last); to == nil || get(t, h, to[1]).status != http.StatusOK {
			t.Error("the last message does not lead to its conversation")
		}
		for _, path := range []string{"/sessions/d_nonsense", "/sessions/i_" + links[0][1][12:]} {
			if got := get(t, h, path); got.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, got.status)
			}
		}
	})
}

// What was reported of a message stands in its timeline.
func TestReceiptsInTheTimeline(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, talking)
		b.talk(t, "ann", "+254700000001", "en")
		rows, err := s.Deliveries(t.Context(), b.ws.ID, store.DeliveryFilter{Workflow: "checkup"}, store.Page{Limit: 1})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		for _, status := range feedback.Statuses() {
			b.clock.Set(b.clock.Now().Add(time.Minute))
			of := receipt.Report{Status: status, Delivery: rows[0].ID, Step: 1, Detail: "30003 <b>"}
			report := []receipt.Report{of}
			if status == feedback.Bounced {
				of.Soft = true
				report = append(report, of)
			}
			if _, err := b.engine.Receipts().Take(t.Context(), b.ws, report, b.clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		h := b.handler(t, console.Deps{Guest: "default"})
		links := rowLinks.FindAllStringSubmatch(get(t, h, "/deliveries?workflow=checkup").body, -1)
		text := plain(get(t, h, links[0][1]).body)
		says(t, "the timeline", text, "delivered It has arrived, as the provider reports. 30003 <b>", "read It was opened", "deferred It may arrive later", "soft bounce It could not be delivered for a cause that may pass, as the provider reports.", "bounced It could not be delivered, as the provider reports.", "complained Its reader calls it unwanted.")
	})
}
