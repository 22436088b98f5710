package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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
	audit := store.Audit{At: now, Actor: actor, Action: "pause", Target: workflow, Detail: detail}
	p, changed, err := o.store.PauseWorkflow(ctx, ws, workflow, why, now, audit)
	return Paused{Pause: p, Changed: changed}, err
}

// Resume continues a workflow. What was parked is due now and not late (R2). For a calendar series, backlog decides which of the occasions that
// became due meanwhile are sent.
func (o *Operator) Resume(ctx context.Context, ws subject.WorkspaceID, workflow, actor string, now time.Time) (Paused, error) {
	changed, err := o.store.ResumeWorkflow(ctx, ws, workflow, now, store.Audit{At: now, Actor: actor, Action: "resume", Target: workflow})
	if err != nil || changed {
		return Paused{Changed: changed}, err
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

// TakeParked is a stage: it makes parked rows of resumed workflows due, a page at a time, and reports whether there may be more.
func (o *Operator) TakeParked(ctx context.Context, now time.Time, limit int) (more bool, err error) {
	u, more, err := o.store.TakeParked(ctx, now, limit)
	if err != nil {
		return false, err
	}
	a := action{now: now}
	for _, in := range u.Instances {
		a.record(journal.Released, in, reason.WorkflowResumed)
	}
	for _, d := range u.Deliveries {
		a.recordDelivery(journal.Released, d, reason.WorkflowResumed)
	}
	for _, e := range a.entries {
		o.journal.Write(e)
	}
	return more, nil
}
