package ingest

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store"
)

// IngestBy is Ingest for a request that was planned by a given set, which is not read again.
func (in *Ingester) IngestBy(ctx context.Context, ws store.Workspace, set *definition.Set, items []Item, now time.Time) ([]Result, error) {
	b := newBatch(ws, set, items, now, nil)
	err := in.gathering(ws.ID).commit(ctx, b)
	return b.results, err
}
