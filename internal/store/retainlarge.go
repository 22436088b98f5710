package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// An occasion with more deliveries than one transaction may delete goes in three steps. Each of their transactions has a bounded number
// of rows.
//
//	check ─ all deliveries are over ─▶ mark ─▶ delete page ─▶ … ─▶ delete the instance
//	   └─ one is not: the occasion is kept
//
// The check reads pages and locks nothing; its progress is not stored. The mark (deleted_at) is the point of no return: it spends the key,
// and from then on every read takes the instance and its deliveries for deleted ones. After a crash the mark tells the next pass to go on.
// A delivery that has changed between the check and the mark, as by a late answer, is not over when its page is locked. It is left until it
// is, and so is the instance.

// pageOfLimit is how many deliveries one transaction of retention deletes, for each row that it may read.
const pageOfLimit = 4

// largeOccasion is how far retention is with a large occasion.
type largeOccasion struct {
	base    key.Instance
	members []instance.ID // those that are left; the first one is in work
	checked []instance.ID
	after   subject.ContactID // the last contact that was read
	marked  bool
	// ofDigest: it is a run of a digest, or was made because of an item
	ofDigest bool
	emptied  bool // of the one in work no delivery is left that is over
}

// The conditions under which instances m and deliveries d are taken for deleted. Marked instances are found by an index that holds
// nothing else.
const (
	notDeletedInstance = `i.deleted_at = 0`
	notDeleted         = `NOT EXISTS (SELECT 1 FROM instance AS g WHERE g.deleted_at > 0 AND g.id = d.instance_id AND +g.ws = d.ws)`
)

// A delivery d is over if it will not change by itself (deliveryQuiet, with $1 for now) and has not changed since its cutoff (deliveryOld). A slot is
// kept for as long as it counts in a person's limits (slotPassed, with $2), independently of the cutoff.
const (
	deliveryQuiet = `d.send_at = 0 AND d.expires_at = 0 AND d.intent_at = 0 AND d.lease_until <= $1
    AND (d.completed_at > 0 OR d.status NOT IN (` + sqlScheduled + `, ` + sqlSent + `, ` + sqlOpened + `, ` + sqlUnknown + `))`

	slotPassed = `d.slot < $2`

	deliveryOld = `d.created_at < r.cutoff AND d.completed_at < r.cutoff AND d.last_sent_at < r.cutoff`

	// undispatched holds for a delivery d that has an event which a sink has not got yet.
	undispatched = `EXISTS (SELECT 1 FROM dispatch AS p WHERE p.group_id = d.id AND p.status = ` + sqlDispatchPending + `)`
)

const retainedPage = `
SELECT d.id, d.contact_id, CASE WHEN ` + deliveryQuiet + ` AND ` + slotPassed + ` AND d.created_at < $3 AND d.completed_at < $3 AND d.last_sent_at < $3 AND NOT ` + undispatched + `
  THEN 1 ELSE 0 END
FROM delivery AS d
WHERE +d.ws = $4 AND d.instance_id = $5 AND d.contact_id > $6
ORDER BY d.contact_id, d.channel
LIMIT $7`

const lockRetainedPage = `
WITH r AS MATERIALIZED (
  SELECT p.ws, p.id, CAST($3 AS bigint) AS cutoff FROM delivery AS p
  WHERE +p.ws = $4 AND p.instance_id = $5 AND p.contact_id > $6
  ORDER BY p.contact_id, p.channel
  LIMIT $7)
SELECT d.id, d.contact_id, CASE WHEN ` + deliveryQuiet + ` AND ` + slotPassed + ` AND ` + deliveryOld + ` THEN 1 ELSE 0 END
FROM r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.id = r.id
ORDER BY d.id
/*LOCK d*/`

// Events that a sink has not got yet are left.
const retainedOutbox = `
SELECT e.id FROM outbox_event AS e
WHERE e.instance_id = $2 AND +e.ws = $1
  AND NOT EXISTS (SELECT 1 FROM dispatch AS p WHERE p.ws = e.ws AND p.event_id = e.id AND p.status = ` + sqlDispatchPending + `)
LIMIT $3`

const lockDeadDispatches = `
SELECT d.event_id, CASE WHEN d.status = ` + sqlDispatchPending + ` THEN 1 ELSE 0 END
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN dispatch AS d
WHERE d.ws = r.ws AND d.event_id = r.id AND d.status IN (` + sqlDispatchPending + `, ` + sqlDispatchDead + `)
ORDER BY d.event_id, d.sink
/*LOCK d*/`

