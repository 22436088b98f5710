package engine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

const confirmed = `
workflow: news
type: notice
triggers: {id: now, event: item.published}
audience: {topics: matched, frequency: immediate}
channel: inbox
message: {inbox: {text: "{{ item.id }}"}}
---
workflow: confirm
type: notice
triggers: {id: asked, event: subscription.requested}
audience: {to: event.recipient}
channel: inbox
message: {inbox: {text: "confirm {{ event.topic }} {{ event.frequency }}{% if event.reminder %} again{% endif %}"}}
---
topic: tax
confirm: true
---
topic: visas
confirm: true
---
channel: inbox
provider: inbox
---
persona: Manager
`

// confirm confirms a subscription of a contact and reports whether there was one to confirm.
func (w world) confirm(who, name string) bool {
	w.Helper()
	c, _, err := w.Store.ContactByExtID(w.Context(), w.Workspace.ID, who)
	if err == nil {
		err = w.Topics().Confirm(w.Context(), w.Workspace, topic.Confirming{Contact: c.ID, Topic: name}, w.Clock.Now())
	}
	if err != nil && !strings.Contains(err.Error(), topics.ErrNothingRequested.Error()) {
		w.Fatal(err)
	}
	return err == nil
}

// A subscription to a topic that demands it waits for its contact. What changes it meanwhile is what they confirm, and what ends it ends the wait.
//
// Shows: E2.
func TestConfirm(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, confirmed, "ann", "bob", "cyd", "dan")
		for _, who := range []string{"ann", "bob", "cyd"} {
			if got := w.subscribe(who, "tax", "immediate"); got != "pending" {
				t.Errorf("%s: %s", who, got)
			}
		}
		w.mustBe("asked", w.told(), []string{"ann confirm tax immediate", "bob confirm tax immediate", "cyd confirm tax immediate"})
		w.publish(`{"id": "1", "topics": ["tax"]}`)
		w.mustBe("before it is confirmed", w.told(), nil)
		if w.confirm("ann", "visas") || w.confirm("dan", "tax") {
			t.Error("something was confirmed that nobody has asked for")
		}
		for range 2 {
			if !w.confirm("ann", "tax") {
				t.Error("it was not confirmed")
			}
		}
		if got := w.subscribe("bob", "tax", ""); got != "changed" || w.confirm("bob", "tax") {
			t.Errorf("who has changed his mind: %s", got)
		}
		if got := w.subscribe("bob", "tax", ""); got != "unchanged" {
			t.Errorf("twice: %s", got)
		}
		w.publish(`{"id": "2", "topics": ["tax"]}`)
		w.mustBe("confirmed", w.told(), []string{"ann 2"})
		w.subscribe("cyd", "tax", "daily") // asks for something else
		w.mustBe("asked again", w.told(), []string{"cyd confirm tax daily"})
		w.until(w.Clock.Now().Add(73 * time.Hour))
		w.mustBe("once more", w.told(), []string{"cyd confirm tax daily again"})
		w.until(w.Clock.Now().Add(30 * 24 * time.Hour))
		w.mustBe("never again", w.told(), nil)
		if w.confirm("cyd", "tax") {
			t.Error("it was confirmed when its time was over")
		}
	})
}

// The request of somebody who signed up is that of the contact who claims the address.
func TestRequestsAreMerged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, confirmed, "ann")
		made, outcome := w.signUp("private@example.org", "tax", "immediate")
		if outcome != "pending" {
			t.Fatal(outcome)
		}
		w.subscribe("ann", "visas", "immediate")
		w.signUp("private@example.org", "visas", "daily")
		item := contact.Parse(json.RawMessage(`{"addresses": {"email": "private@example.org", "inbox": "ann"}}`), "ann")
		if _, err := w.Contacts().Write(t.Context(), w.Workspace, "replace", []contact.Item{item}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		if !w.confirm(made, "tax") { // by the link that was sent before the merge
			t.Error("it was not confirmed")
		}
		if !w.confirm("ann", "visas") {
			t.Error("the survivor's own was not confirmed")
		}
		list, err := s.Subscriptions(t.Context(), w.Workspace.ID, store.SubscriptionFilter{Before: 1 << 62, Limit: 9})
		if err != nil || len(list) != 2 || list[0].ContactExtID != "ann" || list[0].Frequency != "immediate" || list[1].ContactExtID != "ann" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// Eight people confirm at once, each with two clicks, while the engine asks them.
func TestConfirmAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		w := newWorld(t, s, confirmed, names...)
		for _, who := range names {
			w.subscribe(who, "tax", "immediate")
		}
		done := make(chan bool)
		for _, who := range names {
			for range 2 {
				go func() { done <- w.confirm(who, "tax") }()
			}
		}
		w.told()
		for range 2 * len(names) {
			if !<-done {
				t.Error("a click confirmed nothing")
			}
		}
		list, err := s.Subscriptions(t.Context(), w.Workspace.ID, store.SubscriptionFilter{Before: 1 << 62, Limit: 99, Ended: true})
		if err != nil || len(list) != len(names) {
			t.Errorf("%d subscriptions, %v", len(list), err)
		}
		w.until(w.Clock.Now().Add(8 * 24 * time.Hour))
		for _, one := range w.told() {
			if strings.Contains(one, "again") {
				t.Errorf("after they have confirmed: %s", one)
			}
		}
	})
}
