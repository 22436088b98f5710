package admission

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// personID names a contact.
type personID struct {
	ws subject.WorkspaceID
	id subject.ContactID
}

// Folds reports whether a message that a limit defers when it is made may leave with others as one.
func Folds(l definition.Limits) bool {
	return l.AtSend == definition.LimitFold && l.AtCreate != definition.LimitSkip
}

// Place gives a message the slot that a verdict has found for it, or folds it into a waiting one (R7). It returns false if there is neither. Slots of
// the rows in without are released for it.
//
// A folded message takes no slot: its fold head counts for all. A message that may be folded and has to wait becomes the head of those that come
// after it.
func (b *Ledger) Place(a SlotRequest, row delivery.Row, v cadence.Verdict, without ...delivery.Row) (delivery.Row, bool) {
	late, fold := v.Reason == reason.DeferredTooLong, a.Fold && row.Step == 0
	if fold && (late || v.At.After(a.Now)) {
		if c, ok := b.foldHead(a, row, v, without); ok {
			b.give(a, without)
			row.Plan(c.SendAt.Add(delivery.FoldMemberDelay))
			row.SetFold(delivery.FoldMember, c.ID)
			row.Slot, row.DeferredBy = time.Time{}, v.Reason
			if late { // which does not say what it waits for
				row.DeferredBy = b.blockedBy(a)
			}
			return row, true
		}
	}
	if late {
		return row, false
	}
	b.give(a, without)
	row.Plan(v.At)
	row.Slot, row.DeferredBy = b.Reserve(a, v.At), v.Reason
	switch {
	case fold && v.At.After(a.Now):
		row.SetFold(delivery.FoldHead, row.ID)
		b.Carry(row)
	case row.IsFoldMember():
		row.SetFold("", 0)
	}
	return row, true
}

func (b *Ledger) give(a SlotRequest, places []delivery.Row) {
	for _, row := range places {
		b.Release(a, row.Slot, row.Type)
	}
}

// blockedBy returns the first limit that keeps a message from leaving when it asks.
func (b *Ledger) blockedBy(a SlotRequest) reason.Reason {
	for _, u := range b.blocks(a) {
		return u.Reason
	}
	return ""
}

// foldHead finds the fold head for a message: to the same address on the same channel, waiting for a slot no later than the message's own would be.
// The message must be allowed in that slot itself, so that folding passes no limit of its type and no send window.
func (b *Ledger) foldHead(a SlotRequest, row delivery.Row, v cadence.Verdict, without []delivery.Row) (delivery.Row, bool) {
	for _, c := range b.known(row.Workspace, a.Person.ID, a.Person.FoldHeads) {
		given := slices.ContainsFunc(without, func(w delivery.Row) bool { return w.ID == c.ID })
		switch {
		case given, b.gone[c.ID], c.ID == row.ID, c.Slot.Before(a.Now), c.Slot.After(a.Until),
			v.Reason != reason.DeferredTooLong && c.Slot.After(v.At):
			continue
		}
		if b.Fits(a, row, c, without...) {
			return c, true
		}
	}
	return delivery.Row{}, false
}

// Fits reports whether a message might leave in the slot of another one, to the same address. Slots of the rows in without count as free.
func (b *Ledger) Fits(a SlotRequest, row, head delivery.Row, without ...delivery.Row) bool {
	if row.Channel != head.Channel || row.Address != head.Address {
		return false
	}
	a.Now, a.Until = head.Slot, head.Slot
	v := b.Try(a, append([]delivery.Row{head}, without...)...)
	return v.Reason != reason.DeferredTooLong && v.At.Equal(head.Slot)
}

// Carry makes a waiting message a fold head from now on, and forgets what the ledger knew of it before.
func (b *Ledger) Carry(row delivery.Row) {
	of := personID{row.Workspace, row.Contact}
	list := slices.DeleteFunc(slices.Clone(b.heads[of]), func(c delivery.Row) bool { return c.ID == row.ID })
	b.heads[of] = append(list, row)
}

// known returns the fold heads of a contact, the earliest first: those that waited when the transaction began, and those of the ledger.
func (b *Ledger) known(ws subject.WorkspaceID, id subject.ContactID, waiting []delivery.Row) []delivery.Row {
	list := slices.Clone(b.heads[personID{ws, id}])
	for _, c := range waiting {
		if !slices.ContainsFunc(list, func(k delivery.Row) bool { return k.ID == c.ID }) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(x, y delivery.Row) int { return x.Slot.Compare(y.Slot) })
	return list
}
