package app

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/telemetry"
)

// On PostgreSQL our clock is brought to the database's, however wrong it was; SQLite has none.
func TestSetClock(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := &App{store: s, log: slog.New(slog.DiscardHandler)}
		system := &clock.System{}
		system.SetOffset(time.Hour)
		if err := a.setClock(t.Context(), system); err != nil {
			t.Fatal(err)
		}
		corrected := system.Offset().Abs() < 10*time.Minute
		if want := s.Dialect() == "postgres"; corrected != want {
			t.Errorf("the offset is now %s", system.Offset())
		}
	})
}

// A request that panics is answered with 500 and logged without its path; the process goes on.
func TestObserve(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := &App{metrics: telemetry.NewMetrics(telemetry.MetricsOptions{}), log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	handler := a.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fine" {
			_, _ = w.Write([]byte("fine"))
			return
		}
		panic("on purpose")
	}))
	get := func(path string) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code
	}
	if got := get("/secret-id?to=ada@example.org"); got != http.StatusInternalServerError {
		t.Errorf("got %d", got)
	}
	if got := get("/fine"); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
	text := log.String()
	if !strings.Contains(text, "request panicked") || !strings.Contains(text, "on purpose") || !strings.Contains(text, "status=500") || !strings.Contains(text, "status=200") {
		t.Errorf("the log is %s", text)
	}
	if strings.Contains(text, "secret-id") || strings.Contains(text, "ada@example.org") {
		t.Errorf("the log repeats the request: %s", text)
	}
}

// A request that a stalled database keeps waiting ends before its connection is closed.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	handler := bounded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Deadline(); !ok {
			t.Error("the request may wait for ever")
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/reasons", nil))
	if answerTimeout >= writeTimeout {
		t.Error("the answer would come when its connection is closed")
	}
}

// How long items and runs stay follows how long everything does, and how long messages stay follows these, where nothing else is said.
func TestKeepOf(t *testing.T) {
	t.Parallel()
	days := func(n int) *int { return &n }
	const day = 24 * time.Hour
	for _, test := range []struct {
		all                int
		digests, messages  *int
		wantDig, wantMails time.Duration
	}{
		{0, nil, nil, 0, 0},
		{30, nil, nil, 30 * day, 30 * day},
		{30, days(10), nil, 10 * day, 10 * day},
		{30, nil, days(7), 30 * day, 7 * day},
		{0, days(365), days(7), 365 * day, 7 * day},
		{30, days(0), nil, 0, 0},
		{30, days(0), days(7), 0, 7 * day},
	} {
		got := keepOf(&config.Server{RetentionDays: test.all, RetentionDigestDays: test.digests, RetentionMessageDays: test.messages, RetentionSubscriptionDays: 1, RetentionAddressDays: 2, RetentionTopicDays: 3})
		want := retention.Keep{Occasions: time.Duration(test.all) * day, Digests: test.wantDig, Messages: test.wantMails, Subscriptions: day, Addresses: 2 * day, Topics: 3 * day}
		if got != want {
			t.Errorf("%+v: %+v, want %+v", test, got, want)
		}
	}
}
