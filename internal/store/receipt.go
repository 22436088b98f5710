package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Receipt is what was reported of a message after its provider had accepted it.
type Receipt struct {
	ID         int64
	At         time.Time
	Status     string
	Soft       bool // of a bounce: its cause may pass
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

// The attempt of a receipt is the one that the provider's id belongs to, else the last one of the step, whose result may not be written yet, else the last one.
const attemptsOfReceipts = `
SELECT r.n, COALESCE(
  (SELECT MAX(a.number) FROM attempt AS a WHERE a.ws = r.ws AND a.delivery_id = r.delivery_id AND a.provider_id = r.provider_id AND r.provider_id <> ''),
  (SELECT MAX(a.number) FROM attempt AS a WHERE a.ws = r.ws AND a.delivery_id = r.delivery_id AND a.step = r.step),
  r.attempt)
FROM /*ROWS $1 (n bigint, ws bigint, delivery_id bigint, step bigint, attempt bigint, provider_id text)*/ AS r`

const lastReceipts = `
SELECT x.delivery_id, x.attempt, x.status, x.soft, x.detail, x.provider_id
FROM /*ROWS $1 (ws bigint, delivery_id bigint, attempt bigint)*/ AS r CROSS JOIN receipt AS x
WHERE x.ws = r.ws AND x.delivery_id = r.delivery_id
  AND x.id = (SELECT MAX(y.id) FROM receipt AS y WHERE y.ws = r.ws AND y.delivery_id = r.delivery_id AND y.attempt = r.attempt)`

const insertReceipts = `
INSERT INTO receipt (ws, delivery_id, id, at, status, soft, detail, attempt, provider_id)
SELECT r.* FROM /*ROWS $1 (ws bigint, delivery_id bigint, id bigint, at bigint, status text, soft bigint, detail text, attempt bigint, provider_id text)*/ AS r`

// attemptOf names an attempt of a delivery.
type attemptOf struct {
	delivery delivery.ID
	number   int
}

// AddReceipts adds receipts of locked deliveries; Attempt of each is the last one of its delivery. One that says the same as the last one of its attempt is
// left out. It moves no status.
func (t *Tx) AddReceipts(ws subject.WorkspaceID, list []NewReceipt) error {
	list = slices.Clone(list)
	if err := t.findAttempts(ws, list); err != nil {
		return err
	}
	last, err := t.lastReceipts(ws, list)
	if err != nil {
		return err
	}
	var rows rowset
	for _, r := range list {
		said := Receipt{Status: r.Status, Soft: r.Soft, Detail: r.Detail, Attempt: r.Attempt, ProviderID: r.ProviderID}
		at := attemptOf{r.Delivery, r.Attempt}
		if before, is := last[at]; is && before == said {
			continue
		}
		last[at] = said
		rows.row().int(int64(ws)).int(int64(r.Delivery)).int(t.s.NewID(r.At)).time(r.At).text(r.Status).flag(r.Soft).text(r.Detail).int(int64(r.Attempt)).text(r.ProviderID)
	}
	if _, err := t.exec(insertReceipts, &rows); err != nil {
		return fmt.Errorf("add receipts: %w", err)
	}
	return nil
}

// findAttempts sets the attempt of each receipt.
func (t *Tx) findAttempts(ws subject.WorkspaceID, list []NewReceipt) error {
	var rows rowset
	for n, r := range list {
		rows.row().int(int64(n)).int(int64(ws)).int(int64(r.Delivery)).int(int64(r.Step)).int(int64(r.Attempt)).text(r.ProviderID)
	}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var n, attempt int
		err := rows.Scan(&n, &attempt)
		if err == nil {
			list[n].Attempt = attempt
		}
		return struct{}{}, err
	}, attemptsOfReceipts, &rows)
	if err != nil {
		return fmt.Errorf("find the attempts of receipts: %w", err)
	}
	return nil
}

// lastReceipts returns what was reported last of the attempts of receipts, without when.
func (t *Tx) lastReceipts(ws subject.WorkspaceID, of []NewReceipt) (map[attemptOf]Receipt, error) {
	var rows rowset
	seen := map[attemptOf]bool{}
	for _, r := range of {
		if at := (attemptOf{r.Delivery, r.Attempt}); !seen[at] {
			seen[at] = true
			rows.row().int(int64(ws)).int(int64(r.Delivery)).int(int64(r.Attempt))
		}
	}
	last := make(map[attemptOf]Receipt, len(seen))
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var r Receipt
		var id delivery.ID
		err := rows.Scan(&id, &r.Attempt, &r.Status, boolean{&r.Soft}, &r.Detail, &r.ProviderID)
		last[attemptOf{id, r.Attempt}] = r
		return struct{}{}, err
	}, lastReceipts, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the last receipts: %w", err)
	}
	return last, nil
}

// mostReceipts bounds the receipts of a delivery that are read.
const mostReceipts = 100

const receipts = `
SELECT n.id, n.at, n.status, n.soft, n.detail, n.attempt, n.provider_id FROM (
  SELECT id, at, status, soft, detail, attempt, provider_id FROM receipt
  WHERE ws = $1 AND delivery_id = $2
  ORDER BY id DESC
  LIMIT $3) AS n
ORDER BY n.id`

// Receipts lists the newest receipts of a delivery, the oldest of them first.
func (s *Store) Receipts(ctx context.Context, ws subject.WorkspaceID, of delivery.ID) ([]Receipt, error) {
	return all(ctx, s, "list receipts", func(rows *sql.Rows) (r Receipt, err error) {
		return r, rows.Scan(&r.ID, instant{&r.At}, &r.Status, boolean{&r.Soft}, &r.Detail, &r.Attempt, &r.ProviderID)
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
