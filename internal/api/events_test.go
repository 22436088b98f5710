package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
)

// One bad event fails no other one, and each keeps its place in the answer.
// Shows: C2, C11, C12, C13.
func TestPostEvents(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		const batch = `{"events": [
			{"id": "1", "kind": "signed-up", "payload": {"name": "Ada"}, "recipient": {"address": "ada@example.org"}},
			{"id": "2", "kind": "other"},
			{"id": "3", "knd": "signed-up"},
			{"id": "4", "kind": "signed-up", "kind": "signed-up"},
			"text",
			{"id": "1", "kind": "signed-up", "payload": {"name": "Ada"}, "recipient": {"address": "ada@example.org"}}
		]}`
		status, text := b.ask(http.MethodPost, "/v1/events", batch)
		if status != http.StatusOK {
			t.Fatalf("got %d %s", status, text)
		}
		var got client.EventsAnswer
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		type item struct{ outcome, reason, field string }
		var items []item
		for _, one := range got.Items {
			items = append(items, item{one.Outcome, one.Reason, one.Field})
		}
		want := []item{
			{"created", "", ""},
			{"no_match", "no_workflow", ""},
			{"failed", "invalid_event", "knd"},
			{"failed", "invalid_event", "kind"},
			{"failed", "invalid_event", ""},
			{"skipped", "duplicate", ""},
		}
		if diff := cmp.Diff(want, items, cmp.AllowUnexported(item{})); diff != "" {
			t.Errorf("items (-want +got):\n%s\n%s", diff, text)
		}
		if got.Created != 1 || got.Skipped != 1 || got.NoMatch != 1 || got.Failed != 3 {
			t.Errorf("got counts %+v", got)
		}
		first, again := got.Items[0], got.Items[5]
		if len(first.Instances) != 1 || len(first.Instances[0].Deliveries) != 1 || again.Instances[0].ID != first.Instances[0].ID || again.Event != "" {
			t.Errorf("got first %+v, again %+v", first, again)
		}
		d := first.Instances[0].Deliveries[0]
		if d.Channel != "inbox:default" || d.Status != "scheduled" {
			t.Errorf("got delivery %+v", d)
		}

		status, text = b.ask(http.MethodPost, "/v1/events", `{"id":"9","kind":"signed-up","recipient":{"address":"x@example.org"}}`)
		if status != http.StatusOK || !strings.HasPrefix(text, `{"created":1,`) {
			t.Errorf("one event without a list: got %d %s", status, text)
		}
	})
}

