package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// loads bounds how often the definitions in force are loaded: each time somebody has applied others.
const loads = 20

// target is what an action is about.
type target struct {
	workspace subject.WorkspaceID
	instance  instance.ID
	contact   subject.ContactID // of the deliveries that it may change; 0: all of the instance
	course    bool              // with the other rows of the courses that its event began
	event     bool              // with the event of the instance, and that of the one by which it was retried
	most      int               // how many deliveries of the whole instance it may lock; 0: all of them
}

// errMoved means that a delivery got another contact after it was read: contacts were merged.
var errMoved = errors.New("the delivery has another contact now")

// state is what an action is decided by: an instance and deliveries of it, locked.
type state struct {
	Instance   instance.Row
	Course     []instance.Row // of the courses that its event began: the other rows
	Deliveries []delivery.Row // those of the target's contact, or all; and of Course those that wait or will be reminded
	Retries    int            // highest n of key:retry:n in use for the instance's base key
	InForce    int64          // number of the definition set in force, which stays so until the transaction ends
	Later      bool           // of a calendar: a later occasion of its series exists
	RetriedBy  instance.ID    // the instance by which a person retried it; 0: none
	Event      store.EventRow // of the instance, and Repeated that of the one by which it was retried; none: it is not asked for, or there is none
	Repeated   store.EventRow

	Large    bool  // the instance has more deliveries than the action may lock, and they were not read
	Left     bool  // of a large one: a cancel changes some of its deliveries
	AllEnded bool  // of a large one: all its deliveries have ended
	Job      int64 // the job that is ending the deliveries of the cancelled instance; 0: none
}

// change is what an action changes, in one transaction with its audit entry. A change that changes nothing leaves no entry.
type change struct {
	Instance      *instance.Row
	Course        []instance.Row // of state.Course, with their new values
	OnlyMark      bool           // Instance is changed by the mark of a cancel only
	Job           *job.Row       // ends the deliveries of the instance, which gets the mark of a cancel
	Deliveries    []delivery.Row // with their new values; one that is being sent takes a stop_reason only
	NewInstance   *instance.Row
	NewDeliveries []delivery.Row
	NewEvent      *store.EventRow        // of the new instance
	Again         bool                   // the new instance retries the old one
	Forget        bool                   // frees the key (product decision 64)
	Successor     iter.Seq[instance.Row] // rows of the next occasion of the calendar: the first that has not ended has to exist; nil: none
}

func (c change) none() bool {
	return c.Instance == nil && c.Job == nil && len(c.Deliveries) == 0 && c.NewInstance == nil && len(c.NewDeliveries) == 0 && !c.Forget
}

// decision decides an action.
type decision func(*action, state) (change, error)

// action is one call of a decision.
type action struct {
	name    string
	actor   string
	target  string
	now     time.Time
	ids     func(time.Time) int64
	result  Result
	detail  map[string]any // of its audit entry, besides the common fields
	entries []journal.Entry
	calls   *expr.Calls // of functions that it lacks; nil: they are called at once
	job     *jobStep    // the step of the job that it belongs to
	marked  int         // deliveries in flight: only what would follow was stopped
}

// onDelivery carries out an action on one delivery. Of its instance, which may have very many, it locks the deliveries of the same contact.
func (o *Operator) onDelivery(ctx context.Context, ws subject.WorkspaceID, id delivery.ID, name, actor string, now time.Time,
	decide func(*action, state, delivery.Row) (change, error),
) (Result, error) {
	for tries := 1; ; tries++ {
		row, err := o.store.DeliveryByID(ctx, ws, id)
		if errors.Is(err, store.ErrNotFound) {
			return Result{}, ErrNotFound
		} else if err != nil {
			return Result{}, fmt.Errorf("find the delivery: %w", err)
		}
		result, err := o.run(ctx, target{workspace: ws, instance: row.Instance, contact: row.Contact}, name, actor, now, func(a *action, s state) (change, error) {
			for _, d := range s.Deliveries {
				if d.ID == id {
					a.target = d.Key
					return decide(a, s, d)
				}
			}
			return change{}, errMoved
		})
		if !errors.Is(err, errMoved) || tries == loads {
			return result, err
		}
	}
}

// onInstance carries out an action on an instance with all its deliveries.
func (o *Operator) onInstance(ctx context.Context, ws subject.WorkspaceID, id instance.ID, name, actor string, now time.Time, decide decision) (Result, error) {
	return o.run(ctx, target{workspace: ws, instance: id}, name, actor, now, decide)
}

