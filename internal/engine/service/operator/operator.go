// Package operator implements the actions of people: cancel, retry, release and forget for instances and deliveries, pause and resume for workflows.
//
// Every action is one transaction with its audit entry. A cancel of a large occasion marks its instance, and a job ends its deliveries. No action deletes anything or leaves a final state: a message that has ended is sent again
// only as a new occasion with its own key (P2), and a freed key comes back as key:retry:n (product decision 64).
package operator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// ErrNotFound means that the workspace has no such row.
var ErrNotFound = errors.New("not found")

// StateError means that the row's state does not allow the action.
type StateError struct {
	Action string
	Status string
	Hint   string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("%s is not possible: it is %s", e.Action, e.Status)
}

// Result is what an action did. The new ids are set if it made a new occasion.
type Result struct {
	Instance      instance.ID
	Deliveries    []delivery.ID // the deliveries that it changed
	NewInstance   instance.ID
	NewKey        string
	NewDeliveries []delivery.ID
	BeingSent     []delivery.ID // deliveries in flight: a cancel came too late for this message, and ends what would follow
	Changed       bool          // false: it was so already, or all of it is in flight
	Job           int64         // the job that ends the deliveries of a large occasion; 0: there is none
}

// Store is what the actions need of the store.
type Store interface {
	jobs.Store
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	ZonesOf(ctx context.Context, occasions []instance.ID) (map[instance.ID][]instance.Row, error)
	InstanceByKey(ctx context.Context, ws subject.WorkspaceID, key string) (instance.Row, error)
	DeliveryByID(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error)
	NewID(now time.Time) int64
	CountDeliveries(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (int, error)
	LastDelivery(ctx context.Context, ws subject.WorkspaceID) (delivery.ID, error)
	Instances(ctx context.Context, ws subject.WorkspaceID, f store.InstanceFilter, p store.Page) ([]instance.Row, error)
	Selected(ctx context.Context, ws subject.WorkspaceID, sel delivery.Selection, after, last delivery.ID, limit int) ([]delivery.Row, delivery.ID, error)
}

// Operator performs the actions.
type Operator struct {
	// AtOnce is how many deliveries of an occasion a cancel ends itself. Of a larger one it marks the instance, and a job ends as many in
	// each of its transactions.
	AtOnce int

	store      Store
	catalog    *catalog.Catalog
	journal    journal.Writer
	jobs       *jobs.Worker
	idempotent *store.Idempotent[Result]
}

// New makes an Operator.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Operator {
	o := &Operator{AtOnce: atOnce, store: s, catalog: c, journal: w}
	o.jobs = jobs.New(s, jobs.Kind{Kinds: []job.Kind{job.Retry, job.Cancel}, Page: o.bulk})
	return o
}

// CancelJob ends a job where it is; see jobs.Cancel.
func (o *Operator) CancelJob(ctx context.Context, ws subject.WorkspaceID, id int64, now time.Time, audit store.Audit) (job.Row, error) {
	return jobs.Cancel(ctx, o.store, ws, id, now, audit)
}

// ResumeJob continues a job that was cancelled or has failed; see jobs.Resume.
func (o *Operator) ResumeJob(ctx context.Context, ws subject.WorkspaceID, id int64, now time.Time, audit store.Audit) (job.Row, error) {
	return jobs.Resume(ctx, o.store, ws, id, now, audit)
}

// Idempotent is an operator for one request that may be repeated; see store.Idempotent.
func (o *Operator) Idempotent(once *store.Idempotent[Result]) *Operator {
	return &Operator{AtOnce: o.AtOnce, store: o.store, catalog: o.catalog, journal: o.journal, jobs: o.jobs, idempotent: once}
}

// RetryDelivery retries a delivery: one that still waits goes on in its own row and under the same provider key; one that has ended is repeated as a
// new occasion, key:retry:n, with its own provider key.
func (o *Operator) RetryDelivery(ctx context.Context, ws subject.WorkspaceID, id delivery.ID, actor string, now time.Time) (Result, error) {
	return o.onDelivery(ctx, ws, id, "retry", actor, now, (*action).retryDelivery)
}

