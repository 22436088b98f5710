package outbound

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// local returns a client that may connect to this machine.
func local(t *testing.T, o Options) *Client {
	t.Helper()
	o.Policy.Allow = append(o.Policy.Allow, Loopback()...)
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// By default the transport repeats a request with an Idempotency-Key if a reused connection breaks before the answer. The client must not: one
// call makes one request.
func TestDoSendsOnce(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			address, accepted, dropped := dropper(t)
			client := local(t, Options{Timeout: time.Minute})
			const calls = 40
			body := []byte(`{}`)
			if method == http.MethodGet {
				body = nil // lookups have no body
			}
			failed := 0
			for range calls {
				_, err := client.Do(t.Context(), Request{
					Method: method, URL: "http://" + address, Body: body,
					Header: http.Header{"Idempotency-Key": {"k"}},
				})
				var lost *Error
				if errors.As(err, &lost) {
					failed++
					if !lost.Sent {
						t.Errorf("a request that was read counts as not sent: %v", err)
					}
				}
			}
			if got := accepted.Load(); got != calls {
				t.Errorf("%d calls made %d requests", calls, got)
			}
			// Mostly each second call, but a call may come before the connection of the last one is free for it.
			if got := dropped.Load(); int64(failed) != got || got < calls/4 {
				t.Errorf("%d calls were seen to fail, %d were dropped", failed, got)
			}
		})
	}
}

// dropper is a server that answers the first request of each connection, and closes the connection after it has read the second one. It counts
// the requests that it has read, and those among them that it has not answered.
func dropper(t *testing.T) (address string, accepted, dropped *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	accepted, dropped = new(atomic.Int64), new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for n := range 2 {
					req, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					accepted.Add(1)
					if n == 0 {
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					} else {
						dropped.Add(1)
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), accepted, dropped
}

func TestDoRefusesRedirects(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			followed.Store(true)
		}
		http.Redirect(w, r, "/next", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	got, err := local(t, Options{}).Do(t.Context(), Request{Method: http.MethodPost, URL: server.URL})
	if err != nil || got.Status != http.StatusTemporaryRedirect || followed.Load() {
		t.Errorf("got status %d, error %v, followed %v", got.Status, err, followed.Load())
	}
}

func TestDoBoundsTheAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	}))
	t.Cleanup(server.Close)
	got, err := local(t, Options{MaxResponse: 10}).Do(t.Context(), Request{Method: http.MethodPost, URL: server.URL})
	if err != nil || string(got.Body) != "xxxxxxxxxx" || !got.Truncated {
		t.Errorf("got %q, truncated %v, error %v", got.Body, got.Truncated, err)
	}
}

func TestDoGivesUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	_, err := local(t, Options{Timeout: 2 * time.Second}).Do(t.Context(),
		Request{Method: http.MethodPost, URL: server.URL})
	var lost *Error
	if !errors.As(err, &lost) || !lost.Sent || lost.Error() != "no answer: no answer within 2s" {
		t.Errorf("got %v", err)
	}
}

