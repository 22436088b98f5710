package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// The brakes (max_recipients_per_run, max_sends_per_hour). How many people an instance has taken up is a column of it, and the lock of its row keeps two
// transactions from counting at once. An occasion with rows of zones is counted over all of them, and has a lock of its own. The sends of a workflow are
// counted in a row of send_count, which is the lock, too. Workflows without the limit have no such row.

// OccasionRef names an occasion by its own instance.
type OccasionRef struct {
	Workspace subject.WorkspaceID
	ID        instance.ID
}

// TakenUp is what all rows of an occasion have taken up.
type TakenUp struct {
	OccasionRef
	Recipients int
	Unbraked   bool // a person has released one of the rows from the brake
}

const lockTakenUp = `SELECT CAST(pg_advisory_xact_lock(r.lock) AS text) FROM /*ROWS $1 (lock bigint)*/ AS r`

const takenUp = `
SELECT h.ws, h.id, CAST(h.recipients + COALESCE((SELECT SUM(z.recipients) FROM instance AS z WHERE z.head_id = h.id AND z.head_id > 0), 0) AS bigint),
  CASE WHEN h.unbraked_at > 0 OR EXISTS (SELECT 1 FROM instance AS y WHERE y.head_id = h.id AND y.head_id > 0 AND y.unbraked_at > 0) THEN 1 ELSE 0 END
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN instance AS h
WHERE h.ws = r.ws AND h.id = r.id`

// LockTakenUp reads how many people occasions with rows of zones have taken up, and makes other transactions that ask for the same wait for the end
// of this one. It comes after the locks of instances and before those of contacts.
func (t *Tx) LockTakenUp(refs []OccasionRef) ([]TakenUp, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	slices.SortFunc(refs, func(a, b OccasionRef) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.ID, b.ID))
	})
	refs = slices.Compact(refs)
	var rows rowset
	for _, ref := range refs {
		rows.row().int(int64(ref.Workspace)).int(int64(ref.ID))
	}
	if t.s.dialect.advisory { // else there is one writer
		numbers := make([]int64, len(refs))
		for i, ref := range refs {
			h := fnv.New64a()
			h.Write([]byte("carillon occasion " + strconv.FormatInt(int64(ref.ID), 10)))
			numbers[i] = int64(h.Sum64()) //nolint:gosec // every value is a key
		}
		slices.Sort(numbers)
		var locks rowset
		for _, number := range slices.Compact(numbers) {
			locks.row().int(number)
		}
		if _, err := query(t, func(rows *sql.Rows) (s string, err error) { return s, rows.Scan(&s) }, lockTakenUp, &locks); err != nil {
			return nil, fmt.Errorf("lock occasions: %w", err)
		}
	}
	found, err := query(t, func(rows *sql.Rows) (u TakenUp, err error) {
		return u, rows.Scan(&u.Workspace, &u.ID, &u.Recipients, &u.Unbraked)
	}, takenUp, &rows)
	if err != nil {
		return nil, fmt.Errorf("read what occasions have taken up: %w", err)
	}
	return found, nil
}

func compareWorkflowRef(a, b delivery.WorkflowRef) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), strings.Compare(a.Workflow, b.Workflow))
}

const insertSends = `
INSERT INTO send_count (ws, workflow)
SELECT r.ws, r.workflow FROM /*ROWS $1 (ws bigint, workflow text)*/ AS r
WHERE true
ON CONFLICT (ws, workflow) DO NOTHING`

const lockSends = `
SELECT s.ws, s.workflow, s.minutes
FROM /*ROWS $1 (ws bigint, workflow text)*/ AS r CROSS JOIN send_count AS s
WHERE s.ws = r.ws AND s.workflow = r.workflow
ORDER BY s.ws, s.workflow
/*LOCK s*/`

const updateSends = `
UPDATE send_count SET minutes = r.minutes
FROM /*ROWS $1 (ws bigint, workflow text, minutes text)*/ AS r
WHERE send_count.ws = r.ws AND send_count.workflow = r.workflow`