const (
	deleteAttemptsOfEvents = `
DELETE FROM dispatch_attempt
WHERE (ws, event_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteDispatchesOfEvents = `
DELETE FROM dispatch
WHERE (ws, event_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteOutbox = `
DELETE FROM outbox_event
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`
)

const pendingOfInstance = `
SELECT 1 FROM dispatch AS p
WHERE p.group_id = $1 AND p.status = ` + sqlDispatchPending + `
LIMIT 1`

const markDeleted = `
UPDATE instance SET deleted_at = $1, version = version + 1
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r)`

const lockMarked = `
SELECT i.event_id,
  CASE WHEN EXISTS (SELECT 1 FROM delivery AS x WHERE +x.ws = i.ws AND x.instance_id = i.id)
    OR EXISTS (SELECT 1 FROM outbox_event AS y WHERE y.instance_id = i.id) THEN 1 ELSE 0 END
FROM instance AS i
WHERE i.ws = $1 AND i.id = $2 AND i.deleted_at > 0
/*LOCK i*/`

// retainLarge does the next transaction of a large occasion. It returns how far it is then; nil: it has been deleted or is kept.
func (t *Tx) retainLarge(ws subject.WorkspaceID, now time.Time, before Cutoffs, o largeOccasion, page int, r *Retained) (*largeOccasion, error) {
	cutoff := before.of(o.ofDigest)
	if len(o.members) > 0 {
		if !o.marked {
			return t.checkLarge(ws, now, cutoff, o, page)
		}
		return t.deleteLarge(ws, now, cutoff, o, page, r)
	}
	if o.marked {
		return nil, nil
	}
	return t.markLarge(ws, now, before, o)
}

// checkLarge reads a page of the deliveries of a large occasion. It is kept if one of them is not over.
func (t *Tx) checkLarge(ws subject.WorkspaceID, now, cutoff time.Time, o largeOccasion, page int) (*largeOccasion, error) {
	rows, more, err := t.retainedPage(retainedPage, ws, now, cutoff, o, page)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(rows, func(d retainedDelivery) bool { return !d.over }) {
		return nil, nil
	}
	if more {
		o.after = rows[len(rows)-1].contact
		return &o, nil
	}
	pending, err := query(t, scanInt, pendingOfInstance, int64(o.members[0]))
	if err != nil || len(pending) > 0 {
		return nil, err
	}
	o.checked, o.members, o.after = append(slices.Clone(o.checked), o.members[0]), o.members[1:], 0
	return &o, nil
}

// markLarge marks a large occasion whose deliveries are over, unless an instance of it has changed or been added meanwhile.
func (t *Tx) markLarge(ws subject.WorkspaceID, now time.Time, before Cutoffs, o largeOccasion) (*largeOccasion, error) {
	occasions, err := t.lockOccasions(ws, now, before, []key.Instance{o.base})
	if err != nil {
		return nil, err
	}
	found := occasions[o.base]
	if found == nil || !found.over || slices.ContainsFunc(found.members, func(m occasionInstance) bool { return !slices.Contains(o.checked, m.id) }) {
		return nil, nil
	}
	known, err := t.spent(ws, []string{string(o.base)})
	if err != nil {
		return nil, err
	}
	var notes, instances rowset
	note := found.note(known[string(o.base)])
	notes.row().int(int64(ws)).text(key.Hash(string(o.base))).int(int64(note.Instance)).int(int64(note.Retries)).int(int64(note.Forgotten))
	o = largeOccasion{marked: true, ofDigest: o.ofDigest}
	for _, m := range found.members {
		instances.row().int(int64(ws)).int(int64(m.id))
		o.members = append(o.members, m.id)
	}
	if _, err := t.exec(upsertSpent, &notes); err != nil {
		return nil, err
	}
	_, err = t.exec(markDeleted, dueMicros(now), &instances)
	return &o, err
}

// deleteLarge deletes a page of a marked instance: of its outbox events, then of its deliveries, and in the end the instance.
func (t *Tx) deleteLarge(ws subject.WorkspaceID, now, cutoff time.Time, o largeOccasion, page int, r *Retained) (*largeOccasion, error) {
	if o.emptied {
		if err := t.deleteMarked(ws, o.members[0], r); err != nil {
			return nil, err
		}
		o.members, o.after, o.emptied = o.members[1:], 0, false
		return &o, nil
	}
	n, err := t.deleteOutboxPage(ws, o.members[0], page)
	if err != nil || n > 0 {
		return &o, err
	}
	rows, more, err := t.retainedPage(lockRetainedPage, ws, now, cutoff, o, page)
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 {
		var gone rowset
		for _, d := range rows {
			if d.over {
				gone.row().int(int64(ws)).int(d.id)
			}
		}
		if _, err := t.exec(deletePastSlots, &gone); err != nil {
			return nil, err
		}
		if err := t.deleteDeliveries(&gone, r); err != nil {
			return nil, err
		}
		o.after = rows[len(rows)-1].contact
	}
	o.emptied = !more
	return &o, nil
}

// deleteOutboxPage deletes outbox events of an instance that every sink has got, or none will, and returns how many.
func (t *Tx) deleteOutboxPage(ws subject.WorkspaceID, id instance.ID, page int) (int64, error) {
	found, err := query(t, scanInt, retainedOutbox, int64(ws), int64(id), int64(page))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	slices.Sort(found)
	var wanted rowset
	for _, id := range found {
		wanted.row().int(int64(ws)).int(id)
	}
	redriven := map[int64]bool{} // at this very moment
	_, err = query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var id int64
		var pending bool
		err = rows.Scan(&id, &pending)
		redriven[id] = redriven[id] || pending
		return none, err
	}, lockDeadDispatches, &wanted)
	if err != nil {
		return 0, err
	}
	var gone rowset
	for _, id := range found {
		if !redriven[id] {
			gone.row().int(int64(ws)).int(id)
		}
	}
	for _, text := range []string{deleteAttemptsOfEvents, deleteDispatchesOfEvents} {
		if _, err := t.exec(text, &gone); err != nil {
			return 0, err
		}
	}
	return t.exec(deleteOutbox, &gone)
}

