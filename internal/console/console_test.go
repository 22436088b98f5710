package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/inbox"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const rules = `
workspace: default
timezone: Asia/Baghdad
cadence: {max_per_day: 0}
---
workflow: visit
type: survey
triggers:
  - id: closed
    event: visit-closed
    when: event.jobType == "GR"
    dedup: [candidate.wip, recipient.address]
timing:
  reminders: [1d]
audience:
  - to: event.recipient
channel: inbox
message:
  inbox:
    subject: Your visit {{ event.wip }}
    text: "{% if step > 1 %}Reminder: {% endif %}how was it, <b>really</b>?"
---
channel: inbox
provider: inbox
`

var start = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)

type bundle struct {
	store  *store.Store
	ws     store.Workspace
	engine *engine.Engine
	clock  *clock.Manual
	feed   *console.Feed
	sinks  *enginetest.Sinks
}

// setup runs a real engine over s, with the rules in force.
func setup(t *testing.T, s *store.Store) *bundle {
	t.Helper()
	b := &bundle{store: s, clock: clock.NewManual(start), feed: &console.Feed{}, sinks: &enginetest.Sinks{}}
	var err error
	if b.ws, err = s.EnsureWorkspace(t.Context(), "default", []byte(strings.Repeat("s", 32)), start); err != nil {
		t.Fatal(err)
	}
	provider := inbox.Provider()
	b.engine, err = engine.New(engine.Config{
		Store: s, Clock: b.clock, Providers: []channel.Provider{provider, awayProvider()}, Sinks: []sink.Provider{b.sinks.SinkProvider()}, NoJitter: true, Journal: b.feed.Write, Concurrency: 1,
		Definitions: loader.Options{Providers: []definition.ProviderInfo{{Name: provider.Name}, {Name: "away"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	applied, err := b.engine.Apply(t.Context(), b.ws, []definition.File{{Name: "rules.yaml", Text: []byte(rules)}}, "test")
	if err != nil || applied.Number == 0 {
		t.Fatalf("apply: %v %v", err, applied.Problems)
	}
	return b
}

// awayProvider is one that cannot be reached.
func awayProvider() channel.Provider {
	return channel.Provider{Name: "away", Doc: "Cannot be reached.", Open: func(map[string]string) (channel.Channel, error) { return away{}, nil }}
}

type away struct{}

func (away) Send(context.Context, channel.Outgoing) (channel.Receipt, error) {
	return channel.Receipt{}, channel.Away(errors.New("no connection"))
}

func (b *bundle) handler(t *testing.T, d console.Deps) http.Handler {
	t.Helper()
	d.Store, d.Definitions, d.Feed, d.Clock = b.store, b.engine, b.feed, b.clock
	h, err := console.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// post takes an event in and lets the engine do what is due.
func (b *bundle) post(t *testing.T, event string) ingest.Result {
	t.Helper()
	now := b.clock.Now()
	results, err := b.engine.Ingest(t.Context(), b.ws, []ingest.Item{ingest.Parse(json.RawMessage(event), now)})
	if err != nil {
		t.Fatal(err)
	}
	b.tick(t)
	return results[0]
}

func (b *bundle) tick(t *testing.T) {
	t.Helper()
	if _, err := b.engine.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lived is a console after two visits, one of them twice, and one that no workflow wants.
func lived(t *testing.T, s *store.Store) *bundle {
	t.Helper()
	b := setup(t, s)
	b.post(t, `{"id":"v1","kind":"visit-closed","payload":{"wip":"40956","jobType":"GR"},"recipient":{"address":"+964 770 000 0001","locale":"ar"}}`)
	b.post(t, `{"id":"v1","kind":"visit-closed","payload":{"wip":"40956","jobType":"GR"},"recipient":{"address":"+964 770 000 0001","locale":"ar"}}`)
	b.post(t, `{"id":"v2","kind":"visit-closed","payload":{"wip":"40957","jobType":"PM"},"recipient":{"address":"+964 770 000 0002","locale":"ar"}}`)
	b.keep(t)
	b.clock.Set(start.Add(2 * time.Second))
	return b
}

type answer struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, h http.Handler, path string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = "127.0.0.1:8080"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return serve(t, h, r)
}

func serve(t *testing.T, h http.Handler, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.Code, w.Header(), string(body)}
}

// inMemory is a store in memory, for what one goroutine sees of the pages. Those on a database are under the race detector, too.
func inMemory(t *testing.T) *store.Store {
	t.Helper()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	return storetest.Memory(t)
}

var links = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// TestEveryPage follows every link from the overview and holds each page against what all of them promise.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		h := lived(t, s).handler(t, console.Deps{Guest: "default", Notice: func() string { return "A demo." }})
		seen := map[string]answer{}
		for queue := []string{"/"}; len(queue) > 0; queue = queue[1:] {
			path := queue[0]
			if _, again := seen[path]; again {
				continue
			}
			a := get(t, h, path)
			seen[path] = a
			if a.status != http.StatusOK {
				t.Errorf("%s: status %d", path, a.status)
				continue
			}
			if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
				continue
			}
			wellFormed(t, path, a.body)
			csp := a.header.Get("Content-Security-Policy")
			if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s: policy %q", path, csp)
			}
			if strings.Contains(a.body, "style=") || strings.Contains(a.body, " onclick") || strings.Contains(a.body, "<script>") {
				t.Errorf("%s: has something inline that its policy forbids", path)
			}
			for _, m := range links.FindAllStringSubmatch(a.body, -1) {
				address := strings.ReplaceAll(m[1], "&amp;", "&")
				u, err := url.Parse(address)
				if err != nil || u.Host != "" || u.Scheme != "" {
					t.Errorf("%s: links to %q outside of the console", path, address)
					continue
				}
				if strings.HasPrefix(address, "/") && u.Path != "/signout" {
					queue = append(queue, address)
				}
			}
		}
		if len(seen) < 18 {
			t.Errorf("only %d pages were found", len(seen))
		}
		for path, want := range map[string][]string{
			"/":           {"2 events taken in, 1 delivery sent.", "A demo.", "Asia/Baghdad"},
			"/inbox":      {"Your visit 40956", "how was it, &lt;b&gt;really&lt;/b&gt;?", "+964 770 000 0001", `lang="`},
			"/deliveries": {"sent", "inbox"},
			"/instances":  {"completed", "event:"},
			"/events":     {"visit-closed", "The trigger&#39;s condition is false."},
			"/decisions":  {"duplicate", "The same occasion exists already"},
		} {
			for _, text := range want {
				if !strings.Contains(seen[path].body, text) {
					t.Errorf("%s does not say %q", path, text)
				}
			}
		}
	})
}

// wellFormed checks that every element is closed in order.
func wellFormed(t *testing.T, path, page string) {
	t.Helper()
	void := map[string]bool{"meta": true, "link": true, "input": true, "br": true, "!doctype": true}
	var open []string
	for _, m := range regexp.MustCompile(`<(/?)([!a-zA-Z][a-zA-Z0-9]*)((?:\s+[a-zA-Z-]+(?:="[^"]*")?)*)\s*(/?)>`).FindAllStringSubmatch(page, -1) {
		name := strings.ToLower(m[2])
		switch {
		case void[name] || m[4] == "/":
		case m[1] == "":
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			t.Fatalf("%s: </%s> closes %v", path, name, open)
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: left open: %v", path, open)
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("%s: id %q twice", path, m[1])
		}
		ids[m[1]] = true
	}
}
