package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// DigestRun is a run of a digest: the instance of its trigger for one window.
type DigestRun struct {
	Workspace         subject.WorkspaceID
	Instance          instance.ID
	Workflow, Trigger string
	Window            digest.Window
	BegunAt           time.Time
	ExpandedAt        time.Time // since when all its deliveries exist; zero: they do not
	OverAt            time.Time // since when each of them has ended or was sent; zero: some wait
}

const digestRunSpec = `ws bigint, instance_id bigint, workflow text, trigger text, start_at bigint, end_at bigint, begun_at bigint, expanded_at bigint, over_at bigint`

func scanDigestRun(rows *sql.Rows) (r DigestRun, err error) {
	return r, rows.Scan(integer(&r.Workspace), integer(&r.Instance), &r.Workflow, &r.Trigger, instant{&r.Window.From}, instant{&r.Window.End}, instant{&r.BegunAt},
		instant{&r.ExpandedAt}, instant{&r.OverAt})
}

const writeDigestRuns = `
INSERT INTO digest_run (/*NAMES (` + digestRunSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + digestRunSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, instance_id) DO UPDATE SET expanded_at = excluded.expanded_at`

// WriteDigestRuns notes that runs have begun, or that all their deliveries exist.
func (t *Tx) WriteDigestRuns(list []DigestRun) error {
	var rows rowset
	for _, r := range list {
		rows.row().int(int64(r.Workspace)).int(int64(r.Instance)).text(r.Workflow).text(r.Trigger).time(r.Window.From).time(r.Window.End).time(r.BegunAt).
			time(r.ExpandedAt).time(r.OverAt)
	}
	if _, err := t.exec(writeDigestRuns, &rows); err != nil {
		return fmt.Errorf("write runs: %w", err)
	}
	return nil
}

// RunTrigger names a trigger that has runs.
type RunTrigger struct {
	Workspace         subject.WorkspaceID
	Workflow, Trigger string
}

const firstWindows = `
SELECT r.ws, r.workflow, r.trigger, MIN(d.start_at)
FROM /*ROWS $1 (ws bigint, workflow text, trigger text)*/ AS r CROSS JOIN digest_run AS d
WHERE d.workflow = r.workflow AND d.trigger = r.trigger AND d.ws = r.ws
GROUP BY r.ws, r.workflow, r.trigger`

// FirstWindows returns the start of the first window of triggers that have had a run.
func (t *Tx) FirstWindows(triggers []RunTrigger) (map[RunTrigger]time.Time, error) {
	var wanted rowset
	seen := map[RunTrigger]bool{}
	for _, r := range triggers {
		if !seen[r] {
			seen[r] = true
			wanted.row().int(int64(r.Workspace)).text(r.Workflow).text(r.Trigger)
		}
	}
	found := map[RunTrigger]time.Time{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var r RunTrigger
		var at time.Time
		err := rows.Scan(integer(&r.Workspace), &r.Workflow, &r.Trigger, instant{&at})
		found[r] = at
		return struct{}{}, err
	}, firstWindows, &wanted)
	if err != nil {
		return nil, fmt.Errorf("find the first runs: %w", err)
	}
	return found, nil
}

// A run that was missed told nothing: its instance was not completed. One whose instance was deleted since was long ago.
const lastWindows = `
SELECT r.ws, r.workflow, r.trigger, r.before, MAX(d.end_at)
FROM /*ROWS $1 (ws bigint, workflow text, trigger text, before bigint)*/ AS r CROSS JOIN digest_run AS d CROSS JOIN instance AS i
WHERE d.workflow = r.workflow AND d.trigger = r.trigger AND d.ws = r.ws AND d.start_at < r.before AND d.end_at <= r.before
  AND i.ws = d.ws AND i.id = d.instance_id AND i.status = ` + sqlCompleted + `
