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

// Several messages to one person leave as one (at_send: fold, R7). One of them, which has a place in the person's limits,
// carries the others, which have none:
//
//	put off ─▶ takes a place: carries ───────────────▶ sent, with their texts
//	put off ─▶ no place of its own: rides ─ with it ─▶ skipped (folded_into)
//
// Who rides is fixed by the intent of the first try, under the lock on the person. Until then nothing binds the two: a
// message whose carrier has ended, or has moved, asks for a place of its own when it is due.

// bundle is a message that carries others, as a batch leaves it.
type bundle struct {
	row   delivery.Row // in its final place
	until time.Time    // it was put off until then; none: it is sent
}

// untried reports whether the first message of a delivery has never been on its way to a provider.
func untried(c store.Claim) bool {
	return c.Step == 0 && c.AttemptNo == 1 && !c.OutcomeUnknown() && c.LostIntent.IsZero()
}

// folds reports whether a claim may leave with others as one message when a limit puts it off.
func folds(c store.Claim, rules rules) bool {
	return rules.trigger.Limits.AtSend == definition.LimitFold && untried(c)
}

func personOf(c store.Claim) store.PersonRef {
	return store.PersonRef{Workspace: c.Workspace, ID: c.Contact}
}

// reserve has what rides with a claim that is sent leave with it. Whatever would not go now by its own rules stays behind
// and is decided when it is due.
func (r *admitting) reserve(book *admission.Ledger, c store.Claim, live *definition.Set, v *store.IntentVerdict) error {
	row := c.Row
	if v.Move != nil {
		row.Slot, row.FoldedInto = v.Move.Slot, v.Move.FoldedInto
	}
	if !row.IsFoldHead() || !untried(c) {
		return nil
	}
	r.bundles[personOf(c)] = append(r.bundles[personOf(c)], bundle{row: row})
	for _, rider := range c.FoldMembers {
		rules, err := r.rulesOf(rider, live)
		if err != nil {
			return err
		}
		one := store.Claim{Row: rider, Person: c.Person}
		one.Address = present(one)
		one.AttemptNo = 1 // as it would be if it were claimed itself
		if !r.followsFoldHead(book, one, rules, row) {
			continue
		}
		rider.Trace = admission.Trace(rider, rules.policy.Timing, reason.FoldedInto, r.now, time.Time{}, admission.LimitTrace{})
		rider.Status, rider.Reason, rider.CompletedAt, rider.FoldedInto = delivery.Skipped, reason.FoldedInto, r.now, row.ID
		rider.SendAt, rider.Slot = time.Time{}, time.Time{}
		v.Folded = append(v.Folded, rider)
		r.recordFolded(one, row)
	}
	return nil
}

// followsFoldHead reports whether a message may leave now with one that is sent.
func (r *admitting) followsFoldHead(book *admission.Ledger, c store.Claim, rules rules, carrier delivery.Row) bool {
	switch {
	case rules.trigger == nil, rules.channel == nil, rules.off, c.StopReason != "", c.Person.Suppressed:
		return false
	case !folds(c, rules), !r.allowed(c, rules), r.late(c, rules) != "":
		return false
	}
	return book.Fits(r.slotRequest(c, rules), c.Row, carrier)
}

// join has a claim that was to leave with another one do so: with that, or with any other of the person that this batch
// sends. Where the other one waits for its channel, it waits too.
func (r *admitting) join(book *admission.Ledger, c store.Claim, rules rules) (v store.IntentVerdict, joined bool) {
	if !c.IsFoldMember() || !untried(c) {
		return v, false
	}
	for _, b := range r.bundles[personOf(c)] {
		switch {
		case b.until.IsZero() && r.followsFoldHead(book, c, rules, b.row):
			v = r.move(c, rules.policy.Timing, "", reason.FoldedInto, delivery.Skip(c.Row, rules.policy, reason.FoldedInto, r.now))
			v.Move.FoldedInto = b.row.ID
			r.recordFolded(c, b.row)
			return v, true
		case !b.until.IsZero() && b.row.ID == c.FoldedInto:
			return r.later(c, rules, b.until.Add(delivery.RideAfter), reason.RateLimited), true
		}
	}
	return v, false
}

// putOff keeps in mind that a claim that others are to leave with waits for its channel.
func (r *admitting) putOff(c store.Claim, until time.Time) {
	if c.IsFoldHead() {
		r.bundles[personOf(c)] = append(r.bundles[personOf(c)], bundle{row: c.Row, until: until})
	}
}

func (r *admitting) recordFolded(c store.Claim, carrier delivery.Row) {
	e := describe(c)
	e.At, e.What, e.Reason, e.Into, e.IntoWorkflow = r.now, journal.Folded, reason.FoldedInto, carrier.Key, carrier.Workflow
	r.entries = append(r.entries, e)
}
