package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

var received = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func load(t *testing.T, text string) *definition.Set {
	t.Helper()
	bundle, problems := loader.Load([]definition.File{{Name: "test.yaml", Text: []byte(text)}}, loader.Options{})
	if definition.HasErrors(problems) {
		t.Fatalf("refused: %v", problems)
	}
	return bundle.Set
}

const rest = `
audience:
  - to: event.recipient
channel: memory
message:
  sms:
    text: hi
`

func visit(payload map[string]any) subject.Event {
	return subject.Event{
		ExtID: "e-1", Kind: "visit", OccurredAt: received.Add(-time.Hour), OccurredGiven: true, ReceivedAt: received, Payload: payload,
		Recipient: &subject.Recipient{Address: "+964 770", Locale: "ar", CustomerRef: "c-1"},
	}
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, timing string
		want         string
		reason       reason.Reason
	}{
		{"the event by itself", "  offset: 2h", "2026-03-01T13:00:00Z", reason.Matched},
		{"an instant of the payload, days exact", "  anchor: event.at\n  offset: +1d", "2026-03-29T09:30:00Z", reason.Matched},
		{"a date is its morning in the workspace's zone", "  anchor: date(event.day)\n  offset: 0d", "2026-03-30T07:00:00Z", reason.Matched},
		{"days before a date stay in the morning over a change of the clocks", "  anchor: date(event.day)\n  offset: -2d", "2026-03-28T08:00:00Z", reason.Matched},
		{"hours before a date are exact", "  anchor: date(event.day)\n  offset: -2h", "2026-03-30T05:00:00Z", reason.Matched},
		{"a missing value", "  anchor: event.gone", "", reason.ValueMissing},
		{"a value that is no instant", "  anchor: event.text", "", reason.ExpressionFailed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			set := load(t, "workspace: default\ntimezone: Europe/Berlin\n---\nworkflow: w\ntype: reminder\ntriggers:\n  - id: t\n    event: visit\ntiming:\n"+test.timing+rest)
			got := plan.Event(set, visit(map[string]any{"at": "2026-03-28T09:30:00Z", "day": "2026-03-30", "text": "soon"}))
			if len(got) != 1 || got[0].Reason != test.reason {
				t.Fatalf("got %+v, want reason %s", got, test.reason)
			}
			if test.want != "" && got[0].NotBefore.Format(time.RFC3339) != test.want {
				t.Errorf("due %s, want %s", got[0].NotBefore.Format(time.RFC3339), test.want)
			}
		})
	}
}

// Shows: C5.
func TestLookup(t *testing.T) {
	t.Parallel()
	ev := visit(map[string]any{"wip": "7", "a.b": "flat", "a": map[string]any{"b": "deep", "c": json.Number("1.50")}, "null": nil})
	tests := []struct {
		path  string
		want  any
		found bool
	}{
		{"templateId", "4523", true},
		{"id", "e-1", true},
		{"kind", "visit", true},
		{"event.kind", "visit", true},
		{"occurred_at", "2026-03-01T11:00:00Z", true},
		{"recipient.address", "+964 770", true},
		{"recipient.customerRef", "c-1", true},
		{"recipient.customer_ref", "c-1", true},
		{"recipient.name", nil, false},
		{"candidate.wip", "7", true},
		{"event.wip", "7", true},
		{"wip", "7", true},
		{"candidate.a.b", "flat", true},
		{"candidate.a.c", json.Number("1.50"), true},
		{"candidate.a.c.d", nil, false},
		{"candidate.null", nil, true},
		{"candidate.gone", nil, false},
	}
	for _, test := range tests {
		got, found := plan.Lookup(ev, "4523", test.path)
		if found != test.found || !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %v, %t; want %v, %t", test.path, got, found, test.want, test.found)
		}
	}
}

// Shows: C2, C4, C14.
func TestTriggers(t *testing.T) {
	t.Parallel()
	set := load(t, `workflow: w
type: survey
ext_id: 4523
triggers:
  - id: disabled
    enabled: false
    event: visit
  - id: filtered
    event: visit
    when: event.jobType == "PM"
  - id: missing
    event: visit
    when: event.rate < 5
  - id: rejects
    event: visit
    dedup: [candidate.gone]
    dedup_missing: reject
  - id: allows
    event: visit
    dedup: [templateId, candidate.gone]
  - id: workspace
    event: visit
    dedup: [id]
    dedup_scope: workspace
`+rest)
	got := map[string]plan.Occasion{}
	for _, o := range plan.Event(set, visit(map[string]any{"jobType": "GR"})) {
		got[o.Trigger.ID] = o
	}
	reasons := map[string]reason.Reason{}
	for id, o := range got {
		reasons[id] = o.Reason
	}
	want := map[string]reason.Reason{
		"disabled": reason.TriggerDisabled, "filtered": reason.ConditionFalse, "missing": reason.ValueMissing,
		"rejects": reason.DedupMissing, "allows": reason.Matched, "workspace": reason.Matched,
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if o := got["missing"]; o.Field != "event.rate" {
		t.Errorf("the missing value is called %q", o.Field)
	}
	if o := got["allows"]; len(o.Missing) != 1 || o.Key != key.Event("survey", "w", key.Hash("templateId=4523\x1fcandidate.gone=")) {
		t.Errorf("allows: %+v", o)
	}
	if o := got["workspace"]; o.Key != key.Event("survey", key.AnyWorkflow, key.Hash("id=e-1")) {
		t.Errorf("workspace: %s", o.Key)
	}
	if plan.Event(set, subject.Event{Kind: "other"}) != nil {
		t.Error("another kind of event has occasions")
	}
}
