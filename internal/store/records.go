package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// RecordRow is a record with the state of its triggers. A deleted record keeps its row, so that its counts still hold when
// it is made again (R10).
type RecordRow struct {
	subject.Record
	ChangedAt   time.Time // the first write since the last evaluation; zero: there is none
	EvaluateAt  time.Time // when the next evaluation is due; zero: when it next changes
	EvaluatedAt time.Time // when the last evaluation was
	State       string    // JSON: the state of each trigger; empty if there is none
	Failures    int       // failed evaluations in a row
	// Unreadable is why its fields cannot be read, as after a damaged restore. Props is then empty. Other records of a batch
	// or list are not affected.
	Unreadable error
	Links      string // the records it depended on at its last evaluation, in LinkText's form
	Across     bool   // of a write: fields that related records read have changed
}

// Ref names the record.
func (r RecordRow) Ref() subject.RecordRef { return subject.RecordRef{Type: r.Type, ExtID: r.ExtID} }

// recordColumns are the columns of recordRow; their alias is rec.
const recordColumns = `rec.id, rec.type, rec.ext_id, rec.props, rec.closed, rec.deleted, rec.rev, rec.modified_by, rec.created_at, rec.updated_at,
  rec.changed_at, rec.evaluate_at, rec.evaluated_at, rec.state, rec.failures, rec.links`

func scanRecordRow(rows *sql.Rows) (RecordRow, error) { return scanRecordRowAnd(rows) }

func scanRecordRowAnd(rows *sql.Rows, after ...any) (r RecordRow, err error) {
	var props string
	err = rows.Scan(append([]any{
		&r.ID, &r.Type, &r.ExtID, &props, &r.Closed, &r.Deleted, &r.Rev, &r.ModifiedBy,
		instant{&r.CreatedAt},
		instant{&r.UpdatedAt},
		instant{&r.ChangedAt},
		instant{&r.EvaluateAt},
		instant{&r.EvaluatedAt},
		&r.State,
		&r.Failures,
		&r.Links,
	}, after...)...)
	if err != nil {
		return r, err
	}
	d := json.NewDecoder(strings.NewReader(props))
	d.UseNumber() // a number keeps the text it was written with
	if err := d.Decode(&r.Props); err != nil {
		r.Props = nil
		r.Unreadable = fmt.Errorf("the fields of record %s/%s cannot be read as they are stored: %w; write it whole, which replaces them", r.Type, r.ExtID, err)
	}
	return r, nil
}

