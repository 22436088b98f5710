package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/store"
)

// reply is what came of a request.
type reply struct {
	status   int
	body     string
	replayed bool
}

// once makes a request with an Idempotency-Key.
func (b *bundle) once(apiKey, key, method, path, body string) reply {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.app.URL()+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set(client.IdempotencyKey, key)
	res, err := (&http.Client{Transport: b.check}).Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return reply{res.StatusCode, string(raw), res.Header.Get(client.IdempotencyReplayed) == "true"}
}

// Every route that changes something answers the same request again as the first time.
func TestEveryWritingRouteTakesAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ev, in, d := b.post(b.Client, signedUp("e1"))
		one, err := b.Instance(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		own, replays := things{event: ev, instance: in, delivery: d, key: one.Key, contact: "cust-e1", channel: "memory"}, 0
		for _, r := range api.New(api.Deps{}).Routes() {
			if r.Method == http.MethodGet || r.Repeatable {
				continue
			}
			f := own.in(fixtureOf(t, r))
			first := b.once(b.key, "route-test", r.Method, f.path, f.body)
			again := b.once(b.key, "route-test", r.Method, f.path, f.body)
			if first.status/100 != 2 {
				if first.replayed || again.replayed {
					t.Errorf("%s %s: a refusal is repeated: %+v", r.Method, r.Path, again)
				}
				continue
			}
			replays++
			if want := (reply{first.status, first.body, true}); first.replayed || again != want {
				t.Errorf("%s %s: got %+v, want %+v", r.Method, r.Path, again, want)
			}
			if other := b.once(b.key, "route-test", r.Method, f.path, f.body+" "); other.status != http.StatusUnprocessableEntity ||
				problemOf(t, other.body).Code != client.CodeKeyReused {
				t.Errorf("%s %s: another body: got %+v", r.Method, r.Path, other)
			}
		}
		if replays < 6 {
			t.Errorf("only %d routes were shown", replays)
		}
	})
}

// What a query asks for belongs to the request, in any order: with another one, the same key belongs to another request.
func TestIdempotencyKeyOfAnotherQuery(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		if status, text := b.ask(http.MethodPost, "/v1/contacts", `{"contacts":[{"id":"ann","addresses":{"sms":"+254700000001"}}]}`); status != http.StatusOK {
			t.Fatal(status, text)
		}
		const path, files = "/v1/contacts/ann/unsuppress", `{"files":[{"name":"a.yaml","text":"workspace: default\n"}]}`
		for _, c := range []struct{ path, first, other, body string }{
			{path, "?kind=sms", "", ""},
			{path, "", "?kind=sms", ""},
			{path, "?kind=sms", "?kind=email", ""},
			{"/v1/definitions", "", "?prune=true", files},
			{"/v1/definitions", "?dry_run=false&prune=false", "?dry_run=true&prune=false", files},
		} {
			key := "first:" + c.first + ",then:" + c.other
			first := b.once(b.key, key, http.MethodPost, c.path+c.first, c.body)
			if got := b.once(b.key, key, http.MethodPost, c.path+c.first, c.body); got != (reply{http.StatusOK, first.body, true}) {
				t.Errorf("%s%s again: got %+v after %+v", c.path, c.first, got, first)
			}
			if got := b.once(b.key, key, http.MethodPost, c.path+c.other, c.body); got.status != http.StatusUnprocessableEntity {
				t.Errorf("%s%s, then %q: got %+v", c.path, c.first, c.other, got)
			}
		}
	})
}

