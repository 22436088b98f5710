package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/store"
)

// readOnly is an engine whose database takes no writes.
type readOnly struct{ api.Engine }

func (readOnly) Ingest(context.Context, store.Workspace, []ingest.Item, *store.Idempotent[[]ingest.Result]) ([]ingest.Result, error) {
	return nil, fmt.Errorf("ingest: /var/lib/carillon.db: %w: a detail", store.ErrReadOnly)
}

// An event that is sent to a server whose database became read-only gets an answer that says so, with what to do, and without a path.
func TestEventsForAReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		h := api.New(api.Deps{Store: b.app.Store(), Engine: readOnly{app.Operations(b.app.Engine())}, Clock: b.clock, Log: slog.New(slog.DiscardHandler)})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/events", strings.NewReader(`{"id":"e1","kind":"welcomed","recipient":{"address":"a@example.org"}}`))
		r.Header.Set("Authorization", "Bearer "+b.key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		said := w.Body.String()
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(said, store.ErrReadOnly.Error()) || !strings.Contains(said, "send it again later") || strings.Contains(said, "/var/lib") {
			t.Errorf("got %d %s", w.Code, said)
		}
	})
}
