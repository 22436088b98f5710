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

// slotRequest is a claim as it asks for a place at now.
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

// floor says how far back the slots of people matter.
func (r *admitting) floor() store.Floor {
	floors := admission.NewFloors(&r.Catalog.Zones, r.now, nil)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time {
		return floors.Of(r.live[ws], c) // the decision that asks for slots has loaded it
	}
}

// earlier reports whether the place that a row holds is that of a message that was sent already: a reminder has none
// before it is due (R1).
func earlier(row delivery.Row) bool {
	return row.Step > 0 && !row.Slot.IsZero() && !row.Slot.After(row.LastSentAt)
}

// standing reports whether a claim may go in the place that it has. It is looked at without a lock: what others reserve
// they reserve around it, so that it stands unless the rules have changed or something critical went first. Two things ask
// for the lock all the same: a policy that counts what was sent only, by which nobody reserves anything, and a place that
// soon will be over, which somebody with a faster clock may count as one that is.
func (r *admitting) standing(book *admission.Ledger, c store.Claim, rules rules) (admitted bool, need store.IntentVerdict) {
	if c.OutcomeUnknown() { // what may have arrived did so under its old slot, which it keeps
		return true, need
	}
	a := r.slotRequest(c, rules)
	policy := book.Limiting(a)
	limited := !policy.Unlimited()
	if gathered, crowded := r.crowds[peerGroupOf(c)]; crowded && limited && !a.Limits.Uncounted {
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
	// Within the grace slots are compared, not the clock.
	a.Now = c.Slot
	if book.Try(a, c.Row).At.Equal(c.Slot) {
		if book.Policy(rules.live, c.Person.Contact, admission.Kind(c.Channel)).SentOnly() { // also of what passes it
			book.Release(a, c.Slot, c.Type)
			book.Send(a, c.Slot)
		}
		return true, need
	}
	need.NeedLock = !c.Person.Locked
	return false, need
}

// placed reports whether a claim has a place of its own that is not over.
func (r *admitting) placed(c store.Claim, policy cadence.Policy) bool {
	age := r.now.Sub(c.Slot)
	return !c.Slot.IsZero() && !earlier(c.Row) && age >= 0 && age <= policy.Grace()
}

func hasFallback(rules rules) bool { return len(rules.trigger.Fallback) > 0 }

// admit finds a place from now on for a claim that has none, or that has lost its own.
func (r *admitting) admit(book *admission.Ledger, c store.Claim, rules rules) store.IntentVerdict {
	a := r.slotRequest(c, rules)
	first := c.Slot.IsZero() && !c.IsFoldMember() || earlier(c.Row) // it has not been admitted yet
	r.release(book, c, a)
	if age := r.now.Sub(c.LeavesAt()); c.IsFoldMember() && age >= 0 && age <= book.Limiting(a).Grace() {
		a.Now = c.LeavesAt() // it may have the place of the one with which it was to leave
	}
	verdict := book.Try(a)
	if r.placed(c, book.Limiting(a)) && (verdict.Reason == reason.DeferredTooLong || verdict.At.After(r.now)) {
		own := a // it was asked for the sake of others: it is none the worse for that
		own.Now = c.Slot
		if v := book.Try(own); v.Reason == "" && v.At.Equal(c.Slot) {
			a, verdict = own, v
		}
	}
	if verdict.Reason != reason.DeferredTooLong && !verdict.At.After(r.now) {
		into := c.FoldedInto
		if c.IsFoldMember() { // it goes by itself, and takes along those that were to leave with it
			into = c.ID
		}
		return store.IntentVerdict{Past: past(c), Move: &store.IntentMove{
			Send: true, Status: c.Status, SendAt: c.SendAt, Slot: book.Send(a, verdict.At), DeferredBy: c.DeferredBy, Reason: c.Reason,
			AttemptNo: c.AttemptNo, Step: c.Step, Remaining: c.RemindersRemaining, Trace: c.Trace, LeaseUntil: r.leaseUntil,
			UnknownSince: c.UnknownSince, DueAt: c.DueAt, EligibleAt: c.EligibleAt, FoldedInto: into,
		}}
	}
	because := book.Trace(a, verdict)
	v := r.withheld(book, c, rules, a, verdict, first)
	v.Move.Trace = admission.Trace(c.Row, rules.policy.Timing, verdict.Reason, r.now, v.Move.SendAt, because)
	return v
}

// withheld is what becomes of a claim that a limit keeps from going now.
func (r *admitting) withheld(book *admission.Ledger, c store.Claim, rules rules, a admission.SlotRequest, verdict cadence.Verdict, first bool) store.IntentVerdict {
	timing, limits, tooLong := rules.policy.Timing, rules.trigger.Limits, verdict.Reason == reason.DeferredTooLong
	if !first || c.FallbackOf != 0 || admission.FallsBack(limits, verdict) {
		if v, ok := r.fallback(book, c, rules, verdict.Reason); ok {
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
	placed, ok := book.Place(a, c.Row, verdict)
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

// past is the place that a claim gives up to take another, when it is one that a message was sent in.
func past(c store.Claim) *store.PastSlot {
	if !earlier(c.Row) {
		return nil
	}
	return &store.PastSlot{
		Workspace: c.Workspace, Contact: c.Contact, Delivery: c.ID, Slot: c.Slot, Type: c.Type, Channel: c.Channel,
	}
}

// fail ends a step that a limit keeps from going, where the workflow wants that (decision 4): a first message fails, a
// reminder is left out.
func (r *admitting) fail(c store.Claim, rules rules, why reason.Reason) store.IntentVerdict {
	change := delivery.Skip(c.Row, rules.policy, why, r.now)
	if c.Step == 0 {
		change.Status = delivery.Failed
	}
	return r.move(c, rules.policy.Timing, journal.Failed, why, change)
}

// fallback hands a first message that a limit keeps from going to the first channel on which its person has an address
// and is free now (A40). The delivery itself is skipped for the limit's reason.
func (r *admitting) fallback(book *admission.Ledger, c store.Claim, rules rules, why reason.Reason) (v store.IntentVerdict, ok bool) {
	if c.Step > 0 {
		return v, false
	}
	for row, channel := range r.standIns(c, rules) {
		a := r.slotRequest(c, rules)
		a.Channel = row.Channel
		if verdict := r.Channels.Resting(c.Workspace, channel, r.now); !verdict.OK {
			continue
		}
		if at := book.Try(a); at.Reason != "" {
			continue
		}
		row = standIn(row, c, delivery.ID(r.Store.NewID(r.now)))
		row.SendAt, row.Slot, row.CreatedAt = r.now, book.Reserve(a, r.now), r.now
		v = r.move(c, rules.policy.Timing, journal.Skipped, why, delivery.Skip(c.Row, rules.policy, why, r.now))
		v.Fallback = &row
		r.entries = append(r.entries, admission.Entry(row, c.Person.ExtID, r.now))
		return v, true
	}
	return v, false
}

// standIns are the rows, without id, send_at and slot, that may take a delivery over, in the order of trying: one for
// each further channel of its trigger on which its person has an address that may be written to.
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

// standIn gives such a row its id. What is folded into the one that it stands in for leaves with it.
func standIn(row delivery.Row, c store.Claim, id delivery.ID) delivery.Row {
	row.ID = id
	if c.IsFoldHead() {
		row.FoldedInto = id
	}
	return row
}

// afterFailure is the delivery that stands in for one that has failed for good; nil when there is none. It takes its
// place when it is sent.
func (s *Sender) afterFailure(c store.Claim, rules rules, now time.Time) *delivery.Row {
	for row := range s.standIns(c, rules) {
		row = standIn(row, c, delivery.ID(s.Store.NewID(now)))
		row.SendAt, row.CreatedAt, row.EligibleAt = now, now, c.Eligible()
		return &row
	}
	return nil
}
