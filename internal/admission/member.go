package admission

import (
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/trace"
)

// Several messages to one contact leave as one (at_send: fold, R7). One of them, the fold head, has a slot in the contact's limits. The others, its
// fold members, have none.
//
//	deferred ─▶ takes a slot: fold head ────────────────────▶ sent, with their texts
//	deferred ─▶ no slot of its own: fold member ─ with it ─▶ skipped (folded_into)
//
// A digest takes what waits with it although nothing was folded into it before: a digest that uses up limits leaves in any case, and what leaves with it
// uses up none of its own.
//
// The intent of the first try fixes the members, under the lock on the contact. Until then nothing binds the two: a message whose head has ended or
// has moved asks for a slot of its own when it is due.

// decidedHead is a fold head after this batch's decision.
type decidedHead struct {
	row   delivery.Row // in its final slot
	until time.Time    // deferred until then; zero: it is sent
}

// findFolding adds to the needs of a claim what is needed to fold it. Nothing binds a fold head and its members but the lock on their person.
func (b *Batch) findFolding(c *candidate) {
	_, peers := b.peers[peerGroupOf(c.Row)]
	mayWait := c.needs.lock || peers
	if untried(c.Claim) && (c.Fold != "" || c.carries() || mayWait && c.rules.Trigger.Limits.AtSend == definition.LimitFold) {
		c.needs.lock, c.needs.fold = true, true
	}
}

// carries reports whether a claim is of a digest with which may leave what waits for its contact on its channel.
func (c *candidate) carries() bool {
	t := c.rules.Trigger
	return t != nil && t.Digest != nil && c.rules.Live.Folds()
}

// reserve adds to a claim that is sent the fold members that leave with it. A member that may not leave now by its own rules stays behind and is
// decided when it is due.
func (b *Batch) reserve(c *candidate) {
	head := c.verdict.Row
	digest := c.carries() && !head.Slot.IsZero() // it uses up limits itself
	if !head.IsFoldHead() && !digest || !untried(c.Claim) {
		return
	}
	head.SetFold(delivery.FoldHead, head.ID)
	if len(c.members) > 0 || !digest {
		b.heads[delivery.PersonOf(c.Row)] = append(b.heads[delivery.PersonOf(c.Row)], decidedHead{row: head})
	}
	for _, m := range c.members {
		member := m.Row
		if b.ledger.gone[member.ID] {
			continue // it leaves with another one
		}
		one := &candidate{Claim: delivery.Claim{Row: member, Person: c.Person}, rules: m.Rules, unsubscribed: m.Unsubscribed}
		one.Address = present(one.Claim)
		one.AttemptNo = 1 // as if it were claimed itself
		if !b.followsFoldHead(one, head) {
			continue
		}
		b.ledger.Requeue(member)
		b.ledger.gone[member.ID] = true
		member.Trace = trace.Of(member, m.Rules.Policy.Timing, reason.FoldedInto, b.Now, time.Time{}, trace.Limits{})
		member.Status, member.Reason, member.CompletedAt = delivery.Skipped, reason.FoldedInto, b.Now
		member.SetFold(delivery.Folded, head.ID)
		member.Unplan()
		member.Slot = time.Time{}
		c.verdict.Row.SetFold(delivery.FoldHead, head.ID)
		c.verdict.Changed = true
		c.verdict.Folded = append(c.verdict.Folded, member)
		c.verdict.entries = append(c.verdict.entries, b.folded(one, head))
	}
}

// followsFoldHead reports whether a message may leave now with a head that is sent.
func (b *Batch) followsFoldHead(c *candidate, head delivery.Row) bool {
	switch {
	case c.rules.Trigger == nil, c.rules.Channel == nil, c.rules.Off, c.StopReason != "", c.Person.Suppressed, c.unsubscribed:
		return false
	case !c.folds(), !b.allowed(c), b.tooLate(c) != "":
		return false
	}
	if c.Slot.IsZero() {
		return b.ledger.Fits(b.slotRequest(c), c.Row, head)
	}
	return b.ledger.Fits(b.slotRequest(c), c.Row, head, c.Row) // its own slot is free then
}

// join folds a fold member into its head, or into any other head of the contact that this batch sends. If its head waits for its channel, the member
// waits too.
func (b *Batch) join(c *candidate) (joined bool) {
	if !c.IsFoldMember() || !untried(c.Claim) {
		return false
	}
	for _, head := range b.heads[delivery.PersonOf(c.Row)] {
		switch {
		case head.until.IsZero() && b.followsFoldHead(c, head.row):
			c.verdict = b.move(c, c.rules.Policy.Timing, "", reason.FoldedInto, delivery.Skip(c.Row, c.rules.Policy, reason.FoldedInto, b.Now))
			c.verdict.Row.SetFold(delivery.Folded, head.row.ID)
			c.verdict.entries = append(c.verdict.entries, b.folded(c, head.row))
			return true
		case !head.until.IsZero() && head.row.ID == c.FoldedInto:
			c.verdict = b.later(c, head.until.Add(delivery.FoldMemberDelay), delivery.HoldRate, reason.RateLimited)
			return true
		}
	}
	return false
}

// putOff remembers a fold head that waits for its channel.
func (b *Batch) putOff(c *candidate, until time.Time) {
	if c.IsFoldHead() {
		b.heads[delivery.PersonOf(c.Row)] = append(b.heads[delivery.PersonOf(c.Row)], decidedHead{row: c.Row, until: until})
	}
}

func (b *Batch) folded(c *candidate, head delivery.Row) journal.Entry {
	e := b.entry(journal.Folded, c, reason.FoldedInto, time.Time{})
	e.Into, e.IntoWorkflow = head.Key, head.Workflow
	return e
}

// refold says where the fold members of a claim go if it does not leave.
func refold(was delivery.Row, v Verdict) (to delivery.Refold, changed bool) {
	to = delivery.Refold{Workspace: was.Workspace, From: was.ID}
	switch is := v.Row; {
	case !was.IsFoldHead() || !v.Changed || v.Send:
		return to, false
	case v.Fallback != nil:
		to.Into = v.Fallback.ID
	case is.IsFoldMember():
		to.Into = is.FoldedInto
	case !is.Status.Final() || is.Step > 0 || is.OutcomeUnknown():
		return to, false
	}
	return to, true
}
