package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
)

func secret(fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

// open makes a sink that may reach this machine.
func open(t *testing.T, settings map[string]string) sink.Sink {
	t.Helper()
	return openWith(t, outbound.Options{}, settings)
}

// openWith makes a sink on the machine's time, which receivers compare timestamps with.
func openWith(t *testing.T, o outbound.Options, settings map[string]string) sink.Sink {
	t.Helper()
	o.Policy.Allow = outbound.Loopback()
	client := outbound.New(o)
	t.Cleanup(client.Close)
	s, err := Provider(client, &clock.System{}).Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func message() sink.Message {
	return sink.Message{
		ID: "d_2b5k", Type: "response.completed", At: time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC), Group: "d_2b5k",
		Body: []byte(`{"specversion":"1.0","id":"d_2b5k","type":"response.completed","data":{"answers":{"rate":3}}}`),
	}
}

type seen struct {
	header http.Header
	body   []byte
}

// receiver is a real server that keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

func (r *receiver) seen() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// serve starts a receiver whose nth request, from 1, is answered by answer, after its body was read.
func serve(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rec := &receiver{}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the body broke off: %v", err)
		}
		rec.mu.Lock()
		rec.requests = append(rec.requests, seen{r.Header.Clone(), body})
		n := len(rec.requests)
		rec.mu.Unlock()
		answer(n, w, r)
	}))
	t.Cleanup(rec.Close)
	return rec
}

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func verifies(t *testing.T, secret string, r seen) bool {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Verify(r.body, r.header) == nil
}

// failure returns the *sink.Error of a Send that must fail.
func failure(t *testing.T, err error) *sink.Error {
	t.Helper()
	var failed *sink.Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want an error of the sink", err)
	}
	return failed
}

// A receiver with the standard's own library accepts what is signed with its secret, the old one included, and nothing else.
//
// Shows: C37, C50.
func TestSendIsSigned(t *testing.T) {
	t.Parallel()
	rec := serve(t, status(http.StatusAccepted))
	if err := open(t, map[string]string{"url": rec.URL + "/hook", "secret": secret(1), "old_secret": secret(2)}).Send(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	if err := open(t, map[string]string{"url": rec.URL + "/hook", "secret": secret(1)}).Send(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	for i, r := range rec.seen() {
		if !verifies(t, secret(1), r) || verifies(t, secret(2), r) != (i == 0) || verifies(t, secret(3), r) {
			t.Errorf("request %d: the signatures %q do not fit the secrets", i, r.header.Get("webhook-signature"))
		}
		if r.header.Get("Content-Type") != "application/cloudevents+json" || r.header.Get("webhook-id") != "d_2b5k" || !bytes.Equal(r.body, message().Body) {
			t.Errorf("got %v\n%s", r.header, r.body)
		}
		r.body = append([]byte(" "), r.body...)
		if verifies(t, secret(1), r) {
			t.Error("a changed body verifies")
		}
	}
}

// Shows: C50.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const date = "Thu, 14 May 2026 05:12:34 GMT"
	tests := []struct {
		status int
		header map[string]string
		retry  sink.Retry // empty: accepted
		after  time.Duration
	}{
		{status: 200},
		{status: 201},
		{status: 202},
		{status: 204},
		{status: 299},
		{status: 301, header: map[string]string{"Location": "/other"}, retry: sink.Permanent},
		{status: 304, retry: sink.Permanent},
		{status: 307, header: map[string]string{"Location": "/other"}, retry: sink.Permanent},
		{status: 400, retry: sink.Permanent},
		{status: 401, retry: sink.Permanent},
		{status: 404, retry: sink.Permanent},
		{status: 409, retry: sink.Permanent},
		{status: 413, retry: sink.Permanent},
		{status: 422, retry: sink.Permanent},
		{status: 410, retry: sink.Gone},
		{status: 410, header: map[string]string{"Retry-After": "60"}, retry: sink.Gone},
		{status: 408, retry: sink.Temporary},
		{status: 425, retry: sink.Temporary},
		{status: 429, retry: sink.Temporary},
		{status: 429, header: map[string]string{"Retry-After": "90"}, retry: sink.Temporary, after: 90 * time.Second},
		{status: 429, header: map[string]string{"Retry-After": "Thu, 14 May 2026 05:22:34 GMT", "Date": date}, retry: sink.Temporary, after: 10 * time.Minute},
		{status: 500, retry: sink.Temporary},
		{status: 502, retry: sink.Temporary},
		{status: 503, header: map[string]string{"Retry-After": "3600"}, retry: sink.Temporary, after: time.Hour},
		{status: 503, header: map[string]string{"Retry-After": "soon"}, retry: sink.Temporary},
		{status: 503, header: map[string]string{"Retry-After": "-5"}, retry: sink.Temporary},
		{status: 503, header: map[string]string{"Retry-After": "999999999"}, retry: sink.Temporary, after: 24 * time.Hour},
		{status: 503, header: map[string]string{"Retry-After": "Thu, 14 May 2027 05:22:34 GMT", "Date": date}, retry: sink.Temporary, after: 24 * time.Hour},
		{status: 503, header: map[string]string{"Retry-After": "Thu, 14 May 2026 05:12:00 GMT", "Date": date}, retry: sink.Temporary},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, tt.header), func(t *testing.T) {
			t.Parallel()
			rec := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
			})
			err := open(t, map[string]string{"url": rec.URL, "secret": secret(1)}).Send(t.Context(), message())
			if n := len(rec.seen()); n != 1 {
				t.Errorf("the receiver saw %d requests", n)
			}
			if tt.retry == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			want := map[sink.Retry]reason.Reason{sink.Temporary: reason.TemporaryError, sink.Permanent: reason.PermanentError, sink.Gone: reason.Gone}[tt.retry]
			if got := failure(t, err); got.Retry != tt.retry || got.After != tt.after || got.Reason != want {
				t.Errorf("got %+v, want %s after %s", got, tt.retry, tt.after)
			}
		})
	}
}

