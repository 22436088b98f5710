package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// An instance has only the hash of its inputs, so that rows stay small (B11). Most triggers give all their instances the same inputs, which
// a table of its own holds once, by their hash. The table has as many rows as definitions have ever named dates, metrics and periods, so
// its rows are never deleted.

const insertInputs = `
INSERT INTO inputs (ws, hash, json)
SELECT r.ws, r.hash, r.json FROM /*ROWS $1 (ws bigint, hash text, json text)*/ AS r
WHERE true
ON CONFLICT (ws, hash) DO NOTHING`

// KeepInputs stores inputs by their hash, in the form that is hashed.
func (s *Store) KeepInputs(ctx context.Context, ws subject.WorkspaceID, inputs []string) error {
	return s.Write(ctx, func(t *Tx) error { return t.KeepInputs(ws, inputs) })
}

// KeepInputs stores inputs by their hash, in the form that is hashed.
func (t *Tx) KeepInputs(ws subject.WorkspaceID, inputs []string) error {
	var rows rowset
	for _, json := range slices.Compact(slices.Sorted(slices.Values(inputs))) { // in one order, so that two transactions with the same inputs do not deadlock
		rows.row().int(int64(ws)).text(key.Hash(json)).text(json)
	}
	if _, err := t.exec(insertInputs, &rows); err != nil {
		return fmt.Errorf("keep what instances are planned by: %w", err)
	}
	return nil
}

const inputsByHash = `
SELECT json FROM inputs
WHERE ws = $1 AND hash = $2`

// Inputs returns the inputs with that hash; found is false if they were never stored.
func (s *Store) Inputs(ctx context.Context, ws subject.WorkspaceID, hash string) (json string, found bool, err error) {
	return first(ctx, s, "read what an instance was planned by", func(rows *sql.Rows) (text string, err error) {
		return text, rows.Scan(&text)
	}, inputsByHash, int64(ws), hash)
}
