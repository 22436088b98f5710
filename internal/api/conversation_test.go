package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

// A survey is asked by messages: what a person writes back comes in by the channel, the answers are a response like that of a page, and each message says what it is.
func TestConversation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx, g := t.Context(), newGateway(t)
		if _, err := b.SetSecret(ctx, "one", secretOf("one")); err != nil {
			t.Fatal(err)
		}
		b.apply(fmt.Sprintf(`
workflow: checkup
type: survey
triggers: {id: over, event: visit}
audience: {to: event.recipient}
channel: sms:one
message: {survey: health, mode: conversation}
---
survey: health
title: How are you?
questions:
  - {id: fever, type: yes_no, required: true, text: Fever?}
  - {id: pain, type: number, text: Pain?}
conversation: {closing: Thank you.}
---
channel: sms:one
provider: http
settings: {url: %s, inbound_secret: {secret: one}}
`, g.URL))
		if _, err := b.PutContact(ctx, client.ContactInput{ID: "ann", Addresses: map[string]string{"sms": "+254700000001"}}); err != nil {
			t.Fatal(err)
		}
		event, _, first := b.post(b.Client, client.Event{ID: "1", Kind: "visit", Recipient: &client.Recipient{CustomerRef: "ann"}})
		b.tick()
		for n, text := range []string{"maybe", "no", "7"} {
			b.clock.Set(b.clock.Now().Add(time.Minute))
			status, answer := b.call(calledBack{
				secret: secretOf("one"), id: fmt.Sprint("msg_", n), path: "/v1/inbound/sms:one?workspace=" + b.app.Workspace().Name, at: b.clock.Now(),
				body: fmt.Sprintf(`{"replies": [{"id": "m-%d", "from": "00254700000001", "text": %q}]}`, n, text),
			})
			if status != http.StatusNoContent {
				t.Fatalf("%s: %d %s", text, status, answer)
			}
			b.tick()
		}
		b.tick()
		list, err := b.Deliveries(ctx, client.DeliveryQuery{Workflow: "checkup"})
		if err != nil {
			t.Fatal(err)
		}
		var turns []client.Turn
		for _, d := range slices.Backward(list.Items) {
			if d.Conversation == nil {
				t.Fatalf("%s says nothing of a conversation", d.Key)
			}
			turns = append(turns, *d.Conversation)
		}
		want := []client.Turn{{Says: "question", Asks: "fever"}, {Turn: 1, Says: "invalid", Asks: "fever"}, {Turn: 2, Says: "question", Asks: "pain"}, {Turn: 3, Says: "closing"}}
		if diff := cmp.Diff(want, turns); diff != "" {
			t.Errorf("the messages (-want +got):\n%s", diff)
		}
		for contact, want := range map[string]int{"ann": 1, "+254 700 000001": 1, "bob": 0} {
			list, err := b.Sessions(ctx, client.SessionQuery{Contact: contact})
			if err != nil || len(list.Items) != want {
				t.Errorf("%d conversations with %s, %v", len(list.Items), contact, err)
			}
		}
		for _, id := range []string{"bogus", "d_0", event} {
			var refused *client.Problem
			if _, err := b.Session(ctx, id); !errors.As(err, &refused) || refused.Detail != "there is no such conversation" || refused.Hint == "" {
				t.Errorf("%s: %v", id, err)
			}
		}
		g.mu.Lock()
		keys := slices.Clone(g.keys)
		g.mu.Unlock()
		if slices.Sort(keys); len(slices.Compact(keys)) != 4 {
			t.Errorf("four messages leave under the keys %v", keys)
		}
		responses, err := b.Responses(ctx, client.ResponseQuery{})
		if err != nil || len(responses.Items) != 1 || responses.Items[0].Delivery != first || cmp.Diff(map[string]any{"fever": false, "pain": 7.0}, responses.Items[0].Answers) != "" {
			t.Errorf("%+v, %v", responses.Items, err)
		}
		if d, err := b.Delivery(ctx, first); err != nil || d.Status != "responded" || d.Reason != "answered" {
			t.Errorf("%+v, %v", d.Delivery, err)
		}
		if page := b.page("/deliveries/" + list.Items[0].ID); !strings.Contains(page, "turn 3: closing") {
			t.Error("the console does not say that the last message is the closing")
		}
	})
}
