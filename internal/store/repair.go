package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// A repair job reads the records of a trigger at intervals and plans what is missing (B42–B45). It advances in pages, as
// other jobs do. Each job reads what was written since an instant, which moves only when a job has finished.

// Repair is a trigger with a repair job.
type Repair struct {
	Workflow, Trigger string
	Every             time.Duration
}

// Subject returns the subject of its jobs.
func (r Repair) Subject() string { return r.Workflow + "/" + r.Trigger }

const dropRepairs = `
DELETE FROM repair
WHERE ws = $1 AND NOT EXISTS (
  SELECT 1 FROM /*ROWS $2 (workflow text, trigger text)*/ AS r WHERE r.workflow = repair.workflow AND r.trigger = repair.trigger)`

const endRepairs = `
UPDATE run SET status = ` + sqlRunCancelled + `, updated_at = $2, finished_at = $2
WHERE ws = $1 AND status = ` + sqlRunRunning + ` AND kind = ` + sqlReconcile + ` AND NOT EXISTS (
  SELECT 1 FROM /*ROWS $3 (subject text)*/ AS r WHERE r.subject = run.subject)`

// A new repair begins after its first interval: whatever adds it evaluates all records anyway.
const writeRepairs = `
INSERT INTO repair (ws, workflow, trigger, every, due_at, since)
SELECT r.ws, r.workflow, r.trigger, r.every, $1 + r.every, $1
FROM /*ROWS $2 (ws bigint, workflow text, trigger text, every bigint)*/ AS r
WHERE true
ON CONFLICT (ws, workflow, trigger) DO UPDATE SET every = excluded.every,
  due_at = CASE WHEN excluded.due_at < repair.due_at THEN excluded.due_at ELSE repair.due_at END`

// planRepairs stores the repairs of the new definitions and deletes the others.
func (t *Tx) planRepairs(ws subject.WorkspaceID, now time.Time, all []Repair) error {
	var names, subjects, rows rowset
	for _, r := range all {
		names.row().text(r.Workflow).text(r.Trigger)
		subjects.row().text(r.Subject())
		rows.row().int(int64(ws)).text(r.Workflow).text(r.Trigger).int(r.Every.Microseconds())
		t.due(dueMicros(now.Add(r.Every)))
	}
	if len(all) == 0 { // a statement without rows is not sent
		names.row().text("").text("")
		subjects.row().text("")
	}
	if _, err := t.exec(dropRepairs, int64(ws), &names); err != nil {
		return fmt.Errorf("drop repairs: %w", err)
	}
	if _, err := t.exec(endRepairs, int64(ws), dueMicros(now), &subjects); err != nil {
		return fmt.Errorf("end repairs: %w", err)
	}
	if _, err := t.exec(writeRepairs, dueMicros(now), &rows); err != nil {
		return fmt.Errorf("plan repairs: %w", err)
	}
	return nil
}

// mostRepairs bounds how many jobs begin in one transaction.
const mostRepairs = 100

const dueRepairs = `
SELECT p.ws, p.workflow, p.trigger, p.since, w.definitions,
  (SELECT COUNT(*) FROM run AS x WHERE x.ws = p.ws AND x.status = ` + sqlRunRunning + ` AND x.kind = ` + sqlReconcile + ` AND x.subject = p.workflow || '/' || p.trigger)
FROM repair AS p CROSS JOIN workspace AS w
WHERE p.due_at <= $1 AND w.id = p.ws
ORDER BY p.due_at, p.ws, p.workflow, p.trigger
LIMIT $2
/*SKIP LOCKED p*/`

const nextRepairs = `
UPDATE repair SET due_at = $1 + repair.every
FROM /*ROWS $2 (ws bigint, workflow text, trigger text)*/ AS r
WHERE repair.ws = r.ws AND repair.workflow = r.workflow AND repair.trigger = r.trigger`

