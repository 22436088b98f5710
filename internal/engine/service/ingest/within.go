package ingest

import (
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Within stores events of the engine's own and makes their occasions, in a transaction that holds the set. One whose id is there already is not stored again. It
// returns the journal entries to write after the commit.
func (in *Ingester) Within(tx *store.Tx, ws store.Workspace, set *definition.Set, events []subject.Event, now time.Time, calls *expr.Calls) ([]journal.Entry, error) {
	items := make([]Item, len(events))
	for i, ev := range events {
		items[i] = Own(ev, now)
	}
	b := newBatch(ws, set, items, now, nil)
	err := in.step(tx, ws.ID, []*batch{b}, calls)
	for _, item := range items {
		if err == nil && item.Err != nil {
			err = item.Err
		}
	}
	return b.entries, err
}
