package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

const surveysBody = `{"eventKind":"service-visit-closed","items":[{"payload":{"wip":"40956","dealerId":"1","jobType":"GR",` +
	`"VIN":"JTMABBBJ2N4024400","CustomerName":"Kadhem Owaid"},"recipient":{"address":"+964 770 000 0001","locale":"ar","customerRef":"cust-123"}}]}`

// The other system's bodies, to the byte: created, the same again, filtered out, refused, all together.
// Shows: C1, C2, C11, C12, C13, C26.
func TestSurveysIngestBodies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		const path = "/api/Surveys/Triggers/ingest"
		var id string
		post := func(name, body, want string) {
			t.Helper()
			status, got := b.ask(http.MethodPost, path, body)
			if id == "" {
				var answer struct {
					Items []struct {
						Instances []struct{ PublicID string }
					}
				}
				if err := json.Unmarshal([]byte(got), &answer); err != nil {
					t.Fatalf("%s: %s", name, got)
				}
				id = answer.Items[0].Instances[0].PublicID
			}
			if want = strings.ReplaceAll(want, "$P", id); status != http.StatusOK || got != want {
				t.Errorf("%s: got %d\n%s\nwant\n%s", name, status, got, want)
			}
		}
		const instance = `"instances":[{"surveyId":4523,"triggerId":"csi-gr-trigger","publicId":"$P"}]`
		post("created", surveysBody, `{"created":1,"skipped":0,"failed":0,"items":[{"outcome":"Created",`+instance+`}]}`)
		post("the same again", surveysBody, `{"created":0,"skipped":1,"failed":0,"items":[{"outcome":"Skipped",`+instance+`}]}`)
		post("filtered out", strings.Replace(surveysBody, `"GR"`, `"PM"`, 1),
			`{"created":0,"skipped":0,"failed":0,"no_match":1,"items":[{"outcome":"NoMatch","instances":[]}]}`)
		post("refused", `{"eventKind":"service-visit-closed","items":[{"payload":[]},{"recipient":{"address":7}},"x"]}`,
			`{"created":0,"skipped":0,"failed":3,"items":[`+
				`{"outcome":"Failed","error":"payload: is not an object","instances":[]},`+
				`{"outcome":"Failed","error":"recipient.address: is not a text","instances":[]},`+
				`{"outcome":"Failed","error":"an event is a JSON object","instances":[]}]}`)
		post("nothing", `{"eventKind":"service-visit-closed","items":[]}`, `{"created":0,"skipped":0,"failed":0,"items":[]}`)
		if len(id) != 36 || strings.Count(id, "-") != 4 {
			t.Errorf("the public id is %q, not a GUID", id)
		}
		// Both forms of an id name the same thing.
		if d, err := b.Delivery(t.Context(), id); err != nil || d.Address != "+964 770 000 0001" {
			t.Errorf("by its GUID: %+v, %v", d, err)
		}
		status, got := b.ask(http.MethodPost, "/api/Surveys/Triggers/scheduler/tick", "")
		if want := `{"processed":1,"expired":0,"failed":0}`; status != http.StatusOK || got != want {
			t.Errorf("tick: got %d %s, want %s", status, got, want)
		}
	})
}

// An item may say when it happened; ours is the time of the request otherwise (decision 38).
func TestSurveysOccurredAt(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	body := strings.Replace(surveysBody, `"payload"`, `"occurredAt":"2026-05-14T05:00:00Z","unknown":{},"payload"`, 1)
	if status, text := b.ask(http.MethodPost, "/api/Surveys/Triggers/ingest", body); status != http.StatusOK || !strings.HasPrefix(text, `{"created":1,`) {
		t.Fatalf("got %d %s", status, text)
	}
	list, err := b.Deliveries(t.Context(), client.DeliveryQuery{})
	if err != nil || len(list.Items) != 1 || !list.Items[0].NotBefore.Equal(start.Add(-754*time.Second)) {
		t.Errorf("got %+v, %v", list.Items, err)
	}
}

func TestSurveysProblems(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	for body, field := range map[string]string{
		`{"items":[]}`:                           "body.eventKind",
		`{"eventKind":7,"items":[]}`:             "body.eventKind",
		`{"eventKind":"x"}`:                      "body.items",
		`{"eventKind":"x","items":{}}`:           "body.items",
		`{"eventKind":"x","items":[],"more":1}`:  "body",
		`{"eventKind":"x","items":[],"items":1}`: "body.items",
		`[]`:                                     "body",
	} {
		status, text := b.ask(http.MethodPost, "/api/Surveys/Triggers/ingest", body)
		if p := problemOf(t, text); status != http.StatusUnprocessableEntity || p.Field != field {
			t.Errorf("%s: got %d %s, want field %s", body, status, text, field)
		}
	}
}

