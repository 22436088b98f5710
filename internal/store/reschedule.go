package store

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
)

// DueReschedule is a person whose limits have changed.
type DueReschedule struct {
	delivery.PersonRef
	InForce int64 // number of the definition set in force, which stays so until the transaction ends
}

// The request is stored in the row that is the lock on a person. A person without a later slot needs none.
const markReschedule = `
UPDATE cadence SET reschedule_at = $1
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id AND cadence.reschedule_at = 0
  AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.ws = cadence.ws AND d.contact_id = cadence.contact_id AND d.slot > $1)`

const dueReschedules = `
SELECT c.ws, c.contact_id, (SELECT w.definitions FROM workspace AS w WHERE w.id = c.ws)
FROM cadence AS c
WHERE c.reschedule_at > 0 AND c.reschedule_at <= $1
ORDER BY c.reschedule_at, c.contact_id
LIMIT $2
/*SKIP LOCKED*/`

// A delivery that a sender holds is left out: it may be leaving now.
const rescheduleDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.contact_id = r.id AND d.send_at > 0 AND d.lease_until <= $1
  AND (d.slot > $1 OR d.fold = ` + sqlFoldMember + ` AND (d.send_at > $1 OR d.hold = ` + sqlHoldPaused + `))
/*SKIP LOCKED d*/`

var rescheduledColumns = named("rescheduled", deliveryColumns.only("type", "status", "send_at", "hold", "slot", "deferred_by", "step", "reminders_remaining",
	"expires_at", "reason", "trace", "completed_at", "fold", "folded_into"))

const writeRescheduled = `
UPDATE delivery SET /*SET r (rescheduled)*/, due_at = 0, eligible_at = 0, version = delivery.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, rescheduled)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version`

const clearReschedule = `
UPDATE cadence SET reschedule_at = 0
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r
WHERE cadence.ws = r.ws AND cadence.contact_id = r.id`

// MarkReschedule requests that the waiting deliveries of persons are rescheduled for changed limits (R5).
func (t *Tx) MarkReschedule(now time.Time, refs []delivery.PersonRef) error {
	n, err := t.exec(markReschedule, dueMicros(now), personRows(refs))
	if err != nil {
		return fmt.Errorf("mark contacts to reschedule: %w", err)
	}
	if n > 0 {
		t.due(WorkLimits, dueMicros(now))
	}
	return nil
}

// DueReschedules locks up to limit people whose limits have changed, and passes over those that other transactions hold.
func (t *Tx) DueReschedules(now time.Time, limit int) ([]DueReschedule, error) {
	due, err := query(t, func(rows *sql.Rows) (r DueReschedule, err error) {
		return r, rows.Scan(&r.Workspace, &r.ID, &r.InForce)
	}, dueReschedules, dueMicros(now), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("find contacts to reschedule: %w", err)
	}
	return due, nil
}

// ClearReschedules ends the requests of people who are locked.
func (t *Tx) ClearReschedules(refs []delivery.PersonRef) error {
	if _, err := t.exec(clearReschedule, personRows(refs)); err != nil {
		return fmt.Errorf("clear requests to reschedule: %w", err)
	}
	return nil
}

// LockedPersons reads people who are locked, with their slots.
func (t *Tx) LockedPersons(now time.Time, refs []delivery.PersonRef, floor Floor) (map[delivery.PersonRef]delivery.Person, error) {
	persons, err := t.personsBy(personsByID, personRows(refs), true)
	if err != nil {
		return nil, fmt.Errorf("read persons: %w", err)
	}
	return persons, t.readSlots(now, persons, floor)
}

// DeliveriesToReschedule locks the deliveries of people that wait for a later slot.
func (t *Tx) DeliveriesToReschedule(now time.Time, refs []delivery.PersonRef) (map[delivery.PersonRef][]delivery.Row, error) {
	waiting, err := query(t, scanDelivery, rescheduleDeliveries, dueMicros(now), personRows(refs))
	if err != nil {
		return nil, fmt.Errorf("find deliveries to reschedule: %w", err)
	}
	of := map[delivery.PersonRef][]delivery.Row{}
	for _, d := range waiting {
		ref := delivery.PersonRef{Workspace: d.Workspace, ID: d.Contact}
		of[ref] = append(of[ref], d)
	}
	return of, nil
}

// WriteRescheduled writes deliveries that are locked as they are to be.
func (t *Tx) WriteRescheduled(now time.Time, changed []delivery.Row) error {
	var rows rowset
	var refolds []delivery.Refold
	for _, d := range changed {
		switch {
		case d.IsFoldMember(): // what was folded into it moves along
			refolds = append(refolds, delivery.Refold{Workspace: d.Workspace, From: d.ID, Into: d.FoldedInto})
		case d.IsFoldHead() && d.Status.Final():
			refolds = append(refolds, delivery.Refold{Workspace: d.Workspace, From: d.ID})
		}
		if err := checkDelivery(d, d.Workspace); err != nil {
			return err
		}
		rescheduledColumns.put(&rows, &d, int64(d.Workspace), int64(d.ID), d.Version)
		t.dueDelivery(d)
		t.ended(now, d)
	}
	if err := t.updateAll("write rescheduled deliveries", writeRescheduled, &rows); err != nil {
		return err
	}
	return t.refold(now, refolds)
}
