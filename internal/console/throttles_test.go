package console_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const pumps = `
workflow: pump-alert
type: alert
triggers:
  - id: stopped
    record: pump
    when: record.running == false && record.load < 9
    cooldown: {length: 2h, per: [record.id]}
audience:
  - address: '"you"'
    kind: inbox
channel: inbox
message:
  inbox: {text: A pump stands still.}
`

// apply puts definitions in force beside the rules.
func (b *bundle) apply(t *testing.T, more string) {
	t.Helper()
	files := []definition.File{{Name: "rules.yaml", Text: []byte(rules)}, {Name: "more.yaml", Text: []byte(more)}}
	applied, err := b.engine.Apply(t.Context(), b.ws, files, "test")
	if err != nil || definition.HasErrors(applied.Problems) {
		t.Fatalf("apply: %v %v", err, applied.Problems)
	}
}

// write writes records, each as JSON, and lets the engine do what is due.
func (b *bundle) write(t *testing.T, records ...string) {
	t.Helper()
	var items []record.Item
	for _, raw := range records {
		items = append(items, record.Parse(json.RawMessage(raw), "", ""))
	}
	if _, err := b.engine.Records().Write(t.Context(), b.ws, upsert.Merge, items, "probe", b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
}

// settle lets the engine do all that is due at this instant: two passes in a row find nothing. Runs are due at no instant.
func (b *bundle) settle(t *testing.T) {
	t.Helper()
	for idle, n := 0, 0; idle < 2; n++ {
		r, err := b.engine.Tick(t.Context())
		if err != nil || n == 100 {
			t.Fatalf("the engine never rests: %v", err)
		}
		if idle++; r.Any() {
			idle = 0
		}
	}
}

// TestThrottlePages: what fired, when it may again, how often it was held back meanwhile, on every page that shows it.
//
// Shows: A21.
func TestThrottlePages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, pumps)
		h := b.handler(t, console.Deps{Guest: "default"})
		says := func(path string, want ...string) answer {
			t.Helper()
			a := get(t, h, path)
			wellFormed(t, path, a.body)
			text := plain(a.body)
			for _, w := range want {
				if a.status != http.StatusOK || !strings.Contains(text, w) {
					t.Errorf("%s (%d) does not say %q:\n%s", path, a.status, w, text)
				}
			}
			return a
		}
		says("/throttles", "Nothing has fired about a record yet.")
		says("/throttles?workflow=none", "Nothing of a workflow of that name")

		name := strings.Repeat("long-name-", 20)
		b.write(t, `{"type": "pump", "id": "<7>/"}`, fmt.Sprintf(`{"type": "pump", "id": %q}`, name))
		b.write(t, `{"type": "pump", "id": "<7>/", "props": {"running": false, "load": 1}}`, fmt.Sprintf(`{"type": "pump", "id": %q, "props": {"running": false, "load": 1}}`, name))
		for i := range 3 {
			b.clock.Set(start.Add(time.Duration(5*(i+1)) * time.Minute))
			b.write(t, fmt.Sprintf(`{"type": "pump", "id": "<7>/", "props": {"load": %d}}`, i))
		}
		a := says("/throttles", "throttled pump <7>/ pump-alert stopped:<7>/ 08:12:34 10:12:34 3 times", "throttled pump "+name)
		if !strings.Contains(get(t, h, "/").body, `href="/records/pump/%3C7%3E%2F"`) {
			t.Error("what was held back lately does not lead to its record")
		}
		if !strings.Contains(a.body, `href="/records/pump/%3C7%3E%2F"`) || !strings.Contains(a.body, `data-every="2000"`) {
			t.Errorf("no link to the record, or it does not live:\n%s", a.body)
		}
		says("/throttles?workflow=pump-alert", "pump <7>/")
		says("/throttles?workflow=visit", "Nothing of a workflow of that name")
		says("/records/pump/%3C7%3E%2F", "Throttles", "throttled pump-alert stopped:<7>/ 08:12:34 10:12:34 3 times", "Until 10:12:34",
			"record.running is false, record.load is 2 true")
		instance := regexp.MustCompile(`href="(/instances/i_[^"]*)"`).FindStringSubmatch(a.body)
		if instance == nil {
			t.Fatal("no link to what fired")
		}
		says(instance[1], "may fire again 10:12:34", "held back 3 times")

		b.clock.Set(start.Add(2 * time.Hour))
		says("/throttles", "free pump <7>/")
		b.settle(t)
		says("/throttles", "throttled pump <7>/ pump-alert stopped:<7>/ 10:12:34 12:12:34")
		if text := plain(get(t, h, instance[1]).body); strings.Contains(text, "may fire again") {
			t.Errorf("the throttle has fired again, and the earlier instance still shows it: %s", text)
		}
		b.apply(t, strings.Replace(pumps, "id: stopped", "id: still", 1))
		says("/throttles", "defined no more pump <7>/")
	})
}