// The worked example of the other system, over its own routes, with ticks at the instants of the data.
// Shows: C9, C11, C15, C19, C21, C25, C28.
func TestAcceptanceSurveysOverHTTP(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("CARILLON_ACCEPTANCE_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "acceptance")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "sources", "adp-csi-gr.json"))
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, b *bundle) {
		w := walkthrough{bundle: b}
		if err := json.Unmarshal(raw, &w.data); err != nil {
			t.Fatal(err)
		}
		w.run()
	})
}

type walkthrough struct {
	*bundle
	data struct {
		Timeline []struct {
			At time.Time
			Do []struct {
				Op   string
				Body json.RawMessage
			}
			Expect map[string]json.RawMessage
		}
		FilteredOut struct{ Body, Response json.RawMessage } `json:"filtered_out"`
	}
	body     json.RawMessage // of the last ingest, for "same"
	publicID string
}

func (w *walkthrough) run() {
	steps := 0
	for _, step := range w.data.Timeline {
		w.clock.Set(step.At)
		for _, do := range step.Do {
			var answer string
			switch do.Op {
			case "ingest":
				if string(do.Body) != `"same"` {
					w.body = do.Body
				}
				_, answer = w.ask(http.MethodPost, "/api/Surveys/Triggers/ingest", string(w.body))
			case "tick":
				_, answer = w.ask(http.MethodPost, "/api/Surveys/Triggers/scheduler/tick", "")
			case "submit":
				w.Logf("%s: not applicable: surveys have no pages yet", step.At.Format(time.RFC3339))
				continue
			default:
				w.Fatalf("unknown op %q", do.Op)
			}
			steps++
			w.check(step.At.Format(time.RFC3339), answer, step.Expect)
		}
	}
	_, answer := w.ask(http.MethodPost, "/api/Surveys/Triggers/ingest", string(w.data.FilteredOut.Body))
	w.check("filtered out", answer, map[string]json.RawMessage{"response": w.data.FilteredOut.Response})
	w.Logf("%d steps", steps+1)
}

func (w *walkthrough) check(at, answer string, expect map[string]json.RawMessage) {
	w.Helper()
	var got any
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		w.Fatalf("%s: %s", at, answer)
	}
	list, err := w.Deliveries(w.Context(), client.DeliveryQuery{Workflow: "csi-gr"})
	if err != nil {
		w.Fatal(err)
	}
	for name, raw := range expect {
		var want any
		if err := json.Unmarshal(raw, &want); err != nil {
			w.Fatal(err)
		}
		switch name {
		case "response":
			w.subset(at+" response", want, got)
		case "processed":
			w.subset(at, map[string]any{"processed": want}, got)
		case "rows":
			w.subset(at+" rows", want, float64(len(list.Items)))
		case "row", "row_fixed", "log":
			one, err := w.Delivery(w.Context(), list.Items[0].ID)
			if err != nil {
				w.Fatal(err)
			}
			w.subset(at+" "+name, want, surveysRow(one, name))
		default:
			w.Fatalf("%s: unknown expectation %q", at, name)
		}
	}
}

// surveysRow is a delivery in the other system's words.
func surveysRow(d client.DeliveryDetail, part string) any {
	instant := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.Format(time.RFC3339)
	}
	log := []any{}
	for _, a := range d.Attempts {
		log = append(log, map[string]any{"attempt": float64(a.Number), "status": a.Outcome})
	}
	if part == "log" {
		return log
	}
	status := d.Status
	if status == "scheduled" {
		status = "pending"
	}
	return map[string]any{
		"status": status, "next_send_at": instant(d.SendAt), "last_sent_at": instant(d.LastSentAt),
		"reminders_remaining": float64(d.RemindersRemaining), "attempts": float64(len(log)),
		"triggered_by": "event:service-visit-closed", "channel": d.Channel, "locale": d.Locale, "customer_ref": d.CustomerRef,
	}
}

// subset holds the fields that are expected against what came; lists must have the same length. $P is the first
// public id and stays the same.
func (w *walkthrough) subset(at string, want, got any) {
	w.Helper()
	switch want := want.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok {
			w.Errorf("%s: got %v, want %v", at, got, want)
			return
		}
		for name, value := range want {
			w.subset(at+"."+name, value, fields[name])
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			w.Errorf("%s: got %v, want %v", at, got, want)
			return
		}
		for i, value := range want {
			w.subset(fmt.Sprintf("%s[%d]", at, i), value, list[i])
		}
	default:
		if want == "$P" {
			if w.publicID == "" {
				w.publicID, _ = got.(string)
			}
			want = w.publicID
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("%s: got %v, want %v", at, got, want)
		}
	}
}
