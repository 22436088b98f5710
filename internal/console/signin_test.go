package console_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
)

// signInFrom sends the form from an address.
func signInFrom(t *testing.T, h http.Handler, from, key string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/signin", strings.NewReader(url.Values{"key": {key}}.Encode()))
	r.Host, r.RemoteAddr = "carillon.example.org", from
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return serve(t, h, r)
}

// Failed sign-ins are limited by address and over all addresses, the allowance grows back, and a successful sign-in uses none of it.
func TestFailedSignInsAreLimited(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	b.key(t, b.ws.ID, "reader", "car_reader", "read")
	var log bytes.Buffer
	h := b.handler(t, console.Deps{Log: slog.New(slog.NewTextHandler(&log, nil))})
	begin := b.clock.Now()
	expect := func(when, from, key string, want int) answer {
		t.Helper()
		a := signInFrom(t, h, from, key)
		if a.status != want {
			t.Errorf("%s: %s with %s: status %d, want %d", when, from, key, a.status, want)
		}
		return a
	}
	const one, other, six, sameSix = "192.0.2.1:1000", "192.0.2.2:1000", "[2001:db8::1]:1", "[2001:db8::2]:1"
	for range 30 {
		expect("signing in takes nothing", one, "car_reader", http.StatusSeeOther)
	}
	for n := range 10 {
		expect(fmt.Sprint("failure ", n), one, "car_wrong", http.StatusUnauthorized)
		expect(fmt.Sprint("failure ", n), six, "car_wrong", http.StatusUnauthorized)
	}
	if a := expect("after ten", one, "car_wrong", http.StatusTooManyRequests); a.header.Get("Retry-After") != "30" || !strings.Contains(a.body, "Try again in 30s") {
		t.Errorf("Retry-After %q, %s", a.header.Get("Retry-After"), a.body)
	}
	expect("the right key too, so that guessing reveals nothing", one, "car_reader", http.StatusTooManyRequests)
	expect("another port", "192.0.2.1:2000", "car_wrong", http.StatusTooManyRequests)
	expect("another address of the same network", sameSix, "car_wrong", http.StatusTooManyRequests)
	expect("another address", other, "car_reader", http.StatusSeeOther)
	b.clock.Set(begin.Add(29 * time.Second))
	expect("too soon", one, "car_reader", http.StatusTooManyRequests)
	b.clock.Set(begin.Add(30 * time.Second))
	expect("one has grown back", one, "car_reader", http.StatusSeeOther)
	expect("and was released", one, "car_wrong", http.StatusUnauthorized)
	expect("and is used up", one, "car_wrong", http.StatusTooManyRequests)

	b.clock.Set(begin.Add(time.Hour))
	for n := range 100 {
		expect("each from an address of its own", fmt.Sprintf("198.51.100.%d:1", n), "car_wrong", http.StatusUnauthorized)
	}
	expect("over all", "203.0.113.1:1", "car_wrong", http.StatusTooManyRequests)
	b.clock.Set(begin.Add(time.Hour + time.Second))
	expect("over all, a second later", "203.0.113.1:1", "car_reader", http.StatusSeeOther)

	for _, line := range []string{`msg="sign-in failed" from=192.0.2.1 why="unknown key"`, `msg="sign-in refused: too many have failed" from=192.0.2.1`, `msg="signed in" from=192.0.2.2 key=reader`} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %s", line)
		}
	}
	if strings.Contains(log.String(), "car_") {
		t.Error("the log holds a key")
	}
}

// A form that arrives too slowly is the sender's fault, and is no error of the server.
func TestSlowSignIn(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	var log bytes.Buffer
	server := httptest.NewUnstartedServer(b.handler(t, console.Deps{Log: slog.New(slog.NewTextHandler(&log, nil))}))
	server.Config.ReadTimeout = 2 * time.Second
	server.Start()
	defer server.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /signin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nkey=")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 408 ") || !strings.Contains(string(text), "did not arrive in time") {
		t.Errorf("got %s, %v", text, err)
	}
	server.Close()
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log says %s", log.String())
	}
}
