package app_test

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// patience is how long a test waits for something that takes milliseconds.
const patience = 2 * time.Minute

func server(db string) config.Server {
	return config.Server{
		Database: config.Database{DB: db}, Listen: "127.0.0.1:0", Work: true, Migrate: true, StopTimeout: patience,
		OutboundAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		SecretEnv:     []string{"TEST_GATEWAY_*"}, SecretDir: []string{os.TempDir()},
	}
}

func start(t *testing.T, c app.Config) *app.App {
	t.Helper()
	a, err := app.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	return a
}

func admin(t *testing.T, a *app.App) *client.Client {
	t.Helper()
	key, err := app.CreateKey(t.Context(), a.Store(), a.Workspace(), "admin", []string{"admin"}, a.Engine().Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(a.URL(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func definitions(url string) []client.File {
	return []client.File{{Name: "test.yaml", Text: `
workflow: welcome
type: custom
triggers:
  - id: signed-up
    event: signed-up
audience:
  - to: event.recipient
channel: sms:gateway
message:
  sms:
    text: "Welcome, {{ event.name }}"
---
channel: sms:gateway
provider: http
on_unknown: hold
settings:
  url: ` + url + `
`}}
}

func events(n int) []client.Event {
	list := make([]client.Event, n)
	for i := range list {
		address := "+4930" + strings.Repeat("0", 6) + string(rune('0'+i%10))
		list[i] = client.Event{ID: string(rune('a' + i)), Kind: "signed-up", Payload: map[string]any{"name": "Ada"}, Recipient: &client.Recipient{Address: address}}
	}
	return list
}

// accepting is a gateway that accepts every message, and what it got.
func accepting(t *testing.T) (gateway *httptest.Server, got <-chan string) {
	t.Helper()
	bodies := make(chan string, 8)
	gateway = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		_, _ = io.WriteString(w, `{"id":"gw-1"}`)
	}))
	t.Cleanup(gateway.Close)
	return gateway, bodies
}

// A posted event is delivered without any tick, and a link in the message leads to this process.
func TestRunDelivers(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			gateway, got := accepting(t)
			a := start(t, app.Config{Server: server(storetest.URL(t, database))})
			c := admin(t, a)
			files := definitions(gateway.URL)
			files[0].Text = strings.Replace(files[0].Text, "Welcome, {{ event.name }}", "Welcome, {{ event.name }}: {{ survey.link }}", 1)
			if _, err := c.Apply(t.Context(), files); err != nil {
				t.Fatal(err)
			}
			if _, err := c.PostEvents(t.Context(), events(1)...); err != nil {
				t.Fatal(err)
			}
			select {
			case body := <-got:
				if !strings.Contains(body, `"text":"Welcome, Ada: `+a.URL()+"/s/") || strings.Contains(body, `"link"`) { // it is no survey
					t.Errorf("got %s", body)
				}
			case <-time.After(patience):
				t.Fatal("nothing was delivered")
			}
		})
	}
}

// A stop waits for requests in flight and writes their results: nothing is left unknown, and nothing is sent
// twice by the process that comes next.
func TestStopLeavesNothingUnknown(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan struct{}, 32)
			answer := make(chan struct{})
			var mu sync.Mutex
			seen := map[string]int{}
			gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.Header.Get("Idempotency-Key")]++
				mu.Unlock()
				arrived <- struct{}{}
				<-answer
				_, _ = io.WriteString(w, `{"id":"gw-1"}`)
			}))
			t.Cleanup(gateway.Close)
			db := storetest.URL(t, database)
			a := start(t, app.Config{Server: server(db)})
			c := admin(t, a)
			if _, err := c.Apply(t.Context(), definitions(gateway.URL)); err != nil {
				t.Fatal(err)
			}
			const n = 5
			if _, err := c.PostEvents(t.Context(), events(n)...); err != nil {
				t.Fatal(err)
			}
			for range n {
				select {
				case <-arrived:
				case <-time.After(patience):
					t.Fatal("not everything was sent")
				}
			}
			stopped := make(chan error, 1)
			go func() { stopped <- a.Stop(context.WithoutCancel(t.Context())) }()
			close(answer)
			select {
			case err := <-stopped:
				if err != nil {
					t.Fatalf("stop: %v", err)
				}
			case <-time.After(patience):
				t.Fatal("the stop does not end")
			}

			second := start(t, app.Config{Server: server(db)})
			key, err := app.CreateKey(t.Context(), second.Store(), second.Workspace(), "second", []string{"read"}, second.Engine().Now())
			if err != nil {
				t.Fatal(err)
			}
			reader, err := client.New(second.URL(), key)
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			for d, err := range reader.AllDeliveries(t.Context(), client.DeliveryQuery{}) {
				if err != nil {
					t.Fatal(err)
				}
				if d.Status != "sent" || d.Attempts != 1 || d.Sending {
					t.Errorf("got %+v", d)
				}
				sent++
			}
			mu.Lock()
			defer mu.Unlock()
			if sent != n || len(seen) != n {
				t.Errorf("%d deliveries, %d at the gateway, want %d", sent, len(seen), n)
			}
			for key, times := range seen {
				if times != 1 {
					t.Errorf("%s arrived %d times", key, times)
				}
			}
		})
	}
}

