package store

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// upsert is how rows that callers name, contacts and records, are read, locked and written.
type upsert[K comparable, R any, ID ~int64] struct {
	what    string // of errors
	lock    string // the statement that locks the rows of a rowset of names, and returns their ids
	read    string // the statement that reads them
	insert  string // the statement that inserts a rowset of new rows
	update  string // the statement that updates a rowset ($2) at an instant ($1)
	made    columnsOf[R]
	changed columnsOf[R]
	scan    func(*sql.Rows) (R, error)
	name    func(*R) K
	id      func(*R) *ID
}

// locked locks and returns the rows that exist of wanted names. A statement that waited for a lock sees the rows as they were
// before, and a write that is based on that would undo the change it waited for; so they are read in a second statement.
func (u upsert[K, R, ID]) locked(t *Tx, wanted *rowset) (map[K]R, error) {
	locked := map[ID]bool{}
	if t.s.dialect.lock != "" {
		ids, err := query(t, scanInt, u.lock, wanted)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", u.what, err)
		}
		for _, id := range ids {
			locked[ID(id)] = true
		}
	}
	found, err := query(t, u.scan, u.read, wanted)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", u.what, err)
	}
	known := make(map[K]R, len(found))
	for _, r := range found {
		if t.s.dialect.lock != "" && !locked[*u.id(&r)] {
			return nil, ErrAgain // it was made between the two statements
		}
		known[u.name(&r)] = r
	}
	return known, nil
}

// write inserts the rows without an id, which get one, and updates the others. The rows are locked, in the order of their names, and each
// is there once.
func (u upsert[K, R, ID]) write(t *Tx, ws subject.WorkspaceID, now time.Time, rows []*R) error {
	var made, changed rowset
	for _, r := range rows {
		if id := u.id(r); *id != 0 {
			u.changed.put(&changed, r, int64(ws), int64(*id))
		} else {
			*id = ID(t.s.NewID(now))
			u.made.put(&made, r, int64(ws))
		}
	}
	if err := t.insertNew("insert "+u.what, u.insert, &made); err != nil {
		return err
	}
	return t.updateAll("update "+u.what, u.update, &changed, dueMicros(now))
}
