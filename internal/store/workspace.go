package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"
)

// Workspaces are numbered from 1, because the number is part of every public id and has seven bytes there.
const insertWorkspace = `
INSERT INTO workspace (id, name, secret, created_at)
SELECT COALESCE(MAX(id), 0) + 1, $1, $2, $3
FROM workspace
WHERE true
ON CONFLICT DO NOTHING`

const workspaceByName = `
SELECT id, name, secret, definitions, created_at
FROM workspace
WHERE name = $1`

// EnsureWorkspace returns the workspace of that name, and makes it if there is none. The secret is used only for a new
// workspace.
func (s *Store) EnsureWorkspace(ctx context.Context, name string, secret []byte, now time.Time) (Workspace, error) {
	var found []Workspace
	err := s.Write(ctx, func(t *Tx) (err error) {
		if _, err = t.exec(insertWorkspace, name, hex.EncodeToString(secret), micros(now)); err != nil {
			return err
		}
		found, err = query(t, scanWorkspace, workspaceByName, name)
		if err == nil && len(found) == 0 {
			return ErrAgain // another transaction took the number for its own workspace
		}
		return err
	})
	if err != nil {
		return Workspace{}, fmt.Errorf("ensure workspace: %w", err)
	}
	return found[0], nil
}

// WorkspaceByName returns the workspace of that name; ok is false when there is none.
func (s *Store) WorkspaceByName(ctx context.Context, name string) (w Workspace, ok bool, err error) {
	return first(ctx, s, "read workspace", scanWorkspace, workspaceByName, name)
}

const workspaces = `
SELECT id, name, secret, definitions, created_at
FROM workspace
ORDER BY id`

// Workspaces lists all workspaces, the oldest one first.
func (s *Store) Workspaces(ctx context.Context) ([]Workspace, error) {
	return all(ctx, s, "list workspaces", scanWorkspace, workspaces)
}

func scanWorkspace(rows *sql.Rows) (w Workspace, err error) {
	var secret string
	if err := rows.Scan(&w.ID, &w.Name, &secret, &w.Definitions, instant{&w.CreatedAt}); err != nil {
		return w, err
	}
	w.Secret, err = hex.DecodeString(secret)
	return w, err
}