// run carries out an action. It runs the transaction again with the definitions that a decision lacks.
func (o *Operator) run(ctx context.Context, on target, name, actor string, now time.Time, decide decision) (Result, error) {
	var a *action
	calls := &expr.Calls{}
	for tries := 1; ; tries++ {
		// The next occasions of a calendar are planned by the definitions in force.
		err := o.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			a = &action{name: name, actor: actor, now: now, ids: o.store.NewID, result: Result{Instance: on.instance}, detail: map[string]any{}, calls: calls}
			return o.step(tx, on, a, decide)
		})
		if err == nil {
			break
		}
		if errors.Is(err, store.ErrNotFound) {
			return Result{}, ErrNotFound
		}
		if tries < loads {
			if loaded, loadErr := o.catalog.Load(ctx, err); loadErr != nil {
				return Result{}, fmt.Errorf("%s: %w", name, loadErr)
			} else if loaded {
				continue
			}
		}
		return Result{}, fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range a.entries {
		o.journal.Write(e)
	}
	return a.result, nil
}

// step carries out an action in one transaction.
func (o *Operator) step(tx *store.Tx, on target, a *action, decide decision) error {
	if err := o.idempotent.Begin(tx, on.workspace); err != nil {
		return err
	}
	s, err := read(tx, on)
	if err != nil {
		return err
	}
	a.target = s.Instance.Key
	c, err := decide(a, s)
	if err != nil {
		return err
	}
	if c.Successor, err = o.follow(tx, a, s, c.Instance); err != nil {
		return err
	}
	a.result.Changed = a.result.Changed || c.Instance != nil && !c.OnlyMark || c.Job != nil || len(c.Deliveries) > a.marked || c.NewInstance != nil || c.Forget
	if !c.none() {
		if err := a.write(tx, s, c); err != nil {
			return err
		}
	}
	return o.idempotent.Keep(tx, on.workspace, a.result)
}

// read locks an instance and the deliveries that an action may change, and reads what is known about the occasion.
func read(tx *store.Tx, on target) (s state, err error) {
	ws, id := on.workspace, on.instance
	if s.Instance, err = tx.LockInstance(ws, id); err != nil {
		return s, err
	}
	if on.course && s.Instance.Source == instance.FromEvent && s.Instance.Round > 0 {
		if s.Course, err = tx.LockCourse(ws, id, key.Instance(s.Instance.Key)); err != nil {
			return s, err
		}
	}
	if err := s.readDeliveries(tx, on); err != nil {
		return s, err
	}
	if len(s.Course) > 0 {
		others, err := tx.LockWaitingDeliveries(s.Course)
		if err != nil {
			return s, err
		}
		s.Deliveries = append(s.Deliveries, others...)
	}
	base, _ := key.Instance(s.Instance.Key).Base()
	if s.Retries, err = tx.Retries(ws, base); err != nil {
		return s, err
	}
	later, err := tx.LaterOccasions([]instance.Row{s.Instance})
	if err != nil {
		return s, err
	}
	s.Later = later[id]
	if s.RetriedBy, err = tx.RetriedBy(ws, id); err != nil {
		return s, err
	}
	if on.event {
		if err := s.readEvents(tx); err != nil {
			return s, err
		}
	}
	s.InForce, err = tx.DefinitionsNumber(ws)
	return s, err
}

// readEvents reads the event of the instance, and that of the one by which it was retried.
func (s *state) readEvents(tx *store.Tx) error {
	ws := s.Instance.Workspace
	repeated, err := tx.EventOfInstance(ws, s.RetriedBy)
	if err != nil {
		return err
	}
	of, by := store.EventRef{Workspace: ws, ID: s.Instance.Event}, store.EventRef{Workspace: ws, ID: repeated}
	found, err := tx.EventsByID([]store.EventRef{of, by})
	s.Event, s.Repeated = found[of], found[by]
	return err
}

// readDeliveries locks the deliveries that an action may change. Of an instance that has too many it only reads whether there is anything
// to cancel.
func (s *state) readDeliveries(tx *store.Tx, on target) (err error) {
	ws, id := on.workspace, on.instance
	if on.contact != 0 {
		s.Deliveries, err = tx.LockDeliveriesOfContact(ws, id, on.contact)
		return err
	}
	if !s.Instance.CancelledAt.IsZero() {
		if s.Job, err = cancelling(tx, ws, id); err != nil {
			return err
		}
	}
	if on.most > 0 {
		n, err := tx.CountDeliveries(ws, id, on.most+1)
		if err != nil {
			return err
		}
		if s.Large = n > on.most; s.Large {
			s.Left, s.AllEnded, err = tx.LeftToCancel(ws, id)
			return err
		}
	}
	s.Deliveries, err = tx.LockDeliveriesOfInstance(ws, id)
	return err
}

