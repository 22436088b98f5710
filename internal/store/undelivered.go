package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// A cooldown is reserved when an alert is made, and counts only if somebody gets the alert. A transaction that ends a
// message unsent only inserts a mark, because other transactions lock the context and the record in another order. The
// transaction that takes the mark reads everything that the context has made since it fired.
//
//	delivery ends unsent ─▶ mark ─▶ evaluator: was anything sent, or can it be? ─┬▶ yes: the cooldown counts
//	                                                                               └▶ no: void_at is set, and the record is evaluated

// UndeliveredMark says that a message of an instance, or the instance, ended unsent.
type UndeliveredMark struct {
	Workspace subject.WorkspaceID
	ID        int64
	Instance  instance.ID
}

// Refund is a cooldown that stops counting.
type Refund struct {
	Throttle
	At       time.Time          // from then on
	Records  []subject.RecordID // of the same workspace; they are evaluated then
	Decision Decision
}

const insertUndelivered = `
INSERT INTO undelivered (ws, id, instance_id, at)
SELECT r.ws, r.id, r.instance_id, r.at
FROM /*ROWS $1 (ws bigint, id bigint, instance_id bigint, at bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.id = r.instance_id AND i.context <> ''`

// ended notes a delivery that is being written. Its end may decide that the alert reached nobody, and ends its session.
func (t *Tx) ended(now time.Time, d delivery.Row) {
	t.endedSession(now, d)
	if d.LastSentAt.IsZero() && !d.MayHaveArrived() && d.Fold != delivery.Folded {
		t.endedAs(now, d.Workspace, d.Instance, d.Status)
	}
}

func (t *Tx) endedAs(now time.Time, ws subject.WorkspaceID, id instance.ID, status delivery.Status) {
	switch status {
	case delivery.Expired, delivery.Skipped, delivery.Failed, delivery.Cancelled:
		t.endedWhole(now, ws, id)
	case delivery.Scheduled, delivery.Sent, delivery.Opened, delivery.Responded, delivery.Unknown:
	case delivery.Superseded: // a later firing replaced it, and now holds the cooldown
	}
}

// endedWhole notes an instance that will have no further deliveries.
func (t *Tx) endedWhole(now time.Time, ws subject.WorkspaceID, id instance.ID) {
	if t.undelivered == nil {
		t.undelivered = map[instanceRef]time.Time{}
	}
	t.undelivered[instanceRef{ws, id}] = now
}

type instanceRef struct {
	ws subject.WorkspaceID
	id instance.ID
}

func compareInstanceRef(a, b instanceRef) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.ws, b.ws))
}

// markUndelivered runs before a transaction commits. Instances of events have no context and leave no mark.
func (t *Tx) markUndelivered() error {
	if len(t.undelivered) == 0 {
		return nil
	}
	refs := make([]instanceRef, 0, len(t.undelivered))
	for ref := range t.undelivered {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, compareInstanceRef)
	var rows rowset
	var at time.Time
	for _, ref := range refs {
		at = t.undelivered[ref]
		rows.row().int(int64(ref.ws)).int(t.s.NewID(at)).int(int64(ref.id)).int(dueMicros(at))
	}
	n, err := t.exec(insertUndelivered, &rows)
	if err != nil {
		return fmt.Errorf("mark undelivered alerts: %w", err)
	}
	if n > 0 {
		t.due(WorkMarks, dueMicros(at))
	}
	return nil
}

const undeliveredMarks = `
SELECT u.ws, u.id, u.instance_id
FROM undelivered AS u
ORDER BY u.ws, u.id
LIMIT $1
/*SKIP LOCKED*/`

