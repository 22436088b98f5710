package engine

import (
	"context"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Throttles lists the contexts that have fired, each with the instant from which it may again, by the definitions in
// force (A21).
func (e *Engine) Throttles(ctx context.Context, ws subject.WorkspaceID, f store.ThrottleFilter) ([]store.ThrottleRow, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	rows, err := e.config.Store.Throttles(ctx, ws, f)
	for i, row := range rows {
		w := set.Workflow(row.Workflow)
		if w == nil {
			continue
		}
		if t := w.TriggerByID(row.Trigger); t != nil {
			rows[i].Until = row.FiredAt.Add(definition.CooldownOf(set, t, row.Issues))
		}
	}
	return rows, err
}
