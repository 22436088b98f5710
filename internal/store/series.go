package store

import (
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// SeriesRef names the calendar occasions of a trigger.
type SeriesRef struct {
	Workflow string
	Trigger  string
}

// Series is the stored state of a series: the pending occasions, locked, and the due instant of the latest one that has
// ended or is on hold; zero DueAt: there is none.
type Series struct {
	Pending   []instance.Row
	LastDue   time.Time
	LastLocal string
}

// Rows of single zones and repetitions do not count as occasions of a series (instance.Row.InSeries).
const ofCalendar = `i.source = ` + sqlFromSchedule + ` AND i.head_id = 0 AND i.retry_of = 0`

// In the order of the index: SQLite, without statistics, considers the primary key as good, and would read the whole
// workspace.
const pendingOfSeries = pendingOfSeriesNow + `
/*LOCK i*/`

const pendingOfSeriesNow = `
SELECT /*NAMES i (` + instanceSpec + `)*/
FROM instance AS i
WHERE i.workflow = $1 AND i.trigger = $2 AND i.ws = $3 AND i.status = ` + sqlPending + ` AND ` + ofCalendar + `
ORDER BY i.due_at`

// Finds the latest of one status without reading the others.
const lastOfSeries = `
SELECT i.due_at, i.local_date
FROM instance AS i
WHERE i.workflow = $1 AND i.trigger = $2 AND i.ws = $3 AND i.status = $4 AND ` + ofCalendar + `
ORDER BY i.due_at DESC
LIMIT 1`

// A later occasion of the same series waits, or has ended in one of the ways. The transaction that ends that one makes its
// successor.
const laterOfSeries = `
SELECT r.id
FROM /*ROWS $1 (ws bigint, id bigint, workflow text, trigger text, due_at bigint)*/ AS r
WHERE ` + latestIn + sqlPending + ofSeries + ` OR ` + latestIn + sqlCompleted + ofSeries + ` OR ` + latestIn + sqlSkipped + ofSeries +
	` OR ` + latestIn + sqlFailed + ofSeries + ` OR ` + latestIn + sqlCancelled + ofSeries

const (
	latestIn = `COALESCE((
    SELECT i.due_at FROM instance AS i
    WHERE i.workflow = r.workflow AND i.trigger = r.trigger AND i.ws = r.ws AND i.status = `
	ofSeries = ` AND ` + ofCalendar + `
    ORDER BY i.due_at DESC LIMIT 1), 0) > r.due_at`
)

const instancesByKeys = `
SELECT /*NAMES i (` + instanceSpec + `)*/, i.forgotten
FROM /*ROWS $1 (ws bigint, key text)*/ AS r CROSS JOIN instance AS i
WHERE i.key = r.key AND +i.ws = r.ws
ORDER BY i.id`

// LaterOccasions reports which rows of calendars have a later occasion in their series.
func (t *Tx) LaterOccasions(rows []instance.Row) (map[instance.ID]bool, error) {
	var wanted rowset
	for _, i := range rows {
		if i.InSeries() {
			wanted.row().int(int64(i.Workspace)).int(int64(i.ID)).text(i.Workflow).text(i.Trigger).time(i.DueAt)
		}
	}
	found, err := query(t, scanInt, laterOfSeries, &wanted)
	if err != nil {
		return nil, fmt.Errorf("look for later occasions: %w", err)
	}
	later := make(map[instance.ID]bool, len(found))
	for _, id := range found {
		later[instance.ID(id)] = true
	}
	return later, nil
}

// Series locks the pending occasions of series and reads their stored state. No planning transaction runs at the same time.
func (t *Tx) Series(ws subject.WorkspaceID, refs []SeriesRef) (map[SeriesRef]Series, error) {
	return t.series(ws, refs, pendingOfSeries)
}

func (t *Tx) series(ws subject.WorkspaceID, refs []SeriesRef, text string) (map[SeriesRef]Series, error) {
	found := make(map[SeriesRef]Series, len(refs))
	for _, ref := range refs {
		pending, err := query(t, scanInstance, text, ref.Workflow, ref.Trigger, int64(ws))
		if err != nil {
			return nil, fmt.Errorf("read what is scheduled: %w", err)
		}
		found[ref] = Series{Pending: pending}
	}
	note := func(s *Series, due time.Time, local string) {
		if due.After(s.LastDue) {
			s.LastDue, s.LastLocal = due, local
		}
	}
	for ref, s := range found {
		for _, i := range s.Pending {
			if i.Held() {
				note(&s, i.DueAt, i.LocalDate)
			}
		}
		for _, status := range []instance.Status{instance.Completed, instance.Skipped, instance.Failed, instance.Cancelled} {
			_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
				var due time.Time
				var local string
				err := rows.Scan(instant{&due}, &local)
				note(&s, due, local)
				return struct{}{}, err
			}, lastOfSeries, ref.Workflow, ref.Trigger, int64(ws), string(status))
			if err != nil {
				return nil, fmt.Errorf("find what was scheduled last: %w", err)
			}
		}
		found[ref] = s
	}
	return found, nil
}