// If any part of an answer is endless, the call ends at its time limit or at the size limit.
func TestDoBoundsEndlessAnswers(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name  string
		begin string
		piece string
		pause time.Duration
		want  string // part of the error; empty: a truncated answer
	}{
		{name: "status line by drips", piece: "H", pause: time.Millisecond, want: "no answer within 2s"},
		{name: "head by drips", begin: head, piece: "X-A: b\r\n", pause: 5 * time.Millisecond, want: "no answer within 2s"},
		{name: "endless head", begin: head, piece: "X-A: " + strings.Repeat("b", 1000) + "\r\n", want: "headers exceeded"},
		{name: "one endless line", begin: head + "X-A: ", piece: strings.Repeat("b", 1000), want: "headers exceeded"},
		{name: "endless interim answers", piece: "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", want: "exceeded"},
		{name: "endless body", begin: head + "\r\n", piece: strings.Repeat("b", 1000)},
		{name: "endless chunks", begin: head + "Transfer-Encoding: chunked\r\n\r\n", piece: "3e8\r\n" + strings.Repeat("b", 1000) + "\r\n"},
		{name: "body by drips", begin: head + "\r\n", piece: "b", pause: time.Millisecond},
		{name: "body that stops", begin: head + "Content-Length: 100\r\n\r\nbbb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address := endless(t, tt.begin, tt.piece, tt.pause)
			timeout := time.Minute // an endless answer reaches the size limit long before
			if tt.pause > 0 || tt.piece == "" {
				timeout = 2 * time.Second
			}
			client := local(t, Options{Timeout: timeout, MaxResponse: 2000})
			got, err := client.Do(t.Context(), Request{Method: http.MethodPost, URL: "http://" + address})
			if tt.want == "" {
				full := tt.piece == "" || tt.pause > 0 || len(got.Body) == 2000 // what comes without a pause ends by its size
				if err != nil || got.Status != http.StatusOK || !got.Truncated || len(got.Body) > 2000 || !full {
					t.Errorf("got status %d, %d bytes, truncated %v, error %v", got.Status, len(got.Body), got.Truncated, err)
				}
				return
			}
			var lost *Error
			if !errors.As(err, &lost) || !lost.Sent || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// endless is a server that answers every request with begin and then with piece again and again, until the caller closes the connection.
func endless(t *testing.T, begin, piece string, pause time.Duration) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				if _, err := io.WriteString(conn, begin); err != nil || piece == "" {
					_, _ = conn.Read(make([]byte, 1))
					return
				}
				for {
					if _, err := io.WriteString(conn, piece); err != nil {
						return
					}
					time.Sleep(pause)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestDoNotSent(t *testing.T) {
	t.Parallel()
	// Listeners do not get a port below 1024. A port that a test has closed may belong to another test.
	const closed = "127.0.0.1:1"
	for _, tt := range []struct {
		name, url, want string
	}{
		{"refused", "http://" + closed, "connection refused"},
		{"scheme", "file:///etc/passwd", `the URL begins with "file"`},
		{"no host", "http:///x", "names no host"},
		{"user", "http://user:secret@127.0.0.1/", "holds a user or password"},
		{"unreadable", "http://[::1", "cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := local(t, Options{}).Do(t.Context(), Request{Method: http.MethodPost, URL: tt.url})
			var lost *Error
			if !errors.As(err, &lost) || lost.Sent || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want not sent: %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

// Every forbidden address is refused, as the host of a URL and as the result of a name, and no address is dialled.
func TestDialNeverReachesForbidden(t *testing.T) {
	t.Parallel()
	for _, tt := range addresses() {
		if tt.why == "" {
			continue
		}
		addr := netip.MustParseAddr(tt.addr)
		urls := []string{"http://a.name.test/"}
		if addr.Zone() == "" {
			urls = append(urls, "https://"+net.JoinHostPort(tt.addr, "443")+"/")
		}
		for _, url := range urls {
			client := New(Options{})
			client.lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{addr}, nil }
			client.connect = func(_ context.Context, _, address string) (net.Conn, error) {
				t.Errorf("%s by way of %s: dialled %s", tt.addr, url, address)
				return nil, io.EOF
			}
			_, err := client.Do(t.Context(), Request{Method: http.MethodPost, URL: url})
			var refused *Forbidden
			if !errors.As(err, &refused) {
				t.Errorf("%s by way of %s: got %v", tt.addr, url, err)
			}
		}
	}
}

// Dial opens connections for other protocols under the same policy.
func TestDial(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	conn, err := local(t, Options{}).Dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	var refused *Forbidden
	if _, err := New(Options{}).Dial(t.Context(), "tcp", listener.Addr().String()); !errors.As(err, &refused) {
		t.Errorf("loopback without leave: got %v", err)
	}
	for _, network := range []string{"udp", "unix", "ip", ""} {
		if conn, err := local(t, Options{}).Dial(t.Context(), network, listener.Addr().String()); err == nil {
			conn.Close()
			t.Errorf("%q was dialled", network)
		}
	}
}

// Of a name with several addresses, only allowed addresses are dialled.
func TestDialTakesAllowed(t *testing.T) {
	t.Parallel()
	client := New(Options{})
	client.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:8.8.8.8")}, nil
	}
	var dialled []string
	client.connect = func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return nil, syscall.ECONNREFUSED
	}
	_, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: "http://mixed.test"})
	if want := []string{"8.8.8.8:80"}; !slices.Equal(dialled, want) {
		t.Errorf("dialled %v, want %v", dialled, want)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

// The address of the socket itself is checked too, in case it differs from the one of the lookup.
func TestControl(t *testing.T) {
	t.Parallel()
	client := New(Options{})
	var refused *Forbidden
	if conn, err := client.connect(t.Context(), "tcp", "127.0.0.1:1"); !errors.As(err, &refused) {
		t.Errorf("the socket is connected unseen: %v, error %v", conn, err)
	}
	if err := client.control("tcp4", "127.0.0.1:80", nil); err == nil {
		t.Error("loopback passed")
	}
	if err := client.control("tcp6", "[2606:4700::1111]:443", nil); err != nil {
		t.Errorf("a public address was refused: %v", err)
	}
}
