package ingest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

var now = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)

func TestParse(t *testing.T) {
	t.Parallel()
	got := Parse(json.RawMessage(`{"id": 7, "kind": "closed", "occurred_at": "2026-05-14T08:12:34.5+03:00",
		"payload": {"n": 1.50, "list": [true, null, "x"], "o": {"a": {}}}, "recipient": {"address": "+964 770", "locale": "ar", "customer_ref": 12}}`), now)
	want := Item{Event: subject.Event{
		ExtID: "7", Kind: "closed", OccurredAt: now.Add(500 * time.Millisecond), OccurredGiven: true, ReceivedAt: now,
		Payload: map[string]any{
			"n": json.Number("1.50"), "list": []any{true, nil, "x"}, "o": map[string]any{"a": map[string]any{}},
		},
		Recipient: &subject.Recipient{Address: "+964 770", Locale: "ar", CustomerRef: "12"},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Item{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := Parse(json.RawMessage(`{"kind": "a"}`), now); got.Err != nil || !got.Event.OccurredAt.Equal(now) || got.Event.OccurredGiven {
		t.Errorf("without an instant: %+v", got)
	}
}

// Outcomes come from sinks alone: a caller's event of such a kind is refused, as JSON and as a value. Kinds that look like them are taken.
func TestOutcomesAreNotPosted(t *testing.T) {
	t.Parallel()
	for _, kind := range definition.Outcomes() {
		raw := json.RawMessage(`{"id": "d_x", "kind": "` + kind + `", "payload": {"answers": {"rate": 1}}}`)
		for name, item := range map[string]Item{"posted": Parse(raw, now), "accepted": Accept(subject.Event{Kind: kind, OccurredAt: now, OccurredGiven: true}, now)} {
			if item.Err == nil || item.Err.Reason != reason.InvalidEvent || item.Err.Field != "kind" || !strings.Contains(item.Err.Message, kind) || item.Err.Hint == "" {
				t.Errorf("%s: %s: %v", kind, name, item.Err)
			}
		}
		if item := ParseOutcome(raw, now); item.Err != nil || item.Event.Kind != kind || item.Event.ExtID != "d_x" {
			t.Errorf("%s as an outcome: %+v, %v", kind, item.Event, item.Err)
		}
	}
	for _, kind := range []string{"response", "crm.response.completed", "delivery.failed.again", "delivery.arrived", "instance.started", "Response.Completed"} {
		if item := Parse(json.RawMessage(`{"kind": "`+kind+`"}`), now); item.Err != nil {
			t.Errorf("%s: %v", kind, item.Err)
		}
	}
	for _, wrong := range []string{`{"kind": "condition.met"}`, `{"kind": "response.completed", "recipient": {}}`, `{"kind": "response.completed", "id": "\n"}`} {
		if item := ParseOutcome(json.RawMessage(wrong), now); item.Err == nil {
			t.Errorf("an outcome was taken that is none: %s", wrong)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1)
	tests := []struct{ name, event, field, message string }{
		{"no object", `[]`, "", "an event is a JSON object"},
		{"no JSON", `{"kind": `, "kind", "is not valid JSON"},
		{"empty", ``, "", "is not valid JSON"},
		{"text behind", `{"kind": "a"} x`, "", "text after the event"},
		{"no kind", `{"id": "1"}`, "kind", "missing"},
		{"a kind of our own", `{"kind": "condition.met"}`, "kind", "the engine's own"},
		{"a key that is not known", `{"kind": "a", "knd": 1}`, "knd", "unknown key"},
		{"a doubled key", `{"kind": "a", "payload": {"x": {"y": 1, "y": 2}}}`, "payload.x.y", "is listed twice"},
		{"U+0000", `{"kind": "a", "payload": {"x": ["a\u0000"]}}`, "payload.x[0]", "U+0000"},
		{"U+0000 in a key", `{"kind": "a", "payload": {"x\u0000": 1}}`, "payload", "U+0000"},
		{"half a character", `{"kind": "a", "payload": {"x": ["\ud800"]}}`, "payload.x[0]", "half of a surrogate pair"},
		{"half a character in a key", `{"kind": "a", "payload": {"x": {"\udfff": 1}}}`, "payload.x", "half of a surrogate pair"},
		{"invalid UTF-8", "{\"kind\": \"a\xff\"}", "", "not valid UTF-8"},
		{"too deep", `{"kind": "a", "payload": ` + deep + `}`, "", "nested deeper"},
		{"a payload that is no object", `{"kind": "a", "payload": [1]}`, "payload", "is not an object"},
		{"an instant without a zone", `{"kind": "a", "occurred_at": "2026-05-14 05:12"}`, "occurred_at", "is not an instant"},
		{"an instant far away", `{"kind": "a", "occurred_at": "9999-05-14T05:12:00Z"}`, "occurred_at", "outside the years"},
		{"a recipient without anything", `{"kind": "a", "recipient": {"locale": "en"}}`, "recipient", "neither"},
		{"a recipient's unknown key", `{"kind": "a", "recipient": {"adress": "x"}}`, "recipient.adress", "unknown key"},
		{"an address of spaces", `{"kind": "a", "recipient": {"address": " \u00a0", "customer_ref": "c"}}`, "recipient.address", "blank"},
		{"a line separator in an address", `{"kind": "a", "recipient": {"address": "x\u2028@y"}}`, "recipient.address", "control"},
		{"a C1 control in an address", `{"kind": "a", "recipient": {"address": "x\u0085@y"}}`, "recipient.address", "control"},
		{"a header in an address", `{"kind": "a", "recipient": {"address": "x@y\r\nBcc: z@y"}}`, "recipient.address", "control"},
		{"a long id", `{"kind": "a", "id": "` + strings.Repeat("x", subject.MaxName+1) + `"}`, "id", "longer"},
		{"a kind that is a number", `{"kind": 5}`, "kind", "is not a text"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := Parse(json.RawMessage(test.event), now).Err
			if got == nil {
				t.Fatal("was taken")
			}
			if got.Reason != reason.InvalidEvent || !strings.Contains(got.Message, test.message) || test.field != "" && got.Field != test.field {
				t.Errorf("got %+v, want %s: …%s…", got, test.field, test.message)
			}
		})
	}
	if got := Parse(json.RawMessage(`{"kind": "a", "recipient": {"id": "ann"}}`), now).Err; got == nil || got.Field != "recipient.id" || got.Hint != "your id of the contact is customer_ref" {
		t.Errorf("the id of a contact: %+v", got)
	}
	if got := Parse(json.RawMessage(`{"kind": "`+strings.Repeat("x", MaxEvent)+`"}`), now).Err; got == nil || got.Reason != reason.RequestTooLarge {
		t.Errorf("too large: %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"kind": "a", "payload": {"x": [1, 2.5e3, null]}, "recipient": {"address": "a@b.c"}}`)
	f.Add(`{"kind": "a", "occurred_at": "2026-05-14T05:12:34Z", "id": 1e5}`)
	f.Fuzz(func(t *testing.T, text string) {
		item := Parse(json.RawMessage(text), now)
		if item.Err != nil {
			if item.Err.Message == "" || item.Err.Reason == "" {
				t.Fatalf("%q is refused without saying why: %+v", text, item.Err)
			}
			return
		}
		if !json.Valid([]byte(text)) || item.Event.Kind == "" {
			t.Fatalf("%q was taken as %+v", text, item.Event)
		}
		if stored, err := json.Marshal(item.Event.Payload); err != nil || strings.Contains(string(stored), `\u0000`) {
			t.Fatalf("%q cannot be stored: %s, %v", text, stored, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	event := json.RawMessage(`{"id": "e-1", "kind": "service-visit-closed", "payload": {"wip": "40956", "dealerId": "1", "jobType": "GR", "VIN": "JTMABBBJ2N4024400"},
		"recipient": {"address": "+964 770 000 0001", "locale": "ar", "customer_ref": "cust-123"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if Parse(event, now).Err != nil {
			b.Fatal("refused")
		}
	}
}
