package sender

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// slotRequest describes the slot that a claim asks for now.
func (r *admitting) slotRequest(c *candidate) admission.SlotRequest {
	timing, due := c.rules.policy.Timing, c.NotBefore
	if c.Step > 0 { // a reminder waits for as long as the first message may (R4)
		due = c.Due()
	}
	return admission.SlotRequest{
		Set: c.rules.live, Person: c.Person, Channel: c.Channel, Type: c.Type, Limits: c.rules.trigger.Limits,
		Now: r.now, Until: timing.ExpiresAt(due, due), Fold: folds(c.Claim, c.rules),
		Planned: admission.OwnClock(c.Row, &r.Catalog.Zones),
	}
}

// floor returns how far back the slots of contacts matter.
func (r *admitting) floor() store.Floor {
	floors := admission.NewFloors(&r.Catalog.Zones, r.now, nil)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time {
		return floors.Of(r.live[ws], c) // the screening has loaded it
	}
}

// needsOfLimits says what the decision about a claim needs to know of its person. A claim that has a slot is judged by slots that are read without a
// lock: others reserve their slots around this one, so the claim keeps it unless the rules have changed or something critical went first. Two cases
// need the lock all the same: a policy that counts only sent messages, under which nobody reserves anything, and a slot that will soon have passed,
// which a worker with a faster clock may count as passed.
func (r *admitting) needsOfLimits(c *candidate) (slots, lock bool) {
	policy := r.ledger.Limiting(c.ask)
	limited, placed := !policy.Unlimited(), r.placed(c)
	switch {
	case c.OutcomeUnknown():
		return false, false
	case r.asks(c):
		return false, true
	case placed && !limited:
		return false, !r.keepsSlot(c)
	case placed:
		lock = policy.SentOnly() || 2*r.now.Sub(c.Slot) > policy.Grace()
		return !lock, lock
	case !limited && !hasFallback(c.rules): // nothing is counted, so nothing has to be known
		return false, false
	case c.ask.Limits.Uncounted && !hasFallback(c.rules):
		return true, false
	}
	return false, true
}

// stands reports whether a claim may leave in its own slot. known is false if it may not, and its person has to be locked for another one.
func (r *admitting) stands(c *candidate) (stands, known bool) {
	switch {
	case c.OutcomeUnknown(): // a message that may have arrived did so in its old slot, which it keeps
		return true, true
	case r.asks(c), !r.placed(c):
		return false, true
	case !r.keepsSlot(c):
		return false, c.Person.Locked
	}
	if r.ledger.Policy(c.rules.live, c.Person.Contact, admission.Kind(c.Channel)).SentOnly() { // also for messages that the policy lets pass
		r.ledger.Release(c.ask, c.Slot, c.Type)
		r.ledger.Send(c.ask, c.Slot)
	}
	return true, true
}

// keepsSlot reports whether a claim may leave in its own slot, by the limits as they are known now.
func (r *admitting) keepsSlot(c *candidate) bool {
	own := c.ask
	own.Now = c.Slot // within the grace, slots are compared with the slot and not with the clock
	return r.ledger.Try(own, c.Row).At.Equal(c.Slot)
}

// placed reports whether a claim has a slot of its own that has not passed.
func (r *admitting) placed(c *candidate) bool {
	age := r.now.Sub(c.Slot)
	return !c.Slot.IsZero() && !delivery.SlotUsed(c.Row) && age >= 0 && age <= r.ledger.Limiting(c.ask).Grace()
}

func hasFallback(rules rules) bool { return len(rules.trigger.Fallback) > 0 }

// admit finds a slot from now on for a claim that has none, or that has lost its own.
func (r *admitting) admit(c *candidate) verdict {
	a := c.ask
	first := c.Slot.IsZero() && !c.IsFoldMember() || delivery.SlotUsed(c.Row) // it has not been admitted yet
	r.release(c)
	if age := r.now.Sub(c.LeavesAt()); c.IsFoldMember() && age >= 0 && age <= r.ledger.Limiting(a).Grace() {
		a.Now = c.LeavesAt() // it may have the slot of its fold head
	}
	found := r.ledger.Try(a)
	if r.placed(c) && (found.Reason == reason.DeferredTooLong || found.At.After(r.now)) {
		own := a // it asked with its peers, and must not lose by that
		own.Now = c.Slot
		if v := r.ledger.Try(own); v.Reason == "" && v.At.Equal(c.Slot) {
			a, found = own, v
		}
	}
	if found.Reason != reason.DeferredTooLong && !found.At.After(r.now) {
		v := verdict{row: c.Row, send: true, changed: true, past: past(c)}
		v.row.Slot = r.ledger.Send(a, found.At)
		if c.IsFoldMember() { // it leaves by itself, with the members of its former head
			v.row.FoldedInto = c.ID
		}
		return v
	}
	because := r.ledger.Trace(a, found)
	v := r.withhold(c, a, found, first)
	if trace := admission.Trace(c.Row, c.rules.policy.Timing, found.Reason, r.now, v.row.SendAt, because); trace != "" {
		v.row.Trace = trace
	}
	return v
}

