package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// RetryInstance repeats an instance. An instance that waits or is on hold goes on in its own row, at once; one that has ended, whatever its outcome,
// is repeated as a new one, key:retry:n (B22). If it ended before it was due, the new one keeps its time. The new one goes to the audience of its own
// moment; if the event itself names the recipient, each of its messages is made again.
//
// An occasion that was planned by a record is revalidated when it is due, as the first one was: if the record no longer asks for it, the new one ends
// as source_no_longer_valid. Until then it represents the occasion, and the next evaluation makes no other one.
//
// The same request again changes nothing, and names the instance that was made then, which may be retried itself.
func (o *Operator) RetryInstance(ctx context.Context, ws subject.WorkspaceID, id instance.ID, actor string, now time.Time) (Result, error) {
	return o.retryAs(ctx, ws, id, actor, now, false)
}

// RetryForAll repeats a run of a digest that has ended for everybody, with those who have got its items: each of them gets the items of its window again, as one
// more message, and the next digest is what it would have been. Any other instance is refused with a StateError: retrying it reaches its whole audience as it is.
func (o *Operator) RetryForAll(ctx context.Context, ws subject.WorkspaceID, id instance.ID, actor string, now time.Time) (Result, error) {
	return o.retryAs(ctx, ws, id, actor, now, true)
}

func (o *Operator) retryAs(ctx context.Context, ws subject.WorkspaceID, id instance.ID, actor string, now time.Time, all bool) (Result, error) {
	return o.run(ctx, target{workspace: ws, instance: id, event: true}, "retry", actor, now, func(a *action, s state) (change, error) {
		in := s.Instance
		switch {
		case in.Parked():
			return change{}, paused("retry")
		case all && in.Status == instance.Pending:
			return change{}, &StateError{Action: "retry", Status: "pending", Hint: "retry it for all once it has ended"}
		case all && s.RetriedBy != 0 && !digests.ForAll(s.Repeated.Event):
			return change{}, &StateError{Action: "retry", Status: "retried already, for those who got nothing", Hint: "retry that run for all"}
		case in.Status == instance.Pending:
			if err := o.settleInputs(a, s, &in); err != nil {
				return change{}, err
			}
			in.Retry(now)
			a.record(journal.Released, in, reason.RetryByOperator)
			return change{Instance: &in}, nil
		case s.RetriedBy != 0:
			a.result.NewInstance = s.RetriedBy
			return change{}, nil
		case s.Job != 0:
			return change{}, &StateError{Action: "retry", Status: "being cancelled, and some of its deliveries have not ended", Hint: "retry it when the run that cancels them is done"}
		}
		if all {
			a.detail["scope"] = "all"
		}
		rows := make([]delivery.Row, len(s.Deliveries))
		for i, d := range s.Deliveries {
			rows[i] = s.cancelled(d, now)
		}
		s.Deliveries = rows
		switch {
		case slices.ContainsFunc(s.Deliveries, func(d delivery.Row) bool { return d.Status == delivery.Scheduled || d.Status == delivery.Unknown }):
			return change{}, &StateError{Action: "retry", Status: string(in.Status) + ", and some of its deliveries have not ended", Hint: "retry or cancel those"}
		case slices.ContainsFunc(s.Deliveries, talking):
			return change{}, beingAnswered()
		}
		return o.repeat(a, s, all)
	})
}

