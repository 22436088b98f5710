package operator

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// A deleted workflow sends nothing more: a claim ends its deliveries, whatever version they are pinned to. So that nothing seems to wait until then,
// a job goes over its deliveries in pages, like a bulk cancel, and then over the instances that have not begun.

// withdrawn returns the change that the job makes to a delivery.
func (o *Operator) withdrawn(a *action, s state, d delivery.Row) (c change, err error) {
	if gone, err := o.gone(s); err != nil || !gone {
		return c, err
	}
	if row, ok := a.cancelFor(d, reason.WorkflowInactive); ok {
		c.Deliveries = append(c.Deliveries, row)
	}
	return c, nil
}

// gone reports whether the workflow is not in force, in the transaction that acts on it: it may have been applied again.
func (o *Operator) gone(s state) (bool, error) {
	set, err := o.catalog.Loaded(s.Instance.Workspace, s.InForce)
	return err == nil && set.Workflow(s.Instance.Workflow) == nil, err
}

// withdrawInstances withdraws one page of the instances that have not begun. end: there are no more of them, or the workflow is in force again.
func (o *Operator) withdrawInstances(ctx context.Context, j job.Row, workflow string, now time.Time) (done int, end bool, err error) {
	rows, err := o.store.Instances(ctx, j.Workspace, store.InstanceFilter{Workflow: workflow, Status: instance.Pending}, store.Page{Limit: bulkPage})
	if err != nil {
		return 0, false, err
	}
	end = true
	for _, row := range rows {
		result, err := o.onInstance(ctx, row.Workspace, row.ID, "withdraw", j.Actor, now, o.withdrawnInstance)
		if err != nil && !errors.Is(err, ErrNotFound) { // it has changed meanwhile
			return done, false, err
		}
		if result.Changed {
			done, end = done+1, false
		}
	}
	return done, end, nil
}

func (o *Operator) withdrawnInstance(a *action, s state) (c change, err error) {
	if gone, err := o.gone(s); err != nil || !gone || s.Instance.Status != instance.Pending {
		return c, err
	}
	in := s.Instance
	in.End(instance.Deactivated, reason.WorkflowInactive, a.now)
	a.record(journal.Withdrawn, in, reason.WorkflowInactive)
	c.Instance = &in
	return c, nil
}