func (a *action) retryDelivery(s state, d delivery.Row) (change, error) {
	d = s.cancelled(d, a.now)
	if d.LeaseUntil.After(a.now) && !d.IntentAt.IsZero() {
		return change{}, &StateError{Action: "retry", Status: "being sent", Hint: "wait for the result"}
	}
	switch d.Status {
	case delivery.Responded:
		return change{}, &StateError{Action: "retry", Status: string(d.Status), Hint: "the person has answered"}
	case delivery.Sent, delivery.Opened, delivery.Expired, delivery.Skipped, delivery.Failed, delivery.Superseded, delivery.Cancelled:
		if d.Resent {
			return change{}, &StateError{Action: "retry", Status: "sent again already", Hint: "retry the delivery that was made then"}
		}
		switch {
		case d.Turn > 0:
			return change{}, &StateError{Action: "retry", Status: "a further message of a conversation", Hint: "retry the delivery that began it, once the conversation is over"}
		case talking(d):
			return change{}, beingAnswered()
		}
		return a.again(s, d), nil
	case delivery.Scheduled, delivery.Unknown:
		if d.Status == delivery.Unknown {
			d.UnknownSince = time.Time{} // a person has decided that it is sent
		}
		d.Status = delivery.Scheduled
		if d.Step > 0 {
			d.Status = delivery.Sent
		}
		d.EligibleAt = a.eligible(d)
		d.Plan(a.now)
		d.ExpiresAt, d.LeaseUntil, d.RetryCount, d.Reason = time.Time{}, time.Time{}, 0, reason.RetryByOperator
		d.DueAt = time.Time{} // catch_up does not apply to a retry
		a.result.Deliveries = append(a.result.Deliveries, d.ID)
		a.recordDelivery(journal.Released, d, reason.RetryByOperator)
		return change{Deliveries: []delivery.Row{d}}, nil
	}
	return change{}, &StateError{Action: "retry", Status: string(d.Status)}
}

// talking reports whether somebody has replied in the conversation of a delivery, which goes on.
func talking(d delivery.Row) bool { return d.Status == delivery.Opened && d.Asks != "" }

func beingAnswered() error {
	return &StateError{Action: "retry", Status: "being answered, by message", Hint: "cancel the delivery, which ends the conversation; a retry then begins a new one"}
}

// eligible is the instant from which a retried message could have left; zero: now. A retry by hand does not move it, but a message that waited for a
// limit, a resume or a person's decision could not have left before.
func (a *action) eligible(d delivery.Row) time.Time {
	if at := d.Eligible(); !d.Parked() && at.Before(a.now) {
		return at
	}
	return time.Time{}
}

// again makes a new occasion for one contact out of a delivery that has ended, and marks the old one, so that the same request made twice sends once.
func (a *action) again(s state, d delivery.Row) change {
	old := d
	old.Resent, old.StopReason = true, reason.ResentByOperator
	if !old.SendAt.IsZero() { // the new one has the reminders
		old.Unplan()
		old.CompletedAt = a.now
		if old.Waits() {
			old.Slot = time.Time{}
		}
	}
	in := a.repetition(s)
	in.Status, in.CompletedAt, in.Reason = instance.Completed, a.now, reason.ResentByOperator
	in.Recipients = 1
	d = a.copy(d, in)
	d.Reason = reason.ResentByOperator

	a.result.NewInstance, a.result.NewKey, a.result.NewDeliveries = in.ID, in.Key, []delivery.ID{d.ID}
	a.record(journal.Created, in, reason.ResentByOperator)
	a.recordDelivery(journal.Planned, d, reason.ResentByOperator)
	return change{Deliveries: []delivery.Row{old}, NewInstance: &in, NewDeliveries: []delivery.Row{d}}
}

