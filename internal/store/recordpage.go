package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// PageRecord is a record as a job reads it: without a lock, with the columns that triggers can read, and with its stored
// fields.
type PageRecord struct {
	RecordRow
	PropsJSON string
}

const recordPage = `
SELECT rec.id, rec.ext_id, rec.props, rec.closed, rec.deleted, rec.modified_by, rec.owner, rec.parents, rec.created_at, rec.updated_at, rec.evaluate_at,
  rec.evaluated_at, rec.state, rec.links
FROM record AS rec
WHERE rec.type = $1 AND rec.ws = $2 AND rec.id > $3
ORDER BY rec.id
LIMIT $4`

// RecordPage reads up to limit records of a type with ids after one. It takes no locks.
func (s *Store) RecordPage(ctx context.Context, ws subject.WorkspaceID, typ string, after int64, limit int) (page []PageRecord, err error) {
	err = s.ReadBatch(ctx, func(t *Tx) (err error) {
		page, err = query(t, func(rows *sql.Rows) (p PageRecord, err error) {
			p.Type = typ
			return p, rows.Scan(&p.ID, &p.ExtID, &p.PropsJSON, &p.Closed, &p.Deleted, &p.ModifiedBy, &p.Owner, parents{&p.Parents, &p.Unreadable},
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
  evaluate_at = CASE WHEN record.evaluate_at > 0 AND record.evaluate_at < $1 THEN record.evaluate_at ELSE $1 END
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id`

// MarkRecords requests the evaluation of records of a workspace, as if they had just been written.
func (t *Tx) MarkRecords(ws subject.WorkspaceID, now time.Time, ids []subject.RecordID) error {
	at := dueMicros(now)
	var rows rowset
	for _, id := range slices.Sorted(slices.Values(ids)) {
		rows.row().int(int64(ws)).int(int64(id))
	}
	if _, err := t.exec(markRecords, at, &rows); err != nil {
		return fmt.Errorf("mark records: %w", err)
	}
	if len(ids) > 0 {
		t.due(WorkRecords, at)
	}
	return nil
}
