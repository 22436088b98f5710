package store

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// bulkWindow is how many deliveries of a workspace are read at once: a selection that finds few does not read all of them in one
// statement.
const bulkWindow = 5_000

const bulkWindowEnd = `
SELECT COALESCE(MAX(id), 0) FROM (SELECT id FROM delivery WHERE ws = $1 AND id > $2 AND id <= $3 ORDER BY id LIMIT $4) AS a`

const lastDelivery = `
SELECT COALESCE((SELECT id FROM delivery WHERE ws = $1 ORDER BY id DESC LIMIT 1), 0)`

const bulkPage = selectShown + `
WHERE d.ws = $1 AND d.id > $2 AND d.id <= $3 AND ` + notDeleted

// LastDelivery is the id of the newest delivery of a workspace; 0: it has none.
func (s *Store) LastDelivery(ctx context.Context, ws subject.WorkspaceID) (delivery.ID, error) {
	id, _, err := first(ctx, s, "find the newest delivery", scanInt, lastDelivery, int64(ws))
	return delivery.ID(id), err
}

// LastDelivery is the id of the newest delivery of a workspace; 0: it has none.
func (t *Tx) LastDelivery(ws subject.WorkspaceID) (delivery.ID, error) {
	ids, err := query(t, scanInt, lastDelivery, int64(ws))
	if err != nil {
		return 0, fmt.Errorf("find the newest delivery: %w", err)
	}
	return delivery.ID(ids[0]), nil
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
		l.forReason(sel.Reason)
	}
	if !sel.Since.IsZero() {
		l.and("d.not_before >= ?", micros(sel.Since))
	}
	if !sel.Until.IsZero() {
		l.and("d.not_before < ?", micros(sel.Until))
	}
	l.text.WriteString("\nORDER BY d.id\nLIMIT ")
	l.bind("?", int64(limit))
	if rows, err = all(ctx, s, "select deliveries", scanShown, l.text.String(), l.args...); err != nil {
		return nil, 0, err
	}
	if len(rows) == limit {
		return rows, rows[limit-1].ID, nil
	}
	return rows, delivery.ID(end), nil
}

const openBulk = selectJobs + `
WHERE x.ws = $1 AND x.status = ` + sqlJobRunning + ` AND x.kind = $2 AND x.selection = $3
ORDER BY x.id
LIMIT 1`

const lockBulk = `
SELECT pg_advisory_xact_lock($1)`

// OpenBulk returns the running job of a kind and selection; open is false if there is none. Until the transaction ends, others that ask for the same one
// wait, so that two requests at once begin one job.
func (t *Tx) OpenBulk(ws subject.WorkspaceID, kind job.Kind, selection string) (found job.Row, open bool, err error) {
	if t.s.dialect.advisory {
		if _, err := t.exec(lockBulk, lockID(ws, key.Hash("run\n"+string(kind)+"\n"+selection))); err != nil {
			return job.Row{}, false, fmt.Errorf("lock a selection: %w", err)
		}
	}
	jobs, err := query(t, scanJob, openBulk, int64(ws), string(kind), selection)
	if err != nil || len(jobs) == 0 {
		return job.Row{}, false, err
	}
	return jobs[0], true, nil
}
