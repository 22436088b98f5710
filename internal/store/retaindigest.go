package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Retention of what topics bring about. The messages of items and of runs may go long before these, which say what left and when.

const (
	runsBefore = `
SELECT g.instance_id, g.instance_id FROM digest_run AS g
WHERE g.ws = $1 AND g.instance_id >= $2 AND g.instance_id < $3
ORDER BY g.instance_id
LIMIT $4`

	// An item without an instance is a row too, because the limit counts items.
	oldItemInstances = `
SELECT m.id, COALESCE(n.id, 0) FROM (
  SELECT i.ws, i.id FROM item AS i
  WHERE i.ws = $1 AND i.id >= $2 AND i.id < $3
  ORDER BY i.id
  LIMIT $4) AS m LEFT JOIN instance AS n ON n.event_id = m.id AND +n.ws = m.ws`
)

const messagesOfInstances = `
SELECT d.id
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE +d.ws = r.ws AND d.instance_id = r.id`

const messagesPage = `
SELECT d.id, d.contact_id, 0 FROM delivery AS d
WHERE +d.ws = $1 AND d.instance_id = $2 AND d.contact_id > $3
ORDER BY d.contact_id, d.channel
LIMIT $4`

const lockMessages = `
SELECT d.id
FROM /*ROWS $2 (ws bigint, id bigint, cutoff bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.id = r.id AND d.slot <= $1 AND ` + deliveryQuiet + ` AND ` + deliveryOld + ` AND NOT ` + undispatched + `
ORDER BY d.id
/*LOCK d*/`

// A digest must still find the items that a message had: of topics for which its contact is not covered that far, and that they follow, or did until a run ended it. Of people with the frequency immediate, only
// what arrived before they chose it.
const keepCovered = `
INSERT INTO covered_ahead (ws, contact_id, topic_id, seq)
SELECT s.ws, s.contact_id, s.topic_id, m.seq
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d CROSS JOIN instance AS n CROSS JOIN topic_match AS m CROSS JOIN subscription AS s
WHERE d.ws = r.ws AND d.id = r.id AND (d.last_sent_at > 0 OR d.unknown_since > 0)
  AND n.ws = d.ws AND n.id = d.instance_id AND m.ws = n.ws AND m.item_id = n.event_id
  AND s.ws = m.ws AND s.contact_id = d.contact_id AND s.topic_id = m.topic_id AND (s.ended_at = 0 OR s.ended_by > 0) AND s.covered_through < m.seq
  AND (s.frequency <> '` + topic.Immediate + `' OR m.received_at < s.started_at)
ON CONFLICT DO NOTHING`

// A slot that still counts in the limits of its person stays (see retainPastSlots).
const keepSlots = `
INSERT INTO past_slot (ws, contact_id, slot, type, channel, delivery_id)
SELECT d.ws, d.contact_id, d.slot, d.type, d.channel, d.id
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.id = r.id AND d.slot >= $1 AND d.slot > 0
ON CONFLICT DO NOTHING`

// messagesOf is an instance whose deliveries may go, with the row that led to it: an item, or the run itself. An item may have none.
type messagesOf struct {
	source   int64
	instance instance.ID
}

