package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// atOnce is Operator.AtOnce where nothing else is set: a transaction of some 20 ms.
const atOnce = 500

// CancelInstance cancels an occasion with all its deliveries. A sent message stays sent and gets no more reminders. From its commit on
// nothing of the occasion is sent but what is in flight (P5).
//
// The rows of an occasion for single time zones that have begun are cancelled too, each in a transaction of its own. They come first, so that a call that fails
// in between is made again whole, and once more for those that have begun meanwhile. The other rows end when they come due.
func (o *Operator) CancelInstance(ctx context.Context, ws subject.WorkspaceID, id instance.ID, actor string, now time.Time) (Result, error) {
	zones, err := o.cancelZones(ctx, ws, id, actor, now)
	if err != nil {
		return Result{}, err
	}
	result, err := o.cancelInstance(ctx, ws, id, zones, actor, now)
	if err != nil {
		return result, err
	}
	_, err = o.cancelZones(ctx, ws, id, actor, now)
	return result, err
}

// cancelZones cancels the rows of an occasion for single time zones that have begun.
func (o *Operator) cancelZones(ctx context.Context, ws subject.WorkspaceID, id instance.ID, actor string, now time.Time) (all Result, err error) {
	zones, err := o.store.ZonesOf(ctx, []instance.ID{id})
	if err != nil {
		return all, fmt.Errorf("find the zones of an instance: %w", err)
	}
	alone := o.Idempotent(nil) // the answer that is kept is that of the whole action
	for _, z := range zones[id] {
		if z.Workspace != ws || z.Status == instance.Pending && z.ExpandCursor == 0 || !z.CancelledAt.IsZero() {
			continue
		}
		one, err := alone.cancelInstance(ctx, ws, z.ID, Result{}, actor, now)
		var refused *StateError
		switch {
		case errors.As(err, &refused), errors.Is(err, ErrNotFound): // nothing of it is still to come
		case err != nil:
			return all, err
		default:
			all.add(one)
		}
	}
	return all, nil
}

// add joins what another action did.
func (r *Result) add(other Result) {
	r.Deliveries, r.BeingSent = append(r.Deliveries, other.Deliveries...), append(r.BeingSent, other.BeingSent...)
	r.Changed, r.Job = r.Changed || other.Changed, cmp.Or(r.Job, other.Job)
}

// cancelInstance cancels an instance with its deliveries. zones is what the cancel of its rows for single zones did.
func (o *Operator) cancelInstance(ctx context.Context, ws subject.WorkspaceID, id instance.ID, zones Result, actor string, now time.Time) (Result, error) {
	return o.run(ctx, target{workspace: ws, instance: id, most: o.AtOnce}, "cancel", actor, now, func(a *action, s state) (change, error) {
		var c change
		if in := s.Instance; in.Held() || in.Status == instance.Pending {
			if err := o.settleInputs(a, s, &in); err != nil {
				return c, err
			}
			if in.Cancel(now) {
				a.record(journal.Cancelled, s.Instance, reason.CancelledByPerson)
			} else {
				a.record(journal.Released, in, reason.ReleasedByPerson)
			}
			c.Instance = &in
		}
		if err := a.cancelDeliveries(&c, s); err != nil {
			return c, err
		}
		a.result.add(zones)
		if c.none() && !zones.Changed && len(a.result.BeingSent) == 0 && s.Job == 0 && s.Instance.Status != instance.Cancelled && s.Instance.CancelledAt.IsZero() && !s.ended() {
			return c, &StateError{Action: "cancel", Status: string(s.Instance.Status), Hint: "what was sent stays sent, and nothing of it is still to come"}
		}
		return c, nil
	})
}

