package sender

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
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

// findPeers finds the groups that must ask for slots: a claim of each has none, or cannot keep its own.
func (r *admitting) findPeers(at turn) {
	for c := range r.undecided {
		of := peerGroupOf(c.Claim)
		if _, known := r.peers[of]; !known && r.counts(c) && (!r.placed(c) || c.Person.SlotsRead && !r.keepsSlot(c)) {
			r.peers[of] = at
		}
	}
}

// counts reports whether a claim asks for a slot together with others, if it has to ask for one.
func (r *admitting) counts(c *candidate) bool {
	return !c.OutcomeUnknown() && !c.ask.Limits.Uncounted && !r.ledger.Limiting(c.ask).Unlimited()
}

// asks reports whether a claim asks for a slot with its peers.
func (r *admitting) asks(c *candidate) bool {
	_, peers := r.peers[peerGroupOf(c.Claim)]
	return peers && r.counts(c)
}

// turnOf returns when the peers of a claim are decided; 0: it does not ask for a slot with others.
func (r *admitting) turnOf(c *candidate) turn {
	if !r.asks(c) {
		return 0
	}
	return r.peers[peerGroupOf(c.Claim)]
}

// inOrder returns the claims of a turn in the order of decision: peers in the order in which they were due, each fold member after its head. Peers
// release their slots before any of them is decided.
func (r *admitting) inOrder(now turn) []*candidate {
	var order []*candidate
	peers := map[peerGroup][]int{}
	for _, c := range r.list {
		if c.decided || c.turn != now {
			continue
		}
		if !c.halted && r.asks(c) {
			peers[peerGroupOf(c.Claim)] = append(peers[peerGroupOf(c.Claim)], len(order))
			r.release(c)
		}
		order = append(order, c)
	}
	for _, places := range peers {
		group := make([]*candidate, len(places))
		for n, i := range places {
			group[n] = order[i]
		}
		for n, c := range slices.SortedStableFunc(slices.Values(group), func(a, b *candidate) int { return inTurn(group, a, b) }) {
			order[places[n]] = c
		}
	}
	return order
}

// inTurn compares the order of two claims of a peer group.
func inTurn(group []*candidate, a, b *candidate) int {
	with := func(c *candidate) (delivery.Row, bool) {
		if c.IsFoldMember() {
			for _, head := range group {
				if head.ID == c.FoldedInto {
					return head.Row, true
				}
			}
		}
		return c.Row, false
	}
	x, follows := with(a)
	y, after := with(b)
	return cmp.Or(
		x.NotBefore.Compare(y.NotBefore), cmp.Compare(x.ID, y.ID), compareBool(follows, after),
		a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.ID, b.ID),
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
func (r *admitting) release(c *candidate) {
	if !c.Slot.IsZero() && !delivery.SlotUsed(c.Row) && !r.released[c.ID] {
		r.released[c.ID] = true
		r.ledger.Release(c.ask, c.Slot, c.Type)
	}
}

// keep takes back the slot that a claim has released, because another reason than its limits delays it.
func (r *admitting) keep(c *candidate) {
	if r.released[c.ID] {
		delete(r.released, c.ID)
		r.ledger.Reserve(c.ask, c.Slot)
	}
}