// withhold decides what happens to a claim that a limit keeps from leaving now.
func (r *admitting) withhold(c *candidate, a admission.SlotRequest, found cadence.Verdict, first bool) verdict {
	policy, limits, tooLong := c.rules.policy, c.rules.trigger.Limits, found.Reason == reason.DeferredTooLong
	if !first || c.FallbackOf != 0 || admission.FallsBack(limits, found) {
		if v, ok := r.fallback(c, found.Reason); ok {
			return v
		}
	}
	leftOut := first && limits.AtCreate == definition.LimitSkip
	a.Fold = a.Fold && !leftOut
	switch {
	case tooLong && c.Step > 0, leftOut && !tooLong:
		return r.move(c, policy.Timing, journal.Skipped, found.Reason, delivery.Skip(c.Row, policy, found.Reason, r.now))
	case !tooLong && !first && limits.AtSend == definition.LimitFail:
		return r.fail(c, found.Reason)
	}
	placed, ok := r.ledger.Place(a, c.Row, found)
	if !ok {
		return r.end(c, delivery.Expired, found.Reason)
	}
	later := stay(c)
	later.SendAt = placed.SendAt
	v := r.move(c, policy.Timing, "", placed.DeferredBy, later)
	r.record(journal.Deferred, c, placed.DeferredBy, placed.LeavesAt())
	v.past = past(c)
	v.row.Slot, v.row.DeferredBy, v.row.Reason, v.row.FoldedInto = placed.Slot, placed.DeferredBy, c.Reason, placed.FoldedInto
	v.row.DueAt = time.Time{} // waiting for a limit is never lateness (R2)
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

// fail ends a step that a limit keeps from leaving, if the workflow says so (decision 4): a first message fails, a reminder is skipped.
func (r *admitting) fail(c *candidate, why reason.Reason) verdict {
	change := delivery.Skip(c.Row, c.rules.policy, why, r.now)
	if c.Step == 0 {
		change.Status = delivery.Failed
	}
	return r.move(c, c.rules.policy.Timing, journal.Failed, why, change)
}

// fallback replaces a first message that a limit keeps from leaving by one on the first channel on which its contact has an address and is free now
// (A40). The delivery itself is skipped with the limit's reason.
func (r *admitting) fallback(c *candidate, why reason.Reason) (v verdict, ok bool) {
	if c.Step > 0 {
		return v, false
	}
	for row, channel := range r.standIns(c.Claim, c.rules) {
		a := c.ask
		a.Channel = row.Channel
		if rest := r.Channels.Resting(c.Workspace, channel, r.now); !rest.OK {
			continue
		}
		if at := r.ledger.Try(a); at.Reason != "" {
			continue
		}
		row = standIn(row, c.Claim, delivery.ID(r.Store.NewID(r.now)))
		row.SendAt, row.Slot, row.CreatedAt = r.now, r.ledger.Reserve(a, r.now), r.now
		v = r.move(c, c.rules.policy.Timing, journal.Skipped, why, delivery.Skip(c.Row, c.rules.policy, why, r.now))
		v.fallback = &row
		r.entries = append(r.entries, admission.Entry(row, c.Person.ExtID, r.now))
		return v, true
	}
	return v, false
}

// standIns yields the fallback rows of a delivery in the order of trying, without id, send_at and slot: one for each further channel of its trigger
// on which its contact has an address that may be written to.
func (s *Sender) standIns(c store.Claim, rules rules) func(yield func(delivery.Row, *definition.Channel) bool) {
	channels := rules.trigger.Fallback
	if tried := slices.Index(channels, c.Channel); tried >= 0 && c.FallbackOf != 0 {
		channels = channels[tried+1:]
	}
	return func(yield func(delivery.Row, *definition.Channel) bool) {
		for _, name := range channels {
			channel := rules.live.Channel(name)
			address := c.Person.AddressOn(admission.Kind(name))
			if channel == nil || address == "" || name == c.Channel || !channel.OnlyTo.Allows(address) || !s.OnlyTo.Allows(address) {
				continue
			}
			row := delivery.Row{
				Workspace: c.Workspace, Key: string(key.Delivery(c.Key).On(name)), Instance: c.Instance, Event: c.Event,
				Contact: c.Contact, Workflow: c.Workflow, WorkflowVersion: c.WorkflowVersion, Definitions: c.Definitions,
				Type: c.Type, Trigger: c.Trigger, Channel: name, Address: address, OwnAddress: true, Locale: c.Locale, CustomerRef: c.CustomerRef, OwnAt: c.OwnAt,
				Status: delivery.Scheduled, NotBefore: c.NotBefore, RemindersRemaining: len(rules.policy.Timing.Reminders),
				FallbackOf: c.ID,
			}
			if !yield(row, channel) {
				return
			}
		}
	}
}

// standIn gives a fallback row its id. Fold members of the delivery that it replaces leave with it.
func standIn(row delivery.Row, c store.Claim, id delivery.ID) delivery.Row {
	row.ID = id
	if c.IsFoldHead() {
		row.FoldedInto = id
	}
	return row
}

// afterFailure returns the fallback of a delivery that has failed for good; nil if there is none. It takes a slot when it is sent.
func (s *Sender) afterFailure(c store.Claim, rules rules, now time.Time) *delivery.Row {
	for row := range s.standIns(c, rules) {
		row = standIn(row, c, delivery.ID(s.Store.NewID(now)))
		row.SendAt, row.CreatedAt, row.EligibleAt = now, now, c.Eligible()
		return &row
	}
	return nil
}
