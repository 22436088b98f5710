package api_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func zip(t *testing.T, text io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.Copy(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zeros is n bytes of blanks, which compress to a thousandth.
func zeros(n int64) io.Reader { return io.LimitReader(blanks{}, n) }

// padded is a batch of one event, size bytes long.
func padded(event string, size int) io.Reader {
	head, tail := `{"events":[`+event, "]}"
	return io.MultiReader(strings.NewReader(head), zeros(int64(size-len(head)-len(tail))), strings.NewReader(tail))
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	const some = "                                                                "
	for i := 0; i < len(p); i += len(some) {
		copy(p[i:], some)
	}
	return len(p), nil
}

// Shows: C53.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one request after another, of many MiB; TestBodiesInFlight sends such at the same time")
	b := setup(t, "sqlite")
	event := `{"kind": "signed-up", "id": "z1", "recipient": {"address": "z@example.org"}, "payload": {"name": "Zoe"}}`
	small := zip(t, strings.NewReader(event))
	tests := []struct {
		name, path string
		encoding   []string
		body       []byte
		status     int
		want       string // of the answer
	}{
		{"an event", "/v1/events", []string{"gzip"}, small, 200, `"created":1`},
		{"spelt otherwise", "/v1/events", []string{"X-GZip"}, small, 200, `"skipped":1`},
		{"in two members", "/v1/events", []string{"gzip"}, append(zip(t, strings.NewReader(event[:20])), zip(t, strings.NewReader(event[20:]))...), 200, `"skipped":1`},
		{"the compatible route", "/api/Surveys/Triggers/ingest", []string{"gzip"}, zip(t, strings.NewReader(`{"eventKind":"nothing","items":[]}`)), 200, `"created":0`},
		{"contacts", "/v1/contacts", []string{"gzip"}, zip(t, strings.NewReader(`{"contacts":[{"id":"zoe"}]}`)), 200, `"created":1`},
		{"records", "/v1/records", []string{"gzip"}, zip(t, strings.NewReader(`{"records":[{"type":"kiosk","id":"1"}]}`)), 200, `"created":1`},
		{"not gzip", "/v1/events", []string{"gzip"}, []byte(event), 400, client.CodeEncoding},
		{"cut off", "/v1/events", []string{"gzip"}, small[:len(small)-4], 400, client.CodeEncoding},
		{"nothing", "/v1/events", []string{"gzip"}, nil, 400, client.CodeEncoding},
		{"nothing inside", "/v1/events", []string{"gzip"}, zip(t, strings.NewReader("")), 400, client.CodeInvalidJSON},
		{"as large as is read", "/v1/events", []string{"gzip"}, zip(t, padded(event, api.MaxBatchBody)), 200, `"skipped":1`},
		{"a byte larger", "/v1/events", []string{"gzip"}, zip(t, padded(event, api.MaxBatchBody+1)), 413, client.CodeTooLarge},
		{"another encoding", "/v1/events", []string{"br"}, small, 415, client.CodeMediaType},
		{"twice", "/v1/events", []string{"gzip, gzip"}, small, 415, client.CodeMediaType},
		{"two headers", "/v1/events", []string{"gzip", "gzip"}, small, 415, client.CodeMediaType},
		{"a route of one thing", "/v1/instances/forget", []string{"gzip"}, zip(t, strings.NewReader(`{"key":"x"}`)), 415, client.CodeMediaType},
	}
	for _, test := range tests {
		status, text := b.zipped(test.path, test.body, test.encoding...)
		if status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s: got %d %s, want %d …%s…", test.name, status, text, test.status, test.want)
		}
	}
}

// What a compressed request is remembered by is what it holds.
func TestCompressedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	event := `{"kind": "signed-up", "id": "z1", "recipient": {"address": "z@example.org"}, "payload": {"name": "Zoe"}}`
	for i, body := range []string{string(zip(t, strings.NewReader(event))), event} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.app.URL()+"/v1/events", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+b.key)
		req.Header.Set(client.IdempotencyKey, "k")
		if i == 0 {
			req.Header.Set("Content-Encoding", "gzip")
		}
		if status, text := b.do(req); status != http.StatusOK || !strings.Contains(text, `"created":1`) {
			t.Errorf("got %d %s", status, text)
		}
	}
}

func (b *bundle) zipped(path string, body []byte, encoding ...string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.app.URL()+path, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.key)
	req.Header["Content-Encoding"] = encoding
	return b.do(req)
}

// What travels as a few hundred KiB and would become 256 MiB is given up at the limit. Reading up to the limit costs five
// times as much, as the buffer grows; the rest of the margin is what the process does besides.
func TestBombsCostTheLimit(t *testing.T) { // alone: it counts what this process allocates
	storetest.NotUnderRace(t, "it counts memory, of which the detector takes more; TestBodiesInFlight reads such bodies")
	b := setup(t, "sqlite")
	bomb := zip(t, zeros(256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, text := b.zipped("/v1/events", bomb, "gzip")
	runtime.ReadMemStats(&after)
	if status != http.StatusRequestEntityTooLarge || problemOf(t, text).Code != client.CodeTooLarge {
		t.Errorf("got %d %s", status, text)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 10*api.MaxBatchBody {
		t.Errorf("it cost %d MiB", used>>20)
	}
}
