package api_test

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
)

// snapshot is every row of a database.
func snapshot(t *testing.T, url string) map[string][]string {
	t.Helper()
	driver, list := "sqlite", "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
	if strings.HasPrefix(url, "postgres") {
		driver, list = "pgx", "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables := map[string][]string{}
	for _, table := range rowsOf(t, db, list) {
		tables[table] = rowsOf(t, db, "SELECT * FROM "+table)
		slices.Sort(tables[table])
	}
	if len(tables) < 10 {
		t.Fatalf("found only %d tables", len(tables))
	}
	return tables
}

func rowsOf(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values, pointers := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Trim(fmt.Sprint(values), "[]"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever is beyond a bound is refused with a code, the place and a remedy, and nothing of it is done: the database is
// what it was before.
// Shows: C1, P1.
func TestLimits(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	list := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	squeezed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.String()
	}
	files := func(text string) string {
		raw, err := json.Marshal(map[string]any{"files": []client.File{{Name: "a.yaml", Text: text}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	good := `{"id":"good","kind":"signed-up","recipient":{"address":"good@example.org"}}`
	type headers map[string]string
	tests := []struct {
		name, method, path, body string
		headers                  headers
		status                   int
		code, field              string
	}{
		{"a body", "POST", "/v1/instances/forget", `{"key":"` + x(api.MaxBody) + `"}`, nil, 413, client.CodeTooLarge, "body"},
		{"a body of a batch", "POST", "/v1/events", `{"events":[` + good + `,{"kind":"` + x(api.MaxBatchBody) + `"}]}`, nil, 413, client.CodeTooLarge, "body"},
		{"a batch", "POST", "/v1/events", `{"events":[` + list(good, client.MaxEvents+1) + `]}`, nil, 422, client.CodeInvalidRequest, "body.events"},
		{"a compatible batch", "POST", "/api/Surveys/Triggers/ingest", `{"eventKind":"signed-up","items":[` + list(`{}`, ingest.MaxBatch+1) + `]}`, nil, 422, client.CodeInvalidRequest, "body.items"},
		{"files", "POST", "/v1/definitions", `{"files":[` + list(`{"name":"a.yaml","text":""}`, 2001) + `]}`, nil, 422, client.CodeInvalidRequest, "body.files"},
		{"the name of a file", "POST", "/v1/definitions", `{"files":[{"name":"` + x(1025) + `","text":""}]}`, nil, 422, client.CodeInvalidRequest, "body.files[0].name"},
		{"the length of an expression", "POST", "/v1/definitions", files(strings.Replace(definitions, "when: {field: candidate.jobType, op: is, value: GR}", "when: 'event.a == \""+x(4096)+"\"'", 1)), nil, 422, client.CodeDefinitions, ""},
		{"the length of a template", "POST", "/v1/definitions", files(strings.Replace(definitions, "Welcome, {{ event.name }}", x(300<<10), 1)), nil, 422, client.CodeDefinitions, ""},
		{"the size of a file", "POST", "/v1/definitions", files("# " + x(1<<20) + definitions), nil, 422, client.CodeDefinitions, ""},
		{"an event", "POST", "/v1/events", `{"kind":"signed-up","payload":{"a":"` + x(ingest.MaxEvent) + `"}}`, nil, 413, client.CodeTooLarge, "body"},
		{"the depth of an event", "POST", "/v1/events", `{"kind":"signed-up","payload":` + deep(ingest.MaxDepth) + `}`, nil, 422, client.CodeInvalidEvent, "body.payload" + strings.Repeat(".a", ingest.MaxDepth-1)},
		{"depth", "POST", "/v1/instances/forget", deep(40), nil, 400, client.CodeInvalidJSON, "body"},
		{"depth beyond the decoder", "POST", "/v1/events", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), nil, 400, client.CodeInvalidJSON, "body"},
		{"a key twice in an event", "POST", "/v1/events", `{"kind":"signed-up","payload":{"a":1,"a":2}}`, nil, 422, client.CodeInvalidEvent, "body.payload.a"},
		{"a key twice", "POST", "/v1/instances/forget", `{"key":"a","key":"b"}`, nil, 400, client.CodeInvalidJSON, "body"},
		{"a key twice beside the events", "POST", "/v1/events", `{"events":[` + good + `],"events":[]}`, nil, 422, client.CodeInvalidRequest, "body"},
		{"a kind", "POST", "/v1/events", `{"kind":"` + x(257) + `"}`, nil, 422, client.CodeInvalidEvent, "body.kind"},
		{"an id", "POST", "/v1/events", `{"kind":"signed-up","id":"` + x(257) + `"}`, nil, 422, client.CodeInvalidEvent, "body.id"},
		{"an address", "POST", "/v1/events", `{"kind":"signed-up","recipient":{"address":"` + x(257) + `"}}`, nil, 422, client.CodeInvalidEvent, "body.recipient.address"},
		{"a year", "POST", "/v1/events", `{"kind":"signed-up","occurred_at":"9999-01-01T00:00:00Z"}`, nil, 422, client.CodeInvalidEvent, "body.occurred_at"},
		{"U+0000", "POST", "/v1/events", `{"kind":"signed-up","payload":{"a":"\u0000"}}`, nil, 422, client.CodeInvalidEvent, "body.payload.a"},
		{"half a character", "POST", "/v1/events", `{"kind":"signed-up","payload":{"a":["\ud800"]}}`, nil, 422, client.CodeInvalidEvent, "body.payload.a[0]"},
		{"an event without anybody", "POST", "/v1/events", `{"kind":"signed-up"}`, nil, 422, client.CodeNoRecipient, "body.recipient"},
		{"the length of a key", "POST", "/v1/instances/forget", `{"key":"` + x(2001) + `"}`, nil, 422, client.CodeInvalidRequest, "body.key"},
		{"the length of a parameter", "GET", "/v1/deliveries?to=" + x(257), "", nil, 422, client.CodeInvalidRequest, "query.to"},
		{"a page", "GET", "/v1/deliveries?limit=501", "", nil, 422, client.CodeInvalidRequest, "query.limit"},
		{"a number", "GET", "/v1/deliveries?limit=99999999999999999999", "", nil, 422, client.CodeInvalidRequest, "query.limit"},
		{"path and query", "GET", "/v1/deliveries?to=" + x(api.MaxURL), "", nil, 414, client.CodeURITooLong, "query"},
		{"headers", "GET", "/v1/deliveries", "", headers{"X-Long": x(api.MaxHeaders)}, 431, client.CodeHeadersTooLarge, "header"},
		{"an encoding", "POST", "/v1/events", squeezed(good), headers{"Content-Encoding": "br"}, 415, client.CodeMediaType, "header.Content-Encoding"},
	}
	each(t, func(t *testing.T, b *bundle) {
		b.things(b.Client, "own", "")
		before := snapshot(t, b.url)
		for _, tt := range tests {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, b.app.URL()+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+b.key)
			for name, value := range tt.headers {
				req.Header.Set(name, value)
			}
			status, text := b.do(req)
			p := problemOf(t, text)
			if status != tt.status || p.Status != tt.status || p.Code != tt.code || p.Field != tt.field || p.Hint == "" {
				t.Errorf("%s: got %d %.400s; want %d %s at %s, with a hint", tt.name, status, text, tt.status, tt.code, tt.field)
			}
		}
		if diff := cmp.Diff(before, snapshot(t, b.url)); diff != "" {
			t.Errorf("refused requests changed the database (-before +after):\n%s", diff)
		}
	})
}
