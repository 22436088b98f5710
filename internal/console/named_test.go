package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The page of a person who got nothing says which events named them, and why these made no message.
func TestPersonWhomEventsNamed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, `
workflow: door
type: alert
triggers: {id: open, event: door-open, when: event.minutes > 5}
audience: {to: event.recipient}
channel: sms:box
message: {sms: {text: Open}}
---
channel: sms:box
provider: inbox
`)
		items := []contact.Item{contact.Parse(json.RawMessage(`{"id": "ann/1", "addresses": {"sms": "+4930000001"}}`), "")}
		if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, items, b.clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		h := b.handler(t, console.Deps{Guest: "default"})
		says := func(path string, want ...string) string {
			t.Helper()
			a := get(t, h, path)
			text := plain(a.body)
			for _, w := range want {
				if a.status != http.StatusOK || !strings.Contains(text, w) {
					t.Errorf("%s (%d) does not say %q:\n%s", path, a.status, w, text)
				}
			}
			return text
		}
		says("/contacts/ann%2F1", "No message was ever meant for them, and no event that is kept named them")
		b.post(t, `{"kind": "door-open", "payload": {"minutes": 2}, "recipient": {"address": "+49 30 000001"}}`)
		b.post(t, `{"kind": "door-open", "payload": {"minutes": 3}, "recipient": {"customer_ref": "eve"}}`)
		b.post(t, `{"kind": "door-open", "payload": {"minutes": 3}, "recipient": {"customer_ref": "bob", "address": "+4930000001"}}`) // bob, at her number
		text := says("/contacts/ann%2F1", "No message was ever meant for them; the events below", "Events that named them and made no message", "door-open condition false door", "Event.minutes is 2.")
		if strings.Contains(text, "Event.minutes is 3.") {
			t.Errorf("the event of somebody else is on the page:\n%s", text)
		}
		if !strings.Contains(get(t, h, "/contacts/ann%2F1").body, `href="/events?to=ann%2F1"`) {
			t.Error("the page does not lead to the list of the events")
		}
		if text = says("/events?to=ann%2F1", "Event.minutes is 2."); strings.Contains(text, "minutes is 3") {
			t.Errorf("the list is not narrowed:\n%s", text)
		}
		if a := get(t, h, "/find?q=eve"); a.header.Get("Location") != "/events?to=eve" {
			t.Errorf("the search does not lead to the events of a person who is no contact: %d %v", a.status, a.header)
		}
		// An event that made a message is not among them.
		b.post(t, `{"kind": "door-open", "payload": {"minutes": 9}, "recipient": {"customer_ref": "ann/1"}}`)
		if text = says("/contacts/ann%2F1", "Event.minutes is 2."); strings.Contains(text, "minutes is 9") || strings.Contains(text, "matched") {
			t.Errorf("an event that made a message is among those that made none:\n%s", text)
		}
	})
}
