package sender

import (
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// Several messages to one contact leave as one (at_send: fold, R7). One of them, the fold head, has a slot in the contact's limits. The others, its
// fold members, have none.
//
//	deferred ─▶ takes a slot: fold head ────────────────────▶ sent, with their texts
//	deferred ─▶ no slot of its own: fold member ─ with it ─▶ skipped (folded_into)
//
// The intent of the first try fixes the members, under the lock on the contact. Until then nothing binds the two: a message whose head has ended or
// has moved asks for a slot of its own when it is due.

// bundle is a fold head after this batch's decision.
type bundle struct {
	row   delivery.Row // in its final slot
	until time.Time    // deferred until then; zero: it is sent
}

// untried reports whether the first message of a delivery has never been sent to a provider.
func untried(c store.Claim) bool {
	return c.Step == 0 && c.AttemptNo == 1 && !c.OutcomeUnknown() && c.LostIntent.IsZero()
}

// folds reports whether a claim may leave with others as one message when a limit defers it.
func folds(c store.Claim, rules rules) bool {
	return rules.trigger.Limits.AtSend == definition.LimitFold && untried(c)
}

func personOf(c store.Claim) store.PersonRef {
	return store.PersonRef{Workspace: c.Workspace, ID: c.Contact}
}

// reserve adds to a claim that is sent the fold members that leave with it. A member that may not leave now by its own rules stays behind and is
// decided when it is due.
func (r *admitting) reserve(ledger *admission.Ledger, c store.Claim, live *definition.Set, v *store.IntentVerdict) error {
	row := c.Row
	if v.Move != nil {
		row.Slot, row.FoldedInto = v.Move.Slot, v.Move.FoldedInto
	}
	if !row.IsFoldHead() || !untried(c) {
		return nil
	}
	r.bundles[personOf(c)] = append(r.bundles[personOf(c)], bundle{row: row})
	for _, member := range c.FoldMembers {
		rules, err := r.rulesOf(member, live)
		if err != nil {
			return err
		}
		one := store.Claim{Row: member, Person: c.Person}
		one.Address = present(one)
		one.AttemptNo = 1 // as if it were claimed itself
		if !r.followsFoldHead(ledger, one, rules, row) {
			continue
		}
		member.Trace = admission.Trace(member, rules.policy.Timing, reason.FoldedInto, r.now, time.Time{}, admission.LimitTrace{})
		member.Status, member.Reason, member.CompletedAt, member.FoldedInto = delivery.Skipped, reason.FoldedInto, r.now, row.ID
		member.SendAt, member.Slot = time.Time{}, time.Time{}
		v.Folded = append(v.Folded, member)
		r.recordFolded(one, row)
	}
	return nil
}

// followsFoldHead reports whether a message may leave now with a head that is sent.
func (r *admitting) followsFoldHead(ledger *admission.Ledger, c store.Claim, rules rules, head delivery.Row) bool {
	switch {
	case rules.trigger == nil, rules.channel == nil, rules.off, c.StopReason != "", c.Person.Suppressed:
		return false
	case !folds(c, rules), !r.allowed(c, rules), r.late(c, rules) != "":
		return false
	}
	return ledger.Fits(r.slotRequest(c, rules), c.Row, head)
}

// join folds a fold member into its head, or into any other head of the contact that this batch sends. If its head waits for its channel, the member
// waits too.
func (r *admitting) join(ledger *admission.Ledger, c store.Claim, rules rules) (v store.IntentVerdict, joined bool) {
	if !c.IsFoldMember() || !untried(c) {
		return v, false
	}
	for _, b := range r.bundles[personOf(c)] {
		switch {
		case b.until.IsZero() && r.followsFoldHead(ledger, c, rules, b.row):
			v = r.move(c, rules.policy.Timing, "", reason.FoldedInto, delivery.Skip(c.Row, rules.policy, reason.FoldedInto, r.now))
			v.Move.FoldedInto = b.row.ID
			r.recordFolded(c, b.row)
			return v, true
		case !b.until.IsZero() && b.row.ID == c.FoldedInto:
			return r.later(c, rules, b.until.Add(delivery.FoldMemberDelay), reason.RateLimited), true
		}
	}
	return v, false
}

// putOff remembers a fold head that waits for its channel.
func (r *admitting) putOff(c store.Claim, until time.Time) {
	if c.IsFoldHead() {
		r.bundles[personOf(c)] = append(r.bundles[personOf(c)], bundle{row: c.Row, until: until})
	}
}

func (r *admitting) recordFolded(c store.Claim, head delivery.Row) {
	e := describe(c)
	e.At, e.What, e.Reason, e.Into, e.IntoWorkflow = r.now, journal.Folded, reason.FoldedInto, head.Key, head.Workflow
	r.entries = append(r.entries, e)
}
