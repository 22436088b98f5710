package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// With each the definition set in force, so that instances that are not pinned are planned by the set of the transaction.
const dueInstances = `
SELECT /*NAMES i (` + instanceSpec + `)*/, (SELECT w.definitions FROM workspace AS w WHERE w.id = i.ws),
  ` + pausedSinceInstance + `
FROM instance AS i
WHERE i.ready_at > 0 AND i.ready_at <= $1 AND (i.ready_at, i.id) > ($3, $4) AND i.lease_until <= $1
ORDER BY i.ready_at, i.id
LIMIT $2
/*SKIP LOCKED*/`

const settleInstances = `
UPDATE instance SET status = r.status, held = r.held, held_at = CASE WHEN r.held = 1 THEN CAST($1 AS bigint) ELSE 0 END, ready_at = r.ready_at, next_retry_at = r.next_retry_at, retry_count = r.retry_count,
  expand_cursor = r.expand_cursor, event_id = r.event_id, definitions = r.definitions, reason = r.reason, trace = CASE WHEN r.trace = '' THEN instance.trace ELSE r.trace END, completed_at = r.completed_at,
  crashes = CASE WHEN r.crashes > 0 THEN r.crashes ELSE instance.crashes END,
  attempts = instance.attempts + CASE WHEN r.lease_until > 0 THEN 0 ELSE 1 END, lease_until = r.lease_until, version = instance.version + 1
FROM /*ROWS $2 (ws bigint, id bigint, version bigint, status text, held bigint, ready_at bigint, next_retry_at bigint, retry_count bigint,
  expand_cursor bigint, event_id bigint, definitions bigint, reason text, trace text, completed_at bigint, crashes bigint, lease_until bigint)*/ AS r
WHERE instance.ws = r.ws AND instance.id = r.id AND instance.version = r.version`

// FanOutDue takes up to limit due instances of all workspaces, asks resolve for their audiences and decide for the outcome,
// and writes deliveries and outcome in one transaction. n is the number of instances taken. decide gets as many instances as
// have their people fit into one transaction.
//
// The instances are held by row locks and not by a lease: a worker that dies leaves them unchanged. For the same reason no
// other transaction makes deliveries of a locked instance. A delivery whose key exists is therefore from an earlier fan-out
// of the same occasion, such as one that an operator retried, and it stays as it is. The slot that was decided for it
// remains free, so limits are never exceeded.
//
// Relate returns the records that due instances depend on and that are not read yet; nil: none.
//
// If an instance has a context, decide also gets the waiting deliveries of its persons (R6) and may end them. floor is asked
// once resolve has returned; nil: slots are read as far back as the longest limit.
func (s *Store) FanOutDue(
	ctx context.Context, now time.Time, limit int, floor Floor,
	relate func([]DueInstance, Related) []RelatedRef,
	resolve func([]DueInstance) ([]Audience, error),
	decide func([]DueInstance, []People) ([]FanoutResult, error),
) (n int, err error) {
	return s.expand(ctx, now, floor, relate, resolve, decide, func(t *Tx) ([]DueInstance, error) {
		return t.dueInstances(now, limit)
	})
}

// FanOutTaken does the work of FanOutDue for instances that were claimed under a lease. An instance whose lease ran out and
// that another worker has claimed is left to that worker.
func (s *Store) FanOutTaken(
	ctx context.Context, now time.Time, taken []TakenInstance, floor Floor,
	relate func([]DueInstance, Related) []RelatedRef,
	resolve func([]DueInstance) ([]Audience, error),
	decide func([]DueInstance, []People) ([]FanoutResult, error),
) (n int, err error) {
	return s.expand(ctx, now, floor, relate, resolve, decide, func(t *Tx) ([]DueInstance, error) {
		return t.takenInstances(taken)
	})
}

