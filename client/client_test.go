package client_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

func serve(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL+"/", "car_key")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What travels is what the API's description says.
func TestRequest(t *testing.T) {
	t.Parallel()
	var got, body string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization"), string(raw)
		_, _ = io.WriteString(w, `{"created":1,"items":[{"outcome":"created","instances":[]}]}`)
	})
	answer, err := c.PostEvents(t.Context(), client.Event{
		Kind: "k", OccurredAt: time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC), Payload: map[string]any{"a": json.Number("1.10")},
		Recipient: &client.Recipient{CustomerRef: "c"},
	})
	if err != nil || answer.Created != 1 || answer.Items[0].Outcome != "created" {
		t.Errorf("got %+v, %v", answer, err)
	}
	if want := "POST /v1/events Bearer car_key"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := `{"events":[{"kind":"k","occurred_at":"2026-05-14T05:12:34Z","payload":{"a":1.10},"recipient":{"customer_ref":"c"}}]}`; body != want {
		t.Errorf("got %s, want %s", body, want)
	}
	if _, err := c.Deliveries(t.Context(), client.DeliveryQuery{To: "a b&c", Limit: 2, Status: "sent"}); err != nil || got != "GET /v1/deliveries?limit=2&status=sent&to=a+b%26c Bearer car_key" {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := c.CancelInstance(t.Context(), "a/../b"); err != nil || !strings.HasPrefix(got, "POST /v1/instances/a%2F..%2Fb/cancel ") {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	want := client.NewProblem(http.StatusConflict, "Conflict", client.CodeNotPossible, "it is sent")
	want.Hint = "wait"
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", client.ProblemType+"; charset=utf-8")
		w.WriteHeader(want.Status)
		_ = json.NewEncoder(w).Encode(want)
	})
	_, err := c.Tick(t.Context())
	var got *client.Problem
	if !errors.As(err, &got) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Error() != "it is sent (wait)" {
		t.Errorf("got %q", got.Error())
	}
}

// What does not come from a Carillon server is said to be so, with its status.
func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status       int
		kind, body   string
		code, errors string
	}{
		"a proxy's page":      {502, "text/html", "<h1>Bad Gateway</h1>", "unexpected_answer", "the answer does not come from a Carillon server"},
		"a broken problem":    {500, client.ProblemType, "{", "unexpected_answer", "the answer does not come from a Carillon server"},
		"a page with success": {200, "text/html", "<h1>Hello</h1>", "", "the answer is not what a Carillon server says"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			_, err := c.Reasons(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.errors) {
				t.Fatalf("got %v", err)
			}
			var p *client.Problem
			if errors.As(err, &p) != (tt.code != "") || p != nil && (p.Code != tt.code || p.Status != tt.status) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "127.0.0.1:8080", "ftp://x", "http://"} {
		if _, err := client.New(server, ""); err == nil {
			t.Errorf("%q was taken", server)
		}
	}
}

// The iterator stops when its reader has enough, and after an error.
func TestAll(t *testing.T) {
	t.Parallel()
	pages := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		pages++
		if r.URL.Query().Get("cursor") == "2" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, `{"items":[{"id":"a"},{"id":"b"}],"next_cursor":"2"}`)
	})
	for _, err := range c.AllInstances(t.Context(), client.InstanceQuery{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if pages != 1 {
		t.Errorf("read %d pages", pages)
	}
	items, failed := 0, 0
	for _, err := range c.AllInstances(t.Context(), client.InstanceQuery{}) {
		if err != nil {
			failed++
			continue
		}
		items++
	}
	if items != 2 || failed != 1 {
		t.Errorf("got %d items, %d errors", items, failed)
	}
}

// Large batches travel compressed, unless the server is on this machine.
func TestCompression(t *testing.T) {
	t.Parallel()
	var encoding string
	var size int64
	answer := func(w http.ResponseWriter, r *http.Request) {
		encoding, size = r.Header.Get("Content-Encoding"), r.ContentLength
		in := io.Reader(r.Body)
		if encoding == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
			}
			in = unzipped
		}
		var body struct{ Events []client.Event }
		if err := json.NewDecoder(in).Decode(&body); err != nil || len(body.Events) != 700 {
			t.Errorf("%d events, %v", len(body.Events), err)
		}
		_, _ = io.WriteString(w, "{}")
	}
	events := make([]client.Event, 700)
	for i := range events {
		events[i] = client.Event{Kind: "something-happened"}
	}
	for _, test := range []struct {
		options []client.Option
		want    string
	}{{nil, ""}, {[]client.Option{client.WithCompression(true)}, "gzip"}, {[]client.Option{client.WithCompression(false)}, ""}} {
		server := httptest.NewServer(http.HandlerFunc(answer))
		c, err := client.New(server.URL, "car_key", test.options...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.PostEvents(t.Context(), events...); err != nil || encoding != test.want || encoding != "" && size > 1000 {
			t.Errorf("sent as %q, %d bytes, %v", encoding, size, err)
		}
		server.Close()
	}
}

func TestTemporary(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: false, 401: false, 408: true, 409: false, 413: false, 422: false, 429: true, 500: false, 502: true, 503: true, 504: true} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if _, err := c.Tick(t.Context()); client.Temporary(err) != want {
			t.Errorf("%d: %v is temporary: %t", status, err, !want)
		}
	}
	cut := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := cut.Tick(t.Context()); !client.Temporary(err) {
		t.Errorf("cut off: %v", err)
	}
	nobody, err := client.New("http://127.0.0.1:1", "car_key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.Tick(t.Context()); !client.Temporary(err) {
		t.Errorf("nobody there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nobody.Tick(ctx); client.Temporary(err) {
		t.Errorf("given up: %v", err)
	}
}