// RecordJSON returns the stored form of a record's fields.
func RecordJSON(props map[string]any) (string, error) {
	if props == nil {
		return "{}", nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(props); err != nil {
		return "", fmt.Errorf("%w: the fields of a record cannot be written: %w", ErrInvalid, err)
	}
	return string(bytes.TrimSpace(text.Bytes())), nil
}

const recordByName = `
SELECT ` + recordColumns + `
FROM record AS rec
WHERE /*BY NAME*/rec.ws = $1 AND rec.type/*BY NAME*/ = $2 AND rec.ext_id = $3 AND rec.deleted = 0`

// Record returns one record, or ErrNotFound if it does not exist or is deleted.
func (s *Store) Record(ctx context.Context, ws subject.WorkspaceID, ref subject.RecordRef) (RecordRow, error) {
	return one(ctx, s, "read record", scanRecordRow, recordByName, int64(ws), ref.Type, ref.ExtID)
}

const recordByID = `
SELECT ` + recordColumns + `
FROM record AS rec
WHERE rec.ws = $1 AND rec.id = $2`

// RecordByID returns a record by its row id, even a deleted one, or ErrNotFound.
func (s *Store) RecordByID(ctx context.Context, ws subject.WorkspaceID, id subject.RecordID) (RecordRow, error) {
	return one(ctx, s, "read record", scanRecordRow, recordByID, int64(ws), int64(id))
}

const listRecords = `
SELECT ` + recordColumns + `
FROM record AS rec`

// Records lists the records of a type, the newest first, without the deleted ones.
func (s *Store) Records(ctx context.Context, ws subject.WorkspaceID, typ string, p Page) ([]RecordRow, error) {
	l := list(listRecords, "rec", int64(ws), p)
	l.and("rec.type = ?", typ)
	l.and("rec.deleted = ?", 0)
	text, args := l.end("rec", p)
	return all(ctx, s, "list records", scanRecordRow, text, args...)
}

const recordsAfter = `
SELECT ` + recordColumns + `
FROM record AS rec
WHERE rec.type = $1 AND rec.ws = $2 AND rec.id > $3 AND rec.deleted = 0
ORDER BY rec.id
LIMIT $4`

// RecordsAfter reads the records of a type in the order of their creation, after one of them; 0: from the first. It leaves
// deleted ones out.
func (s *Store) RecordsAfter(ctx context.Context, ws subject.WorkspaceID, typ string, after subject.RecordID, limit int) ([]RecordRow, error) {
	return all(ctx, s, "read records", scanRecordRow, recordsAfter, typ, int64(ws), int64(after), int64(limit))
}

// Steps from one type to the next in the index: the number of records does not matter.
const recordTypes = `
WITH RECURSIVE known(type) AS (
  SELECT min(a.type) FROM record AS a WHERE a.ws = $1
  UNION ALL
  SELECT (SELECT min(b.type) FROM record AS b WHERE b.ws = $1 AND b.type > known.type)
  FROM known
  WHERE known.type IS NOT NULL
)
SELECT known.type FROM known
WHERE known.type IS NOT NULL
  AND EXISTS (SELECT 1 FROM record AS c WHERE c.ws = $1 AND c.type = known.type AND c.deleted = 0)
ORDER BY known.type`

const recordNames = `
SELECT rec.id, rec.type, rec.ext_id
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN record AS rec
WHERE rec.ws = r.ws AND rec.id = r.id`

// RecordNames returns the names by which callers know records.
func (s *Store) RecordNames(ctx context.Context, ws subject.WorkspaceID, ids []subject.RecordID) (map[subject.RecordID]subject.RecordRef, error) {
	names := make(map[subject.RecordID]subject.RecordRef, len(ids))
	var wanted rowset
	for _, id := range ids {
		if _, known := names[id]; !known {
			names[id] = subject.RecordRef{}
			wanted.row().int(int64(ws)).int(int64(id))
		}
	}
	err := s.Read(ctx, func(t *Tx) error {
		_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
			var id subject.RecordID
			var ref subject.RecordRef
			err := rows.Scan(&id, &ref.Type, &ref.ExtID)
			names[id] = ref
			return struct{}{}, err
		}, recordNames, &wanted)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read names of records: %w", err)
	}
	return names, nil
}

// RecordTypes lists the types that have records, by name.
func (s *Store) RecordTypes(ctx context.Context, ws subject.WorkspaceID) ([]string, error) {
	scan := func(rows *sql.Rows) (v string, err error) { return v, rows.Scan(&v) }
	types, err := all(ctx, s, "list types of records", scan, recordTypes, int64(ws))
	slices.Sort(types) // databases order texts differently
	return types, err
}

const lockRecords = `
SELECT rec.id
FROM /*ROWS $1 (ws bigint, type text, ext_id text)*/ AS r CROSS JOIN record AS rec
WHERE /*BY NAME*/rec.ws = r.ws AND rec.type/*BY NAME*/ = r.type AND rec.ext_id = r.ext_id
ORDER BY rec.id
/*LOCK rec*/`

const recordsByName = `
SELECT ` + recordColumns + `
FROM /*ROWS $1 (ws bigint, type text, ext_id text)*/ AS r CROSS JOIN record AS rec
WHERE /*BY NAME*/rec.ws = r.ws AND rec.type/*BY NAME*/ = r.type AND rec.ext_id = r.ext_id`

