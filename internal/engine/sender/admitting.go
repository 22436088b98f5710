package sender

import (
	"errors"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// pause is how long a delivery of a disabled workflow waits before it is evaluated again. Enabling the workflow brings these deliveries forward; the
// wait is for those that are deferred at that very moment.
const pause = time.Hour

// admitting decides inside the intent's transaction whether each delivery may still leave now. The decision may run twice.
type admitting struct {
	*Sender
	now        time.Time
	leaseUntil time.Time

	claimed, reclaimed int
	entries            []journal.Entry
	live               map[subject.WorkspaceID]*definition.Set // one for the whole transaction
	ledger             *admission.Ledger
	instants           map[delivery.ID]time.Time // send instants of messages whose channel has a rate
	paces              map[store.PaceRef]flow.Pace
	bundles            map[store.PersonRef][]bundle // fold heads that this batch sends or defers
	peers              map[peerGroup]bool           // groups that ask for slots; true: all their due claims are in the batch
	released           map[delivery.ID]bool         // claims that ask for a slot and have released their own
}

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

// inForce returns the set in force. It is the same set in every round, so that the next round decides by what the last one asked for.
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

func (r *admitting) decide(claims []store.Claim, again bool) ([]store.IntentVerdict, error) {
	if !again {
		r.claimed, r.reclaimed, r.entries = len(claims), 0, nil
		r.instants, r.paces = map[delivery.ID]time.Time{}, map[store.PaceRef]flow.Pace{}
		r.ledger, r.bundles = admission.NewLedger(&r.Catalog.Zones, r.now), map[store.PersonRef][]bundle{}
		r.peers, r.released = map[peerGroup]bool{}, map[delivery.ID]bool{}
	} else {
		r.ledger = r.ledger.Next()
		for of := range r.peers {
			r.peers[of] = true
		}
	}
	asked := make([]candidate, len(claims))
	for i, c := range claims {
		live, err := r.inForce(c.Workspace)
		if err != nil {
			return nil, err
		}
		rules, err := r.rulesOf(c.Row, live)
		if err != nil {
			return nil, err
		}
		a := candidate{Claim: c, rules: rules, was: c.Address}
		a.Address = present(c)
		if a.verdict, a.stopped, err = r.halted(a.Claim, rules, a.was); err != nil {
			return nil, err
		}
		asked[i] = a
	}
	verdicts := make([]store.IntentVerdict, len(claims))
	for _, i := range r.inOrder(asked) {
		a, c := asked[i], asked[i].Claim
		verdicts[i] = a.verdict
		if !a.stopped {
			var err error
			if verdicts[i], err = r.claim(r.ledger, c, a.rules); err != nil {
				return nil, err
			}
		}
		if c.Address != a.was {
			verdicts[i] = r.readdressed(c, verdicts[i])
		}
		if verdicts[i].Needs() {
			continue
		}
		if !c.LostIntent.IsZero() {
			r.reclaimed++
			verdicts[i].Attempts = append([]delivery.Attempt{lost(c, r.now)}, verdicts[i].Attempts...)
			r.record(journal.Reclaimed, c, reason.WorkerLost, c.SendAt)
		}
	}
	r.entries = append(r.entries, r.ledger.PassedOver(r.now)...)
	return verdicts, nil
}

// halted checks everything that stops a claim before its limits are checked. was is the claim's address before readdressing.
func (r *admitting) halted(c store.Claim, rules rules, was string) (v store.IntentVerdict, halted bool, err error) {
	if v, halted = r.stopped(c, rules, was); halted {
		return v, true, nil
	}
	return r.rest(c, rules)
}

// claim decides one claim by the limits of its contact and the rate of its channel.
func (r *admitting) claim(ledger *admission.Ledger, c store.Claim, rules rules) (store.IntentVerdict, error) {
	admitted, need := r.standing(ledger, c, rules)
	_, inPeers := r.peers[peerGroupOf(c)]
	if (c.FoldedInto != 0 || (need.NeedLock || inPeers) && rules.trigger.Limits.AtSend == definition.LimitFold) && untried(c) && !c.Person.Folding {
		admitted, need.NeedLock, need.NeedFold = false, true, true
	}
	rate := rules.channel.Rate
	need.NeedPace = rate.Count > 0 && c.Pace == nil
	var err error
	if need.NeedAddress, err = r.others(c); err != nil {
		return need, err
	}
	if need.Needs() {
		return need, nil
	}
	if v, joined := r.join(ledger, c, rules); joined {
		return v, nil
	}
	var pace flow.Pace
	var at time.Time
	ref := store.PaceRef{Workspace: c.Workspace, Channel: c.Channel}
	if rate.Count > 0 {
		var now bool
		if pace, at, now = r.pace(ref, c).Take(rate, r.now, r.ahead()); !now {
			r.paces[ref] = pace
			v := r.later(c, rules, at, reason.RateLimited)
			v.Pace = &pace
			r.putOff(c, at)
			r.keep(ledger, c, rules)
			return v, nil
		}
	}
	var v store.IntentVerdict
	if !admitted {
		if v = r.admit(ledger, c, rules); !v.Move.Send {
			return v, nil
		}
	}
	if err := r.reserve(ledger, c, rules.live, &v); err != nil {
		return v, err
	}
	if rate.Count > 0 {
		r.paces[ref], r.instants[c.ID], v.Pace = pace, at, &pace
	}
	return v, nil
}

// pace is how far the send instants of a channel are assigned, by others and by this batch.
func (r *admitting) pace(ref store.PaceRef, c store.Claim) flow.Pace {
	if p, ok := r.paces[ref]; ok {
		return p
	}
	return *c.Pace
}

// ahead is how far ahead of its instant a message is claimed. A batch in order does not wait: it is a replay, and nothing moves its clock meanwhile.
func (r *admitting) ahead() time.Duration {
	if r.Concurrency == 1 {
		return 0
	}
	return horizon
}

// rest defers a message whose channel rests because its provider is away.
func (r *admitting) rest(c store.Claim, rules rules) (v store.IntentVerdict, resting bool, err error) {
	verdict := r.Channels.Resting(c.Workspace, rules.channel, r.now)
	if verdict.OK {
		return v, false, nil
	}
	ws, err := r.Catalog.Workspace(c.Workspace)
	if err != nil {
		return v, false, err
	}
	at := r.spread(ws.Jitter, c, verdict)
	if c.IsFoldMember() { // not before its fold head
		at = verdict.Until.Add(verdict.Spread + delivery.FoldMemberDelay)
	}
	return r.later(c, rules, at, reason.ChannelDown), true, nil
}

// later defers a message to an instant at which its channel can take it. It keeps its slot and its due instant: waiting for a channel is lateness,
// unlike waiting for a limit (R2).
func (r *admitting) later(c store.Claim, rules rules, at time.Time, why reason.Reason) store.IntentVerdict {
	change := stay(c)
	change.SendAt = at
	v := r.move(c, rules.policy.Timing, journal.Deferred, why, change)
	v.Move.DueAt, v.Move.EligibleAt = c.Due(), c.Eligible()
	return v
}

// stopped checks everything that keeps a message from leaving at all.
func (r *admitting) stopped(c store.Claim, rules rules, was string) (v store.IntentVerdict, stopped bool) {
	stopped = true
	switch {
	case rules.trigger == nil:
		v = r.end(c, delivery.Cancelled, reason.WorkflowInactive)
	case c.StopReason != "":
		v = r.end(c, delivery.Cancelled, c.StopReason)
	case c.Person.MergedInto != 0: // the survivor has a message of the same occasion, or would get this one
		v = r.end(c, delivery.Skipped, reason.Duplicate)
	case c.Person.Suppressed, c.AddressStopped:
		v = r.end(c, delivery.Cancelled, reason.Suppressed)
	case c.OutcomeUnknown() && (rules.policy.HoldUnknown || c.Address != was): // it may have arrived at the old address
		v = r.unknown(c, rules, whyUnknown(c))
	case rules.policy.KeyExpired(c.Row, r.now):
		v = r.unknown(c, rules, reason.KeyExpired)
	case !c.PausedAt.IsZero() && !rules.policy.Timing.Stale(latest(c.PausedAt, c.Due()), c.Due()):
		v = r.park(c, rules)
	case rules.off:
		change := stay(c)
		change.SendAt = r.now.Add(pause)
		v = r.move(c, rules.policy.Timing, "", reason.WorkflowInactive, change)
		v.Move.DueAt = c.Due()
	case rules.channel == nil:
		v = r.move(c, rules.policy.Timing, journal.Failed, reason.NoChannel, delivery.NoChannel(c.Row, rules.policy))
		v.Attempts = append(v.Attempts, delivery.Attempt{
			Workspace: c.Workspace, Delivery: c.ID, Number: 0, Step: c.Step + 1, Channel: c.Channel, IntentAt: r.now, SettledAt: r.now,
			Outcome: delivery.AttemptNone, Reason: reason.NoChannel,
		})
	case c.Address == "":
		v = r.move(c, rules.policy.Timing, journal.Skipped, reason.NoAddress, delivery.Skip(c.Row, rules.policy, reason.NoAddress, r.now))
		if c.Step == 0 {
			v.Fallback = r.afterFailure(c, rules, r.now)
		}
		if v.Fallback != nil {
			r.entries = append(r.entries, admission.Entry(*v.Fallback, c.Person.ExtID, r.now))
		}
	case r.over(c, rules):
		if c.OutcomeUnknown() {
			v = r.unknown(c, rules, whyUnknown(c))
		} else {
			v = r.end(c, delivery.Skipped, reason.ConditionCleared)
		}
	case !r.allowed(c, rules), r.late(c, rules) != "":
		why := r.late(c, rules)
		if !r.allowed(c, rules) {
			why = reason.NotAllowed
		}
		if c.OutcomeUnknown() { // it may have gone out, so it must not be called skipped
			v = r.unknown(c, rules, whyUnknown(c))
		} else {
			v = r.move(c, rules.policy.Timing, journal.Skipped, why, delivery.Skip(c.Row, rules.policy, why, r.now))
		}
	default:
		stopped = false
	}
	return v, stopped
}

// over reports whether the series of a message has ended by its stop_when. A message that a person requested by hand belongs to no series.
func (r *admitting) over(c store.Claim, rules rules) bool {
	t := rules.trigger
	if t.Schedule == nil || t.StopWhen == nil {
		return false
	}
	series, err := plan.SeriesOf(rules.set, definition.Match{Workflow: rules.workflow, Trigger: t}, &r.Catalog.Zones)
	return err == nil && series.Over(c.NotBefore, r.now)
}

// late returns the reason why a message is too late to be sent; empty: it is not.
func (r *admitting) late(c store.Claim, rules rules) reason.Reason {
	due := c.Due()
	until := r.Store.GivenUpUntil() // all occasions of a series were due by then, whenever their rows are made
	if !until.IsZero() && (rules.trigger.Schedule != nil || store.CreatedBy(int64(c.Instance), until)) {
		if planned := c.NotBefore; c.Step == 0 && planned.Before(due) && !store.CreatedBy(int64(c.ID), until) {
			due = planned // its occasion was due before, and only its rows were made afterwards
		}
		if !due.After(until) {
			return reason.Restored
		}
	}
	if rules.policy.Timing.Stale(r.now, c.Due()) {
		return reason.Stale
	}
	return ""
}

// park parks a message whose workflow is paused. It keeps its slot; if the slot has passed when the workflow is resumed, the message asks for another
// one.
func (r *admitting) park(c store.Claim, rules rules) store.IntentVerdict {
	change := stay(c)
	change.SendAt = time.Time{}
	v := r.move(c, rules.policy.Timing, journal.Held, reason.WorkflowPaused, change)
	v.Move.SendAt, v.Move.DueAt = delivery.ParkedUntil(), c.Due()
	return v
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// allowed reports whether the channel and this process may write to the address at all.
func (r *admitting) allowed(c store.Claim, rules rules) bool {
	return rules.channel.OnlyTo.Allows(c.Address) && r.OnlyTo.Allows(c.Address)
}

// move writes a change instead of sending. The attempt that the claim counted did not take place.
func (r *admitting) move(c store.Claim, timing schedule.Timing, what journal.What, why reason.Reason, change delivery.Change) store.IntentVerdict {
	slot := c.Slot
	over := change.Release || c.Step > 0 && (change.Step > c.Step || change.Completed) // the step ends unsent
	if over && !c.OutcomeUnknown() && !earlier(c.Row) {
		slot = time.Time{}
	}
	if what != "" {
		r.record(what, c, why, change.SendAt)
	}
	if !change.SendAt.IsZero() {
		change.ExpiresAt = time.Time{} // it counts only when nothing more is planned
	}
	return store.IntentVerdict{Move: &store.IntentMove{
		Status: change.Status, SendAt: change.SendAt, Slot: slot, ExpiresAt: change.ExpiresAt, DeferredBy: c.DeferredBy, Reason: why,
		AttemptNo: c.AttemptNo - 1, Step: change.Step, Remaining: change.Remaining, Completed: change.Completed, EligibleAt: change.EligibleAt,
		UnknownSince: c.UnknownSince, DueAt: c.DueAt, FoldedInto: c.FoldedInto, Trace: admission.Trace(c.Row, timing, why, r.now, change.SendAt, admission.LimitTrace{}),
	}}
}

// stay is the change that changes nothing.
func stay(c store.Claim) delivery.Change {
	return delivery.Change{Status: c.Status, SendAt: c.SendAt, Step: c.Step, Remaining: c.RemindersRemaining}
}

// whyUnknown returns the reason why the outcome of a step is unknown.
func whyUnknown(c store.Claim) reason.Reason {
	if c.LostIntent.IsZero() {
		return reason.ReplyLost
	}
	return reason.WorkerLost
}

// end stops a delivery for good. A message that was sent stays sent; only its reminders end (model.md §3).
func (r *admitting) end(c store.Claim, status delivery.Status, why reason.Reason) store.IntentVerdict {
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
func (r *admitting) unknown(c store.Claim, rules rules, why reason.Reason) store.IntentVerdict {
	return r.move(c, rules.policy.Timing, journal.Unknown, why, delivery.Change{
		Status: delivery.Unknown, ExpiresAt: rules.policy.Timing.ExpiresAt(r.now, c.CreatedAt), Step: c.Step, Remaining: c.RemindersRemaining,
	})
}

// lost is the entry of an attempt that has no result.
func lost(c store.Claim, now time.Time) delivery.Attempt {
	return delivery.Attempt{
		Workspace: c.Workspace, Delivery: c.ID, Number: c.AttemptNo - 1, Step: c.Step + 1, Channel: c.Channel,
		IdempotencyKey: key.Delivery(c.Key).IdempotencyIn(int64(c.Workspace), c.Step+1), IntentAt: c.LostIntent, SettledAt: now,
		Outcome: delivery.AttemptUnknown, Reason: reason.WorkerLost,
	}
}

func (r *admitting) record(what journal.What, c store.Claim, why reason.Reason, until time.Time) {
	e := describe(c)
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
