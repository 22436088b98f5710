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

// A workflow is paused by one row, however much it has planned. What comes due of it is put aside when it is taken up, once a
// row: an instance is held, a delivery waits for delivery.Aside. Neither lies among what is due any more, so that a pause costs
// those that look there nothing. When the workflow goes on, what was put aside is taken up again in pages, and the row of the
// pause goes with the last one.

// Pause is a workflow that a person has stopped.
type Pause struct {
	Workflow  string
	PausedAt  time.Time
	ResumedAt time.Time // since when what was put aside is taken up again; none: it is paused
	Actor     string
	Why       string
	// Instances and Deliveries are how many were put aside, each counted up to MaxAside.
	Instances, Deliveries int64
}

// MaxParked is how far Pauses counts.
const MaxParked = 10_000

// Columns of what is taken up: since when its workflow is paused; 0: it is not.
const (
	pausedSinceInstance = `COALESCE((SELECT p.paused_at FROM pause AS p WHERE p.ws = i.ws AND p.workflow = i.workflow AND p.resumed_at = 0), 0)`
	pausedSinceDelivery = `COALESCE((SELECT p.paused_at FROM pause AS p WHERE p.ws = delivery.ws AND p.workflow = delivery.workflow AND p.resumed_at = 0), 0)`
)