// retainMessages deletes deliveries of instances that a query finds, in the order of its rows: of as many instances as one transaction may take, or a page of one
// that has more deliveries than that.
func (t *Tx) retainMessages(ws subject.WorkspaceID, now, cutoff time.Time, find string, c *RetainCursor, limit int, r *Retained) (full bool, err error) {
	if cutoff.IsZero() {
		return false, nil
	}
	found, err := query(t, func(rows *sql.Rows) (m messagesOf, err error) { return m, rows.Scan(&m.source, integer(&m.instance)) },
		find, int64(ws), c.after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return false, err
	}
	slices.SortFunc(found, func(a, b messagesOf) int {
		return compareInts(a.source, b.source, int64(a.instance), int64(b.instance))
	})
	last, sources := found[len(found)-1].source, 1
	for i := range found[1:] {
		if found[i].source != found[i+1].source {
			sources++
		}
	}
	found = slices.DeleteFunc(found, func(m messagesOf) bool { return m.instance == 0 || m.source == c.after && m.instance < c.instance })
	n, err := t.fittingMessages(ws, found, limit*pageOfLimit)
	if err != nil {
		return false, err
	}
	if len(found) > 0 && (n == 0 || c.contact > 0 && found[0].instance == c.instance) {
		return true, t.retainPageOfMessages(ws, now, cutoff, found[0], c, limit*pageOfLimit, r)
	}
	full, c.contact = sources == limit || n < len(found), 0
	if c.after, c.instance = last+1, 0; n < len(found) {
		c.after, c.instance = found[n].source, found[n].instance
	}
	var rows rowset
	for _, m := range found[:n] {
		rows.row().int(int64(ws)).int(int64(m.instance))
	}
	ids, err := query(t, scanInt, messagesOfInstances, &rows)
	if err != nil {
		return false, err
	}
	return full, t.deleteMessages(ws, now, cutoff, ids, r)
}

// fittingMessages returns how many of the instances have no more than that many deliveries together.
func (t *Tx) fittingMessages(ws subject.WorkspaceID, found []messagesOf, most int) (n int, err error) {
	ids := make([]instance.ID, len(found))
	for i, m := range found {
		ids[i] = m.instance
	}
	sizes, err := t.sizesOf(ws, ids, most)
	if err != nil {
		return 0, err
	}
	for sum := 0; n < len(found); n++ {
		if sum += sizes[found[n].instance]; sum > most {
			break
		}
	}
	return n, nil
}

// retainPageOfMessages deletes the next deliveries of one instance, all of a contact or none.
func (t *Tx) retainPageOfMessages(ws subject.WorkspaceID, now, cutoff time.Time, of messagesOf, c *RetainCursor, most int, r *Retained) error {
	if of.instance != c.instance {
		c.contact = 0
	}
	page, err := query(t, scanRetainedDelivery, messagesPage, int64(ws), int64(of.instance), int64(c.contact), int64(most)+1)
	if err != nil {
		return err
	}
	page, more := wholeContacts(page, most)
	ids := make([]int64, len(page))
	for i, d := range page {
		ids[i] = d.id
	}
	c.after, c.instance, c.contact = of.source, of.instance+1, 0
	if more {
		c.instance, c.contact = of.instance, page[len(page)-1].contact
	}
	return t.deleteMessages(ws, now, cutoff, ids, r)
}

// deleteMessages deletes those of the deliveries that are over, and keeps what they told and their places in the limits of their people.
func (t *Tx) deleteMessages(ws subject.WorkspaceID, now, cutoff time.Time, ids []int64, r *Retained) error {
	slices.Sort(ids)
	var old, gone rowset
	for _, id := range ids {
		old.row().int(int64(ws)).int(id).time(cutoff)
	}
	over, err := query(t, scanInt, lockMessages, micros(now), &old)
	if err != nil || len(over) == 0 {
		return err
	}
	for _, id := range over {
		gone.row().int(int64(ws)).int(id)
	}
	if _, err := t.exec(keepCovered, &gone); err != nil {
		return fmt.Errorf("note items of messages: %w", err)
	}
	if _, err := t.exec(keepSlots, micros(now.Add(-slotHistory)), &gone); err != nil {
		return fmt.Errorf("keep slots: %w", err)
	}
	return t.deleteDeliveries(&gone, r)
}

const (
	pastSlotsBefore = `
SELECT p.slot FROM past_slot AS p
WHERE p.ws = $1 AND p.slot > $2 AND p.slot < $3
ORDER BY p.slot
LIMIT $4`

	deletePastSlotsBefore = `
DELETE FROM past_slot
WHERE ws = $1 AND slot > $2 AND slot <= $3 AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.ws = past_slot.ws AND d.id = past_slot.delivery_id)`
)

