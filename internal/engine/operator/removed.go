package operator

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// A workflow that was deleted sends nothing more: what is claimed of it ends, whatever version it keeps. So that nothing seems to
// wait until then, a job goes over its deliveries in pages, as one that cancels does, and then over the instances that have not
// begun.

// withdrawn is what the job makes of a delivery.
func (o *Operator) withdrawn(a *action, s store.OperatorState, d delivery.Row) (change store.OperatorChange, err error) {
	if gone, err := o.gone(s); err != nil || !gone {
		return change, err
	}
	if row, ok := a.cancelFor(d, reason.WorkflowInactive); ok {
		change.Deliveries = append(change.Deliveries, row)
	}
	return change, nil
}

// gone reports whether the workflow is in force no more, in the transaction that acts on it: it may have come back.
func (o *Operator) gone(s store.OperatorState) (bool, error) {
	set, err := o.catalog.Loaded(s.Instance.Workspace, s.InForce)
	return err == nil && set.Workflow(s.Instance.Workflow) == nil, err
}

// withdrawInstances does one page of the instances that have not begun. end: none of them is to be withdrawn any more, also where
// the workflow is in force again.
func (o *Operator) withdrawInstances(ctx context.Context, run store.Run, workflow string, now time.Time) (done int, end bool, err error) {
	rows, err := o.store.Instances(ctx, run.Workspace, store.InstanceFilter{Workflow: workflow, Status: instance.Pending}, store.Page{Limit: bulkPage})
	if err != nil {
		return 0, false, err
	}
	end = true
	for _, row := range rows {
		result, err := o.run(ctx, row.Workspace, row.ID, "withdraw", run.Actor, now, o.withdrawnInstance)
		if err != nil && !errors.Is(err, ErrNotFound) { // it has gone on meanwhile
			return done, false, err
		}
		if result.Changed {
			done, end = done+1, false
		}
	}
	return done, end, nil
}

func (o *Operator) withdrawnInstance(a *action, s store.OperatorState) (change store.OperatorChange, err error) {
	if gone, err := o.gone(s); err != nil || !gone || s.Instance.Status != instance.Pending {
		return change, err
	}
	in := s.Instance
	in.Unhold()
	in.Status, in.Reason, in.CompletedAt = instance.Deactivated, reason.WorkflowInactive, a.now
	a.record(journal.Withdrawn, in, reason.WorkflowInactive)
	change.Instance = &in
	return change, nil
}
