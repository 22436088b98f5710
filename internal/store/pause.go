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

// One row pauses a workflow, however much the workflow has planned. Each of its rows is parked when it comes due and is
// taken up: it gets a hold of its own kind. Parked rows are in no index of due rows, so a pause does not slow the claims down. When
// the workflow is resumed, parked rows are made due again in pages, and the pause row is deleted with the last page.

// Pause is a workflow that is paused, by a person or by its own brake.
type Pause struct {
	Workflow  string
	PausedAt  time.Time
	ResumedAt time.Time // when the workflow was resumed, while parked rows are left; zero: it is paused
	Actor     string
	Why       string
	Cause     reason.Reason // why the program itself paused it; empty: a person did
	// Instances and Deliveries count the parked rows, each up to MaxParked.
	Instances, Deliveries int64
}

// MaxParked is how far Pauses counts.
const MaxParked = 10_000

// Columns of a claim: when its workflow was paused; 0: it is not paused.
const (
	pausedSinceInstance = `COALESCE((SELECT p.paused_at FROM pause AS p WHERE p.ws = i.ws AND p.workflow = i.workflow AND p.resumed_at = 0), 0)`
	pausedSinceDelivery = `COALESCE((SELECT p.paused_at FROM pause AS p WHERE p.ws = delivery.ws AND p.workflow = delivery.workflow AND p.resumed_at = 0), 0)`
)

// The conditions of the indexes of parked rows, word for word.
const (
	parkedInstance = `hold = ` + sqlInstancePaused
	parkedDelivery = `hold = ` + sqlHoldPaused
)

const lockPause = `
SELECT p.workflow, p.paused_at, p.resumed_at, p.actor, p.why, p.cause, 0, 0
FROM pause AS p
WHERE p.ws = $1 AND p.workflow = $2
/*LOCK p*/`

const insertPause = `
INSERT INTO pause (ws, workflow, paused_at, resumed_at, actor, why, cause)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING`

const updatePause = `
UPDATE pause SET paused_at = $3, resumed_at = $4, actor = $5, why = $6, cause = $7
WHERE ws = $1 AND workflow = $2`

