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
---
topic: visas
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
		if _, err := b.engine.PublishOnce(t.Context(), b.ws, []item.Item{item.Parse(json.RawMessage(`{"id": "1", "topics": ["tax"]}`))}, nil); err != nil {
			t.Fatal(err)
		}
		b.settle(t)
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
