package httpchan_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
)

func open(t *testing.T, url, token string) channel.Channel {
	t.Helper()
	client := outbound.New(outbound.Options{
		Policy: outbound.Policy{Allow: outbound.Loopback()}, Timeout: time.Minute,
	})
	t.Cleanup(client.Close)
	ch, err := httpchan.Provider(client).Open(map[string]string{"url": url, "token": token})
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func outgoing() channel.Outgoing {
	return channel.Outgoing{
		DeliveryID: "d_1", IdempotencyKey: "key-1", Address: "+964 770 000 0001", Locale: "ar", Subject: "Hello",
		Text: "How was <it>?", Link: "https://x.test/s/1", Step: 2, Attempt: 3,
		Metadata: map[string]string{"ward": "3", "campaign": "spring"},
	}
}

// Shows: C42, C43.
func TestSendRequest(t *testing.T) {
	t.Parallel()
	var header http.Header
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		_, _ = io.WriteString(w, `{"id":"msg-1"}`)
	}))
	t.Cleanup(server.Close)
	receipt, err := open(t, server.URL, "secret").Send(t.Context(), outgoing())
	if err != nil || receipt.ProviderID != "msg-1" {
		t.Fatalf("got %v, error %v", receipt, err)
	}
	want := `{"id":"d_1","idempotency_key":"key-1","to":"+964 770 000 0001","locale":"ar","subject":"Hello",` +
		`"text":"How was \u003cit\u003e?","link":"https://x.test/s/1","step":2,"attempt":3,"metadata":{"campaign":"spring","ward":"3"}}`
	if body != want {
		t.Errorf("got body\n%s\nwant\n%s", body, want)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": "key-1", "Authorization": "Bearer secret", "Content-Type": "application/json",
		"User-Agent": "carillon",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
}

// Shows: C46.
func TestSendAnswers(t *testing.T) {
	t.Parallel()
	const date = "Thu, 14 May 2026 05:12:34 GMT"
	tests := []struct {
		name       string
		status     int
		header     map[string]string
		body       string
		id         string
		reason     reason.Reason // empty = accepted
		retryAfter time.Duration
		text       string // of the error
	}{
		{name: "ok", status: 200, body: `{"id":"a"}`, id: "a"},
		{name: "accepted without id", status: 202},
		{name: "number as id", status: 201, body: `{"id": 42}`, id: "42"},
		{name: "answer that is no JSON", status: 200, body: "fine"},
		{name: "id that is an object", status: 200, body: `{"id":{}}`},
		{name: "id with a line break", status: 200, body: `{"id":"a\nb"}`},
		{name: "id too long", status: 200, body: `{"id":"` + strings.Repeat("x", 201) + `"}`},
		{name: "bad request", status: 400, reason: reason.PermanentError, text: "the endpoint answered 400 Bad Request"},
		{
			name: "bad request with its cause", status: 400, body: `{"error":"unknown subscriber"}`, reason: reason.PermanentError,
			text: `the endpoint answered 400 Bad Request: {"error":"unknown subscriber"}`,
		},
		{
			name: "what is secret and whom it was for", status: 422, body: "token hunter2 may not write to +964 770 000 0001: POST /in/42 refused",
			reason: reason.PermanentError, text: "the endpoint answered 422 Unprocessable Entity: token *** may not write to ***: POST *** refused",
		},
		{name: "gone", status: 410, reason: reason.PermanentError},
		{name: "redirect", status: 307, header: map[string]string{"Location": "/other"}, reason: reason.PermanentError},
		{name: "timeout", status: 408, reason: reason.TemporaryError},
		{
			name: "too many", status: 429, header: map[string]string{"Retry-After": "90"},
			reason: reason.TemporaryError, retryAfter: 90 * time.Second,
		},
		{
			name: "too many until a date", status: 429,
			header: map[string]string{"Retry-After": "Thu, 14 May 2026 05:22:34 GMT", "Date": date},
			reason: reason.TemporaryError, retryAfter: 10 * time.Minute,
		},
		{
			name: "a wish that cannot be read", status: 503, header: map[string]string{"Retry-After": "soon"},
			reason: reason.TemporaryError,
		},
		{
			name: "a wish in the past", status: 503, header: map[string]string{"Retry-After": "-5"},
			reason: reason.TemporaryError,
		},
		{
			name: "a wish beyond the bound", status: 503, header: map[string]string{"Retry-After": "999999999"},
			reason: reason.TemporaryError, retryAfter: 24 * time.Hour,
		},
		{
			name: "server error", status: 500, body: "Authorization: Bearer hunter2\r\n", reason: reason.TemporaryError,
			text: "the endpoint answered 500 Internal Server Error: Authorization: ***",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			t.Cleanup(server.Close)
			receipt, err := open(t, server.URL+"/in/42", "hunter2").Send(t.Context(), outgoing())
			if tt.reason == "" {
				if err != nil || receipt.ProviderID != tt.id {
					t.Errorf("got id %q, error %v, want id %q", receipt.ProviderID, err, tt.id)
				}
				return
			}
			var refused *channel.SendError
			if !errors.As(err, &refused) {
				t.Fatalf("got error %v", err)
			}
			if refused.Reason != tt.reason || refused.Retry != (tt.reason == reason.TemporaryError) ||
				refused.Unknown || refused.RetryAfter != tt.retryAfter {
				t.Errorf("got %+v", refused)
			}
			if tt.text != "" && refused.Err.Error() != tt.text {
				t.Errorf("got %q, want %q", refused.Err, tt.text)
			}
		})
	}
}

func TestSendConnections(t *testing.T) {
	t.Parallel()
	const closed = "127.0.0.1:1" // nobody is given a port below 1024
	tests := []struct {
		name    string
		address string
		reason  reason.Reason
		unknown bool
	}{
		{name: "refused", address: closed, reason: reason.TemporaryError},
		{
			name: "dropped after the request", reason: reason.ReplyLost, unknown: true,
			address: listener(t, func(conn net.Conn) {
				_, _ = conn.Read(make([]byte, 4096))
			}),
		},
		{
			name: "dropped inside the answer's head", reason: reason.ReplyLost, unknown: true,
			address: listener(t, func(conn net.Conn) {
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-")
			}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := open(t, "http://"+tt.address, "").Send(t.Context(), outgoing())
			var refused *channel.SendError
			if !errors.As(err, &refused) || refused.Reason != tt.reason || refused.Unknown != tt.unknown || !refused.Retry {
				t.Errorf("got %+v (%v)", refused, err)
			}
		})
	}
}

// An answer that begins with 2xx and breaks off afterwards is an acceptance: the status says so.
func TestSendAcceptedThenDropped(t *testing.T) {
	t.Parallel()
	address := listener(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\n{\"id\":")
	})
	if _, err := open(t, "http://"+address, "").Send(t.Context(), outgoing()); err != nil {
		t.Errorf("got %v", err)
	}
}

// listener serves each connection with serve.
func listener(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "ftp://x.test", "http://", "https://u:p@x.test", "://"} {
		_, err := httpchan.Provider(nil).Open(map[string]string{"url": url})
		if err == nil || !strings.HasPrefix(err.Error(), "setting url: ") {
			t.Errorf("%q: got %v", url, err)
		}
	}
}

// The body's shape is what users' endpoints rely on.
func TestBodyLeavesOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(httpchan.Body{ID: "d", IdempotencyKey: "k", To: "x", Text: "t", Step: 1, Attempt: 1})
	want := `{"id":"d","idempotency_key":"k","to":"x","text":"t","step":1,"attempt":1}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, error %v, want %s", got, err, want)
	}
}
