package sender

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/store"
)

// A place that has passed binds nobody (model.md §5). So a message whose place is over, or that has none yet, is not asked
// for one alone: everything of its person and kind of channel that is due, in a place that is not ahead, is claimed with it
// under the person's lock. All give their places up, and each takes the first one that is free from now on, in the order in
// which they were due. What may go now goes in one place.

// peerGroup is what is asked together: the messages of a person on a kind of channel.
type peerGroup struct {
	store.PersonRef
	kind string
}

func peerGroupOf(c store.Claim) peerGroup { return peerGroup{personOf(c), admission.Kind(c.Channel)} }

// candidate is a claim in one round of its decision.
type candidate struct {
	store.Claim
	rules   rules
	was     string              // its address before
	verdict store.IntentVerdict // of what is stopped
	stopped bool
}

// inOrder finds out which claims are asked for a place, has all of their crowds asked with them, and returns the indexes of
// all claims in the order of their decisions: those of a crowd as they were due, what rides with another after that.
func (r *admitting) inOrder(asked []candidate) []int {
	order := make([]int, len(asked))
	members := map[peerGroup][]int{}
	for i, a := range asked {
		order[i] = i
		if a.stopped || a.OutcomeUnknown() {
			continue
		}
		ask := r.slotRequest(a.Claim, a.rules)
		policy := r.book.Limiting(ask)
		if policy.Unlimited() || ask.Limits.Uncounted {
			continue
		}
		of := peerGroupOf(a.Claim)
		members[of] = append(members[of], i)
		if _, known := r.crowds[of]; known {
			continue
		}
		if !r.placed(a.Claim, policy) || a.Person.SlotsRead && !r.keepsSlot(a) {
			r.crowds[of] = false
		}
	}
	for of, list := range members {
		claimed, crowded := r.crowds[of]
		if !crowded {
			continue
		}
		sorted := slices.SortedStableFunc(slices.Values(list), func(i, k int) int { return inTurn(asked, list, i, k) })
		for n, i := range list {
			order[i] = sorted[n]
		}
		if !claimed {
			continue // it is decided in the next round
		}
		for _, i := range list {
			r.release(r.book, asked[i].Claim, r.slotRequest(asked[i].Claim, asked[i].rules))
		}
	}
	return order
}

// keepsSlot reports whether a claim may go in the place that it has, as things are before this batch.
func (r *admitting) keepsSlot(a candidate) bool {
	ask := r.slotRequest(a.Claim, a.rules)
	ask.Now = a.Slot
	return r.book.Try(ask, a.Row).At.Equal(a.Slot)
}

// inTurn compares the turns of two claims of a crowd.
func inTurn(asked []candidate, crowd []int, i, k int) int {
	with := func(i int) (delivery.Row, bool) {
		if row := asked[i].Row; row.IsFoldMember() {
			for _, n := range crowd {
				if asked[n].ID == row.FoldedInto {
					return asked[n].Row, true
				}
			}
		}
		return asked[i].Row, false
	}
	a, rides := with(i)
	b, follows := with(k)
	return cmp.Or(
		a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.ID, b.ID), compareBool(rides, follows),
		asked[i].NotBefore.Compare(asked[k].NotBefore), cmp.Compare(asked[i].ID, asked[k].ID),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// release gives up the place of a claim that is asked for another one.
func (r *admitting) release(book *admission.Ledger, c store.Claim, a admission.SlotRequest) {
	if !c.Slot.IsZero() && !earlier(c.Row) && !r.released[c.ID] {
		r.released[c.ID] = true
		book.Release(a, c.Slot, c.Type)
	}
}

// keep takes back the place that a claim has given up, since it does not go now for another reason than its limits.
func (r *admitting) keep(book *admission.Ledger, c store.Claim, rules rules) {
	if r.released[c.ID] {
		delete(r.released, c.ID)
		book.Reserve(r.slotRequest(c, rules), c.Slot)
	}
}
