package store

import (
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/subject"
)

// Claims are fair among workspaces: one that has very many deliveries due makes the others wait for a batch, not for all of them. A claim takes what has been
// due longest, whatever its workspace, until one comes back full. Then each workspace that has something due of the priority where there was no room left has
// a turn, before that order counts again. What has a higher priority does not wait for these turns.

// workspaceTurns are whose turn it is, of the deliveries of one priority. Each process has its own.
type workspaceTurns struct {
	mu       sync.Mutex
	priority flow.Priority
	queue    []subject.WorkspaceID
}

// next takes the next workspace out of the queue; ok is false if there is none.
func (t *workspaceTurns) next() (ws subject.WorkspaceID, p flow.Priority, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		return 0, 0, false
	}
	ws, t.queue = t.queue[0], t.queue[1:]
	return ws, t.priority, true
}

// begin begins a round, if there are several workspaces.
func (t *workspaceTurns) begin(p flow.Priority, of []subject.WorkspaceID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.priority, t.queue = p, nil; len(of) > 1 {
		t.queue = of
	}
}

// One lookup for each workspace: PostgreSQL would read all that is due for an EXISTS. A workspace that is alone has no turns.
const workspacesDue = `
SELECT w.id FROM workspace AS w
WHERE (SELECT COUNT(*) FROM (SELECT 1 FROM workspace LIMIT 2) AS of) > 1 AND COALESCE((SELECT d.id FROM delivery AS d
  WHERE d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` AND d.priority = $2 AND d.ws = w.id AND d.send_at <= $1 AND d.lease_until <= $1
  ORDER BY d.send_at, d.id
  LIMIT 1), 0) > 0
ORDER BY w.id`

const claimOfWorkspace = `
WITH due AS MATERIALIZED (
  SELECT ws, id FROM delivery
  WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND priority = $4 AND ws = $5 AND send_at <= $1 AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $2
  /*SKIP LOCKED*/)
` + takeUpDue

const moreUrgent = `
SELECT COUNT(*) FROM /*ROWS $2 (priority bigint)*/ AS r
WHERE COALESCE((SELECT d.id FROM delivery AS d
  WHERE d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` AND d.priority = r.priority AND d.send_at <= $1 AND d.lease_until <= $1
  ORDER BY d.send_at, d.id
  LIMIT 1), 0) > 0`

// moreUrgent reports whether something is due of a higher priority.
func (t *Tx) moreUrgent(now time.Time, than flow.Priority) (bool, error) {
	var higher rowset
	for p := flow.Urgent; p < than; p++ {
		higher.row().int(int64(p))
	}
	if than == flow.Urgent {
		return false, nil
	}
	n, err := query(t, scanInt, moreUrgent, dueMicros(now), &higher)
	if err != nil {
		return false, fmt.Errorf("look for what is more urgent: %w", err)
	}
	return n[0] > 0, nil
}

// claimInTurn claims for the workspaces whose turn it is, up to limit: none, if something more urgent is due.
func (t *Tx) claimInTurn(now, leaseUntil time.Time, limit int) (claims []delivery.Claim, err error) {
	for len(claims) < limit {
		ws, priority, ok := t.s.inTurn.next()
		if !ok {
			return claims, nil
		}
		if len(claims) == 0 {
			switch urgent, err := t.moreUrgent(now, priority); {
			case err != nil:
				return nil, err
			case urgent:
				return nil, t.beginTurns(now, priority)
			}
		}
		more, err := query(t, scanClaim, claimOfWorkspace, dueMicros(now), int64(limit-len(claims)), micros(leaseUntil), int64(priority), int64(ws))
		if err != nil {
			return nil, fmt.Errorf("claim the deliveries of a workspace: %w", err)
		}
		claims = append(claims, more...)
	}
	return claims, nil
}

// beginTurns begins a round among the workspaces that have something due of a priority.
func (t *Tx) beginTurns(now time.Time, p flow.Priority) error {
	of, err := query(t, func(rows *sql.Rows) (ws subject.WorkspaceID, err error) { return ws, rows.Scan(integer(&ws)) }, workspacesDue, dueMicros(now), int64(p))
	if err != nil {
		return fmt.Errorf("find workspaces: %w", err)
	}
	t.s.inTurn.begin(p, of)
	return nil
}

// lowest returns the lowest priority among claims: that where there was no room left.
func lowest(claims []delivery.Claim) flow.Priority {
	return slices.MaxFunc(claims, func(a, b delivery.Claim) int { return int(a.Priority - b.Priority) }).Priority
}
