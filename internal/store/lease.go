package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

const renewLeases = `
UPDATE delivery SET lease_until = $1
FROM /*ROWS $2 (ws bigint, id bigint, version bigint)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.version = r.version
RETURNING delivery.ws, delivery.id`

// RenewLeases extends claims to until and returns those that another worker holds by now. A lease that has run out is
// renewed if no other worker has claimed the row. It is one statement: the version says who holds a claim, and a lease says nothing else.
func (s *Store) RenewLeases(ctx context.Context, until time.Time, leases []LeaseRef) (lost []delivery.ID, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	var kept map[deliveryRef]bool
	err = s.Write(ctx, func(t *Tx) error {
		kept = make(map[deliveryRef]bool, len(leases))
		_, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
			var ref deliveryRef
			err = rows.Scan(&ref.ws, &ref.id)
			kept[ref] = true
			return v, err
		}, renewLeases, micros(until), leaseRows(leases))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	for _, l := range leases {
		if !kept[deliveryRef{l.Workspace, l.ID}] {
			lost = append(lost, l.ID)
		}
	}
	return lost, nil
}

const releaseClaims = `
UPDATE delivery SET lease_until = 0, intent_at = 0, attempt_no = r.attempt_no, version = delivery.version + 1,
  send_at = r.send_at, hold = r.hold, due_at = r.due_at, eligible_at = r.eligible_at, reason = r.reason, trace = r.trace
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, was text, stop_reason text, attempt_no bigint, send_at bigint, hold text, due_at bigint,
  eligible_at bigint, reason text, trace text)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.status = r.was AND delivery.stop_reason = r.stop_reason AND delivery.version = r.version`

// ReleaseClaims writes the new values of claims whose request has not begun. It returns ErrAgain if one is not as it was read, by
// its version, status or stop.
func (t *Tx) ReleaseClaims(now time.Time, claims []delivery.Row) error {
	var rows rowset
	for _, d := range slices.SortedFunc(slices.Values(claims), func(a, b delivery.Row) int {
		return compareDeliveryRef(deliveryRef{a.Workspace, a.ID}, deliveryRef{b.Workspace, b.ID})
	}) {
		rows.row().int(int64(d.Workspace)).int(int64(d.ID)).int(d.Version).text(string(d.Status)).text(string(d.StopReason)).int(int64(d.AttemptNo)).
			int(dueMicros(d.SendAt)).text(string(d.Hold)).int(dueMicros(d.DueAt)).int(eligibleMicros(d)).text(string(d.Reason)).text(d.Trace)
		t.dueDelivery(d)
		t.told(now, d)
	}
	n, err := t.exec(releaseClaims, &rows)
	if err != nil {
		return fmt.Errorf("release claims: %w", err)
	}
	if n < int64(len(claims)) {
		return ErrAgain
	}
	return nil
}

// UncountedTry is an attempt that does not count, because its message waits for its channel.
type UncountedTry struct {
	Workspace subject.WorkspaceID
	ID        delivery.ID
	AttemptNo int
	As        delivery.Row // has the new plan: SendAt, Hold, DueAt and Reason
}

// A delivery that was tried again, ended or stopped since is left alone. It is one statement: to read these rows first would only repeat what its
// condition says.
const uncountTries = `
UPDATE delivery SET retry_count = delivery.retry_count - 1, send_at = r.send_at, hold = r.hold, due_at = r.due_at, reason = r.reason,
  version = delivery.version + 1
FROM /*ROWS $2 (ws bigint, id bigint, attempt_no bigint, send_at bigint, hold text, due_at bigint, reason text)*/ AS r
WHERE delivery.ws = r.ws AND delivery.id = r.id AND delivery.attempt_no = r.attempt_no AND delivery.intent_at = 0
  AND delivery.retry_count > 0 AND delivery.send_at > 0 AND delivery.lease_until <= $1 AND delivery.stop_reason = ''`

