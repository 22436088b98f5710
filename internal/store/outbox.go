package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	outboxEventSpec     = "outbox_event"
	dispatchSpec        = "dispatch"
	dispatchAttemptSpec = "dispatch_attempt"
)

var outboxEventColumns = named(outboxEventSpec, columnsOf[outbox.Event]{
	{"ws", func(e *outbox.Event) field { return integer(&e.Workspace) }},
	{"id", func(e *outbox.Event) field { return integer(&e.ID) }},
	{"type", func(e *outbox.Event) field { return text(&e.Type) }},
	{"message_id", func(e *outbox.Event) field { return text(&e.MessageID) }},
	{"workflow", func(e *outbox.Event) field { return text(&e.Workflow) }},
	{"delivery_id", func(e *outbox.Event) field { return integer(&e.Delivery) }},
	{"instance_id", func(e *outbox.Event) field { return integer(&e.Instance) }},
	{"body", func(e *outbox.Event) field { return text(&e.Body) }},
	{"created_at", func(e *outbox.Event) field { return moment{&e.CreatedAt} }},
})

var dispatchColumns = named(dispatchSpec, columnsOf[outbox.Row]{
	{"ws", func(r *outbox.Row) field { return integer(&r.Workspace) }},
	{"event_id", func(r *outbox.Row) field { return integer(&r.EventID) }},
	{"sink", func(r *outbox.Row) field { return text(&r.Sink) }},
	{"group_id", func(r *outbox.Row) field { return integer(&r.Group) }},
	{"status", func(r *outbox.Row) field { return text(&r.Status) }},
	{"attempts", func(r *outbox.Row) field { return integer(&r.Attempts) }},
	{"attempt_no", func(r *outbox.Row) field { return integer(&r.AttemptNo) }},
	{"next_at", func(r *outbox.Row) field { return dueMoment{moment{&r.NextAt}} }},
	{"reason", func(r *outbox.Row) field { return text(&r.Reason) }},
	{"ended_at", func(r *outbox.Row) field { return moment{&r.EndedAt} }},
})

var dispatchAttemptColumns = named(dispatchAttemptSpec, columnsOf[outbox.Attempt]{
	{"ws", func(a *outbox.Attempt) field { return integer(&a.Workspace) }},
	{"event_id", func(a *outbox.Attempt) field { return integer(&a.EventID) }},
	{"sink", func(a *outbox.Attempt) field { return text(&a.Sink) }},
	{"number", func(a *outbox.Attempt) field { return integer(&a.Number) }},
	{"began_at", func(a *outbox.Attempt) field { return moment{&a.BeganAt} }},
	{"ended_at", func(a *outbox.Attempt) field { return moment{&a.EndedAt} }},
	{"outcome", func(a *outbox.Attempt) field { return text(&a.Outcome) }},
	{"reason", func(a *outbox.Attempt) field { return text(&a.Reason) }},
	{"error", func(a *outbox.Attempt) field { return text(&a.Error) }},
})

// SinkRef names a sink.
type SinkRef struct {
	Workspace subject.WorkspaceID
	Name      string
}

// NewOutboxEvent is an event with the sinks that it goes to.
type NewOutboxEvent struct {
	outbox.Event
	Sinks []string
}

// The last event of each group that a sink has not got yet.
const lastOfGroups = `
SELECT r.id, COALESCE((SELECT d.event_id FROM dispatch AS d
  WHERE d.group_id = r.id AND d.sink = r.sink AND d.status = ` + sqlDispatchPending + ` ORDER BY d.event_id DESC LIMIT 1), 0)
FROM /*ROWS $1 (id bigint, sink text)*/ AS r`

const insertOutboxEvents = `
INSERT INTO outbox_event (/*NAMES (` + outboxEventSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + outboxEventSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const insertDispatches = `
INSERT INTO dispatch (/*NAMES (` + dispatchSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + dispatchSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const insertSinks = `
INSERT INTO sink (ws, name, state)
SELECT r.* FROM /*ROWS $1 (ws bigint, name text, state text)*/ AS r
WHERE true
ON CONFLICT (ws, name) DO NOTHING`

