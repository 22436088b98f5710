package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// start is the instant of the worked example (C15).
var start = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC) //nolint:gochecknoglobals // immutable

// definitions are the worked example, with a second workflow whose messages are kept.
const definitions = `
workflow: csi-gr
type: survey
ext_id: "4523"
triggers:
  - id: csi-gr-trigger
    event: service-visit-closed
    when: {field: candidate.jobType, op: is, value: GR}
    dedup: [templateId, recipient.address, candidate.dealerId, candidate.wip]
timing:
  offset: 0d
  reminders: [1d]
audience:
  - to: event.recipient
channel: memory
message:
  survey: csi-gr
---
survey: csi-gr
title: Your visit
invitation:
  text: "How was it? {{ survey.link }}"
questions:
  - {id: rate, type: rating, text: How was it?, min: 1, max: 10}
---
workflow: welcome
type: custom
triggers:
  - id: signed-up
    event: signed-up
audience:
  - to: event.recipient
channel: inbox
message:
  inbox:
    subject: Welcome
    text: "Welcome, {{ event.name }}"
---
channel: memory:default
provider: memory
---
channel: inbox:default
provider: inbox
`

// bundle is a running process without loops, on a clock that stands still, and a caller who may do everything.
type bundle struct {
	*testing.T
	app   *app.App
	clock *clock.Manual
	key   string
	url   string // of the database
	sinks string // the folder of the provider file
	check *described
	*client.Client
}

// each runs f on both databases.
func each(t *testing.T, f func(t *testing.T, b *bundle)) {
	t.Helper()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			f(t, setup(t, database))
		})
	}
}

func setup(t *testing.T, database string) *bundle {
	t.Helper()
	b := &bundle{T: t, clock: clock.NewManual(start), url: storetest.URL(t, database), sinks: t.TempDir(), check: checked(t)}
	var err error
	b.app, err = app.Start(t.Context(), app.Config{
		Server: config.Server{
			Database: config.Database{DB: b.url}, Listen: "127.0.0.1:0", SinkDir: b.sinks, TrustProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, OutboundAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		},
		Clock: b.clock, Version: "test", SecretKey: secret.New("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.app.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("stop: %v", err)
		}
	})
	b.key = b.newKey(b.app.Workspace(), "admin", "admin")
	b.Client = b.as(b.key)
	b.apply(definitions)
	return b
}

func (b *bundle) newKey(ws store.Workspace, name string, scopes ...string) string {
	b.Helper()
	key, err := app.CreateKey(b.Context(), b.app.Store(), ws, name, scopes, b.clock.Now())
	if err != nil {
		b.Fatal(err)
	}
	return key
}

func (b *bundle) as(key string) *client.Client {
	b.Helper()
	c, err := client.New(b.app.URL(), key, client.WithHTTPClient(&http.Client{Timeout: client.DefaultTimeout, Transport: b.check}))
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *bundle) apply(text string) {
	b.Helper()
	if _, err := b.Apply(b.Context(), []client.File{{Name: "test.yaml", Text: text}}); err != nil {
		b.Fatal(err)
	}
}

// ask makes a request with the caller's key and returns the status and the body.
func (b *bundle) ask(method, path, body string) (int, string) {
	b.Helper()
	return b.askAs(b.key, method, path, body)
}

func (b *bundle) askAs(key, method, path, body string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.app.URL()+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return b.do(req)
}

func (b *bundle) do(req *http.Request) (int, string) {
	b.Helper()
	res, err := (&http.Client{Transport: b.check}).Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, strings.TrimSuffix(string(raw), "\n")
}

// page is a page of the console, for the caller.
func (b *bundle) page(path string) string {
	b.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	res, err := browser.PostForm(b.app.URL()+"/signin", url.Values{"key": {b.key}, "next": {path}})
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.Request.URL.Path != path {
		b.Fatalf("%s: status %d, at %s, %v", path, res.StatusCode, res.Request.URL, err)
	}
	return string(raw)
}

// problemOf reads a problem.
func problemOf(t *testing.T, text string) client.Problem {
	t.Helper()
	var p client.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("not a problem: %s", text)
	}
	return p
}

// signedUp is an event of the second workflow.
func signedUp(id string) client.Event {
	return client.Event{
		ID: id, Kind: "signed-up", Payload: map[string]any{"name": "Ada"},
		Recipient: &client.Recipient{Address: id + "@example.org", CustomerRef: "cust-" + id},
	}
}

// post takes one event in and returns the ids of its event, instance and delivery.
func (b *bundle) post(c *client.Client, event client.Event) (ev, instance, delivery string) {
	b.Helper()
	answer, err := c.PostEvents(b.Context(), event)
	if err != nil {
		b.Fatal(err)
	}
	item := answer.Items[0]
	if item.Outcome != "created" || len(item.Instances) != 1 || len(item.Instances[0].Deliveries) != 1 {
		b.Fatalf("not created: %+v", item)
	}
	return item.Event, item.Instances[0].ID, item.Instances[0].Deliveries[0].ID
}