// A pause that is in force stays as it is. One that was resumed and has parked rows left begins again, and keeps them.
const pauseTooFast = `
INSERT INTO pause (ws, workflow, paused_at, resumed_at, actor, why, cause)
SELECT r.* FROM /*ROWS $1 (ws bigint, workflow text, paused_at bigint, resumed_at bigint, actor text, why text, cause text)*/ AS r
WHERE true
ON CONFLICT (ws, workflow) DO UPDATE SET paused_at = excluded.paused_at, resumed_at = excluded.resumed_at, actor = excluded.actor, why = excluded.why,
  cause = excluded.cause
WHERE pause.resumed_at > 0
RETURNING ws, workflow`

const forgetSends = `
DELETE FROM send_count
WHERE ws = $1 AND workflow = $2
  AND EXISTS (SELECT 1 FROM pause AS p WHERE p.ws = send_count.ws AND p.workflow = send_count.workflow AND p.resumed_at = 0)`

// LockSends locks the counts of the sends of workflows, after the paces of channels and in one order everywhere, and reads them. Those that do
// not exist yet are made.
func (t *Tx) LockSends(refs []delivery.WorkflowRef) (map[delivery.WorkflowRef]flow.Sends, error) {
	slices.SortFunc(refs, compareWorkflowRef)
	refs = slices.Compact(refs)
	found := make(map[delivery.WorkflowRef]flow.Sends, len(refs))
	for range 2 {
		var rows rowset
		for _, ref := range refs {
			rows.row().int(int64(ref.Workspace)).text(ref.Workflow)
		}
		_, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
			var ref delivery.WorkflowRef
			var minutes string
			if err := rows.Scan(&ref.Workspace, &ref.Workflow, &minutes); err != nil {
				return v, err
			}
			found[ref], err = flow.ParseSends(minutes)
			return v, err
		}, lockSends, &rows)
		if err != nil {
			return nil, fmt.Errorf("lock the counts of sends: %w", err)
		}
		if len(found) == len(refs) {
			return found, nil
		}
		if _, err := t.exec(insertSends, &rows); err != nil {
			return nil, fmt.Errorf("make the counts of sends: %w", err)
		}
	}
	return nil, ErrAgain
}

func (t *Tx) updateSends(sends map[delivery.WorkflowRef]flow.Sends) error {
	var rows rowset
	for _, ref := range slices.SortedFunc(maps.Keys(sends), compareWorkflowRef) {
		rows.row().int(int64(ref.Workspace)).text(ref.Workflow).text(sends[ref].String())
	}
	if _, err := t.exec(updateSends, &rows); err != nil {
		return fmt.Errorf("write the counts of sends: %w", err)
	}
	return nil
}

// TooFast is a workflow that the program pauses, because it has sent as many messages in an hour as it may.
type TooFast struct {
	delivery.WorkflowRef
	Why    string
	Detail []byte // of its audit entry
}

// Program is the actor of what the program itself does.
const Program = "carillon"

// pauseTooFast pauses workflows of which this transaction parks messages. A workflow that a person has paused meanwhile stays paused by that
// person.
func (t *Tx) pauseTooFast(now time.Time, list []TooFast) error {
	why := map[delivery.WorkflowRef]TooFast{}
	for _, one := range list {
		why[one.WorkflowRef] = one
	}
	var rows rowset
	for _, ref := range slices.SortedFunc(maps.Keys(why), compareWorkflowRef) {
		rows.row().int(int64(ref.Workspace)).text(ref.Workflow).int(dueMicros(now)).int(0).text(Program).text(why[ref].Why).text(string(reason.TooFast))
	}
	paused, err := query(t, func(rows *sql.Rows) (ref delivery.WorkflowRef, err error) {
		return ref, rows.Scan(&ref.Workspace, &ref.Workflow)
	}, pauseTooFast, &rows)
	if err != nil {
		return fmt.Errorf("pause workflows that are too fast: %w", err)
	}
	slices.SortFunc(paused, compareWorkflowRef)
	for _, ref := range paused {
		if err := t.Audit(ref.Workspace, now, Audit{Actor: Program, Action: "pause", Target: ref.Workflow, Detail: why[ref].Detail}); err != nil {
			return err
		}
	}
	return nil
}