// AddOutboxEvents writes events, and a pending row for each sink that one goes to. Events of one delivery or instance are given in the
// order in which they happened, by transactions that hold its lock. They get ids that ascend in this order whatever the clocks of
// processes say.
func (t *Tx) AddOutboxEvents(list []NewOutboxEvent) error {
	var groups, events, rows, sinks rowset
	known := map[SinkRef]bool{}
	for _, e := range list {
		for _, name := range e.Sinks {
			groups.row().int(e.Group()).text(name)
			known[SinkRef{e.Workspace, name}] = true
		}
	}
	last := map[int64]int64{}
	_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var group, id int64
		err = rows.Scan(&group, &id)
		last[group] = max(last[group], id)
		return none, err
	}, lastOfGroups, &groups)
	if err != nil {
		return fmt.Errorf("find earlier outbox events: %w", err)
	}
	for _, e := range list {
		group := e.Group()
		e.ID = t.s.NewID(e.CreatedAt)
		if e.ID <= last[group] { // another process, whose clock is ahead, made the earlier event
			e.ID = (last[group]>>key.NodeBits+1)<<key.NodeBits | e.ID&(1<<key.NodeBits-1)
		}
		last[group] = e.ID
		outboxEventColumns.put(&events, &e.Event)
		for _, name := range e.Sinks {
			dispatchColumns.put(&rows, &outbox.Row{
				Workspace: e.Workspace, EventID: e.ID, Sink: name, Group: group, Status: outbox.Pending, NextAt: e.CreatedAt,
			})
			t.due(WorkDispatches, dueMicros(e.CreatedAt))
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(known), func(a, b SinkRef) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
	}) {
		sinks.row().int(int64(s.Workspace)).text(s.Name).text(string(outbox.Active))
	}
	if err := t.insertNew("insert outbox events", insertOutboxEvents, &events); err != nil {
		return err
	}
	if err := t.insertNew("insert dispatches", insertDispatches, &rows); err != nil {
		return err
	}
	if _, err = t.exec(insertSinks, &sinks); err != nil { // most exist, so the insert is not one that waits
		return fmt.Errorf("insert sinks: %w", err)
	}
	return nil
}

// EnsureSink makes the row of a sink that was never routed an event.
func (t *Tx) EnsureSink(ref SinkRef) error {
	var sinks rowset
	sinks.row().int(int64(ref.Workspace)).text(ref.Name).text(string(outbox.Active))
	if _, err := t.exec(insertSinks, &sinks); err != nil {
		return fmt.Errorf("insert sink %s: %w", ref.Name, err)
	}
	return nil
}

// The first row of each sink by one lookup. For EXISTS, PostgreSQL may read all that waits at other sinks to learn that nothing waits at this one.
const dueSinks = `
SELECT s.ws, s.name FROM sink AS s
WHERE s.state = ` + sqlSinkActive + ` AND s.rest_until <= $1
  AND (SELECT d.next_at FROM dispatch AS d WHERE d.sink = s.name AND d.ws = s.ws AND d.status = ` + sqlDispatchPending + `
    ORDER BY d.next_at, d.event_id LIMIT 1) <= $1
ORDER BY s.ws, s.name`

// DueSinks lists the active sinks that have an event whose try may begin at now.
func (s *Store) DueSinks(ctx context.Context, now time.Time) ([]SinkRef, error) {
	return all(ctx, s, "find due sinks", func(rows *sql.Rows) (r SinkRef, err error) {
		return r, rows.Scan(integer(&r.Workspace), &r.Name)
	}, dueSinks, micros(now))
}

const sinkColumnNames = `s.state, s.failing_since, s.failed_at, s.rest_until, s.reason`

const lockSink = `
SELECT ` + sinkColumnNames + ` FROM sink AS s
WHERE s.ws = $1 AND s.name = $2
/*LOCK s*/`

const updateSink = `
UPDATE sink SET state = $3, failing_since = $4, failed_at = $5, rest_until = $6, reason = $7
WHERE ws = $1 AND name = $2`

// healthFields scan sinkColumnNames.
func healthFields(h *outbox.Health) []any {
	return []any{&h.State, instant{&h.FailingSince}, instant{&h.FailedAt}, instant{&h.RestUntil}, text(&h.Reason)}
}

func scanHealth(rows *sql.Rows) (h outbox.Health, err error) {
	return h, rows.Scan(healthFields(&h)...)
}

// LockSink locks a sink and returns its health; ErrNotFound: it was never routed an event.
func (t *Tx) LockSink(ref SinkRef) (outbox.Health, error) {
	found, err := query(t, scanHealth, lockSink, int64(ref.Workspace), ref.Name)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return outbox.Health{}, fmt.Errorf("lock sink %s: %w", ref.Name, err)
	}
	return found[0], nil
}

// WriteSink writes the health of a locked sink.
func (t *Tx) WriteSink(ref SinkRef, h outbox.Health) error {
	if h.Sends() {
		t.due(WorkDispatches, dueMicros(h.RestUntil))
	}
	_, err := t.exec(updateSink, int64(ref.Workspace), ref.Name, string(h.State), micros(h.FailingSince), micros(h.FailedAt), dueMicros(h.RestUntil), string(h.Reason))
	if err != nil {
		return fmt.Errorf("write sink %s: %w", ref.Name, err)
	}
	return nil
}

// Of each row, also when the event before it in its group may be tried next.
const claimDispatches = `
SELECT /*NAMES d (` + dispatchSpec + `)*/, /*NAMES e (` + outboxEventSpec + `)*/,
  COALESCE((SELECT o.next_at FROM dispatch AS o
    WHERE o.group_id = d.group_id AND o.sink = d.sink AND o.status = ` + sqlDispatchPending + ` AND o.event_id < d.event_id
    ORDER BY o.event_id DESC LIMIT 1), 0)
FROM dispatch AS d CROSS JOIN outbox_event AS e
WHERE d.sink = $1 AND d.ws = $2 AND d.status = ` + sqlDispatchPending + ` AND d.next_at <= $3 AND e.ws = d.ws AND e.id = d.event_id
ORDER BY d.next_at, d.event_id
LIMIT $4
/*SKIP LOCKED d*/`

