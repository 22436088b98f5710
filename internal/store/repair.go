package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
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

// A new repair begins after its first interval: whatever adds it evaluates all records anyway.
const writeRepairs = `
INSERT INTO repair (ws, workflow, trigger, every, due_at, since)
SELECT r.ws, r.workflow, r.trigger, r.every, $1 + r.every, $1
FROM /*ROWS $2 (ws bigint, workflow text, trigger text, every bigint)*/ AS r
WHERE true
ON CONFLICT (ws, workflow, trigger) DO UPDATE SET every = excluded.every,
  due_at = CASE WHEN excluded.due_at < repair.due_at THEN excluded.due_at ELSE repair.due_at END`

// WriteRepairs stores the repairs of the new definitions and deletes the others.
func (t *Tx) WriteRepairs(ws subject.WorkspaceID, now time.Time, all []Repair) error {
	var names, rows rowset
	for _, r := range all {
		names.row().text(r.Workflow).text(r.Trigger)
		rows.row().int(int64(ws)).text(r.Workflow).text(r.Trigger).int(r.Every.Microseconds())
		t.due(WorkRepairs, dueMicros(now.Add(r.Every)))
	}
	if len(all) == 0 { // a statement without rows is not sent
		names.row().text("").text("")
	}
	if _, err := t.exec(dropRepairs, int64(ws), &names); err != nil {
		return fmt.Errorf("drop repairs: %w", err)
	}
	if _, err := t.exec(writeRepairs, dueMicros(now), &rows); err != nil {
		return fmt.Errorf("plan repairs: %w", err)
	}
	return nil
}

const repairsDue = `
SELECT 1 FROM repair
WHERE due_at <= $1
ORDER BY due_at
LIMIT 1`

// RepairsDue reports whether a repair is due. Nearly always none is, and no transaction that writes is needed.
func (s *Store) RepairsDue(ctx context.Context, now time.Time) (due bool, err error) {
	_, due, err = first(ctx, s, "look for repairs", scanInt, repairsDue, dueMicros(now))
	return due, err
}

// DueRepair is a repair that is due.
type DueRepair struct {
	Workspace subject.WorkspaceID
	Repair
	Since       time.Time // records written since then are read
	Definitions int64     // number of the definition set in force
	Running     bool      // a job of it runs
}

const dueRepairs = `
SELECT p.ws, p.workflow, p.trigger, p.since, w.definitions,
  (SELECT COUNT(*) FROM job AS x WHERE x.ws = p.ws AND x.status = ` + sqlJobRunning + ` AND x.kind = ` + sqlReconcile + ` AND x.subject = p.workflow || '/' || p.trigger)
FROM repair AS p CROSS JOIN workspace AS w
WHERE p.due_at <= $1 AND w.id = p.ws
ORDER BY p.due_at, p.ws, p.workflow, p.trigger
LIMIT $2
/*SKIP LOCKED p*/`

// DueRepairs locks up to limit repairs that are due.
func (t *Tx) DueRepairs(now time.Time, limit int) ([]DueRepair, error) {
	due, err := query(t, func(rows *sql.Rows) (r DueRepair, err error) {
		running := 0
		err = rows.Scan(&r.Workspace, &r.Workflow, &r.Trigger, instant{&r.Since}, &r.Definitions, &running)
		r.Running = running > 0
		return r, err
	}, dueRepairs, dueMicros(now), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("look for repairs: %w", err)
	}
	return due, nil
}

const nextRepairs = `
UPDATE repair SET due_at = $1 + repair.every
FROM /*ROWS $2 (ws bigint, workflow text, trigger text)*/ AS r
WHERE repair.ws = r.ws AND repair.workflow = r.workflow AND repair.trigger = r.trigger`

// PutOffRepairs makes repairs due again after their intervals.
func (t *Tx) PutOffRepairs(now time.Time, repairs []DueRepair) error {
	var rows rowset
	for _, r := range repairs {
		rows.row().int(int64(r.Workspace)).text(r.Workflow).text(r.Trigger)
	}
	if _, err := t.exec(nextRepairs, dueMicros(now), &rows); err != nil {
		return fmt.Errorf("plan repairs: %w", err)
	}
	return nil
}

const recordsToEvaluate = `
SELECT /*NAMES rec (` + recordSpec + `)*/, rec.ws, (SELECT w.definitions FROM workspace AS w WHERE w.id = rec.ws)
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id
ORDER BY rec.id
/*LOCK rec*/`

// The instant of a repair moves when its job ends, to the job's start: the next job reads again what was written meanwhile.
const repairedUntil = `
UPDATE repair SET since = $4
WHERE ws = $1 AND workflow || '/' || trigger = $2 AND since = $3`

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
func (t *Tx) EndRepair(j job.Row) error {
	if _, err := t.exec(repairedUntil, int64(j.Workspace), j.Subject, micros(j.Since), micros(j.StartedAt)); err != nil {
		return fmt.Errorf("end a repair: %w", err)
	}
	return nil
}

// WritePlanned writes planned occasions: new rows, and locked rows with their new values.
func (t *Tx) WritePlanned(now time.Time, made map[subject.WorkspaceID]OccasionWrites, changed []instance.Row) error {
	for _, ws := range sortedKeys(made) {
		if err := t.WriteOccasions(ws, made[ws]); err != nil {
			return err
		}
	}
	return t.writePlans(changed)
}
