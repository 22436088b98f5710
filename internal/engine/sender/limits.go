package sender

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// slotRequest describes the slot that a claim asks for now.
func (r *admitting) slotRequest(c store.Claim, rules rules) admission.SlotRequest {
	timing, due := rules.policy.Timing, c.NotBefore
	if c.Step > 0 { // a reminder waits for as long as the first message may (R4)
		due = c.Due()
	}
	return admission.SlotRequest{
		Set: rules.live, Person: c.Person, Channel: c.Channel, Type: c.Type, Limits: rules.trigger.Limits,
		Now: r.now, Until: timing.ExpiresAt(due, due), Fold: folds(c, rules),
		Planned: admission.OwnClock(c.Row, &r.Catalog.Zones),
	}
}

// floor returns how far back the slots of contacts matter.
func (r *admitting) floor() store.Floor {
	floors := admission.NewFloors(&r.Catalog.Zones, r.now, nil)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time {
		return floors.Of(r.live[ws], c) // the decision that asks for slots has loaded it
	}
}

// earlier reports whether the slot of a row belongs to a message that was sent already: a reminder has no slot before it is due (R1).
func earlier(row delivery.Row) bool {
	return row.Step > 0 && !row.Slot.IsZero() && !row.Slot.After(row.LastSentAt)
}

// standing reports whether a claim may leave in its own slot. It decides without a lock: others reserve their slots around this one, so the claim
// keeps it unless the rules have changed or something critical went first. Two cases need the lock all the same: a policy that counts only sent
// messages, under which nobody reserves anything, and a slot that will soon have passed, which a worker with a faster clock may count as passed.
func (r *admitting) standing(ledger *admission.Ledger, c store.Claim, rules rules) (admitted bool, need store.IntentVerdict) {
	if c.OutcomeUnknown() { // a message that may have arrived did so in its old slot, which it keeps
		return true, need
	}
	a := r.slotRequest(c, rules)
	policy := ledger.Limiting(a)
	limited := !policy.Unlimited()
	if gathered, inPeers := r.peers[peerGroupOf(c)]; inPeers && limited && !a.Limits.Uncounted {
		need.NeedLock = !c.Person.Locked
		if !gathered {
			need.NeedDue = admission.Kind(c.Channel)
		}
		return false, need
	}
	if !r.placed(c, policy) {
		switch {
		case !limited && !hasFallback(rules): // nothing is counted, so nothing has to be known
		case a.Limits.Uncounted && !hasFallback(rules):
			need.NeedSlots = !c.Person.SlotsRead
		default:
			need.NeedLock = !c.Person.Locked
		}
		return false, need
	}
	if limited && !c.Person.Locked && (policy.SentOnly() || 2*r.now.Sub(c.Slot) > policy.Grace()) {
		return false, store.IntentVerdict{NeedLock: true}
	}
	if limited && !c.Person.SlotsRead {
		return false, store.IntentVerdict{NeedSlots: true}
	}
	// Within the grace, slots are compared with the slot and not with the clock.
	a.Now = c.Slot
	if ledger.Try(a, c.Row).At.Equal(c.Slot) {
		if ledger.Policy(rules.live, c.Person.Contact, admission.Kind(c.Channel)).SentOnly() { // also for messages that the policy lets pass
			ledger.Release(a, c.Slot, c.Type)
			ledger.Send(a, c.Slot)
		}
		return true, need
	}
	need.NeedLock = !c.Person.Locked
	return false, need
}

// placed reports whether a claim has a slot of its own that has not passed.
func (r *admitting) placed(c store.Claim, policy cadence.Policy) bool {
	age := r.now.Sub(c.Slot)
	return !c.Slot.IsZero() && !earlier(c.Row) && age >= 0 && age <= policy.Grace()
}

func hasFallback(rules rules) bool { return len(rules.trigger.Fallback) > 0 }