// deleteMarked deletes a marked instance of which nothing is left, and its event if no other instance has it.
func (t *Tx) deleteMarked(ws subject.WorkspaceID, id instance.ID, r *Retained) error {
	type marked struct {
		event int64
		left  bool
	}
	found, err := query(t, func(rows *sql.Rows) (m marked, err error) { return m, rows.Scan(&m.event, &m.left) }, lockMarked, int64(ws), int64(id))
	if err != nil || len(found) == 0 || found[0].left {
		return err
	}
	var rows, events rowset
	rows.row().int(int64(ws)).int(int64(id))
	if err := t.deleteInstances(&rows, r); err != nil {
		return err
	}
	if found[0].event != 0 {
		events.row().int(int64(ws)).int(found[0].event)
	}
	return t.deleteEvents(ws, &events, r)
}

type retainedDelivery struct {
	id      int64
	contact subject.ContactID
	over    bool
}

// retainedPage reads the next deliveries of the instance that is in work, all of a contact or none. more reports whether there may be others.
func (t *Tx) retainedPage(text string, ws subject.WorkspaceID, now, cutoff time.Time, o largeOccasion, page int) (rows []retainedDelivery, more bool, err error) {
	rows, err = query(t, scanRetainedDelivery, text,
		micros(now), micros(now.Add(-slotHistory)), micros(cutoff), int64(ws), int64(o.members[0]), int64(o.after), int64(page)+1)
	if err != nil {
		return nil, false, fmt.Errorf("read a page of a large occasion: %w", err)
	}
	rows, more = wholeContacts(rows, page)
	return rows, more, nil
}

func scanRetainedDelivery(rows *sql.Rows) (d retainedDelivery, err error) {
	return d, rows.Scan(&d.id, &d.contact, &d.over)
}

// wholeContacts sorts deliveries by their contacts. When there are more than a page has, it leaves out the last contact, of whom some may not have been read.
func wholeContacts(rows []retainedDelivery, page int) (whole []retainedDelivery, more bool) {
	slices.SortFunc(rows, func(a, b retainedDelivery) int {
		return cmp.Or(cmp.Compare(a.contact, b.contact), cmp.Compare(a.id, b.id))
	})
	if more = len(rows) > page; more {
		if n := slices.IndexFunc(rows, func(d retainedDelivery) bool { return d.contact == rows[page].contact }); n > 0 {
			rows = rows[:n]
		}
	}
	return rows, more
}
