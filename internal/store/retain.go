package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Retention deletes finished work. Its unit is the occasion: the instance of a key with all its repetitions (key:retry:n),
// their deliveries, attempts and contents, and their events with the decisions about these, once no other occasion needs them.
// An occasion is deleted as a whole. It is kept as a whole while any part of it may still change or has changed since the
// cutoff.
//
// One row of the table spent remains: it records that the key was used. So the same event is a duplicate for ever (P2), a freed
// key is free once, and a repetition never gets the number of an earlier one.

// Retained counts the rows that a step of retention deleted.
type Retained struct {
	Instances, Deliveries, Events, Decisions, Throttles, Definitions int64
}

// Add adds the numbers of another step.
func (r *Retained) Add(o Retained) {
	r.Instances += o.Instances
	r.Deliveries += o.Deliveries
	r.Events += o.Events
	r.Decisions += o.Decisions
	r.Throttles += o.Throttles
	r.Definitions += o.Definitions
}

// RetainCursor is the progress of a pass of retention over one workspace. The zero value is its beginning.
type RetainCursor struct {
	phase    int
	after    int64       // the last row id that was read
	throttle ThrottleRef // the last throttle that was read; throttles have no row id
}

// The phases of a pass, in their order.
const (
	retainOccasions = iota
	retainEvents
	retainDecisions
	retainThrottles
	retainDefinitions
)

// Retain reads up to limit rows of a workspace, from the cursor on, and deletes those that were over before the cutoff. It
// deletes the contexts of cooldowns that fired before quiet, when no cooldown counts them any more. done reports that the pass
// is finished; the cursor is then at the beginning again.
func (s *Store) Retain(ctx context.Context, ws subject.WorkspaceID, now, cutoff, quiet time.Time, c *RetainCursor, limit int) (r Retained, done bool, err error) {
	if c.phase == retainDefinitions {
		if r.Definitions, err = s.retainDefinitions(ctx, ws); err != nil {
			return Retained{}, false, fmt.Errorf("delete replaced definitions: %w", err)
		}
		*c = RetainCursor{}
		return r, true, nil
	}
	last := *c
	var full bool
	err = s.Write(ctx, func(t *Tx) (err error) {
		r = Retained{}
		switch c.phase {
		case retainOccasions:
			last.after, full, err = t.retainOccasions(ws, now, cutoff, c.after, limit, &r)
		case retainEvents:
			last.after, full, err = t.retainEvents(ws, cutoff, c.after, limit, &r)
		case retainDecisions:
			last.after, full, err = t.retainDecisions(ws, cutoff, c.after, limit, &r)
		case retainThrottles:
			last.throttle, full, err = t.retainThrottles(ws, quiet, c.throttle, limit, &r)
		}
		return err
	})
	if err != nil {
		return Retained{}, false, fmt.Errorf("delete what is over: %w", err)
	}
	if full {
		*c = last
		return r, false, nil
	}
	*c = RetainCursor{phase: c.phase + 1}
	return r, false, nil
}

// firstID returns an id that is not greater than any id made at that instant or later, because ids begin with their time.
func firstID(at time.Time) int64 { return at.UnixMicro() << key.NodeBits }

// instanceOver is 1 if an instance is over: it will not change by itself, and has not changed since the cutoff ($2).
const instanceOver = `CASE WHEN i.status <> ` + sqlPending + ` AND i.hold = '' AND i.ready_at = 0 AND i.lease_until <= $1 AND i.created_at < $2 AND i.completed_at < $2
  THEN 1 ELSE 0 END`

const oldInstances = `
SELECT i.id, i.key, i.event_id, i.forgotten, ` + instanceOver + `
FROM instance AS i
WHERE i.ws = $3 AND i.id > $4 AND i.id < $5
ORDER BY i.id
LIMIT $6`

const lockOccasions = `
SELECT i.id, i.key, i.event_id, i.forgotten, ` + instanceOver + `
FROM /*ROWS $3 (ws bigint, key text)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.key = r.key
ORDER BY i.id
/*LOCK i*/`

// The next key of a range, by one lookup for each row. For a join, PostgreSQL assumes that each range holds one of 200 keys and
// reads the whole table once for the batch (measured: 2 s for a batch of 200 with 177,000 instances).
const nextRepetitions = `
SELECT r.key, COALESCE((SELECT i.key FROM instance AS i
  WHERE /*BY NAME*/i.ws = r.ws AND i.key > r.low AND i.key < r.high
  ORDER BY i.key LIMIT 1), '')
FROM /*ROWS $1 (ws bigint, key text, low text, high text)*/ AS r`