// What is answered is durable: it is read back by its id.
func TestGetEvent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		id, _, _ := b.post(b.Client, signedUp("e1"))
		got, err := b.Event(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got.Trace), `"reason":"matched"`) {
			t.Errorf("the trace is %s", got.Trace)
		}
		got.Trace = nil
		want := client.EventDetail{
			ID: id, ExtID: "e1", Kind: "signed-up", OccurredAt: start, ReceivedAt: start, Payload: json.RawMessage(`{"name":"Ada"}`),
			Recipient: &client.Recipient{Address: "e1@example.org", CustomerRef: "cust-e1"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A full batch is one request; one more is refused as a whole.
func TestPostEventsBounds(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	batch := func(n int) string {
		events := make([]string, n)
		for i := range events {
			events[i] = fmt.Sprintf(`{"id":"%d","kind":"other"}`, i)
		}
		return `{"events":[` + strings.Join(events, ",") + `]}`
	}
	status, text := b.ask(http.MethodPost, "/v1/events", batch(client.MaxEvents))
	if want := fmt.Sprintf(`"no_match":%d`, client.MaxEvents); status != http.StatusOK || !strings.Contains(text, want) {
		t.Errorf("got %d %.200s", status, text)
	}
	status, text = b.ask(http.MethodPost, "/v1/events", batch(client.MaxEvents+1))
	if status != http.StatusUnprocessableEntity || problemOf(t, text).Field != "body.events" {
		t.Errorf("got %d %s", status, text)
	}
	large := `{"events":[{"kind":"` + strings.Repeat("x", api.MaxBatchBody) + `"}]}`
	if status, text = b.ask(http.MethodPost, "/v1/events", large); status != http.StatusRequestEntityTooLarge || problemOf(t, text).Code != client.CodeTooLarge {
		t.Errorf("got %d %s", status, text)
	}
}

// What is wrong with a request is said with a code, where, and what to do, and no value is repeated.
func TestProblems(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	tests := []struct {
		name, method, path, body string
		status                   int
		code, field, detail      string
	}{
		{"no body", "POST", "/v1/events", "", 400, "invalid_json", "body", "the body is missing"},
		{"blank body", "POST", "/v1/events", " \n", 400, "invalid_json", "body", "the body is missing"},
		{"no JSON", "POST", "/v1/events", `{"events": [secret]}`, 400, "invalid_json", "body", "it is not valid JSON, at byte 13"},
		{"cut off", "POST", "/v1/events", `{"events": [`, 400, "invalid_json", "body", "it is not valid JSON, at byte 12"},
		{"text after", "POST", "/v1/events", `{"kind":"x"} secret`, 400, "invalid_json", "body", "it is not valid JSON, at byte 14"},
		{"a list", "POST", "/v1/events", `["secret"]`, 422, "invalid_request", "body", "it is not a JSON object"},
		{"no list", "POST", "/v1/events", `{"events":"secret"}`, 422, "invalid_request", "body.events", "it is not a list"},
		{"more keys", "POST", "/v1/events", `{"events":[],"secret":1}`, 422, "invalid_request", "body", "it holds more than events"},
		{"twice", "POST", "/v1/events", `{"events":[],"events":[]}`, 422, "invalid_request", "body", "it holds more than events"},
		{"no route", "GET", "/v1/secret", "", 404, "not_found", "", "there is no such route"},
		{"no instance", "GET", "/v1/instances/secret", "", 404, "not_found", "", "there is no such instance"},
		{"no record", "GET", "/v1/records/kiosk/secret", "", 404, "not_found", "", "there is no such record"},
		{"no record to change", "PATCH", "/v1/records/kiosk/secret", `{"closed": true}`, 404, "not_found", "", "there is no such record"},
		{"no contact", "POST", "/v1/contacts/secret/suppress", `{"reason": "x"}`, 404, "not_found", "", "there is no such contact"},
		{"no key", "POST", "/v1/instances/forget", `{"key":"secret"}`, 404, "not_found", "", "there is no such instance"},
		{"other method", "GET", "/v1/tick", "", 405, "method_not_allowed", "", "this route takes POST"},
		{"other methods", "PUT", "/v1/definitions", "", 405, "method_not_allowed", "", "this route takes GET and POST"},
		{"status", "GET", "/v1/instances?status=secret", "", 422, "invalid_request", "query.status", `expected value to be one of "pending, completed, deactivated, failed, cancelled, skipped"`},
		{"limit", "GET", "/v1/instances?limit=0", "", 422, "invalid_request", "query.limit", "expected number >= 1"},
		{"limit, text", "GET", "/v1/instances?limit=secret", "", 422, "invalid_request", "query.limit", "invalid integer"},
		{"unknown filter", "GET", "/v1/instances?secret=1", "", 422, "invalid_request", "query.secret", "unknown query parameter"},
		{"U+0000", "GET", "/v1/deliveries?to=%00", "", 422, "invalid_request", "query.to", "holds a character that no value has"},
		{"U+0000 in the path", "POST", "/v1/contacts/a%00/suppress", `{"reason": "x"}`, 422, "invalid_request", "path", "holds a character that no value has"},
		{"no UTF-8 in the path", "DELETE", "/v1/secrets/%ff", "", 422, "invalid_request", "path", "holds a character that no value has"},
		{"no UTF-8", "GET", "/v1/deliveries?to=%ff", "", 422, "invalid_request", "query.to", "holds a character that no value has"},
		{"no cursor", "GET", "/v1/deliveries?cursor=secret", "", 422, "invalid_request", "query.cursor", "it is not a cursor of this list"},
		{"a cursor that no row has", "GET", "/v1/throttles?cursor=AAo", "", 422, "invalid_request", "query.cursor", "it is not a cursor of this list"},
		{"a cursor without UTF-8", "GET", "/v1/throttles?cursor=_wo", "", 422, "invalid_request", "query.cursor", "it is not a cursor of this list"},
		{"forget without a body", "POST", "/v1/instances/forget", "", 400, "invalid_json", "body", "request body is required"},
		{"forget without a key", "POST", "/v1/instances/forget", `{}`, 422, "invalid_request", "body", "expected required property key to be present"},
		{"key twice", "POST", "/v1/instances/forget", `{"key":"secret","key":"x"}`, 400, "invalid_json", "body", "duplicate key in one object"},
		{"unknown key", "POST", "/v1/instances/forget", `{"key":"secret","more":1}`, 422, "invalid_request", "body.more", "unexpected property"},
		{"number", "POST", "/v1/instances/forget", `{"key":42}`, 422, "invalid_request", "body.key", "expected string"},
		{"deeper than the decoder goes", "POST", "/v1/events", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), 400, "invalid_json", "body", "it is nested deeper than 32 levels"},
		{"deep", "POST", "/v1/instances/forget", deep, 400, "invalid_json", "body", "it is nested deeper than 32 levels"},
		{"U+0000 in a text", "POST", "/v1/instances/forget", `{"key":"\u0000"}`, 400, "invalid_json", "body", "a text holds the character U+0000"},
		{"half a character", "POST", "/v1/instances/forget", `{"key":"\ud800"}`, 400, "invalid_json", "body", `key holds half of a surrogate pair: write a character beyond U+FFFF as two \u, or as itself`},
		{"no UTF-8 in a text", "POST", "/v1/instances/forget", "{\"key\":\"\xff\"}", 400, "invalid_json", "body", "the text is not valid UTF-8"},
		{"two values", "POST", "/v1/instances/forget", `{"key":"x"}{}`, 400, "invalid_json", "body", "there is more text after the JSON value"},
		{"too large", "POST", "/v1/instances/forget", `{"key":"` + strings.Repeat("x", api.MaxBody) + `"}`, 413, "request_too_large", "body", "the request is larger than 1 MiB"},
		{"no files", "POST", "/v1/definitions", `{"files":[]}`, 422, "invalid_request", "body.files", "expected array length >= 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, text := b.ask(tt.method, tt.path, tt.body)
			got := problemOf(t, text)
			want := client.Problem{
				Type: "urn:carillon:problem:" + tt.code, Title: http.StatusText(tt.status), Status: tt.status, Code: tt.code,
				Detail: tt.detail, Field: tt.field, Hint: got.Hint,
			}
			if diff := cmp.Diff(want, got); diff != "" || status != tt.status {
				t.Errorf("status %d (-want +got):\n%s", status, diff)
			}
			if strings.Contains(got.Detail+got.Hint, "secret") {
				t.Errorf("it repeats a value: %s", text)
			}
		})
	}
}

