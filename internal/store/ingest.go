package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Recipients finds the recipients of messages and makes missing ones that may be made. It locks those whose slots may be
// taken, and loads their slots and, for fold, their fold heads. The result is in the order of refs.
func (t *Tx) Recipients(ws subject.WorkspaceID, now time.Time, refs []RecipientRef, floor Floor, fold bool) ([]delivery.Person, error) {
	recipients := make([]recipient, len(refs))
	for i, ref := range refs {
		recipients[i] = recipient{ws, ref}
	}
	persons, err := t.persons(now, recipients, floor)
	if err == nil && fold {
		err = t.foldHeadsOf(now, recipients, persons)
	}
	return persons, err
}

// WriteOccasions writes the rows of occasions. If another transaction has inserted one of the keys meanwhile, this one
// runs again.
func (t *Tx) WriteOccasions(ws subject.WorkspaceID, w OccasionWrites) error {
	if err := t.insertEvents(ws, w.Events); err != nil {
		return err
	}
	if err := t.insertInstances(ws, w.Instances); err != nil {
		return err
	}
	for _, d := range w.Deliveries {
		if err := checkDelivery(d, ws); err != nil {
			return err
		}
	}
	n, err := t.insertDeliveries(w.Deliveries)
	if err != nil {
		return err
	}
	if n < len(w.Deliveries) {
		return ErrAgain
	}
	if err := t.endWaiting(w.Ended); err != nil {
		return err
	}
	return t.insertDecisions(ws, w.Decisions)
}

// sortedKeys are the keys of m in ascending order: rows are always touched in one order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