// TestThrottlesInPages goes through all of 200 throttles, forth and back to the first.
func TestThrottlesInPages(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	b.apply(t, pumps)
	const n = 200
	records := make([]string, n)
	for i := range records {
		records[i] = fmt.Sprintf(`{"type": "pump", "id": "p %03d", "props": {"running": false, "load": 1}}`, i)
	}
	b.write(t, records...)
	h := b.handler(t, console.Deps{Guest: "default"})
	seen, pages := map[string]bool{}, 0
	var last string
	for path := "/throttles?workflow=pump-alert"; path != "" && pages < 10; pages++ {
		last = get(t, h, path).body
		for _, m := range regexp.MustCompile(`data-key="([^"]*)"`).FindAllStringSubmatch(last, -1) {
			seen[m[1]] = true
		}
		path = ""
		if m := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(last); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != n || pages != 4 {
		t.Errorf("%d rows on %d pages, want %d", len(seen), pages, n)
	}
	if !strings.Contains(last, `<a href="/throttles?workflow=pump-alert">First</a>`) || strings.Contains(last, "data-every") {
		t.Error("the last page does not lead to the first one of the same workflow, or it lives")
	}
}

func TestRunsPage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		h := b.handler(t, console.Deps{Guest: "default"})
		if text := plain(get(t, h, "/runs").body); !strings.Contains(text, "running reschedules messages to everybody begins") {
			t.Errorf("the limits of a workspace without people: %s", text)
		}
		if text := plain(get(t, h, "/runs?before=1").body); !strings.Contains(text, "No work over many rows was needed yet.") {
			t.Errorf("no runs: %s", text)
		}
		b.write(t, `{"type": "pump", "id": "1", "props": {"running": true}}`, `{"type": "pump", "id": "2", "props": {"running": true}}`)
		b.apply(t, pumps+"\n---\npersona: Manager\ncadence: {max_per_day: 3}\n")
		a := get(t, h, "/runs")
		wellFormed(t, "/runs", a.body)
		for _, want := range []string{"running evaluates records of pump begins", "running reschedules messages to Manager begins"} {
			if text := plain(a.body); !strings.Contains(text, want) {
				t.Errorf("does not say %q: %s", want, text)
			}
		}
		if !strings.Contains(a.body, "data-every") {
			t.Errorf("it does not live: %s", a.body)
		}
		b.settle(t)
		if a := get(t, h, "/runs"); !strings.Contains(plain(a.body), "done evaluates records of pump 2 of 2 08:12:34 08:12:34 set 2") || strings.Contains(a.body, "<progress") {
			t.Errorf("it is not done: %s", plain(a.body))
		}
		if text := plain(get(t, h, "/").body); strings.Contains(text, "Evaluates records") {
			t.Errorf("the overview still shows it: %s", text)
		}
		// What has failed needs a person, until they resume or cancel it.
		failed := job.New(b.ws.ID, job.Seed{Kind: job.Backfill, Subject: "valve"}, 2, b.clock.Now())
		if err := s.Write(t.Context(), func(tx *store.Tx) error {
			added, err := tx.AddJobs(failed.StartedAt, []job.Row{failed})
			if err == nil {
				failed = added[0]
				err = tx.SaveJobs(failed.StartedAt, failed.Fail(errors.New("the type is not defined"), failed.StartedAt))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		a = get(t, h, "/runs")
		wellFormed(t, "/runs", a.body)
		if text := plain(a.body); !strings.Contains(text, "the type is not defined carillon runs resume u_") || strings.Count(text, "carillon runs") != 1 {
			t.Errorf("the run that failed: %s", text)
		}
		if a := get(t, h, "/"); !strings.Contains(plain(a.body), "Needs attention: 1 failed run ") || !strings.Contains(a.body, `<a href="/runs">`) {
			t.Errorf("the overview does not show what failed: %s", plain(a.body))
		}
	})
}