// LockPause locks and returns the pause of a workflow, in force or with parked rows left; nil: there is none.
func (t *Tx) LockPause(ws subject.WorkspaceID, workflow string) (*Pause, error) {
	found, err := query(t, scanPause, lockPause, int64(ws), workflow)
	if err != nil {
		return nil, fmt.Errorf("lock a pause: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

// SavePause writes a pause over the one that is locked; was is nil if there was none. It returns ErrAgain if another transaction
// has made one meanwhile.
func (t *Tx) SavePause(ws subject.WorkspaceID, was *Pause, p Pause) error {
	text := insertPause
	if was != nil {
		text = updatePause
	}
	n, err := t.exec(text, int64(ws), p.Workflow, dueMicros(p.PausedAt), dueMicros(p.ResumedAt), p.Actor, p.Why, string(p.Cause))
	if err != nil {
		return fmt.Errorf("save a pause: %w", err)
	}
	if n == 0 {
		return ErrAgain
	}
	return nil
}

const resumePause = `
UPDATE pause SET resumed_at = $3
WHERE ws = $1 AND workflow = $2 AND resumed_at = 0`

// ResumePause ends the pause of a workflow, if one is in force, and reports whether one was. NextResumed then finds it. The state that it
// selects by is a column, and the new state has nothing to decide. The sends of the workflow are counted from now on.
func (t *Tx) ResumePause(ws subject.WorkspaceID, workflow string, now time.Time) (bool, error) {
	if _, err := t.exec(forgetSends, int64(ws), workflow); err != nil {
		return false, fmt.Errorf("forget the count of sends: %w", err)
	}
	n, err := t.exec(resumePause, int64(ws), workflow, dueMicros(now))
	if err != nil {
		return false, fmt.Errorf("resume a workflow: %w", err)
	}
	if n > 0 {
		t.due(WorkResumed, dueMicros(now))
	}
	return n > 0, nil
}

const listPauses = `
SELECT p.workflow, p.paused_at, p.resumed_at, p.actor, p.why, p.cause,
  (SELECT COUNT(*) FROM (SELECT i.id FROM instance AS i WHERE i.workflow = p.workflow AND i.ws = p.ws AND i.` + parkedInstance + ` LIMIT $2) AS a),
  (SELECT COUNT(*) FROM (SELECT d.id FROM delivery AS d WHERE d.workflow = p.workflow AND d.ws = p.ws AND d.` + parkedDelivery + ` LIMIT $2) AS b)
FROM pause AS p
WHERE p.ws = $1
ORDER BY p.workflow`

// Pauses lists the workflows that are paused, and those that are resumed and still have parked rows.
func (s *Store) Pauses(ctx context.Context, ws subject.WorkspaceID) ([]Pause, error) {
	return all(ctx, s, "list pauses", scanPause, listPauses, int64(ws), int64(MaxParked))
}

func scanPause(rows *sql.Rows) (p Pause, err error) {
	return p, rows.Scan(&p.Workflow, instant{&p.PausedAt}, instant{&p.ResumedAt}, &p.Actor, &p.Why, &p.Cause, &p.Instances, &p.Deliveries)
}

// Stopped counts what a pause stops: parked rows, and rows that wait for a later instant or have not been taken up yet.
type Stopped struct {
	Instances, Deliveries int64
	Due                   int64 // of both, those whose instant has come
	More                  bool  // counting has stopped at a limit: there may be more
}

// All returns how many rows wait.
func (s Stopped) All() int64 { return s.Instances + s.Deliveries }

// maxStopped bounds how many of the next instances and deliveries, of all workspaces, Stopped reads.
const maxStopped = 50_000

// A delivery that waits for its channel is due, though its instant is later. What is not stopped is counted too, under no name: it tells whether all was read.
const stoppedNext = `
SELECT COALESCE(p.workflow, ''), a.what, COUNT(*), SUM(a.due)
FROM (
  SELECT l.ws, l.workflow, 'instance' AS what, CASE WHEN l.ready_at <= $2 THEN 1 ELSE 0 END AS due FROM (
    SELECT i.ws, i.workflow, i.ready_at FROM instance AS i WHERE i.ready_at > 0 ORDER BY i.ready_at, i.id LIMIT $3) AS l
  UNION ALL
  SELECT m.ws, m.workflow, 'delivery', CASE WHEN m.send_at <= $2 OR m.eligible_at > 0 AND m.eligible_at <= $2 THEN 1 ELSE 0 END FROM (
    SELECT d.ws, d.workflow, d.send_at, d.eligible_at FROM delivery AS d
    WHERE d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` ORDER BY d.send_at, d.id LIMIT $3) AS m) AS a
  LEFT JOIN pause AS p ON p.ws = a.ws AND p.workflow = a.workflow AND p.resumed_at = 0 AND a.ws = $1
GROUP BY p.workflow, a.what`

// Stopped counts what each of these pauses stops at now. A pause that has ended stops nothing.
func (s *Store) Stopped(ctx context.Context, ws subject.WorkspaceID, pauses []Pause, now time.Time) (map[string]Stopped, error) {
	out := map[string]Stopped{}
	for _, p := range pauses {
		if p.ResumedAt.IsZero() {
			out[p.Workflow] = Stopped{
				Instances: p.Instances, Deliveries: p.Deliveries, Due: p.Instances + p.Deliveries, More: p.Instances >= MaxParked || p.Deliveries >= MaxParked,
			}
		}
	}
	if len(out) == 0 {
		return out, nil
	}
	type line struct {
		workflow, what string
		n, due         int64
	}
	lines, err := all(ctx, s, "count what pauses stop", func(rows *sql.Rows) (l line, err error) {
		return l, rows.Scan(&l.workflow, &l.what, &l.n, &l.due)
	}, stoppedNext, int64(ws), dueMicros(now), int64(maxStopped))
	if err != nil {
		return nil, err
	}
	read := map[string]int64{}
	for _, l := range lines {
		read[l.what] += l.n
		sum, known := out[l.workflow]
		if !known {
			continue // paused after the row came due
		}
		if l.what == "instance" {
			sum.Instances += l.n
		} else {
			sum.Deliveries += l.n
		}
		sum.Due += l.due
		out[l.workflow] = sum
	}
	for workflow, sum := range out {
		sum.More = sum.More || read["instance"] >= maxStopped || read["delivery"] >= maxStopped
		out[workflow] = sum
	}
	return out, nil
}

// pauseRef names a paused workflow.
type pauseRef struct {
	ws       subject.WorkspaceID
	workflow string
}

const lockPauses = `
SELECT 1
FROM /*ROWS $1 (ws bigint, workflow text)*/ AS r CROSS JOIN pause AS p
WHERE p.ws = r.ws AND p.workflow = r.workflow AND p.resumed_at = 0
ORDER BY p.ws, p.workflow
/*LOCK p*/`

// park checks that workflows of which this transaction parks rows are still paused, and keeps them from being resumed before
// it commits. Otherwise the parked rows would never be taken up.
func (t *Tx) park(refs map[pauseRef]bool) error {
	if len(refs) == 0 {
		return nil
	}
	list := make([]pauseRef, 0, len(refs))
	for ref := range refs {
		list = append(list, ref)
	}
	slices.SortFunc(list, func(a, b pauseRef) int {
		return cmp.Or(cmp.Compare(a.ws, b.ws), strings.Compare(a.workflow, b.workflow))
	})
	var rows rowset
	for _, ref := range list {
		rows.row().int(int64(ref.ws)).text(ref.workflow)
	}
	found, err := query(t, scanInt, lockPauses, &rows)
	if err != nil {
		return fmt.Errorf("look for pauses: %w", err)
	}
	if len(found) < len(list) {
		return ErrAgain
	}
	return nil
}

// Resumed is a workflow whose pause has ended and that may have parked rows left.
type Resumed struct {
	Workspace             subject.WorkspaceID
	Workflow              string
	Instances, Deliveries bool // whether any are parked
}

const nextResumed = `
SELECT p.ws, p.workflow,
  CASE WHEN EXISTS (SELECT 1 FROM instance AS i WHERE i.workflow = p.workflow AND i.ws = p.ws AND i.` + parkedInstance + `) THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM delivery AS d WHERE d.workflow = p.workflow AND d.ws = p.ws AND d.` + parkedDelivery + `) THEN 1 ELSE 0 END
