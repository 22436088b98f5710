package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Receipt is what was reported of a message after its provider had accepted it.
type Receipt struct {
	ID     int64
	At     time.Time
	Status string
	Detail string
}

const insertReceipt = `
INSERT INTO receipt (ws, delivery_id, id, at, status, detail) VALUES ($1, $2, $3, $4, $5, $6)`

// AddReceipt adds a receipt of a delivery. It moves no status.
func (t *Tx) AddReceipt(ws subject.WorkspaceID, of delivery.ID, r Receipt) error {
	_, err := t.exec(insertReceipt, int64(ws), int64(of), t.s.NewID(r.At), micros(r.At), r.Status, r.Detail)
	if err != nil {
		return fmt.Errorf("add a receipt: %w", err)
	}
	return nil
}

// mostReceipts bounds the receipts of a delivery that are read.
const mostReceipts = 100

const receipts = `
SELECT id, at, status, detail FROM receipt
WHERE ws = $1 AND delivery_id = $2
ORDER BY id
LIMIT $3`

// Receipts lists the receipts of a delivery, the oldest first.
func (s *Store) Receipts(ctx context.Context, ws subject.WorkspaceID, of delivery.ID) ([]Receipt, error) {
	return all(ctx, s, "list receipts", func(rows *sql.Rows) (r Receipt, err error) {
		return r, rows.Scan(&r.ID, instant{&r.At}, &r.Status, &r.Detail)
	}, receipts, int64(ws), int64(of), int64(mostReceipts))
}

// DeliveryByID reads a delivery without a lock. ErrNotFound: there is none.
func (t *Tx) DeliveryByID(ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error) {
	rows, err := query(t, scanShown, deliveryByID, int64(ws), int64(id))
	switch {
	case err != nil:
		return delivery.Row{}, fmt.Errorf("read a delivery: %w", err)
	case len(rows) == 0:
		return delivery.Row{}, ErrNotFound
	}
	return rows[0], nil
}

const stopAddress = `
INSERT INTO stopped_address (ws, hash, reason, detail, at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (ws, hash) DO NOTHING`

// StoppedAddress is why and since when nothing is sent to an address.
type StoppedAddress struct {
	Hash   string
	Reason string
	Detail string
	At     time.Time
}

// StopAddress has nothing sent to an address any more. changed is false if it was so already.
func (t *Tx) StopAddress(ws subject.WorkspaceID, a StoppedAddress) (changed bool, err error) {
	n, err := t.exec(stopAddress, int64(ws), a.Hash, a.Reason, a.Detail, micros(a.At))
	if err != nil {
		return false, fmt.Errorf("stop an address: %w", err)
	}
	return n > 0, nil
}

const allowAddress = `
DELETE FROM stopped_address WHERE ws = $1 AND hash = $2`

// AllowAddress lets messages go to an address again. changed is false if it was not stopped.
func (t *Tx) AllowAddress(ws subject.WorkspaceID, hash string) (changed bool, err error) {
	n, err := t.exec(allowAddress, int64(ws), hash)
	if err != nil {
		return false, fmt.Errorf("allow an address: %w", err)
	}
	return n > 0, nil
}

const stoppedAddresses = `
SELECT r.ws, s.hash, s.reason, s.detail, s.at
FROM /*ROWS $1 (ws bigint, hash text)*/ AS r CROSS JOIN stopped_address AS s
WHERE s.ws = r.ws AND s.hash = r.hash`

// StoppedAddresses returns those of some addresses to which nothing is sent.
func (t *Tx) StoppedAddresses(of []delivery.AddressRef) (map[delivery.AddressRef]StoppedAddress, error) {
	var rows rowset
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b delivery.AddressRef) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), strings.Compare(a.Hash, b.Hash))
	})
	for _, a := range slices.Compact(of) {
		rows.row().int(int64(a.Workspace)).text(a.Hash)
	}
	stopped := map[delivery.AddressRef]StoppedAddress{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ws int64
		var a StoppedAddress
		err := rows.Scan(&ws, &a.Hash, &a.Reason, &a.Detail, instant{&a.At})
		stopped[delivery.AddressRef{Workspace: subject.WorkspaceID(ws), Hash: a.Hash}] = a
		return struct{}{}, err
	}, stoppedAddresses, &rows)
	if err != nil {
		return nil, fmt.Errorf("find stopped addresses: %w", err)
	}
	return stopped, nil
}
