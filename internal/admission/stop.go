package admission

import (
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
)

// offWait is how long a delivery of a disabled workflow waits before it is evaluated again. Enabling the workflow brings these deliveries forward; the
// wait is for those that are deferred at that very moment.
const offWait = time.Hour

// halt checks everything that stops a claim whatever its limits say.
func (f *Facts) halt(c *candidate) (v Verdict, halted bool) {
	if v, halted = f.stop(c); halted {
		return v, true
	}
	rest, away := f.Resting[delivery.PaceOf(c.Row)]
	if !away || c.Reported() {
		return v, false
	}
	at := rest.Until
	switch {
	case c.IsFoldMember(): // not before its fold head
		at = rest.Until.Add(rest.Spread + delivery.FoldMemberDelay)
	case !f.NoJitter:
		at = Spread(f.Workspaces[c.Workspace].Jitter, RestDraw(c.Claim), rest)
	}
	return f.later(c, at, delivery.HoldChannelDown, reason.ChannelDown), true
}

// stop checks everything that keeps a message from leaving at all.
func (f *Facts) stop(c *candidate) (v Verdict, stopped bool) {
	policy := c.rules.Policy
	switch {
	case !c.CancelledAt.IsZero():
		return f.cancel(c), true
	case c.rules.Unlisted:
		return f.end(c, delivery.Cancelled, reason.RuleChanged), true
	case c.rules.Trigger == nil:
		return f.end(c, delivery.Cancelled, reason.WorkflowInactive), true
	case c.Reported(): // it has left: nothing can keep it, and its claim writes that
		return v, false
	case c.StopReason != "":
		return f.end(c, delivery.Cancelled, c.StopReason), true
	case c.Person.MergedInto != 0: // the survivor has a message of the same occasion, or would get this one
		return f.end(c, delivery.Skipped, reason.Duplicate), true
	case c.Person.Suppressed, c.suppressed:
		return f.end(c, delivery.Cancelled, reason.Suppressed), true
	case c.unsubscribed:
		return f.end(c, delivery.Cancelled, reason.Unsubscribed), true
	case c.covered:
		return f.unlessUnknown(c, func() Verdict { return f.end(c, delivery.Skipped, reason.Covered) }), true
	case c.sessionOver:
		return f.unlessUnknown(c, func() Verdict { return f.silence(c) }), true
	case c.OutcomeUnknown() && (policy.HoldUnknown || c.Address != c.was): // it may have arrived at the old address
		return f.unknown(c, whyUnknown(c)), true
	case policy.KeyExpired(c.Row, f.Now):
		return f.unknown(c, reason.KeyExpired), true
	case !c.PausedAt.IsZero() && !policy.Timing.Stale(latest(c.PausedAt, c.Due()), c.Due()):
		return f.park(c), true
	case c.rules.Off:
		change := stay(c)
		change.SendAt, change.Hold = f.Now.Add(offWait), delivery.HoldInactive
		v = f.move(c, policy.Timing, "", reason.WorkflowInactive, change)
		v.Row.DueAt = c.Due()
		return v, true
	case c.rules.Channel == nil:
		return f.noChannel(c), true
	case c.Address == "":
		return f.unreachable(c, reason.NoAddress), true
	case c.stopped != "" && !answers(c):
		return f.unlessUnknown(c, func() Verdict { return f.unreachable(c, c.stopped) }), true
	case f.over(c):
		return f.unlessUnknown(c, func() Verdict { return f.end(c, delivery.Skipped, reason.ConditionCleared) }), true
	case !f.allowed(c):
		return f.unlessUnknown(c, func() Verdict { return f.skip(c, reason.NotAllowed) }), true
	}
	if why := f.tooLate(c); why != "" {
		return f.unlessUnknown(c, func() Verdict { return f.skip(c, why) }), true
	}
	return v, false
}

// answers reports whether a message answers what its person has just written: one who asks to stop, or for help, gets an answer. It does not pass a stop of the address.
func answers(c *candidate) bool {
	on := c.rules.Trigger.OnEvent()
	return c.stopped == reason.OptedOut && c.Step == 0 && (on != nil && on.Kind == definition.ReplyReceived && c.Turn == 0 || c.Says == delivery.SaysStopped)
}