FROM pause AS p
WHERE p.resumed_at > 0
ORDER BY p.resumed_at
LIMIT 1
/*SKIP LOCKED p*/`

// NextResumed locks the workflow that was resumed first, and passes over those that other transactions hold. Nil: there is none.
func (t *Tx) NextResumed() (*Resumed, error) {
	found, err := query(t, func(rows *sql.Rows) (r Resumed, err error) {
		return r, rows.Scan(&r.Workspace, &r.Workflow, &r.Instances, &r.Deliveries)
	}, nextResumed)
	if err != nil {
		return nil, fmt.Errorf("find a resumed workflow: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

const parkedInstances = selectInstances + `
WHERE i.workflow = $1 AND i.ws = $2 AND i.` + parkedInstance + `
ORDER BY i.id
LIMIT $3
/*LOCK i*/`

// ParkedInstances locks and returns up to limit parked instances of a workflow, the oldest first.
func (t *Tx) ParkedInstances(r Resumed, limit int) ([]instance.Row, error) {
	rows, err := query(t, scanInstance, parkedInstances, r.Workflow, int64(r.Workspace), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("lock parked instances: %w", err)
	}
	return rows, nil
}

const unparkInstances = `
UPDATE instance SET hold = r.hold, held_at = r.held_at, reason = r.reason, next_retry_at = r.next_retry_at, ready_at = r.ready_at,
  version = instance.version + 1
FROM /*ROWS $1 (ws bigint, id bigint, version bigint, hold text, held_at bigint, reason text, next_retry_at bigint, ready_at bigint)*/ AS r
WHERE instance.ws = r.ws AND instance.id = r.id AND instance.version = r.version`

// UnparkInstances writes locked instances that are no longer parked.
func (t *Tx) UnparkInstances(list []instance.Row) error {
	var rows rowset
	for _, i := range list {
		rows.row().int(int64(i.Workspace)).int(int64(i.ID)).int(i.Version).text(string(i.Hold)).time(i.HeldAt).text(string(i.Reason)).
			time(i.NextRetryAt).int(readyAt(i))
		t.due(WorkInstances, readyAt(i))
	}
	n, err := t.exec(unparkInstances, &rows)
	if err == nil && n < int64(len(list)) {
		err = fmt.Errorf("%w: %d of %d rows", ErrConflict, n, len(list))
	}
	if err != nil {
		return fmt.Errorf("unpark instances: %w", err)
	}
	return nil
}

const unparkDeliveries = `
WITH parked AS MATERIALIZED (
  SELECT d.ws, d.id FROM delivery AS d
  WHERE d.workflow = $1 AND d.ws = $2 AND d.` + parkedDelivery + `
  ORDER BY d.id
  LIMIT $3
  /*LOCK d*/)
UPDATE delivery SET send_at = $4, hold = $5, due_at = $6, eligible_at = $7, reason = $8, version = delivery.version + 1
FROM parked
WHERE delivery.ws = parked.ws AND delivery.id = parked.id
RETURNING /*NAMES delivery (` + deliverySpec + `)*/`

// UnparkDeliveries writes up to limit parked deliveries of a workflow, the oldest first, and returns them. All of them get the plan
// that as has, so it is one statement.
func (t *Tx) UnparkDeliveries(r Resumed, as delivery.Row, limit int) ([]delivery.Row, error) {
	rows, err := query(t, scanDelivery, unparkDeliveries, r.Workflow, int64(r.Workspace), int64(limit),
		dueMicros(as.SendAt), string(as.Hold), dueMicros(as.DueAt), eligibleMicros(as), string(as.Reason))
	if err != nil {
		return nil, fmt.Errorf("unpark deliveries: %w", err)
	}
	for _, d := range rows {
		t.dueDelivery(d)
	}
	slices.SortFunc(rows, func(a, b delivery.Row) int { return cmp.Compare(a.ID, b.ID) })
	return rows, nil
}

const deletePause = `
DELETE FROM pause
WHERE ws = $1 AND workflow = $2
  AND NOT EXISTS (SELECT 1 FROM instance AS i WHERE i.workflow = pause.workflow AND i.ws = pause.ws AND i.` + parkedInstance + `)
  AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.workflow = pause.workflow AND d.ws = pause.ws AND d.` + parkedDelivery + `)`

// DeletePause deletes the locked pause of a workflow, unless parked rows are left: what NextResumed said of them may be older than
// its lock, and without the pause nothing would take them up again.
func (t *Tx) DeletePause(r Resumed) error {
	if _, err := t.exec(deletePause, int64(r.Workspace), r.Workflow); err != nil {
		return fmt.Errorf("delete a pause: %w", err)
	}
	return nil
}
