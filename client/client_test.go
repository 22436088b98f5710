package client_test

import (
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
