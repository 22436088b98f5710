package store

// Queries that only the console uses.

import (
	"context"
	"database/sql"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// It reads the index of due deliveries, so that the number of finished rows does not matter.
const upcoming = selectDeliveries + `
WHERE d.ws = $1 AND d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` AND ` + notCancelled + `
ORDER BY d.send_at, d.id
LIMIT $2`

// Upcoming lists the deliveries that have a message to send, the next one first.
func (s *Store) Upcoming(ctx context.Context, ws subject.WorkspaceID, limit int) ([]delivery.Row, error) {
	return all(ctx, s, "list upcoming deliveries", scanDelivery, upcoming, int64(ws), int64(limit))
}

const leaving = selectDeliveries + `
WHERE d.ws = $1 AND d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` AND ` + notCancelled + `
  AND NOT EXISTS (SELECT 1 FROM pause AS p WHERE p.ws = d.ws AND p.workflow = d.workflow AND p.resumed_at = 0)
ORDER BY d.send_at, d.id
LIMIT $2`

// Leaving is Upcoming without the deliveries of paused workflows.
func (s *Store) Leaving(ctx context.Context, ws subject.WorkspaceID, limit int) ([]delivery.Row, error) {
	return all(ctx, s, "list leaving deliveries", scanDelivery, leaving, int64(ws), int64(limit))
}

const deliveriesByID = `
SELECT /*NAMES d (` + deliverySpec + `)*/, ` + shownCancelled + `
FROM /*ROWS $2 (id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = $1 AND d.id = r.id`

// DeliveriesByID reads deliveries in one statement. Deliveries that do not exist are left out.
func (s *Store) DeliveriesByID(ctx context.Context, ws subject.WorkspaceID, ids []delivery.ID) (map[delivery.ID]delivery.Row, error) {
	found := make(map[delivery.ID]delivery.Row, len(ids))
	var rows rowset
	for _, id := range ids {
		if _, again := found[id]; !again {
			found[id] = delivery.Row{}
			rows.row().int(int64(id))
		}
	}
	clear(found)
	_, err := all(ctx, s, "read deliveries", func(r *sql.Rows) (struct{}, error) {
		d, err := scanShown(r)
		found[d.ID] = d
		return struct{}{}, err
	}, deliveriesByID, int64(ws), &rows)
	return found, err
}

const selectEvents = `
SELECT /*NAMES e (` + eventSpec + `)*/
FROM event AS e`

// Events lists events, the newest one first.
func (s *Store) Events(ctx context.Context, ws subject.WorkspaceID, f EventFilter, p Page) ([]EventRow, error) {
	if f.To.Text != "" {
		return s.eventsNaming(ctx, ws, f, p)
	}
	p = f.Made.cut(p)
	l := list(selectEvents, "e", int64(ws), p)
	l.within("e", "e.received_at", f.Made)
	if f.Kind != "" {
		l.and("e.kind = ?", f.Kind)
	}
	text, args := l.end("e", p)
	return all(ctx, s, "list events", func(rows *sql.Rows) (EventRow, error) {
		_, e, err := scanEvent(rows)
		return e, err
	}, text, args...)
}
