package store

import (
	"cmp"
	"context"
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
//	delivery ends unsent ─▶ mark ─▶ Undelivered: was anything sent, or can it be? ─┬▶ yes: the cooldown counts
//	                                                                               └▶ no: void_at is set, and the record is evaluated

// Undelivered is a context whose last alert reached nobody and can no longer reach anybody.
type Undelivered struct {
	Throttle
	RecordRef                 // the record that fired last
	InForce   int64           // number of the definition set in force
	Why       []reason.Reason // why its messages ended, or why the instance ended if it has no messages; distinct and sorted
}

// Refund is the decision about the cooldown of an Undelivered context.
type Refund struct {
	At       time.Time // the cooldown stops counting at this instant; zero: it keeps counting
	Shared   bool      // other records may be waiting for it
	Until    time.Time // the end of the cooldown that these records wait for
	Decision Decision
}

const insertUndelivered = `
INSERT INTO unheard (ws, id, instance_id, at)
SELECT r.ws, r.id, r.instance_id, r.at
FROM /*ROWS $1 (ws bigint, id bigint, instance_id bigint, at bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.id = r.instance_id AND i.context <> ''`

// ended notes a delivery that is being written. Its end may decide that the alert reached nobody.
func (t *Tx) ended(now time.Time, d delivery.Row) {
	if d.LastSentAt.IsZero() && !d.MayHaveArrived() && d.Reason != reason.FoldedInto {
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
	if t.over == nil {
		t.over = map[instanceRef]time.Time{}
	}
	t.over[instanceRef{ws, id}] = now
}

type instanceRef struct {
	ws subject.WorkspaceID
	id instance.ID
}

// markUndelivered runs before a transaction commits. Instances of events have no context and leave no mark.
func (t *Tx) markUndelivered() error {
	if len(t.over) == 0 {
		return nil
	}
	refs := make([]instanceRef, 0, len(t.over))
	for ref := range t.over {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b instanceRef) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.ws, b.ws)) })
	var rows rowset
	var at time.Time
	for _, ref := range refs {
		at = t.over[ref]
		rows.row().int(int64(ref.ws)).int(t.s.NewID(at)).int(int64(ref.id)).int(dueMicros(at))
	}
	n, err := t.exec(insertUndelivered, &rows)
	if err != nil {
		return fmt.Errorf("mark undelivered alerts: %w", err)
	}
	if n > 0 {
		t.due(dueMicros(at))
	}
	return nil
}

const undeliveredMarks = `
SELECT u.ws, u.id, u.instance_id
FROM unheard AS u
ORDER BY u.ws, u.id
LIMIT $1
/*SKIP LOCKED*/`

const deleteUndelivered = `
DELETE FROM unheard
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
    AND (i.status IN ('pending', 'processing') OR EXISTS (
      SELECT 1 FROM delivery AS d
      WHERE +d.ws = i.ws AND d.instance_id = i.id
        AND (d.status IN ('scheduled', 'sent', 'opened', 'responded', 'unknown') OR d.last_sent_at > 0 OR d.doubt_at > 0 OR d.intent_at > 0
          OR d.reason IN ('folded_into', 'never_settled')))))`

