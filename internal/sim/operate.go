package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// operate does what an operator would do with the rows that the action names: cancel all that may still send a message, retry the
// latest, or release all that are on hold.
func (w *world) operate(ctx context.Context, a *Action) error {
	o := a.Operator
	what := "operator " + o.verb
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"error": textCell("the engine is stopped")})
		return nil
	}
	switch o.verb {
	case "pause", "resume":
		return w.pause(ctx, a, what)
	case "redrive":
		return w.redrive(ctx, a)
	case "cancel_run":
		return w.cancelRun(ctx, a, what)
	}
	deliveries, instances, err := w.matching(ctx, o)
	if err != nil {
		return err
	}
	on, now := w.engine.Operator(), w.clock.Now()
	var failed error
	count := 0
	each := func(_ operator.Result, err error) {
		count++
		failed = errors.Join(failed, err)
	}
	switch o.verb {
	case "cancel":
		for _, d := range deliveries {
			if open(d) {
				each(on.CancelDelivery(ctx, w.workspace.ID, d.ID, actor, now))
			}
		}
		for _, i := range instances {
			if i.Status == instance.Pending {
				each(on.CancelInstance(ctx, w.workspace.ID, i.ID, actor, now))
			}
		}
		if count == 0 && len(deliveries) > 0 {
			each(on.CancelDelivery(ctx, w.workspace.ID, deliveries[len(deliveries)-1].ID, actor, now))
		}
	case "retry":
		switch {
		case len(deliveries) > 0:
			each(on.RetryDelivery(ctx, w.workspace.ID, deliveries[len(deliveries)-1].ID, actor, now))
		case len(instances) > 0:
			each(on.RetryInstance(ctx, w.workspace.ID, instances[len(instances)-1].ID, actor, now))
		}
	case "release":
		for _, i := range instances {
			if i.Held() {
				each(on.Release(ctx, w.workspace.ID, i.ID, actor, now))
			}
		}
	}
	cells := map[string]cell{}
	var state *operator.StateError
	switch {
	case count == 0:
		cells["error"] = textCell("there is nothing to " + o.verb)
	case errors.As(failed, &state):
		cells["error"] = textCell(state.Error())
	case failed != nil:
		return failed
	}
	w.answered(a, what, cells)
	return nil
}

// pause pauses or resumes a workflow.
func (w *world) pause(ctx context.Context, a *Action, what string) error {
	on, now := w.engine.Operator(), w.clock.Now()
	var err error
	if a.Operator.verb == "pause" {
		_, err = on.Pause(ctx, w.workspace.ID, a.Operator.workflow, "", actor, now)
	} else {
		_, err = on.Resume(ctx, w.workspace.ID, a.Operator.workflow, actor, now)
	}
	cells := map[string]cell{}
	switch {
	case errors.Is(err, operator.ErrNotFound):
		cells["error"] = textCell("there is no workflow " + a.Operator.workflow)
	case err != nil:
		return err
	}
	w.answered(a, what, cells)
	return nil
}

// open reports whether a delivery may still send a message.
func open(d delivery.Row) bool {
	switch d.Status {
	case delivery.Scheduled, delivery.Unknown:
		return true
	case delivery.Sent, delivery.Opened:
		return d.CompletedAt.IsZero()
	case delivery.Responded, delivery.Expired, delivery.Skipped, delivery.Failed, delivery.Superseded, delivery.Cancelled:
	}
	return false
}

// matching returns the rows that an operator's action names, the oldest first.
func (w *world) matching(ctx context.Context, o *operatorAction) (deliveries []delivery.Row, instances []instance.Row, err error) {
	filter := store.InstanceFilter{Workflow: o.workflow}
	if o.record != "" {
		typ, id, _ := strings.Cut(o.record, "/")
		about, err := w.store.Record(ctx, w.workspace.ID, subject.RecordRef{Type: typ, ExtID: id})
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil, nil
		} else if err != nil {
			return nil, nil, err
		}
		filter.Record = about.ID
	}
	if deliveries, err = w.deliveries(ctx, store.DeliveryFilter{Workflow: o.workflow, To: store.ContactQuery{Text: o.to}}); err != nil {
		return nil, nil, err
	}
	deliveries = slices.DeleteFunc(deliveries, func(d delivery.Row) bool { return filter.Record != 0 && d.Record != filter.Record })
	if o.to != "" {
		return deliveries, nil, nil
	}
	instances, err = w.instances(ctx, filter)
	return deliveries, instances, err
}

