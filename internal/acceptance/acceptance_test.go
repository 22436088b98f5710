// Package acceptance holds the product against the facts of the systems that it replaces: walkthroughs, tables and
// worked examples, as data in testdata/acceptance or in the folder that CARILLON_ACCEPTANCE_DIR names.
//
// An adapter turns a case into calls of the real product and reads the expectation only afterwards; it computes
// nothing of what it checks. TestAcceptanceBites shows that nothing that the data expects goes uncompared.
package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// folder is where the data lies.
func folder() string {
	if dir := os.Getenv("CARILLON_ACCEPTANCE_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "testdata", "acceptance")
}

// read decodes a file of the sources; numbers stay as they are written.
func read(t testing.TB, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder(), "sources", name))
	if err != nil {
		t.Fatal(err)
	}
	return object(t, text)
}

func object(t testing.TB, text []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// outcome is what a file's adapter found.
type outcome struct {
	cases   []found
	waiting []string // cases of features that have no page yet, each with the reason
}

// found is one case, known by its id, and where the product differs from it.
type found struct {
	id    string
	diffs []string
}

// begin begins a case. What differs from here on belongs to it.
func (o *outcome) begin(id string) { o.cases = append(o.cases, found{id: id}) }

func (o *outcome) differ(format string, args ...any) {
	if len(o.cases) == 0 {
		o.begin("before the first case")
	}
	c := &o.cases[len(o.cases)-1]
	c.diffs = append(c.diffs, fmt.Sprintf(format, args...))
}

// diffs are those of all cases.
func (o *outcome) diffs() (all []string) {
	for _, c := range o.cases {
		all = append(all, c.diffs...)
	}
	return all
}

// equal notes a difference between what a case wants and what the product did. A want of the form $NAME is bound
// to the first value it meets; objects are compared by the fields that the case names.
func (o *outcome) equal(where string, want, got any, bound map[string]any) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			o.differ("%s: got %v, want an object", where, got)
			return
		}
		for name := range w {
			o.equal(where+"."+name, w[name], g[name], bound)
		}
		return
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			o.differ("%s: got %v, want %v", where, got, want)
			return
		}
		for i := range w {
			o.equal(fmt.Sprintf("%s[%d]", where, i), w[i], g[i], bound)
		}
		return
	case string:
		if name, ok := strings.CutPrefix(w, "$"); ok {
			if _, ok := bound[name]; !ok {
				bound[name] = got
			}
			want = bound[name]
		}
	}
	if !reflect.DeepEqual(want, got) {
		o.differ("%s: got %v, want %v", where, got, want)
	}
}

// world is the product as a caller meets it: the HTTP API over the engine, on a clock that the case sets.
type world struct {
	*enginetest.Bundle
	handler http.Handler
	key     string
}

func newWorld(t testing.TB, s *store.Store, definitions string) *world {
	t.Helper()
	b := enginetest.Setup(t, s, definitions, func(c *engine.Config) { c.Definitions.Functions = customCriteria() })
	w := &world{Bundle: b, key: app.NewKey()}
	w.handler = api.New(api.Deps{
		Store: s, Engine: app.Operations(b.Engine), Clock: b.Clock, Log: slog.New(slog.DiscardHandler), Version: "test",
	})
	err := s.CreateKey(t.Context(), store.APIKey{
		ID: s.NewID(enginetest.Start), Workspace: b.Workspace.ID, Name: "acceptance", Hash: api.HashKey(w.key), Scopes: []string{"admin"}, CreatedAt: enginetest.Start,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// post sends a body and returns the status and the decoded answer.
func (w *world) post(path string, body any) (int, map[string]any) {
	w.Helper()
	return w.send(http.MethodPost, path, body)
}

// send sends a request; a body of nil is none.
func (w *world) send(method, path string, body any) (int, map[string]any) {
	w.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			w.Fatal(err)
		}
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(text))
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer.Code, object(w, answer.Body.Bytes())
}

const (
	ingestPath = "/api/Surveys/Triggers/ingest"
	tickPath   = "/api/Surveys/Triggers/scheduler/tick"
)

func (w *world) tick() map[string]any {
	w.Helper()
	status, answer := w.post(tickPath, map[string]any{})
	if status != http.StatusOK {
		w.Fatalf("tick: %d %v", status, answer)
	}
	return answer
}

// rows are all deliveries, oldest first.
func (w *world) rows() []delivery.Row {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows
}

// their words for ours (README of the data).
func theirStatus(s delivery.Status, words string) string {
	if s == delivery.Scheduled && words != "ours" {
		return "pending"
	}
	return string(s)
}

func instant(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Format(time.RFC3339)
}

// row is a delivery in the source's words. The source's log holds only what a channel answered: an attempt that
// broke down leaves no entry there (product decision 33).
func (w *world) row(d delivery.Row) map[string]any {
	return map[string]any{
		"status": theirStatus(d.Status, ""), "next_send_at": instant(d.SendAt), "last_sent_at": instant(d.LastSentAt),
		"reminders_remaining": json.Number(fmt.Sprint(d.RemindersRemaining)), "attempts": json.Number(fmt.Sprint(len(w.log(d)))),
	}
}

func (w *world) log(d delivery.Row) []any {
	entries := []any{}
	for _, a := range w.Attempts(d.ID) {
		status := string(a.Outcome)
		switch {
		case a.Reason == "send_threw":
			continue
		case a.Outcome == delivery.AttemptNone:
			status = strings.ReplaceAll(string(a.Reason), "_", "-")
		}
		entries = append(entries, map[string]any{"attempt": json.Number(fmt.Sprint(a.Number)), "status": status})
	}
	return entries
}

func at(t testing.TB, v any) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, fmt.Sprint(v))
	if err != nil {
		t.Fatal(err)
	}
	return instant
}