func (s *Store) expand(
	ctx context.Context, now time.Time, floor Floor,
	relate func([]DueInstance, Related) []RelatedRef,
	resolve func([]DueInstance) ([]Audience, error),
	decide func([]DueInstance, []People) ([]FanoutResult, error),
	find func(*Tx) ([]DueInstance, error),
) (n int, err error) {
	err = s.WriteHoldingDefinitions(ctx, func(t *Tx) error {
		due, err := find(t)
		n = len(due)
		if err != nil || n == 0 {
			return err
		}
		if relate != nil {
			if err := t.relatedRecords(func(read Related) []RelatedRef { return relate(due, read) }); err != nil {
				return err
			}
		}
		wanted, err := resolve(due)
		if err != nil {
			return err
		}
		if len(wanted) == 0 || len(wanted) > n {
			return fmt.Errorf("%w: recipients of %d instances instead of %d", ErrInvalid, len(wanted), n)
		}
		groups := make([][]Audience, len(wanted))
		for i := range wanted {
			groups[i] = wanted[i : i+1]
		}
		ofContext := slices.ContainsFunc(due, func(i DueInstance) bool { return i.Context != "" })
		found, err := t.People(now, groups, func(i int) subject.WorkspaceID { return due[i].Workspace }, floor, ofContext)
		if err != nil {
			return err
		}
		people := make([]People, len(found))
		for i, p := range found {
			people[i] = p[0]
			if err := t.notifiedContacts(due[i].Workspace, wanted[i].Occasion, &people[i]); err != nil {
				return err
			}
		}
		results, err := decide(due[:len(people)], people)
		if err != nil {
			return err
		}
		if len(results) == 0 || len(results) > len(people) {
			return fmt.Errorf("%w: results of %d instances instead of %d", ErrInvalid, len(results), len(people))
		}
		if done := len(results); done < n { // another transaction takes the others
			t.s.dueInstances.due(readyAt(due[done].Row))
			t.due(dueMicros(now))
			due, n = due[:done], done
		}
		return t.settleInstances(now, due, results)
	})
	if err != nil {
		return 0, fmt.Errorf("expand due instances: %w", err)
	}
	return n, nil
}

func (t *Tx) dueInstances(now time.Time, limit int) ([]DueInstance, error) {
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
	return due, t.complete(due)
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

func (t *Tx) takenInstances(taken []TakenInstance) ([]DueInstance, error) {
	var rows rowset
	for _, i := range taken {
		rows.row().int(int64(i.Workspace)).int(int64(i.ID)).int(i.Version)
	}
	due, err := query(t, scanDueInstance, takenInstances, &rows)
	if err != nil {
		return nil, fmt.Errorf("find instances that were taken up: %w", err)
	}
	return due, t.complete(due)
}

// complete reads the data that belongs to due instances.
func (t *Tx) complete(due []DueInstance) error {
	var refs []EventRef
	for _, i := range due {
		if i.Event != 0 {
			refs = append(refs, EventRef{i.Workspace, i.Event})
		}
	}
	events, err := t.eventsByID(refs)
	if err != nil {
		return err
	}
	for n, i := range due {
		due[n].EventRow = events[EventRef{i.Workspace, i.Event}]
	}
	rows := make([]instance.Row, len(due))
	for n, i := range due {
		rows[n] = i.Row
	}
	later, err := t.later(rows)
	if err != nil {
		return err
	}
	for n, i := range due {
		due[n].Later = later[i.ID]
	}
	if err := t.occasions(due); err != nil {
		return err
	}
	return t.sources(due)
}

const statusByKeys = `
SELECT r.id, i.status
FROM /*ROWS $1 (ws bigint, key text, id bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.key = r.key AND +i.ws = r.ws`

// occasions reads the state of the occasions of calendar rows, without a lock, because a person may end one at any moment.
func (t *Tx) occasions(due []DueInstance) error {
	var wanted rowset
	for _, i := range due {
		if whole := key.Instance(i.Key).Everywhere(); string(whole) != i.Key {
			wanted.row().int(int64(i.Workspace)).text(string(whole)).int(int64(i.ID))
		}
	}
	found := map[instance.ID]instance.Status{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var id instance.ID
		var status instance.Status
		err := rows.Scan(&id, &status)
		found[id] = status
		return struct{}{}, err
	}, statusByKeys, &wanted)
	if err != nil {
		return fmt.Errorf("read the occasions of zones: %w", err)
	}
	for n, i := range due {
		due[n].Occasion = found[i.ID]
	}
	return nil
}

const recordsByRow = `
SELECT ` + recordColumns + `, rec.ws
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id`

type recordID struct {
	ws subject.WorkspaceID
	id subject.RecordID
}

// sources reads the records of occasions that were planned ahead and have not begun. It takes no lock: a write of such a
// record requests an evaluation, which waits for the locked occasion until its fan-out is done.
func (t *Tx) sources(due []DueInstance) error {
	var wanted rowset
	for _, i := range due {
		if i.Record != 0 && i.Event == 0 {
			wanted.row().int(int64(i.Workspace)).int(int64(i.Record))
		}
	}
	if wanted.n == 0 {
		return nil
	}
	found := map[recordID]RecordRow{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ws subject.WorkspaceID
		row, err := scanRecordRowAnd(rows, &ws)
		found[recordID{ws, row.ID}] = row
		return struct{}{}, err
	}, recordsByRow, &wanted)
	if err != nil {
		return fmt.Errorf("read the records of instances: %w", err)
	}
	for n, i := range due {
		if s, ok := found[recordID{i.Workspace, i.Record}]; ok {
			due[n].Source = &s
		}
	}
	return nil
}