// What a key counts for: one workspace, one API key, one route, a day; and what is a key.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		const events, body = "/v1/events", `{"id":"1","kind":"signed-up","recipient":{"address":"a@example.org"}}`
		first := b.once(b.key, "k", http.MethodPost, events, body)
		if first.status != http.StatusOK || !strings.HasPrefix(first.body, `{"created":1,`) {
			t.Fatalf("got %+v", first)
		}
		if got := b.once(b.key, "k", http.MethodPost, events, body); got != (reply{first.status, first.body, true}) {
			t.Errorf("again: got %+v", got)
		}
		for name, got := range map[string]reply{
			"another key":     b.once(b.key, "k2", http.MethodPost, events, body),
			"another API key": b.once(b.newKey(b.app.Workspace(), "other", "ingest"), "k", http.MethodPost, events, body),
		} {
			if got.replayed || !strings.HasPrefix(got.body, `{"created":0,"skipped":1,`) {
				t.Errorf("%s: got %+v", name, got)
			}
		}
		if got := b.once(b.key, "k", http.MethodPost, "/v1/instances/forget", `{"key":"none"}`); got.status != http.StatusNotFound || got.replayed {
			t.Errorf("another route: got %+v", got)
		}
		if got := b.once(b.key, "k", http.MethodGet, "/v1/reasons", ""); got.status != http.StatusOK || got.replayed {
			t.Errorf("a route that changes nothing: got %+v", got)
		}
		for _, key := range []string{"", "a b", "é", strings.Repeat("x", 256), "a\tb"} {
			if got := b.once(b.key, key, http.MethodPost, events, body); got.status != http.StatusBadRequest || problemOf(t, got.body).Code != client.CodeIdempotencyKey {
				t.Errorf("key %q: got %+v", key, got)
			}
		}
		if got := b.once(b.key, strings.Repeat("~", 255), http.MethodPost, events, body); got.status != http.StatusOK {
			t.Errorf("a long key: got %+v", got)
		}
		b.clock.Set(start.Add(store.AnswersFor))
		if got := b.once(b.key, "k", http.MethodPost, events, body); got.replayed || !strings.HasPrefix(got.body, `{"created":0,"skipped":1,`) {
			t.Errorf("a day later: got %+v", got)
		}
	})
}

// A request that changed nothing may be corrected and sent again under its key.
func TestIdempotencyKeyOfARefusal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		const bad, good = `{"events":[{"knd":"signed-up"}]}`, `{"events":[{"kind":"other"},{"knd":"signed-up"}]}`
		for _, body := range []string{`{"events":`, bad, bad} {
			if got := b.once(b.key, "k", http.MethodPost, "/v1/events", body); got.replayed {
				t.Errorf("%s: got %+v", body, got)
			}
		}
		if got := b.once(b.key, "k", http.MethodPost, "/v1/events", good); got.replayed || got.status != http.StatusOK {
			t.Errorf("corrected: got %+v", got)
		}
		if got := b.once(b.key, "k", http.MethodPost, "/v1/events", good); !got.replayed {
			t.Errorf("corrected, again: got %+v", got)
		}
		const wrong = `{"files":[{"name":"a.yaml","text":"channel: memory:more\nprovider: none\n"}]}`
		if got := b.once(b.key, "k", http.MethodPost, "/v1/definitions", wrong); got.status != http.StatusUnprocessableEntity {
			t.Errorf("wrong definitions: got %+v", got)
		}
		if got := b.once(b.key, "k", http.MethodPost, "/v1/definitions", strings.Replace(wrong, "none", "memory", 1)); got.status != http.StatusOK {
			t.Errorf("corrected definitions: got %+v", got)
		}
	})
}

// The same request many times at once: one effect, one answer.
func TestIdempotencyKeyConcurrently(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		replies := make([]reply, 16)
		var running sync.WaitGroup
		for i := range replies {
			running.Go(func() {
				replies[i] = b.once(b.key, "k", http.MethodPost, "/v1/events", `{"events":[{"kind":"other"},{"kind":"other"}]}`)
			})
		}
		running.Wait()
		first := 0
		for _, r := range replies {
			if !r.replayed {
				first++
			}
			if r.status != http.StatusOK || r.body != replies[0].body {
				t.Errorf("got %+v, want as %+v", r, replies[0])
			}
		}
		counts, err := b.app.Store().Counts(t.Context(), b.app.Workspace().ID)
		if err != nil || counts.Events != 2 || first != 1 {
			t.Errorf("%d events, %d first answers, %v", counts.Events, first, err)
		}
	})
}

// Keys of one workspace are nothing to another one.
func TestIdempotencyKeyOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	other, err := b.app.Store().EnsureWorkspace(t.Context(), "other", []byte(strings.Repeat("o", 32)), start)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := app.CreateKey(t.Context(), b.app.Store(), other, "admin", []string{"admin"}, start.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{b.key, theirs} {
		got := b.once(key, "k", http.MethodPost, "/v1/events", fmt.Sprintf(`{"kind":"other","payload":{"n":%d}}`, i))
		if got.status != http.StatusOK || got.replayed {
			t.Errorf("got %+v", got)
		}
	}
}