// admit finds a slot from now on for a claim that has none, or that has lost its own.
func (r *admitting) admit(ledger *admission.Ledger, c store.Claim, rules rules) store.IntentVerdict {
	a := r.slotRequest(c, rules)
	first := c.Slot.IsZero() && !c.IsFoldMember() || earlier(c.Row) // it has not been admitted yet
	r.release(ledger, c, a)
	if age := r.now.Sub(c.LeavesAt()); c.IsFoldMember() && age >= 0 && age <= ledger.Limiting(a).Grace() {
		a.Now = c.LeavesAt() // it may have the slot of its fold head
	}
	verdict := ledger.Try(a)
	if r.placed(c, ledger.Limiting(a)) && (verdict.Reason == reason.DeferredTooLong || verdict.At.After(r.now)) {
		own := a // it asked with its peers, and must not lose by that
		own.Now = c.Slot
		if v := ledger.Try(own); v.Reason == "" && v.At.Equal(c.Slot) {
			a, verdict = own, v
		}
	}
	if verdict.Reason != reason.DeferredTooLong && !verdict.At.After(r.now) {
		into := c.FoldedInto
		if c.IsFoldMember() { // it leaves by itself, with the members of its former head
			into = c.ID
		}
		return store.IntentVerdict{Past: past(c), Move: &store.IntentMove{
			Send: true, Status: c.Status, SendAt: c.SendAt, Slot: ledger.Send(a, verdict.At), DeferredBy: c.DeferredBy, Reason: c.Reason,
			AttemptNo: c.AttemptNo, Step: c.Step, Remaining: c.RemindersRemaining, Trace: c.Trace, LeaseUntil: r.leaseUntil,
			UnknownSince: c.UnknownSince, DueAt: c.DueAt, EligibleAt: c.EligibleAt, FoldedInto: into,
		}}
	}
	because := ledger.Trace(a, verdict)
	v := r.withheld(ledger, c, rules, a, verdict, first)
	v.Move.Trace = admission.Trace(c.Row, rules.policy.Timing, verdict.Reason, r.now, v.Move.SendAt, because)
	return v
}

// withheld decides what happens to a claim that a limit keeps from leaving now.
func (r *admitting) withheld(ledger *admission.Ledger, c store.Claim, rules rules, a admission.SlotRequest, verdict cadence.Verdict, first bool) store.IntentVerdict {
	timing, limits, tooLong := rules.policy.Timing, rules.trigger.Limits, verdict.Reason == reason.DeferredTooLong
	if !first || c.FallbackOf != 0 || admission.FallsBack(limits, verdict) {
		if v, ok := r.fallback(ledger, c, rules, verdict.Reason); ok {
			return v
		}
	}
	leftOut := first && limits.AtCreate == definition.LimitSkip
	a.Fold = a.Fold && !leftOut
	switch {
	case tooLong && c.Step > 0, leftOut && !tooLong:
		return r.move(c, timing, journal.Skipped, verdict.Reason, delivery.Skip(c.Row, rules.policy, verdict.Reason, r.now))
	case !tooLong && !first && limits.AtSend == definition.LimitFail:
		return r.fail(c, rules, verdict.Reason)
	}
	placed, ok := ledger.Place(a, c.Row, verdict)
	if !ok {
		return r.end(c, delivery.Expired, verdict.Reason)
	}
	later := stay(c)
	later.SendAt = placed.SendAt
	v := r.move(c, timing, "", placed.DeferredBy, later)
	r.record(journal.Deferred, c, placed.DeferredBy, placed.LeavesAt())
	v.Past = past(c)
	v.Move.Slot, v.Move.DeferredBy, v.Move.Reason, v.Move.FoldedInto = placed.Slot, placed.DeferredBy, c.Reason, placed.FoldedInto
	v.Move.DueAt = time.Time{} // waiting for a limit is never lateness (R2)
	return v
}

// past returns the slot that a claim gives up for another one, if a message was sent in it.
func past(c store.Claim) *store.PastSlot {
	if !earlier(c.Row) {
		return nil
	}
	return &store.PastSlot{
		Workspace: c.Workspace, Contact: c.Contact, Delivery: c.ID, Slot: c.Slot, Type: c.Type, Channel: c.Channel,
	}
}

// fail ends a step that a limit keeps from leaving, if the workflow says so (decision 4): a first message fails, a reminder is skipped.
func (r *admitting) fail(c store.Claim, rules rules, why reason.Reason) store.IntentVerdict {
	change := delivery.Skip(c.Row, rules.policy, why, r.now)
	if c.Step == 0 {
		change.Status = delivery.Failed
	}
	return r.move(c, rules.policy.Timing, journal.Failed, why, change)
}

// fallback replaces a first message that a limit keeps from leaving by one on the first channel on which its contact has an address and is free now
// (A40). The delivery itself is skipped with the limit's reason.
func (r *admitting) fallback(ledger *admission.Ledger, c store.Claim, rules rules, why reason.Reason) (v store.IntentVerdict, ok bool) {
	if c.Step > 0 {
		return v, false
	}
	for row, channel := range r.standIns(c, rules) {
		a := r.slotRequest(c, rules)
		a.Channel = row.Channel
		if verdict := r.Channels.Resting(c.Workspace, channel, r.now); !verdict.OK {
			continue
		}
		if at := ledger.Try(a); at.Reason != "" {
			continue
		}
		row = standIn(row, c, delivery.ID(r.Store.NewID(r.now)))
		row.SendAt, row.Slot, row.CreatedAt = r.now, ledger.Reserve(a, r.now), r.now
		v = r.move(c, rules.policy.Timing, journal.Skipped, why, delivery.Skip(c.Row, rules.policy, why, r.now))
		v.Fallback = &row
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