// A slot is kept for as long as it counts in a person's limits ($3), independently of the cutoff.
const lockOccasionDeliveries = `
SELECT d.id, d.instance_id, CASE WHEN d.send_at = 0 AND d.expires_at = 0 AND d.intent_at = 0 AND d.lease_until <= $1
    AND (d.completed_at > 0 OR d.status NOT IN (` + sqlScheduled + `, ` + sqlSent + `, ` + sqlOpened + `, ` + sqlUnknown + `))
    AND d.created_at < $2 AND d.completed_at < $2 AND d.last_sent_at < $2 AND d.slot < $3
  THEN 1 ELSE 0 END
FROM /*ROWS $4 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.instance_id = r.id
ORDER BY d.id
/*LOCK d*/`

// An event that a sink has not got yet keeps its occasion.
const undispatched = `
SELECT r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r
WHERE EXISTS (SELECT 1 FROM outbox_event AS e CROSS JOIN dispatch AS d
  WHERE e.instance_id = r.id AND d.ws = e.ws AND d.event_id = e.id AND d.status = ` + sqlDispatchPending + `)`

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

	deleteResponses = `
DELETE FROM response
WHERE delivery_id IN (SELECT r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteDrafts = `
DELETE FROM draft
WHERE (ws, delivery_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteDeliveries = `
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

	deleteInstances = `
DELETE FROM instance
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

	deleteEvents = `
DELETE FROM event
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)
  AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.event_id = event.id)
RETURNING id`

	deleteDecisionsOfEvents = `
DELETE FROM decision
WHERE event_id IN (SELECT r.id FROM /*ROWS $2 (id bigint)*/ AS r) AND /*BY NAME*/ws = $1`
)

// occasion is one base key with the instances of that key and of its repetitions.
type occasion struct {
	base    key.Instance
	members []occasionInstance
	over    bool
}

type occasionInstance struct {
	id        instance.ID
	key       key.Instance
	event     int64
	forgotten int
	over      bool
}

func scanOccasionInstance(rows *sql.Rows) (m occasionInstance, err error) {
	return m, rows.Scan(&m.id, &m.key, &m.event, &m.forgotten, &m.over)
}

