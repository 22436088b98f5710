package app_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store"
)

// A secret reaches the provider and nothing else: not the log, the journal, an error, any answer of the API, a page,
// the metrics or the database. A channel takes a changed one without a new start.
func TestSecretGoesToTheProviderAlone(t *testing.T) {
	t.Parallel()
	const canary, second = "hunter2-canary-one", "hunter2-canary-two"
	tokens := make(chan string, 16)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "your ", r.Header.Get("Authorization"), " is wrong")
	}))
	t.Cleanup(gateway.Close)

	var seen lockedBuffer // everything that anybody could read
	settled := make(chan journal.Entry, 64)
	db := filepath.Join(t.TempDir(), "carillon.db")
	a := start(t, app.Config{
		Server: server(db), Log: slog.New(slog.NewTextHandler(&seen, &slog.HandlerOptions{Level: slog.LevelDebug})),
		SecretKey: secret.New(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))),
		Journal: func(e journal.Entry) {
			fmt.Fprintf(&seen, "%+v\n", e)
			settled <- e
		},
	})
	c := admin(t, a)
	note := func(v any, err error) { fmt.Fprintf(&seen, "%+v %v\n", v, err) }
	files := definitions(gateway.URL)
	files[0].Text = strings.TrimRight(files[0].Text, "\n") + "\n  token: {secret: GATEWAY}\n"

	// Definitions may come first: a warning, and a named reason at the send.
	applied, err := c.Apply(t.Context(), files)
	if err != nil || len(applied.Warnings) != 1 || applied.Warnings[0].Message != "there is no secret named GATEWAY" || applied.Warnings[0].Line == 0 {
		t.Fatalf("got %+v, %v", applied, err)
	}
	note(c.PostEvents(t.Context(), events(1)...))
	waitFor(t, settled, func(e journal.Entry) bool { return e.Reason == "secret_missing" })

	post := func(n int, want string) {
		t.Helper()
		if _, err := c.PostEvents(t.Context(), events(n)[n-1]); err != nil {
			t.Fatal(err)
		}
		select {
		case token := <-tokens:
			if token != "Bearer "+want {
				t.Errorf("the provider got %q, want %q", token, want)
			}
		case <-time.After(patience):
			t.Fatal("nothing was sent")
		}
		waitFor(t, settled, func(e journal.Entry) bool { return e.What == journal.Failed })
	}
	note(c.SetSecret(t.Context(), "GATEWAY", canary))
	post(2, canary)
	note(c.SetSecret(t.Context(), "GATEWAY", second))
	// What a request of a wrong form holds is not repeated either.
	note(c.SetSecret(t.Context(), "not a name", canary))
	note(c.SetSecret(t.Context(), "LONG", strings.Repeat(canary, 1000)))
	note(c.SetSecret(t.Context(), "ZERO", canary+"\x00"))

	key, err := app.CreateKey(t.Context(), a.Store(), a.Workspace(), "reader", app.Scopes(), a.Engine().Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"value":["` + canary + `"]}`, `{"value":"` + canary, `"` + canary + `"`} {
		fetch(t, &seen, http.MethodPut, a.URL()+"/v1/secrets/X", key, body)
	}
	page, err := c.Deliveries(t.Context(), client.DeliveryQuery{})
	note(page, err)
	paths := []string{"/", "/deliveries", "/instances", "/events", "/definitions", "/inbox", "/openapi.json", "/metrics", "/v1/secrets/GATEWAY", "/docs"}
	for _, d := range page.Items {
		paths = append(paths, "/v1/deliveries/"+d.ID, "/deliveries/"+d.ID)
	}
	for _, r := range api.New(api.Deps{}).Routes() {
		if r.Method == http.MethodGet && !strings.Contains(r.Path, "{") {
			paths = append(paths, r.Path)
		}
	}
	for _, path := range paths {
		fetch(t, &seen, http.MethodGet, a.URL()+path, key, "")
	}
	note(a.Store().AuditLog(t.Context(), a.Workspace().ID, store.Page{Limit: 100}))
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{db, db + "-wal"} {
		if raw, err := os.ReadFile(file); err == nil {
			_, _ = seen.Write(raw)
		}
	}
	text := seen.String()
	for _, part := range []string{"GATEWAY", "secret_missing", "set secret"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not among what was read", part)
		}
	}
	for _, form := range []string{canary, second, "hunter2", base64.StdEncoding.EncodeToString([]byte(canary)), fmt.Sprintf("%x", canary)} {
		if at := strings.Index(text, form); at >= 0 {
			t.Errorf("the secret is seen: …%q…", text[max(0, at-200):min(len(text), at+100)])
		}
	}
}

// look makes a request and notes everything that comes back.
func fetch(t *testing.T, seen io.Writer, method, url, key, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := res.Write(seen); err != nil {
		t.Fatal(err)
	}
}
