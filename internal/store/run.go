package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Kinds of jobs.
const (
	// RunBackfill evaluates every record of a type, because a trigger on it is new or has changed.
	RunBackfill = "look"
	// RunCadence reschedules what waits for the limits of people, because these have changed.
	RunCadence = "cadence"
	// RunReconcile plans what is missing of the records of a trigger (B42).
	RunReconcile = "reconcile"
	// RunRetry and RunCancel do with many deliveries what a person does with one.
	RunRetry  = "retry"
	RunCancel = "cancel"
)

// Statuses of a job.
const (
	RunRunning   = "running"
	RunDone      = "done"
	RunFailed    = "failed"
	RunCancelled = "cancelled" // or replaced by a new one of its kind and subject
)

// RunSeed is a job that a definition starts when it is new or changed.
type RunSeed struct {
	Kind    string
	Subject string    // look: the type of record; cadence: the persona, or nothing for everybody; children: type/id of a record; reconcile: workflow/trigger
	Cause   string    // the workflows whose edit starts it, comma-separated
	Since   time.Time // reconcile: records written since then are read, due or not
}

// Run is a job. After a crash it continues where it was.
type Run struct {
	Workspace subject.WorkspaceID
	ID        int64
	RunSeed
	Definitions int64 // number of the set that started it
	Status      string
	Cursor      int64 // the last id done
	Done        int64
	Total       int64  // counted at the start; 0: not counted yet
	Repaired    int64  // reconcile: occasions that were missing
	Selection   string // retry, cancel: which deliveries, as JSON
	Actor       string // retry, cancel: who started it
	LastID      int64  // retry, cancel: the last delivery that existed when it began
	Changed     int64  // retry, cancel: deliveries changed
	Error       string
	StartedAt   time.Time
	UpdatedAt   time.Time
	FinishedAt  time.Time
}

const runColumns = `x.ws, x.id, x.kind, x.subject, x.cause, x.definitions, x.status, x.cursor, x.done, x.total, x.error, x.started_at, x.updated_at, x.finished_at,
  x.since, x.repaired, x.selection, x.actor, x.last_id, x.changed`

func scanRun(rows *sql.Rows) (r Run, err error) {
	return r, rows.Scan(&r.Workspace, &r.ID, &r.Kind, &r.Subject, &r.Cause, &r.Definitions, &r.Status, &r.Cursor, &r.Done, &r.Total, &r.Error,
		instant{&r.StartedAt}, instant{&r.UpdatedAt}, instant{&r.FinishedAt}, instant{&r.Since}, &r.Repaired, &r.Selection, &r.Actor, &r.LastID, &r.Changed)
}

const cancelRuns = `
UPDATE run SET status = ` + sqlRunCancelled + `, updated_at = $1, finished_at = $1
FROM /*ROWS $2 (ws bigint, kind text, subject text)*/ AS r
WHERE run.status = ` + sqlRunRunning + ` AND /*BY NAME*/run.ws = r.ws AND run.kind = r.kind AND run.subject = r.subject`

// Records are counted later, by the job itself, to keep the apply short: nothing is planned while definitions come into
// force.
const insertRuns = `
INSERT INTO run (ws, id, kind, subject, cause, definitions, status, since, total, started_at, updated_at)
SELECT r.ws, r.id, r.kind, r.subject, r.cause, r.definitions, ` + sqlRunRunning + `, r.since,
  CASE WHEN r.kind <> 'cadence' THEN 0
    WHEN r.subject <> '' THEN (SELECT COUNT(*) FROM contact AS p WHERE p.persona = r.subject AND p.persona <> '' AND p.ws = r.ws)
    ELSE (SELECT COUNT(*) FROM contact AS p WHERE p.ws = r.ws) END, $1, $1
FROM /*ROWS $2 (ws bigint, id bigint, kind text, subject text, cause text, definitions bigint, since bigint)*/ AS r`

const runningRuns = `
SELECT ` + runColumns + `
FROM run AS x
WHERE x.ws = $1 AND x.status = ` + sqlRunRunning + `
ORDER BY x.id`