// UncountTries undoes the count of attempts whose outcome is already written. The next attempt of each is due at its
// instant, at the same step of the backoff as before. The attempts stay in the log.
func (s *Store) UncountTries(ctx context.Context, now time.Time, tries []UncountedTry) error {
	if len(tries) == 0 {
		return nil
	}
	tries = slices.SortedFunc(slices.Values(tries), func(a, b UncountedTry) int {
		return compareDeliveryRef(deliveryRef{a.Workspace, a.ID}, deliveryRef{b.Workspace, b.ID})
	})
	var rows rowset
	for _, r := range tries {
		rows.row().int(int64(r.Workspace)).int(int64(r.ID)).int(int64(r.AttemptNo)).int(dueMicros(r.As.SendAt)).text(string(r.As.Hold)).
			int(dueMicros(r.As.DueAt)).text(string(r.As.Reason))
	}
	err := s.Write(ctx, func(t *Tx) error {
		for _, r := range tries {
			t.due(WorkDeliveries, dueMicros(r.As.SendAt))
		}
		_, err := t.exec(uncountTries, micros(now), &rows)
		return err
	})
	if err != nil {
		return fmt.Errorf("have tries not count: %w", err)
	}
	return nil
}

func compareLeases(a, b LeaseRef) int {
	return compareDeliveryRef(deliveryRef{a.Workspace, a.ID}, deliveryRef{b.Workspace, b.ID})
}

func leaseRows(leases []LeaseRef) *rowset {
	leases = slices.SortedFunc(slices.Values(leases), compareLeases)
	var rows rowset
	for _, l := range leases {
		rows.row().int(int64(l.Workspace)).int(int64(l.ID)).int(l.Version)
	}
	return &rows
}

// The slot stays taken: a message that was sent counts, and other slots lie in the past.
const expireDeliveries = `
WITH due AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE expires_at > 0 AND expires_at < $1 AND lease_until <= $1
  ORDER BY expires_at, id
  LIMIT $2
  /*SKIP LOCKED*/)
UPDATE delivery SET status = ` + sqlExpired + `, hold = '', expires_at = 0, eligible_at = 0, completed_at = $1, version = delivery.version + 1,
  reason = CASE WHEN delivery.status = ` + sqlUnknown + ` THEN ` + sqlNeverSettled + ` WHEN delivery.hold = ` + sqlHoldNoChannel + ` THEN ` + sqlNoChannel + ` ELSE ` + sqlNoResponse + ` END
FROM due
WHERE delivery.ws = due.ws AND delivery.id = due.id
RETURNING /*NAMES delivery (` + deliverySpec + `)*/`

// ExpireDue ends up to limit deliveries that expired strictly before now (C28) and returns them in the order of their ids.
func (t *Tx) ExpireDue(now time.Time, limit int) ([]delivery.Row, error) {
	expired, err := query(t, scanDelivery, expireDeliveries, micros(now), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("expire deliveries: %w", err)
	}
	for _, d := range expired {
		t.ended(now, d)
	}
	slices.SortFunc(expired, func(a, b delivery.Row) int {
		return compareDeliveryRef(deliveryRef{a.Workspace, a.ID}, deliveryRef{b.Workspace, b.ID})
	})
	return expired, nil
}