// BeginRepairs begins the repair jobs that are due. A job that still runs replaces the next one.
func (s *Store) BeginRepairs(ctx context.Context, now time.Time) error {
	at := dueMicros(now)
	if _, due, err := first(ctx, s, "look for repairs", scanInt, `SELECT 1 FROM repair WHERE due_at <= $1 ORDER BY due_at LIMIT 1`, at); err != nil || !due {
		return err // nearly always the case, and needs no transaction that writes
	}
	err := s.Write(ctx, func(t *Tx) error {
		type seed struct {
			ws          subject.WorkspaceID
			definitions int64
			RunSeed
		}
		var rows rowset
		seeds, err := query(t, func(found *sql.Rows) (v seed, err error) {
			var r Repair
			running := 0
			err = found.Scan(&v.ws, &r.Workflow, &r.Trigger, instant{&v.Since}, &v.definitions, &running)
			if rows.row().int(int64(v.ws)).text(r.Workflow).text(r.Trigger); running == 0 {
				v.Kind, v.Subject = RunReconcile, r.Subject()
			}
			return v, err
		}, dueRepairs, at, int64(mostRepairs))
		if err != nil {
			return err
		}
		for _, v := range seeds {
			if v.Kind == "" {
				continue
			}
			if err := t.addRuns(v.ws, now, v.definitions, []RunSeed{v.RunSeed}); err != nil {
				return err
			}
		}
		_, err = t.exec(nextRepairs, at, &rows)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin repairs: %w", err)
	}
	return nil
}

// RepairRun returns the oldest repair job; open is false if there is none.
func (s *Store) RepairRun(ctx context.Context) (run Run, open bool, err error) {
	return first(ctx, s, "look for a run", scanRun, oldestRun, RunReconcile)
}

const recordsToEvaluate = `
SELECT ` + recordColumns + `, rec.ws, (SELECT w.definitions FROM workspace AS w WHERE w.id = rec.ws)
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id
ORDER BY rec.id
/*LOCK rec*/`

// The instant of a repair moves when its job ends, to the job's start: the next job reads again what was written meanwhile.
const repairedUntil = `
UPDATE repair SET since = $4
WHERE ws = $1 AND workflow || '/' || trigger = $2 AND since = $3`

const countRepaired = `
UPDATE run SET repaired = repaired + $3
WHERE ws = $1 AND id = $2`

// RecordsToEvaluate locks records of a workspace, whether they are due or not.
func (t *Tx) RecordsToEvaluate(ws subject.WorkspaceID, ids []subject.RecordID) ([]DueRecord, error) {
	var rows rowset
	for _, id := range ids {
		rows.row().int(int64(ws)).int(int64(id))
	}
	records, err := query(t, scanDueRecord, recordsToEvaluate, &rows)
	if err != nil {
		return nil, fmt.Errorf("lock records: %w", err)
	}
	return records, nil
}

// EndRepair notes that a repair job has read everything.
func (t *Tx) EndRepair(run Run) error {
	if _, err := t.exec(repairedUntil, int64(run.Workspace), run.Subject, micros(run.Since), micros(run.StartedAt)); err != nil {
		return fmt.Errorf("end a repair: %w", err)
	}
	return nil
}

// WriteRepaired writes and counts what a repair job found missing: new rows, and locked rows that are revived.
func (t *Tx) WriteRepaired(now time.Time, run Run, made map[subject.WorkspaceID]IngestWrites, revived []instance.Row) error {
	count := len(revived)
	for _, ws := range sortedKeys(made) {
		count += len(made[ws].Instances)
		if err := t.WriteIngest(ws, now, made[ws]); err != nil {
			return err
		}
	}
	if err := t.writePlans(revived); err != nil {
		return err
	}
	if _, err := t.exec(countRepaired, int64(run.Workspace), run.ID, int64(count)); err != nil {
		return fmt.Errorf("count what was missing: %w", err)
	}
	return nil
}