// Workflows returns the workflows whose edit started the job.
func (r RunSeed) Workflows() []string {
	return strings.FieldsFunc(r.Cause, func(c rune) bool { return c == ',' })
}

// LockedError means that a workflow cannot be edited while a job of its last edit runs (decision 48).
type LockedError struct {
	Workflow string
	Run      int64
}

func (e *LockedError) Error() string {
	return "workflow " + e.Workflow + " is locked: a run goes over what its last edit has changed"
}

// unlocked checks that no job locks any of the workflows.
func (t *Tx) unlocked(ws subject.WorkspaceID, workflows []string) error {
	if len(workflows) == 0 {
		return nil
	}
	runs, err := query(t, scanRun, runningRuns, int64(ws))
	if err != nil {
		return fmt.Errorf("look for runs: %w", err)
	}
	for _, run := range runs {
		for _, name := range run.Workflows() {
			if slices.Contains(workflows, name) {
				return &LockedError{Workflow: name, Run: run.ID}
			}
		}
	}
	return nil
}

// union joins jobs of the same kind and subject; each keeps all workflows that start it.
func union(seeds []RunSeed) []RunSeed {
	slices.SortFunc(seeds, func(a, b RunSeed) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject), strings.Compare(a.Cause, b.Cause))
	})
	var all []RunSeed
	for _, s := range seeds {
		if last := len(all) - 1; last >= 0 && all[last].Kind == s.Kind && all[last].Subject == s.Subject {
			causes := append(all[last].Workflows(), s.Workflows()...)
			slices.Sort(causes)
			all[last].Cause = strings.Join(slices.Compact(causes), ",")
			continue
		}
		all = append(all, s)
	}
	return all
}

// beginRuns begins the jobs of definitions, each once. A running job of the same kind and subject begins again.
func (t *Tx) beginRuns(ws subject.WorkspaceID, now time.Time, definitions int64, seeds []RunSeed) error {
	if len(seeds) == 0 {
		return nil
	}
	open, err := query(t, scanRun, runningRuns, int64(ws))
	if err != nil {
		return fmt.Errorf("look for runs: %w", err)
	}
	seeds = union(seeds)
	var before rowset
	for i, seed := range seeds {
		for _, r := range open { // the edits that started it are not done yet
			if r.Kind == seed.Kind && r.Subject == seed.Subject {
				seeds[i] = union([]RunSeed{seed, r.RunSeed})[0]
			}
		}
		before.row().int(int64(ws)).text(seed.Kind).text(seed.Subject)
	}
	if _, err := t.exec(cancelRuns, micros(now), &before); err != nil {
		return fmt.Errorf("cancel runs: %w", err)
	}
	return t.addRuns(ws, now, definitions, seeds)
}

func (t *Tx) addRuns(ws subject.WorkspaceID, now time.Time, definitions int64, seeds []RunSeed) error {
	var rows rowset
	for _, seed := range seeds {
		rows.row().int(int64(ws)).int(t.s.NewID(now)).text(seed.Kind).text(seed.Subject).text(seed.Cause).int(definitions).time(seed.Since)
	}
	if rows.n == 0 {
		return nil
	}
	if _, err := t.exec(insertRuns, micros(now), &rows); err != nil {
		return fmt.Errorf("begin runs: %w", err)
	}
	t.due(dueMicros(now))
	return nil
}

const oldestRun = `
SELECT ` + runColumns + `
FROM run AS x
WHERE x.status = ` + sqlRunRunning + ` AND x.kind = $1
ORDER BY x.id
LIMIT 1`

const openRun = oldestRun + `
/*SKIP LOCKED*/`

// BackfillRun returns the oldest backfill job; open is false if there is none.
func (s *Store) BackfillRun(ctx context.Context) (run Run, open bool, err error) {
	return first(ctx, s, "look for a run", scanRun, oldestRun, RunBackfill)
}

// Analyze makes PostgreSQL analyze the table that a job fills. By itself it does so a minute later, and until then reads a
// whole index for each page where it takes it to be empty (measured: 3.1 ms a record instead of 0.15).
func (s *Store) Analyze(ctx context.Context) error {
	if s.writer != nil {
		return nil
	}
	if _, err := s.writers.ExecContext(ctx, "ANALYZE instance"); err != nil {
		return fmt.Errorf("analyze the instances: %w", err)
	}
	return nil
}

