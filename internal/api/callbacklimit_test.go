package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/signature"
)

const oneReport = `{"feedback": [{"status": "bounced", "address": "nobody@example.org"}]}`

// called is what a callback was answered with.
type called struct {
	status int
	code   string
	after  string // Retry-After
	err    error
}

// callFrom calls back to the channel email:two from an address, signed with a secret. Without length the length of the body is not declared.
func (b *bundle) callFrom(ctx context.Context, from, secret, path, id string, body io.Reader, text string, length bool) called {
	k, err := signature.Parse(secret)
	if err != nil {
		return called{err: err}
	}
	header, err := signature.Sign([]signature.Key{k}, id, b.clock.Now(), []byte(text))
	if err != nil {
		return called{err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.app.URL()+path+"?workspace="+b.app.Workspace().Name, body)
	if err != nil {
		return called{err: err}
	}
	req.Header = header
	req.Header.Set("X-Forwarded-For", from)
	if req.ContentLength = -1; length {
		req.ContentLength = int64(len(text))
	}
	res, err := (&http.Client{Transport: b.check}).Do(req)
	if err != nil {
		return called{err: err}
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	c := called{status: res.StatusCode, after: res.Header.Get("Retry-After"), err: err}
	if res.StatusCode != http.StatusNoContent {
		c.code = problemOf(b.T, string(raw)).Code
	}
	return c
}

// takesCallbacks gives the workspace a channel with a secret.
func (b *bundle) takesCallbacks() {
	b.Helper()
	if _, err := b.SetSecret(b.Context(), "two", secretOf("two")); err != nil {
		b.Fatal(err)
	}
	b.apply("channel: email:two\nprovider: http\nsettings: {url: http://127.0.0.1:9/, inbound_secret: {secret: two}}\n")
}

// Callbacks that are not signed are limited by address. From an address that is limited small ones are taken if they are signed; large ones wait.
func TestFailedCallbacksAreLimited(t *testing.T) {
	t.Parallel()
	b, log := logged(t)
	b.takesCallbacks()
	const path, one, other = "/v1/inbound/email:two", "192.0.2.1", "192.0.2.2"
	right, wrong := secretOf("two"), secretOf("one")
	large := oneReport + strings.Repeat(" ", 64<<10)
	n := 0
	expect := func(when, from, secret, path, text string, status int, after string) {
		t.Helper()
		for _, length := range []bool{true, false} {
			if status != http.StatusNoContent && status != http.StatusTooManyRequests && !length {
				continue // counts once
			}
			n++
			c := b.callFrom(t.Context(), from, secret, path, fmt.Sprint("msg_", n), strings.NewReader(text), text, length)
			if c.err != nil || c.status != status || after != "" && c.after != after || status == http.StatusTooManyRequests && c.code != client.CodeTooManyFailures {
				t.Errorf("%s, from %s, declared %t: %+v; want %d, after %q", when, from, length, c, status, after)
			}
			if after != "" {
				break // what is counted changes it
			}
		}
	}
	wait := func(d time.Duration) {
		b.clock.Set(b.clock.Now().Add(d))
		log.Reset()
	}
	log.Reset()
	for range 150 {
		expect("signed", one, right, path, `{"feedback": []}`, http.StatusUnprocessableEntity, "") // a wrong one of the provider counts not
	}
	for i := range 100 {
		expect(fmt.Sprint("failure ", i), one, wrong, path, oneReport, http.StatusUnauthorized, "")
	}
	expect("after 100", one, wrong, path, oneReport, http.StatusTooManyRequests, "1")
	expect("what fails then counts too", one, wrong, path, oneReport, http.StatusTooManyRequests, "2")
	expect("a large one", one, wrong, path, large, http.StatusTooManyRequests, "3")
	expect("a large one is not read, so it counts not", one, right, path, large, http.StatusTooManyRequests, "3")
	silent, end := io.Pipe()                                         // its body never comes
	soon, cancel := context.WithTimeout(t.Context(), 15*time.Second) // the server waits for a body for 30 seconds
	defer cancel()
	defer context.AfterFunc(soon, func() { _ = end.CloseWithError(io.ErrUnexpectedEOF) })()
	if c := b.callFrom(soon, one, right, path, "msg_silent", silent, large, true); c.status != http.StatusTooManyRequests || c.after != "3" {
		t.Errorf("a large one is refused before it is read: %+v", c)
	}
	_ = end.Close()
	expect("an unknown channel", one, right, "/v1/inbound/email:nothing", oneReport, http.StatusTooManyRequests, "3")
	expect("a small one that is signed", one, right, path, oneReport, http.StatusNoContent, "")
	expect("a small one that is signed and wrong", one, right, path, `{"feedback": []}`, http.StatusUnprocessableEntity, "")
	expect("a large one", one, right, path, large, http.StatusTooManyRequests, "")
	expect("another address", other, right, path, large, http.StatusNoContent, "")
	expect("another address", other, wrong, path, oneReport, http.StatusUnauthorized, "")
	if lines := strings.Count(log.String(), `"callback failed"`); lines != 101 {
		t.Errorf("%d failures are in the log", lines)
	}
	if !strings.Contains(log.String(), `"msg":"callbacks refused: too many have failed","from":"192.0.2.1"`) || strings.Count(log.String(), "refused") != 1 {
		t.Errorf("the log says %s", log.String())
	}
	for _, secret := range []string{"whsec", "nobody@example.org"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
	wait(3 * time.Second)
	expect("too soon", one, right, path, large, http.StatusTooManyRequests, "")
	wait(time.Second)
	expect("after the wait", one, right, path, large, http.StatusNoContent, "")
	expect("after the wait", one, wrong, path, oneReport, http.StatusUnauthorized, "")
	expect("one has grown back", one, wrong, path, oneReport, http.StatusTooManyRequests, "1")
	for range 300 {
		expect("again and again", one, wrong, path, oneReport, http.StatusTooManyRequests, "")
	}
	wait(101 * time.Second)
	expect("no longer than that", one, right, path, large, http.StatusNoContent, "")

	// What is unknown or too large counts as well, and networks of IPv6 count as one address.
	for i := range 50 {
		expect("unknown", fmt.Sprintf("2001:db8::%d", i+1), right, "/v1/inbound/email:nothing", oneReport, http.StatusNotFound, "")
		expect("too large", fmt.Sprintf("[2001:db8::%d]:7", i+1), right, path, strings.Repeat(" ", 1<<20+1), http.StatusRequestEntityTooLarge, "")
	}
	expect("the same network", "2001:db8::ffff", right, path, large, http.StatusTooManyRequests, "")
	expect("another network", "2001:db8:0:1::1", right, path, large, http.StatusNoContent, "")
}

// Callbacks that are signed are all taken, however many arrive at once; of those that are not signed no more fail at once than one by one.
func TestManyCallbacksAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	b.takesCallbacks()
	text := oneReport + strings.Repeat(" ", 64<<10)
	const many = 300
	atOnce := func(secret string) map[int]int {
		var begun, ended sync.WaitGroup
		answers := make([]called, many)
		begun.Add(many)
		for i := range many {
			ended.Go(func() {
				rest := &late{text: bytes.NewReader([]byte(text[len(text)-1:])), begun: &begun}
				body := io.MultiReader(strings.NewReader(text[:len(text)-1]), rest)
				answers[i] = b.callFrom(t.Context(), "192.0.2.1", secret, "/v1/inbound/email:two", fmt.Sprint("msg_", i), body, text, true)
			})
		}
		ended.Wait()
		statuses := map[int]int{}
		for _, a := range answers {
			if a.err != nil {
				t.Error(a.err)
			}
			statuses[a.status]++
		}
		return statuses
	}
	for range 2 { // together they are larger than the share of what is not signed
		if got := atOnce(secretOf("two")); got[http.StatusNoContent] != many {
			t.Errorf("signed: %v", got)
		}
	}
	if got := atOnce(secretOf("one")); got[http.StatusUnauthorized] != 100 || got[http.StatusTooManyRequests] != many-100 {
		t.Errorf("not signed: %v", got)
	}
}

// late is the end of a body. It arrives when all requests have begun.
type late struct {
	text  io.Reader
	begun *sync.WaitGroup
	once  sync.Once
}

func (l *late) Read(p []byte) (int, error) {
	l.once.Do(func() {
		l.begun.Done()
		l.begun.Wait()
	})
	return l.text.Read(p)
}
