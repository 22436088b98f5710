package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// SignIn is a session of the console. The browser has a random token; the database has only its hash, so that a copy of the
// database cannot be used to sign in.
type SignIn struct {
	Workspace subject.WorkspaceID
	Hash      string // hex SHA-256 of the token
	KeyHash   string // of the API key that signed in
	CreatedAt time.Time
	ExpiresAt time.Time
}

const (
	deleteOldSignIns = `
DELETE FROM console_session
WHERE expires_at <= $1`
	insertSignIn = `
INSERT INTO console_session (ws, hash, key_hash, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5)`
	keySignsIn = `
UPDATE api_key SET used_at = $3
WHERE ws = $1 AND (hash = $2 OR old_hash = $2) AND used_at < $3`
)

// CreateSignIn stores a session, records the use of its key, and deletes expired sessions.
func (s *Store) CreateSignIn(ctx context.Context, in SignIn) error {
	err := s.Write(ctx, func(t *Tx) error {
		if _, err := t.exec(deleteOldSignIns, micros(in.CreatedAt)); err != nil {
			return err
		}
		if _, err := t.exec(keySignsIn, int64(in.Workspace), in.KeyHash, micros(in.CreatedAt)); err != nil {
			return err
		}
		_, err := t.exec(insertSignIn, int64(in.Workspace), in.Hash, in.KeyHash, micros(in.CreatedAt), micros(in.ExpiresAt))
		return err
	})
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	return nil
}

const signInByHash = `
SELECT ws, hash, key_hash, created_at, expires_at
FROM console_session
WHERE hash = $1`

// SignInByHash returns the session of the token with that hash, even if it has expired; ok is false if there is none.
func (s *Store) SignInByHash(ctx context.Context, hash string) (in SignIn, ok bool, err error) {
	return first(ctx, s, "read session", func(rows *sql.Rows) (in SignIn, err error) {
		return in, rows.Scan(&in.Workspace, &in.Hash, &in.KeyHash, instant{&in.CreatedAt}, instant{&in.ExpiresAt})
	}, signInByHash, hash)
}

const deleteSignIn = `
DELETE FROM console_session
WHERE hash = $1`

// EndSignIn deletes a session. It is no error if there is none.
func (s *Store) EndSignIn(ctx context.Context, hash string) error {
	err := s.Write(ctx, func(t *Tx) error {
		_, err := t.exec(deleteSignIn, hash)
		return err
	})
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	return nil
}

// deleteSignIns ends every session. It is used when a copy takes the place of a database.
const deleteSignIns = `
DELETE FROM console_session`