// EnsureOccasions makes sure that of each list of occasions the first one exists that has not ended, and returns what it
// made. It waits for no lock: another transaction that ends one of these occasions makes the successor of that one itself.
//
// The lists are lazy because a series has no end: how many of its next occasions have ended already, such as by a person, is known only
// from what is stored under their keys. They compute dates and read nothing, and nearly always one row of each is asked for; a slice
// would compute rows, with their ids and traces, that nobody needs, and could still be too short.
func (t *Tx) EnsureOccasions(lists []iter.Seq[instance.Row]) ([]instance.Made, error) {
	if t.apart(lists) {
		return nil, nil
	}
	return t.ensureOccasions(lists)
}

func (t *Tx) ensureOccasions(lists []iter.Seq[instance.Row]) ([]instance.Made, error) {
	search := instance.FindSuccessors(lists)
	defer search.Close()
	for keys := search.Keys(); len(keys) > 0; keys = search.Keys() {
		stored, err := t.storedKeys(keys)
		if err != nil {
			return nil, err
		}
		search.Found(stored)
	}
	made := search.Made()
	fresh := map[subject.WorkspaceID][]instance.Row{}
	var revived []instance.Row
	for _, m := range made {
		if m.Revived {
			revived = append(revived, m.Row)
		} else {
			fresh[m.Workspace] = append(fresh[m.Workspace], m.Row)
		}
	}
	if n, err := t.updatePlans(revived); err != nil {
		return nil, err
	} else if n < int64(len(revived)) { // another transaction was faster
		return nil, ErrAgain
	}
	for _, ws := range sortedKeys(fresh) {
		if err := t.insertInstances(ws, fresh[ws]); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// StoredUnder returns what is stored under the keys of occasions, without a lock.
func (t *Tx) StoredUnder(refs []instance.KeyRef) (map[instance.KeyRef]instance.Stored, error) {
	return t.storedKeys(refs)
}

// storedKeys reads what is stored under keys, without a lock.
func (t *Tx) storedKeys(refs []instance.KeyRef) (map[instance.KeyRef]instance.Stored, error) {
	stored := make(map[instance.KeyRef]instance.Stored, len(refs))
	var keys, hashes rowset
	for _, ref := range refs {
		keys.row().int(int64(ref.Workspace)).text(ref.Key)
		hashes.row().int(int64(ref.Workspace)).text(key.Hash(ref.Key)).text(ref.Key)
	}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var s instance.Stored
		var err error
		s.Row, err = instanceColumns.scan(rows, &s.Forgotten)
		stored[instance.KeyRef{Workspace: s.Row.Workspace, Key: s.Row.Key}] = s
		return struct{}{}, err
	}, instancesByKeys, &keys)
	if err != nil {
		return nil, fmt.Errorf("find occasions: %w", err)
	}
	spent, err := query(t, scanSpentKey, spentKeys, &hashes)
	if err != nil {
		return nil, fmt.Errorf("look for spent keys: %w", err)
	}
	for _, k := range spent {
		s := stored[k.KeyRef]
		s.Spent = true
		stored[k.KeyRef] = s
	}
	return stored, nil
}
