package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/subject"
)

// The names of the sets of columns of a job.
const (
	jobSpec          = "job"
	uncountedJobSpec = "uncounted_job"
	jobProgressSpec  = "job_progress"
)

var jobColumns = named(jobSpec, columnsOf[job.Row]{
	{"ws", func(j *job.Row) field { return integer(&j.Workspace) }},
	{"id", func(j *job.Row) field { return integer(&j.ID) }},
	{"kind", func(j *job.Row) field { return text(&j.Kind) }},
	{"subject", func(j *job.Row) field { return text(&j.Subject) }},
	{"cause", func(j *job.Row) field { return text(&j.Cause) }},
	{"since", func(j *job.Row) field { return moment{&j.Since} }},
	{"definitions", func(j *job.Row) field { return integer(&j.Definitions) }},
	{"status", func(j *job.Row) field { return text(&j.Status) }},
	{"version", func(j *job.Row) field { return integer(&j.Version) }},
	{"cursor", func(j *job.Row) field { return integer(&j.Cursor) }},
	{"done", func(j *job.Row) field { return integer(&j.Done) }},
	{"total", func(j *job.Row) field { return integer(&j.Total) }},
	{"changed", func(j *job.Row) field { return integer(&j.Changed) }},
	{"selection", func(j *job.Row) field { return text(&j.Selection) }},
	{"actor", func(j *job.Row) field { return text(&j.Actor) }},
	{"last_id", func(j *job.Row) field { return integer(&j.LastID) }},
	{"error", func(j *job.Row) field { return text(&j.Error) }},
	{"started_at", func(j *job.Row) field { return moment{&j.StartedAt} }},
	{"updated_at", func(j *job.Row) field { return moment{&j.UpdatedAt} }},
	{"finished_at", func(j *job.Row) field { return moment{&j.FinishedAt} }},
})

// jobProgress is what a change of a job writes, and by what it finds the job.
var (
	jobProgress = named(jobProgressSpec, jobColumns.only("ws", "id", "status", "version", "cursor", "done", "total", "changed", "error", "updated_at", "finished_at"))
	_           = named(uncountedJobSpec, jobColumns.without("total"))
)

func scanJob(rows *sql.Rows) (job.Row, error) { return jobColumns.scan(rows) }

const selectJobs = `
SELECT /*NAMES x (` + jobSpec + `)*/
FROM job AS x`

// Few jobs run at a time: all of them are read, whatever their kinds.
const oldestJob = selectJobs + `
WHERE x.status = ` + sqlJobRunning + ` AND x.kind IN (SELECT r.kind FROM /*ROWS $1 (kind text)*/ AS r)
ORDER BY x.id
LIMIT 1`

// OldestJob returns the oldest running job of some kinds; open is false if there is none.
func (s *Store) OldestJob(ctx context.Context, kinds ...job.Kind) (oldest job.Row, open bool, err error) {
	var rows rowset
	for _, kind := range kinds {
		rows.row().text(string(kind))
	}
	return first(ctx, s, "look for a job", scanJob, oldestJob, &rows)
}

const jobByID = selectJobs + `
WHERE x.ws = $1 AND x.id = $2`

const lockJob = jobByID + `
/*LOCK x*/`

const holdJob = jobByID + ` AND x.status = ` + sqlJobRunning + `
/*SKIP LOCKED x*/`

const openJobs = selectJobs + `
WHERE x.ws = $1 AND x.status = ` + sqlJobRunning + `
ORDER BY x.id
/*LOCK x*/`

// LockJob locks and returns a job, else ErrNotFound.
func (t *Tx) LockJob(ws subject.WorkspaceID, id int64) (job.Row, error) {
	found, err := query(t, scanJob, lockJob, int64(ws), id)
	switch {
	case err != nil:
		return job.Row{}, fmt.Errorf("lock a job: %w", err)
	case len(found) == 0:
		return job.Row{}, fmt.Errorf("job %d: %w", id, ErrNotFound)
	}
	return found[0], nil
}

