package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
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
	Links       string    // the records it depended on at its last evaluation, in LinkText's form
	// Unreadable is why its fields cannot be read, as after a damaged restore. Props is then empty. Other records of a batch
	// or list are not affected.
	Unreadable error
}

// The names of the sets of columns of a record.
const (
	recordSpec        = "record"
	newRecordSpec     = "new_record"
	changedRecordSpec = "changed_record"
)

var (
	recordColumns = named(recordSpec, columnsOf[RecordRow]{
		{"id", func(r *RecordRow) field { return integer(&r.ID) }},
		{"type", func(r *RecordRow) field { return text(&r.Type) }},
		{"ext_id", func(r *RecordRow) field { return text(&r.ExtID) }},
		{"props", func(r *RecordRow) field { return document[any]{&r.Props, "{}", &r.Unreadable} }},
		{"closed", func(r *RecordRow) field { return boolean{&r.Closed} }},
		{"deleted", func(r *RecordRow) field { return boolean{&r.Deleted} }},
		{"rev", func(r *RecordRow) field { return integer(&r.Rev) }},
		{"modified_by", func(r *RecordRow) field { return text(&r.ModifiedBy) }},
		{"owner", func(r *RecordRow) field { return text(&r.Owner) }},
		{"parents", func(r *RecordRow) field { return parents{&r.Parents, &r.Unreadable} }},
		{"created_at", func(r *RecordRow) field { return dueMoment{moment{&r.CreatedAt}} }},
		{"updated_at", func(r *RecordRow) field { return dueMoment{moment{&r.UpdatedAt}} }},
		{"changed_at", func(r *RecordRow) field { return dueMoment{moment{&r.ChangedAt}} }},
		{"evaluate_at", func(r *RecordRow) field { return dueMoment{moment{&r.EvaluateAt}} }},
		{"evaluated_at", func(r *RecordRow) field { return moment{&r.EvaluatedAt} }},
		{"state", func(r *RecordRow) field { return text(&r.State) }},
		{"failures", func(r *RecordRow) field { return integer(&r.Failures) }},
		{"links", func(r *RecordRow) field { return text(&r.Links) }},
	})
	newRecordColumns     = named(newRecordSpec, recordColumns.without("evaluated_at", "state", "failures", "links"))
	changedRecordColumns = named(changedRecordSpec, recordColumns.only("props", "closed", "deleted", "rev", "modified_by", "owner", "parents"))
)

func scanRecord(rows *sql.Rows) (RecordRow, error) { return scanRecordRow(rows) }

func scanRecordRow(rows *sql.Rows, after ...any) (RecordRow, error) {
	r, err := recordColumns.scan(rows, after...)
	if r.Unreadable != nil {
		r.Unreadable = fmt.Errorf("the fields of record %s/%s cannot be read as they are stored: %w; write it whole, which replaces them", r.Type, r.ExtID, r.Unreadable)
	}
	return r, err
}

// RecordJSON returns the stored form of a record's fields.
func RecordJSON(props map[string]any) (string, error) {
	if props == nil {
		return "{}", nil
	}
	return objectJSON(props)
}

const recordByName = `
SELECT /*NAMES rec (` + recordSpec + `)*/
FROM record AS rec
WHERE /*BY NAME*/rec.ws = $1 AND rec.type/*BY NAME*/ = $2 AND rec.ext_id = $3 AND rec.deleted = 0`

// Record returns one record, or ErrNotFound if it does not exist or is deleted.
func (s *Store) Record(ctx context.Context, ws subject.WorkspaceID, ref subject.RecordRef) (RecordRow, error) {
	return one(ctx, s, "read record", scanRecord, recordByName, int64(ws), ref.Type, ref.ExtID)
}

const recordByID = `
SELECT /*NAMES rec (` + recordSpec + `)*/
FROM record AS rec
WHERE rec.ws = $1 AND rec.id = $2`

// RecordByID returns a record by its row id, even a deleted one, or ErrNotFound.
func (s *Store) RecordByID(ctx context.Context, ws subject.WorkspaceID, id subject.RecordID) (RecordRow, error) {
	return one(ctx, s, "read record", scanRecord, recordByID, int64(ws), int64(id))
}

const listRecords = `
SELECT /*NAMES rec (` + recordSpec + `)*/
FROM record AS rec`

// Records lists the records of a type, the newest first, without the deleted ones.
func (s *Store) Records(ctx context.Context, ws subject.WorkspaceID, typ string, p Page) ([]RecordRow, error) {
	l := list(listRecords, "rec", int64(ws), p)
	l.and("rec.type = ?", typ)
	l.and("rec.deleted = ?", 0)
	text, args := l.end("rec", p)
	return all(ctx, s, "list records", scanRecord, text, args...)
}