GROUP BY r.ws, r.workflow, r.trigger, r.before`

// RunBefore asks for the runs of a trigger before a window.
type RunBefore struct {
	RunTrigger
	Start time.Time // of the window
}

// LastWindows returns the end of the last window before another one that a run told, where there is one.
func (t *Tx) LastWindows(asked []RunBefore) (map[RunBefore]time.Time, error) {
	var wanted rowset
	of := map[RunBefore]bool{}
	for _, r := range asked {
		r.Start = r.Start.UTC()
		if !of[r] {
			of[r] = true
			wanted.row().int(int64(r.Workspace)).text(r.Workflow).text(r.Trigger).int(micros(r.Start))
		}
	}
	found := map[RunBefore]time.Time{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var r RunBefore
		var end time.Time
		err := rows.Scan(integer(&r.Workspace), &r.Workflow, &r.Trigger, instant{&r.Start}, instant{&end})
		found[r] = end
		return struct{}{}, err
	}, lastWindows, &wanted)
	if err != nil {
		return nil, fmt.Errorf("find the runs before: %w", err)
	}
	return found, nil
}

const runsByInstance = `
SELECT /*NAMES d (` + digestRunSpec + `)*/
FROM digest_run AS d
WHERE d.ws = $1 AND d.instance_id = $2`

// DigestRun returns the run of an instance. ErrNotFound: it is none.
func (s *Store) DigestRun(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (run DigestRun, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		found, err := query(t, scanDigestRun, runsByInstance, int64(ws), int64(id))
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return ErrNotFound
		}
		run = found[0]
		return nil
	})
	if err != nil {
		return run, fmt.Errorf("read a run: %w", err)
	}
	return run, nil
}

const openRuns = `
SELECT /*NAMES d (` + digestRunSpec + `)*/, d.over_cursor
FROM digest_run AS d
WHERE d.expanded_at > 0 AND d.over_at = 0
ORDER BY d.expanded_at, d.instance_id
LIMIT $1`

// The deliveries of an instance are read in the order of their contacts, so that a run is read once from its beginning to its end.
const nextDeliveries = `
SELECT d.contact_id, CASE WHEN d.status = ` + sqlScheduled + ` THEN 1 ELSE 0 END
FROM delivery AS d
WHERE d.instance_id = $1 AND d.contact_id > $2
ORDER BY d.contact_id
LIMIT $3`

const moveRun = `
UPDATE digest_run SET over_cursor = r.over_cursor, over_at = r.over_at
FROM /*ROWS $1 (ws bigint, instance_id bigint, over_cursor bigint, over_at bigint)*/ AS r
WHERE digest_run.ws = r.ws AND digest_run.instance_id = r.instance_id AND digest_run.over_at = 0`

// EndRuns looks at the runs that have made all their deliveries, up to limit deliveries of each, and marks those whose deliveries are over. It returns
// the runs that it has ended, and whether there is more to look at now.
func (t *Tx) EndRuns(now time.Time, runs, limit int) (ended []DigestRun, more bool, err error) {
	type open struct {
		DigestRun
		cursor int64
	}
	list, err := query(t, func(rows *sql.Rows) (o open, err error) {
		r := &o.DigestRun
		return o, rows.Scan(integer(&r.Workspace), integer(&r.Instance), &r.Workflow, &r.Trigger, instant{&r.Window.From}, instant{&r.Window.End}, instant{&r.BegunAt},
			instant{&r.ExpandedAt}, instant{&r.OverAt}, &o.cursor)
	}, openRuns, int64(runs))
	if err != nil {
		return nil, false, fmt.Errorf("find runs: %w", err)
	}
	var moved rowset
	for _, o := range list {
		look := looked{over: o.cursor}
		if _, err := query(t, look.row, nextDeliveries, int64(o.Instance), o.cursor, int64(limit)); err != nil {
			return nil, false, fmt.Errorf("look at a run: %w", err)
		}
		switch {
		case look.waits:
		case look.n < limit:
			o.OverAt = now
			ended = append(ended, o.DigestRun)
		default:
			more = true
		}
		if look.over != o.cursor || !o.OverAt.IsZero() {
			moved.row().int(int64(o.Workspace)).int(int64(o.Instance)).int(look.over).time(o.OverAt)
		}
	}
	if _, err := t.exec(moveRun, &moved); err != nil {
		return nil, false, fmt.Errorf("end runs: %w", err)
	}
	return ended, more, nil
}

// looked is what a page of the deliveries of a run shows.
type looked struct {
	over  int64 // the deliveries of contacts up to this one are over
	last  int64 // the contact of the last row: there may be further ones of it
	n     int
	waits bool
}

func (l *looked) row(rows *sql.Rows) (struct{}, error) {
	var contact int64
	var scheduled bool
	err := rows.Scan(&contact, boolean{&scheduled})
	if contact != l.last && l.last != 0 && !l.waits {
		l.over = l.last
	}
	l.last, l.waits = contact, l.waits || scheduled
	l.n++
	return struct{}{}, err
}

const listRuns = `
SELECT /*NAMES d (` + digestRunSpec + `)*/
FROM digest_run AS d
WHERE d.ws = $1 AND d.instance_id < $2
ORDER BY d.instance_id DESC
LIMIT $3`

// DigestRuns lists the runs of digests of a workspace, the newest first.
func (s *Store) DigestRuns(ctx context.Context, ws subject.WorkspaceID, p Page) (runs []DigestRun, err error) {
	before := p.Before
	if before == 0 {
		before = math.MaxInt64
	}
	err = s.Read(ctx, func(t *Tx) (err error) {
		runs, err = query(t, scanDigestRun, listRuns, int64(ws), before, int64(p.Limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

// Status says how far the run has come.
func (r DigestRun) Status() RunStatus {
	switch {
	case !r.OverAt.IsZero():
		return RunDone
	case !r.ExpandedAt.IsZero():
		return RunSending
	}
	return RunExpanding
}

// RunStatus is how far a run of a digest has come.
type RunStatus string

// The statuses of a run.
const (
	RunExpanding RunStatus = "expanding" // its deliveries are being made
	RunSending   RunStatus = "sending"   // all of them exist, and some wait
	RunDone      RunStatus = "done"      // each of them has ended or was sent
)