func (t *Tx) retainOccasions(ws subject.WorkspaceID, now, cutoff time.Time, after int64, limit int, r *Retained) (last int64, full bool, err error) {
	found, err := query(t, scanOccasionInstance, oldInstances, micros(now), micros(cutoff), int64(ws), after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	last, full = int64(found[len(found)-1].id), len(found) == limit
	var bases []key.Instance
	for _, m := range found {
		if m.over {
			base, _ := m.key.Base()
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	occasions, err := t.lockOccasions(ws, now, cutoff, slices.Compact(bases))
	if err != nil {
		return 0, false, err
	}
	deliveries, err := t.lockTheirDeliveries(ws, now, cutoff, occasions)
	if err != nil {
		return 0, false, err
	}
	return last, full, t.spend(ws, occasions, deliveries, r)
}

// lockOccasions locks the instances of base keys and reads them again, because they may have changed since they were found.
func (t *Tx) lockOccasions(ws subject.WorkspaceID, now, cutoff time.Time, bases []key.Instance) (map[key.Instance]*occasion, error) {
	occasions := map[key.Instance]*occasion{}
	for _, find := range []func() ([]key.Instance, error){
		func() ([]key.Instance, error) { return bases, nil },
		func() ([]key.Instance, error) { return t.repetitions(ws, bases) }, // no repetition is made while the base keys are locked
	} {
		keys, err := find()
		if err != nil {
			return nil, err
		}
		var rows rowset
		for _, k := range keys {
			rows.row().int(int64(ws)).text(string(k))
		}
		found, err := query(t, scanOccasionInstance, lockOccasions, micros(now), micros(cutoff), &rows)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			base, _ := m.key.Base()
			o := occasions[base]
			if o == nil {
				o = &occasion{base: base, over: true}
				occasions[base] = o
			}
			o.members = append(o.members, m)
			o.over = o.over && m.over
		}
	}
	return occasions, nil
}

// repetitions returns the keys of the repetitions of base keys.
func (t *Tx) repetitions(ws subject.WorkspaceID, bases []key.Instance) (keys []key.Instance, err error) {
	type next struct{ base, key key.Instance }
	from := make([]next, len(bases))
	for i, base := range bases {
		from[i] = next{base, base + retryMark}
	}
	for len(from) > 0 {
		var rows rowset
		for _, f := range from {
			rows.row().int(int64(ws)).text(string(f.base)).text(string(f.key)).text(string(f.base + retryEnd))
		}
		found, err := query(t, func(rows *sql.Rows) (n next, err error) {
			return n, rows.Scan(&n.base, &n.key)
		}, nextRepetitions, &rows)
		if err != nil {
			return nil, err
		}
		from = slices.DeleteFunc(found, func(n next) bool { return n.key == "" })
		for _, n := range from {
			if base, _ := n.key.Base(); base == n.base { // else the key only begins like that of a repetition
				keys = append(keys, n.key)
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (t *Tx) lockTheirDeliveries(ws subject.WorkspaceID, now, cutoff time.Time, occasions map[key.Instance]*occasion) (map[instance.ID][]int64, error) {
	owner := map[instance.ID]*occasion{}
	for _, o := range occasions {
		for _, m := range o.members {
			if o.over {
				owner[m.id] = o
			}
		}
	}
	var rows rowset
	for _, id := range sortedKeys(owner) {
		rows.row().int(int64(ws)).int(int64(id))
	}
	deliveries := map[instance.ID][]int64{}
	_, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var id int64
		var in instance.ID
		var over bool
		if err := rows.Scan(&id, &in, &over); err != nil {
			return v, err
		}
		deliveries[in] = append(deliveries[in], id)
		owner[in].over = owner[in].over && over
		return v, nil
	}, lockOccasionDeliveries, micros(now), micros(cutoff), micros(now.Add(-slotHistory)), &rows)
	if err != nil {
		return nil, err
	}
	waiting, err := query(t, scanInt, undispatched, &rows)
	for _, id := range waiting {
		owner[instance.ID(id)].over = false
	}
	return deliveries, err
}

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
	for _, del := range []struct {
		text string
		rows *rowset
		n    *int64
	}{
		{deleteContents, &sent, new(int64)},
		{deleteAttempts, &sent, new(int64)},
		{deleteResponses, &sent, new(int64)},
		{deleteDrafts, &sent, new(int64)},
		{deletePastSlots, &sent, new(int64)},
		{deleteDeliveries, &sent, &r.Deliveries},
		{deleteDispatchAttempts, &instances, new(int64)},
		{deleteDispatches, &instances, new(int64)},
		{deleteOutboxEvents, &instances, new(int64)},
		{deleteInstances, &instances, &r.Instances},
	} {
		if *del.n, err = t.exec(del.text, del.rows); err != nil {
			return err
		}
	}
	slices.Sort(eventIDs)
	for _, id := range slices.Compact(eventIDs) {
		events.row().int(int64(ws)).int(id)
	}
	return t.deleteEvents(ws, &events, r)
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

func (t *Tx) deleteEvents(ws subject.WorkspaceID, rows *rowset, r *Retained) error {
	gone, err := query(t, scanInt, deleteEvents, rows)
	if err != nil {
		return err
	}
	r.Events += int64(len(gone))
	var ids rowset
	for _, id := range gone {
		ids.row().int(id)
	}
	n, err := t.exec(deleteDecisionsOfEvents, int64(ws), &ids)
	r.Decisions += n
	return err
}

const oldEvents = `
SELECT id FROM event
WHERE ws = $1 AND id > $2 AND id < $3
ORDER BY id
LIMIT $4`

// retainEvents deletes events that have no instance.
func (t *Tx) retainEvents(ws subject.WorkspaceID, cutoff time.Time, after int64, limit int, r *Retained) (last int64, full bool, err error) {
	found, err := query(t, scanInt, oldEvents, int64(ws), after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	var rows rowset
	for _, id := range found {
		rows.row().int(int64(ws)).int(id)
	}
	return found[len(found)-1], len(found) == limit, t.deleteEvents(ws, &rows, r)
}

const oldDecisions = `
SELECT id FROM decision
WHERE ws = $1 AND id > $2 AND id < $3
ORDER BY id
LIMIT $4`

const deleteDecisions = `
DELETE FROM decision
WHERE ws = $1 AND id > $2 AND id <= $3 AND at < $4
  AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.ws = decision.ws AND i.id = decision.instance_id)
  AND NOT EXISTS (SELECT 1 FROM event AS e WHERE e.ws = decision.ws AND e.id = decision.event_id)`

// retainDecisions deletes decisions whose event and instance do not exist.
func (t *Tx) retainDecisions(ws subject.WorkspaceID, cutoff time.Time, after int64, limit int, r *Retained) (last int64, full bool, err error) {
	found, err := query(t, scanInt, oldDecisions, int64(ws), after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	last = found[len(found)-1]
	r.Decisions, err = t.exec(deleteDecisions, int64(ws), after, last, micros(cutoff))
	return last, len(found) == limit, err
}

const nextThrottles = `
SELECT th.context, th.workflow, CASE WHEN th.fired_at < $5 THEN 1 ELSE 0 END
FROM throttle AS th
WHERE (th.context, th.workflow) > ($1, $2) AND th.ws = $3
ORDER BY th.context, th.workflow
LIMIT $4`

// A context is kept while the instance that it fired last exists, because that may not have been sent yet. A transaction that
// fires the context meanwhile has locked it first, and fired_at is then too late for this statement.
const deleteThrottles = `
DELETE FROM throttle
WHERE (context, workflow, ws) IN (SELECT r.context, r.workflow, r.ws FROM /*ROWS $2 (ws bigint, workflow text, context text)*/ AS r)
  AND fired_at < $1
  AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.ws = throttle.ws AND i.id = throttle.instance_id)`

// retainThrottles deletes contexts that fired so long ago that no cooldown counts them any more. Until then they are kept,
// independently of the cutoff.
func (t *Tx) retainThrottles(ws subject.WorkspaceID, quiet time.Time, after ThrottleRef, limit int, r *Retained) (last ThrottleRef, full bool, err error) {
	var old []ThrottleRef
	last.Workspace = ws
	found, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var over bool
		if err = rows.Scan(&last.Context, &last.Workflow, &over); over {
			old = append(old, last)
		}
		return v, err
	}, nextThrottles, after.Context, after.Workflow, int64(ws), int64(limit), micros(quiet))
	if err != nil || len(old) == 0 {
		return last, len(found) == limit, err
	}
	if _, err := t.LockThrottles(old); err != nil { // in the order in which all transactions lock them
		return last, false, err
	}
	var rows rowset
	for _, th := range old {
		rows.row().int(int64(ws)).text(th.Workflow).text(th.Context)
	}
	r.Throttles, err = t.exec(deleteThrottles, micros(quiet), &rows)
	return last, len(found) == limit, err
}

// The set of the oldest instance. An instance that an operator's retry made may refer to an earlier set, so this query only
// shows whether it is worth reading all instances.
const firstSet = `
SELECT definitions FROM instance
WHERE ws = $1
ORDER BY id
LIMIT 1`

const replacedBefore = `
SELECT COUNT(*) FROM definition
WHERE ws = $1 AND removed_in > 0 AND removed_in <= $2`

const oldestSet = `
SELECT COALESCE(MIN(definitions), 0) FROM instance
WHERE ws = $1`

const deleteReplaced = `
DELETE FROM definition
WHERE ws = $1 AND removed_in > 0 AND removed_in <= $2`

// retainDefinitions deletes versions that were replaced before the oldest set to which an instance refers. It reads that set
// outside the transaction, so that other transactions need not wait. This is safe, because a new instance refers to the set in
// force or to the set of an existing instance.
func (s *Store) retainDefinitions(ctx context.Context, ws subject.WorkspaceID) (n int64, err error) {
	oldest, err := s.DefinitionsNumber(ctx, ws)
	if err != nil {
		return 0, err
	}
	if set, found, err := first(ctx, s, "find the oldest instance", scanInt, firstSet, int64(ws)); err != nil {
		return 0, err
	} else if found {
		oldest = min(oldest, set)
	}
	if replaced, err := one(ctx, s, "count replaced definitions", scanInt, replacedBefore, int64(ws), oldest); err != nil || replaced == 0 {
		return 0, err
	}
	if set, err := one(ctx, s, "find the oldest set in use", scanInt, oldestSet, int64(ws)); err != nil {
		return 0, err
	} else if set > 0 {
		oldest = min(oldest, set)
	}
	err = s.Write(ctx, func(t *Tx) (err error) {
		n, err = t.exec(deleteReplaced, int64(ws), oldest)
		return err
	})
	return n, err
}