// Dispatch is an event at one sink with the event itself.
type Dispatch struct {
	outbox.Row
	Event outbox.Event
}

var claimedColumns = append(ofPart(dispatchColumns, func(d *Dispatch) *outbox.Row { return &d.Row }),
	ofPart(outboxEventColumns, func(d *Dispatch) *outbox.Event { return &d.Event })...)

// LockDispatches locks up to limit rows of a sink whose try may begin at now, and passes over those that other transactions hold.
func (t *Tx) LockDispatches(ref SinkRef, now time.Time, limit int) ([]Dispatch, error) {
	found, err := query(t, func(rows *sql.Rows) (Dispatch, error) {
		var behind time.Time
		d, err := claimedColumns.scan(rows, instant{&behind})
		d.Behind = behind
		return d, err
	}, claimDispatches, ref.Name, int64(ref.Workspace), micros(now), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("lock dispatches: %w", err)
	}
	return found, nil
}

// A row that was tried again meanwhile, ended, or was redriven has another attempt_no or status.
const updateDispatches = `
UPDATE dispatch SET status = r.status, attempts = r.attempts, attempt_no = r.attempt_no, next_at = r.next_at, reason = r.reason, ended_at = r.ended_at
FROM /*ROWS $1 (ws bigint, event_id bigint, sink text, was text, was_no bigint, status text, attempts bigint, attempt_no bigint, next_at bigint, reason text,
  ended_at bigint)*/ AS r
WHERE dispatch.ws = r.ws AND dispatch.event_id = r.event_id AND dispatch.sink = r.sink AND dispatch.status = r.was AND dispatch.attempt_no = r.was_no
RETURNING dispatch.event_id`

// DispatchChange is a row before and after a decision.
type DispatchChange struct{ Was, Is outbox.Row }

// WriteDispatches writes decisions about rows of one sink. It returns the ids of the events whose row was as it had been when it was
// decided; nothing of the others is written.
func (t *Tx) WriteDispatches(list []DispatchChange) (written map[int64]bool, err error) {
	var rows rowset
	for _, c := range list {
		rows.row().int(int64(c.Is.Workspace)).int(c.Is.EventID).text(c.Is.Sink).text(string(c.Was.Status)).int(int64(c.Was.AttemptNo)).
			text(string(c.Is.Status)).int(int64(c.Is.Attempts)).int(int64(c.Is.AttemptNo)).int(dueMicros(c.Is.NextAt)).text(string(c.Is.Reason)).time(c.Is.EndedAt)
		t.due(WorkDispatches, dueMicros(c.Is.NextAt))
	}
	ids, err := query(t, scanInt, updateDispatches, &rows)
	if err != nil {
		return nil, fmt.Errorf("write dispatches: %w", err)
	}
	written = make(map[int64]bool, len(ids))
	for _, id := range ids {
		written[id] = true
	}
	return written, nil
}

// The event that was behind one that has ended is tried at once. One that was tried before keeps its wait.
const wakeGroups = `
UPDATE dispatch SET next_at = $1
FROM /*ROWS $2 (group_id bigint, sink text)*/ AS r
WHERE dispatch.group_id = r.group_id AND dispatch.sink = r.sink AND dispatch.status = ` + sqlDispatchPending + ` AND dispatch.attempts = 0 AND dispatch.next_at > $1
  AND dispatch.event_id = (SELECT MIN(o.event_id) FROM dispatch AS o
    WHERE o.group_id = r.group_id AND o.sink = r.sink AND o.status = ` + sqlDispatchPending + `)`

// WakeBehind makes the next events of groups due, in which one has ended at one sink.
func (t *Tx) WakeBehind(now time.Time, sink string, groups []int64) error {
	var rows rowset
	for _, g := range groups {
		rows.row().int(g).text(sink)
	}
	n, err := t.exec(wakeGroups, dueMicros(now), &rows)
	if err != nil {
		return fmt.Errorf("wake events behind others: %w", err)
	}
	if n > 0 {
		t.due(WorkDispatches, dueMicros(now))
	}
	return nil
}

const insertDispatchAttempts = `
INSERT INTO dispatch_attempt (/*NAMES (` + dispatchAttemptSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + dispatchAttemptSpec + `)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

// AddDispatchAttempts logs tries.
func (t *Tx) AddDispatchAttempts(list []outbox.Attempt) error {
	var rows rowset
	for _, a := range list {
		dispatchAttemptColumns.put(&rows, &a)
	}
	_, err := t.insert("insert attempts at sinks", insertDispatchAttempts, &rows)
	return err
}