// The first free row of each index. ORDER BY … LIMIT walks the partial index and stops, where MIN() over a filter might read
// all of it. An expiry is due one µs after it. A running job needs no wake-up; it is due when it has not moved for a second,
// as after a crash.
//
// The same statement reads when the leases end of rows before the first free one. In a second statement a row that is settled in between would be in
// neither result. Who asks has read the clock before, so a row can be leased whose instant is later than $1. Lease ends are read only if no due row is free,
// so that they read no backlog, and not at all while only rows past the cursors are read ($6).
const nextDue = `
WITH told AS MATERIALIZED (
  SELECT s.rest_until AS rest_until, (
    SELECT d.next_at FROM dispatch AS d WHERE d.sink = s.name AND d.ws = s.ws AND d.status = ` + sqlDispatchPending + ` ORDER BY d.next_at, d.event_id LIMIT 1) AS at
  FROM sink AS s WHERE s.state = ` + sqlSinkActive + `
    AND NOT EXISTS (SELECT 1 FROM /*ROWS $13 (ws bigint, name text)*/ AS b WHERE b.ws = s.ws AND b.name = s.name)),
free AS MATERIALIZED (
  SELECT COALESCE((SELECT ready_at FROM instance WHERE ready_at > 0 AND (ready_at, id) > ($2, $3) AND lease_until <= $1 ORDER BY ready_at, id LIMIT 1), 0) AS instance,
    COALESCE((SELECT MIN(send_at) FROM (
      SELECT (SELECT send_at FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = -1 AND (send_at, id) > ($4, $5) AND lease_until <= $1 ORDER BY send_at, id LIMIT 1) AS send_at
      UNION ALL SELECT (SELECT send_at FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = 0 AND (send_at, id) > ($7, $8) AND lease_until <= $1 ORDER BY send_at, id LIMIT 1)
      UNION ALL SELECT (SELECT send_at FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = 1 AND (send_at, id) > ($9, $10) AND lease_until <= $1 ORDER BY send_at, id LIMIT 1)
      UNION ALL SELECT (SELECT send_at FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = 2 AND (send_at, id) > ($11, $12) AND lease_until <= $1 ORDER BY send_at, id LIMIT 1)) AS p), 0) AS delivery,
    COALESCE((SELECT expires_at + 1 FROM delivery WHERE expires_at > 0 AND lease_until <= $1 ORDER BY expires_at, id LIMIT 1), 0) AS expiry,
    COALESCE((SELECT evaluate_at FROM record WHERE evaluate_at > 0 ORDER BY evaluate_at, id LIMIT 1), 0) AS evaluation,
    COALESCE((SELECT updated_at + CASE WHEN cursor = 0 THEN 0 ELSE 1000000 END FROM job WHERE status = ` + sqlJobRunning + ` ORDER BY id LIMIT 1), 0) AS job,
    COALESCE((SELECT reschedule_at FROM cadence WHERE reschedule_at > 0 ORDER BY reschedule_at, contact_id LIMIT 1), 0) AS reschedule,
    COALESCE((SELECT at FROM undelivered ORDER BY ws, id LIMIT 1), 0) AS undelivered,
    COALESCE((SELECT due_at FROM repair ORDER BY due_at LIMIT 1), 0) AS repair,
    COALESCE((SELECT resumed_at FROM pause WHERE resumed_at > 0 ORDER BY resumed_at LIMIT 1), 0) AS resumed,
    COALESCE((SELECT match_at FROM item WHERE match_at > 0 ORDER BY match_at, id LIMIT 1), 0) AS matching,
    COALESCE((SELECT next_at FROM subscription_request ORDER BY next_at, id LIMIT 1), 0) AS requested,
    COALESCE((SELECT expires_at FROM session WHERE status <> ` + sqlSessionEnded + ` ORDER BY expires_at, delivery_id LIMIT 1), 0) AS session,
    COALESCE((SELECT MIN(CASE WHEN at < rest_until THEN rest_until ELSE at END) FROM told), 0) AS dispatch),
held AS MATERIALIZED (
  SELECT $6 = 1 AND NOT (instance BETWEEN 1 AND $1 OR delivery BETWEEN 1 AND $1 OR expiry BETWEEN 1 AND $1 OR evaluation BETWEEN 1 AND $1 OR
    job BETWEEN 1 AND $1 OR reschedule BETWEEN 1 AND $1 OR undelivered BETWEEN 1 AND $1 OR repair BETWEEN 1 AND $1 OR resumed BETWEEN 1 AND $1 OR matching BETWEEN 1 AND $1 OR requested BETWEEN 1 AND $1 OR session BETWEEN 1 AND $1 OR dispatch BETWEEN 1 AND $1) AS asked
  FROM free)
SELECT instance, delivery, expiry, evaluation, job, reschedule, undelivered, repair, resumed, matching, requested, session, dispatch,
  CASE WHEN asked THEN COALESCE((SELECT MIN(lease_until) FROM instance WHERE ready_at > 0 AND ready_at <= CASE WHEN instance > 0 THEN instance ELSE ` + sqlEver + ` END AND lease_until > $1), 0) ELSE 0 END,
  CASE WHEN asked THEN COALESCE((SELECT MIN(lease_until) FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND send_at <= CASE WHEN delivery > 0 THEN delivery ELSE ` + sqlEver + ` END AND lease_until > $1), 0) ELSE 0 END,
  CASE WHEN asked THEN COALESCE((SELECT MIN(lease_until) FROM delivery WHERE expires_at > 0 AND expires_at <= CASE WHEN expiry > 0 THEN expiry ELSE ` + sqlEver + ` END AND lease_until > $1), 0) ELSE 0 END
FROM free, held`

