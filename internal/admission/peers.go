package admission

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon/internal/delivery"
)

// A past slot no longer counts. So a message whose slot has passed, or that has none yet, does not ask for a slot alone.
// Everything of its contact and kind of channel that is due and has no slot ahead is claimed with it under the contact's lock. These peers release
// their slots, and each takes the first slot that is free from now on, in the order in which they were due. Those that may leave now share one slot.

// peerGroup names the messages of one contact on one kind of channel, which ask for slots together.
type peerGroup = delivery.PersonKind

func peerGroupOf(row delivery.Row) peerGroup {
	return peerGroup{PersonRef: delivery.PersonOf(row), Kind: Kind(row.Channel)}
}

// findPeers finds the groups that must ask for slots: a claim of each has none, or cannot keep its own.
func (b *Batch) findPeers(at turn) {
	for c := range b.undecided {
		of := peerGroupOf(c.Row)
		if _, known := b.peers[of]; !known && b.counts(c) && (!b.placed(c) || c.Person.SlotsRead && !b.keepsSlot(c)) {
			b.peers[of] = at
		}
	}
}

// counts reports whether a claim asks for a slot together with others, if it has to ask for one.
func (b *Batch) counts(c *candidate) bool {
	return !c.OutcomeUnknown() && !c.ask.Limits.Uncounted && !b.ledger.Limiting(c.ask).Unlimited()
}

// asks reports whether a claim asks for a slot with its peers.
func (b *Batch) asks(c *candidate) bool {
	_, peers := b.peers[peerGroupOf(c.Row)]
	return peers && b.counts(c)
}

// turnOf returns when the peers of a claim are decided; 0: it does not ask for a slot with others.
func (b *Batch) turnOf(c *candidate) turn {
	if !b.asks(c) {
		return 0
	}
	return b.peers[peerGroupOf(c.Row)]
}

// inOrder returns the claims of a turn in the order of decision: peers in the order in which they were due, each fold member after its head. Peers
// release their slots before any of them is decided.
func (b *Batch) inOrder(now turn) []*candidate {
	var order []*candidate
	peers := map[peerGroup][]int{}
	for _, c := range b.list {
		if c.decided || c.turn != now {
			continue
		}
		if !c.halted && b.asks(c) {
			peers[peerGroupOf(c.Row)] = append(peers[peerGroupOf(c.Row)], len(order))
			b.release(c)
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
		cmp.Compare(x.Priority, y.Priority), x.NotBefore.Compare(y.NotBefore), cmp.Compare(x.ID, y.ID), compareBool(follows, after),
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
func (b *Batch) release(c *candidate) {
	if !c.Slot.IsZero() && !delivery.SlotUsed(c.Row) && !b.released[c.ID] {
		b.released[c.ID] = true
		b.ledger.Release(c.ask, c.Slot, c.Type)
	}
}

// keep takes back the slot that a claim has released, because another reason than its limits delays it.
func (b *Batch) keep(c *candidate) {
	if b.released[c.ID] {
		delete(b.released, c.ID)
		b.ledger.Reserve(c.ask, c.Slot)
	}
}
