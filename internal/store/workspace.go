package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Workspaces are numbered from 1: their number is part of every public id, where seven bytes are its place.
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

// EnsureWorkspace returns the workspace of that name and makes it when there is none. The secret counts only for
// a new one.
func (s *Store) EnsureWorkspace(ctx context.Context, name string, secret []byte, now time.Time) (Workspace, error) {
	var found []Workspace
	err := s.write(ctx, func(t *session) (err error) {
		if _, err = t.exec(ctx, insertWorkspace, name, hex.EncodeToString(secret), micros(now)); err != nil {
			return err
		}
		found, err = query(ctx, t, scanWorkspace, workspaceByName, name)
		if err == nil && len(found) == 0 {
			return errAgain // somebody else took the number for a workspace of theirs
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

// Workspaces lists every workspace, the oldest first.
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

const insertKey = `
INSERT INTO api_key (ws, id, name, hash, scopes, created_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING`

// CreateKey stores a key. ErrConflict: a key of that name is in force; a revoked one frees its name. An id of 0 is
// replaced by a new one.
func (s *Store) CreateKey(ctx context.Context, k APIKey) error {
	scopes, err := json.Marshal(append([]string{}, k.Scopes...))
	if err != nil {
		return fmt.Errorf("create key: %w", err)
	}
	if k.ID == 0 {
		k.ID = s.NewID(k.CreatedAt)
	}
	err = s.write(ctx, func(t *session) error {
		n, err := t.exec(ctx, insertKey, int64(k.Workspace), k.ID, k.Name, k.Hash, string(scopes), micros(k.CreatedAt), micros(k.RevokedAt))
		if err == nil && n == 0 {
			return fmt.Errorf("%w: a key of that name exists", ErrConflict)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create key: %w", err)
	}
	return nil
}

const keyByHash = `
SELECT ws, id, name, hash, scopes, created_at, revoked_at
FROM api_key
WHERE hash = $1`

// KeyByHash returns the key with that hash, revoked or not.
func (s *Store) KeyByHash(ctx context.Context, hash string) (k APIKey, ok bool, err error) {
	return first(ctx, s, "read key", scanKey, keyByHash, hash)
}

const keys = `
SELECT ws, id, name, hash, scopes, created_at, revoked_at
FROM api_key
WHERE ws = $1
ORDER BY id`

// Keys lists a workspace's keys, revoked ones included.
func (s *Store) Keys(ctx context.Context, ws subject.WorkspaceID) ([]APIKey, error) {
	return all(ctx, s, "list keys", scanKey, keys, int64(ws))
}

const revokeKey = `
UPDATE api_key SET revoked_at = $3
WHERE ws = $1 AND name = $2 AND revoked_at = 0`

// RevokeKey ends the key of that name; false: there is none in force.
func (s *Store) RevokeKey(ctx context.Context, ws subject.WorkspaceID, name string, now time.Time) (bool, error) {
	var n int64
	err := s.write(ctx, func(t *session) (err error) {
		n, err = t.exec(ctx, revokeKey, int64(ws), name, micros(now))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("revoke key: %w", err)
	}
	return n > 0, nil
}

func scanKey(rows *sql.Rows) (k APIKey, err error) {
	var scopes string
	err = rows.Scan(&k.Workspace, &k.ID, &k.Name, &k.Hash, &scopes, instant{&k.CreatedAt}, instant{&k.RevokedAt})
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal([]byte(scopes), &k.Scopes)
}
