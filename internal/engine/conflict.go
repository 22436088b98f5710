package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// InputConflict compares the inputs by which an instance was planned with those of the definitions in force (B23).
func (e *Engine) InputConflict(ctx context.Context, ws subject.WorkspaceID, in instance.Row) (plan.InputConflict, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return plan.InputConflict{}, err
	}
	text, found, err := e.config.Store.Inputs(ctx, ws, in.InputHash)
	if err != nil {
		return plan.InputConflict{}, err
	}
	var stored, now map[string]any
	if found {
		if err := json.Unmarshal([]byte(text), &stored); err != nil {
			return plan.InputConflict{}, fmt.Errorf("read what %s was planned by: %w", in.Key, err)
		}
	}
	version := int64(0)
	if w := set.Workflow(in.Workflow); w != nil {
		version = w.Version
		if t := w.TriggerByID(in.Trigger); t != nil {
			now = t.KeyInputs()
		}
	}
	c := plan.CompareInputs(stored, now)
	c.StoredVersion, c.NewVersion = in.WorkflowVersion, version
	return c, nil
}

// inputsOf returns the inputs by which the instances of a definition are planned, so that a later conflict can show them.
func inputsOf(set *definition.Set, d definition.Document) (list []string) {
	if d.Kind != definition.KindWorkflow {
		return nil
	}
	for _, t := range set.Workflow(d.Name).Trigger {
		list = append(list, t.InputsJSON())
	}
	return list
}

// KeepInputs stores the inputs of the definitions in force: a version of this program that hashed other inputs may have applied them.
func (e *Engine) KeepInputs(ctx context.Context) error {
	return e.eachSet(ctx, func(ws store.Workspace, set *definition.Set) error {
		var list []string
		for _, w := range set.Workflows() {
			for _, t := range w.Trigger {
				list = append(list, t.InputsJSON())
			}
		}
		return e.config.Store.KeepInputs(ctx, ws.ID, list)
	})
}

// keepInputs calls KeepInputs at the start.
func (l *runner) keepInputs(ctx context.Context) {
	if err := l.KeepInputs(ctx); err != nil && ctx.Err() == nil {
		l.config.Log.WarnContext(ctx, "what instances are planned by was not written down: a conflict of inputs may show one side only", "error", err)
	}
}