// An evaluation locks a record first and its planned rows second. Here the order is reversed, so this statement waits for no
// lock: the transaction that holds the record evaluates it or requests that, and finds the occasion as it is left here.
const evaluateSoon = `
UPDATE record SET look_at = $1
WHERE (ws, id) IN (
  SELECT rec.ws, rec.id
  FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
  WHERE rec.ws = r.ws AND rec.id = r.id AND (rec.look_at = 0 OR rec.look_at > $1)
  ORDER BY rec.id
  /*SKIP LOCKED rec*/)`

// evaluateSoon requests the evaluation of records whose occasions differ from what the records ask for.
func (t *Tx) evaluateSoon(now time.Time, records []recordID) error {
	if len(records) == 0 {
		return nil
	}
	var rows rowset
	for _, r := range records {
		rows.row().int(int64(r.ws)).int(int64(r.id))
	}
	if _, err := t.exec(evaluateSoon, dueMicros(now), &rows); err != nil {
		return fmt.Errorf("schedule evaluations: %w", err)
	}
	t.due(dueMicros(now))
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

func (t *Tx) settleInstances(now time.Time, due []DueInstance, results []FanoutResult) error {
	made := 0
	for _, r := range results {
		made += len(r.Deliveries)
	}
	deliveries := make([]delivery.Row, 0, made)
	var ended []delivery.Row
	events := map[subject.WorkspaceID][]EventRow{}
	var marks []recordID
	var seeds []Successor
	var rows rowset
	parked := map[pauseRef]bool{}
	for n, r := range results {
		i := due[n].Row
		if r.Held && r.Reason == reason.WorkflowPaused {
			parked[pauseRef{i.Workspace, i.Workflow}] = true
		}
		for _, d := range r.Deliveries {
			if err := checkDelivery(d, i.Workspace); err != nil {
				return err
			}
		}
		deliveries = append(deliveries, r.Deliveries...)
		ended = append(ended, r.Ended...)
		seeds = append(seeds, r.Successors...)
		i.Status, i.Held, i.NextRetryAt = r.Status, r.Held, r.NextRetryAt
		if r.Event != nil {
			i.Event = r.Event.ID
			events[i.Workspace] = append(events[i.Workspace], *r.Event)
		}
		if r.Evaluate {
			marks = append(marks, recordID{i.Workspace, i.Record})
		}
		completed := time.Time{}
		if i.Status != instance.Pending {
			completed = now
			if i.Context != "" && !slices.ContainsFunc(r.Deliveries, func(d delivery.Row) bool { return d.Status == delivery.Scheduled }) {
				t.endedWhole(now, i.Workspace, i.ID)
			}
		}
		rows.row().int(int64(i.Workspace)).int(int64(i.ID)).int(i.Version).text(string(i.Status)).flag(i.Held).int(readyAt(i)).
			time(i.NextRetryAt).int(int64(r.RetryCount)).int(int64(r.Cursor)).int(int64(i.Event)).int(cmp.Or(r.Definitions, i.Definitions)).text(string(r.Reason)).text(r.Trace).time(completed).
			int(int64(r.Crashes)).time(r.LeaseUntil)
		if at := readyAt(i); at > 0 {
			t.due(max(at, micros(r.LeaseUntil)))
		}
	}
	if err := t.park(parked); err != nil {
		return err
	}
	for _, ws := range sortedKeys(events) {
		if err := t.insertEvents(ws, events[ws]); err != nil {
			return err
		}
	}
	if made, err := t.insertDeliveries(deliveries); err != nil {
		return err
	} else if made < len(deliveries) {
		if err := t.dropStandIns(deliveries); err != nil {
			return err
		}
	}
	if err := t.endWaiting(ended); err != nil {
		return err
	}
	if err := t.evaluateSoon(now, marks); err != nil {
		return err
	}
	n, err := t.exec(settleInstances, micros(now), &rows)
	if err != nil {
		return fmt.Errorf("settle instances: %w", err)
	}
	if n < int64(len(due)) { // the rows are locked: no other transaction can have changed them
		return fmt.Errorf("settle instances: %w: %d of %d rows", ErrConflict, n, len(due))
	}
	return t.insertSuccessors(seeds)
}
