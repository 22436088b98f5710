package store

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/subject"
)

// RelatedRef names a record that another one depends on.
type RelatedRef struct {
	Workspace subject.WorkspaceID
	subject.RecordRef
}

// Related maps to the records that were read; nil: the record does not exist or cannot be read.
type Related map[RelatedRef]*subject.Record

// ByWorkspace groups the records by workspace.
func (r Related) ByWorkspace() map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record {
	all := map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record{}
	for relative, record := range r {
		if all[relative.Workspace] == nil {
			all[relative.Workspace] = map[subject.RecordRef]*subject.Record{}
		}
		all[relative.Workspace][relative.RecordRef] = record
	}
	return all
}

// MaxRelations bounds how many relations are followed in a row; each takes one round of reading, and children two.
const MaxRelations = 6

const relatives = `
SELECT /*NAMES rec (` + recordSpec + `)*/, rec.ws
FROM /*ROWS $1 (ws bigint, type text, ext_id text)*/ AS r CROSS JOIN record AS rec
WHERE /*BY NAME*/rec.ws = r.ws AND rec.type/*BY NAME*/ = r.type AND rec.ext_id = r.ext_id`

// relatedPlaces reads places with all that are above them, in one round.
const relatedPlaces = `
WITH RECURSIVE up(ws, name) AS (
  SELECT p.ws, p.name FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN place AS p WHERE p.ws = r.ws AND p.name = r.ext_id
  UNION
  SELECT l.ws, l.parent FROM up CROSS JOIN place AS l WHERE l.ws = up.ws AND l.name = up.name AND l.parent <> ''
)
SELECT /*NAMES rec (` + recordSpec + `)*/, rec.ws
FROM up CROSS JOIN record AS rec
WHERE /*BY NAME*/rec.ws = up.ws AND rec.type/*BY NAME*/ = '` + subject.PlaceType + `' AND rec.ext_id = up.name`

const zonesOfContacts = `
SELECT p.ws, p.ext_id, CASE WHEN c.merged_into > 0
    THEN COALESCE((SELECT h.timezone FROM contact AS h WHERE h.ws = c.ws AND h.id = c.merged_into), p.timezone) ELSE p.timezone END
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id AND c.ws = p.ws AND c.contact_id = p.id`

// ReadRelated adds to read the records and contacts of refs that are not in it yet, without a lock. Of a contact it reads the zone, as the
// field timezone; of the children of a record which they are. It returns false if all of them are in it.
func (t *Tx) ReadRelated(read Related, refs []RelatedRef) (more bool, err error) {
	var wanted, places, contacts rowset
	var families []RelatedRef
	for _, r := range refs {
		if _, known := read[r]; known {
			continue
		}
		read[r] = nil
		switch r.Type {
		case subject.ContactType:
			contacts.row().int(int64(r.Workspace)).text(r.ExtID)
		case subject.PlaceType:
			places.row().int(int64(r.Workspace)).text(r.ExtID)
		case subject.ChildrenType:
			families = append(families, r)
		default:
			wanted.row().int(int64(r.Workspace)).text(r.Type).text(r.ExtID)
		}
	}
	if err := t.readChildren(read, families); err != nil {
		return false, err
	}
	for _, of := range []struct {
		text string
		rows *rowset
	}{{relatives, &wanted}, {relatedPlaces, &places}} {
		_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
			var ws subject.WorkspaceID
			row, err := scanRecordRow(rows, &ws)
			if row.Unreadable == nil { // an unreadable record counts as missing; its own evaluation reports it
				read[RelatedRef{ws, row.Ref()}] = &row.Record
			}
			return struct{}{}, err
		}, of.text, of.rows)
		if err != nil {
			return false, fmt.Errorf("read related records: %w", err)
		}
	}
	_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
		ref := RelatedRef{RecordRef: subject.RecordRef{Type: subject.ContactType}}
		var zone string
		err := rows.Scan(&ref.Workspace, &ref.ExtID, &zone)
		read[ref] = &subject.Record{Type: ref.Type, ExtID: ref.ExtID, Props: map[string]any{"timezone": zone}}
		return struct{}{}, err
	}, zonesOfContacts, &contacts)
	if err != nil {
		return false, fmt.Errorf("read zones of contacts: %w", err)
	}
	return wanted.n+places.n > 0 || len(families) > 0, nil // a contact depends on nothing
}