// cancelRun ends what is under way: work over many rows, as `carillon runs cancel` does, and occasions that have begun, as `carillon instances cancel` does.
// What is still to come stays.
func (w *world) cancelRun(ctx context.Context, a *Action, what string) error {
	jobs, err := w.cancelJobs(ctx, a.Operator)
	if err != nil {
		return err
	}
	deliveries, instances, err := w.matching(ctx, a.Operator)
	if err != nil {
		return err
	}
	var begun []instance.ID
	between := betweenZones(instances)
	for _, i := range instances {
		waits := func(d delivery.Row) bool { return d.Instance == i.ID && open(d) }
		underWay := i.ExpandCursor != 0 && i.Status == instance.Pending || slices.ContainsFunc(deliveries, waits)
		if id := cmp.Or(i.Head, i.ID); (underWay || between[id]) && !slices.Contains(begun, id) {
			begun = append(begun, id)
		}
	}
	cells := map[string]cell{}
	if jobs+len(begun) == 0 {
		cells["error"] = textCell("nothing is under way")
	}
	for _, id := range begun {
		_, err := w.engine.Operator().CancelInstance(ctx, w.workspace.ID, id, actor, w.clock.Now())
		var state *operator.StateError
		switch {
		case errors.As(err, &state):
			cells["error"] = textCell(state.Error())
		case err != nil:
			return err
		}
	}
	w.answered(a, what, cells)
	return nil
}

// betweenZones returns the occasions of which some zones are done, and others are still to come.
func betweenZones(instances []instance.Row) map[instance.ID]bool {
	done, waits, cancelled := map[instance.ID]bool{}, map[instance.ID]bool{}, map[instance.ID]bool{}
	for _, i := range instances {
		switch {
		case !i.OfZone():
			cancelled[i.ID] = i.Status == instance.Cancelled || !i.CancelledAt.IsZero()
		case i.Status == instance.Completed:
			done[i.Head] = true
		case i.Status == instance.Pending:
			waits[i.Head] = true
		}
	}
	for id := range done {
		done[id] = waits[id] && !cancelled[id]
	}
	return done
}

// cancelJobs cancels the jobs that an action names, and returns how many.
func (w *world) cancelJobs(ctx context.Context, o *operatorAction) (n int, err error) {
	for jobs, err := range w.jobs(ctx) {
		if err != nil {
			return n, err
		}
		for _, j := range jobs {
			is, err := w.isRunOf(ctx, j, o)
			if err != nil {
				return n, err
			}
			if j.Status != job.Running || !is {
				continue
			}
			now := w.clock.Now()
			audit := store.Audit{At: now, Actor: actor, Action: "cancel run", Target: j.Subject}
			if _, err := w.engine.Operator().CancelJob(ctx, w.workspace.ID, j.ID, now, audit); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// isRunOf reports whether an action names a run: by a workflow that it was begun for or whose deliveries it goes over, or by the record whose
// relatives it evaluates.
func (w *world) isRunOf(ctx context.Context, j job.Row, o *operatorAction) (bool, error) {
	if o.record != "" && (j.Kind != job.Related || j.Subject != o.record) {
		return false, nil
	}
	if o.workflow == "" || slices.Contains(j.Workflows(), o.workflow) {
		return true, nil
	}
	if j.Kind == job.Reconcile {
		name, _, _ := strings.Cut(j.Subject, "/")
		return name == o.workflow, nil
	}
	var of delivery.Selection
	if j.Kind != job.Retry && j.Kind != job.Cancel || json.Unmarshal([]byte(j.Selection), &of) != nil {
		return false, nil
	}
	if of.Instance == 0 {
		return of.Workflow == o.workflow, nil
	}
	in, err := w.store.InstanceByID(ctx, w.workspace.ID, of.Instance)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return in.Workflow == o.workflow, err
}
