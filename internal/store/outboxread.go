package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/subject"
)

const selectOutboxEvents = `
SELECT /*NAMES e (` + outboxEventSpec + `)*/
FROM outbox_event AS e`

// OutboxFilter narrows a list of outbox events; empty fields allow all.
type OutboxFilter struct {
	Type     string
	Workflow string
	Delivery delivery.ID
	Instance instance.ID
	Sink     string        // it goes to this sink
	Status   outbox.Status // at that sink; without a sink, at one of its sinks
	Made     Span
}

// OutboxEvents lists outbox events, the newest first.
func (s *Store) OutboxEvents(ctx context.Context, ws subject.WorkspaceID, f OutboxFilter, p Page) ([]outbox.Event, error) {
	p = f.Made.cut(p)
	l := list(selectOutboxEvents, "e", int64(ws), p)
	if f.Type != "" {
		l.and("e.type = ?", f.Type)
	}
	if f.Workflow != "" {
		l.and("e.workflow = ?", f.Workflow)
	}
	if f.Delivery != 0 {
		l.and("e.delivery_id = ?", int64(f.Delivery))
	}
	if f.Instance != 0 {
		l.and("e.instance_id = ?", int64(f.Instance))
	}
	switch {
	case f.Sink != "" && f.Status != "":
		l.and("EXISTS (SELECT 1 FROM dispatch AS d WHERE d.ws = e.ws AND d.event_id = e.id AND d.sink = ?", f.Sink)
		l.and("d.status = ?)", string(f.Status))
	case f.Sink != "":
		l.and("EXISTS (SELECT 1 FROM dispatch AS d WHERE d.ws = e.ws AND d.event_id = e.id AND d.sink = ?)", f.Sink)
	case f.Status != "":
		l.and("EXISTS (SELECT 1 FROM dispatch AS d WHERE d.ws = e.ws AND d.event_id = e.id AND d.status = ?)", string(f.Status))
	}
	l.within("e", "e.created_at", f.Made)
	text, args := l.end("e", p)
	return all(ctx, s, "list outbox events", scanOutboxEvent, text, args...)
}

func scanOutboxEvent(rows *sql.Rows) (outbox.Event, error) { return outboxEventColumns.scan(rows) }

const selectOutboxEvent = selectOutboxEvents + `
WHERE e.ws = $1 AND e.id = $2`

// OutboxEvent reads one outbox event; ErrNotFound: there is none of that id.
func (s *Store) OutboxEvent(ctx context.Context, ws subject.WorkspaceID, id int64) (outbox.Event, error) {
	return one(ctx, s, "read an outbox event", scanOutboxEvent, selectOutboxEvent, int64(ws), id)
}

const selectDispatches = `
SELECT /*NAMES d (` + dispatchSpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN dispatch AS d
WHERE d.ws = r.ws AND d.event_id = r.id
ORDER BY d.event_id, d.sink`

// Dispatches returns events at their sinks, by event, in the order of the sinks' names.
func (s *Store) Dispatches(ctx context.Context, ws subject.WorkspaceID, events []int64) (map[int64][]outbox.Row, error) {
	var rows rowset
	for _, id := range events {
		rows.row().int(int64(ws)).int(id)
	}
	list, err := all(ctx, s, "list events at sinks", func(rows *sql.Rows) (outbox.Row, error) { return dispatchColumns.scan(rows) }, selectDispatches, &rows)
	found := make(map[int64][]outbox.Row, len(events))
	for _, r := range list {
		found[r.EventID] = append(found[r.EventID], r)
	}
	return found, err
}

const selectDispatchAttempts = `
SELECT /*NAMES (` + dispatchAttemptSpec + `)*/
FROM dispatch_attempt
WHERE ws = $1 AND event_id = $2
ORDER BY began_at, sink, number`

// DispatchAttempts lists the tries of an event at its sinks, the oldest first.
func (s *Store) DispatchAttempts(ctx context.Context, ws subject.WorkspaceID, event int64) ([]outbox.Attempt, error) {
	return all(ctx, s, "list tries at sinks", func(rows *sql.Rows) (outbox.Attempt, error) { return dispatchAttemptColumns.scan(rows) },
		selectDispatchAttempts, int64(ws), event)
}

// SinkState is what is known of a sink that was ever routed an event.
type SinkState struct {
	SinkRef
	outbox.Health
	Pending int64     // events that it has not got yet, at most MaxBacklog
	Dead    int64     // events that no try follows for, at most MaxBacklog
	Oldest  time.Time // when the longest waiting of those could have been tried, or will be; zero: none waits
}

const selectSinks = `
SELECT s.ws, s.name, ` + sinkColumnNames + `,
  (SELECT COUNT(*) FROM (SELECT 1 FROM dispatch AS d WHERE d.sink = s.name AND d.ws = s.ws AND d.status = ` + sqlDispatchPending + ` LIMIT $1) AS a),
  (SELECT COUNT(*) FROM (SELECT 1 FROM dispatch AS d WHERE d.sink = s.name AND d.ws = s.ws AND d.status = ` + sqlDispatchDead + ` LIMIT $1) AS b),
  COALESCE((SELECT d.next_at FROM dispatch AS d WHERE d.sink = s.name AND d.ws = s.ws AND d.status = ` + sqlDispatchPending + ` ORDER BY d.next_at, d.event_id LIMIT 1), 0)