// Definitions that cannot be used are refused as a whole, with every fault.
func TestApplyDefinitions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		before, err := b.Definitions(t.Context())
		if err != nil || len(before.Definitions) != 5 || before.Number != 1 {
			t.Fatalf("got %+v, %v", before, err)
		}
		_, err = b.Apply(t.Context(), []client.File{
			{Name: "good.yaml", Text: "channel: memory:more\nprovider: memory\n"},
			{Name: "bad.yaml", Text: "channel: memory:bad\nprovder: memory\n"},
		})
		p, ok := err.(*client.Problem) //nolint:errorlint // the very value is meant
		if !ok || p.Status != http.StatusUnprocessableEntity || p.Code != client.CodeDefinitions || len(p.Problems) == 0 || p.Problems[0].File != "bad.yaml" {
			t.Fatalf("got %+v", err)
		}
		after, err := b.Definitions(t.Context())
		if diff := cmp.Diff(before, after); err != nil || diff != "" {
			t.Errorf("refused definitions changed something: %v\n%s", err, diff)
		}
		applied, err := b.Apply(t.Context(), []client.File{{Name: "good.yaml", Text: "channel: memory:more\nprovider: memory\n"}})
		want := client.Applied{Number: 2, Changes: []client.DefinitionChange{{Kind: "channel", Name: "memory:more", Version: 1, Action: "added"}}}
		if diff := cmp.Diff(want, applied); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// Pages follow one another without gap or repeat, newest first.
func TestPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		var want []string
		for i := range 7 {
			b.clock.Set(start.Add(time.Duration(i) * time.Second))
			_, _, d := b.post(b.Client, signedUp(fmt.Sprint(i)))
			want = append([]string{d}, want...)
		}
		var got []string
		pages := 0
		for cursor := ""; ; {
			page, err := b.Deliveries(t.Context(), client.DeliveryQuery{Limit: 3, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, d := range page.Items {
				got = append(got, d.ID)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
			t.Errorf("%d pages (-want +got):\n%s", pages, diff)
		}
		var all []string
		for one, err := range b.AllDeliveries(t.Context(), client.DeliveryQuery{Limit: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, one.ID)
		}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
		instances := 0
		for _, err := range b.AllInstances(t.Context(), client.InstanceQuery{Workflow: "welcome", Status: "completed", Limit: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			instances++
		}
		if instances != len(want) {
			t.Errorf("got %d instances", instances)
		}
		page, err := b.Deliveries(t.Context(), client.DeliveryQuery{To: "cust-3", Status: "scheduled", Channel: "inbox:default", Workflow: "welcome"})
		if err != nil || len(page.Items) != 1 || page.Items[0].Address != "3@example.org" {
			t.Errorf("got %+v, %v", page, err)
		}
	})
}

// A load balancer sees that the database does not answer; the failures hold no details.
func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		if status, text := b.askAs("", http.MethodGet, "/readyz", ""); status != http.StatusOK || text != "ok" {
			t.Errorf("got %d %s", status, text)
		}
		b.ask(http.MethodGet, "/v1/reasons", "") // the key is known from here on
		if err := b.app.Store().Close(); err != nil {
			t.Fatal(err)
		}
		if status, _ := b.askAs("", http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable {
			t.Errorf("got %d", status)
		}
		if status, _ := b.askAs("", http.MethodGet, "/healthz", ""); status != http.StatusOK {
			t.Errorf("got %d", status)
		}
		for _, path := range []string{"/v1/events", "/v1/tick"} {
			status, text := b.ask(http.MethodPost, path, `{"kind":"other"}`)
			if p := problemOf(t, text); status != http.StatusInternalServerError || p.Code != client.CodeInternal || strings.Contains(text, "sql") {
				t.Errorf("%s: got %d %s", path, status, text)
			}
		}
	})
}
