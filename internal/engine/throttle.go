package engine

import (
	"context"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Throttles lists the contexts that have fired, each with the instant from which it may fire again by the definitions in force (A21), and how often
// it was throttled.
func (e *Engine) Throttles(ctx context.Context, ws subject.WorkspaceID, f store.ThrottleFilter) ([]store.ThrottleRow, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	rows, err := e.config.Store.Throttles(ctx, ws, f)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if states, err := condition.Parse(row.State); err == nil { // else the record reports why (reason evaluation_failed)
			rows[i].Held = states[condition.Name(row.Workflow, row.Trigger)].Held(row.Context, row.FiredAt)
		}
		w := set.Workflow(row.Workflow)
		if w == nil {
			continue
		}
		if t := w.TriggerByID(row.Trigger); t != nil {
			rows[i].Until = plan.Firing{FiredAt: row.FiredAt, VoidAt: row.VoidAt}.FreeAt(definition.CooldownOf(set, t, row.Issues))
		}
	}
	return rows, nil
}
