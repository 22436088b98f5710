package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/store"
)

// roomless is a store that answers, and says of writes what the test wants.
type roomless struct {
	api.Store
	asked int
	err   error
}

func (*roomless) Ping(context.Context) error { return nil }

func (r *roomless) Writable(context.Context) error {
	r.asked++
	return r.err
}

// Who balances the load sees that the database is full, and how often they ask costs no more writes.
func TestReadyzTellsOfAFullDisk(t *testing.T) {
	t.Parallel()
	db, at := &roomless{}, clock.NewManual(start)
	h := api.New(api.Deps{Store: db, Clock: at, Log: slog.New(slog.DiscardHandler)})
	full := fmt.Errorf("%w: details", store.ErrNoRoom)
	for _, tc := range []struct {
		after  time.Duration
		err    error
		status int
		text   string
		asked  int
	}{
		{0, nil, http.StatusOK, "ok\n", 1},
		{4 * time.Second, full, http.StatusOK, "ok\n", 1},
		{5 * time.Second, full, http.StatusServiceUnavailable, "the database has no room left: its disk is full\n", 2},
		{6 * time.Second, nil, http.StatusServiceUnavailable, "the database has no room left: its disk is full\n", 2},
		{10 * time.Second, nil, http.StatusOK, "ok\n", 3},
		{15 * time.Second, context.DeadlineExceeded, http.StatusOK, "ok\n", 4},
		{20 * time.Second, store.ErrReadOnly, http.StatusServiceUnavailable, "the database takes no writes: it is read-only\n", 5},
		{25 * time.Second, errors.New("a secret detail"), http.StatusServiceUnavailable, "the database does not answer\n", 6},
	} {
		at.Set(start.Add(tc.after))
		db.err = tc.err
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != tc.status || w.Body.String() != tc.text || db.asked != tc.asked {
			t.Errorf("after %s: %d %q, asked %d times; want %d %q, %d", tc.after, w.Code, w.Body.String(), db.asked, tc.status, tc.text, tc.asked)
		}
	}
}
