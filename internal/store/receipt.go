package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Receipt is what was reported of a message after its provider had accepted it.
type Receipt struct {
	ID         int64
	At         time.Time
	Status     string
	Detail     string
	Attempt    int    // the attempt whose message it is about; 0: it is not known
	ProviderID string // of the message; empty: it was not given
}

// NewReceipt is a receipt to add.
type NewReceipt struct {
	Receipt

	Delivery delivery.ID
	Step     int // whose message it is about; 0: it is not known
}

// The attempt is the one that the provider's id belongs to, else the last one of the step, whose result may not be written yet, else the last one.
const insertReceipts = `
INSERT INTO receipt (ws, delivery_id, id, at, status, detail, attempt, provider_id)
SELECT r.ws, r.delivery_id, r.id, r.at, r.status, r.detail, COALESCE(
  (SELECT MAX(a.number) FROM attempt AS a WHERE a.ws = r.ws AND a.delivery_id = r.delivery_id AND a.provider_id = r.provider_id AND r.provider_id <> ''),
  (SELECT MAX(a.number) FROM attempt AS a WHERE a.ws = r.ws AND a.delivery_id = r.delivery_id AND a.step = r.step),
  r.attempt), r.provider_id
FROM /*ROWS $1 (ws bigint, delivery_id bigint, id bigint, at bigint, status text, detail text, step bigint, attempt bigint, provider_id text)*/ AS r`

// AddReceipts adds receipts of deliveries; Attempt of each is the last one of its delivery. It moves no status.
func (t *Tx) AddReceipts(ws subject.WorkspaceID, list []NewReceipt) error {
	var rows rowset
	for _, r := range list {
		rows.row().int(int64(ws)).int(int64(r.Delivery)).int(t.s.NewID(r.At)).time(r.At).text(r.Status).text(r.Detail).int(int64(r.Step)).int(int64(r.Attempt)).text(r.ProviderID)
	}
	if _, err := t.exec(insertReceipts, &rows); err != nil {
		return fmt.Errorf("add receipts: %w", err)
	}
	return nil
}

// mostReceipts bounds the receipts of a delivery that are read.
const mostReceipts = 100

const receipts = `
SELECT id, at, status, detail, attempt, provider_id FROM receipt
WHERE ws = $1 AND delivery_id = $2
ORDER BY id
LIMIT $3`

// Receipts lists the receipts of a delivery, the oldest first.
func (s *Store) Receipts(ctx context.Context, ws subject.WorkspaceID, of delivery.ID) ([]Receipt, error) {
	return all(ctx, s, "list receipts", func(rows *sql.Rows) (r Receipt, err error) {
		return r, rows.Scan(&r.ID, instant{&r.At}, &r.Status, &r.Detail, &r.Attempt, &r.ProviderID)
	}, receipts, int64(ws), int64(of), int64(mostReceipts))
}

const lockNamedDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.id = r.id AND ` + notDeleted + `
ORDER BY d.id
/*LOCK d*/`

// LockDeliveries locks and returns deliveries. Those that do not exist are left out.
func (t *Tx) LockDeliveries(ws subject.WorkspaceID, ids []delivery.ID) (map[delivery.ID]delivery.Row, error) {
	var rows rowset
	seen := map[delivery.ID]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			rows.row().int(int64(ws)).int(int64(id))
		}
	}
	list, err := query(t, scanDelivery, lockNamedDeliveries, &rows)
	if err != nil {
		return nil, fmt.Errorf("lock deliveries: %w", err)
	}
	found := make(map[delivery.ID]delivery.Row, len(list))
	for _, d := range list {
		found[d.ID] = d
	}
	return found, nil
}
