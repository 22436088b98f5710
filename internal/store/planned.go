package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// PlanRef names what a trigger has planned of a record.
type PlanRef struct {
	Workspace subject.WorkspaceID
	Record    subject.RecordID
	Workflow  string
	Trigger   string
	// OfCourse names only the pending messages of a course: what has ended cannot change any more.
	OfCourse bool
	// Own asks who has a course of their own beside the course that has begun again Resets times.
	Own    bool
	Resets int
	// Since asks for the messages of a course of that date (2026-10-22) or later that have ended or begun; empty: they are not asked for.
	Since string
}

// Plan is that, locked: the occasions that are pending, those of which deliveries wait or will be reminded, and of each key that is asked for
// the first row and the one with the highest number. What has ended otherwise is not read, however much of it there is.
type Plan struct {
	Instances  []instance.Row
	Deliveries []delivery.Row // of these, that wait or will be reminded
	// Freed are the numbers of the names that stand for occasions whose keys were freed (product decision 64), by their first name.
	Freed map[key.Instance]int
	// Spent are the occasions whose rows retention has taken.
	Spent map[key.Instance]bool
	// Own are the people who have courses of their own.
	Own []CourseMember
	// Dated are the messages of the course that have ended or begun: their keys, dates and numbers alone.
	Dated []instance.Row
}

// The predicate equals that of the index.
const pendingOfPlans = `
SELECT i.ws, i.id, i.key
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text)*/ AS r CROSS JOIN instance AS i
WHERE i.record_id = r.record_id AND i.record_id > 0 AND i.status = ` + sqlPending + `
  AND +i.ws = r.ws AND i.workflow = r.workflow AND i.trigger = r.trigger`

// Deliveries keep an occasion in its plan after it has ended. The predicate equals that of the index.
const openOfPlans = `
SELECT DISTINCT d.ws, d.instance_id, ''
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text)*/ AS r CROSS JOIN delivery AS d
WHERE d.record_id = r.record_id AND d.record_id > 0 AND (d.send_at > 0 OR d.status = ` + sqlScheduled + `)
  AND +d.ws = r.ws AND d.workflow = r.workflow AND d.trigger = r.trigger`

// The first row of a key, and the one with the highest number: numbers have no leading zeros.
const namedOfPlans = `
SELECT r.ws, COALESCE(i.id, 0), COALESCE((
  SELECT n.id FROM instance AS n
  WHERE +n.ws = r.ws AND n.key > r.key || '` + retryMark + `' AND n.key < r.key || '` + retryEnd + `'
  ORDER BY length(n.key) DESC, n.key DESC LIMIT 1), 0)
FROM /*ROWS $1 (ws bigint, key text)*/ AS r
LEFT JOIN instance AS i ON /*BY NAME*/i.ws = r.ws AND i.key = r.key`

const plans = `
SELECT /*NAMES i (` + instanceSpec + `)*/, i.forgotten
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.id = r.id AND ` + notDeletedInstance + `
ORDER BY i.id`

const lockPlans = plans + `
/*LOCK i*/`

const lockPlanDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE +d.ws = r.ws AND d.instance_id = r.id AND (d.send_at > 0 OR d.status = ` + sqlScheduled + `)
ORDER BY d.id
/*LOCK d*/`

const spentKeys = `
SELECT r.ws, r.key, s.forgotten, s.retries
FROM /*ROWS $1 (ws bigint, hash text, key text)*/ AS r CROSS JOIN spent AS s
WHERE s.ws = r.ws AND s.hash = r.hash`

// PlansOf reads what was planned, without a lock and without deliveries. The keys of a plan are those that are asked for.
func (s *Store) PlansOf(ctx context.Context, wanted map[PlanRef][]key.Instance) (found map[PlanRef]Plan, err error) {
	err = s.ReadBatch(ctx, func(t *Tx) (err error) {
		found, err = t.ReadPlans(wanted)
		return err
	})
	return found, err
}

// plansRead are plans while they are read.
type plansRead struct {
	plans map[PlanRef]Plan
	of    map[instance.ID]PlanRef
	asked map[PlanRef]PlanRef // by what a row says of them
	ids   rowset              // of instances that have deliveries, or may
}

// planInstances reads the instances of plans, in a fixed number of statements. They are found first and then locked by their ids: the lock
// waits for who is ending an occasion, and shows what has become of it.
func (t *Tx) planInstances(wanted map[PlanRef][]key.Instance, lock bool) (*plansRead, error) {
	read := &plansRead{plans: make(map[PlanRef]Plan, len(wanted)), of: map[instance.ID]PlanRef{}, asked: map[PlanRef]PlanRef{}}
	var all, ended rowset
	names := map[instance.KeyRef]bool{}
	for _, r := range slices.SortedFunc(maps.Keys(wanted), comparePlans) {
		read.asked[PlanRef{Workspace: r.Workspace, Record: r.Record, Workflow: r.Workflow, Trigger: r.Trigger}] = r
		read.plans[r] = Plan{Freed: map[key.Instance]int{}, Spent: map[key.Instance]bool{}}
		all.row().int(int64(r.Workspace)).int(int64(r.Record)).text(r.Workflow).text(r.Trigger)
		if r.OfCourse {
			continue
		}
		ended.row().int(int64(r.Workspace)).int(int64(r.Record)).text(r.Workflow).text(r.Trigger)
		for _, k := range wanted[r] {
			names[instance.KeyRef{Workspace: r.Workspace, Key: string(k)}] = true
		}
	}
	pending, err := t.findPlans(pendingOfPlans, &all, names) // whether a key was freed stands in its first row
	if err != nil {
		return nil, err
	}
	found, err := t.findPlans(openOfPlans, &ended, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(found, pending)
	var keys rowset
	for _, name := range slices.SortedFunc(maps.Keys(names), compareKeys) {
		keys.row().int(int64(name.Workspace)).text(name.Key)
	}
	_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
		var first, latest plannedRef
		err := rows.Scan(&first.workspace, &first.id, &latest.id)
		latest.workspace = first.workspace
		found[first], found[latest] = true, true
		return struct{}{}, err
	}, namedOfPlans, &keys)
	if err != nil {
		return nil, fmt.Errorf("find what is planned by its keys: %w", err)
	}
	if err := t.readPlans(read, found, lock); err != nil {
		return nil, err
	}
	if lock && t.s.dialect.lock != "" {
		if err := t.readSuccessors(read, pending); err != nil {
			return nil, err
		}
	}
	return read, t.datesOfPlans(read)
}

// readSuccessors reads what follows pending occasions that have ended, begun or are on hold since they were found: the lock may have waited for
// the transaction that made the next message of a course, or the rows of zones, and these were not there before.
func (t *Tx) readSuccessors(read *plansRead, pending map[plannedRef]bool) error {
	var again rowset
	for _, r := range slices.SortedFunc(maps.Keys(read.plans), comparePlans) {
		followed := func(i instance.Row) bool {
			return pending[plannedRef{i.Workspace, i.ID}] && (i.Status != instance.Pending || i.Event != 0 || i.Held())
		}
		if slices.ContainsFunc(read.plans[r].Instances, followed) {
			again.row().int(int64(r.Workspace)).int(int64(r.Record)).text(r.Workflow).text(r.Trigger)
		}
	}
	found, err := t.findPlans(pendingOfPlans, &again, nil)
	if err != nil {
		return err
	}
	maps.DeleteFunc(found, func(p plannedRef, _ bool) bool { return read.of[p.id] != PlanRef{} })
	return t.readPlans(read, found, true)
}

// findPlans finds instances of plans. Names gets the first keys of those that have another one; nil: they are not needed.
func (t *Tx) findPlans(text string, of *rowset, names map[instance.KeyRef]bool) (map[plannedRef]bool, error) {
	found := map[plannedRef]bool{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var p plannedRef
		var k key.Instance
		if err := rows.Scan(&p.workspace, &p.id, &k); err != nil {
			return struct{}{}, err
		}
		found[p] = true
		if first, _ := k.Everywhere().Base(); first != k && names != nil {
			names[instance.KeyRef{Workspace: p.workspace, Key: string(first)}] = true
		}
		return struct{}{}, nil
	}, text, of)
	if err != nil {
		return nil, fmt.Errorf("find what is planned: %w", err)
	}
	return found, nil
}

// plannedRef names an instance of a plan.
type plannedRef struct {
	workspace subject.WorkspaceID
	id        instance.ID // 0: none
}

func (t *Tx) readPlans(read *plansRead, found map[plannedRef]bool, lock bool) error {
	var ids rowset
	for _, p := range slices.SortedFunc(maps.Keys(found), func(a, b plannedRef) int { return cmp.Compare(a.id, b.id) }) {
		if p.id != 0 {
			ids.row().int(int64(p.workspace)).int(int64(p.id))
		}
	}
	text := plans
	if lock {
		text = lockPlans
	}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var forgotten int
		i, err := instanceColumns.scan(rows, &forgotten)
		if err != nil {
			return struct{}{}, err
		}
		ref, ok := read.asked[PlanRef{Workspace: i.Workspace, Record: i.Record, Workflow: i.Workflow, Trigger: i.Trigger}]
		if !ok {
			return struct{}{}, nil // a row of that name which another record or trigger has planned
		}
		p := read.plans[ref]
		p.Instances = append(p.Instances, i)
		if forgotten > 0 {
			p.Freed[key.Instance(i.Key)] = forgotten
		}
		read.plans[ref], read.of[i.ID] = p, ref
		if i.Status != instance.Pending || i.Event != 0 {
			read.ids.row().int(int64(i.Workspace)).int(int64(i.ID))
		}
		return struct{}{}, nil
	}, text, &ids)
	if err != nil {
		return fmt.Errorf("read what is planned: %w", err)
	}
	return nil
}

// planDeliveries locks the deliveries of plans that wait or will be reminded.
func (t *Tx) planDeliveries(read *plansRead) error {
	deliveries, err := query(t, scanDelivery, lockPlanDeliveries, &read.ids)
	if err != nil {
		return fmt.Errorf("lock deliveries of what is planned: %w", err)
	}
	for _, d := range deliveries {
		p := read.plans[read.of[d.Instance]]
		p.Deliveries = append(p.Deliveries, d)
		read.plans[read.of[d.Instance]] = p
	}
	return nil
}

// spentOfPlans reads which keys of plans were freed, or belong to rows that retention has taken.
func (t *Tx) spentOfPlans(read *plansRead, wanted map[PlanRef][]key.Instance) error {
	owner := map[instance.KeyRef]PlanRef{}
	var hashes rowset
	for _, ref := range slices.SortedFunc(maps.Keys(wanted), comparePlans) {
		for _, k := range wanted[ref] {
			owner[instance.KeyRef{Workspace: ref.Workspace, Key: string(k)}] = ref
			hashes.row().int(int64(ref.Workspace)).text(key.Hash(string(k))).text(string(k))
		}
	}
	spent, err := query(t, scanSpentKey, spentKeys, &hashes)
	if err != nil {
		return fmt.Errorf("look for spent keys: %w", err)
	}
	for _, k := range spent {
		p := read.plans[owner[k.KeyRef]]
		if k.forgotten > 0 {
			p.Freed[key.Instance(k.Key)] = k.forgotten
		}
		if k.retries >= k.forgotten {
			p.Spent[key.Instance(k.Key)] = true
		}
	}
	return nil
}

// spentKey is a key whose rows retention has taken.
type spentKey struct {
	instance.KeyRef
	forgotten, retries int
}

func scanSpentKey(rows *sql.Rows) (k spentKey, err error) {
	return k, rows.Scan(&k.Workspace, &k.Key, &k.forgotten, &k.retries)
}

func compareKeys(a, b instance.KeyRef) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), strings.Compare(a.Key, b.Key))
}

func comparePlans(a, b PlanRef) int {
	return cmp.Or(cmp.Compare(a.Record, b.Record), cmp.Compare(a.Workspace, b.Workspace), strings.Compare(a.Workflow, b.Workflow), strings.Compare(a.Trigger, b.Trigger))
}

// changedPlanColumns are what a change of a planned occasion writes.
var changedPlanColumns = named("changed_plan", append(instanceColumns.only("workflow_version", "definitions", "status", "hold", "held_at", "delay", "due_at",
	"next_retry_at", "retry_count", "reason", "input_hash", "completed_at", "expand_cursor", "local_date", "timezone", "round", "message", "effective_at"), readyColumn))

const updatePlans = `
UPDATE instance SET /*SET r (changed_plan)*/, version = instance.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, changed_plan)*/ AS r
WHERE instance.ws = r.ws AND instance.id = r.id AND instance.version = r.version`

// writePlans writes planned occasions that are locked.
func (t *Tx) writePlans(changed []instance.Row) error {
	n, err := t.updatePlans(changed)
	if err == nil && n < int64(len(changed)) {
		err = fmt.Errorf("write what is planned: %w: %d of %d rows", ErrConflict, n, len(changed))
	}
	return err
}

// updatePlans writes planned occasions as they are to be, in the order of their ids, and returns how many are still as they
// were read.
func (t *Tx) updatePlans(changed []instance.Row) (int64, error) {
	slices.SortFunc(changed, func(a, b instance.Row) int { return cmp.Compare(a.ID, b.ID) })
	var rows rowset
	for _, i := range changed {
		changedPlanColumns.put(&rows, &i, int64(i.Workspace), int64(i.ID), i.Version)
		t.due(WorkInstances, readyAt(i))
	}
	n, err := t.exec(updatePlans, &rows)
	if err != nil {
		return 0, fmt.Errorf("write what is planned: %w", err)
	}
	return n, nil
}