// The conditions of the indexes of what was put aside, in their words.
const (
	asideInstance = `held = 1 AND reason = 'workflow_paused'`
	asideDelivery = `send_at = 221845392000000000` // delivery.Aside
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

// PauseWorkflow stops a workflow. One that is paused already stays as it is, and changed is false.
func (s *Store) PauseWorkflow(ctx context.Context, ws subject.WorkspaceID, workflow, why string, now time.Time, audit Audit) (p Pause, changed bool, err error) {
	err = s.write(ctx, func(t *Tx) error {
		found, err := query(ctx, t, scanPause, lockPause, int64(ws), workflow)
		if err != nil {
			return err
		}
		if changed = len(found) == 0 || !found[0].ResumedAt.IsZero(); !changed {
			p = found[0]
			return nil
		}
		p = Pause{Workflow: workflow, PausedAt: now, Actor: audit.Actor, Why: why}
		text := insertPause
		if len(found) > 0 { // what it has put aside is still being taken up
			text = pauseAgain
		}
		n, err := t.exec(ctx, text, int64(ws), workflow, dueMicros(now), audit.Actor, why)
		if err != nil {
			return err
		}
		if n == 0 {
			return errAgain
		}
		return t.audit(ctx, ws, now, audit)
	})
	if err != nil {
		return Pause{}, false, fmt.Errorf("pause a workflow: %w", err)
	}
	return p, changed, nil
}

const resumePause = `
UPDATE pause SET resumed_at = $3
WHERE ws = $1 AND workflow = $2 AND resumed_at = 0`

// ResumeWorkflow has a workflow go on: TakeUp takes up what was put aside. changed is false where it was not paused.
func (s *Store) ResumeWorkflow(ctx context.Context, ws subject.WorkspaceID, workflow string, now time.Time, audit Audit) (changed bool, err error) {
	err = s.write(ctx, func(t *Tx) error {
		n, err := t.exec(ctx, resumePause, int64(ws), workflow, dueMicros(now))
		if changed = n > 0; err != nil || !changed {
			return err
		}
		t.due(dueMicros(now))
		return t.audit(ctx, ws, now, audit)
	})
	if err != nil {
		return false, fmt.Errorf("resume a workflow: %w", err)
	}
	return changed, nil
}

const listPauses = `
SELECT p.workflow, p.paused_at, p.resumed_at, p.actor, p.why,
  (SELECT COUNT(*) FROM (SELECT i.id FROM instance AS i WHERE i.workflow = p.workflow AND i.ws = p.ws AND i.` + asideInstance + ` LIMIT $2) AS a),
  (SELECT COUNT(*) FROM (SELECT d.id FROM delivery AS d WHERE d.workflow = p.workflow AND d.ws = p.ws AND d.` + asideDelivery + ` LIMIT $2) AS b)
FROM pause AS p
WHERE p.ws = $1
ORDER BY p.workflow`

// Pauses lists the workflows that are paused, and those that are going on with what was put aside.
func (s *Store) Pauses(ctx context.Context, ws subject.WorkspaceID) ([]Pause, error) {
	return all(ctx, s, "list pauses", scanPause, listPauses, int64(ws), int64(MaxParked))
}

func scanPause(rows *sql.Rows) (p Pause, err error) {
	return p, rows.Scan(&p.Workflow, instant{&p.PausedAt}, instant{&p.ResumedAt}, &p.Actor, &p.Why, &p.Instances, &p.Deliveries)
}

// Stopped is what a pause stops of a workflow: what was put aside, and what waits for a later instant or has not been taken up yet.
type Stopped struct {
	Instances, Deliveries int64
	Due                   int64 // of both: whose time has come
}

// All is how many wait.
func (s Stopped) All() int64 { return s.Instances + s.Deliveries }

// maxStopped is how many of the instances and of the deliveries that leave next Stopped looks at, of all workspaces.
const maxStopped = 50_000

// A delivery that its channel delays is due, though it is planned for later.
const stoppedNext = `
SELECT a.workflow, a.what, COUNT(*), SUM(a.due)
FROM (
  SELECT l.ws, l.workflow, 'instance' AS what, CASE WHEN l.ready_at <= $2 THEN 1 ELSE 0 END AS due FROM (
    SELECT i.ws, i.workflow, i.ready_at FROM instance AS i WHERE i.ready_at > 0 ORDER BY i.ready_at, i.id LIMIT $3) AS l
  UNION ALL
  SELECT m.ws, m.workflow, 'delivery', CASE WHEN m.send_at <= $2 OR m.eligible_at > 0 AND m.eligible_at <= $2 THEN 1 ELSE 0 END FROM (
    SELECT d.ws, d.workflow, d.send_at, d.eligible_at FROM delivery AS d
    WHERE d.send_at > 0 AND NOT d.` + asideDelivery + ` ORDER BY d.send_at, d.id LIMIT $3) AS m) AS a
  JOIN pause AS p ON p.ws = a.ws AND p.workflow = a.workflow AND p.resumed_at = 0
WHERE a.ws = $1
GROUP BY a.workflow, a.what`

// Stopped counts at now what each of these pauses stops. One that is over stops nothing.
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
			continue // it was paused since
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

// pauseRef names a workflow that is paused.
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

// putAside makes sure that workflows are paused still of which something is put aside in this transaction, and that none of them
// goes on before it is committed: else nobody would take that up again.
func (t *Tx) putAside(ctx context.Context, refs map[pauseRef]bool) error {
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
	found, err := query(ctx, t, scanInt, lockPauses, &rows)
	if err != nil {
		return fmt.Errorf("look for pauses: %w", err)
	}
	if len(found) < len(list) {
		return errAgain
	}
	return nil
}

// TakenUp is what was put aside and is no longer.
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
WITH aside AS MATERIALIZED (
  SELECT i.ws, i.id FROM instance AS i
  WHERE i.workflow = $1 AND i.ws = $2 AND i.` + asideInstance + `
  ORDER BY i.id
  LIMIT $3
  /*LOCK i*/)
UPDATE instance SET held = 0, held_at = 0, reason = '` + string(reason.WorkflowResumed) + `', version = instance.version + 1,
  next_retry_at = CASE WHEN instance.due_at < $4 AND instance.next_retry_at < $4 THEN $4 ELSE instance.next_retry_at END,
  ready_at = CASE WHEN instance.due_at < $4 AND instance.next_retry_at < $4 THEN $4
    WHEN instance.due_at > instance.next_retry_at THEN instance.due_at ELSE instance.next_retry_at END
FROM aside
WHERE instance.ws = aside.ws AND instance.id = aside.id
RETURNING /*NAMES instance (` + instanceSpec + `)*/`

const takeUpDeliveries = `
WITH aside AS MATERIALIZED (
  SELECT d.ws, d.id FROM delivery AS d
  WHERE d.workflow = $1 AND d.ws = $2 AND d.` + asideDelivery + `
  ORDER BY d.id
  LIMIT $3
  /*LOCK d*/)
UPDATE delivery SET send_at = $4, due_at = 0, eligible_at = 0, reason = '` + string(reason.WorkflowResumed) + `', version = delivery.version + 1
FROM aside
WHERE delivery.ws = aside.ws AND delivery.id = aside.id
RETURNING /*NAMES delivery (` + deliverySpec + `)*/`

const endPause = `
DELETE FROM pause
WHERE ws = $1 AND workflow = $2`

// TakeParked takes up again up to limit instances and as many deliveries of one workflow that goes on: from now on they are due,
// and not late (R2). found is false when no workflow has anything left.
func (s *Store) TakeParked(ctx context.Context, now time.Time, limit int) (u TakenUp, found bool, err error) {
	err = s.write(ctx, func(t *Tx) error {
		u = TakenUp{}
		next, err := query(ctx, t, func(rows *sql.Rows) (ref pauseRef, err error) {
			return ref, rows.Scan(&ref.ws, &ref.workflow)
		}, nextResumed)
		if found = len(next) > 0; err != nil || !found {
			return err
		}
		ref := next[0]
		if u.Instances, err = query(ctx, t, scanInstance, takeUpInstances, ref.workflow, int64(ref.ws), int64(limit), dueMicros(now)); err != nil {
			return fmt.Errorf("instances: %w", err)
		}
		if u.Deliveries, err = query(ctx, t, scanDelivery, takeUpDeliveries, ref.workflow, int64(ref.ws), int64(limit), dueMicros(now)); err != nil {
			return fmt.Errorf("deliveries: %w", err)
		}
		for _, i := range u.Instances {
			t.due(readyAt(i))
		}
		for _, d := range u.Deliveries {
			t.dueDelivery(d)
		}
		if len(u.Instances) < limit && len(u.Deliveries) < limit {
			_, err = t.exec(ctx, endPause, int64(ref.ws), ref.workflow)
		}
		return err
	})
	if err != nil {
		return TakenUp{}, false, fmt.Errorf("take up what was put aside: %w", err)
	}
	slices.SortFunc(u.Instances, func(a, b instance.Row) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(u.Deliveries, func(a, b delivery.Row) int { return cmp.Compare(a.ID, b.ID) })
	return u, found, nil
}
