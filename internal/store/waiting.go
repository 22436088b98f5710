package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// What waits for its slot, or is due in it now, of occasions with a context: a newer message of the same context takes its place (R6).
// The persons are locked, so that nobody gives out slots meanwhile. What a sender holds is passed over: it is on its way,
// and waiting for it here would be waiting in the wrong order. So is what carries the messages of others already.
const waitingDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/, i.context
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d CROSS JOIN instance AS i
WHERE d.ws = r.ws AND d.contact_id = r.id AND (d.slot >= $1 OR d.fold = ` + sqlFoldMember + ` AND (d.send_at >= $1 OR d.hold = ` + sqlHoldPaused + `))
  AND NOT (d.fold = ` + sqlFoldHead + ` AND d.fallback_of > 0) AND d.status = ` + sqlScheduled + ` AND d.send_at > 0 AND d.step = 0 AND d.attempt_no = 0
  AND i.ws = d.ws AND i.id = d.instance_id AND i.context <> ''
ORDER BY d.slot, d.id
/*SKIP LOCKED d*/`

var endedColumns = named("ended", deliveryColumns.only("status", "reason", "trace", "completed_at", "fold", "folded_into"))

const endDeliveries = `
UPDATE delivery SET /*SET r (ended)*/, send_at = 0, hold = '', slot = 0, expires_at = 0, eligible_at = 0, version = delivery.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, ended)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version`

// readWaiting gives those of the persons who are locked what waits for them, and locks it.
func (t *Tx) readWaiting(now time.Time, refs []recipient, persons []delivery.Person) error {
	var locked []delivery.PersonRef
	for i, p := range persons {
		if p.Locked {
			locked = append(locked, delivery.PersonRef{Workspace: refs[i].ws, ID: p.ID})
		}
	}
	found, err := query(t, func(rows *sql.Rows) (w delivery.Waiting, err error) {
		w.Row, err = deliveryColumns.scan(rows, &w.Context)
		return w, err
	}, waitingDeliveries, dueMicros(now), personRows(locked))
	if err != nil {
		return fmt.Errorf("read what waits: %w", err)
	}
	waiting := map[delivery.PersonRef][]delivery.Waiting{}
	for _, w := range found {
		ref := delivery.PersonRef{Workspace: w.Row.Workspace, ID: w.Row.Contact}
		waiting[ref] = append(waiting[ref], w)
	}
	for i := range persons {
		persons[i].Waiting = waiting[delivery.PersonRef{Workspace: refs[i].ws, ID: persons[i].ID}]
	}
	return nil
}

// endWaiting ends deliveries that were read as waiting.
func (t *Tx) endWaiting(ended []delivery.Row) error {
	var rows rowset
	for _, d := range ended {
		endedColumns.put(&rows, &d, int64(d.Workspace), int64(d.ID), d.Version)
	}
	return t.updateAll("end waiting deliveries", endDeliveries, &rows)
}

const insertPastSlots = `
INSERT INTO past_slot (ws, contact_id, slot, type, channel, delivery_id)
SELECT r.* FROM /*ROWS $1 (ws bigint, contact_id bigint, slot bigint, type text, channel text, delivery_id bigint)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// insertPastSlots keeps the places that deliveries had for earlier messages.
func (t *Tx) insertPastSlots(list []delivery.PastSlot) error {
	var rows rowset
	for _, s := range list {
		rows.row().int(int64(s.Workspace)).int(int64(s.Contact)).int(dueMicros(s.Slot)).text(s.Type).text(s.Channel).int(int64(s.Delivery))
	}
	_, err := t.insert("keep past slots", insertPastSlots, &rows)
	return err
}

// PastSlots lists the places that a contact's deliveries had for earlier messages since an instant.
func (s *Store) PastSlots(ctx context.Context, ws subject.WorkspaceID, contact subject.ContactID, since time.Time) ([]delivery.PastSlot, error) {
	return all(ctx, s, "list past slots", func(rows *sql.Rows) (p delivery.PastSlot, err error) {
		return p, rows.Scan(&p.Workspace, &p.Contact, instant{&p.Slot}, &p.Type, &p.Channel, &p.Delivery)
	}, pastSlots, int64(ws), int64(contact), dueMicros(since))
}

const pastSlots = `
SELECT ws, contact_id, slot, type, channel, delivery_id
FROM past_slot
WHERE ws = $1 AND contact_id = $2 AND slot >= $3
ORDER BY slot, delivery_id`
