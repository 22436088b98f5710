package console_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The pages name no instant at which a message cannot leave: the headline names a pause, a missing channel and an unavailable provider,
// and messages that wait for a person or a channel count as needing attention.
func TestNoPromises(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		h := b.handler(t, console.Deps{Guest: "default"})
		workflow := func(name, channel string) string {
			return "workflow: " + name + "\ntype: custom\ntriggers: {id: t, event: " + name + "}\ntiming: {offset: 1h}\naudience: {to: event.recipient}\nchannel: " + channel + "\nmessage: {inbox: {text: x}}\n---\n"
		}
		b.apply(t, workflow("later", "inbox")+strings.NewReplacer("inbox: {text", "sms: {text", "timing: {offset: 1h}\n", "").Replace(workflow("ghostly", "sms:ghost")))
		b.post(t, `{"kind":"later","id":"1","recipient":{"address":"ann"}}`)
		row := func(name string) (id string) {
			t.Helper()
			rows, err := s.Deliveries(t.Context(), b.ws.ID, store.DeliveryFilter{Workflow: name}, store.Page{})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%+v, %v", rows, err)
			}
			return engine.PublicIDs(b.ws).Encode(key.KindDelivery, int64(b.ws.ID), int64(rows[0].ID))
		}
		page := func(path string) string { return get(t, h, path).body }
		has := func(what, path, want string, not ...string) {
			t.Helper()
			body := page(path)
			if !strings.Contains(body, want) {
				t.Errorf("%s: %s does not say %q", what, path, want)
			}
			for _, one := range not {
				if strings.Contains(body, one) {
					t.Errorf("%s: %s says %q", what, path, one)
				}
			}
		}
		later := "/deliveries/" + row("later")
		has("planned", later, "The message goes out at")
		has("planned", "/", "The next message goes out at")
		if _, err := b.engine.Operator().Pause(t.Context(), b.ws.ID, "later", "wrong text", "ann", b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		has("paused", later, "is held: ann paused its workflow at", "goes out")
		has("paused", later, "(wrong text). It goes on with carillon workflows resume later")
		has("paused", later, "<dt>sends left</dt><dd>1</dd>")
		has("paused", "/", "1 stopped, 0 due: later paused")
		has("paused", "/workflows/later", "0 instances and 1 delivery are stopped, 0 of them due.")
		has("paused", "/", "The next messages cannot leave as they are planned", "goes out at")
		if _, err := b.engine.Operator().Resume(t.Context(), b.ws.ID, "later", "ann", b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.tick(t)
		has("resumed", later, "The message goes out at")
		b.clock.Set(start.Add(2 * time.Hour))
		b.tick(t)
		b.post(t, `{"kind":"ghostly","id":"2","recipient":{"address":"+4930123"}}`)
		has("without a channel", "/deliveries/"+row("ghostly"), "cannot leave: the channel sms:ghost is not defined", "goes out")
		has("without a channel", "/deliveries/"+row("ghostly"), "<dt>sends left</dt><dd>1</dd>")
		has("without a channel", "/", "1 without a channel")
	})
}

// A message that is over a limit and whose workflow is paused is paused, on its own page as in lists: the end of the limit is no
// instant at which it leaves.
func TestPausedAndOverALimit(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	h := b.handler(t, console.Deps{Guest: "default"})
	b.apply(t, "workflow: daily\ntype: custom\ntriggers: {id: t, event: daily}\naudience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\npersona: Once\ncadence: {max_per_day: 1}\n")
	ann := []contact.Item{contact.Parse(json.RawMessage(`{"id":"ann","persona":"Once","addresses":{"inbox":"ann"}}`), "")}
	if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, ann, b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2"} {
		b.post(t, `{"kind":"daily","id":"`+id+`","recipient":{"customer_ref":"ann","address":"ann"}}`)
	}
	list := func() string { return plain(get(t, h, "/deliveries?workflow=daily").body) }
	if text := list(); !strings.Contains(text, "deferred ann daily inbox 15 May") {
		t.Fatal(text)
	}
	if _, err := b.engine.Operator().Pause(t.Context(), b.ws.ID, "daily", "wrong text", "ann", b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if text := list(); !strings.Contains(text, "paused ann daily inbox The workflow is paused; this waits") || strings.Contains(text, "deferred") {
		t.Error(text)
	}
	rows, err := b.store.Deliveries(t.Context(), b.ws.ID, store.DeliveryFilter{Workflow: "daily"}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/deliveries/" + engine.PublicIDs(b.ws).Encode(key.KindDelivery, int64(b.ws.ID), int64(rows[0].ID)), "/contacts/ann"} {
		text := plain(get(t, h, path).body)
		if !strings.Contains(text, "paused") || strings.Contains(text, "deferred") {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// What a limit holds for longer than its provider stays away waits for the limit: the absent provider is named besides.
func TestLimitOutlastsBreaker(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	h := b.handler(t, console.Deps{Guest: "default"})
	b.apply(t, "channel: sms:away\nprovider: away\n---\nworkflow: daily\ntype: custom\ntriggers: {id: t, event: daily}\naudience: {to: event.recipient}\nchannel: sms:away\nmessage: {sms: {text: x}}\n---\npersona: Once\ncadence: {max_per_day: 1}\n")
	finn := []contact.Item{contact.Parse(json.RawMessage(`{"id":"finn","persona":"Once","addresses":{"sms":"+4930100"}}`), "")}
	if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, finn, b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		ref := "finn"
		if id > "2" {
			ref = "other" + id
		}
		b.post(t, `{"kind":"daily","id":"`+id+`","recipient":{"customer_ref":"`+ref+`","address":"+493010`+id+`"}}`)
	}
	b.tick(t)
	rows, err := b.store.Deliveries(t.Context(), b.ws.ID, store.DeliveryFilter{Workflow: "daily"}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	limited := ""
	for _, row := range rows {
		if row.DeferredBy != "" {
			limited = "/deliveries/" + engine.PublicIDs(b.ws).Encode(key.KindDelivery, int64(b.ws.ID), int64(row.ID))
		}
	}
	if limited == "" || !strings.Contains(plain(get(t, h, "/channels").body), "provider away") {
		t.Fatalf("%+v", rows)
	}
	if text := plain(get(t, h, limited).body); !strings.Contains(text, "It waits until 15 May") || !strings.Contains(text, "Besides, its provider is away now.") || strings.Contains(text, "whose provider is away") {
		t.Error(text)
	}
	text := plain(get(t, h, "/contacts/finn").body)
	if !strings.Contains(text, "Besides, its provider is away now.") || strings.Count(text, "15 May") == 0 {
		t.Error(text)
	}
}