// HoldJob locks a running job and returns it as it is now. held is false if it has ended, or another transaction has it.
func (t *Tx) HoldJob(j job.Row) (now job.Row, held bool, err error) {
	found, err := query(t, scanJob, holdJob, int64(j.Workspace), j.ID)
	if err != nil {
		return job.Row{}, false, fmt.Errorf("lock a job: %w", err)
	}
	if len(found) == 0 {
		return job.Row{}, false, nil
	}
	return found[0], true, nil
}

// OpenJobs locks and returns the running jobs of a workspace.
func (t *Tx) OpenJobs(ws subject.WorkspaceID) ([]job.Row, error) {
	jobs, err := query(t, scanJob, openJobs, int64(ws))
	if err != nil {
		return nil, fmt.Errorf("look for jobs: %w", err)
	}
	return jobs, nil
}

const newerJob = `
SELECT x.id FROM job AS x
WHERE x.ws = $1 AND x.kind = $2 AND x.subject = $3 AND x.id > $4
LIMIT 1`

// NewerJob reports whether a newer job of a job's kind and subject exists.
func (t *Tx) NewerJob(j job.Row) (bool, error) {
	newer, err := query(t, scanInt, newerJob, int64(j.Workspace), string(j.Kind), j.Subject, j.ID)
	if err != nil {
		return false, fmt.Errorf("look for a newer job: %w", err)
	}
	return len(newer) > 0, nil
}

// Contacts are counted at once; records are counted by the job itself, to keep an apply short.
const insertJobs = `
INSERT INTO job (/*NAMES (` + uncountedJobSpec + `)*/, total)
SELECT /*NAMES r (` + uncountedJobSpec + `)*/, CASE WHEN r.kind <> ` + sqlLimits + ` AND r.kind <> ` + sqlGroups + ` THEN r.total
    WHEN r.subject <> '' THEN (SELECT COUNT(*) FROM contact AS p WHERE p.persona = r.subject AND p.persona <> '' AND p.ws = r.ws)
    ELSE (SELECT COUNT(*) FROM contact AS p WHERE p.ws = r.ws) END
FROM /*ROWS $1 (` + jobSpec + `)*/ AS r`

// AddJobs begins jobs and returns them with their ids.
func (t *Tx) AddJobs(now time.Time, jobs []job.Row) ([]job.Row, error) {
	var rows rowset
	for i := range jobs {
		jobs[i].ID = t.s.NewID(now)
		jobColumns.put(&rows, &jobs[i])
	}
	if _, err := t.exec(insertJobs, &rows); err != nil {
		return nil, fmt.Errorf("begin jobs: %w", err)
	}
	if len(jobs) > 0 {
		t.due(WorkJobs, dueMicros(now))
	}
	return jobs, nil
}

// Changes nothing if another process has changed or ended the job meanwhile.
const updateJobs = `
UPDATE job SET status = r.status, cursor = r.cursor, done = r.done, total = r.total, changed = r.changed, error = r.error,
  updated_at = r.updated_at, finished_at = r.finished_at, version = job.version + 1
FROM /*ROWS $1 (` + jobProgressSpec + `)*/ AS r
WHERE job.ws = r.ws AND job.id = r.id AND job.version = r.version`

// ErrMoved means that another process has advanced or ended a job meanwhile. The transaction is rolled back.
var ErrMoved = errors.New("the job was advanced or ended meanwhile")

// SaveJobs saves the progress of jobs and their new states. The error is ErrMoved if one is not as it was read.
func (t *Tx) SaveJobs(now time.Time, jobs ...job.Row) error {
	var rows rowset
	for i := range jobs {
		jobProgress.put(&rows, &jobs[i])
		if jobs[i].Status != job.Running { // the next one may begin
			t.due(WorkJobs, dueMicros(now))
		}
	}
	n, err := t.exec(updateJobs, &rows)
	switch {
	case err != nil:
		return fmt.Errorf("save a job: %w", err)
	case n < int64(len(jobs)):
		return ErrMoved
	}
	return nil
}

// Jobs lists jobs, the newest first.
func (s *Store) Jobs(ctx context.Context, ws subject.WorkspaceID, p Page) ([]job.Row, error) {
	text, args := list(selectJobs, "x", int64(ws), p).end("x", p)
	return all(ctx, s, "list jobs", scanJob, text, args...)
}
