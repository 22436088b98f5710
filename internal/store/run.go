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

// Kinds of runs.
const (
	// RunLook has every record of a type looked at, because what looks at it has changed.
	RunLook = "look"
	// RunCadence plans anew what waits for the limits of people, because these have changed.
	RunCadence = "cadence"
)

// Statuses of a run.
const (
	RunRunning   = "running"
	RunDone      = "done"
	RunFailed    = "failed"
	RunCancelled = "cancelled" // another one of its kind and subject begins anew
)

// RunSeed is work over many rows that a definition brings with it when it is new or changed.
type RunSeed struct {
	Kind    string
	Subject string // look: the type of record; cadence: the persona, or nothing for everybody
}

// Run is such work, which goes on after a crash where it was.
type Run struct {
	Workspace subject.WorkspaceID
	ID        int64
	RunSeed
	Definitions int64 // number of the set that asked for it
	Status      string
	Cursor      int64 // the last id that is done
	Done        int64
	Total       int64 // as counted at the start
	Error       string
	StartedAt   time.Time
	UpdatedAt   time.Time
	FinishedAt  time.Time
}

const runColumns = `x.ws, x.id, x.kind, x.subject, x.definitions, x.status, x.cursor, x.done, x.total, x.error, x.started_at, x.updated_at, x.finished_at`

func scanRun(rows *sql.Rows) (r Run, err error) {
	return r, rows.Scan(&r.Workspace, &r.ID, &r.Kind, &r.Subject, &r.Definitions, &r.Status, &r.Cursor, &r.Done, &r.Total, &r.Error,
		instant{&r.StartedAt}, instant{&r.UpdatedAt}, instant{&r.FinishedAt})
}

const cancelRuns = `
UPDATE run SET status = 'cancelled', updated_at = $1, finished_at = $1
FROM /*ROWS $2 (ws bigint, kind text, subject text)*/ AS r
WHERE run.status = 'running' AND /*BY NAME*/run.ws = r.ws AND run.kind = r.kind AND run.subject = r.subject`

const insertRuns = `
INSERT INTO run (ws, id, kind, subject, definitions, status, total, started_at, updated_at)
SELECT r.ws, r.id, r.kind, r.subject, r.definitions, 'running',
  CASE WHEN r.kind = 'look' THEN (SELECT COUNT(*) FROM record AS rec WHERE rec.type = r.subject AND rec.ws = r.ws)
    WHEN r.subject <> '' THEN (SELECT COUNT(*) FROM contact AS p WHERE p.persona = r.subject AND p.persona <> '' AND p.ws = r.ws)
    ELSE (SELECT COUNT(*) FROM contact AS p WHERE p.ws = r.ws) END, $1, $1
FROM /*ROWS $2 (ws bigint, id bigint, kind text, subject text, definitions bigint)*/ AS r`

// beginRuns begins what definitions bring with them, each once. What runs for the same already begins anew.
func (t *session) beginRuns(ctx context.Context, ws subject.WorkspaceID, now time.Time, definitions int64, seeds []RunSeed) error {
	compare := func(a, b RunSeed) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject))
	}
	var before, rows rowset
	for _, seed := range slices.Compact(slices.SortedFunc(slices.Values(seeds), compare)) {
		before.row().int(int64(ws)).text(seed.Kind).text(seed.Subject)
		rows.row().int(int64(ws)).int(t.s.NewID(now)).text(seed.Kind).text(seed.Subject).int(definitions)
	}
	if rows.n == 0 {
		return nil
	}
	if _, err := t.exec(ctx, cancelRuns, micros(now), &before); err != nil {
		return fmt.Errorf("cancel runs: %w", err)
	}
	if _, err := t.exec(ctx, insertRuns, micros(now), &rows); err != nil {
		return fmt.Errorf("begin runs: %w", err)
	}
	t.due(dueMicros(now))
	return nil
}

const openRun = `
SELECT ` + runColumns + `
FROM run AS x
WHERE x.status = 'running' AND x.kind = $1
ORDER BY x.id
LIMIT 1
/*SKIP LOCKED*/`

// The mark of a write: the triggers see these records as if they had just been written.
const markRecords = `
WITH page AS MATERIALIZED (
  SELECT rec.ws, rec.id FROM record AS rec
  WHERE rec.type = $1 AND rec.ws = $2 AND rec.id > $3
  ORDER BY rec.id
  LIMIT $4
  /*LOCK rec*/)
UPDATE record SET changed_at = CASE WHEN record.changed_at = 0 THEN $5 ELSE record.changed_at END,
  look_at = CASE WHEN record.look_at > 0 AND record.look_at < $5 THEN record.look_at ELSE $5 END
FROM page
WHERE record.ws = page.ws AND record.id = page.id
RETURNING record.id`

const advanceRun = `
UPDATE run SET cursor = $3, done = done + $4, updated_at = $5, status = $6, finished_at = $7
WHERE ws = $1 AND id = $2`

// AdvanceLook marks the next page of records of the oldest run that has them looked at, in one transaction, and returns
// how many these are; once there are none left, the run is done. Open is false when there is no run.
func (s *Store) AdvanceLook(ctx context.Context, now time.Time, limit int) (marked int, open bool, err error) {
	err = s.write(ctx, func(t *session) error {
		runs, err := query(ctx, t, scanRun, openRun, RunLook)
		marked, open = 0, len(runs) > 0
		if err != nil || !open {
			return err
		}
		run, at := runs[0], dueMicros(now)
		ids, err := query(ctx, t, scanInt, markRecords, run.Subject, int64(run.Workspace), run.Cursor, int64(limit), at)
		if err != nil {
			return fmt.Errorf("mark records: %w", err)
		}
		marked = len(ids)
		status, finished := RunRunning, int64(0)
		if marked > 0 {
			run.Cursor = slices.Max(ids)
		} else {
			status, finished = RunDone, at
		}
		t.due(at) // of what is marked, else of the next run
		_, err = t.exec(ctx, advanceRun, int64(run.Workspace), run.ID, run.Cursor, int64(marked), at, status, finished)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("advance a run: %w", err)
	}
	return marked, open, nil
}

const listRuns = `
SELECT ` + runColumns + `
FROM run AS x`

// Runs lists runs, the newest first.
func (s *Store) Runs(ctx context.Context, ws subject.WorkspaceID, p Page) ([]Run, error) {
	text, args := list(listRuns, "x", int64(ws), p).end("x", p)
	return all(ctx, s, "list runs", scanRun, text, args...)
}
