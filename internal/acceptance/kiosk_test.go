package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
)

func kioskFiles() []file {
	return []file{{name: "hypertext-kiosk-evaluator.json", run: kioskEvaluator, tried: many, wants: []string{"cases[*].issues.**", "cases[*].context"}, notes: []string{
		"cases[4].override.heartbeat_age_s", // any age from five minutes on
	}}}
}

// Which issues a kiosk has, and by which context they are known.
//
// Shows: A15, A25, A26, A27.
func TestKioskEvaluator(t *testing.T) { run(t, "hypertext-kiosk-evaluator.json") }

// kioskEvaluator writes each kiosk of the data through the API, a day after the one before so that no cooldown runs, with
// the example's definitions, and reads what looking at it makes.
func kioskEvaluator(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	w := newWorld(t, open(), kioskExample(t))
	w.must("PUT", "/v1/contacts/alice", map[string]any{"persona": "Manager", "addresses": map[string]any{"email": "alice@example.org"}})
	w.At(enginetest.Start)
	for i, c := range data["cases"].([]any) {
		c := c.(map[string]any)
		now := enginetest.Start.AddDate(0, 0, i)
		w.Clock.Set(now)
		w.must("PUT", "/v1/records/kiosk/123", map[string]any{"props": kiosk(t, now, data["healthy"], c["override"])})
		w.At(now)
		issues, context := []any{}, any(nil)
		for _, e := range w.Journal() {
			if e.What != journal.Created {
				continue
			}
			context = e.Context
			row := w.Instance(e.Instance)
			events, err := w.Store.EventsByID(w.Context(), []store.EventRef{{Workspace: w.Workspace.ID, ID: row.Event}})
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				issues = ev.Payload["issues"].([]any)
			}
		}
		where := fmt.Sprintf("case %d, %v", i, c["override"])
		o.begin(where)
		o.equal(where+": issues", c["issues"], issues, nil)
		o.equal(where+": context", c["context"], context, nil)
	}
	return o
}

// kioskExample is the example of the documentation.
func kioskExample(t testing.TB) string {
	t.Helper()
	var all []string
	for _, name := range []string{"kiosk-health", "templates", "record-types"} {
		text, err := os.ReadFile("../../examples/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	all = append(all, "channel: email\nprovider: memory\n", "channel: sms:twilio\nprovider: memory\n", "persona: Manager\ncadence: {cooldown: 2h, max_per_day: 5}\n")
	return strings.Join(all, "\n---\n")
}

// kiosk is a healthy one with what a case changes; the age of the last heartbeat is counted from now.
func kiosk(t testing.TB, now time.Time, healthy, override any) map[string]any {
	t.Helper()
	props := map[string]any{"name": "Lobby", "project_id": 45}
	for _, fields := range []any{healthy, override} {
		for name, value := range fields.(map[string]any) {
			props[name] = value
			if name != "heartbeat_age_s" {
				continue
			}
			delete(props, name)
			delete(props, "last_heartbeat_at")
			if value != nil {
				age, ok := value.(json.Number)
				if !ok {
					t.Fatalf("a heartbeat of %v", value)
				}
				seconds, err := age.Int64()
				if err != nil {
					t.Fatal(err)
				}
				props["last_heartbeat_at"] = now.Add(-time.Duration(seconds) * time.Second).Format(time.RFC3339)
			}
		}
	}
	return props
}

// must sends a body that is to be accepted.
func (w *world) must(method, path string, body any) {
	w.Helper()
	if status, answer := w.send(method, path, body); status != http.StatusOK && status != http.StatusCreated {
		w.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
}
