package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// It is one statement, so that all numbers are of the same moment.
const counts = `
SELECT 'event' AS what, '' AS status, COUNT(*) AS n, 0 AS sent, 0 AS resent FROM event WHERE ws = $1
UNION ALL SELECT 'instance', status, COUNT(*), 0, 0 FROM instance WHERE ws = $1 GROUP BY status
UNION ALL SELECT 'delivery', a.status, COUNT(*), COUNT(CASE WHEN a.last_sent_at > 0 THEN 1 END),
  COUNT(CASE WHEN a.status = ` + sqlFailed + ` AND a.resent = 1 THEN 1 END)
  FROM (SELECT ` + shownStatus + ` AS status, d.last_sent_at, d.resent FROM delivery AS d WHERE d.ws = $1) AS a GROUP BY a.status
UNION ALL SELECT 'delayed', d.reason, COUNT(*), 0, 0 FROM delivery AS d WHERE d.eligible_at > 0 AND d.ws = $1 AND NOT (` + countsAsCancelled + `) GROUP BY d.reason
UNION ALL SELECT 'held', '', COUNT(*), 0, 0 FROM instance WHERE ws = $1 AND hold <> ''
UNION ALL SELECT 'due', '', COALESCE((SELECT ready_at FROM instance WHERE ready_at > 0 AND ws = $1 ORDER BY ready_at, id LIMIT 1), 0), 0, 0
UNION ALL SELECT 'due', '', COALESCE((SELECT send_at FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND ws = $1 ORDER BY send_at, id LIMIT 1), 0), 0, 0`

// Counts counts the rows of a workspace. OldestDue is the earliest instant at which an instance or a delivery is due, in the
// past or in the future.
func (s *Store) Counts(ctx context.Context, ws subject.WorkspaceID) (Counts, error) {
	c := Counts{InstancesByStatus: map[instance.Status]int64{}, DeliveriesByStatus: map[delivery.Status]int64{}}
	type line struct {
		what, status string
		n, sent      int64
		resent       int64
	}
	lines, err := all(ctx, s, "count", func(rows *sql.Rows) (l line, err error) {
		return l, rows.Scan(&l.what, &l.status, &l.n, &l.sent, &l.resent)
	}, counts, int64(ws))
	if err != nil {
		return c, err
	}
	for _, l := range lines {
		switch l.what {
		case "event":
			c.Events = l.n
		case "instance":
			c.InstancesByStatus[instance.Status(l.status)] = l.n
		case "delivery":
			c.DeliveriesByStatus[delivery.Status(l.status)] = l.n
			c.Sent += l.sent
			c.FailedResent += l.resent
		case "delayed":
			if c.Delayed == nil {
				c.Delayed = map[reason.Reason]int64{}
			}
			c.Delayed[reason.Reason(l.status)] = l.n
		case "held":
			c.Held = l.n
		case "due":
			if at := fromMicros(l.n); !at.IsZero() && (c.OldestDue.IsZero() || at.Before(c.OldestDue)) {
				c.OldestDue = at
			}
		default:
			return c, fmt.Errorf("count: unknown line %q", l.what)
		}
	}
	return c, nil
}
