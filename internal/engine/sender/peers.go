package sender

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/store"
)

// A slot that has passed binds nobody (model.md §5). So a message whose slot has passed, or that has none yet, does not ask for a slot alone.
// Everything of its contact and kind of channel that is due and has no slot ahead is claimed with it under the contact's lock. These peers release
// their slots, and each takes the first slot that is free from now on, in the order in which they were due. Those that may leave now share one slot.

// peerGroup names the messages of one contact on one kind of channel, which ask for slots together.
type peerGroup struct {
	store.PersonRef
	kind string
}

func peerGroupOf(c store.Claim) peerGroup { return peerGroup{personOf(c), admission.Kind(c.Channel)} }

// candidate is a claim in one round of its decision.
type candidate struct {
	store.Claim
	rules   rules
	was     string              // the address before readdressing
	verdict store.IntentVerdict // if stopped
	stopped bool
}

// inOrder finds the claims that must ask for a slot, has the rest of their peer groups claimed with them, and returns the indexes of all claims in
// the order of decision: peers in the order in which they were due, each fold member after its head.
func (r *admitting) inOrder(asked []candidate) []int {
	order := make([]int, len(asked))
	members := map[peerGroup][]int{}
	for i, a := range asked {
		order[i] = i
		if a.stopped || a.OutcomeUnknown() {
			continue
		}
		ask := r.slotRequest(a.Claim, a.rules)
		policy := r.ledger.Limiting(ask)
		if policy.Unlimited() || ask.Limits.Uncounted {
			continue
		}
		of := peerGroupOf(a.Claim)
		members[of] = append(members[of], i)
		if _, known := r.peers[of]; known {
			continue
		}
		if !r.placed(a.Claim, policy) || a.Person.SlotsRead && !r.keepsSlot(a) {
			r.peers[of] = false
		}
	}
	for of, list := range members {
		claimed, inPeers := r.peers[of]
		if !inPeers {
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
			r.release(r.ledger, asked[i].Claim, r.slotRequest(asked[i].Claim, asked[i].rules))
		}
	}
	return order
}

// keepsSlot reports whether a claim may leave in its own slot, by the limits as they are before this batch.
func (r *admitting) keepsSlot(a candidate) bool {
	ask := r.slotRequest(a.Claim, a.rules)
	ask.Now = a.Slot
	return r.ledger.Try(ask, a.Row).At.Equal(a.Slot)
}

// inTurn compares the order of two claims of a peer group.
func inTurn(asked []candidate, group []int, i, k int) int {
	with := func(i int) (delivery.Row, bool) {
		if row := asked[i].Row; row.IsFoldMember() {
			for _, n := range group {
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

// release gives up the slot of a claim that asks for another one.
func (r *admitting) release(ledger *admission.Ledger, c store.Claim, a admission.SlotRequest) {
	if !c.Slot.IsZero() && !earlier(c.Row) && !r.released[c.ID] {
		r.released[c.ID] = true
		ledger.Release(a, c.Slot, c.Type)
	}
}

// keep takes back the slot that a claim has released, because another reason than its limits delays it.
func (r *admitting) keep(ledger *admission.Ledger, c store.Claim, rules rules) {
	if r.released[c.ID] {
		delete(r.released, c.ID)
		ledger.Reserve(r.slotRequest(c, rules), c.Slot)
	}
}
