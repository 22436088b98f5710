package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// A person's cancel marks the instance in one transaction, however many deliveries it has. A claim reads the mark with the row that it
// takes up, and sends nothing of a marked instance; a job ends its rows in pages.
//
// On PostgreSQL the claims of one transaction are of one instant, and its intents are committed later. So a cancel that ends no rows
// itself waits for the transactions that claim (AwaitClaims). A claim after its commit reads the mark, and what was
// claimed before is in flight (P5).

// Marked instances are found by an index that holds nothing else. The sign keeps the key of all instances from being used instead.
const (
	// cancelledSince is a column of a claim: when its instance was cancelled; 0: it was not.
	cancelledSince = `COALESCE((SELECT m.cancelled_at FROM instance AS m WHERE m.cancelled_at > 0 AND m.id = delivery.instance_id AND +m.ws = delivery.ws), 0)`
	// shownCancelled is the same of deliveries d.
	shownCancelled = `COALESCE((SELECT m.cancelled_at FROM instance AS m WHERE m.cancelled_at > 0 AND m.id = d.instance_id AND +m.ws = d.ws), 0)`
	// notCancelled is a condition on deliveries d.
	notCancelled = `NOT EXISTS (SELECT 1 FROM instance AS m WHERE m.cancelled_at > 0 AND m.id = d.instance_id AND +m.ws = d.ws)`
)

// WriteClaiming is Write for a transaction that claims deliveries.
func (s *Store) WriteClaiming(ctx context.Context, work func(*Tx) error) error {
	return s.writeFrom(ctx, s.dialect.beginClaim, work)
}

// AwaitClaims waits for the transactions that are claiming, and makes later ones wait until this one ends. It is called as late as
// possible, with the instance locked: a transaction that claims waits for no lock on instances.
func (t *Tx) AwaitClaims() error {
	if t.s.dialect.awaitClaims == "" {
		return nil
	}
	if _, err := t.exec(t.s.dialect.awaitClaims); err != nil {
		return fmt.Errorf("wait for claims: %w", err)
	}
	return nil
}

const cancelledInstances = `
SELECT m.id, m.cancelled_at
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN instance AS m
WHERE m.cancelled_at > 0 AND m.id = r.id AND +m.ws = r.ws`

// CancelledAt returns when instances were cancelled, without those that were not. That holds until the transaction ends: a cancel by a mark alone waits
// for it. It is called with the deliveries locked that it is about, which such a cancel may have locked, and before the transaction locks sessions, which the
// cancel locks at its end.
func (t *Tx) CancelledAt(ws subject.WorkspaceID, of []instance.ID) (map[instance.ID]time.Time, error) {
	if len(of) == 0 {
		return nil, nil
	}
	if t.s.dialect.holdClaims != "" {
		if _, err := t.exec(t.s.dialect.holdClaims); err != nil {
			return nil, fmt.Errorf("have cancels wait: %w", err)
		}
	}
	var rows rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(of))) {
		rows.row().int(int64(ws)).int(int64(id))
	}
	cancelled := map[instance.ID]time.Time{}
	_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var id instance.ID
		var at time.Time
		err = rows.Scan(&id, instant{&at})
		cancelled[id] = at
		return none, err
	}, cancelledInstances, &rows)
	if err != nil {
		return nil, fmt.Errorf("find cancelled instances: %w", err)
	}
	return cancelled, nil
}

const countDeliveries = `
SELECT COUNT(*) FROM (SELECT 1 FROM delivery AS d WHERE +d.ws = $1 AND d.instance_id = $2 LIMIT $3) AS a`

// CountDeliveries counts the deliveries of an instance up to a limit, without a lock.
func (t *Tx) CountDeliveries(ws subject.WorkspaceID, id instance.ID, limit int) (int, error) {
	n, err := query(t, scanInt, countDeliveries, int64(ws), int64(id), int64(limit))
	if err != nil {
		return 0, fmt.Errorf("count deliveries: %w", err)
	}
	return int(n[0]), nil
}

const countAllDeliveries = `
SELECT COUNT(*) FROM delivery AS d WHERE +d.ws = $1 AND d.instance_id = $2`

// CountDeliveries counts the deliveries of an instance.
func (s *Store) CountDeliveries(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (int, error) {
	n, err := one(ctx, s, "count deliveries", scanInt, countAllDeliveries, int64(ws), int64(id))
	return int(n), err
}

// The last contacts of an audience are sent to last. So the index is read from its end: of an occasion that is being sent, the first
// row answers. These conditions are those of delivery.Row.Cancel (TestLeftToCancel).
const (
	hasEnded = `d.status IN (` + sqlResponded + `, ` + sqlExpired + `, ` + sqlSkipped + `, ` + sqlFailed + `, ` + sqlSuperseded + `, ` + sqlCancelled + `)`

	mayCancel = `NOT (` + hasEnded + ` OR d.status = ` + sqlSent + ` AND d.send_at = 0 AND d.completed_at > 0)`

	leftToCancel = `
SELECT 1 FROM delivery AS d
WHERE +d.ws = $1 AND d.instance_id = $2 AND ` + mayCancel + `
ORDER BY d.contact_id DESC
LIMIT 1`

	notEnded = `
SELECT 1 FROM delivery AS d
WHERE +d.ws = $1 AND d.instance_id = $2 AND NOT ` + hasEnded + `
ORDER BY d.contact_id DESC
LIMIT 1`
)

// LeftToCancel reports, without a lock, whether a cancel changes any delivery of an instance, and whether all of them have ended.
func (t *Tx) LeftToCancel(ws subject.WorkspaceID, id instance.ID) (left, ended bool, err error) {
	found, err := query(t, scanInt, leftToCancel, int64(ws), int64(id))
	if err != nil || len(found) > 0 {
		return len(found) > 0, false, err
	}
	found, err = query(t, scanInt, notEnded, int64(ws), int64(id))
	return false, len(found) == 0, err
}

// The page is found by the index of the instance, and locked in the order in which all transactions lock deliveries.
const lockDeliveryPage = `
WITH page AS MATERIALIZED (
  SELECT p.ws, p.id FROM delivery AS p
  WHERE +p.ws = $1 AND p.instance_id = $2 AND p.contact_id > $3
  ORDER BY p.contact_id, p.channel
  LIMIT $4)
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM page CROSS JOIN delivery AS d
WHERE d.ws = page.ws AND d.id = page.id
ORDER BY d.id
/*LOCK d*/`

// LockDeliveryPage locks and returns up to limit deliveries of an instance to the contacts after one, all of a contact or none. last is
// the last contact among them; more reports whether there may be others after it.
func (t *Tx) LockDeliveryPage(ws subject.WorkspaceID, id instance.ID, after subject.ContactID, limit int) (rows []delivery.Row, last subject.ContactID, more bool, err error) {
	rows, err = query(t, scanDelivery, lockDeliveryPage, int64(ws), int64(id), int64(after), int64(limit)+1)
	if err != nil {
		return nil, 0, false, fmt.Errorf("lock a page of deliveries: %w", err)
	}
	slices.SortFunc(rows, func(a, b delivery.Row) int { return cmp.Or(cmp.Compare(a.Contact, b.Contact), cmp.Compare(a.ID, b.ID)) })
	if more = len(rows) > limit; more {
		// Some deliveries of the last contact may be on the next page.
		whole := slices.IndexFunc(rows, func(d delivery.Row) bool { return d.Contact == rows[limit].Contact })
		if whole > 0 {
			rows = rows[:whole]
		}
	}
	if len(rows) == 0 {
		return nil, after, false, nil
	}
	return rows, rows[len(rows)-1].Contact, more, nil
}
