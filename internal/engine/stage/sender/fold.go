package sender

import (
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
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

// findFolding adds to the needs of a claim what is needed to fold it. Nothing binds a fold head and its members but the lock on their person.
func (r *admitting) findFolding(c *candidate) {
	_, peers := r.peers[peerGroupOf(c.Claim)]
	mayWait := c.needs.lock || peers
	if untried(c.Claim) && (c.FoldedInto != 0 || mayWait && c.rules.trigger.Limits.AtSend == definition.LimitFold) {
		c.needs.lock, c.needs.fold = true, true
	}
}

// reserve adds to a claim that is sent the fold members that leave with it. A member that may not leave now by its own rules stays behind and is
// decided when it is due.
func (r *admitting) reserve(c *candidate) error {
	head := c.verdict.row
	if !head.IsFoldHead() || !untried(c.Claim) {
		return nil
	}
	r.bundles[personOf(c.Claim)] = append(r.bundles[personOf(c.Claim)], bundle{row: head})
	for _, member := range c.members {
		rules, err := r.rulesOf(member, c.rules.live)
		if err != nil {
			return err
		}
		one := &candidate{Claim: store.Claim{Row: member, Person: c.Person}, rules: rules}
		one.Address = present(one.Claim)
		one.AttemptNo = 1 // as if it were claimed itself
		if !r.followsFoldHead(one, head) {
			continue
		}
		member.Trace = admission.Trace(member, rules.policy.Timing, reason.FoldedInto, r.now, time.Time{}, admission.LimitTrace{})
		member.Status, member.Reason, member.CompletedAt, member.FoldedInto = delivery.Skipped, reason.FoldedInto, r.now, head.ID
		member.Unplan()
		member.Slot = time.Time{}
		c.verdict.folded = append(c.verdict.folded, member)
		r.recordFolded(one, head)
	}
	return nil
}

// followsFoldHead reports whether a message may leave now with a head that is sent.
func (r *admitting) followsFoldHead(c *candidate, head delivery.Row) bool {
	switch {
	case c.rules.trigger == nil, c.rules.channel == nil, c.rules.off, c.StopReason != "", c.Person.Suppressed:
		return false
	case !folds(c.Claim, c.rules), !r.allowed(c), r.tooLate(c) != "":
		return false
	}
	return r.ledger.Fits(r.slotRequest(c), c.Row, head)
}

// join folds a fold member into its head, or into any other head of the contact that this batch sends. If its head waits for its channel, the member
// waits too.
func (r *admitting) join(c *candidate) (joined bool) {
	if !c.IsFoldMember() || !untried(c.Claim) {
		return false
	}
	for _, b := range r.bundles[personOf(c.Claim)] {
		switch {
		case b.until.IsZero() && r.followsFoldHead(c, b.row):
			c.verdict = r.move(c, c.rules.policy.Timing, "", reason.FoldedInto, delivery.Skip(c.Row, c.rules.policy, reason.FoldedInto, r.now))
			c.verdict.row.FoldedInto = b.row.ID
			r.recordFolded(c, b.row)
			return true
		case !b.until.IsZero() && b.row.ID == c.FoldedInto:
			c.verdict = r.later(c, b.until.Add(delivery.FoldMemberDelay), delivery.HoldRate, reason.RateLimited)
			return true
		}
	}
	return false
}

// putOff remembers a fold head that waits for its channel.
func (r *admitting) putOff(c *candidate, until time.Time) {
	if c.IsFoldHead() {
		r.bundles[personOf(c.Claim)] = append(r.bundles[personOf(c.Claim)], bundle{row: c.Row, until: until})
	}
}

func (r *admitting) recordFolded(c *candidate, head delivery.Row) {
	e := describe(c.Claim)
	e.At, e.What, e.Reason, e.Into, e.IntoWorkflow = r.now, journal.Folded, reason.FoldedInto, head.Key, head.Workflow
	r.entries = append(r.entries, e)
}

// leaves says where the fold members of a claim go if it does not leave.
func leaves(was delivery.Row, v verdict) (refold store.Refold, changed bool) {
	refold = store.Refold{Workspace: was.Workspace, From: was.ID}
	switch is := v.row; {
	case !was.IsFoldHead() || !v.changed || v.send:
		return refold, false
	case v.fallback != nil:
		refold.Into = v.fallback.ID
	case is.IsFoldMember():
		refold.Into = is.FoldedInto
	case !is.Status.Final() || is.Step > 0 || is.OutcomeUnknown():
		return refold, false
	}
	return refold, true
}
