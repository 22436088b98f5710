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
	"github.com/carillonhq/carillon/internal/subject"
)

// One row pauses a workflow, however much the workflow has planned. Each of its rows is parked when it comes due and is
// taken up: it gets a hold of its own kind. Parked rows are in no index of due rows, so a pause does not slow the claims down. When the workflow is resumed, parked rows are made due again in pages,
// and the pause row is deleted with the last page.

// Pause is a workflow that a person has paused.
type Pause struct {
	Workflow  string
	PausedAt  time.Time
	ResumedAt time.Time // when the workflow was resumed, while parked rows are left; zero: it is paused
	Actor     string
	Why       string
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
SELECT p.workflow, p.paused_at, p.resumed_at, p.actor, p.why, 0, 0
FROM pause AS p
WHERE p.ws = $1 AND p.workflow = $2
/*LOCK p*/`

const insertPause = `
INSERT INTO pause (ws, workflow, paused_at, actor, why)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING`

const pauseAgain = `
UPDATE pause SET paused_at = $3, resumed_at = 0, actor = $4, why = $5
WHERE ws = $1 AND workflow = $2 AND resumed_at > 0`

// PauseWorkflow pauses a workflow. changed is false if it is paused already.
func (s *Store) PauseWorkflow(ctx context.Context, ws subject.WorkspaceID, workflow, why string, now time.Time, audit Audit) (p Pause, changed bool, err error) {
	err = s.Write(ctx, func(t *Tx) error {
		found, err := query(t, scanPause, lockPause, int64(ws), workflow)
		if err != nil {
			return err
		}
		if changed = len(found) == 0 || !found[0].ResumedAt.IsZero(); !changed {
			p = found[0]
			return nil
		}
		p = Pause{Workflow: workflow, PausedAt: now, Actor: audit.Actor, Why: why}
		text := insertPause
		if len(found) > 0 { // its parked rows are still being taken up
			text = pauseAgain
		}
		n, err := t.exec(text, int64(ws), workflow, dueMicros(now), audit.Actor, why)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrAgain
		}
		return t.Audit(ws, now, audit)
	})
	if err != nil {
		return Pause{}, false, fmt.Errorf("pause a workflow: %w", err)
	}
	return p, changed, nil
}

const resumePause = `
UPDATE pause SET resumed_at = $3
WHERE ws = $1 AND workflow = $2 AND resumed_at = 0`

// ResumeWorkflow resumes a workflow: TakeParked takes up its parked rows. changed is false if it was not paused.
func (s *Store) ResumeWorkflow(ctx context.Context, ws subject.WorkspaceID, workflow string, now time.Time, audit Audit) (changed bool, err error) {
	err = s.Write(ctx, func(t *Tx) error {
		n, err := t.exec(resumePause, int64(ws), workflow, dueMicros(now))
		if changed = n > 0; err != nil || !changed {
			return err
		}
		t.due(dueMicros(now))
		return t.Audit(ws, now, audit)
	})
	if err != nil {
		return false, fmt.Errorf("resume a workflow: %w", err)
	}
	return changed, nil
}

const listPauses = `
SELECT p.workflow, p.paused_at, p.resumed_at, p.actor, p.why,
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
	return p, rows.Scan(&p.Workflow, instant{&p.PausedAt}, instant{&p.ResumedAt}, &p.Actor, &p.Why, &p.Instances, &p.Deliveries)
}

// Stopped counts what a pause stops: parked rows, and rows that wait for a later instant or have not been taken up yet.
type Stopped struct {
	Instances, Deliveries int64
	Due                   int64 // of both, those whose instant has come
}

// All returns how many rows wait.
func (s Stopped) All() int64 { return s.Instances + s.Deliveries }

// maxStopped bounds how many of the next instances and deliveries, of all workspaces, Stopped reads.
const maxStopped = 50_000

// A delivery that waits for its channel is due, though its instant is later.
const stoppedNext = `
SELECT a.workflow, a.what, COUNT(*), SUM(a.due)
FROM (
  SELECT l.ws, l.workflow, 'instance' AS what, CASE WHEN l.ready_at <= $2 THEN 1 ELSE 0 END AS due FROM (
    SELECT i.ws, i.workflow, i.ready_at FROM instance AS i WHERE i.ready_at > 0 ORDER BY i.ready_at, i.id LIMIT $3) AS l
  UNION ALL
  SELECT m.ws, m.workflow, 'delivery', CASE WHEN m.send_at <= $2 OR m.eligible_at > 0 AND m.eligible_at <= $2 THEN 1 ELSE 0 END FROM (
    SELECT d.ws, d.workflow, d.send_at, d.eligible_at FROM delivery AS d
    WHERE d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` ORDER BY d.send_at, d.id LIMIT $3) AS m) AS a
  JOIN pause AS p ON p.ws = a.ws AND p.workflow = a.workflow AND p.resumed_at = 0