FROM sink AS s`

const selectAllSinks = selectSinks + `
ORDER BY s.ws, s.name`

const selectSinksOf = selectSinks + `
WHERE s.ws = $2
ORDER BY s.name`

// Sinks lists the sinks of all workspaces that were ever routed an event.
func (s *Store) Sinks(ctx context.Context) ([]SinkState, error) {
	return all(ctx, s, "list sinks", scanSinkState, selectAllSinks, int64(MaxBacklog))
}

// SinksOf lists the sinks of one workspace that were ever routed an event, by name.
func (s *Store) SinksOf(ctx context.Context, ws subject.WorkspaceID) ([]SinkState, error) {
	return all(ctx, s, "list sinks", scanSinkState, selectSinksOf, int64(MaxBacklog), int64(ws))
}

func scanSinkState(rows *sql.Rows) (k SinkState, err error) {
	fields := append([]any{integer(&k.Workspace), &k.Name}, healthFields(&k.Health)...)
	return k, rows.Scan(append(fields, &k.Pending, &k.Dead, instant{&k.Oldest})...)
}

const selectSinkHealth = `
SELECT s.name, ` + sinkColumnNames + `
FROM sink AS s
WHERE s.ws = $1`

// SinkHealth returns the health of the sinks of one workspace that were ever routed an event, by name.
func (s *Store) SinkHealth(ctx context.Context, ws subject.WorkspaceID) (map[string]outbox.Health, error) {
	list, err := all(ctx, s, "read how sinks are", func(rows *sql.Rows) (k SinkState, err error) {
		return k, rows.Scan(append([]any{&k.Name}, healthFields(&k.Health)...)...)
	}, selectSinkHealth, int64(ws))
	found := make(map[string]outbox.Health, len(list))
	for _, k := range list {
		found[k.Name] = k.Health
	}
	return found, err
}

const lockDead = `
SELECT /*NAMES d (` + dispatchSpec + `)*/
FROM dispatch AS d
WHERE d.sink = $1 AND d.ws = $2 AND d.status = ` + sqlDispatchDead + ` AND d.ended_at <= $3
ORDER BY d.event_id
LIMIT $4
/*LOCK d*/`

// LockDead locks up to limit rows of a sink that were dead at an instant, in the order of their events.
func (t *Tx) LockDead(ref SinkRef, at time.Time, limit int) ([]outbox.Row, error) {
	return query(t, func(rows *sql.Rows) (outbox.Row, error) { return dispatchColumns.scan(rows) }, lockDead,
		ref.Name, int64(ref.Workspace), micros(at), int64(limit))
}

const lockDispatchesOf = `
SELECT /*NAMES d (` + dispatchSpec + `)*/
FROM dispatch AS d
WHERE d.ws = $1 AND d.event_id = $2
ORDER BY d.sink
/*LOCK d*/`

// LockDispatchesOf locks an event's rows at all its sinks.
func (t *Tx) LockDispatchesOf(ws subject.WorkspaceID, event int64) ([]outbox.Row, error) {
	return query(t, func(rows *sql.Rows) (outbox.Row, error) { return dispatchColumns.scan(rows) }, lockDispatchesOf, int64(ws), event)
}
