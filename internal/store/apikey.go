package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// KeyEnd is the reason why a key is refused.
type KeyEnd string

// The values of KeyEnd.
const (
	keyRevoked KeyEnd = "revoked"
	KeyExpired KeyEnd = "expired"
	KeyRotated KeyEnd = "rotated" // it is the former secret, and its grace period is over
)

// Ended returns why the secret with that hash is refused at now; empty: it is in force.
func (k APIKey) Ended(hash string, now time.Time) KeyEnd {
	switch {
	case !k.RevokedAt.IsZero():
		return keyRevoked
	case !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt):
		return KeyExpired
	case hash != k.Hash && (hash != k.OldHash || !now.Before(k.OldUntil)):
		return KeyRotated
	}
	return ""
}

// EndsAt returns the instant at which the secret with that hash expires; zero: never.
func (k APIKey) EndsAt(hash string) time.Time {
	at := k.ExpiresAt
	if hash == k.OldHash && (at.IsZero() || k.OldUntil.Before(at)) {
		at = k.OldUntil
	}
	return at
}

const insertKey = `
INSERT INTO api_key (ws, id, name, hash, scopes, created_at, revoked_at, expires_at, used_at, old_hash, old_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT DO NOTHING`

// CreateKey stores a key. It returns ErrConflict if a key of that name exists that is not revoked. An id of 0 is replaced by
// a new one.
func (s *Store) CreateKey(ctx context.Context, k APIKey) error {
	scopes, err := json.Marshal(append([]string{}, k.Scopes...))
	if err != nil {
		return fmt.Errorf("create key: %w", err)
	}
	if k.ID == 0 {
		k.ID = s.NewID(k.CreatedAt)
	}
	err = s.Write(ctx, func(t *Tx) error {
		n, err := t.exec(insertKey, int64(k.Workspace), k.ID, k.Name, k.Hash, string(scopes), micros(k.CreatedAt), micros(k.RevokedAt),
			micros(k.ExpiresAt), micros(k.UsedAt), k.OldHash, micros(k.OldUntil))
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

const keyColumns = `ws, id, name, hash, scopes, created_at, revoked_at, expires_at, used_at, old_hash, old_until`

const keyByHash = `
SELECT ` + keyColumns + `
FROM api_key
WHERE hash = $1
UNION ALL
SELECT ` + keyColumns + `
FROM api_key
WHERE old_hash = $1 AND old_hash <> ''`

// KeyByHash returns the key whose present or former secret has that hash, whether it is in force or not; see APIKey.Ended.
func (s *Store) KeyByHash(ctx context.Context, hash string) (k APIKey, ok bool, err error) {
	return first(ctx, s, "read key", scanKey, keyByHash, hash)
}

const keys = `
SELECT ` + keyColumns + `
FROM api_key
WHERE ws = $1
ORDER BY id`

// Keys lists a workspace's keys, revoked ones included.
func (s *Store) Keys(ctx context.Context, ws subject.WorkspaceID) ([]APIKey, error) {
	return all(ctx, s, "list keys", scanKey, keys, int64(ws))
}

const endKeySessions = `
DELETE FROM console_session
WHERE ws = $1 AND key_hash IN (SELECT hash FROM api_key WHERE ws = $1 AND name = $2 AND revoked_at = 0
  UNION ALL SELECT old_hash FROM api_key WHERE ws = $1 AND name = $2 AND revoked_at = 0)`

const revokeKey = `
UPDATE api_key SET revoked_at = $3
WHERE ws = $1 AND name = $2 AND revoked_at = 0`

// RevokeKey revokes the key of that name and ends the console sessions that signed in with it. It returns false if every key
// of that name is revoked already, or there is none.
func (s *Store) RevokeKey(ctx context.Context, ws subject.WorkspaceID, name string, now time.Time) (bool, error) {
	var n int64
	err := s.Write(ctx, func(t *Tx) (err error) {
		if _, err = t.exec(endKeySessions, int64(ws), name); err != nil {
			return err
		}
		n, err = t.exec(revokeKey, int64(ws), name, micros(now))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("revoke key: %w", err)
	}
	return n > 0, nil
}

const keyInForce = `
SELECT ` + keyColumns + `
FROM api_key
WHERE ws = $1 AND name = $2 AND revoked_at = 0`

const rotateKey = `
UPDATE api_key SET hash = $3, old_hash = $4, old_until = $5, expires_at = $6
WHERE ws = $1 AND id = $2 AND hash = $7 AND revoked_at = 0`

// RotateKey passes the key of that name to change and stores what change has set: the new secret, the end of the former one,
// and the expiry. If change returns an error, nothing is written. The error is ErrNotFound if every key of that name is
// revoked, or there is none.
func (s *Store) RotateKey(ctx context.Context, ws subject.WorkspaceID, name string, change func(*APIKey) error) error {
	err := s.Write(ctx, func(t *Tx) error {
		found, err := query(t, scanKey, keyInForce, int64(ws), name)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return ErrNotFound
		}
		k := found[0]
		if err := change(&k); err != nil {
			return err
		}
		n, err := t.exec(rotateKey, int64(ws), k.ID, k.Hash, k.OldHash, micros(k.OldUntil), micros(k.ExpiresAt), found[0].Hash)
		if err == nil && n == 0 {
			return ErrAgain // it was rotated or revoked meanwhile
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("rotate key: %w", err)
	}
	return nil
}

const keyUsed = `
UPDATE api_key SET used_at = $3
WHERE ws = $1 AND id = $2 AND used_at < $3`

// KeyUsed records when a key was last used.
func (s *Store) KeyUsed(ctx context.Context, ws subject.WorkspaceID, id int64, at time.Time) error {
	err := s.Write(ctx, func(t *Tx) error {
		_, err := t.exec(keyUsed, int64(ws), id, micros(at))
		return err
	})
	if err != nil {
		return fmt.Errorf("note the use of a key: %w", err)
	}
	return nil
}

func scanKey(rows *sql.Rows) (k APIKey, err error) {
	var scopes string
	err = rows.Scan(&k.Workspace, &k.ID, &k.Name, &k.Hash, &scopes, instant{&k.CreatedAt}, instant{&k.RevokedAt},
		instant{&k.ExpiresAt}, instant{&k.UsedAt}, &k.OldHash, instant{&k.OldUntil})
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal([]byte(scopes), &k.Scopes)
}