// retainPastSlots deletes slots of deliveries that are gone, when they count in no limit any more.
func (t *Tx) retainPastSlots(ws subject.WorkspaceID, now time.Time, c *RetainCursor, limit int) (full bool, err error) {
	found, err := query(t, scanInt, pastSlotsBefore, int64(ws), c.after, micros(now.Add(-slotHistory)), int64(limit))
	if err != nil || len(found) == 0 {
		return false, err
	}
	last := found[len(found)-1]
	_, err = t.exec(deletePastSlotsBefore, int64(ws), c.after, last)
	c.after = last
	return len(found) == limit, err
}

const (
	itemsOver = `
SELECT i.id FROM item AS i
WHERE i.ws = $1 AND i.id > $2 AND i.id < $3
ORDER BY i.id
LIMIT $4`

	deleteItems = `
DELETE FROM item
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)
  AND match_at = 0 AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.event_id = item.id)
RETURNING id`

	deleteMatches = `
DELETE FROM topic_match
WHERE (ws, topic_id, seq) IN (SELECT m.ws, m.topic_id, m.seq
  FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN topic_match AS m
  WHERE m.ws = r.ws AND m.item_id = r.id)`
)

// retainItems deletes items that have topics, and no instance.
func (t *Tx) retainItems(ws subject.WorkspaceID, cutoff time.Time, c *RetainCursor, limit int, r *Retained) (full bool, err error) {
	if cutoff.IsZero() {
		return false, nil
	}
	found, err := query(t, scanInt, itemsOver, int64(ws), c.after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return false, err
	}
	var rows, gone rowset
	for _, id := range found {
		rows.row().int(int64(ws)).int(id)
	}
	deleted, err := query(t, scanInt, deleteItems, &rows)
	if err != nil {
		return false, err
	}
	slices.Sort(deleted)
	for _, id := range deleted {
		gone.row().int(int64(ws)).int(id)
	}
	if _, err := t.exec(deleteMatches, &gone); err != nil {
		return false, err
	}
	r.Items += int64(len(deleted))
	c.after = found[len(found)-1]
	return len(found) == limit, t.deleteEvents(ws, &gone, r)
}

const liveWindow = `
SELECT COALESCE(MIN(w.at), 0) FROM (
  SELECT MIN(g.start_at) AS at
  FROM /*ROWS $1 (ws bigint, workflow text, trigger text)*/ AS r CROSS JOIN digest_run AS g CROSS JOIN instance AS i
  WHERE g.workflow = r.workflow AND g.trigger = r.trigger AND g.ws = r.ws AND g.over_at = 0
    AND i.ws = g.ws AND i.id = g.instance_id AND (g.expanded_at > 0 OR i.status = ` + sqlPending + `)
  UNION ALL
  SELECT MIN(i.due_at)
  FROM /*ROWS $1 (ws bigint, workflow text, trigger text)*/ AS r CROSS JOIN instance AS i
  WHERE i.workflow = r.workflow AND i.trigger = r.trigger AND i.ws = r.ws AND i.status = ` + sqlPending + `) AS w
WHERE w.at > 0`

// LiveWindow returns the start of the oldest window of a run that is not over, of these triggers, or the instant at which one that is to begin is due. None: there
// is no such run.
func (s *Store) LiveWindow(ctx context.Context, of []RunTrigger) (oldest time.Time, err error) {
	var wanted rowset
	for _, r := range of {
		wanted.row().int(int64(r.Workspace)).text(r.Workflow).text(r.Trigger)
	}
	err = s.Read(ctx, func(t *Tx) error {
		found, err := query(t, func(rows *sql.Rows) (at time.Time, err error) { return at, rows.Scan(instant{&at}) }, liveWindow, &wanted)
		if err == nil && len(found) > 0 {
			oldest = found[0]
		}
		return err
	})
	if err != nil {
		return oldest, fmt.Errorf("find the oldest window: %w", err)
	}
	return oldest, nil
}
