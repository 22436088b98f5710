package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// DueInstance is a pending instance that is due. Its row is locked until the transaction ends.
type DueInstance struct {
	instance.Row
	InForce  int64     // number of its workspace's definition set in force, which stays so until the transaction ends
	PausedAt time.Time // when its workflow was paused; zero: it is not paused
}

// With each the definition set in force, so that instances that are not pinned are planned by the set of the transaction.
const dueInstances = `
SELECT /*NAMES i (` + instanceSpec + `)*/, (SELECT w.definitions FROM workspace AS w WHERE w.id = i.ws),
  ` + pausedSinceInstance + `
FROM instance AS i
WHERE i.ready_at > 0 AND i.ready_at <= $1 AND (i.ready_at, i.id) > ($3, $4) AND i.lease_until <= $1
ORDER BY i.ready_at, i.id
LIMIT $2
/*SKIP LOCKED*/`

// DueInstances locks up to limit due instances of all workspaces, and passes over those that other transactions hold. No
// lease holds them: a worker that dies leaves them unchanged. For the same reason no other transaction makes deliveries of a
// locked instance.
func (t *Tx) DueInstances(now time.Time, limit int) ([]DueInstance, error) {
	due, err := takeUp(t, &t.s.dueInstances, dueMicros(now), limit, func(from scanPosition) ([]DueInstance, scanPosition, error) {
		rows, err := query(t, scanDueInstance, dueInstances, dueMicros(now), int64(limit), from.at, from.id)
		var last scanPosition
		if n := len(rows); n > 0 {
			last = scanPosition{readyAt(rows[n-1].Row), int64(rows[n-1].ID)}
		}
		return rows, last, err
	})
	if err != nil {
		return nil, fmt.Errorf("find due instances: %w", err)
	}
	return due, nil
}

// LeaveInstances leaves due instances to another transaction, which begins at once. Their locks end with this one.
func (t *Tx) LeaveInstances(now time.Time, rest []DueInstance) {
	if len(rest) > 0 {
		t.s.dueInstances.due(readyAt(rest[0].Row))
		t.due(WorkInstances, dueMicros(now))
	}
}

// TakenInstance is an instance that this process has claimed under a lease, as of the claim.
type TakenInstance struct {
	Workspace subject.WorkspaceID
	ID        instance.ID
	Version   int64
}

const takenInstances = `
SELECT /*NAMES i (` + instanceSpec + `)*/, (SELECT w.definitions FROM workspace AS w WHERE w.id = i.ws),
  ` + pausedSinceInstance + `
FROM /*ROWS $1 (ws bigint, id bigint, version bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.id = r.id AND i.version = r.version AND i.ready_at > 0
ORDER BY i.ready_at, i.id
/*LOCK i*/`

// TakenInstances locks instances that were claimed under a lease. It leaves out those whose lease ran out and that another
// worker has claimed.
func (t *Tx) TakenInstances(taken []TakenInstance) ([]DueInstance, error) {
	var rows rowset
	for _, i := range taken {
		rows.row().int(int64(i.Workspace)).int(int64(i.ID)).int(i.Version)
	}
	due, err := query(t, scanDueInstance, takenInstances, &rows)
	if err != nil {
		return nil, fmt.Errorf("find instances that were taken up: %w", err)
	}
	return due, nil
}

const statusByKeys = `
SELECT i.ws, i.key, i.status
FROM /*ROWS $1 (ws bigint, key text)*/ AS r CROSS JOIN instance AS i
WHERE i.key = r.key AND +i.ws = r.ws`

// StatusByKey returns the statuses of the instances that exist, without a lock: a person may end one at any moment.
func (t *Tx) StatusByKey(refs []instance.KeyRef) (map[instance.KeyRef]instance.Status, error) {
	var wanted rowset
	for _, ref := range refs {
		wanted.row().int(int64(ref.Workspace)).text(ref.Key)
	}
	found := map[instance.KeyRef]instance.Status{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ref instance.KeyRef
		var status instance.Status
		err := rows.Scan(&ref.Workspace, &ref.Key, &status)
		found[ref] = status
		return struct{}{}, err
	}, statusByKeys, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read the statuses of instances: %w", err)
	}
	return found, nil
}

const recordsByRow = `
SELECT /*NAMES rec (` + recordSpec + `)*/, rec.ws
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id`

// RecordKey names a record by its row.
type RecordKey struct {
	Workspace subject.WorkspaceID
	ID        subject.RecordID
}

// RecordsByID returns the records that exist, without a lock.
func (t *Tx) RecordsByID(refs []RecordKey) (map[RecordKey]RecordRow, error) {
	found := map[RecordKey]RecordRow{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ws subject.WorkspaceID
		row, err := scanRecordRow(rows, &ws)
		found[RecordKey{ws, row.ID}] = row
		return struct{}{}, err
	}, recordsByRow, recordRows(refs))
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return found, nil
}

func recordRows(refs []RecordKey) *rowset {
	var rows rowset
	for _, r := range refs {
		rows.row().int(int64(r.Workspace)).int(int64(r.ID))
	}
	return &rows
}

