package ingest

import (
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Stored makes the occasions of events that are stored already, as items are, in a transaction that holds the set. It returns how the triggers evaluated
// each event, as it is to be stored, and the journal entries to write after the commit.
func (in *Ingester) Stored(
	tx *store.Tx, ws store.Workspace, set *definition.Set, events []store.EventRow, now time.Time, calls *expr.Calls,
) (traces map[subject.EventID]string, entries []journal.Entry, err error) {
	items := make([]Item, len(events))
	for i, ev := range events {
		items[i] = Item{Event: ev.Event, payload: ev.PayloadJSON}
	}
	b := newBatch(ws, set, items, now, nil)
	traces = map[subject.EventID]string{}
	err = in.stepWith(tx, ws.ID, []*batch{b}, calls, func(writes *store.OccasionWrites) {
		for _, ev := range writes.Events {
			if ev.Trace != "" {
				traces[ev.ID] = ev.Trace
			}
		}
		writes.Events = nil
	})
	return traces, b.entries, err
}