WHERE a.ws = $1
GROUP BY a.workflow, a.what`

// Stopped counts what each of these pauses stops at now. A pause that has ended stops nothing.
func (s *Store) Stopped(ctx context.Context, ws subject.WorkspaceID, pauses []Pause, now time.Time) (map[string]Stopped, error) {
	out := map[string]Stopped{}
	for _, p := range pauses {
		if p.ResumedAt.IsZero() {
			out[p.Workflow] = Stopped{p.Instances, p.Deliveries, p.Instances + p.Deliveries}
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
	for _, l := range lines {
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

// TakenUp lists the rows that are no longer parked.
type TakenUp struct {
	Instances  []instance.Row
	Deliveries []delivery.Row
}

// Any reports whether anything was taken up.
func (u TakenUp) Any() bool { return len(u.Instances)+len(u.Deliveries) > 0 }

const nextResumed = `
SELECT p.ws, p.workflow
FROM pause AS p
WHERE p.resumed_at > 0
ORDER BY p.resumed_at
LIMIT 1
/*SKIP LOCKED p*/`

const takeUpInstances = `
WITH parked AS MATERIALIZED (
  SELECT i.ws, i.id FROM instance AS i
  WHERE i.workflow = $1 AND i.ws = $2 AND i.` + parkedInstance + `
  ORDER BY i.id
  LIMIT $3
  /*LOCK i*/)
UPDATE instance SET hold = '', held_at = 0, reason = ` + sqlWorkflowResumed + `, version = instance.version + 1,
  next_retry_at = CASE WHEN instance.due_at < $4 AND instance.next_retry_at < $4 THEN $4 ELSE instance.next_retry_at END,
  ready_at = CASE WHEN instance.due_at < $4 AND instance.next_retry_at < $4 THEN $4
    WHEN instance.due_at > instance.next_retry_at THEN instance.due_at ELSE instance.next_retry_at END
FROM parked
WHERE instance.ws = parked.ws AND instance.id = parked.id
RETURNING /*NAMES instance (` + instanceSpec + `)*/`

const takeUpDeliveries = `
WITH parked AS MATERIALIZED (
  SELECT d.ws, d.id FROM delivery AS d
  WHERE d.workflow = $1 AND d.ws = $2 AND d.` + parkedDelivery + `
  ORDER BY d.id
  LIMIT $3
  /*LOCK d*/)
UPDATE delivery SET send_at = $4, hold = '', due_at = 0, eligible_at = 0, reason = ` + sqlWorkflowResumed + `, version = delivery.version + 1
FROM parked
WHERE delivery.ws = parked.ws AND delivery.id = parked.id
RETURNING /*NAMES delivery (` + deliverySpec + `)*/`

const endPause = `
DELETE FROM pause
WHERE ws = $1 AND workflow = $2`

// TakeParked makes up to limit parked instances and as many deliveries of one resumed workflow due now; they do not count as
// late (R2). found is false if no workflow has parked rows left.
func (s *Store) TakeParked(ctx context.Context, now time.Time, limit int) (u TakenUp, found bool, err error) {
	err = s.Write(ctx, func(t *Tx) error {
		u = TakenUp{}
		next, err := query(t, func(rows *sql.Rows) (ref pauseRef, err error) {
			return ref, rows.Scan(&ref.ws, &ref.workflow)
		}, nextResumed)
		if found = len(next) > 0; err != nil || !found {
			return err
		}
		ref := next[0]
		if u.Instances, err = query(t, scanInstance, takeUpInstances, ref.workflow, int64(ref.ws), int64(limit), dueMicros(now)); err != nil {
			return fmt.Errorf("instances: %w", err)
		}
		if u.Deliveries, err = query(t, scanDelivery, takeUpDeliveries, ref.workflow, int64(ref.ws), int64(limit), dueMicros(now)); err != nil {
			return fmt.Errorf("deliveries: %w", err)
		}
		for _, i := range u.Instances {
			t.due(readyAt(i))
		}
		for _, d := range u.Deliveries {
			t.dueDelivery(d)
		}
		if len(u.Instances) < limit && len(u.Deliveries) < limit {
			_, err = t.exec(endPause, int64(ref.ws), ref.workflow)
		}
		return err
	})
	if err != nil {
		return TakenUp{}, false, fmt.Errorf("take up parked rows: %w", err)
	}
	slices.SortFunc(u.Instances, func(a, b instance.Row) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(u.Deliveries, func(a, b delivery.Row) int { return cmp.Compare(a.ID, b.ID) })
	return u, found, nil
}
