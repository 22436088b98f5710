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

// personID is whose messages are folded into one another.
type personID struct {
	ws subject.WorkspaceID
	id subject.ContactID
}

// Folds reports whether a message that a limit puts off when it is made may leave with others as one.
func Folds(l definition.Limits) bool {
	return l.AtSend == definition.LimitFold && l.AtCreate != definition.LimitSkip
}

// Place gives a message the place that a verdict has found for it, or folds it into one that waits already (R7). It is
// false where there is neither. Places of without are given up for it.
//
// A message that is folded takes no place: the one that carries it counts for all. One that may be folded and has to
// wait carries those that come after it.
func (b *Ledger) Place(a SlotRequest, row delivery.Row, v cadence.Verdict, without ...delivery.Row) (delivery.Row, bool) {
	late, fold := v.Reason == reason.DeferredTooLong, a.Fold && row.Step == 0
	if fold && (late || v.At.After(a.Now)) {
		if c, ok := b.carrier(a, row, v, without); ok {
			b.give(a, without)
			row.SendAt, row.Slot, row.FoldedInto, row.DeferredBy = c.SendAt.Add(delivery.RideAfter), time.Time{}, c.ID, v.Reason
			if late { // which says nothing of what it waits for
				row.DeferredBy = b.blockedBy(a)
			}
			return row, true
		}
	}
	if late {
		return row, false
	}
	b.give(a, without)
	row.SendAt, row.Slot, row.DeferredBy = v.At, b.Reserve(a, v.At), v.Reason
	switch {
	case fold && v.At.After(a.Now):
		row.FoldedInto = row.ID
		b.Carry(row)
	case row.IsFoldMember():
		row.FoldedInto = 0
	}
	return row, true
}

func (b *Ledger) give(a SlotRequest, places []delivery.Row) {
	for _, row := range places {
		b.Release(a, row.Slot, row.Type)
	}
}

// blockedBy is the first limit that keeps a message from going when it asks.
func (b *Ledger) blockedBy(a SlotRequest) reason.Reason {
	for _, u := range b.blocks(a) {
		return u.Reason
	}
	return ""
}

// carrier finds the message into which one can be folded: to the same address on the same channel, waiting for a place
// that comes no later than its own would, and that it might have had itself, so that no limit of its type and no send
// window is passed by being folded.
func (b *Ledger) carrier(a SlotRequest, row delivery.Row, v cadence.Verdict, without []delivery.Row) (delivery.Row, bool) {
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

// Fits reports whether a message might leave in the place of another one, to the same address. Places of without are as
// good as free.
func (b *Ledger) Fits(a SlotRequest, row, carrier delivery.Row, without ...delivery.Row) bool {
	if row.Channel != carrier.Channel || row.Address != carrier.Address {
		return false
	}
	a.Now, a.Until = carrier.Slot, carrier.Slot
	v := b.Try(a, append([]delivery.Row{carrier}, without...)...)
	return v.Reason != reason.DeferredTooLong && v.At.Equal(carrier.Slot)
}

// Carry has a message that waits take along what is folded into it from now on. What the book knew of it before is
// forgotten.
func (b *Ledger) Carry(row delivery.Row) {
	of := personID{row.Workspace, row.Contact}
	list := slices.DeleteFunc(slices.Clone(b.carriers[of]), func(c delivery.Row) bool { return c.ID == row.ID })
	b.carriers[of] = append(list, row)
}

// known are the messages of a person that carry others, the earliest first: those that waited when the transaction
// began, and those of the book.
func (b *Ledger) known(ws subject.WorkspaceID, id subject.ContactID, waiting []delivery.Row) []delivery.Row {
	list := slices.Clone(b.carriers[personID{ws, id}])
	for _, c := range waiting {
		if !slices.ContainsFunc(list, func(k delivery.Row) bool { return k.ID == c.ID }) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(x, y delivery.Row) int { return x.Slot.Compare(y.Slot) })
	return list
}