// sqlEver is later than all instants.
const sqlEver = "9223372036854775807"

// NextDue returns from when on there is work of each kind, as ItemsToMatch, DueSubscriptionRequests, DueRecords, UndeliveredMarks, NextResumed, DueInstances,
// DueReschedules, ClaimDueDeliveries, ExpireDue, DueSessions, DueRepairs, DueSinks and the jobs take it. An instant lies in the past if there is work now, and
// is the end of a lease if all due rows are leased. While the scan takes long because of dead entries, only rows past the cursors are read, and the
// instants of instances and deliveries are at most the end of that pause.
func (s *Store) NextDue(ctx context.Context, now time.Time) (Due, error) {
	return s.NextDueBeside(ctx, now, nil)
}

// NextDueBeside is NextDue without the sinks that the caller is busy with: it takes what is due there by itself.
func (s *Store) NextDueBeside(ctx context.Context, now time.Time, busy []SinkRef) (Due, error) {
	at := micros(now)
	resting := s.nextDue.resting(at)
	var instances scanPosition
	deliveries := make([]scanPosition, priorities)
	if resting {
		instances = s.dueInstances.place()
		for i, m := range s.dueOfPriorities() {
			deliveries[i] = m.place()
		}
	}
	beside := sinkRows(append([]SinkRef{{}}, busy...)) // no sink has the zero name; without a row nothing would be read
	elapsed := clock.Monotonic()
	var next dueFrom
	err := s.Read(ctx, func(t *Tx) error {
		args := append([]any{dueMicros(now), instances.at, instances.id, deliveries[0].at, deliveries[0].id, flag(!resting)}, positions(deliveries[1:])...)
		found, err := query(t, scanDue, nextDue, append(args, beside)...)
		if err == nil {
			next = found[0]
		}
		return err
	})
	if err != nil {
		return Due{}, fmt.Errorf("find the next due instant: %w", err)
	}
	if !resting {
		s.nextDue.scanned(at, s.walked(elapsed(), 0))
	} else { // from then on rows before the cursors are read again
		next.add(WorkInstances, s.nextDue.over())
		next.add(WorkDeliveries, s.nextDue.over())
	}
	return next.times(), nil
}

func sinkRows(refs []SinkRef) *rowset {
	rows := &rowset{}
	for _, ref := range refs {
		rows.row().int(int64(ref.Workspace)).text(ref.Name)
	}
	return rows
}

// scanDue reads the kinds of work in their order, and then the ends of leases.
func scanDue(rows *sql.Rows) (due dueFrom, err error) {
	var instances, deliveries, expiries int64
	into := make([]any, 0, len(due)+3)
	for w := range due {
		into = append(into, &due[w])
	}
	err = rows.Scan(append(into, &instances, &deliveries, &expiries)...)
	due.add(WorkInstances, instances)
	due.add(WorkDeliveries, deliveries)
	due.add(WorkExpiries, expiries)
	return due, err
}
