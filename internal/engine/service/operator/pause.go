package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Paused is what pausing or resuming a workflow did.
type Paused struct {
	Pause   store.Pause // as it is now; zero: it is not paused
	Changed bool        // false: it was paused, or not, before
}

// paused is the error for an action on a parked row, which only resuming the workflow continues.
func paused(action string) error {
	return &StateError{Action: action, Status: "held because its workflow is paused", Hint: "resume the workflow"}
}

// Pause stops a workflow: nothing of it is expanded or sent until it is resumed. New occasions are still planned; when they are due they are parked
// with the reason workflow_paused. Messages in flight are not called back. Neither an apply nor a restart ends the pause.
func (o *Operator) Pause(ctx context.Context, ws subject.WorkspaceID, workflow, why, actor string, now time.Time) (Paused, error) {
	set, err := o.catalog.Current(ctx, ws)
	if err != nil {
		return Paused{}, err
	}
	if set.Workflow(workflow) == nil {
		return Paused{}, ErrNotFound
	}
	detail, err := json.Marshal(map[string]string{"reason": why})
	if err != nil {
		return Paused{}, fmt.Errorf("write the audit entry: %w", err)
	}
	var out Paused
	err = o.store.Write(ctx, func(tx *store.Tx) error {
		was, err := tx.LockPause(ws, workflow)
		if err != nil {
			return err
		}
		if out = pausing(was, store.Pause{Workflow: workflow, PausedAt: now, Actor: actor, Why: why}); !out.Changed {
			return nil
		}
		if err := tx.SavePause(ws, was, out.Pause); err != nil {
			return err
		}
		return tx.Audit(ws, now, store.Audit{At: now, Actor: actor, Action: "pause", Target: workflow, Detail: detail})
	})
	if err != nil {
		return Paused{}, fmt.Errorf("pause a workflow: %w", err)
	}
	return out, nil
}

// pausing decides about a request to pause a workflow. A pause that is in force stays as it is; one that was resumed and still has parked rows
// begins again, and keeps them.
func pausing(was *store.Pause, asked store.Pause) Paused {
	if was != nil && was.ResumedAt.IsZero() {
		return Paused{Pause: *was}
	}
	return Paused{Pause: asked, Changed: true}
}

// Resume continues a workflow. What was parked is due now and not late (R2). For a calendar series, backlog decides which of the occasions that
// became due meanwhile are sent.
func (o *Operator) Resume(ctx context.Context, ws subject.WorkspaceID, workflow, actor string, now time.Time) (Paused, error) {
	var changed bool
	err := o.store.Write(ctx, func(tx *store.Tx) (err error) {
		if changed, err = tx.ResumePause(ws, workflow, now); err != nil || !changed {
			return err
		}
		return tx.Audit(ws, now, store.Audit{At: now, Actor: actor, Action: "resume", Target: workflow})
	})
	if err != nil || changed {
		return Paused{Changed: err == nil}, err
	}
	set, err := o.catalog.Current(ctx, ws)
	if err != nil {
		return Paused{}, err
	}
	if set.Workflow(workflow) == nil {
		return Paused{}, ErrNotFound
	}
	return Paused{}, nil
}

// TakeParked is a stage: it makes up to limit parked instances and as many deliveries of one resumed workflow due, and reports whether there may be
// more.
func (o *Operator) TakeParked(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	var a action
	err = o.store.Write(ctx, func(tx *store.Tx) (err error) {
		a = action{now: now}
		more, err = a.takeParked(tx, limit)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take up parked rows: %w", err)
	}
	for _, e := range a.entries {
		o.journal.Write(e)
	}
	return more, nil
}

// takeParked is its transaction. The page that is not full is the last one.
func (a *action) takeParked(tx *store.Tx, limit int) (found bool, err error) {
	r, err := tx.NextResumed()
	if err != nil || r == nil {
		return false, err
	}
	var instances []instance.Row
	if r.Instances {
		if instances, err = tx.ParkedInstances(*r, limit); err != nil {
			return false, err
		}
	}
	for i := range instances {
		instances[i].Resume(a.now)
		a.record(journal.Released, instances[i], reason.WorkflowResumed)
	}
	if err := tx.UnparkInstances(instances); err != nil {
		return false, err
	}
	var deliveries []delivery.Row
	if r.Deliveries {
		var as delivery.Row
		as.Resume(a.now)
		if deliveries, err = tx.UnparkDeliveries(*r, as, limit); err != nil {
			return false, err
		}
	}
	for _, d := range deliveries {
		a.recordDelivery(journal.Released, d, reason.WorkflowResumed)
	}
	if len(instances) < limit && len(deliveries) < limit {
		err = tx.DeletePause(*r)
	}
	return true, err
}