// PageRecord is a record as a job reads it: without a lock, with the columns that triggers can read, and with its stored
// fields.
type PageRecord struct {
	RecordRow
	PropsJSON string
}

const recordPage = `
SELECT rec.id, rec.ext_id, rec.props, rec.closed, rec.deleted, rec.modified_by, rec.created_at, rec.updated_at, rec.look_at,
  rec.looked_at, rec.state, rec.links
FROM record AS rec
WHERE rec.type = $1 AND rec.ws = $2 AND rec.id > $3
ORDER BY rec.id
LIMIT $4`

// RecordPage reads up to limit records of a type with ids after one. It takes no locks.
func (s *Store) RecordPage(ctx context.Context, ws subject.WorkspaceID, typ string, after int64, limit int) (page []PageRecord, err error) {
	err = s.ReadBatch(ctx, func(t *Tx) (err error) {
		page, err = query(t, func(rows *sql.Rows) (p PageRecord, err error) {
			p.Type = typ
			return p, rows.Scan(&p.ID, &p.ExtID, &p.PropsJSON, &p.Closed, &p.Deleted, &p.ModifiedBy,
				instant{&p.CreatedAt}, instant{&p.UpdatedAt}, instant{&p.EvaluateAt}, instant{&p.EvaluatedAt}, &p.State, &p.Links)
		}, recordPage, typ, int64(ws), after, int64(limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read a page of records: %w", err)
	}
	return page, nil
}

const countRecords = `
SELECT COUNT(*) FROM record AS rec
WHERE rec.type = $1 AND rec.ws = $2`

// CountRecords returns the number of records of a type, deleted ones included.
func (s *Store) CountRecords(ctx context.Context, ws subject.WorkspaceID, typ string) (int, error) {
	n, _, err := first(ctx, s, "count records", scanInt, countRecords, typ, int64(ws))
	return int(n), err
}

// The same mark as after a write: triggers evaluate these records as if they had just been written.
const markRecords = `
UPDATE record SET changed_at = CASE WHEN record.changed_at = 0 THEN $1 ELSE record.changed_at END,
  look_at = CASE WHEN record.look_at > 0 AND record.look_at < $1 THEN record.look_at ELSE $1 END
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id`

const advanceRun = `
UPDATE run SET cursor = $3, done = done + $4, updated_at = $5, status = $6, finished_at = $7
WHERE ws = $1 AND id = $2`

// Changes nothing if another process has advanced or ended the job meanwhile.
const moveRun = `
UPDATE run SET cursor = $4, done = done + $5, updated_at = $6, status = $7, finished_at = $8, total = CASE WHEN $9 > 0 THEN $9 ELSE total END
WHERE ws = $1 AND id = $2 AND cursor = $3 AND status = ` + sqlRunRunning

// RunStep is the progress of a job in one transaction.
type RunStep struct {
	Cursor int64              // the last id done
	Done   int                // how many records were done
	Marks  []subject.RecordID // records to evaluate, in the order of their ids
	End    bool               // no records are left
	Total  int                // the number of all records; 0: unchanged
}

// AdvanceBackfill advances a job and requests the evaluation of the marked records, in one transaction. If the job was
// advanced by another process or cancelled meanwhile, nothing is written, and moved is false.
func (s *Store) AdvanceBackfill(ctx context.Context, now time.Time, run Run, step RunStep) (moved bool, err error) {
	err = s.Write(ctx, func(t *Tx) error {
		moved, err = t.MoveRun(now, run, step)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("move a run on: %w", err)
	}
	return moved, nil
}

// MoveRun advances a job and requests the evaluation of the marked records. If the job was advanced by another process or
// cancelled meanwhile, nothing is written, and moved is false.
func (t *Tx) MoveRun(now time.Time, run Run, step RunStep) (moved bool, err error) {
	at := dueMicros(now)
	status, finished := RunRunning, int64(0)
	if step.End {
		status, finished = RunDone, at
	}
	n, err := t.exec(moveRun, int64(run.Workspace), run.ID, run.Cursor, step.Cursor, int64(step.Done), at, status, finished, int64(step.Total))
	if err != nil {
		return false, fmt.Errorf("advance a run: %w", err)
	}
	if n == 0 {
		return false, nil
	}
	var rows rowset
	for _, id := range step.Marks {
		rows.row().int(int64(run.Workspace)).int(int64(id))
	}
	if _, err := t.exec(markRecords, at, &rows); err != nil {
		return true, fmt.Errorf("mark records: %w", err)
	}
	if len(step.Marks) > 0 || step.End { // the marked records, or the next job
		t.due(at)
	}
	return true, nil
}

const listRuns = `
SELECT ` + runColumns + `
FROM run AS x`

// Runs lists jobs, the newest first.
func (s *Store) Runs(ctx context.Context, ws subject.WorkspaceID, p Page) ([]Run, error) {
	text, args := list(listRuns, "x", int64(ws), p).end("x", p)
	return all(ctx, s, "list runs", scanRun, text, args...)
}

const cancelRun = `
UPDATE run SET status = ` + sqlRunCancelled + `, updated_at = $3, finished_at = $3
WHERE ws = $1 AND id = $2 AND status = ` + sqlRunRunning

const resumeRun = `
UPDATE run SET status = ` + sqlRunRunning + `, updated_at = $3, finished_at = 0, error = ''
WHERE ws = $1 AND id = $2 AND status IN (` + sqlRunCancelled + `, ` + sqlRunFailed + `)`

const runByID = `
SELECT ` + runColumns + `
FROM run AS x
WHERE x.ws = $1 AND x.id = $2`

const newerRun = `
SELECT x.id FROM run AS x
WHERE x.ws = $1 AND x.kind = $2 AND x.subject = $3 AND x.id > $4
LIMIT 1`

// RunError means that the state of a job does not allow the request.
type RunError struct {
	Status string
	Newer  bool // a newer one of its kind and subject exists
}

func (e *RunError) Error() string { return "the run is " + e.Status }

// StopRun ends a job where it is: its changes stay, and the workflows that it locks can be edited. The error is a RunError
// for a finished job, and ErrNotFound if there is no such job.
func (s *Store) StopRun(ctx context.Context, ws subject.WorkspaceID, id int64, now time.Time, audit Audit) (Run, error) {
	return s.turnRun(ctx, ws, id, now, cancelRun, audit, RunCancelled, RunRunning)
}

// ResumeRun resumes a cancelled or failed job where it ended, by the definitions that started it. The error is a RunError if
// a newer one of its kind and subject exists.
func (s *Store) ResumeRun(ctx context.Context, ws subject.WorkspaceID, id int64, now time.Time, audit Audit) (Run, error) {
	return s.turnRun(ctx, ws, id, now, resumeRun, audit, RunRunning, RunCancelled, RunFailed)
}

func (s *Store) turnRun(
	ctx context.Context, ws subject.WorkspaceID, id int64, now time.Time, text string, audit Audit, to string, from ...string,
) (run Run, err error) {
	err = s.Write(ctx, func(t *Tx) error {
		runs, err := query(t, scanRun, runByID, int64(ws), id)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return ErrNotFound
		}
		if run = runs[0]; run.Status == to {
			return nil
		}
		newer, err := query(t, scanInt, newerRun, int64(ws), runs[0].Kind, runs[0].Subject, id)
		if err != nil {
			return err
		}
		if refused := (&RunError{Status: runs[0].Status, Newer: len(newer) > 0 && text == resumeRun}); refused.Newer || !slices.Contains(from, run.Status) {
			return refused
		}
		n, err := t.exec(text, int64(ws), id, dueMicros(now))
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrAgain
		}
		if runs, err = query(t, scanRun, runByID, int64(ws), id); err != nil {
			return err
		}
		run = runs[0]
		t.due(dueMicros(now))
		return t.Audit(ws, now, audit)
	})
	if err != nil {
		return Run{}, fmt.Errorf("a run: %w", err)
	}
	return run, nil
}
