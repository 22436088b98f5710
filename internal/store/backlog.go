package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// MaxBacklog is how far Backlog counts; a result of MaxBacklog means that or more.
const MaxBacklog = 100_000

// Backlog counts the waiting work of all workspaces. Each number is at most MaxBacklog.
type Backlog struct {
	DueRecords    int64            // records that wait for evaluation
	DueInstances  int64            // instances that are due, including those that a worker has claimed
	DueDeliveries int64            // deliveries that could have left, including those that a retry or their channel delays
	DueItems      int64            // items whose topics are to be found
	OverdueRuns   int64            // runs of digests that began more than two hours ago and are not over
	RunAdvanced   time.Time        // when one of the runs that are under way advanced last; zero if there are none
	OldestDue     time.Time        // when the oldest of the records, instances, deliveries and items was due; zero if there are none
	Held          int64            // instances that wait for a person
	Paused        int64            // workflows that are paused
	Braked        int64            // of these: workflows that their own brake has paused
	Parked        int64            // parked instances and deliveries of paused workflows
	Unknown       int64            // deliveries whose outcome is unknown
	Queues        []Queue          // the due deliveries by channel and reason
	Definitions   map[string]int64 // number of the definition set in force, by workspace
}

// Queue counts the deliveries of a channel that could have left and have not, for one reason.
type Queue struct {
	Channel string
	Reason  reason.Reason // the reason of the last delay; empty: they were not delayed
	N       int64
	Oldest  time.Time // when the oldest of them could have left
}

// MaxTurns bounds the due deliveries whose rows are read for their channels. The others are only counted, from the index.
const MaxTurns = 10_000

// maxWorkspaces bounds the workspaces whose definition set is listed.
const maxWorkspaces = 100

// overdueAfter is how long after it began a run of a digest is overdue, in µs: two hours.
const overdueAfter = `7200000000`

// Every line reads only an index, so that the cost does not grow with the tables. The lines that group by channel are the
// exception: they read the rows of the first due deliveries. send_at is when a delivery is claimed next; the index
// delivery_delayed holds those that could have left before.
const backlog = `
SELECT 'due_instances' AS what, '' AS name, '' AS reason, COUNT(*) AS n, 0 AS since FROM (
  SELECT id FROM instance WHERE ready_at > 0 AND ready_at <= $1 LIMIT $2) AS a
UNION ALL SELECT 'due_deliveries', '', '', COUNT(*), 0 FROM (
  SELECT id FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND send_at <= $1 LIMIT $2) AS b
UNION ALL SELECT 'due_instances', '', '', COUNT(*), 0 FROM (
  SELECT due_at FROM instance WHERE retry_count > 0 AND ready_at > 0 AND due_at <= $1 AND ready_at > $1 LIMIT $2) AS k
UNION ALL SELECT 'waiting', channel, reason, COUNT(*), MIN(eligible_at) FROM (
  SELECT channel, reason, eligible_at FROM delivery WHERE eligible_at > 0 AND eligible_at <= $1 ORDER BY eligible_at, send_at LIMIT $2) AS l
  GROUP BY channel, reason
UNION ALL SELECT 'waiting', channel, reason, COUNT(*), MIN(send_at) FROM (
  SELECT channel, reason, send_at, eligible_at FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND send_at <= $1 ORDER BY send_at, id LIMIT $4) AS m
  WHERE eligible_at = 0 GROUP BY channel, reason
UNION ALL SELECT 'due_deliveries', '', '', COUNT(*), 0 FROM (
  SELECT eligible_at FROM delivery WHERE eligible_at > 0 AND eligible_at <= $1 AND (send_at = 0 OR send_at > $1) LIMIT $2) AS o
UNION ALL SELECT 'oldest', '', '', COALESCE((SELECT eligible_at FROM delivery WHERE eligible_at > 0 AND eligible_at <= $1 ORDER BY eligible_at, send_at LIMIT 1), 0), 0
UNION ALL SELECT 'oldest', '', '', COALESCE((SELECT due_at FROM instance WHERE retry_count > 0 AND ready_at > 0 AND due_at <= $1 ORDER BY due_at, ready_at LIMIT 1), 0), 0
UNION ALL SELECT 'due_records', '', '', COUNT(*), 0 FROM (
  SELECT id FROM record WHERE evaluate_at > 0 AND evaluate_at <= $1 LIMIT $2) AS f
UNION ALL SELECT 'oldest', '', '', COALESCE((SELECT evaluate_at FROM record WHERE evaluate_at > 0 AND evaluate_at <= $1 ORDER BY evaluate_at, id LIMIT 1), 0), 0
UNION ALL SELECT 'oldest', '', '', COALESCE((SELECT ready_at FROM instance WHERE ready_at > 0 AND ready_at <= $1 ORDER BY ready_at, id LIMIT 1), 0), 0
UNION ALL SELECT 'oldest', '', '', COALESCE((SELECT send_at FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND send_at <= $1 ORDER BY send_at, id LIMIT 1), 0), 0
UNION ALL SELECT 'due_items', '', '', COUNT(*), 0 FROM (SELECT id FROM item WHERE match_at > 0 AND match_at <= $1 LIMIT $2) AS q
UNION ALL SELECT 'oldest', '', '', COALESCE((SELECT match_at FROM item WHERE match_at > 0 AND match_at <= $1 ORDER BY match_at, id LIMIT 1), 0), 0
UNION ALL SELECT 'overdue_runs', '', '', COUNT(*), 0 FROM (
  SELECT r.instance_id FROM digest_run AS r CROSS JOIN instance AS i
  WHERE r.over_at = 0 AND r.begun_at < $1 - ` + overdueAfter + ` AND i.ws = r.ws AND i.id = r.instance_id AND (r.expanded_at > 0 OR i.status = ` + sqlPending + `) LIMIT $2) AS r
UNION ALL SELECT 'run_advanced', '', '', COALESCE(MAX(updated_at), 0), 0 FROM (SELECT updated_at FROM job WHERE status = ` + sqlJobRunning + ` LIMIT $2) AS s
UNION ALL SELECT 'held', '', '', COUNT(*), 0 FROM (SELECT id FROM instance WHERE hold <> '' LIMIT $2 + $2) AS c
UNION ALL SELECT 'paused', '', '', COUNT(*), 0 FROM (SELECT ws FROM pause WHERE resumed_at = 0 LIMIT $2) AS g
UNION ALL SELECT 'braked', '', '', COUNT(*), 0 FROM (SELECT ws FROM pause WHERE resumed_at = 0 AND cause <> '' LIMIT $2) AS p
UNION ALL SELECT 'aside_instances', '', '', COUNT(*), 0 FROM (SELECT id FROM instance WHERE ` + parkedInstance + ` LIMIT $2) AS h
UNION ALL SELECT 'aside_deliveries', '', '', COUNT(*), 0 FROM (SELECT id FROM delivery WHERE ` + parkedDelivery + ` LIMIT $2) AS j
UNION ALL SELECT ` + sqlUnknown + `, '', '', COUNT(*), 0 FROM (SELECT id FROM delivery WHERE status = ` + sqlUnknown + ` LIMIT $2) AS d
UNION ALL SELECT 'definitions', name, '', definitions, 0 FROM (SELECT name, definitions FROM workspace ORDER BY id LIMIT $3) AS e`