// Links are the records and contacts that a record depends on.
type Links struct {
	Workspace subject.WorkspaceID
	ID        subject.RecordID
	Refs      []subject.RecordRef
}

// LinkText returns the stored form of a record's links, sorted, so that equal links give equal texts.
func LinkText(refs []subject.RecordRef) string {
	var b strings.Builder
	for i, r := range refs {
		if i > 0 {
			b.WriteByte('\n') // ids contain no control characters
		}
		b.WriteString(r.Type)
		b.WriteByte('/')
		b.WriteString(r.ExtID)
	}
	return b.String()
}

const deleteLinks = `
DELETE FROM record_link WHERE (ws, child_id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r)`

const insertLinks = `
INSERT INTO record_link (ws, type, ext_id, child_id)
SELECT r.ws, r.type, r.ext_id, r.child_id FROM /*ROWS $1 (ws bigint, type text, ext_id text, child_id bigint)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const updateLinks = `
UPDATE record SET links = r.links
FROM /*ROWS $1 (ws bigint, id bigint, links text)*/ AS r
WHERE record.ws = r.ws AND record.id = r.id`

// writeLinks writes which records others depend on. The children are locked.
func (t *Tx) writeLinks(all []Links) error {
	var children, texts, links rowset
	for _, l := range all {
		children.row().int(int64(l.Workspace)).int(int64(l.ID))
		texts.row().int(int64(l.Workspace)).int(int64(l.ID)).text(LinkText(l.Refs))
		for _, r := range l.Refs {
			links.row().int(int64(l.Workspace)).text(r.Type).text(r.ExtID).int(int64(l.ID))
		}
	}
	for _, statement := range []struct {
		text string
		rows *rowset
	}{{deleteLinks, &children}, {insertLinks, &links}, {updateLinks, &texts}} {
		if _, err := t.exec(statement.text, statement.rows); err != nil {
			return fmt.Errorf("write links of records: %w", err)
		}
	}
	return nil
}

// held reads records as they are now and locks them against writes until the transaction ends. It skips records that another
// transaction is writing: waiting for one of them could close a cycle of waits.
const held = `
SELECT rec.ws, rec.type, rec.ext_id, rec.rev
FROM /*ROWS $1 (ws bigint, type text, ext_id text)*/ AS r CROSS JOIN record AS rec
WHERE /*BY NAME*/rec.ws = r.ws AND rec.type/*BY NAME*/ = r.type AND rec.ext_id = r.ext_id
/*SHARE rec*/`

// again is when an evaluation is repeated that ran while a related record was being written.
const again = time.Second

// holdRelated locks the records that others depend on from now on until the links are written. Otherwise a write of such a
// record would look for its children and not find them yet. A record that is being written at this moment cannot be locked;
// its links are left out, and the child is evaluated again. If a record was written since it was read, the transaction runs
// again.
func (t *Tx) holdRelated(now time.Time, related Related, w *EvaluateWrites) error {
	if t.s.dialect.lock == "" { // there is one writer
		return nil
	}
	var wanted rowset
	for _, l := range w.Links {
		for _, r := range l.Refs {
			if related[RelatedRef{l.Workspace, r}] != nil && isRecord(r) {
				wanted.row().int(int64(l.Workspace)).text(r.Type).text(r.ExtID)
			}
		}
	}
	revs := map[RelatedRef]int64{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var r RelatedRef
		var rev int64
		err := rows.Scan(&r.Workspace, &r.Type, &r.ExtID, &rev)
		revs[r] = rev
		return struct{}{}, err
	}, held, &wanted)
	if err != nil {
		return fmt.Errorf("hold related records: %w", err)
	}
	later := map[RecordKey]bool{}
	for _, l := range w.Links {
		for _, r := range l.Refs {
			ref := RelatedRef{l.Workspace, r}
			switch rev, is := revs[ref]; {
			case related[ref] == nil, !isRecord(r): // the evaluation that follows reads the contact, or the children, again
			case !is:
				later[RecordKey{l.Workspace, l.ID}] = true
			case rev != related[ref].Rev:
				return ErrAgain
			}
		}
	}
	w.Links = slices.DeleteFunc(w.Links, func(l Links) bool { return later[RecordKey{l.Workspace, l.ID}] })
	for i, l := range w.Evaluated {
		if at := now.Add(again); later[RecordKey{l.Workspace, l.ID}] && (l.EvaluateAt.IsZero() || l.EvaluateAt.After(at)) {
			w.Evaluated[i].EvaluateAt = at
		}
	}
	return nil
}

// isRecord reports whether a name is that of a record, which can be locked.
func isRecord(r subject.RecordRef) bool {
	return r.Type != subject.ContactType && r.Type != subject.ChildrenType
}

const depended = `
SELECT r.type, r.ext_id
FROM /*ROWS $1 (ws bigint, type text, ext_id text)*/ AS r
WHERE EXISTS (SELECT 1 FROM record_link AS l WHERE l.ext_id = r.ext_id AND l.type = r.type AND l.ws = r.ws)`

// MoveContacts requests the evaluation of the records that follow the zones of contacts, by the ids of the caller. A job asks which records
// these are: it begins after the commit, so that it finds also a record whose evaluation did not see this write.
func (t *Tx) MoveContacts(ws subject.WorkspaceID, now time.Time, definitions int64, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return t.announce(ws, now, definitions, subject.ContactType, ids)
}

// Follow starts the jobs that request the evaluation of the records that depend on others of a type: subject.ContactType or
// subject.ChildrenType.
func (t *Tx) Follow(ws subject.WorkspaceID, now time.Time, typ string, ids []string) error {
	refs := make([]subject.RecordRef, len(ids))
	for i, id := range ids {
		refs[i] = subject.RecordRef{Type: typ, ExtID: id}
	}
	return t.beginRelated(ws, now, refs)
}

// beginRelated starts the jobs that request the evaluation of the records that depend on others, in pages and not in the
// transaction that writes these others.
func (t *Tx) beginRelated(ws subject.WorkspaceID, now time.Time, refs []subject.RecordRef) error {
	var wanted rowset
	for _, r := range refs {
		wanted.row().int(int64(ws)).text(r.Type).text(r.ExtID)
	}
	seeds, err := query(t, func(rows *sql.Rows) (s job.Seed, err error) {
		var r subject.RecordRef
		err = rows.Scan(&r.Type, &r.ExtID)
		return job.Seed{Kind: job.Related, Subject: r.Type + "/" + r.ExtID}, err
	}, depended, &wanted)
	if err != nil || len(seeds) == 0 {
		return err
	}
	number, err := query(t, scanInt, definitionsNumber, int64(ws))
	if err != nil || len(number) == 0 {
		return err
	}
	// A job that has begun continues and a second one follows it. If it began again, a record that is written all the time
	// would have its first children evaluated again and again, and its last ones never. A job that has not begun covers this
	// write too, if a lock can keep it from beginning before this transaction commits.
	var jobs rowset
	for _, s := range seeds {
		jobs.row().int(int64(ws)).text(string(s.Kind)).text(s.Subject)
	}
	waiting, err := query(t, func(rows *sql.Rows) (subject string, err error) { return subject, rows.Scan(&subject) }, waitingJobs, &jobs)
	if err != nil {
		return fmt.Errorf("look for jobs over related records: %w", err)
	}
	var begun []job.Row
	for _, s := range seeds {
		if !slices.Contains(waiting, s.Subject) {
			begun = append(begun, job.New(ws, s, number[0], now))
		}
	}
	_, err = t.AddJobs(now, begun)
	return err
}

const waitingJobs = `
SELECT x.subject
FROM /*ROWS $1 (ws bigint, kind text, subject text)*/ AS r CROSS JOIN job AS x
WHERE x.status = ` + sqlJobRunning + ` AND x.cursor = 0 AND /*BY NAME*/x.ws = r.ws AND x.kind = r.kind AND x.subject = r.subject
ORDER BY x.id
/*SKIP LOCKED x*/`

const dependents = `
SELECT l.child_id FROM record_link AS l
WHERE l.ext_id = $1 AND l.type = $2 AND l.ws = $3 AND l.child_id > $4
ORDER BY l.child_id
LIMIT $5`

// Dependents returns up to limit records with ids after one that depend on a record.
func (t *Tx) Dependents(ref RelatedRef, after subject.RecordID, limit int) ([]subject.RecordID, error) {
	ids, err := query(t, func(rows *sql.Rows) (id subject.RecordID, err error) { return id, rows.Scan(&id) },
		dependents, ref.ExtID, ref.Type, int64(ref.Workspace), int64(after), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read related records: %w", err)
	}
	return ids, nil
}
