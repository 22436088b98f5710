package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/subject"
)

// parents is a column with the parents of a record: a JSON list of [name, type, id]. Empty is none.
type parents struct {
	p          *[]subject.Parent
	unreadable *error
}

func (f parents) kind() string  { return "text" }
func (f parents) target() any   { return f }
func (f parents) isZero() bool  { return len(*f.p) == 0 }
func (f parents) put(r *rowset) { r.text(parentsText(*f.p)) }

func parentsText(all []subject.Parent) string {
	if len(all) == 0 {
		return ""
	}
	list := make([][3]string, len(all))
	for i, p := range all {
		list[i] = [3]string{p.Name, p.Type, p.ExtID}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(list) // lists of texts always have a JSON form
	return strings.TrimSpace(b.String())
}

// Scan implements sql.Scanner.
func (f parents) Scan(value any) error {
	var text sql.NullString
	if err := text.Scan(value); err != nil || text.String == "" {
		return err
	}
	var list [][3]string
	if err := json.Unmarshal([]byte(text.String), &list); err != nil {
		if *f.p = nil; *f.unreadable == nil {
			*f.unreadable = fmt.Errorf("parents: %w", err)
		}
		return nil
	}
	*f.p = make([]subject.Parent, len(list))
	for i, p := range list {
		(*f.p)[i] = subject.Parent{Name: p[0], RecordRef: subject.RecordRef{Type: p[1], ExtID: p[2]}}
	}
	return nil
}

const deleteParents = `
DELETE FROM record_parent WHERE (ws, child_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

const insertParents = `
INSERT INTO record_parent (ws, type, ext_id, child_id, name)
SELECT r.ws, r.type, r.ext_id, r.child_id, r.name FROM /*ROWS $1 (ws bigint, type text, ext_id text, child_id bigint, name text)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// writeParents writes from which records the children are found, of those whose parents have changed. The children are locked.
func (t *Tx) writeParents(ws subject.WorkspaceID, rows []*RecordRow, moved map[subject.RecordRef]bool) error {
	var children, list rowset
	for _, r := range rows {
		if !moved[r.Ref()] {
			continue
		}
		children.row().int(int64(ws)).int(int64(r.ID))
		for _, p := range r.Parents {
			list.row().int(int64(ws)).text(p.Type).text(p.ExtID).int(int64(r.ID)).text(p.Name)
		}
	}
	for _, statement := range []struct {
		text string
		rows *rowset
	}{{deleteParents, &children}, {insertParents, &list}} {
		if statement.rows.n == 0 {
			continue
		}
		if _, err := t.exec(statement.text, statement.rows); err != nil {
			return fmt.Errorf("write parents of records: %w", err)
		}
	}
	return nil
}

// childrenOf returns one more child of each record than is read at most, so that the reader knows that there are more.
const childrenOf = `
SELECT p.ws, p.type, p.ext_id, c.type, c.ext_id
FROM /*ROWS $2 (ws bigint, type text, ext_id text)*/ AS r CROSS JOIN record_parent AS p CROSS JOIN record AS c
WHERE p.ext_id = r.ext_id AND p.type = r.type AND p.ws = r.ws AND c.ws = p.ws AND c.id = p.child_id
  AND p.child_id <= COALESCE((
    SELECT q.child_id FROM record_parent AS q
    WHERE q.ext_id = r.ext_id AND q.type = r.type AND q.ws = r.ws
    ORDER BY q.child_id LIMIT 1 OFFSET $1), 9223372036854775807)`

// readChildren adds to read which the children of records are, ordered by type and id: up to one more than the bound of children.
func (t *Tx) readChildren(read Related, refs []RelatedRef) error {
	var wanted rowset
	for _, r := range refs {
		of := subject.ParseRecordRef(r.ExtID)
		wanted.row().int(int64(r.Workspace)).text(of.Type).text(of.ExtID)
		read[r] = &subject.Record{Type: r.Type, ExtID: r.ExtID}
	}
	if wanted.n == 0 {
		return nil
	}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var of, child subject.RecordRef
		var ws subject.WorkspaceID
		err := rows.Scan(&ws, &of.Type, &of.ExtID, &child.Type, &child.ExtID)
		if list := read[RelatedRef{ws, subject.ChildrenOf(of)}]; list != nil {
			list.Children = append(list.Children, child)
		}
		return struct{}{}, err
	}, childrenOf, int64(subject.MaxChildren), &wanted)
	if err != nil {
		return fmt.Errorf("read children of records: %w", err)
	}
	for _, r := range refs {
		list := read[r]
		slices.SortFunc(list.Children, subject.RecordRef.Compare)
	}
	return nil
}

const recordChildren = `
SELECT /*NAMES rec (` + recordSpec + `)*/, p.name
FROM record_parent AS p CROSS JOIN record AS rec
WHERE p.ext_id = $1 AND p.type = $2 AND p.ws = $3 AND p.child_id > $4 AND rec.ws = p.ws AND rec.id = p.child_id
ORDER BY p.child_id, p.name
LIMIT $5`

// Child is a record with the name by which it names its parent.
type Child struct {
	RecordRow
	Name string
}

// Children lists the children of a record in the order of their creation, after one of them; 0: from the first.
func (s *Store) Children(ctx context.Context, ws subject.WorkspaceID, of subject.RecordRef, after subject.RecordID, limit int) ([]Child, error) {
	scan := func(rows *sql.Rows) (c Child, err error) {
		c.RecordRow, err = scanRecordRow(rows, &c.Name)
		return c, err
	}
	return all(ctx, s, "list children of a record", scan, recordChildren, of.ExtID, of.Type, int64(ws), int64(after), int64(limit))
}

// changeFamilies requests the evaluation of the records that depend on the children of records. A job asks which records these are: it
// begins after the commit, so that it finds also a record whose evaluation did not see this write.
func (t *Tx) changeFamilies(ws subject.WorkspaceID, now time.Time, of []subject.RecordRef) error {
	if len(of) == 0 {
		return nil
	}
	number, err := query(t, scanInt, definitionsNumber, int64(ws))
	if err != nil || len(number) == 0 {
		return err
	}
	names := make([]string, len(of))
	for i, r := range of {
		names[i] = r.String()
	}
	slices.Sort(names)
	return t.announce(ws, now, number[0], subject.ChildrenType, slices.Compact(names))
}

// announce adds a job that requests the evaluation of the records that depend on others of a type.
func (t *Tx) announce(ws subject.WorkspaceID, now time.Time, definitions int64, typ string, ids []string) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("write what has changed: %w", err)
	}
	j := job.New(ws, job.Seed{Kind: job.Related, Subject: typ}, definitions, now)
	j.Selection = string(list)
	_, err = t.AddJobs(now, []job.Row{j})
	return err
}
