package admission

import (
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/trace"
)

// slotRequest describes the slot that a claim asks for now.
func (b *Batch) slotRequest(c *candidate) SlotRequest {
	timing, due := c.rules.Policy.Timing, c.NotBefore
	if c.Step > 0 { // a reminder waits for as long as the first message may (R4)
		due = c.Due()
	}
	return SlotRequest{
		Workspace: c.Workspace, Set: c.rules.Live, Person: c.Person, Channel: c.Channel, Type: c.Type, Limits: c.rules.Trigger.Limits,
		Now: b.Now, Until: timing.ExpiresAt(due, due), Fold: c.folds(),
		Planned: OwnClock(c.Row, b.Zones),
	}
}

// needsOfLimits says what the decision about a claim needs to know of its person. A claim that has a slot is judged by slots that are read without a
// lock: others reserve their slots around this one, so the claim keeps it unless the rules have changed or something critical went first. Two cases
// need the lock all the same: a policy that counts only sent messages, under which nobody reserves anything, and a slot that will soon have passed,
// which a worker with a faster clock may count as passed.
func (b *Batch) needsOfLimits(c *candidate) (slots, lock bool) {
	policy := b.ledger.Limiting(c.ask)
	limited, placed := !policy.Unlimited(), b.placed(c)
	switch {
	case c.OutcomeUnknown():
		return false, false
	case b.asks(c):
		return false, true
	case placed && !limited:
		return false, !b.keepsSlot(c)
	case placed:
		lock = policy.SentOnly() || 2*b.Now.Sub(c.Slot) > policy.Grace()
		return !lock, lock
	case !limited && !c.rules.hasFallback(): // nothing is counted, so nothing has to be known
		return false, false
	case c.ask.Limits.Uncounted && !c.rules.hasFallback():
		return true, false
	}
	return false, true
}

// stands reports whether a claim may leave in its own slot. known is false if it may not, and its person has to be locked for another one.
func (b *Batch) stands(c *candidate) (stands, known bool) {
	switch {
	case c.OutcomeUnknown(): // a message that may have arrived did so in its old slot, which it keeps
		return true, true
	case b.asks(c), !b.placed(c):
		return false, true
	case !b.keepsSlot(c):
		return false, c.Person.Locked
	}
	if b.ledger.Policy(c.rules.Live, c.Person.Contact, Kind(c.Channel)).SentOnly() { // also for messages that the policy lets pass
		b.ledger.Release(c.ask, c.Slot, c.Type)
		b.ledger.Send(c.ask, c.Slot)
	}
	return true, true
}

// keepsSlot reports whether a claim may leave in its own slot, by the limits as they are known now.
func (b *Batch) keepsSlot(c *candidate) bool {
	own := c.ask
	own.Now = c.Slot // within the grace, slots are compared with the slot and not with the clock
	return b.ledger.Try(own, c.Row).At.Equal(c.Slot)
}

// placed reports whether a claim has a slot of its own that has not passed.
func (b *Batch) placed(c *candidate) bool {
	age := b.Now.Sub(c.Slot)
	return !c.Slot.IsZero() && !delivery.SlotUsed(c.Row) && age >= 0 && age <= b.ledger.Limiting(c.ask).Grace()
}

// admit finds a slot from now on for a claim that has none, or that has lost its own.
func (b *Batch) admit(c *candidate) Verdict {
	a := c.ask
	first := c.Slot.IsZero() && !c.IsFoldMember() || delivery.SlotUsed(c.Row) // it has not been admitted yet
	b.release(c)
	if age := b.Now.Sub(c.LeavesAt()); c.IsFoldMember() && age >= 0 && age <= b.ledger.Limiting(a).Grace() {
		a.Now = c.LeavesAt() // it may have the slot of its fold head
	}
	found := b.ledger.Try(a)
	if b.placed(c) && (found.Reason == reason.DeferredTooLong || found.At.After(b.Now)) {
		own := a // it asked with its peers, and must not lose by that
		own.Now = c.Slot
		if v := b.ledger.Try(own); v.Reason == "" && v.At.Equal(c.Slot) {
			a, found = own, v
		}
	}
	if found.Reason != reason.DeferredTooLong && !found.At.After(b.Now) {
		v := Verdict{Row: c.Row, Send: true, Changed: true, Past: past(c)}
		v.Row.Slot = b.ledger.Send(a, found.At)
		if c.IsFoldMember() { // it leaves by itself, with the members of its former head
			v.Row.SetFold(delivery.FoldHead, c.ID)
		}
		return v
	}
	because := b.ledger.Trace(a, found)
	v := b.withhold(c, a, found, first)
	if trace := trace.Of(c.Row, c.rules.Policy.Timing, found.Reason, b.Now, v.Row.SendAt, because); trace != "" {
		v.Row.Trace = trace
	}
	return v
}

// withhold decides what happens to a claim that a limit keeps from leaving now.
func (b *Batch) withhold(c *candidate, a SlotRequest, found cadence.Verdict, first bool) Verdict {
	limits, tooLong := c.rules.Trigger.Limits, found.Reason == reason.DeferredTooLong
	if !first || c.FallbackOf != 0 || FallsBack(limits, found) {
		if v, ok := b.fallback(c, found.Reason); ok {
			return v
		}
	}
	leftOut := first && limits.AtCreate == definition.LimitSkip
	a.Fold = a.Fold && !leftOut
	switch {
	case tooLong && c.Step > 0, leftOut && !tooLong:
		return b.skip(c, found.Reason)
	case !tooLong && !first && limits.AtSend == definition.LimitFail:
		return b.fail(c, found.Reason)
	}
	placed, ok := b.ledger.Place(a, c.Row, found)
	if !ok {
		return b.end(c, delivery.Expired, found.Reason)
	}
	later := stay(c)
	later.SendAt = placed.SendAt
	v := b.move(c, c.rules.Policy.Timing, "", placed.DeferredBy, later)
	v.entries = append(v.entries, b.entry(journal.Deferred, c, placed.DeferredBy, placed.LeavesAt()))
	v.Past = past(c)
	v.Row.Slot, v.Row.DeferredBy, v.Row.Reason = placed.Slot, placed.DeferredBy, c.Reason
	v.Row.SetFold(placed.Fold, placed.FoldedInto)
	v.Row.DueAt = time.Time{} // waiting for a limit is never lateness (R2)
	return v
}

// past returns the slot that a claim gives up for another one, if a message was sent in it.
func past(c *candidate) *delivery.PastSlot {
	if !delivery.SlotUsed(c.Row) {
		return nil
	}
	return &delivery.PastSlot{
		Workspace: c.Workspace, Contact: c.Contact, Delivery: c.ID, Slot: c.Slot, Type: c.Type, Channel: c.Channel,
	}
}

// fail ends a step that a limit keeps from leaving, if the workflow says so (product decision 4): a first message fails, a reminder is skipped.
func (b *Batch) fail(c *candidate, why reason.Reason) Verdict {
	change := delivery.Skip(c.Row, c.rules.Policy, why, b.Now)
	if c.Step == 0 {
		change.Status = delivery.Failed
	}
	return b.move(c, c.rules.Policy.Timing, journal.Failed, why, change)
}
