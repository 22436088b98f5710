package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

const news = `
workflow: news
type: digest
triggers:
  - id: daily
    schedule: {every: 1d, at: "08:30", timezone: UTC, period: 1d, period_end: "08:00"}
    audience: {topics: all, frequency: daily}
channel: inbox
message: {inbox: {text: "{% for s in digest.sections %}{{ s.topic.title }} {% endfor %}"}}
---
topic: tax
title: Money and tax
match: [{tags: {policy: {any: [tax]}}}]
---
topic: visas
title: {ar: تأشيرات, en: Visas}
---
topic: letter
confirm: true
`

// follow has somebody follow topics each day.
func (b *bundle) follow(t *testing.T, person string, names ...string) {
	t.Helper()
	for _, name := range names {
		one := []topics.Request{{Contact: person, Topic: name, Frequency: "daily"}}
		if _, err := b.engine.Topics().Subscribe(t.Context(), b.ws, one, topic.SourceAPI, b.clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// The page of a contact lists what they follow, and the instance of a digest's run says what its window was.
//
// Shows: R21.
func TestPagesOfDigests(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, news)
		for _, raw := range []string{`{"id": "ann", "addresses": {"inbox": "ann"}}`, `{"id": "ben", "addresses": {"inbox": "ben"}}`} {
			if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, []contact.Item{contact.Parse(json.RawMessage(raw), "")}, b.clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		b.follow(t, "ann", "tax", "visas")
		b.settle(t)
		if _, err := b.engine.PublishOnce(t.Context(), b.ws, []item.Item{item.Parse(json.RawMessage(`{"id": "1", "title": "Rates & <fees>", "topics": ["visas"], "tags": {"policy": ["tax"]}}`))}, nil); err != nil {
			t.Fatal(err)
		}
		b.settle(t)
		before := b.handler(t, console.Deps{Guest: "default"})
		says := func(path string, wants ...string) {
			t.Helper()
			a := get(t, before, path)
			if wellFormed(t, path, a.body); a.status != http.StatusOK {
				t.Fatalf("%s: %d", path, a.status)
			}
			for _, want := range wants {
				if text := plain(a.body); !strings.Contains(text, want) {
					t.Errorf("%s lacks %q:\n%s", path, want, text)
				}
			}
		}
		says("/topics", "topic title followers made by created", "visas Visas 1 a definition", "tax Money and tax 1 a definition")
		says("/topics/tax", "title Money and tax", `"any": [ "tax" ]`, "1 Rates &amp; <fees>", "contact frequency since by ann daily")
		says("/topics/visas", "It has none: items name it themselves.")
		says("/items", "item title version topics received 1 Rates &amp; <fees>", "tax, visas")
		says("/items?topic=tax", "Those of the topic tax.", "Rates &amp; <fees>")
		says("/items/1", "Rates &amp; <fees>", "Topics tax visas", `"title": "Rates &amp; <fees>"`)
		says("/contacts/ann", "Their next digests, as they would be now due digest topic items", "news daily Money and tax 1 Rates &amp; <fees>", "news daily Visas see also 1")
		for _, path := range []string{"/topics/none", "/items/none", "/items?topic=none"} {
			if a := get(t, before, path); a.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, a.status)
			}
		}
		now := b.clock.Now()
		b.clock.Set(time.Date(now.Year(), now.Month(), now.Day()+1, 8, 30, 0, 0, time.UTC))
		b.settle(t)
		h := b.handler(t, console.Deps{Guest: "default"})
		page := func(path string) string {
			t.Helper()
			a := get(t, h, path)
			if wellFormed(t, path, a.body); a.status != http.StatusOK {
				t.Fatalf("%s: %d", path, a.status)
			}
			return plain(a.body)
		}
		if text := page("/contacts/ann"); !strings.Contains(text, "Topics they follow topic frequency since by visas daily") || !strings.Contains(text, "tax daily") {
			t.Error(text)
		}
		if text := page("/contacts/ben"); strings.Contains(text, "Topics they follow") {
			t.Error(text)
		}
		b.follow(t, "ben", "letter")
		if text := page("/contacts/ben"); !strings.Contains(text, "letter daily, to be confirmed") {
			t.Error(text)
		}
		rows, err := s.Instances(t.Context(), b.ws.ID, store.InstanceFilter{Workflow: "news", Status: "completed"}, store.Page{Limit: 5})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		text := page("/instances/" + engine.PublicIDs(b.ws).Encode(key.KindInstance, int64(b.ws.ID), int64(rows[0].ID)))
		for _, want := range []string{"digest run done", "items from", "items before", "all done"} {
			if !strings.Contains(text, want) {
				t.Errorf("the run lacks %q:\n%s", want, text)
			}
		}
	})
}