const recordSpec = `ws bigint, id bigint, type text, ext_id text, props text, closed bigint, deleted bigint, rev bigint, modified_by text,
  changed_at bigint, evaluate_at bigint, created_at bigint, updated_at bigint`

const insertRecords = `
INSERT INTO record (/*NAMES (` + recordSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + recordSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// The mark: the record is due for evaluation now, and changed_at keeps the time of the first write since the last
// evaluation.
const updateRecords = `
UPDATE record SET props = r.props, closed = r.closed, deleted = r.deleted, rev = r.rev, modified_by = r.modified_by, updated_at = $1,
  changed_at = CASE WHEN record.changed_at = 0 THEN $1 ELSE record.changed_at END,
  evaluate_at = CASE WHEN record.evaluate_at > 0 AND record.evaluate_at < $1 THEN record.evaluate_at ELSE $1 END
FROM /*ROWS $2 (ws bigint, id bigint, props text, closed bigint, deleted bigint, rev bigint, modified_by text)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id AND record.rev = r.rev - 1`

// LockRecords locks and returns the records that exist, deleted ones included. It locks in the order of row ids, as the
// evaluation does, and reads in a second statement, because a statement that waited for a lock sees the records as they were
// before.
func (t *Tx) LockRecords(ws subject.WorkspaceID, refs []subject.RecordRef) (map[subject.RecordRef]RecordRow, error) {
	var wanted rowset
	for _, ref := range slices.Compact(slices.SortedFunc(slices.Values(refs), subject.RecordRef.Compare)) {
		wanted.row().int(int64(ws)).text(ref.Type).text(ref.ExtID)
	}
	var locked []int64
	var err error
	if t.s.dialect.lock != "" {
		if locked, err = query(t, scanInt, lockRecords, &wanted); err != nil {
			return nil, fmt.Errorf("lock records: %w", err)
		}
	}
	found, err := query(t, scanRecordRow, recordsByName, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	if t.s.dialect.lock != "" && len(found) > len(locked) {
		return nil, ErrAgain // one was made between the two statements, and is not locked
	}
	known := make(map[subject.RecordRef]RecordRow, len(found))
	for _, r := range found {
		known[r.Ref()] = r
	}
	return known, nil
}

// WriteRecords writes records, each at most once, and marks them for evaluation. A record without ID is inserted. It sets
// Rev, CreatedAt and UpdatedAt.
func (t *Tx) WriteRecords(ws subject.WorkspaceID, now time.Time, writes []RecordRow) error {
	// One order everywhere: no deadlock.
	writes = slices.SortedFunc(slices.Values(writes), func(a, b RecordRow) int { return a.Ref().Compare(b.Ref()) })
	mark := dueMicros(now)
	var made, changed rowset
	for _, w := range writes {
		props, err := RecordJSON(w.Props)
		if err != nil {
			return err
		}
		if w.ID == 0 {
			made.row().int(int64(ws)).int(t.s.NewID(now)).text(w.Type).text(w.ExtID).text(props).flag(w.Closed).flag(w.Deleted).int(1).
				text(w.ModifiedBy).int(mark).int(mark).int(mark).int(mark)
			continue
		}
		changed.row().int(int64(ws)).int(int64(w.ID)).text(props).flag(w.Closed).flag(w.Deleted).int(w.Rev + 1).text(w.ModifiedBy)
	}
	if n, err := t.exec(insertRecords, &made); err != nil {
		return fmt.Errorf("insert records: %w", err)
	} else if n < int64(made.n) {
		return ErrAgain
	}
	if n, err := t.exec(updateRecords, mark, &changed); err != nil {
		return fmt.Errorf("update records: %w", err)
	} else if n < int64(changed.n) {
		return errors.Join(ErrConflict, fmt.Errorf("%d of %d records were changed meanwhile", int64(changed.n)-n, changed.n))
	}
	if len(writes) > 0 {
		t.due(mark)
	}
	var across []subject.RecordRef
	for _, w := range writes {
		if w.Across {
			across = append(across, w.Ref())
		}
	}
	return t.beginRelated(ws, now, across)
}