// A stop that takes too long is given up with an error; what was on its way has a lease that runs out.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 1), make(chan struct{})
	gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	t.Cleanup(gateway.Close)
	t.Cleanup(func() { close(answer) })
	a := start(t, app.Config{Server: server(storetest.URL(t, "sqlite"))})
	c := admin(t, a)
	if _, err := c.Apply(t.Context(), definitions(gateway.URL)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PostEvents(t.Context(), events(1)...); err != nil {
		t.Fatal(err)
	}
	select {
	case <-arrived:
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 50*time.Millisecond)
	defer cancel()
	if err := a.Stop(ctx); err == nil || !strings.Contains(err.Error(), "finish what is on its way") {
		t.Errorf("got %v", err)
	}
}

// Run ends with its context, and a stopped process leaves no goroutine behind.
func TestRunLeavesNoGoroutine(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the whole test
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	ready := false
	err := app.Run(ctx, app.Config{Server: server(storetest.URL(t, "sqlite"))}, func(*app.App) { ready = true; cancel() })
	if err != nil || !ready {
		t.Errorf("ready %v, error %v", ready, err)
	}
	goleak.VerifyNone(t, before)
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := start(t, app.Config{Server: server(filepath.Join(dir, "taken.db"))})
	tests := []struct {
		name   string
		change func(*config.Server)
		want   string
	}{
		{"a database that is not there", func(s *config.Server) { s.DB = filepath.Join(dir, "no", "such", "dir.db") }, "open the database"},
		{"an old schema", func(s *config.Server) { s.DB, s.Migrate = filepath.Join(dir, "empty.db"), false }, "run carillon migrate"},
		{"a newer schema", func(s *config.Server) { s.DB = newer(t, dir) }, "belongs to a newer version"},
		{"an address in use", func(s *config.Server) { s.Listen = strings.TrimPrefix(taken.URL(), "http://") }, "address already in use"},
		{"no address", func(s *config.Server) { s.Listen = "nonsense" }, "listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := server(filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-")+".db"))
			tt.change(&c)
			if _, err := app.Start(t.Context(), app.Config{Server: c}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// The workspace's secret is drawn once and kept: ids of before are ids of after.
func TestWorkspaceIsKept(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "carillon.db")
	first := start(t, app.Config{Server: server(db)})
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, app.Config{Server: server(db)})
	if ws := first.Workspace(); len(ws.Secret) != 32 || !bytes.Equal(ws.Secret, second.Workspace().Secret) || ws.ID != second.Workspace().ID {
		t.Error("the second start has another workspace")
	}
}

// A public link that leads nowhere says so without a cookie or a trace of the id.
func TestPublicLinks(t *testing.T) {
	t.Parallel()
	a := start(t, app.Config{Server: server(filepath.Join(t.TempDir(), "carillon.db"))})
	for _, path := range []string{"/s/d_secret", "/s/", "/s/a/b"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") ||
			strings.Contains(string(body), "secret") || res.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %d %s", path, res.StatusCode, body)
		}
	}
}

// Secrets come from the environment or a file, and never reach the log, the API or an error.
func TestSecrets(t *testing.T) {
	const canary = "hunter2-canary"
	t.Setenv("TEST_GATEWAY_TOKEN", canary)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, reference := range map[string]string{"env": "{env: TEST_GATEWAY_TOKEN}", "file": "{file: " + file + "}", "missing": "{env: TEST_GATEWAY_NONE}"} {
		t.Run(name, func(t *testing.T) {
			tokens := make(chan string, 1)
			gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tokens <- r.Header.Get("Authorization")
				w.WriteHeader(http.StatusBadRequest)
			}))
			t.Cleanup(gateway.Close)
			var log lockedBuffer
			settled := make(chan journal.Entry, 64)
			a := start(t, app.Config{
				Server: server(filepath.Join(t.TempDir(), "carillon.db")), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Journal: func(e journal.Entry) { settled <- e },
			})
			c := admin(t, a)
			files := definitions(gateway.URL)
			files[0].Text = strings.TrimRight(files[0].Text, "\n") + "\n  token: " + reference + "\n"
			if _, err := c.Apply(t.Context(), files); err != nil {
				t.Fatal(err)
			}
			if _, err := c.PostEvents(t.Context(), events(1)...); err != nil {
				t.Fatal(err)
			}
			if name == "missing" {
				waitFor(t, settled, func(e journal.Entry) bool { return strings.Contains(e.Error, "TEST_GATEWAY_NONE") })
				return
			}
			select {
			case token := <-tokens:
				if token != "Bearer "+canary {
					t.Errorf("got %q", token)
				}
			case <-time.After(patience):
				t.Fatal("nothing was sent")
			}
			waitFor(t, settled, func(e journal.Entry) bool { return e.What == journal.Failed })
			page, err := c.Deliveries(t.Context(), client.DeliveryQuery{})
			if err != nil || len(page.Items) != 1 || page.Items[0].Status != "failed" {
				t.Errorf("got %+v, %v", page.Items, err)
			}
			if strings.Contains(log.String(), canary) {
				t.Errorf("the log holds the secret:\n%s", log.String())
			}
		})
	}
}

func waitFor(t *testing.T, entries <-chan journal.Entry, is func(journal.Entry) bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e := <-entries:
			if is(e) {
				return
			}
		case <-limit:
			t.Fatal("it did not happen")
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newer makes a database that is one version ahead of this program.
func newer(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "newer.db")
	s := storetest.Open(t, path)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, want, err := s.SchemaVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, 1)`, want+1); err != nil {
		t.Fatal(err)
	}
	return path
}
