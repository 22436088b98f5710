package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// NotManualError means that a workflow cannot be run by hand, and says why.
type NotManualError struct {
	Workflow string
	Why      string
	Hint     string
}

func (e *NotManualError) Error() string {
	return fmt.Sprintf("workflow %s cannot be run by hand: %s", e.Workflow, e.Why)
}

// manualRun returns the occasion that exists for the key of a row, else the row, under the next key if that one was freed.
func manualRun(row instance.Row, found store.Occasions) store.ManualRun {
	if old, ok := found.Instances[row.Key]; ok {
		row.ID, row.Key, row.Status = old.ID, old.Key, old.Status
		return store.ManualRun{Row: row}
	}
	if n := found.Forgotten[row.Key]; n > 0 {
		row.Key = string(key.Instance(row.Key).Retry(n))
	}
	return store.ManualRun{Row: row, Created: true}
}

// RunManually makes an occasion of a workflow that a person or another program requests now. The run id identifies the run (B15): a repeated request
// finds the first one and makes nothing. Errors: operator.ErrNotFound, *operator.StateError while the workflow is disabled, *NotManualError.
func (e *Engine) RunManually(ctx context.Context, ws store.Workspace, workflow, runID, actor string, once *store.Idempotent[store.ManualRun]) (store.ManualRun, error) {
	for tries := 1; ; tries++ {
		run, err := e.runByHand(ctx, ws, workflow, runID, actor, once)
		if !errors.Is(err, store.ErrStaleDefinitions) || tries == applies {
			return run, err
		}
	}
}

func (e *Engine) runByHand(ctx context.Context, ws store.Workspace, workflow, runID, actor string, once *store.Idempotent[store.ManualRun]) (store.ManualRun, error) {
	set, err := e.catalog.Current(ctx, ws.ID)
	if err != nil {
		return store.ManualRun{}, err
	}
	w := set.Workflow(workflow)
	switch {
	case w == nil:
		return store.ManualRun{}, fmt.Errorf("workflow %s: %w", workflow, operator.ErrNotFound)
	case !w.Enabled:
		return store.ManualRun{}, &operator.StateError{Action: "run", Status: "switched off", Hint: "apply the workflow with enabled: true first"}
	}
	t, why := set.ByHand(w)
	if t == nil {
		hint := "post such an event instead"
		if w.Trigger[0].Watch().Record != "" {
			hint = "write the record instead"
		}
		return store.ManualRun{}, &NotManualError{Workflow: workflow, Why: why, Hint: hint + ", or give the workflow a trigger with a schedule"}
	}
	now := e.config.Clock.Now()
	row := instance.Row{
		Workspace: ws.ID, ID: instance.ID(e.config.Store.NewID(now)), Key: string(key.Manual(w.Type, w.Name, runID)), Workflow: w.Name,
		WorkflowVersion: w.Version, Definitions: set.Number, Type: w.Type, Trigger: t.ID, Source: instance.FromPerson, Status: instance.Pending, DueAt: now,
		InputHash: t.Inputs(), CreatedAt: now,
	}
	detail, err := json.Marshal(map[string]string{"run_id": runID, "key": row.Key})
	if err != nil {
		return store.ManualRun{}, fmt.Errorf("write the audit entry: %w", err)
	}
	audit := store.Audit{At: now, Actor: actor, Action: "run", Target: w.Name, Detail: detail}
	var run store.ManualRun
	err = e.config.Store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		found, err := tx.Occasions(ws.ID, set.Number, []string{row.Key})
		if err != nil {
			return err
		}
		if run = manualRun(row, found); run.Created {
			if err := tx.WriteOccasions(ws.ID, store.OccasionWrites{Instances: []instance.Row{run.Row}}); err != nil {
				return err
			}
			if err := tx.Audit(ws.ID, now, audit); err != nil {
				return err
			}
		}
		return once.Keep(tx, ws.ID, run)
	})
	if err != nil {
		return store.ManualRun{}, fmt.Errorf("run a workflow by hand: %w", err)
	}
	entry := journal.Entry{
		At: now, What: journal.Created, Workspace: ws.ID, Workflow: w.Name, WorkflowVersion: w.Version, Trigger: t.ID, Key: run.Row.Key,
		Instance: run.Row.ID, Due: now,
	}
	if !run.Created {
		entry.What, entry.Reason = journal.Skipped, reason.Duplicate
	}
	e.config.Journal.Write(entry)
	return run, nil
}
