package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// When the database fails, the log names what was tried, and each part of it once; the caller learns no details.
func TestErrorsSayThingsOnce(t *testing.T) {
	t.Parallel()
	b, log := logged(t)
	own := b.things(b.Client, "own", "")
	if err := b.app.Store().Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range api.New(api.Deps{}).Routes() {
		f := own.in(fixtureOf(t, r))
		log.Reset()
		status, text := b.ask(r.Method, f.path, f.body)
		if status < 500 {
			if log.String() != "" {
				t.Errorf("%s %s: %d, but the log says %s", r.Method, f.path, status, log.String())
			}
			continue
		}
		if strings.Contains(text, "closed") {
			t.Errorf("%s %s contains details: %s", r.Method, f.path, text)
		}
		var line struct{ Level, Error string }
		if err := json.Unmarshal([]byte(log.String()), &line); err != nil {
			t.Errorf("%s %s: not one line in the log: %q", r.Method, f.path, log.String())
			continue
		}
		seen := map[string]bool{}
		for part := range strings.SplitSeq(line.Error, ": ") {
			if seen[part] {
				t.Errorf("%s %s: %q is said twice: %s", r.Method, f.path, part, line.Error)
			}
			seen[part] = true
		}
	}
}

// logged is a running process whose log is read.
func logged(t *testing.T) (*bundle, *safeBuffer) {
	t.Helper()
	log := &safeBuffer{}
	b := &bundle{T: t, clock: clock.NewManual(start), check: checked(t)}
	var err error
	b.app, err = app.Start(t.Context(), app.Config{
		Server: config.Server{Database: config.Database{DB: storetest.URL(t, "sqlite")}, Listen: "127.0.0.1:0", TrustProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Clock:  b.clock, Version: "test", SecretKey: secret.New("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="), Log: slog.New(slog.NewJSONHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.app.Stop(context.WithoutCancel(t.Context())) })
	b.key = b.newKey(b.app.Workspace(), "admin", "admin")
	b.Client = b.as(b.key)
	b.apply(definitions)
	return b, log
}

// Events that lack a field of a recipe are named in the log, in one line a request, without anything of the payload.
func TestWarningsAreLogged(t *testing.T) {
	t.Parallel()
	b, log := logged(t)
	const event = `{"kind":"service-visit-closed","payload":{"jobType":"GR","dealerId":"secret-7"},"recipient":{"address":"+964 770 000 0001"}}`
	for name, body := range map[string]string{"alone": event, "in a list": `{"events":[` + event + `,{"kind":"other"}]}`} {
		log.Reset()
		if status, text := b.ask(http.MethodPost, "/v1/events", body); status != http.StatusOK || !strings.Contains(text, "candidate.wip") {
			t.Fatalf("%s: %d %s", name, status, text)
		}
		var line struct {
			Level, First string
			Lacking      int `json:"lack_fields"`
		}
		if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.Level != "WARN" || line.Lacking != 1 || !strings.Contains(line.First, "candidate.wip") {
			t.Errorf("%s: the log says %q, %v", name, log.String(), err)
		}
		if strings.Contains(log.String(), "secret-7") || strings.Contains(log.String(), "770 000") || strings.Contains(log.String(), "9647700") {
			t.Errorf("%s: the log contains the payload of the event: %s", name, log.String())
		}
	}
	log.Reset()
	if status, text := b.ask(http.MethodPost, "/v1/events", `{"kind":"other"}`); status != http.StatusOK || log.String() != "" {
		t.Errorf("without a warning: %d %s, the log says %q", status, text, log.String())
	}
}

// safeBuffer is a log that is written and read at once.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *safeBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}