// The receiver accepts a message and its answer is lost. It gets the same message again, under the same id.
//
// Shows: C37.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	rec := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n > 1 {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	s := open(t, map[string]string{"url": rec.URL, "secret": secret(1)})
	if got := failure(t, s.Send(t.Context(), message())); got.Reason != reason.ReplyLost || got.Retry != sink.Temporary {
		t.Errorf("got %+v", got)
	}
	if n := len(rec.seen()); n != 1 {
		t.Fatalf("the receiver saw %d requests after one Send", n)
	}
	if err := s.Send(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	all := rec.seen()
	if len(all) != 2 || all[0].header.Get("webhook-id") != all[1].header.Get("webhook-id") || !bytes.Equal(all[0].body, all[1].body) {
		t.Errorf("got %+v", all)
	}
}

var errDeadline = errors.New("no answer within the test's time")

// The time ends while the receiver works on the request: it may have accepted it.
func TestTimeoutAfterTheRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	rec := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		cancel(errDeadline)
		<-r.Context().Done()
	})
	got := failure(t, open(t, map[string]string{"url": rec.URL, "secret": secret(1)}).Send(ctx, message()))
	if got.Reason != reason.ReplyLost || got.Retry != sink.Temporary || !errors.Is(got, errDeadline) {
		t.Errorf("got %+v", got)
	}
}

// The time ends before there is a connection: the receiver surely has nothing.
func TestTimeoutBeforeTheRequest(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var accepting sync.WaitGroup
	accepting.Go(func() {
		conn, err := listener.Accept() // it never answers the TLS handshake
		cancel(errDeadline)
		if err == nil {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
	})
	got := failure(t, open(t, map[string]string{"url": "https://" + listener.Addr().String(), "secret": secret(1)}).Send(ctx, message()))
	if got.Reason != reason.TemporaryError || got.Retry != sink.Temporary || !errors.Is(got, errDeadline) {
		t.Errorf("got %+v", got)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	rec := serve(t, status(200))
	rec.Close()
	got := failure(t, open(t, map[string]string{"url": rec.URL, "secret": secret(1)}).Send(t.Context(), message()))
	if got.Reason != reason.TemporaryError || got.Retry != sink.Temporary {
		t.Errorf("got %+v", got)
	}
}

// headOnly lets the time end as soon as the head of an answer is there.
type headOnly struct {
	next http.RoundTripper
	done func()
}

func (h headOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.next.RoundTrip(r)
	h.done()
	return answer, err
}

// The status decides; an answer that never ends, or is huge, keeps nobody waiting beyond the time and takes no memory.
func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		for _, code := range []int{200, 500} {
			rec := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, "it is")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			o := outbound.Options{Wrap: func(next http.RoundTripper) http.RoundTripper {
				return headOnly{next, func() { cancel(errDeadline) }}
			}}
			err := openWith(t, o, map[string]string{"url": rec.URL, "secret": secret(1)}).Send(ctx, message())
			if code == 200 {
				if err != nil {
					t.Errorf("200: got %v", err)
				}
				continue
			}
			if got := failure(t, err); got.Reason != reason.TemporaryError || got.Retry != sink.Temporary {
				t.Errorf("500: got %+v", got)
			}
		}
	})
	t.Run("huge", func(t *testing.T) {
		t.Parallel()
		for _, code := range []int{200, 500} {
			rec := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(code)
				piece := []byte(strings.Repeat("very long ", 1000))
				for r.Context().Err() == nil {
					if _, err := w.Write(piece); err != nil {
						return
					}
				}
			})
			err := open(t, map[string]string{"url": rec.URL, "secret": secret(1)}).Send(t.Context(), message())
			if (err == nil) != (code == 200) || err != nil && len(err.Error()) > 400 {
				t.Errorf("%d: got %v", code, err)
			}
		}
	})
}