const recordsAfter = `
SELECT /*NAMES rec (` + recordSpec + `)*/
FROM record AS rec
WHERE rec.type = $1 AND rec.ws = $2 AND rec.id > $3 AND rec.deleted = 0
ORDER BY rec.id
LIMIT $4`

// RecordsAfter reads the records of a type in the order of their creation, after one of them; 0: from the first. It leaves
// deleted ones out.
func (s *Store) RecordsAfter(ctx context.Context, ws subject.WorkspaceID, typ string, after subject.RecordID, limit int) ([]RecordRow, error) {
	return all(ctx, s, "read records", scanRecord, recordsAfter, typ, int64(ws), int64(after), int64(limit))
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
SELECT /*NAMES rec (` + recordSpec + `)*/
FROM /*ROWS $1 (ws bigint, type text, ext_id text)*/ AS r CROSS JOIN record AS rec
WHERE /*BY NAME*/rec.ws = r.ws AND rec.type/*BY NAME*/ = r.type AND rec.ext_id = r.ext_id`

const insertRecords = `
INSERT INTO record (ws, /*NAMES (` + newRecordSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (ws bigint, ` + newRecordSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// The mark: the record is due for evaluation now, and changed_at keeps the time of the first write since the last
// evaluation.
const updateRecords = `
UPDATE record SET /*SET r (` + changedRecordSpec + `)*/, updated_at = $1,
  changed_at = CASE WHEN record.changed_at = 0 THEN $1 ELSE record.changed_at END,
  evaluate_at = CASE WHEN record.evaluate_at > 0 AND record.evaluate_at < $1 THEN record.evaluate_at ELSE $1 END
FROM /*ROWS $2 (ws bigint, id bigint, ` + changedRecordSpec + `)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id AND record.rev = r.rev - 1`

var upsertRecords = upsert[subject.RecordRef, RecordRow, subject.RecordID]{
	what: "records", lock: lockRecords, read: recordsByName, insert: insertRecords, update: updateRecords,
	made: newRecordColumns, changed: changedRecordColumns, scan: scanRecord,
	name: func(r *RecordRow) subject.RecordRef { return r.Ref() },
	id:   func(r *RecordRow) *subject.RecordID { return &r.ID },
}

// LockRecords locks and returns the records that exist, deleted ones included. It locks in the order of row ids, as the
// evaluation does.
func (t *Tx) LockRecords(ws subject.WorkspaceID, refs []subject.RecordRef) (map[subject.RecordRef]RecordRow, error) {
	var wanted rowset
	for _, ref := range slices.Compact(slices.SortedFunc(slices.Values(refs), subject.RecordRef.Compare)) {
		wanted.row().int(int64(ws)).text(ref.Type).text(ref.ExtID)
	}
	return upsertRecords.locked(t, &wanted)
}

// RecordWrites are records that are written together, each at most once. A record without ID is inserted.
type RecordWrites struct {
	Records []RecordRow
	// Across are those of them of which fields have changed that related records read.
	Across []subject.RecordRef
	// Moved are those of them whose parents have changed.
	Moved map[subject.RecordRef]bool
	// Families are the records of whose children something has changed that triggers read.
	Families []subject.RecordRef
}

// WriteRecords writes records, and marks them for evaluation. It sets Rev, CreatedAt and UpdatedAt.
func (t *Tx) WriteRecords(ws subject.WorkspaceID, now time.Time, w RecordWrites) error {
	// One order everywhere: no deadlock.
	writes := slices.SortedFunc(slices.Values(w.Records), func(a, b RecordRow) int { return a.Ref().Compare(b.Ref()) })
	rows := make([]*RecordRow, len(writes))
	for i := range writes {
		w := &writes[i]
		w.Rev++
		if w.ID == 0 {
			w.Rev, w.CreatedAt, w.UpdatedAt, w.ChangedAt, w.EvaluateAt = 1, now, now, now, now
		}
		rows[i] = w
	}
	if err := upsertRecords.write(t, ws, now, rows); err != nil {
		return err
	}
	if err := t.keepPlaces(ws, writes); err != nil {
		return err
	}
	if err := t.writeParents(ws, rows, w.Moved); err != nil {
		return err
	}
	if len(writes) > 0 {
		t.due(WorkRecords, dueMicros(now))
	}
	slices.SortFunc(w.Across, subject.RecordRef.Compare)
	if err := t.beginRelated(ws, now, w.Across); err != nil {
		return err
	}
	return t.changeFamilies(ws, now, w.Families)
}
