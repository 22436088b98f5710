package store

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// waitingOf reads the rows of one person by index, because they are few.
const waitingOf = selectDeliveries + `
WHERE d.ws = $1 AND d.contact_id = $2 AND d.send_at > 0 AND ` + notCancelled + `
ORDER BY CASE WHEN d.hold = ` + sqlHoldPaused + ` THEN 1 ELSE 0 END, d.send_at, d.id
LIMIT $3`

// LimitUse reads a person with their slots and up to limit of their waiting deliveries. The error is ErrNotFound if there is no such
// contact.
func (s *Store) LimitUse(ctx context.Context, ws subject.WorkspaceID, id string, now time.Time, limit int) (out delivery.LimitUse, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		out = delivery.LimitUse{}
		found, err := query(t, scanContact, contactRow, int64(ws), id)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return ErrNotFound
		}
		out.Contact = found[0]
		ref := delivery.PersonRef{Workspace: ws, ID: out.Contact.ID}
		persons := map[delivery.PersonRef]delivery.Person{ref: {Contact: out.Contact.Contact, Found: true}}
		if err := t.readSlots(now, persons, nil); err != nil {
			return err
		}
		out.Person = persons[ref]
		out.Waiting, err = query(t, scanDelivery, waitingOf, int64(ws), int64(out.Contact.ID), int64(limit))
		return err
	})
	if err != nil {
		return out, fmt.Errorf("read the limits of a contact: %w", err)
	}
	return out, nil
}
