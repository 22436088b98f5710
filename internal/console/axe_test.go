package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/webtest"
)

const busy = `
workflow: tips
type: broadcast
triggers: {id: daily, schedule: {timezone: [contact.timezone, Europe/Berlin], at: "10:00", every: 1d}}
audience: {persona: Mechanic}
channel: inbox
message: {inbox: {text: A tip}}
---
workflow: told
type: custom
triggers: {id: t, event: told}
audience: {to: event.recipient}
channel: sms:away
message: {sms: {text: x}}
retry: {backoff: [1s]}
---
channel: sms:away
provider: away
---
`

// everyKind is a workspace with something on every kind of page, and the addresses of these pages.
func everyKind(t *testing.T) (*bundle, []string) {
	t.Helper()
	b := lived(t, inMemory(t))
	b.apply(t, busy+dated+"---\n"+people+"---\ngroup: regulars\nwhere: contact.name != \"\"\n---\n"+asking+"---"+talking+"---\ntopic: tax\ntitle: Tax\nfrequencies: [daily]\n")
	var items []contact.Item
	for _, raw := range []string{
		`{"id": "ann", "name": "Ann Smith", "persona": "Mechanic", "timezone": "Africa/Nairobi", "addresses": {"sms": "+4930000001", "inbox": "ann"}, "attributes": {"points": 7}}`,
		`{"id": "ben", "persona": "Mechanic", "timezone": "America/New_York", "addresses": {"inbox": "ben"}}`,
	} {
		items = append(items, contact.Parse(json.RawMessage(raw), ""))
	}
	if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, items, b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	b.follow(t, "ann", "tax")
	b.write(t, `{"type": "pump", "id": "1", "props": {"running": false}}`, `{"type": "pump", "id": "2", "props": {"running": false}}`,
		`{"type": "visit", "id": "v", "props": {"on_date": "2026-05-20", "who": "ann"}}`)
	for _, id := range []string{"a", "b", "c", "d"} {
		b.post(t, `{"id":"`+id+`","kind":"told","recipient":{"address":"+964 770 000 0009"}}`)
		b.clock.Set(b.clock.Now().Add(2 * time.Second))
		b.tick(t)
	}
	heldOccasions(t, b)
	b.clock.Set(start.Add(18 * time.Hour))
	b.settle(t)
	b.answer(t, b.ask(t, "service-done", "+964 770 000 0001"), "", map[string]any{"rate": 7.0, "parts": []any{"paint", "engine"}, "again": true, "why": "كل شيء جيد، شكراً لكم"})
	b.answer(t, b.ask(t, "service-done", "+964 770 000 0002"), "anna", map[string]any{"rate": -10.0, "why": hostile + strings.Repeat(" They never called, and nobody answers.", 40)})
	b.answer(t, b.ask(t, "call-done", "+964 770 000 0003"), "", map[string]any{"helped": false})
	b.talk(t, "cyd", "+254700000003", "ar")
	b.writes(t, "+254700000003", "ربما", "لا", hostile)
	b.toSome(t, 3)
	if _, err := b.engine.Operator().Pause(t.Context(), b.ws.ID, "visit", "a wrong text", "ada", b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	public := func(kind key.Kind, id int64) string { return engine.PublicIDs(b.ws).Encode(kind, int64(b.ws.ID), id) }
	pages := []string{
		"/", "/channels/sms:away", "/deliveries", "/deliveries?status=failed&since=1d&reason=x", "/responses", "/instances", "/instances?zones=true", "/events", "/decisions", "/records", "/records/kiosk",
		"/records/kiosk/123", "/records/pump/1", "/throttles", "/runs", "/contacts", "/contacts?top=30d", "/contacts/ann", "/groups", "/groups/regulars", "/topics", "/topics/news", "/items", "/items/1", "/workflows", "/workflows/visit", "/workflows/told", "/workflows/told/recipients", "/channels",
		"/sinks", "/outbox", "/outbox?status=dead&since=1d", "/inbox", "/channels/inbox:default", "/find", "/find?q=a", "/find?q=nobody-at-all", "/nothing", "/signin", "/responses?survey=none", "/sessions", "/sessions?status=open",
	}
	deliveries, err := b.store.Deliveries(t.Context(), b.ws.ID, store.DeliveryFilter{}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range deliveries {
		if kind := string(d.Status) + string(d.Reason); !seen[kind] {
			seen[kind] = true
			pages = append(pages, "/deliveries/"+public(key.KindDelivery, int64(d.ID)))
		}
	}
	sessions, err := b.store.Sessions(t.Context(), b.ws.ID, store.SessionFilter{}, store.Page{Limit: 10})
	if err != nil || len(sessions) != 1 {
		t.Fatal(sessions, err)
	}
	pages = append(pages, "/sessions/"+public(key.KindDelivery, int64(sessions[0].Delivery)))
	outbox, err := b.store.OutboxEvents(t.Context(), b.ws.ID, store.OutboxFilter{}, store.Page{})
	if err != nil || len(outbox) != 7 {
		t.Fatal(len(outbox), err)
	}
	for _, e := range outbox[:4] {
		pages = append(pages, "/outbox/"+public(key.KindOutbox, e.ID), "/deliveries/"+public(key.KindDelivery, int64(e.Delivery)))
	}
	instances, err := b.store.Instances(t.Context(), b.ws.ID, store.InstanceFilter{}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	zones, held := false, 0
	for _, i := range instances {
		zones = zones || i.Head != 0
		if i.Held() {
			held++
		}
		if kind := fmt.Sprint(i.Status, i.Held(), i.Hold, i.Head != 0, i.Timezone == "Etc/GMT-14"); !seen[kind] {
			seen[kind] = true
			pages = append(pages, "/instances/"+public(key.KindInstance, int64(i.ID)))
		}
	}
	if !zones || held != 2 {
		t.Errorf("rows of zones: %v; %d occasions on hold", zones, held)
	}
	events, err := b.store.Events(t.Context(), b.ws.ID, store.EventFilter{Kind: "visit-closed"}, store.Page{Limit: 1})
	if err != nil || len(events) == 0 {
		t.Fatal(events, err)
	}
	return b, append(pages, "/events/"+public(key.KindEvent, int64(events[0].ID)))
}

// fewPages is how many pages are tested where not all are asked for: the overview and the lists.
const fewPages = 7

// TestAxe has axe-core look at pages in a browser, as wide as a telephone and as a desk, in both colour schemes: at every kind of page
// with "make pages", at the first of them otherwise. No page, and no navigation, scrolls sideways.
func TestAxe(t *testing.T) {
	t.Parallel()
	if os.Getenv("CARILLON_TEST_DB") == "postgres" {
		t.Skip("the run on SQLite tests the pages")
	}
	const without = "axe-core tested no page"
	chromium := webtest.Chromium(t, without)
	axe, err := os.ReadFile(filepath.Join(webtest.Packages(t, filepath.Join("testdata", "axe"), without), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	frames, err := os.ReadFile(filepath.Join("testdata", "axe", "frames.html"))
	if err != nil {
		t.Fatal(err)
	}
	b, pages := everyKind(t)
	if os.Getenv("CARILLON_TEST_PAGES") != "all" {
		pages = pages[:fewPages]
	}
	list, err := json.Marshal(pages)
	if err != nil {
		t.Fatal(err)
	}
	h, stranger := b.handler(t, console.Deps{Guest: "default", Notice: func() string { return "A demo." }}), b.handler(t, console.Deps{})
	type report struct {
		Pages int
		Dark  bool
		Found []string
	}
	for _, dark := range []bool{false, true} {
		t.Run(map[bool]string{false: "light", true: "dark"}[dark], func(t *testing.T) {
			t.Parallel()
			done := make(chan report, 1)
			answer := func(kind string, body []byte) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					_, _ = w.Write(body)
				}
			}
			mux := http.NewServeMux()
			mux.HandleFunc("GET /-/frames", answer("text/html; charset=utf-8", frames))
			mux.HandleFunc("GET /-/axe.js", answer("text/javascript", axe))
			mux.HandleFunc("GET /-/pages", answer("application/json", list))
			mux.HandleFunc("POST /-/report", func(_ http.ResponseWriter, r *http.Request) {
				var one report
				if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
					one.Found = []string{err.Error()}
				}
				done <- one
			})
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { // the policy forbids frames, and scripts of others
				got := httptest.NewRecorder()
				if r.URL.Path == "/signin" {
					stranger.ServeHTTP(got, r)
				} else {
					h.ServeHTTP(got, r)
				}
				for name, values := range got.Header() {
					if name != "Content-Security-Policy" && name != "Cross-Origin-Opener-Policy" {
						w.Header()[name] = values
					}
				}
				w.WriteHeader(got.Code)
				_, _ = w.Write(got.Body.Bytes())
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			webtest.Browse(t, chromium, server.URL+"/-/frames", dark)
			select {
			case one := <-done:
				if len(one.Found) > 0 || one.Pages != len(pages) || one.Dark != dark {
					t.Errorf("%d of %d pages, dark %v:\n%s", one.Pages, len(pages), one.Dark, strings.Join(one.Found, "\n"))
				}
			case <-time.After(8 * time.Minute):
				t.Error("the browser did not report")
			}
		})
	}
}