const deleteUndelivered = `
DELETE FROM undelivered
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

const contextsOfInstances = `
SELECT DISTINCT i.ws, i.workflow, i.context
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.id = r.id AND i.context <> ''`

// The instances that a context has made since it fired, for any of its records: records that fire in one pass share one
// fired_at. A message counts as delivered when it was sent, may have arrived, or can still be sent.
const delivered = `
SELECT r.ws, r.workflow, r.context
FROM /*ROWS $1 (ws bigint, workflow text, context text, fired_at bigint)*/ AS r
WHERE EXISTS (
  SELECT 1 FROM instance AS i
  WHERE i.context = r.context AND i.workflow = r.workflow AND i.ws = r.ws AND i.context <> '' AND i.created_at >= r.fired_at
    AND (i.status = ` + sqlPending + ` OR EXISTS (
      SELECT 1 FROM delivery AS d
      WHERE +d.ws = i.ws AND d.instance_id = i.id
        AND (d.status IN (` + sqlScheduled + `, ` + sqlSent + `, ` + sqlOpened + `, ` + sqlResponded + `, ` + sqlUnknown + `) OR d.last_sent_at > 0 OR d.unknown_since > 0 OR d.intent_at > 0
          OR d.fold = ` + sqlFolded + `))))`

const undeliveredReasons = `
SELECT DISTINCT r.ws, r.workflow, r.context, COALESCE(d.reason, i.reason)
FROM /*ROWS $1 (ws bigint, workflow text, context text, fired_at bigint)*/ AS r CROSS JOIN instance AS i
LEFT JOIN delivery AS d ON +d.ws = i.ws AND d.instance_id = i.id
WHERE i.context = r.context AND i.workflow = r.workflow AND i.ws = r.ws AND i.context <> '' AND i.created_at >= r.fired_at
  AND COALESCE(d.status, '') <> ` + sqlSuperseded

const lockRecordsByID = `
SELECT rec.id
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id
ORDER BY rec.id
/*LOCK rec*/`

const voidThrottles = `
UPDATE throttle SET void_at = r.void_at
FROM /*ROWS $1 (ws bigint, workflow text, context text, fired_at bigint, void_at bigint)*/ AS r
WHERE throttle.ws = r.ws AND throttle.context = r.context AND throttle.workflow = r.workflow AND throttle.fired_at = r.fired_at`

const evaluateSooner = `
UPDATE record SET evaluate_at = r.evaluate_at
FROM /*ROWS $1 (ws bigint, id bigint, evaluate_at bigint)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id AND (record.evaluate_at = 0 OR record.evaluate_at > r.evaluate_at)`

// mostWaiting bounds how many of the records that wait for a shared cooldown are evaluated when it is refunded. The first of
// them that fires takes the cooldown, and the others wait for that one.
const mostWaiting = 500

// Records that a cooldown kept from firing are evaluated when it ends, or sooner. Their state contains the name of the
// context.
const waitingForContext = `
SELECT rec.id
FROM record AS rec
WHERE rec.evaluate_at > 0 AND rec.evaluate_at > $1 AND rec.evaluate_at <= $2 AND rec.ws = $3 AND rec.type = (SELECT o.type FROM record AS o WHERE o.ws = $3 AND o.id = $4)
  AND rec.state LIKE $5 ESCAPE '!'
ORDER BY rec.evaluate_at, rec.id
LIMIT $6`

func contextRows(list []Throttle) *rowset {
	var rows rowset
	for _, th := range list {
		rows.row().int(int64(th.Workspace)).text(th.Workflow).text(th.Context).time(th.FiredAt)
	}
	return &rows
}

func scanContext(rows *sql.Rows) (ref ThrottleRef, err error) {
	return ref, rows.Scan(&ref.Workspace, &ref.Workflow, &ref.Context)
}

// Delivered returns the contexts whose alert reached somebody since they fired, or can still reach somebody.
func (t *Tx) Delivered(list []Throttle) (map[ThrottleRef]bool, error) {
	found, err := query(t, scanContext, delivered, contextRows(list))
	if err != nil {
		return nil, fmt.Errorf("read which alerts were delivered: %w", err)
	}
	delivered := make(map[ThrottleRef]bool, len(found))
	for _, ref := range found {
		delivered[ref] = true
	}
	return delivered, nil
}

// rearmCooldown makes a refunded cooldown count again if one of its messages was sent afterwards, as when a person retried
// it.
func (t *Tx) rearmCooldown(found []Throttle) error {
	var void []Throttle
	for _, th := range found {
		if !th.VoidAt.IsZero() {
			void = append(void, th)
		}
	}
	delivered, err := t.Delivered(void)
	for i := range found {
		if delivered[found[i].ThrottleRef] {
			found[i].VoidAt = time.Time{}
		}
	}
	return err
}

// UndeliveredMarks locks up to limit marks, and passes over those that other transactions hold.
func (t *Tx) UndeliveredMarks(limit int) ([]UndeliveredMark, error) {
	marks, err := query(t, func(rows *sql.Rows) (m UndeliveredMark, err error) {
		return m, rows.Scan(&m.Workspace, &m.ID, &m.Instance)
	}, undeliveredMarks, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("find marks of undelivered alerts: %w", err)
	}
	return marks, nil
}

// DeleteUndeliveredMarks deletes marks that are locked.
func (t *Tx) DeleteUndeliveredMarks(marks []UndeliveredMark) error {
	var rows rowset
	for _, m := range marks {
		rows.row().int(int64(m.Workspace)).int(m.ID)
	}
	if _, err := t.exec(deleteUndelivered, &rows); err != nil {
		return fmt.Errorf("delete marks of undelivered alerts: %w", err)
	}
	return nil
}

// ThrottlesOfMarks returns the contexts of marked instances, without a lock.
func (t *Tx) ThrottlesOfMarks(marks []UndeliveredMark) (map[ThrottleRef]Throttle, error) {
	refs := make([]instanceRef, len(marks))
	for i, m := range marks {
		refs[i] = instanceRef{m.Workspace, m.Instance}
	}
	slices.SortFunc(refs, compareInstanceRef)
	var instances rowset
	for _, ref := range slices.Compact(refs) {
		instances.row().int(int64(ref.ws)).int(int64(ref.id))
	}
	contexts, err := query(t, scanContext, contextsOfInstances, &instances)
	if err != nil {
		return nil, fmt.Errorf("find contexts: %w", err)
	}
	throttles, err := t.throttles(throttlesByContext, contexts)
	if err != nil {
		return nil, fmt.Errorf("read throttles: %w", err)
	}
	return throttles, nil
}

// UndeliveredReasons returns why the messages of contexts ended since they fired, or why their instances ended if these have
// no messages. The reasons of a context are distinct and sorted.
func (t *Tx) UndeliveredReasons(list []Throttle) (map[ThrottleRef][]reason.Reason, error) {
	why := map[ThrottleRef][]reason.Reason{}
	if _, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var ref ThrottleRef
		var r reason.Reason
		err = rows.Scan(&ref.Workspace, &ref.Workflow, &ref.Context, &r)
		why[ref] = append(why[ref], r)
		return v, err
	}, undeliveredReasons, contextRows(list)); err != nil {
		return nil, fmt.Errorf("read why alerts were not delivered: %w", err)
	}
	for _, reasons := range why {
		slices.Sort(reasons)
	}
	return why, nil
}

// RecordName is the name of a record, with the number of its workspace's definition set in force.
type RecordName struct {
	subject.RecordRef
	InForce int64
}

const namesOfRecords = `
SELECT DISTINCT rec.ws, rec.id, rec.type, rec.ext_id, (SELECT w.definitions FROM workspace AS w WHERE w.id = rec.ws)
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id`

// RecordNames returns the names of the records that exist.
func (t *Tx) RecordNames(refs []RecordKey) (map[RecordKey]RecordName, error) {
	names := map[RecordKey]RecordName{}
	_, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var ref RecordKey
		var n RecordName
		err = rows.Scan(&ref.Workspace, &ref.ID, &n.Type, &n.ExtID, &n.InForce)
		names[ref] = n
		return v, err
	}, namesOfRecords, recordRows(refs))
	if err != nil {
		return nil, fmt.Errorf("read names of records: %w", err)
	}
	return names, nil
}

// RecordsWaitingFor returns records of the type of the one that fired last, which a context has kept from firing and
// that are next evaluated after `after` and not later than `until`.
func (t *Tx) RecordsWaitingFor(th Throttle, after, until time.Time) ([]subject.RecordID, error) {
	ids, err := query(t, func(rows *sql.Rows) (id subject.RecordID, err error) { return id, rows.Scan(&id) }, waitingForContext,
		dueMicros(after), micros(until), int64(th.Workspace), int64(th.Record), containing(th.Context), int64(mostWaiting))
	if err != nil {
		return nil, fmt.Errorf("find records that wait for a context: %w", err)
	}
	return ids, nil
}

// WriteRefunds ends cooldowns, and requests evaluations of the records. Contexts that have fired since are left as they are.
func (t *Tx) WriteRefunds(refunds []Refund) error {
	if len(refunds) == 0 {
		return nil
	}
	var records, evaluations, stamps rowset
	var refs []ThrottleRef
	decisions := map[subject.WorkspaceID][]Decision{}
	known := map[RecordKey]bool{}
	for _, r := range refunds {
		at := dueMicros(r.At)
		for _, id := range r.Records {
			if record := (RecordKey{r.Workspace, id}); !known[record] {
				known[record] = true
				records.row().int(int64(r.Workspace)).int(int64(id))
				evaluations.row().int(int64(r.Workspace)).int(int64(id)).int(at)
			}
		}
		refs = append(refs, r.ThrottleRef)
		stamps.row().int(int64(r.Workspace)).text(r.Workflow).text(r.Context).time(r.FiredAt).int(at)
		decisions[r.Workspace] = append(decisions[r.Workspace], r.Decision)
		t.due(WorkRecords, at)
	}
	if t.s.dialect.lock != "" {
		if _, err := query(t, scanInt, lockRecordsByID, &records); err != nil {
			return fmt.Errorf("lock records: %w", err)
		}
	}
	if _, err := t.LockThrottles(refs); err != nil {
		return err
	}
	if _, err := t.exec(voidThrottles, &stamps); err != nil {
		return fmt.Errorf("refund cooldowns: %w", err)
	}
	if _, err := t.exec(evaluateSooner, &evaluations); err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	for _, ws := range sortedKeys(decisions) {
		if err := t.insertDecisions(ws, decisions[ws]); err != nil {
			return err
		}
	}
	return nil
}

// containing returns the LIKE pattern of a state that names a context. In JSON a context is written as it is: whatever JSON
// would escape is percent-encoded already, except <, > and &.
func containing(context string) string {
	context = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(context)
	return `%"` + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(context) + `"%`
}