// repetition is a new row for the occasion of an instance, under its own key.
func (a *action) repetition(s state) instance.Row {
	in := s.Instance
	base, _ := key.Instance(in.Key).Base()
	in.ID, in.Key, in.CreatedAt, in.DueAt, in.CompletedAt = instance.ID(a.ids(a.now)), string(base.Retry(s.Retries+1)), a.now, a.now, time.Time{}
	in.Unhold()
	in.RetryOf, in.Delay, in.CancelledAt = s.Instance.ID, "", time.Time{}
	in.Recipients, in.UnbrakedAt = 0, time.Time{} // it has a brake of its own
	in.Version, in.Attempts, in.RetryCount, in.Crashes, in.ExpandCursor = 0, 0, 0, 0, 0
	in.EffectiveAt, in.OpenedAt = time.Time{}, time.Time{}
	in.LeaseUntil, in.NextRetryAt, in.LocalDate, in.Timezone = time.Time{}, time.Time{}, "", "" // it is no day of a calendar
	return in
}

// copy is a delivery of a repetition, to the same contact.
func (a *action) copy(d delivery.Row, in instance.Row) delivery.Row {
	// A delivery's key is its occasion's key and, from the first bar on, the contact and the channel.
	who := d.Key[strings.IndexByte(d.Key, '|'):]
	d.ID, d.Instance, d.Key = delivery.ID(a.ids(a.now)), in.ID, in.Key+who
	d.RemindersRemaining += d.Step // planned reminders count from the beginning again
	d.SetFold("", 0)
	d.Plan(a.now)
	d.Status, d.NotBefore, d.Slot, d.DeferredBy = delivery.Scheduled, a.now, time.Time{}, ""
	d.LeaseUntil, d.Version, d.Step, d.AttemptNo, d.IntentAt, d.RetryCount = time.Time{}, 0, 0, 0, time.Time{}, 0
	d.UnknownSince, d.DueAt, d.EligibleAt, d.SurveySet, d.Asks, d.ReportedStep = time.Time{}, time.Time{}, time.Time{}, 0, "", 0
	d.LastSentAt, d.ExpiresAt, d.StopReason, d.Resent, d.CreatedAt, d.CompletedAt = time.Time{}, time.Time{}, "", false, a.now, time.Time{}
	return d
}

// follow returns the successor of an occasion of a calendar or a course that a person has ended: they end only by their own rule.
func (o *Operator) follow(tx *store.Tx, a *action, s state, ended *instance.Row) (iter.Seq[instance.Row], error) {
	in := s.Instance
	if ended == nil || ended.Status == instance.Pending || in.Status != instance.Pending || s.Later || !in.InSeries() && !in.InCourse() || in.InCourse() && in.Beside() {
		return nil, nil
	}
	if in.Source == instance.FromEvent {
		return o.followEvent(tx, a, s)
	}
	set, err := o.catalog.Loaded(in.Workspace, s.InForce)
	if err != nil {
		return nil, err
	}
	w := set.Workflow(in.Workflow)
	if w == nil || w.TriggerByID(in.Trigger) == nil {
		return nil, nil
	}
	m := definition.Match{Workflow: w, Trigger: w.TriggerByID(in.Trigger)}
	switch p := m.Trigger.OnPlan(); {
	case p != nil && p.Course != nil && in.InCourse():
		return o.followCourse(tx, a, s, m, set)
	case m.Trigger.OnSchedule() == nil || !in.InSeries():
		return nil, nil
	}
	series, err := plan.SeriesOf(set, m, &o.catalog.Zones)
	if err != nil {
		return nil, err
	}
	return func(yield func(instance.Row) bool) {
		for row := range series.Next(plan.PlaceOf(in), a.now) {
			row.Workspace, row.ID, row.Definitions, row.EffectiveAt = in.Workspace, instance.ID(a.ids(a.now)), s.InForce, in.EffectiveAt
			if !yield(row) {
				return
			}
		}
	}, nil
}
