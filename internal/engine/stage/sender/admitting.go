package sender

import (
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// pause is how long a delivery of a disabled workflow waits before it is evaluated again. Enabling the workflow brings these deliveries forward; the
// wait is for those that are deferred at that very moment.
const pause = time.Hour

// rules are the definitions that a claim belongs to.
type rules struct {
	set      *definition.Set
	live     *definition.Set // in force
	workflow *definition.Workflow
	trigger  *definition.Trigger
	channel  *definition.Channel // nil: not defined
	policy   delivery.Policy
	off      bool // the workflow is switched off
}

// rulesOf finds the definitions of a claim: pinned ones from its own set, channels and switches from the set
// in force.
func (s *Sender) rulesOf(row delivery.Row, live *definition.Set) (rules, error) {
	set := live
	if row.Definitions > 0 {
		var err error
		if set, err = s.Catalog.Loaded(row.Workspace, row.Definitions); err != nil {
			return rules{}, err
		}
	}
	r := rules{set: set, live: live, workflow: set.Workflow(row.Workflow), channel: live.Channel(row.Channel)}
	if r.workflow != nil {
		r.trigger = r.workflow.TriggerByID(row.Trigger)
	}
	now := live.Workflow(row.Workflow)
	if now != nil {
		r.off = !now.Enabled
	} else {
		r.trigger = nil // a deleted workflow sends nothing, whatever version the row is pinned to
	}
	if r.trigger != nil && !r.trigger.Pin && (now == nil || now.TriggerByID(row.Trigger) == nil) {
		r.trigger = nil // the row keeps the version of a large audience (R17), and would have followed its definition otherwise
	}
	if r.trigger == nil {
		return r, nil
	}
	r.policy = delivery.Policy{
		Timing: r.trigger.Timing, Awaits: r.trigger.Message.Survey != "",
		Jitter: r.trigger.Retry.Jitter, Forever: r.trigger.Retry.Then == definition.RetryForever,
	}
	if r.channel != nil {
		r.policy.HoldUnknown, r.policy.KeyLife = r.channel.OnUnknown == definition.OnUnknownHold, r.channel.KeyLife
	}
	if s.NoJitter {
		r.policy.Jitter = 0
	}
	return r, nil
}

// inForce returns the set in force, the same in all tries of the transaction.
func (r *admitting) inForce(ws subject.WorkspaceID) (*definition.Set, error) {
	if live, ok := r.live[ws]; ok {
		return live, nil
	}
	live, err := r.Catalog.Loaded(ws, 0)
	if err == nil {
		r.live[ws] = live
	}
	return live, err
}

// halt checks everything that stops a claim before its limits are checked.
func (r *admitting) halt(c *candidate) (v verdict, halted bool, err error) {
	if v, halted = r.stop(c); halted {
		return v, true, nil
	}
	return r.rest(c)
}

// decideOne decides a claim by the limits of its contact and the rate of its channel. known is false if its person has to be locked for that.
func (r *admitting) decideOne(c *candidate) (known bool, err error) {
	stands, known := r.stands(c)
	if !known || r.join(c) {
		return known, nil
	}
	rate, ref := c.rules.channel.Rate, paceOf(c.Claim)
	var pace flow.Pace
	var at time.Time
	if rate.Count > 0 {
		var now bool
		if pace, at, now = r.pace(ref).Take(rate, r.now, r.ahead()); !now {
			r.taken[ref] = pace
			c.verdict = r.later(c, at, delivery.HoldRate, reason.RateLimited)
			r.putOff(c, at)
			r.keep(c)
			return true, nil
		}
	}
	if c.verdict = (verdict{row: c.Row, send: true}); !stands {
		if c.verdict = r.admit(c); !c.verdict.send {
			return true, nil
		}
	}
	if err := r.reserve(c); err != nil {
		return true, err
	}
	if rate.Count > 0 {
		r.taken[ref], r.instants[c.ID] = pace, at
	}
	return true, nil
}

// pace is how far the send instants of a channel are assigned, by others and by this batch.
func (r *admitting) pace(ref store.PaceRef) flow.Pace {
	if p, ok := r.taken[ref]; ok {
		return p
	}
	return r.paces[ref]
}

// ahead is how far ahead of its instant a message is claimed. A batch in order does not wait: it is a replay, and nothing moves its clock meanwhile.
func (r *admitting) ahead() time.Duration {
	if r.Concurrency == 1 {
		return 0
	}
	return horizon
}

// rest defers a message whose channel rests because its provider is away.
func (r *admitting) rest(c *candidate) (v verdict, resting bool, err error) {
	rest := r.Channels.Resting(c.Workspace, c.rules.channel, r.now)
	if rest.OK {
		return v, false, nil
	}
	ws, err := r.Catalog.Workspace(c.Workspace)
	if err != nil {
		return v, false, err
	}
	at := r.spread(ws.Jitter, c.Claim, rest)
	if c.IsFoldMember() { // not before its fold head
		at = rest.Until.Add(rest.Spread + delivery.FoldMemberDelay)
	}
	return r.later(c, at, delivery.HoldChannelDown, reason.ChannelDown), true, nil
}

// later defers a message to an instant at which its channel can take it. It keeps its slot and its due instant: waiting for a channel is lateness,
// unlike waiting for a limit (R2).
func (r *admitting) later(c *candidate, at time.Time, hold delivery.Hold, why reason.Reason) verdict {
	change := stay(c)
	change.SendAt, change.Hold = at, hold
	v := r.move(c, c.rules.policy.Timing, journal.Deferred, why, change)
	v.row.DueAt, v.row.EligibleAt = c.Due(), c.Eligible()
	return v
}

// stop checks everything that keeps a message from leaving at all.
func (r *admitting) stop(c *candidate) (v verdict, stopped bool) {
	stopped = true
	policy := c.rules.policy
	switch {
	case c.rules.trigger == nil:
		v = r.end(c, delivery.Cancelled, reason.WorkflowInactive)
	case c.StopReason != "":
		v = r.end(c, delivery.Cancelled, c.StopReason)
	case c.Person.MergedInto != 0: // the survivor has a message of the same occasion, or would get this one
		v = r.end(c, delivery.Skipped, reason.Duplicate)
	case c.Person.Suppressed, c.suppressed:
		v = r.end(c, delivery.Cancelled, reason.Suppressed)
	case c.OutcomeUnknown() && (policy.HoldUnknown || c.Address != c.was): // it may have arrived at the old address
		v = r.unknown(c, whyUnknown(c))
	case policy.KeyExpired(c.Row, r.now):
		v = r.unknown(c, reason.KeyExpired)
	case !c.PausedAt.IsZero() && !policy.Timing.Stale(latest(c.PausedAt, c.Due()), c.Due()):
		v = r.park(c)
	case c.rules.off:
		change := stay(c)
		change.SendAt, change.Hold = r.now.Add(pause), delivery.HoldInactive
		v = r.move(c, policy.Timing, "", reason.WorkflowInactive, change)
		v.row.DueAt = c.Due()
	case c.rules.channel == nil:
		v = r.move(c, policy.Timing, journal.Failed, reason.NoChannel, delivery.NoChannel(c.Row, policy))
		v.attempts = append(v.attempts, delivery.Attempt{
			Workspace: c.Workspace, Delivery: c.ID, Number: 0, Step: c.Step + 1, Channel: c.Channel, IntentAt: r.now, SettledAt: r.now,
			Outcome: delivery.AttemptNone, Reason: reason.NoChannel,
		})
	case c.Address == "":
		v = r.move(c, policy.Timing, journal.Skipped, reason.NoAddress, delivery.Skip(c.Row, policy, reason.NoAddress, r.now))
		if c.Step == 0 {
			v.fallback = r.afterFailure(c.Claim, c.rules, r.now)
		}
		if v.fallback != nil {
			r.entries = append(r.entries, admission.Entry(*v.fallback, c.Person.ExtID, r.now))
		}
	case r.over(c):
		if c.OutcomeUnknown() {
			v = r.unknown(c, whyUnknown(c))
		} else {
			v = r.end(c, delivery.Skipped, reason.ConditionCleared)
		}
	case !r.allowed(c), r.tooLate(c) != "":
		why := r.tooLate(c)
		if !r.allowed(c) {
			why = reason.NotAllowed
		}
		if c.OutcomeUnknown() { // it may have gone out, so it must not be called skipped
			v = r.unknown(c, whyUnknown(c))
		} else {
			v = r.move(c, policy.Timing, journal.Skipped, why, delivery.Skip(c.Row, policy, why, r.now))
		}
	default:
		stopped = false
	}
	return v, stopped
}

// over reports whether the series of a message has ended by its stop_when. A message that a person requested by hand belongs to no series.
func (r *admitting) over(c *candidate) bool {
	t := c.rules.trigger
	if t.OnSchedule() == nil || t.StopWhen == nil {
		return false
	}
	series, err := plan.SeriesOf(c.rules.set, definition.Match{Workflow: c.rules.workflow, Trigger: t}, &r.Catalog.Zones)
	return err == nil && series.Over(c.NotBefore, r.now)
}

// tooLate returns the reason why a message is too late to be sent; empty: it is not.
func (r *admitting) tooLate(c *candidate) reason.Reason {
	due := c.Due()
	until := r.Store.GivenUpUntil() // all occasions of a series were due by then, whenever their rows are made
	if !until.IsZero() && (c.rules.trigger.OnSchedule() != nil || store.CreatedBy(int64(c.Instance), until)) {
		if planned := c.NotBefore; c.Step == 0 && planned.Before(due) && !store.CreatedBy(int64(c.ID), until) {
			due = planned // its occasion was due before, and only its rows were made afterwards
		}
		if !due.After(until) {
			return reason.Restored
		}
	}
	if c.rules.policy.Timing.Stale(r.now, c.Due()) {
		return reason.Stale
	}
	return ""
}

// park parks a message whose workflow is paused. It keeps its slot; if the slot has passed when the workflow is resumed, the message asks for another
// one.
func (r *admitting) park(c *candidate) verdict {
	change := stay(c)
	change.SendAt = time.Time{} // nobody can say when it leaves
	v := r.move(c, c.rules.policy.Timing, journal.Held, reason.WorkflowPaused, change)
	v.row.SendAt, v.row.Hold = c.SendAt, delivery.HoldPaused
	return v
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// allowed reports whether the channel and this process may write to the address at all.
func (r *admitting) allowed(c *candidate) bool {
	return c.rules.channel.OnlyTo.Allows(c.Address) && r.OnlyTo.Allows(c.Address)
}

// move writes a change instead of sending. The attempt that the claim counted did not take place.
func (r *admitting) move(c *candidate, timing schedule.Timing, what journal.What, why reason.Reason, change delivery.Change) verdict {
	if what != "" {
		r.record(what, c, why, change.SendAt)
	}
	row := delivery.Unsent(c.Row, change, r.now)
	row.Reason = why
	if trace := admission.Trace(c.Row, timing, why, r.now, change.SendAt, admission.LimitTrace{}); trace != "" {
		row.Trace = trace
	}
	return verdict{row: row, changed: true}
}

// stay is the change that changes nothing but ends a hold.
func stay(c *candidate) delivery.Change {
	return delivery.Change{Status: c.Status, SendAt: c.SendAt, Step: c.Step, Remaining: c.RemindersRemaining}
}

// whyUnknown returns the reason why the outcome of a step is unknown.
func whyUnknown(c *candidate) reason.Reason {
	if c.LostIntent.IsZero() {
		return reason.ReplyLost
	}
	return reason.WorkerLost
}

// end stops a delivery for good. A message that was sent stays sent; only its reminders end (model.md §3).
func (r *admitting) end(c *candidate, status delivery.Status, why reason.Reason) verdict {
	change := delivery.Change{Status: status, Step: c.Step, Completed: true, Release: true}
	if c.Step > 0 {
		change.Status, change.Release = c.Status, false
	}
	what := journal.Cancelled
	if status == delivery.Expired {
		what = journal.Expired
	}
	return r.move(c, schedule.Timing{}, what, why, change)
}

// unknown leaves a delivery whose attempt may have gone out to a person, or to the provider's later report.
func (r *admitting) unknown(c *candidate, why reason.Reason) verdict {
	timing := c.rules.policy.Timing
	return r.move(c, timing, journal.Unknown, why, delivery.Change{
		Status: delivery.Unknown, ExpiresAt: timing.ExpiresAt(r.now, c.CreatedAt), Step: c.Step, Remaining: c.RemindersRemaining,
	})
}

func (r *admitting) record(what journal.What, c *candidate, why reason.Reason, until time.Time) {
	e := describe(c.Claim)
	e.At, e.What, e.Reason, e.Until = r.now, what, why, until
	r.entries = append(r.entries, e)
}

func describe(c store.Claim) journal.Entry {
	return journal.Entry{
		Workspace: c.Workspace, Workflow: c.Workflow, WorkflowVersion: c.WorkflowVersion, Trigger: c.Trigger, Key: c.Key,
		Event: c.Event, Instance: c.Instance, Delivery: c.ID, Contact: c.Person.ExtID, Address: c.Address, Channel: c.Channel,
		Locale: c.Locale, Step: c.Step + 1, Attempt: c.AttemptNo, Due: c.Due(), Eligible: c.Eligible(), Remaining: c.RemindersRemaining,
	}
}

var errNoVersion = errors.New("the version of the workflow is not known")