// repliesWithin bounds how late the closing of a conversation, or the answer to a stop, is of use.
const repliesWithin = 24 * time.Hour

// outlived reports whether the last message of a conversation is of no use any more: it comes too late, or its person who asked to stop wants messages again.
func outlived(c Claimed, now time.Time) bool {
	switch c.Says {
	case delivery.SaysStopped:
		return c.Stopped == "" || now.Sub(c.NotBefore) > repliesWithin
	case delivery.SaysClosing:
		return now.Sub(c.NotBefore) > repliesWithin
	case delivery.SaysQuestion, delivery.SaysInvalid, "":
	}
	return false
}

// silence leaves out what would ask a question of a session that is over. The session ends the delivery that began it.
func (f *Facts) silence(c *candidate) Verdict {
	if c.Turn > 0 {
		return f.end(c, delivery.Cancelled, reason.SessionOver)
	}
	change := stay(c)
	change.SendAt, change.Remaining = time.Time{}, 0
	return f.move(c, c.rules.Policy.Timing, journal.Skipped, reason.SessionOver, change)
}

// noChannel fails a message whose channel is not defined.
func (f *Facts) noChannel(c *candidate) Verdict {
	v := f.move(c, c.rules.Policy.Timing, journal.Failed, reason.NoChannel, delivery.NoChannel(c.Row, c.rules.Policy))
	v.Attempts = append(v.Attempts, delivery.Attempt{
		Workspace: c.Workspace, Delivery: c.ID, Number: 0, Step: c.Step + 1, Channel: c.Channel, IntentAt: f.Now, SettledAt: f.Now,
		Outcome: delivery.AttemptNone, Reason: reason.NoChannel,
	})
	return v
}

// unreachable skips a message whose contact has no address any more, or one to which nothing is sent. A first message goes to its fallback channel.
func (f *Facts) unreachable(c *candidate, why reason.Reason) Verdict {
	v := f.skip(c, why)
	if c.Step == 0 {
		v.Fallback = AfterFailure(c.Claim, c.rules, f.OnlyTo, f.Now, f.NewID)
	}
	if v.Fallback != nil {
		v.entries = append(v.entries, Entry(*v.Fallback, c.Person.ExtID, f.Now))
	}
	return v
}

// over reports whether the series of a message has ended by its stop_when. A message that a person requested by hand belongs to no series.
func (f *Facts) over(c *candidate) bool {
	t := c.rules.Trigger
	if t.OnSchedule() == nil || t.StopWhen == nil {
		return false
	}
	series, err := plan.SeriesOf(c.rules.Set, definition.Match{Workflow: c.rules.Workflow, Trigger: t}, f.Zones)
	return err == nil && series.Over(c.NotBefore, f.Now)
}

// tooLate returns the reason why a message is too late to be sent; empty: it is not.
func (f *Facts) tooLate(c *candidate) reason.Reason {
	due := c.Due()
	until := f.GivenUpUntil // all occasions of a series were due by then, whenever their rows are made
	if !until.IsZero() && (c.rules.Trigger.OnSchedule() != nil || key.CreatedBy(int64(c.Instance), until) || inCourse(c, until)) {
		if planned := c.NotBefore; c.Step == 0 && planned.Before(due) && !key.CreatedBy(int64(c.ID), until) {
			due = planned // its occasion was due before, and only its rows were made afterwards
		}
		if !due.After(until) {
			return reason.Restored
		}
	}
	if c.rules.Policy.Timing.Stale(f.Now, c.Due()) {
		return reason.Stale
	}
	return ""
}

// inCourse reports whether a message belongs to a course whose record or event was known at an instant: the course had all of its messages
// then, whenever their rows are made.
func inCourse(c *candidate, at time.Time) bool {
	of := int64(c.Record)
	if of == 0 {
		of = int64(c.Event)
	}
	return c.rules.Trigger.Course() != nil && key.CreatedBy(of, at)
}

// allowed reports whether the channel and this process may write to the address at all.
func (f *Facts) allowed(c *candidate) bool {
	return c.rules.Channel.OnlyTo.Allows(c.Address) && f.OnlyTo.Allows(c.Address)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