// adapter runs the cases of one file on one store.
type adapter func(t testing.TB, open func() *store.Store, data map[string]any) outcome

// file is one file with its adapter.
type file struct {
	name  string
	run   adapter
	wants []string                        // where its expectations stand; all the rest is what the adapter is given
	notes []string                        // leaves that say nothing about the product: notes, names, sources, and what the case leaves open
	row   func(testing.TB) map[string]any // reads the row of a file that has one in each line; nil: it is a file of sources
	typed bool                            // its expectations cannot be changed to texts
	quick adapter                         // finds a part of what run finds, without a database; nil: there is no such part
	tried int                             // of what it is given, how many leaves each run of the tests changes; 0: usual
}

func (f file) read(t testing.TB) map[string]any {
	t.Helper()
	if f.row != nil {
		return f.row(t)
	}
	return read(t, f.name)
}

// dig goes down a path of keys and indices to an object.
func dig(v any, path ...any) map[string]any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v.(map[string]any)
}

// allFiles are the files that run.
func allFiles() []file {
	return slices.Concat(adpFiles(), kioskFiles(), hypertextFiles(), automationFiles(), commcareFiles(), govFiles())
}

// unbuilt are the files that wait for a feature.
func unbuilt() map[string]string {
	return map[string]string{}
}

// run runs the file of that name on both databases. Each case is a subtest that is named by its id.
func run(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	at := slices.IndexFunc(allFiles(), func(f file) bool { return f.name == name })
	if at < 0 {
		t.Fatalf("no adapter for %s", name)
	}
	f := allFiles()[at]
	for _, database := range storetest.EveryDatabase(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			open := func() *store.Store { return storetest.Open(t, storetest.URL(t, database)) }
			got := f.run(t, open, read(t, f.name))
			t.Logf("%s on %s: %d cases run, %d waiting for their feature", f.name, database, len(got.cases), len(got.waiting))
			for _, w := range got.waiting {
				t.Logf("  waiting: %s", w)
			}
			for _, c := range got.cases {
				t.Run(c.id, func(t *testing.T) {
					for _, d := range c.diffs {
						t.Error(d)
					}
				})
			}
			if len(got.cases) == 0 {
				t.Error("no case was run")
			}
		})
	}
}

// TestAcceptanceFiles demands that each file of the data is run or waits for a feature that is named.
func TestAcceptanceFiles(t *testing.T) {
	t.Parallel()
	known := unbuilt()
	for name, feature := range known {
		t.Logf("%s waits for: %s", name, feature)
	}
	for _, f := range allFiles() {
		if known[f.name] != "" {
			t.Errorf("%s is run, and listed as one that waits", f.name)
		}
		known[f.name] = "run"
	}
	entries, err := os.ReadDir(filepath.Join(folder(), "sources"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if known[e.Name()] == "" {
			t.Errorf("%s is neither run nor listed as one that waits for a feature", e.Name())
		}
		delete(known, e.Name())
	}
	for name := range known {
		if os.Getenv("CARILLON_ACCEPTANCE_DIR") == "" { // another folder may hold fewer
			t.Errorf("there is no %s", name)
		}
	}
}
