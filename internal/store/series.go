package store

import (
	"context"
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

// Successor is an occasion that has to exist: the first of Rows that has not ended. Rows is a decision: it may run twice,
// and must not call the store. Made is called with the row that was inserted or revived, and not if it existed.
type Successor struct {
	Rows iter.Seq[instance.Row]
	Made func(instance.Row)
}

// CalendarPlan plans the series that an apply touches. Decide compares the stored occasions with those that the new
// definitions ask for; number is the number of the new set, and versions are read by name.
type CalendarPlan struct {
	Base int64 // number of the set that the definitions are based on; if another one is in force, ErrStaleDefinitions
	Refs []SeriesRef
	// Repairs are all triggers of the new definitions that have a repair job.
	Repairs []Repair
	Decide  func(number int64, version func(workflow string) int64, found map[SeriesRef]Series) (changed []instance.Row, seeds []Successor, err error)
}

// A calendar occasion has a date and no record. The row of one zone of an occasion has an episode number, and does not count
// as an occasion of its series.
const ofCalendar = `i.record_id = 0 AND i.local_date <> '' AND i.episode = 0`

// In the order of the index: SQLite, without statistics, considers the primary key as good, and would read the whole
// workspace.
const pendingOfSeries = `
SELECT /*NAMES i (` + instanceSpec + `)*/
FROM instance AS i
WHERE i.workflow = $1 AND i.trigger = $2 AND i.ws = $3 AND i.status = 'pending' AND ` + ofCalendar + `
ORDER BY i.due_at
/*LOCK i*/`

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
WHERE ` + latestIn + `'pending'` + ofSeries + ` OR ` + latestIn + `'completed'` + ofSeries + ` OR ` + latestIn + `'skipped'` + ofSeries +
	` OR ` + latestIn + `'failed'` + ofSeries + ` OR ` + latestIn + `'cancelled'` + ofSeries

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
ORDER BY i.id
/*LOCK i*/`

// later reports which rows of calendars have a later occasion in their series.
func (t *Tx) later(rows []instance.Row) (map[instance.ID]bool, error) {
	var wanted rowset
	for _, i := range rows {
		if i.Record == 0 && i.LocalDate != "" && i.Episode == 0 {
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

// series reads the stored state of series. No planning transaction runs at the same time.
func (t *Tx) series(ws subject.WorkspaceID, refs []SeriesRef) (map[SeriesRef]Series, error) {
	found := make(map[SeriesRef]Series, len(refs))
	for _, ref := range refs {
		pending, err := query(t, scanInstance, pendingOfSeries, ref.Workflow, ref.Trigger, int64(ws))
		if err != nil {
			return nil, fmt.Errorf("lock what is scheduled: %w", err)
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
			if i.Held {
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

// planCalendar makes the series of an apply match the new definitions.
func (t *Tx) planCalendar(ws subject.WorkspaceID, now time.Time, number int64, version func(string) int64, c *CalendarPlan) error {
	if c == nil {
		return nil
	}
	if err := t.planRepairs(ws, now, c.Repairs); err != nil || len(c.Refs) == 0 {
		return err
	}
	found, err := t.series(ws, c.Refs)
	if err != nil {
		return err
	}
	changed, seeds, err := c.Decide(number, version, found)
	if err != nil {
		return err
	}
	if err := t.writePlans(changed); err != nil {
		return err
	}
	return t.insertSuccessors(seeds)
}

// successors is the progress of one Successor.
type successors struct {
	seed Successor
	next func() (instance.Row, bool)
	row  instance.Row
	over bool
}

func (s *successors) advance() {
	row, ok := s.next()
	s.row, s.over = row, !ok
}

// insertSuccessors makes sure that occasions exist. A withdrawn one is revived; one that has ended is passed over.
func (t *Tx) insertSuccessors(seeds []Successor) error {
	open := make([]*successors, 0, len(seeds))
	for _, seed := range seeds {
		next, stop := iter.Pull(seed.Rows)
		defer stop()
		s := &successors{seed: seed, next: next}
		if s.advance(); !s.over {
			open = append(open, s)
		}
	}
	for len(open) > 0 {
		var err error
		if open, err = t.insertSuccessorRound(open); err != nil {
			return err
		}
	}
	return nil
}

// insertSuccessorRound inserts what it can, and returns the successors that have to try another row.
func (t *Tx) insertSuccessorRound(open []*successors) (left []*successors, err error) {
	type stored struct {
		row       instance.Row
		forgotten int
	}
	found, spent := map[keyRef]stored{}, map[keyRef]bool{}
	var keys, hashes rowset
	seen := map[keyRef]bool{}
	for _, s := range open {
		n := keyRef{s.row.Workspace, s.row.Key}
		if seen[n] {
			continue
		}
		seen[n] = true
		keys.row().int(int64(n.ws)).text(n.key)
		hashes.row().int(int64(n.ws)).text(key.Hash(n.key)).text(n.key)
	}
	_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
		var s stored
		s.row, err = instanceColumns.scan(rows, &s.forgotten)
		found[keyRef{s.row.Workspace, s.row.Key}] = s
		return struct{}{}, err
	}, instancesByKeys, &keys)
	if err != nil {
		return nil, fmt.Errorf("find occasions: %w", err)
	}
	used, err := query(t, scanSpentKey, spentKeys, &hashes)
	if err != nil {
		return nil, fmt.Errorf("look for spent keys: %w", err)
	}
	for _, k := range used {
		spent[k.keyRef] = true
	}
	fresh := map[subject.WorkspaceID][]instance.Row{}
	var revived []instance.Row
	taken := map[keyRef]bool{}
	for _, s := range open {
		n := keyRef{s.row.Workspace, s.row.Key}
		old, exists := found[n]
		switch {
		case taken[n] || exists && old.forgotten == 0 && old.row.Status == instance.Pending:
			continue // it is pending already
		case exists && old.forgotten > 0: // its key was freed (decision 64)
			s.row.Key = string(key.Instance(s.row.Key).Retry(old.forgotten))
			left = append(left, s)
			continue
		case exists && old.row.Status != instance.Deactivated || !exists && spent[n]:
			if s.advance(); !s.over {
				left = append(left, s)
			}
			continue
		case exists:
			row := s.row
			old.row.Status, old.row.Reason, old.row.CompletedAt = row.Status, row.Reason, row.CompletedAt
			old.row.Unhold()
			old.row.DueAt, old.row.LocalDate, old.row.Timezone, old.row.InputHash = row.DueAt, row.LocalDate, row.Timezone, row.InputHash
			old.row.WorkflowVersion, old.row.Definitions, old.row.RetryCount, old.row.NextRetryAt = row.WorkflowVersion, row.Definitions, 0, time.Time{}
			s.row = old.row
			revived = append(revived, old.row)
		default:
			fresh[n.ws] = append(fresh[n.ws], s.row)
		}
		taken[n] = true
		if s.seed.Made != nil {
			s.seed.Made(s.row)
		}
	}
	if err := t.writePlans(revived); err != nil {
		return nil, err
	}
	for _, ws := range sortedKeys(fresh) {
		if err := t.insertInstances(ws, fresh[ws]); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// ManualRun is the result of running a workflow by hand (B15).
type ManualRun struct {
	Row     instance.Row // of its occasion
	Created bool         // false: it exists already
}

// RunManually makes an occasion that a person asks for, with its audit entry. The same key again finds the same occasion. If
// the definition set in force has another number, the error is ErrStaleDefinitions.
func (s *Store) RunManually(ctx context.Context, row instance.Row, definitions int64, now time.Time, audit Audit, once *Idempotent[ManualRun]) (run ManualRun, err error) {
	err = s.WriteHoldingDefinitions(ctx, func(t *Tx) error {
		run, err = once.run(t, row.Workspace, func() (ManualRun, error) {
			return t.runManually(row, definitions, now, audit)
		})
		return err
	})
	if err != nil {
		return ManualRun{}, fmt.Errorf("run a workflow by hand: %w", err)
	}
	return run, nil
}

func (t *Tx) runManually(row instance.Row, definitions int64, now time.Time, audit Audit) (ManualRun, error) {
	found, forgotten, err := t.existing(row.Workspace, definitions, []string{row.Key})
	if err != nil {
		return ManualRun{}, err
	}
	if old, ok := found[row.Key]; ok {
		was := row
		was.ID, was.Key, was.Status = old.ID, old.Key, old.Status
		return ManualRun{Row: was}, nil
	}
	if n := forgotten[row.Key]; n > 0 {
		row.Key = string(key.Instance(row.Key).Retry(n))
	}
	if err := t.insertInstances(row.Workspace, []instance.Row{row}); err != nil {
		return ManualRun{}, err
	}
	return ManualRun{Row: row, Created: true}, t.audit(row.Workspace, now, audit)
}
