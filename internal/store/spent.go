package store

import (
	"database/sql"
	"slices"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Retention of occasions that are over: their rows are deleted, and their keys stay used.

const selectSpent = `
SELECT r.key, s.instance_id, s.retries, s.forgotten
FROM /*ROWS $1 (ws bigint, key text, hash text)*/ AS r CROSS JOIN spent AS s
WHERE s.ws = r.ws AND s.hash = r.hash`

const spentSpec = `ws bigint, hash text, instance_id bigint, retries bigint, forgotten bigint`

const upsertSpent = `
INSERT INTO spent (/*NAMES (` + spentSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + spentSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, hash) DO UPDATE SET instance_id = excluded.instance_id, retries = excluded.retries, forgotten = excluded.forgotten`

const (
	deleteContents = `
DELETE FROM content
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteAttempts = `
DELETE FROM attempt
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteReceipts = `
DELETE FROM receipt
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteResponses = `
DELETE FROM response
WHERE delivery_id IN (SELECT r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteDrafts = `
DELETE FROM draft
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteSessions = `
DELETE FROM session
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteSessionMessages = `
DELETE FROM session_message
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteSessionReplies = `
DELETE FROM session_reply
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteDigests = `
DELETE FROM digest
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteDeliveryRows = `
DELETE FROM delivery
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	// A past slot belongs to the contact of its delivery, or to the contact into which that one was merged.
	deletePastSlots = `
DELETE FROM past_slot
WHERE (ws, contact_id, slot, delivery_id) IN (
  SELECT p.ws, p.contact_id, p.slot, p.delivery_id
  FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d CROSS JOIN cadence AS c CROSS JOIN past_slot AS p
  WHERE d.ws = r.ws AND d.id = r.id AND c.ws = d.ws AND c.contact_id = d.contact_id
    AND p.ws = d.ws AND p.contact_id IN (d.contact_id, c.merged_into) AND p.delivery_id = d.id)`

	deleteDispatchAttempts = `
DELETE FROM dispatch_attempt
WHERE (ws, event_id) IN (SELECT e.ws, e.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN outbox_event AS e WHERE e.instance_id = r.id)`

	deleteDispatches = `
DELETE FROM dispatch
WHERE (ws, event_id) IN (SELECT e.ws, e.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN outbox_event AS e WHERE e.instance_id = r.id)`

	deleteOutboxEvents = `
DELETE FROM outbox_event
WHERE instance_id IN (SELECT r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteRuns = `
DELETE FROM digest_run
WHERE (ws, instance_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteInstanceRows = `
DELETE FROM instance
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`
)

// spend records the keys of the occasions that are over and deletes their rows.
func (t *Tx) spend(ws subject.WorkspaceID, occasions map[key.Instance]*occasion, deliveries map[instance.ID][]int64, r *Retained) error {
	var over []*occasion
	var keys []string
	for _, base := range sortedKeys(occasions) {
		if o := occasions[base]; o.over {
			over = append(over, o)
			keys = append(keys, string(base))
		}
	}
	known, err := t.spent(ws, keys)
	if err != nil {
		return err
	}
	var notes, sent, instances, events rowset
	var eventIDs []int64
	for _, o := range over {
		note := o.note(known[string(o.base)])
		notes.row().int(int64(ws)).text(key.Hash(string(o.base))).int(int64(note.Instance)).int(int64(note.Retries)).int(int64(note.Forgotten))
		for _, m := range o.members {
			instances.row().int(int64(ws)).int(int64(m.id))
			if m.event != 0 {
				eventIDs = append(eventIDs, m.event)
			}
			for _, id := range deliveries[m.id] {
				sent.row().int(int64(ws)).int(id)
			}
		}
	}
	if _, err := t.exec(upsertSpent, &notes); err != nil {
		return err
	}
	if _, err := t.exec(deletePastSlots, &sent); err != nil {
		return err
	}
	if err := t.deleteDeliveries(&sent, r); err != nil {
		return err
	}
	for _, text := range []string{deleteDispatchAttempts, deleteDispatches, deleteOutboxEvents} {
		if _, err := t.exec(text, &instances); err != nil {
			return err
		}
	}
	if err := t.deleteInstances(&instances, r); err != nil {
		return err
	}
	slices.Sort(eventIDs)
	for _, id := range slices.Compact(eventIDs) {
		events.row().int(int64(ws)).int(id)
	}
	return t.deleteEvents(ws, &events, r)
}

// withDelivery are the statements that delete what belongs to deliveries.
func withDelivery() []string {
	return []string{deleteContents, deleteAttempts, deleteReceipts, deleteResponses, deleteDrafts, deleteDigests, deleteSessions, deleteSessionMessages, deleteSessionReplies}
}

// deleteDeliveries deletes deliveries and what belongs to them, but for their past slots. rows are their workspaces and ids.
func (t *Tx) deleteDeliveries(rows *rowset, r *Retained) error {
	for _, text := range withDelivery() {
		if _, err := t.exec(text, rows); err != nil {
			return err
		}
	}
	n, err := t.exec(deleteDeliveryRows, rows)
	r.Deliveries += n
	return err
}

// deleteInstances deletes instances that have no deliveries left. rows are their workspaces and ids.
func (t *Tx) deleteInstances(rows *rowset, r *Retained) error {
	if _, err := t.exec(deleteRuns, rows); err != nil {
		return err
	}
	n, err := t.exec(deleteInstanceRows, rows)
	r.Instances += n
	return err
}

// note returns the row of the table spent for an occasion. known is the row that the table has already.
func (o *occasion) note(known spentRow) spentRow {
	for _, m := range o.members {
		_, n := m.key.Base()
		known.Retries = max(known.Retries, n)
		if n == 0 {
			known.Forgotten = m.forgotten
		}
	}
	known.Instance = 0
	for _, m := range o.members {
		if _, n := m.key.Base(); n == known.Forgotten {
			known.Instance = m.id
		}
	}
	return known
}

// spentRow is the row of the table spent for a key whose occasion was deleted.
type spentRow struct {
	Instance  instance.ID // the instance that had the key; 0: the key is free
	Retries   int         // the highest n of key:retry:n that was used
	Forgotten int         // n of the key:retry:n that took the key's place when it was freed; 0: it was not freed
}

// spent reads the rows of the table spent for keys.
func (t *Tx) spent(ws subject.WorkspaceID, keys []string) (map[string]spentRow, error) {
	var rows rowset
	for _, k := range keys {
		rows.row().int(int64(ws)).text(k).text(key.Hash(k))
	}
	known := map[string]spentRow{}
	_, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var k string
		var s spentRow
		err = rows.Scan(&k, &s.Instance, &s.Retries, &s.Forgotten)
		known[k] = s
		return v, err
	}, selectSpent, &rows)
	return known, err
}
