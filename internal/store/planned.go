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
}

// Plan is that, locked: every occasion, whatever has become of it, or those that are pending.
type Plan struct {
	Instances  []instance.Row
	Deliveries []delivery.Row // of these, that wait or will be reminded
	// Freed are the numbers of the names that stand for occasions whose keys were freed (product decision 64), by their first name.
	Freed map[key.Instance]int
	// Spent are the occasions whose rows retention has taken.
	Spent map[key.Instance]bool
}

const plans = `
SELECT /*NAMES i (` + instanceSpec + `)*/, i.forgotten
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text)*/ AS r CROSS JOIN instance AS i
WHERE i.record_id = r.record_id AND i.record_id > 0 AND +i.ws = r.ws AND i.workflow = r.workflow AND i.trigger = r.trigger
ORDER BY i.id`

const lockPlans = plans + `
/*LOCK i*/`

const waitingOfCourses = `
SELECT /*NAMES i (` + instanceSpec + `)*/, i.forgotten
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text)*/ AS r CROSS JOIN instance AS i
WHERE i.record_id = r.record_id AND i.round > 0 AND i.status = ` + sqlPending + ` AND +i.ws = r.ws AND i.workflow = r.workflow AND i.trigger = r.trigger
ORDER BY i.id`

const lockWaitingOfCourses = waitingOfCourses + `
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

// PlansOf reads what was planned, without a lock and without deliveries.
func (s *Store) PlansOf(ctx context.Context, wanted map[PlanRef][]key.Instance) (found map[PlanRef]Plan, err error) {
	err = s.ReadBatch(ctx, func(t *Tx) error {
		planned, err := t.planInstances(wanted, false)
		if err != nil {
			return err
		}
		found = planned.plans
		return t.spentOfPlans(planned, wanted)
	})
	return found, err
}

// plansRead are plans while they are read.
type plansRead struct {
	plans map[PlanRef]Plan
	of    map[instance.ID]PlanRef
	ids   rowset // of instances that have deliveries, or may
}

// planInstances reads the instances of plans.
func (t *Tx) planInstances(wanted map[PlanRef][]key.Instance, lock bool) (*plansRead, error) {
	read := &plansRead{plans: make(map[PlanRef]Plan, len(wanted)), of: map[instance.ID]PlanRef{}}
	var all, ofCourses rowset
	for _, r := range slices.SortedFunc(maps.Keys(wanted), comparePlans) {
		rows := &all
		if r.OfCourse {
			rows = &ofCourses
		}
		rows.row().int(int64(r.Workspace)).int(int64(r.Record)).text(r.Workflow).text(r.Trigger)
		read.plans[r] = Plan{Freed: map[key.Instance]int{}, Spent: map[key.Instance]bool{}}
	}
	text, textOfCourses := plans, waitingOfCourses
	if lock {
		text, textOfCourses = lockPlans, lockWaitingOfCourses
	}
	if err := t.readPlans(read, text, &all, false); err != nil {
		return nil, err
	}
	if err := t.readPlans(read, textOfCourses, &ofCourses, true); err != nil || !lock || t.s.dialect.lock == "" {
		return read, err
	}
	return read, t.readSuccessors(read, wanted)
}

// readSuccessors reads again what waits of courses of which nothing was found that waits. The statement that locks may have waited for the
// transaction that ended a message, and does not see the next message, which that transaction made.
func (t *Tx) readSuccessors(read *plansRead, wanted map[PlanRef][]key.Instance) error {
	var again rowset
	for _, r := range slices.SortedFunc(maps.Keys(wanted), comparePlans) {
		waits := func(i instance.Row) bool { return !i.Held() }
		if r.OfCourse && !slices.ContainsFunc(read.plans[r].Instances, waits) {
			again.row().int(int64(r.Workspace)).int(int64(r.Record)).text(r.Workflow).text(r.Trigger)
			read.plans[r] = Plan{Freed: map[key.Instance]int{}, Spent: map[key.Instance]bool{}}
		}
	}
	return t.readPlans(read, lockWaitingOfCourses, &again, true)
}

func (t *Tx) readPlans(read *plansRead, text string, of *rowset, ofCourse bool) error {
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var forgotten int
		i, err := instanceColumns.scan(rows, &forgotten)
		if err != nil {
			return struct{}{}, err
		}
		ref := PlanRef{i.Workspace, i.Record, i.Workflow, i.Trigger, ofCourse}
		p := read.plans[ref]
		_, again := read.of[i.ID]
		p.Instances = append(p.Instances, i)
		if forgotten > 0 {
			p.Freed[key.Instance(i.Key)] = forgotten
		}
		read.plans[ref], read.of[i.ID] = p, ref
		if !again && (i.Status != instance.Pending || i.Event != 0) {
			read.ids.row().int(int64(i.Workspace)).int(int64(i.ID))
		}
		return struct{}{}, nil
	}, text, of)
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

func comparePlans(a, b PlanRef) int {
	return cmp.Or(cmp.Compare(a.Record, b.Record), cmp.Compare(a.Workspace, b.Workspace), strings.Compare(a.Workflow, b.Workflow), strings.Compare(a.Trigger, b.Trigger))
}

// changedPlanColumns are what a change of a planned occasion writes.
var changedPlanColumns = named("changed_plan", append(instanceColumns.only("workflow_version", "definitions", "status", "hold", "held_at", "delay", "due_at",
	"next_retry_at", "retry_count", "reason", "input_hash", "completed_at", "expand_cursor", "local_date", "timezone", "round"), readyColumn))

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
		t.due(readyAt(i))
	}
	n, err := t.exec(updatePlans, &rows)
	if err != nil {
		return 0, fmt.Errorf("write what is planned: %w", err)
	}
	return n, nil
}