// cancelDeliveries adds to a change that the deliveries of the instance are cancelled: at once, or by a job if there are many.
func (a *action) cancelDeliveries(c *change, s state) error {
	if a.result.Job = s.Job; s.Large && s.Job == 0 && s.Left {
		begun, err := cancelJob(s, a.actor, a.now)
		if err != nil {
			return err
		}
		c.Job = &begun
	}
	own := c.Job != nil
	for _, d := range s.Deliveries {
		if row, ok := a.cancel(d); ok {
			c.Deliveries = append(c.Deliveries, row)
			own = own || d.Instance == s.Instance.ID
		}
	}
	if own && s.Instance.CancelledAt.IsZero() {
		if c.OnlyMark = c.Instance == nil; c.OnlyMark {
			in := s.Instance
			c.Instance = &in
		}
		c.Instance.CancelDeliveries(a.now)
	}
	return nil
}

// cancelJob is the job that ends the deliveries of a large occasion.
func cancelJob(s state, actor string, now time.Time) (job.Row, error) {
	selection, err := json.Marshal(ofInstance(s.Instance.ID))
	if err != nil {
		return job.Row{}, fmt.Errorf("write the selection: %w", err)
	}
	j := job.New(s.Instance.Workspace, job.Seed{Kind: job.Cancel, Subject: "instance " + s.Instance.Key}, s.InForce, now)
	j.Selection, j.Actor = string(selection), actor
	return j, nil
}

func ofInstance(id instance.ID) delivery.Selection { return delivery.Selection{Instance: id} }

// ended reports whether every delivery of the instance has ended.
func (s state) ended() bool {
	if s.Large {
		return s.AllEnded
	}
	for _, d := range s.Deliveries {
		if !d.Status.Final() {
			return false
		}
	}
	return true
}

// cancelled returns a delivery as it counts: if its occasion was cancelled, it is cancelled too, whether its row is ended yet or not. What
// is in flight still is.
func (s state) cancelled(d delivery.Row, now time.Time) delivery.Row {
	if s.Instance.CancelledAt.IsZero() || d.InFlight(now) {
		return d
	}
	d, _ = d.Cancel(reason.CancelledByPerson, now)
	return d
}

// endCancelled is a page of the job that ends the deliveries of a cancelled occasion, in one transaction with the progress of the job.
// What joins the occasion later, such as a fallback, is ended when it is due.
func (o *Operator) endCancelled(ctx context.Context, now time.Time, j job.Row, id instance.ID) (done int, err error) {
	total := 0
	if j.Cursor == 0 {
		if total, err = o.store.CountDeliveries(ctx, j.Workspace, id); err != nil {
			return 0, err
		}
	}
	var a *action
	err = o.store.Write(ctx, func(tx *store.Tx) error {
		a, done = &action{now: now}, 0
		step := job.Step{Cursor: j.Cursor, Total: total, End: true}
		in, err := tx.LockInstance(j.Workspace, id)
		switch {
		case errors.Is(err, store.ErrNotFound): // retention has deleted it
		case err != nil:
			return err
		case !in.CancelledAt.IsZero():
			rows, last, more, err := tx.LockDeliveryPage(j.Workspace, id, subject.ContactID(j.Cursor), o.AtOnce)
			if err != nil {
				return err
			}
			var changed []delivery.Row
			for _, d := range rows {
				if row, ok := a.cancel(d); ok {
					changed = append(changed, row)
				}
			}
			if err := tx.UpdateDeliveries(now, rows, changed); err != nil {
				return err
			}
			done = len(rows)
			step.Cursor, step.End, step.Done, step.Changed = int64(last), !more, done, len(a.result.Deliveries)
		}
		return tx.SaveJobs(now, j.Advance(step, now))
	})
	if err != nil {
		return 0, fmt.Errorf("end the deliveries of a cancelled instance: %w", err)
	}
	for _, e := range a.entries {
		o.journal.Write(e)
	}
	return done, nil
}