// What the receiver says of a refusal is part of the error, without the secrets, the signatures and the address, which may hold a token.
func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	rec := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "no: %s, %s, %s, %s, %s", r.Header.Get("webhook-signature"), secret(1), strings.TrimPrefix(secret(2), "whsec_"), r.RequestURI, r.URL.RawQuery)
	})
	err := open(t, map[string]string{"url": rec.URL + "/in/T0ken?key=hunter2", "secret": secret(1), "old_secret": secret(2)}).Send(t.Context(), message())
	if want := "permanent_error: the endpoint answered 400 Bad Request: no: *** ***, ***, ***, ***, ***"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	rec.Close()
	err = open(t, map[string]string{"url": rec.URL + "/in/T0ken?key=hunter2", "secret": secret(1)}).Send(t.Context(), message())
	for _, part := range []string{"T0ken", "hunter2", secret(1)[6:]} {
		if err == nil || strings.Contains(err.Error(), part) {
			t.Errorf("got %v", err)
		}
	}
}

// No connection is made to this machine unless the operator allows it.
func TestAddressesAreGuarded(t *testing.T) {
	t.Parallel()
	rec := serve(t, status(200))
	client := outbound.New(outbound.Options{})
	t.Cleanup(client.Close)
	s, err := Provider(client, &clock.System{}).Open(map[string]string{"url": rec.URL, "secret": secret(1)})
	if err != nil {
		t.Fatal(err)
	}
	got := failure(t, s.Send(t.Context(), message()))
	var forbidden *outbound.Forbidden
	if !errors.As(got, &forbidden) || got.Retry != sink.Temporary || len(rec.seen()) != 0 {
		t.Errorf("got %+v and %d requests", got, len(rec.seen()))
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ url, secret, old, want string }{
		"no secret": {url: "https://x.test", want: "setting secret: "},
		"no prefix": {url: "https://x.test", secret: strings.TrimPrefix(secret(1), "whsec_"), want: "setting secret: "},
		"old":       {url: "https://x.test", secret: secret(1), old: "whsec_old", want: "setting old_secret: "},
		"no url":    {secret: secret(1), want: "setting url: "},
		"scheme":    {url: "ftp://x.test", secret: secret(1), want: "setting url: "},
		"no host":   {url: "https:///hook", secret: secret(1), want: "setting url: "},
		"user":      {url: "https://u:p@x.test", secret: secret(1), want: "setting url: "},
		"fragment":  {url: "https://x.test/#a", secret: secret(1), want: "setting url: "},
		"blank":     {url: "https://x .test", secret: secret(1), want: "setting url: "},
	} {
		_, err := Provider(nil, &clock.System{}).Open(map[string]string{"url": tt.url, "secret": tt.secret, "old_secret": tt.old})
		var wrong *sink.SettingError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
			continue
		}
		for _, value := range []string{tt.secret, tt.old, tt.url} {
			if len(value) > 1 && strings.Contains(err.Error(), value) {
				t.Errorf("%s: the error repeats a value: %v", name, err)
			}
		}
	}
}

func TestIDsThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	rec := serve(t, status(200))
	s := open(t, map[string]string{"url": rec.URL, "secret": secret(1)})
	for _, id := range []string{"", "a.b", "a\r\nX-Evil: 1", "ä"} {
		m := message()
		m.ID = id
		if got := failure(t, s.Send(t.Context(), m)); got.Retry != sink.Permanent || len(rec.seen()) != 0 {
			t.Errorf("%q: got %+v and %d requests", id, got, len(rec.seen()))
		}
	}
}
