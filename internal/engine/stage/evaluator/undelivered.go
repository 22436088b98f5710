package evaluator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// A cooldown counts from an alert of which somebody was notified. It is reserved when the alert's messages are made. When the last of these has ended
// and none was sent or may have been sent, the cooldown is refunded: at once if the alert had no audience any more, and later if its people could not
// be reached (plan.RefundAt), so that an alert that fails for good is not tried again at every evaluation.

// undelivered is a context whose last alert reached nobody and can no longer reach anybody.
type undelivered struct {
	store.Throttle
	store.RecordName                 // of the record that fired last
	why              []reason.Reason // why its messages ended, or why the instance ended if it has no messages; distinct and sorted
}

// refunds is one attempt of a step that refunds cooldowns; the step may run again from the beginning.
type refunds struct {
	*Evaluator
	now     time.Time
	entries []journal.Entry
}

// refundUndelivered reads alerts whose messages all ended without having been sent, and refunds their cooldowns.
func (c *Evaluator) refundUndelivered(ctx context.Context, now time.Time, limit int) (int, error) {
	return c.loaded(ctx, "refund cooldowns", limit, func(limit int) (n int, entries []journal.Entry, err error) {
		r := refunds{Evaluator: c, now: now}
		err = c.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			n, err = r.step(tx, limit)
			return err
		})
		return n, r.entries, err
	})
}

// step takes up to limit marks of messages that ended unsent, and returns how many.
func (r *refunds) step(tx *store.Tx, limit int) (int, error) {
	marks, err := tx.UndeliveredMarks(limit)
	if err != nil || len(marks) == 0 {
		return 0, err
	}
	list, err := gatherUndelivered(tx, marks)
	if err != nil {
		return 0, err
	}
	back, err := r.decide(list)
	if err != nil {
		return 0, err
	}
	writes := make([]store.Refund, len(back))
	for i, b := range back {
		writes[i] = b.Refund
		if !b.shared {
			continue
		}
		others, err := tx.RecordsWaitingFor(b.Throttle, b.At, b.until)
		if err != nil {
			return 0, err
		}
		writes[i].Records = append(writes[i].Records, others...)
	}
	if err := tx.WriteRefunds(writes); err != nil {
		return 0, err
	}
	return len(marks), tx.DeleteUndeliveredMarks(marks)
}

// gatherUndelivered returns the contexts whose last alert reached nobody. A context that was reset has no cooldown and is left out.
func gatherUndelivered(tx *store.Tx, marks []store.UndeliveredMark) (list []undelivered, err error) {
	throttles, err := tx.ThrottlesOfMarks(marks)
	if err != nil {
		return nil, err
	}
	var fired []store.Throttle
	for _, th := range throttles {
		if !th.FiredAt.IsZero() && th.VoidAt.IsZero() {
			fired = append(fired, th)
		}
	}
	slices.SortFunc(fired, store.CompareThrottles)
	delivered, err := tx.Delivered(fired)
	if err != nil {
		return nil, err
	}
	fired = slices.DeleteFunc(fired, func(th store.Throttle) bool { return delivered[th.ThrottleRef] })
	why, err := tx.UndeliveredReasons(fired)
	if err != nil {
		return nil, err
	}
	var records []store.RecordKey
	for _, th := range fired {
		records = append(records, store.RecordKey{Workspace: th.Workspace, ID: th.Record})
	}
	names, err := tx.RecordNames(records)
	if err != nil {
		return nil, err
	}
	for _, th := range fired {
		if name, ok := names[store.RecordKey{Workspace: th.Workspace, ID: th.Record}]; ok {
			list = append(list, undelivered{th, name, why[th.ThrottleRef]})
		}
	}
	return list, nil
}

// refund is a cooldown that stops counting.
type refund struct {
	store.Refund
	shared bool      // other records may be waiting for it
	until  time.Time // the end of the cooldown that these records wait for
}

// decide returns the cooldowns that are refunded.
func (r *refunds) decide(list []undelivered) (back []refund, err error) {
	r.entries = nil
	for _, u := range list {
		at := plan.RefundAt(u.why, r.now)
		if at.IsZero() {
			continue
		}
		set, err := r.catalog.Loaded(u.Workspace, u.InForce)
		if err != nil {
			return nil, err
		}
		back = append(back, r.one(u, set, at))
	}
	return back, nil
}

func (r *refunds) one(u undelivered, set *definition.Set, at time.Time) refund {
	back := refund{Refund: store.Refund{Throttle: u.Throttle, At: at, Records: []subject.RecordID{u.Record}}}
	var version int64
	if w := set.Workflow(u.Workflow); w != nil {
		version = w.Version
		if t := w.TriggerByID(u.Trigger); t != nil {
			if c := t.OnCondition(); c != nil && !c.Cooldown.OfRecord() {
				back.shared, back.until = true, u.FiredAt.Add(definition.CooldownOf(set, t, u.Issues))
			}
		}
	}
	because := trace.Trace{At: r.now, FiredAt: u.FiredAt, Until: at, Issues: u.Issues}
	if len(u.why) > 0 {
		because.Reasons.Messages = u.why
	}
	words := make([]string, len(u.why))
	for i, why := range u.why {
		words[i] = string(why)
	}
	r.entries = append(r.entries, journal.Entry{
		At: r.now, What: journal.Returned, Workspace: u.Workspace, Workflow: u.Workflow, WorkflowVersion: version, Trigger: u.Trigger,
		Instance: u.Instance, Reason: reason.NobodyNotified, Record: u.Type + "/" + u.ExtID, Context: u.Context, Due: u.FiredAt, Until: at,
		Message: fmt.Sprintf("The alert of workflow %s, trigger '%s' reached nobody (%s). Its cooldown counts no longer.", u.Workflow, u.Trigger, strings.Join(words, ", ")),
	})
	back.Decision = store.Decision{
		ID: r.store.NewID(r.now), At: r.now, Record: u.Record, Instance: u.Instance, Context: u.Context, Workflow: u.Workflow, WorkflowVersion: version,
		Trigger: u.Trigger, Reason: reason.NobodyNotified, Trace: because.String(),
	}
	return back
}