// cancelling returns the job that is ending the deliveries of a cancelled instance; 0: none.
func cancelling(tx *store.Tx, ws subject.WorkspaceID, id instance.ID) (int64, error) {
	selection, err := json.Marshal(ofInstance(id))
	if err != nil {
		return 0, fmt.Errorf("write the selection: %w", err)
	}
	j, _, err := tx.OpenBulk(ws, job.Cancel, string(selection))
	return j.ID, err
}

// write writes a change with its audit entry.
func (a *action) write(tx *store.Tx, s state, c change) error {
	ws, id := s.Instance.Workspace, s.Instance.ID
	if c.Job != nil {
		begun, err := tx.AddJobs(a.now, []job.Row{*c.Job})
		if err != nil {
			return err
		}
		a.result.Job = begun[0].ID
	}
	if c.Instance != nil {
		if err := tx.UpdateInstance(a.now, s.Instance, *c.Instance); err != nil {
			return err
		}
	}
	for _, row := range c.Course {
		old := s.Course[slices.IndexFunc(s.Course, func(r instance.Row) bool { return r.ID == row.ID })]
		if err := tx.UpdateInstance(a.now, old, row); err != nil {
			return err
		}
	}
	if err := tx.UpdateDeliveries(a.now, s.Deliveries, c.Deliveries); err != nil {
		return err
	}
	if c.Again && c.NewInstance != nil {
		if err := tx.MarkRetried(ws, id, c.NewInstance.ID); err != nil {
			return err
		}
	}
	made := store.OccasionWrites{Deliveries: c.NewDeliveries}
	if c.NewEvent != nil {
		made.Events = []store.EventRow{*c.NewEvent}
	}
	if c.NewInstance != nil {
		made.Instances = []instance.Row{*c.NewInstance}
	}
	if err := tx.WriteOccasions(ws, made); err != nil {
		return err
	}
	if c.Forget {
		base, _ := key.Instance(s.Instance.Key).Base()
		if err := tx.FreeKey(ws, base, s.Retries+1); err != nil {
			return err
		}
	}
	if c.Successor != nil {
		made, err := tx.EnsureOccasions([]iter.Seq[instance.Row]{c.Successor})
		if err != nil {
			return err
		}
		for _, m := range made {
			a.record(journal.Created, m.Row, "")
		}
	}
	if a.job != nil {
		step := a.job.Step
		if a.result.Changed {
			step.Changed = 1
		}
		next := a.job.job.Advance(step, a.now)
		if err := tx.SaveJobs(a.now, next); err != nil {
			return err
		}
		a.job.saved = &next
	}
	audit, err := a.audit(c)
	if err != nil {
		return err
	}
	if err := tx.Audit(ws, a.now, audit); err != nil || c.Job == nil {
		return err
	}
	// What is being claimed now is committed first, and is in flight. Deliveries that are ended here were locked instead.
	return tx.AwaitClaims()
}

// audit returns the audit entry of a change.
func (a *action) audit(c change) (store.Audit, error) {
	if len(a.result.BeingSent) > 0 {
		a.detail["being_sent"] = len(a.result.BeingSent)
	}
	a.detail["deliveries"], a.detail["new_key"] = len(c.Deliveries), a.result.NewKey
	detail, err := json.Marshal(a.detail)
	if err != nil {
		return store.Audit{}, fmt.Errorf("write the audit entry: %w", err)
	}
	return store.Audit{At: a.now, Actor: a.actor, Action: a.name, Target: a.target, Detail: detail}, nil
}

func (a *action) record(what journal.What, in instance.Row, why reason.Reason) {
	a.entries = append(a.entries, journal.Entry{
		At: a.now, What: what, Workspace: in.Workspace, Workflow: in.Workflow, WorkflowVersion: in.WorkflowVersion,
		Trigger: in.Trigger, Key: in.Key, Event: in.Event, Instance: in.ID, Reason: why, Due: in.DueAt,
	})
}

func (a *action) recordDelivery(what journal.What, d delivery.Row, why reason.Reason) {
	a.entries = append(a.entries, journal.Entry{
		At: a.now, What: what, Workspace: d.Workspace, Workflow: d.Workflow, WorkflowVersion: d.WorkflowVersion,
		Trigger: d.Trigger, Key: d.Key, Event: d.Event, Instance: d.Instance, Delivery: d.ID, Contact: d.CustomerRef,
		Address: d.Address, Channel: d.Channel, Step: d.Step + 1, Reason: why, Until: d.SendAt, Remaining: d.RemindersRemaining,
	})
}