// repeat makes a new instance of one that has ended.
func (o *Operator) repeat(a *action, s state, all bool) (change, error) {
	m, err := o.inForce(s)
	if err != nil {
		return change{}, err
	}
	if m.Trigger == nil {
		return change{}, &StateError{Action: "retry", Status: "of a trigger that is defined no longer", Hint: "retry its deliveries one by one"}
	}
	if all && m.Trigger.Digest == nil {
		return change{}, &StateError{Action: "retry", Status: "no run of a digest", Hint: "retry it without all: that reaches its whole audience"}
	}
	schedule := m.Trigger.OnSchedule()
	if schedule != nil && schedule.ByContact && s.Instance.InSeries() && s.Instance.DueAt.After(a.now) {
		// The repetition is for everybody at once, and would reach some of them in the middle of their night.
		return change{}, &StateError{
			Action: "retry", Status: string(s.Instance.Status) + " before it is due, by the zone of each contact", Hint: "retry it when that has come, or start a run by hand",
		}
	}
	in := a.repetition(s)
	in.Status, in.Delay, in.Reason, in.Context = instance.Pending, instance.DelayedByRetry, reason.RetryByOperator, "" // a person's request is no firing
	if s.Instance.DueAt.After(a.now) {
		in.DueAt = s.Instance.DueAt
	}
	c := change{NewInstance: &in, Again: true}
	switch {
	case s.Instance.Source == instance.FromEvent && s.Instance.Round > 0 && len(s.Deliveries) == 0: // a message of a course that was never made
	case slices.ContainsFunc(m.Trigger.Audience, func(to definition.Audience) bool { return to.EventRecipient }):
		in.Status, in.Delay, in.CompletedAt = instance.Completed, "", a.now
		people := map[subject.ContactID]bool{}
		for _, d := range s.Deliveries {
			if d.FallbackOf == 0 && d.Turn == 0 {
				c.NewDeliveries = append(c.NewDeliveries, a.repeated(d, in))
				people[d.Contact] = true
			}
		}
		in.Recipients = len(people)
		if len(c.NewDeliveries) == 0 {
			return change{}, &StateError{Action: "retry", Status: string(s.Instance.Status) + " without a message", Hint: "post the event again, with an id of its own"}
		}
	case m.Trigger.OnPlan() != nil:
		in.Event, in.InputHash = 0, m.Trigger.Inputs() // its record is read again
	case schedule != nil && in.Event == 0 && s.Instance.InSeries():
		if c.NewEvent, err = o.occasion(a, s, m); err != nil {
			return change{}, err
		}
		in.Event = c.NewEvent.ID
	}
	if err := a.scope(&c, &in, s, all); err != nil {
		return change{}, err
	}
	for _, d := range s.Deliveries {
		if !d.SendAt.IsZero() { // the new one has the reminders
			d.Unplan()
			d.CompletedAt = a.now
			if d.Waits() {
				d.Slot = time.Time{}
			}
			c.Deliveries = append(c.Deliveries, d)
		}
	}
	if old := s.Instance; old.Held() {
		if err := o.settleInputs(a, s, &old); err != nil {
			return change{}, err
		}
		old.Unhold()
		c.Instance = &old
	}
	a.result.NewInstance, a.result.NewKey = in.ID, in.Key
	a.record(journal.Created, in, reason.RetryByOperator)
	return c, nil
}

// scope has the occasion of a run of a digest say whether it is for all.
func (a *action) scope(c *change, in *instance.Row, s state, all bool) error {
	ev := s.Event
	if c.NewEvent != nil {
		ev = *c.NewEvent
	}
	if digests.ForAll(ev.Event) == all {
		return nil
	}
	text, err := digests.Scoped(ev.PayloadJSON, all)
	if err != nil {
		return err
	}
	c.NewEvent = &store.EventRow{PayloadJSON: text, Trace: "[]", Event: subject.Event{
		ID: subject.EventID(a.ids(a.now)), Kind: subject.CalendarDue, OccurredAt: a.now, ReceivedAt: a.now,
	}}
	in.Event = c.NewEvent.ID
	return nil
}

// repeated makes a message of the event's own recipient again.
func (a *action) repeated(d delivery.Row, in instance.Row) delivery.Row {
	planned := d.NotBefore
	never := d.LastSentAt.IsZero() && d.Status == delivery.Cancelled
	d = a.copy(d, in)
	if d.Reason = reason.RetryByOperator; never && planned.After(a.now) {
		d.NotBefore = planned
		d.Plan(planned)
	}
	a.result.NewDeliveries = append(a.result.NewDeliveries, d.ID)
	a.recordDelivery(journal.Planned, d, reason.RetryByOperator)
	return d
}

// occasion returns what texts read of a day of the calendar that ended before it had begun, as they would have read it then.
func (o *Operator) occasion(a *action, s state, m definition.Match) (*store.EventRow, error) {
	in := s.Instance
	set, err := o.catalog.Loaded(in.Workspace, s.InForce)
	if err != nil {
		return nil, err
	}
	series, err := plan.SeriesOf(set, m, &o.catalog.Zones)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(series.Payload(series.Occasion(in)))
	if err != nil {
		return nil, fmt.Errorf("write what is due: %w", err)
	}
	return &store.EventRow{PayloadJSON: string(text), Trace: "[]", Event: subject.Event{
		ID: subject.EventID(a.ids(a.now)), Kind: subject.CalendarDue, OccurredAt: a.now, ReceivedAt: a.now,
	}}, nil
}
