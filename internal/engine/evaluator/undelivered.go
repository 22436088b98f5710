package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// A cooldown counts from an alert of which somebody was notified. It is reserved when the alert's messages are made. When the last of these has ended
// and none was sent or may have been sent, the cooldown is refunded: at once if the alert had no audience any more, and later if its people could not
// be reached, so that an alert that fails for good is not tried again at every evaluation.

const (
	// failedFor is how long a cooldown counts at most after its alert has failed for good. It equals the cooldown that applies where none is set
	// (A12), and about the time that the retries of a channel take before the failure.
	failedFor = time.Hour
)

// refundAt returns the instant from which the cooldown of an undelivered alert no longer counts. Zero: it counts in full, because a person ended the
// alert and knows about it.
func refundAt(why []reason.Reason, now time.Time) time.Time {
	unread := []reason.Reason{reason.ConditionCleared, reason.Suppressed, reason.WorkflowInactive, reason.DeferredTooLong}
	switch {
	case slices.Contains(why, reason.CancelledByPerson):
		return time.Time{}
	case len(why) == 1 && why[0] == reason.NoRecipient: // the audience turned out to be empty (decision 8)
		return now.Add(retryAfter)
	case slices.ContainsFunc(why, func(r reason.Reason) bool { return !slices.Contains(unread, r) }):
		return now.Add(failedFor)
	}
	return now
}

// refunds is one attempt of a step that refunds cooldowns; the step may run again from the beginning.
type refunds struct {
	*Evaluator
	now     time.Time
	entries []journal.Entry
}

// refundUndelivered reads alerts whose messages all ended without having been sent, and refunds their cooldowns.
func (c *Evaluator) refundUndelivered(ctx context.Context, now time.Time, limit int) (int, error) {
	return c.loaded(ctx, "refund cooldowns", limit, func(limit int) (int, []journal.Entry, error) {
		r := refunds{Evaluator: c, now: now}
		n, err := c.store.Undelivered(ctx, now, limit, r.decide)
		return n, r.entries, err
	})
}

func (r *refunds) decide(list []store.Undelivered) ([]store.Refund, error) {
	r.entries = nil
	out := make([]store.Refund, len(list))
	for i, u := range list {
		at := refundAt(u.Why, r.now)
		if at.IsZero() {
			continue
		}
		set, err := r.catalog.Loaded(u.Workspace, u.InForce)
		if err != nil {
			return nil, err
		}
		out[i] = r.one(u, set, at)
	}
	return out, nil
}

func (r *refunds) one(u store.Undelivered, set *definition.Set, at time.Time) store.Refund {
	back := store.Refund{At: at}
	var version int64
	if w := set.Workflow(u.Workflow); w != nil {
		version = w.Version
		if t := w.TriggerByID(u.Trigger); t != nil && t.Cooldown != nil && !t.Cooldown.OfRecord() {
			back.Shared, back.Until = true, u.FiredAt.Add(definition.CooldownOf(set, t, u.Issues))
		}
	}
	trace, err := json.Marshal(undeliveredTrace{At: r.now, FiredAt: u.FiredAt, Until: at, Reasons: u.Why, Issues: u.Issues})
	if err != nil { // instants after the year 9999 have no JSON form
		trace = nil
	}
	words := make([]string, len(u.Why))
	for i, why := range u.Why {
		words[i] = string(why)
	}
	r.entries = append(r.entries, journal.Entry{
		At: r.now, What: journal.Returned, Workspace: u.Workspace, Workflow: u.Workflow, WorkflowVersion: version, Trigger: u.Trigger,
		Instance: u.Instance, Reason: reason.NobodyNotified, Record: u.Type + "/" + u.ExtID, Context: u.Context, Due: u.FiredAt, Until: at,
		Message: fmt.Sprintf("The alert of workflow %s, trigger '%s' reached nobody (%s). Its cooldown counts no longer.", u.Workflow, u.Trigger, strings.Join(words, ", ")),
	})
	back.Decision = store.Decision{
		ID: r.store.NewID(r.now), At: r.now, Record: u.Record, Instance: u.Instance, Context: u.Context, Workflow: u.Workflow, WorkflowVersion: version,
		Trigger: u.Trigger, Reason: reason.NobodyNotified, Trace: string(trace),
	}
	return back
}

// undeliveredTrace explains why an alert reached nobody.
type undeliveredTrace struct {
	At      time.Time       `json:"at"`
	FiredAt time.Time       `json:"fired_at"`
	Until   time.Time       `json:"until"` // the cooldown counts until then
	Reasons []reason.Reason `json:"reasons,omitempty"`
	Issues  []string        `json:"issues,omitempty"`
}
