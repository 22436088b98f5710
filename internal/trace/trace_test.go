package trace

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/reason"
)

// An instance stores how it was planned and its last three failures, each cut short if it is long.
func TestFailuresAreKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	trace := `{"planned":{"target":"2026-05-14"}}`
	for _, text := range []string{"first", "second", strings.Repeat("ä", 200), "last"} {
		trace = Failed(trace, errors.New(text), now)
	}
	want := `{"failures":[{"at":"2026-05-14T09:00:00Z","error":"second"},{"at":"2026-05-14T09:00:00Z","error":"` + strings.Repeat("ä", 150) +
		`…"},{"at":"2026-05-14T09:00:00Z","error":"last"}],"planned":{"target":"2026-05-14"}}`
	if trace != want {
		t.Errorf("got  %s\nwant %s", trace, want)
	}
	if got, want := Failed("no JSON", errors.New("x"), now), `{"failures":[{"at":"2026-05-14T09:00:00Z","error":"x"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The stored form of each kind of trace. People read it, and rows of earlier days have it.
func TestStoredForms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	people, iteration, metric := 2, 3, 12.0
	for want, trace := range map[string]Trace{
		`{"error":"x"}`: {Error: "x"},
		`{"key":"k","event_id":"e","received_at":"2026-05-14T09:00:00Z"}`:                                                                           {Key: "k", EventID: "e", Received: at},
		`{"workflow":"w","version":1,"trigger":"t","reason":"matched"}`:                                                                             {Workflow: "w", Version: 1, Trigger: "t", Reason: reason.Matched},
		`{"workflow":"w","version":1,"trigger":"t","reason":"value_missing","field":"event.a","clauses":[{"line":"event.a \u003e 1","met":false}]}`: {Workflow: "w", Version: 1, Trigger: "t", Reason: reason.ValueMissing, Field: "event.a", Clauses: []Clause{{Line: "event.a > 1"}}},
		`{"at":"2026-05-14T09:00:00Z","fired_at":"2026-05-14T09:00:00Z","cooldown":"1h","until":"2026-05-14T09:00:00Z","issues":["a"]}`:             {At: at, FiredAt: at, Cooldown: "1h", Until: at, Issues: []string{"a"}},
		`{"at":"2026-05-14T09:00:00Z","fired_at":"2026-05-14T09:00:00Z","until":"2026-05-14T09:00:00Z","reasons":["suppressed"]}`:                   {At: at, FiredAt: at, Until: at, Reasons: Reasons{Messages: []reason.Reason{reason.Suppressed}}},
		`{"at":"2026-05-14T09:00:00Z","people":2,"until":"2026-05-14T09:00:00Z","reasons":{"suppressed":2}}`:                                        {At: at, People: &people, Until: at, Reasons: Reasons{People: map[reason.Reason]int{reason.Suppressed: 2}}},
		`{"planned":{"due_at":"2026-05-14T09:00:00Z","iteration":3,"target":"2026-05-14","timezone":"UTC"}}`:                                        {Planned: &Planned{DueAt: at, Iteration: &iteration, Target: "2026-05-14", Zone: "UTC"}},
		`{"planned":{"target":"2026-05-14","offset":"-7d","timezone":"UTC","threshold":"x","metric":12}}`:                                           {Planned: &Planned{Target: "2026-05-14", Offset: "-7d", Zone: "UTC", Threshold: "x", Metric: &metric}},
		`{"at":"2026-05-14T09:00:00Z","version":1,"reason":"stale","step":1,"due":"2026-05-14T09:00:00Z","late":"2h0m0s","catch_up":"1h","zone":"UTC","limits":[{"limit":"max_per_day","used":1,"max":1}],"last":"daily"}`: {
			At: at, Version: 1, Reason: reason.Stale, Step: 1, Due: at, Late: "2h0m0s", CatchUp: "1h",
			Limits: Limits{Zone: "UTC", Limits: []Limit{{Limit: cadence.LimitMaxPerDay, Used: 1, Max: 1}}, Last: reason.CadenceDaily},
		},
	} {
		if got := trace.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if again, ok := Read(want); !ok || again.String() != want {
			t.Errorf("read and written again: %s, want %s", again, want)
		}
	}
}

// A trace keeps numbers as they are written, and names the value that decided against.
func TestWhatDecided(t *testing.T) {
	t.Parallel()
	const stored = `{"workflow":"w","reason":"condition_false","clauses":[{"line":"a","met":true,"field":"event.a","value":1},{"line":"b","met":false,"field":"event.b","value":12345678901234567890}]}`
	list, err := ReadList("[" + stored + "]")
	if err != nil || len(list) != 1 || list[0].String() != stored {
		t.Fatalf("%v, %v", list, err)
	}
	if got := list[0].Line(); got != "w condition_false (event.b is 12345678901234567890)" {
		t.Error(got)
	}
	if got := list[0].Sentence(); got != reason.ConditionFalse.Sentence()+" Event.b is 12345678901234567890." {
		t.Error(got)
	}
	for want, c := range map[string]Clause{
		`event.b is 5`:                   {Field: "event.b", Value: 5},
		`event.b is "(": missing ending`: {Field: "event.b", Value: "(", Detail: "missing ending"},
		`f: the function panicked`:       {Detail: "f: the function panicked"},
		``:                               {},
	} {
		if got := c.Says(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