// An evaluation locks a record first and its planned rows second. Here the order is reversed, so this statement waits for no
// lock: the transaction that holds the record evaluates it or requests that, and finds the occasion as it is left here.
const evaluateSoon = `
UPDATE record SET evaluate_at = $1
WHERE (ws, id) IN (
  SELECT rec.ws, rec.id
  FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
  WHERE rec.ws = r.ws AND rec.id = r.id AND (rec.evaluate_at = 0 OR rec.evaluate_at > $1)
  ORDER BY rec.id
  /*SKIP LOCKED rec*/)`

// evaluateSoon requests the evaluation of records whose occasions differ from what the records ask for.
func (t *Tx) evaluateSoon(now time.Time, records []RecordKey) error {
	if len(records) == 0 {
		return nil
	}
	if _, err := t.exec(evaluateSoon, dueMicros(now), recordRows(records)); err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	t.due(WorkRecords, dueMicros(now))
	return nil
}

const dropStandIns = `
DELETE FROM delivery
WHERE (ws, id) IN (
  SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint, first bigint)*/ AS r
  WHERE NOT EXISTS (SELECT 1 FROM delivery AS x WHERE x.ws = r.ws AND x.id = r.first))`

// dropStandIns removes new fallback deliveries if their person has another delivery of the occasion instead of the one left
// out: it went to an address that the person has claimed since.
func (t *Tx) dropStandIns(made []delivery.Row) error {
	var rows rowset
	first := map[delivery.ID]delivery.ID{}
	for _, d := range made {
		if d.FallbackOf == 0 {
			continue
		}
		first[d.ID] = cmp.Or(first[d.FallbackOf], d.FallbackOf)
		rows.row().int(int64(d.Workspace)).int(int64(d.ID)).int(int64(first[d.ID]))
	}
	if _, err := t.exec(dropStandIns, &rows); err != nil {
		return fmt.Errorf("retract fallbacks: %w", err)
	}
	return nil
}

func scanDueInstance(rows *sql.Rows) (d DueInstance, err error) {
	d.Row, err = instanceColumns.scan(rows, &d.InForce, instant{&d.PausedAt})
	return d, err
}

// InstanceWrites is what a worker writes of the instances that it holds.
type InstanceWrites struct {
	Patches    []InstancePatch
	Events     map[subject.WorkspaceID][]EventRow
	Deliveries []delivery.Row // one whose key exists is left out, and the slot that was decided for it remains free
	Ended      []delivery.Row // of Person.Waiting: those that are superseded, with their new values
	Evaluate   []RecordKey    // records whose evaluation is requested
	Members    []CourseMember // people who are in a course from now on
}

// InstancePatch is a change of a row that is held.
type InstancePatch struct {
	Row   instance.Row // as it was read
	Patch instance.Patch
}

// settledColumns are what a step of an instance writes, beside its trace.
var settledColumns = named("settled", append(instanceColumns.only("definitions", "event_id", "status", "hold", "held_at", "delay", "next_retry_at",
	"lease_until", "attempts", "retry_count", "crashes", "reason", "completed_at", "expand_cursor", "round", "message", "opened_at", "recipients"), readyColumn))

const settleInstances = `
UPDATE instance SET /*SET r (settled)*/, trace = CASE WHEN r.trace = '' THEN instance.trace ELSE r.trace END, version = instance.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, settled, trace text)*/ AS r
WHERE instance.ws = r.ws AND instance.id = r.id AND instance.version = r.version`

// WriteInstances writes the changes of instances that are held, and what was made with them.
func (t *Tx) WriteInstances(now time.Time, w InstanceWrites) error {
	of := make(map[instance.ID]subject.WorkspaceID, len(w.Patches))
	for _, p := range w.Patches {
		of[p.Row.ID] = p.Row.Workspace
	}
	scheduled := map[instance.ID]bool{} // instances with a delivery that waits
	for _, d := range w.Deliveries {
		if err := checkDelivery(d, of[d.Instance]); err != nil {
			return err
		}
		scheduled[d.Instance] = scheduled[d.Instance] || d.Status == delivery.Scheduled
	}
	var rows rowset
	parked := map[pauseRef]bool{}
	for _, p := range w.Patches {
		i := p.Row.With(p.Patch, now)
		if i.Parked() {
			parked[pauseRef{i.Workspace, i.Workflow}] = true
		}
		if i.Status != instance.Pending && i.Context != "" && !scheduled[i.ID] {
			t.endedWhole(now, i.Workspace, i.ID)
		}
		settledColumns.put(&rows, &i, int64(i.Workspace), int64(i.ID), i.Version)
		rows.text(p.Patch.Trace)
		if at := readyAt(i); at > 0 {
			t.due(WorkInstances, max(at, micros(i.LeaseUntil)))
		}
	}
	if err := t.park(parked); err != nil {
		return err
	}
	for _, ws := range sortedKeys(w.Events) {
		if err := t.insertEvents(ws, w.Events[ws]); err != nil {
			return err
		}
	}
	if made, err := t.insertDeliveries(w.Deliveries); err != nil {
		return err
	} else if made < len(w.Deliveries) {
		if err := t.dropStandIns(w.Deliveries); err != nil {
			return err
		}
	}
	if err := t.endWaiting(w.Ended); err != nil {
		return err
	}
	if err := t.evaluateSoon(now, w.Evaluate); err != nil {
		return err
	}
	if err := t.AddCourseMembers(w.Members); err != nil {
		return err
	}
	return t.updateAll("settle instances", settleInstances, &rows)
}