// CancelDelivery cancels one delivery; if its message is in flight, it is too late for that attempt (P5).
func (o *Operator) CancelDelivery(ctx context.Context, ws subject.WorkspaceID, id delivery.ID, actor string, now time.Time) (Result, error) {
	return o.onDelivery(ctx, ws, id, "cancel", actor, now, func(a *action, _ state, d delivery.Row) (change, error) {
		return a.cancelDelivery(d)
	})
}

func (a *action) cancelDelivery(d delivery.Row) (c change, err error) {
	row, ok := a.cancel(d)
	if ok {
		c.Deliveries = append(c.Deliveries, row)
		return c, nil
	}
	if d.Status == delivery.Cancelled || d.StopReason != "" {
		return c, nil
	}
	return c, &StateError{Action: "cancel", Status: string(d.Status), Hint: "a delivery that has ended stays as it is"}
}

// cancel changes a delivery that may still have something to send. One with an open intent is only marked: the result of the attempt decides
// (docs/concepts/model.md).
func (a *action) cancel(d delivery.Row) (delivery.Row, bool) {
	return a.cancelFor(d, reason.CancelledByPerson)
}

func (a *action) cancelFor(d delivery.Row, why reason.Reason) (delivery.Row, bool) {
	next, changed := d.Cancel(why, a.now)
	switch {
	case d.InFlight(a.now) && !d.Status.Final():
		a.result.BeingSent = append(a.result.BeingSent, d.ID)
		if changed {
			a.marked++
		}
	case changed:
		a.result.Deliveries = append(a.result.Deliveries, d.ID)
	}
	if changed {
		a.recordDelivery(journal.Cancelled, next, why)
	}
	return next, changed
}

// Forget frees a key: the next event of this occasion counts as new and makes key:retry:n (C10, product decision 64). It cancels what the forgotten instance
// still has to send; of an event that began a course, all of the course; of an occasion that is due by zones, those that have begun, as a cancel does.
func (o *Operator) Forget(ctx context.Context, ws subject.WorkspaceID, instanceKey, actor string, now time.Time) (Result, error) {
	base, _ := key.Instance(instanceKey).Base()
	row, err := o.store.InstanceByKey(ctx, ws, string(base))
	if errors.Is(err, store.ErrNotFound) {
		return Result{}, ErrNotFound
	} else if err != nil {
		return Result{}, fmt.Errorf("find %s: %w", instanceKey, err)
	}
	zones, err := o.cancelZones(ctx, ws, row.ID, actor, now)
	if err != nil {
		return Result{}, err
	}
	result, err := o.forget(ctx, ws, row.ID, zones, actor, now)
	if err != nil {
		return result, err
	}
	_, err = o.cancelZones(ctx, ws, row.ID, actor, now)
	return result, err
}

// forget frees the key of an instance. zones is what the cancel of its rows for single zones did.
func (o *Operator) forget(ctx context.Context, ws subject.WorkspaceID, id instance.ID, zones Result, actor string, now time.Time) (Result, error) {
	return o.run(ctx, target{workspace: ws, instance: id, most: o.AtOnce, course: true}, "forget", actor, now, func(a *action, s state) (change, error) {
		if s.Instance.FollowsEvent() {
			event, _ := key.Instance(s.Instance.Key).OfEvent()
			return change{}, &StateError{Action: "forget", Status: "a later message of a course", Hint: "forget the key of its event: " + string(event)}
		}
		c := change{Forget: true}
		if in := s.Instance; in.Held() || in.Status == instance.Pending {
			in.End(instance.Cancelled, reason.Forgotten, now)
			c.Instance = &in
		}
		for _, in := range s.Course {
			if in.Held() || in.Status == instance.Pending {
				in.End(instance.Cancelled, reason.Forgotten, now)
				c.Course = append(c.Course, in)
			}
		}
		if err := a.cancelDeliveries(&c, s); err != nil {
			return c, err
		}
		a.result.add(zones)
		a.record(journal.Forgotten, s.Instance, reason.Forgotten)
		return c, nil
	})
}