const undeliveredReasons = `
SELECT DISTINCT r.ws, r.workflow, r.context, COALESCE(d.reason, i.reason)
FROM /*ROWS $1 (ws bigint, workflow text, context text, fired_at bigint)*/ AS r CROSS JOIN instance AS i
LEFT JOIN delivery AS d ON +d.ws = i.ws AND d.instance_id = i.id
WHERE i.context = r.context AND i.workflow = r.workflow AND i.ws = r.ws AND i.context <> '' AND i.created_at >= r.fired_at
  AND COALESCE(d.status, '') <> 'superseded'`

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
UPDATE record SET look_at = r.look_at
FROM /*ROWS $1 (ws bigint, id bigint, look_at bigint)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id AND (record.look_at = 0 OR record.look_at > r.look_at)`

// mostWaiting bounds how many of the records that wait for a shared cooldown are evaluated when it is refunded. The first of
// them that fires takes the cooldown, and the others wait for that one.
const mostWaiting = 500

// Records that a cooldown kept from firing are evaluated when it ends, or sooner. Their state contains the name of the
// context.
const waitingForContext = `
SELECT rec.id
FROM record AS rec
WHERE rec.look_at > 0 AND rec.look_at > $1 AND rec.look_at <= $2 AND rec.ws = $3 AND rec.type = (SELECT o.type FROM record AS o WHERE o.ws = $3 AND o.id = $4)
  AND rec.state LIKE $5 ESCAPE '!'
ORDER BY rec.look_at, rec.id
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

// delivered returns the contexts whose alert reached somebody since they fired, or can still reach somebody.
func (t *Tx) delivered(list []Throttle) (map[ThrottleRef]bool, error) {
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
	delivered, err := t.delivered(void)
	for i := range found {
		if delivered[found[i].ThrottleRef] {
			found[i].VoidAt = time.Time{}
		}
	}
	return err
}

// Undelivered takes up to limit marks of messages that ended unsent. It passes the contexts whose alert reached nobody to
// decide, and refunds their cooldowns as decided, in one transaction. n is the number of marks taken.
func (s *Store) Undelivered(ctx context.Context, now time.Time, limit int, decide func([]Undelivered) ([]Refund, error)) (n int, err error) {
	err = s.WriteHoldingDefinitions(ctx, func(t *Tx) error {
		n, err = t.takeUndelivered(now, limit, decide)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("refund cooldowns: %w", err)
	}
	return n, nil
}

func (t *Tx) takeUndelivered(now time.Time, limit int, decide func([]Undelivered) ([]Refund, error)) (int, error) {
	var marks, instances rowset
	marked, err := query(t, func(rows *sql.Rows) (ref instanceRef, err error) {
		var id int64
		err = rows.Scan(&ref.ws, &id, &ref.id)
		marks.row().int(int64(ref.ws)).int(id)
		return ref, err
	}, undeliveredMarks, int64(limit))
	if err != nil || len(marked) == 0 {
		return 0, err
	}
	slices.SortFunc(marked, func(a, b instanceRef) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.ws, b.ws)) })
	for _, ref := range slices.Compact(marked) {
		instances.row().int(int64(ref.ws)).int(int64(ref.id))
	}
	refs, err := query(t, scanContext, contextsOfInstances, &instances)
	if err != nil {
		return 0, fmt.Errorf("find contexts: %w", err)
	}
	list, err := t.undelivered(refs)
	if err != nil {
		return 0, err
	}
	refunds, err := decide(list)
	if err != nil {
		return 0, err
	}
	if len(refunds) != len(list) {
		return 0, fmt.Errorf("%w: decisions about %d contexts instead of %d", ErrInvalid, len(refunds), len(list))
	}
	if err := t.refund(now, list, refunds); err != nil {
		return 0, err
	}
	_, err = t.exec(deleteUndelivered, &marks)
	return len(marked), err
}

// undelivered returns the contexts whose last alert reached nobody. A context that was reset has no cooldown and is left
// out.
func (t *Tx) undelivered(refs []ThrottleRef) ([]Undelivered, error) {
	throttles, err := t.throttles(throttlesByContext, refs)
	if err != nil {
		return nil, err
	}
	var fired []Throttle
	for _, th := range throttles {
		if !th.FiredAt.IsZero() && th.VoidAt.IsZero() {
			fired = append(fired, th)
		}
	}
	delivered, err := t.delivered(fired)
	if err != nil {
		return nil, err
	}
	fired = slices.DeleteFunc(fired, func(th Throttle) bool { return delivered[th.ThrottleRef] })
	slices.SortFunc(fired, compareStamps)
	why := map[ThrottleRef][]reason.Reason{}
	if _, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var ref ThrottleRef
		var r reason.Reason
		err = rows.Scan(&ref.Workspace, &ref.Workflow, &ref.Context, &r)
		why[ref] = append(why[ref], r)
		return v, err
	}, undeliveredReasons, contextRows(fired)); err != nil {
		return nil, fmt.Errorf("read why alerts were not delivered: %w", err)
	}
	var records rowset
	for _, th := range fired {
		records.row().int(int64(th.Workspace)).int(int64(th.Record))
	}
	list := make([]Undelivered, 0, len(fired))
	_, err = query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var u Undelivered
		var ws subject.WorkspaceID
		var id subject.RecordID
		err = rows.Scan(&ws, &id, &u.Type, &u.ExtID, &u.InForce)
		for _, th := range fired { // few
			if th.Workspace == ws && th.Record == id {
				u.Throttle, u.Why = th, slices.Sorted(slices.Values(why[th.ThrottleRef]))
				list = append(list, u)
			}
		}
		return v, err
	}, firedRecords, &records)
	if err != nil {
		return nil, fmt.Errorf("find the records that fired: %w", err)
	}
	slices.SortFunc(list, func(a, b Undelivered) int { return compareStamps(a.Throttle, b.Throttle) })
	return list, nil
}

const firedRecords = `
SELECT DISTINCT rec.ws, rec.id, rec.type, rec.ext_id, (SELECT w.definitions FROM workspace AS w WHERE w.id = rec.ws)
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id`

// refund takes locks in the order of the evaluation: records by row id, then contexts.
func (t *Tx) refund(now time.Time, list []Undelivered, refunds []Refund) error {
	var records, evaluations, stamps rowset
	var refs []ThrottleRef
	decisions := map[subject.WorkspaceID][]Decision{}
	known := map[[2]int64]bool{}
	for i, r := range refunds {
		th := list[i].Throttle
		if r.At.IsZero() {
			continue
		}
		at := dueMicros(r.At)
		ids := []int64{int64(th.Record)}
		if r.Shared {
			others, err := query(t, scanInt, waitingForContext, at, micros(r.Until), int64(th.Workspace), int64(th.Record), containing(th.Context), int64(mostWaiting))
			if err != nil {
				return fmt.Errorf("find who waits for a context: %w", err)
			}
			ids = append(ids, others...)
		}
		for _, id := range ids {
			if one := [2]int64{int64(th.Workspace), id}; !known[one] {
				known[one] = true
				records.row().int(one[0]).int(id)
				evaluations.row().int(one[0]).int(id).int(at)
			}
		}
		refs = append(refs, th.ThrottleRef)
		stamps.row().int(int64(th.Workspace)).text(th.Workflow).text(th.Context).time(th.FiredAt).int(at)
		decisions[th.Workspace] = append(decisions[th.Workspace], r.Decision)
		t.due(at)
	}
	if len(refs) == 0 {
		return nil
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