// Backlog counts the work that waits at now.
func (s *Store) Backlog(ctx context.Context, now time.Time) (Backlog, error) {
	b := Backlog{Definitions: map[string]int64{}}
	type line struct {
		what, name, reason string
		n, since           int64
	}
	lines, err := all(ctx, s, "count what waits", func(rows *sql.Rows) (l line, err error) {
		return l, rows.Scan(&l.what, &l.name, &l.reason, &l.n, &l.since)
	}, backlog, dueMicros(now), int64(MaxBacklog), int64(maxWorkspaces), s.turns)
	if err != nil {
		return b, err
	}
	for _, l := range lines {
		switch l.what {
		case "due_records":
			b.DueRecords = l.n
		case "due_instances":
			b.DueInstances += l.n
		case "due_deliveries":
			b.DueDeliveries += l.n
		case "waiting":
			b.queue(Queue{Channel: l.name, Reason: reason.Reason(l.reason), N: l.n, Oldest: fromMicros(l.since)})
		case "oldest":
			if at := fromMicros(l.n); !at.IsZero() && (b.OldestDue.IsZero() || at.Before(b.OldestDue)) {
				b.OldestDue = at
			}
		case "due_items":
			b.DueItems = l.n
		case "overdue_runs":
			b.OverdueRuns = l.n
		case "run_advanced":
			b.RunAdvanced = fromMicros(l.n)
		case "held":
			b.Held += l.n
		case "paused":
			b.Paused = l.n
		case "braked":
			b.Braked = l.n
		case "aside_instances":
			b.Parked += l.n
			b.Held -= l.n // parked instances are on hold too
		case "aside_deliveries":
			b.Parked += l.n
		case "unknown":
			b.Unknown = l.n
		case "definitions":
			b.Definitions[l.name] = l.n
		default:
			return b, fmt.Errorf("count what waits: unknown line %q", l.what)
		}
	}
	b.Held = min(max(b.Held, 0), MaxBacklog)
	b.DueInstances, b.DueDeliveries = min(b.DueInstances, MaxBacklog), min(b.DueDeliveries, MaxBacklog)
	return b, nil
}

// queue adds a count to the queue of the same channel and reason.
func (b *Backlog) queue(w Queue) {
	for i, known := range b.Queues {
		if known.Channel == w.Channel && known.Reason == w.Reason {
			b.Queues[i].N = min(known.N+w.N, MaxBacklog)
			if w.Oldest.Before(known.Oldest) {
				b.Queues[i].Oldest = w.Oldest
			}
			return
		}
	}
	b.Queues = append(b.Queues, w)
}

// Connections returns the state of the connection pool; SQLite: of the readers and the one writer together.
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

const lastSentTo = `
SELECT COALESCE(MAX(d.last_sent_at), 0) FROM contact AS p CROSS JOIN delivery AS d
WHERE /*BY NAME*/p.ws = $1 AND p.ext_id = $2 AND d.ws = p.ws AND d.contact_id = p.id`

// LastSentTo returns when a provider accepted a message to a contact last; zero: none has, or there is no such contact. It reads all deliveries of the contact.
func (s *Store) LastSentTo(ctx context.Context, ws subject.WorkspaceID, extID string) (time.Time, error) {
	return one(ctx, s, "find the last message to a contact", func(rows *sql.Rows) (at time.Time, err error) { return at, rows.Scan(instant{&at}) }, lastSentTo, int64(ws), extID)
}
