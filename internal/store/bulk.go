package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// A job over deliveries is a run of the kind retry or cancel. It goes through the ids of a workspace in pages, does with each
// delivery what a person does with one, each in a transaction of its own, in which it moves on: after a crash it goes on with the
// next one, and what it says of itself is what it has done.

// bulkWindow is how many deliveries of a workspace are read at once: a selection that finds few does not read all of them in one
// statement.
const bulkWindow = 5_000

const bulkWindowEnd = `
SELECT COALESCE(MAX(id), 0) FROM (SELECT id FROM delivery WHERE ws = $1 AND id > $2 AND id <= $3 ORDER BY id LIMIT $4) AS a`

const lastDelivery = `
SELECT COALESCE((SELECT id FROM delivery WHERE ws = $1 ORDER BY id DESC LIMIT 1), 0)`

const bulkPage = selectDeliveries + `
WHERE d.ws = $1 AND d.id > $2 AND d.id <= $3`

// LastDelivery is the id of the newest delivery of a workspace; 0: it has none.
func (s *Store) LastDelivery(ctx context.Context, ws subject.WorkspaceID) (delivery.ID, error) {
	id, _, err := first(ctx, s, "find the newest delivery", scanInt, lastDelivery, int64(ws))
	return delivery.ID(id), err
}

// Selected reads up to limit deliveries that a selection may concern, the lowest ids first, of those behind after and not beyond
// last. Whether it concerns one is decided by ToRetry and ToCancel: its statuses are not looked at here. through is the id up to
// which all have been read; 0: there are none left.
func (s *Store) Selected(ctx context.Context, ws subject.WorkspaceID, sel delivery.Selection, after, last delivery.ID, limit int) (rows []delivery.Row, through delivery.ID, err error) {
	end, _, err := first(ctx, s, "select deliveries", scanInt, bulkWindowEnd, int64(ws), int64(after), int64(last), int64(bulkWindow))
	if err != nil || end == 0 {
		return nil, 0, err
	}
	l := &listing{}
	l.text.WriteString(bulkPage)
	l.args = []any{int64(ws), int64(after), end}
	if sel.Workflow != "" {
		l.and("d.workflow = ?", sel.Workflow)
	}
	if sel.Channel != "" {
		l.and("d.channel = ?", sel.Channel)
	}
	if sel.Reason != "" {
		l.and("d.reason = ?", string(sel.Reason))
	}
	if !sel.Since.IsZero() {
		l.and("d.not_before >= ?", micros(sel.Since))
	}
	if !sel.Until.IsZero() {
		l.and("d.not_before < ?", micros(sel.Until))
	}
	l.text.WriteString("\nORDER BY d.id\nLIMIT ")
	l.bind("?", int64(limit))
	if rows, err = all(ctx, s, "select deliveries", scanDelivery, l.text.String(), l.args...); err != nil {
		return nil, 0, err
	}
	if len(rows) == limit {
		return rows, rows[limit-1].ID, nil
	}
	return rows, delivery.ID(end), nil
}

const beginBulk = `
INSERT INTO run (ws, id, kind, subject, definitions, status, total, started_at, updated_at, selection, actor, last_id)
VALUES ($1, $2, $3, $4, $5, ` + sqlRunRunning + `, $6, $7, $7, $8, $9, $10)`

const openBulk = `
SELECT ` + runColumns + `
FROM run AS x
WHERE x.ws = $1 AND x.status = ` + sqlRunRunning + ` AND x.kind = $2 AND x.selection = $3
ORDER BY x.id
LIMIT 1`

// OpenBulk returns the job over deliveries that runs for a selection; open is false if there is none.
func (t *Tx) OpenBulk(ws subject.WorkspaceID, kind, selection string) (run Run, open bool, err error) {
	runs, err := query(t, scanRun, openBulk, int64(ws), kind, selection)
	if err != nil || len(runs) == 0 {
		return run, false, err
	}
	return runs[0], true, nil
}

// BeginBulk begins a job over deliveries, and returns it with its id.
func (t *Tx) BeginBulk(now time.Time, run Run) (Run, error) {
	run.ID, run.Status, run.StartedAt, run.UpdatedAt = t.s.NewID(now), RunRunning, now, now
	_, err := t.exec(beginBulk, int64(run.Workspace), run.ID, run.Kind, run.Subject, run.Definitions, run.Total, dueMicros(now),
		run.Selection, run.Actor, run.LastID)
	t.due(dueMicros(now))
	return run, err
}

// BulkRun returns the oldest job over deliveries that is running; open is false when there is none.
func (s *Store) BulkRun(ctx context.Context) (run Run, open bool, err error) {
	for _, kind := range []string{RunRetry, RunCancel} {
		found, ok, err := first(ctx, s, "look for a run", scanRun, oldestRun, kind)
		if err != nil {
			return run, false, err
		}
		if ok && (!open || found.ID < run.ID) {
			run, open = found, true
		}
	}
	return run, open, nil
}

// JobStep is how far a job over deliveries goes with one of them.
type JobStep struct {
	Run     Run         // as it was found
	Cursor  delivery.ID // the delivery
	Done    int         // with those before it that could not be changed
	Changed bool
}

const moveJob = `
UPDATE run SET cursor = $4, done = done + $5, changed = changed + $6, updated_at = $7
WHERE ws = $1 AND id = $2 AND cursor = $3 AND status = ` + sqlRunRunning

// ErrMoved means that a job was moved on by somebody else, or has ended, and that nothing was written.
var ErrMoved = errors.New("the job was moved on meanwhile")

// MoveJob moves a job over deliveries on by one of them, in the transaction that changes it.
func (t *Tx) MoveJob(now time.Time, j JobStep) error {
	n, err := t.exec(moveJob, int64(j.Run.Workspace), j.Run.ID, j.Run.Cursor, int64(j.Cursor), int64(j.Done), flag(j.Changed), dueMicros(now))
	switch {
	case err != nil:
		return fmt.Errorf("move a job on: %w", err)
	case n == 0:
		return ErrMoved
	}
	return nil
}

// AdvanceBulk moves a job on from where it was found, past what it has not changed. When somebody else has moved it meanwhile, or it
// was cancelled, nothing is written, and moved is false.
func (s *Store) AdvanceBulk(ctx context.Context, now time.Time, run Run, step RunStep) (moved bool, err error) {
	err = s.Write(ctx, func(t *Tx) error {
		moved, err = t.MoveRun(now, run, step)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("move a job on: %w", err)
	}
	return moved, nil
}

const failRun = `
UPDATE run SET status = ` + sqlRunFailed + `, error = $3, updated_at = $4, finished_at = $4
WHERE ws = $1 AND id = $2 AND status = ` + sqlRunRunning

// FailBulk ends a job that cannot go on.
func (s *Store) FailBulk(ctx context.Context, now time.Time, run Run, cause error) error {
	err := s.Write(ctx, func(t *Tx) error {
		_, err := t.exec(failRun, int64(run.Workspace), run.ID, cause.Error(), dueMicros(now))
		return err
	})
	if err != nil {
		return fmt.Errorf("end a job: %w", err)
	}
	return nil
}
