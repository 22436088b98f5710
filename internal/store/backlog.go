package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// MaxBacklog is how far Backlog counts: beyond it the number says only that it is very large.
const MaxBacklog = 100_000

// Backlog is what waits in all workspaces, each counted up to MaxBacklog.
type Backlog struct {
	DueRecords    int64     // that have to be looked at
	DueInstances  int64     // whose time has come, those in somebody's hands included
	DueDeliveries int64     // likewise
	OldestDue     time.Time // of these; zero when there are none
	Held          int64     // instances that wait for a person
	Paused        int64     // workflows that a person has paused
	PutAside      int64     // what came due of these meanwhile: instances and deliveries
	Unknown       int64     // deliveries of which nobody knows whether they arrived
	Definitions   map[string]int64
}

// maxWorkspaces bounds the workspaces whose set is named.
const maxWorkspaces = 100

// Every line is read from an index alone, however large the tables are.
const backlog = `
SELECT 'due_instances' AS what, '' AS name, COUNT(*) AS n FROM (
  SELECT id FROM instance WHERE ready_at > 0 AND ready_at <= $1 LIMIT $2) AS a
UNION ALL SELECT 'due_deliveries', '', COUNT(*) FROM (
  SELECT id FROM delivery WHERE send_at > 0 AND send_at <= $1 LIMIT $2) AS b
UNION ALL SELECT 'due_records', '', COUNT(*) FROM (
  SELECT id FROM record WHERE look_at > 0 AND look_at <= $1 LIMIT $2) AS f
UNION ALL SELECT 'oldest', '', COALESCE((SELECT look_at FROM record WHERE look_at > 0 AND look_at <= $1 ORDER BY look_at, id LIMIT 1), 0)
UNION ALL SELECT 'oldest', '', COALESCE((SELECT ready_at FROM instance WHERE ready_at > 0 AND ready_at <= $1 ORDER BY ready_at, id LIMIT 1), 0)
UNION ALL SELECT 'oldest', '', COALESCE((SELECT send_at FROM delivery WHERE send_at > 0 AND send_at <= $1 ORDER BY send_at, id LIMIT 1), 0)
UNION ALL SELECT 'held', '', COUNT(*) FROM (SELECT id FROM instance WHERE held = 1 LIMIT $2 + $2) AS c
UNION ALL SELECT 'paused', '', COUNT(*) FROM (SELECT ws FROM pause WHERE resumed_at = 0 LIMIT $2) AS g
UNION ALL SELECT 'aside_instances', '', COUNT(*) FROM (SELECT id FROM instance WHERE ` + asideInstance + ` LIMIT $2) AS h
UNION ALL SELECT 'aside_deliveries', '', COUNT(*) FROM (SELECT id FROM delivery WHERE ` + asideDelivery + ` LIMIT $2) AS j
UNION ALL SELECT 'unknown', '', COUNT(*) FROM (SELECT id FROM delivery WHERE status = 'unknown' LIMIT $2) AS d
UNION ALL SELECT 'definitions', name, definitions FROM (SELECT name, definitions FROM workspace ORDER BY id LIMIT $3) AS e`

// Backlog counts what waits at now.
func (s *Store) Backlog(ctx context.Context, now time.Time) (Backlog, error) {
	b := Backlog{Definitions: map[string]int64{}}
	type line struct {
		what, name string
		n          int64
	}
	lines, err := all(ctx, s, "count what waits", func(rows *sql.Rows) (l line, err error) {
		return l, rows.Scan(&l.what, &l.name, &l.n)
	}, backlog, dueMicros(now), int64(MaxBacklog), int64(maxWorkspaces))
	if err != nil {
		return b, err
	}
	for _, l := range lines {
		switch l.what {
		case "due_records":
			b.DueRecords = l.n
		case "due_instances":
			b.DueInstances = l.n
		case "due_deliveries":
			b.DueDeliveries = l.n
		case "oldest":
			if at := fromMicros(l.n); !at.IsZero() && (b.OldestDue.IsZero() || at.Before(b.OldestDue)) {
				b.OldestDue = at
			}
		case "held":
			b.Held += l.n
		case "paused":
			b.Paused = l.n
		case "aside_instances":
			b.PutAside += l.n
			b.Held -= l.n // a person has paused them all at once
		case "aside_deliveries":
			b.PutAside += l.n
		case "unknown":
			b.Unknown = l.n
		case "definitions":
			b.Definitions[l.name] = l.n
		default:
			return b, fmt.Errorf("count what waits: unknown line %q", l.what)
		}
	}
	b.Held = min(max(b.Held, 0), MaxBacklog)
	return b, nil
}

// Connections is the state of the pool of connections; SQLite: of the readers and the one writer together.
func (s *Store) Connections() sql.DBStats {
	stats := s.writers.Stats()
	if s.readers != s.writers {
		r := s.readers.Stats()
		stats.MaxOpenConnections += r.MaxOpenConnections
		stats.OpenConnections += r.OpenConnections
		stats.InUse += r.InUse
		stats.Idle += r.Idle
		stats.WaitCount += r.WaitCount
		stats.WaitDuration += r.WaitDuration
	}
	return stats
}
