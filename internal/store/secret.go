package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Secret is the encrypted value of a setting of channels. The store cannot decrypt it.
type Secret struct {
	Name      string
	Sealed    string
	UpdatedAt time.Time
}

const putSecret = `
INSERT INTO secret (ws, name, sealed, updated_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (ws, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at`

// PutSecret stores a secret with its audit entry. It replaces a secret of the same name.
func (s *Store) PutSecret(ctx context.Context, ws subject.WorkspaceID, now time.Time, name, sealed string, audit Audit) error {
	err := s.Write(ctx, func(t *Tx) error {
		if _, err := t.exec(putSecret, int64(ws), name, sealed, micros(now)); err != nil {
			return err
		}
		return t.Audit(ws, now, audit)
	})
	if err != nil {
		return fmt.Errorf("put secret: %w", err)
	}
	return nil
}

const deleteSecret = `
DELETE FROM secret
WHERE ws = $1 AND name = $2`

// DeleteSecret deletes a secret and stores an audit entry. The error is ErrNotFound if there is none of that name.
func (s *Store) DeleteSecret(ctx context.Context, ws subject.WorkspaceID, now time.Time, name string, audit Audit) error {
	err := s.Write(ctx, func(t *Tx) error {
		n, err := t.exec(deleteSecret, int64(ws), name)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrNotFound
		}
		return t.Audit(ws, now, audit)
	})
	if err != nil {
		return fmt.Errorf("delete secret: %w", err)
	}
	return nil
}

const selectSecrets = `
SELECT name, sealed, updated_at
FROM secret
WHERE ws = $1
ORDER BY name`

// Secrets lists a workspace's secrets.
func (s *Store) Secrets(ctx context.Context, ws subject.WorkspaceID) ([]Secret, error) {
	return all(ctx, s, "list secrets", scanSecret, selectSecrets, int64(ws))
}

const secretByName = `
SELECT name, sealed, updated_at
FROM secret
WHERE ws = $1 AND name = $2`

// SecretByName returns a secret; ok is false when there is none of that name.
func (s *Store) SecretByName(ctx context.Context, ws subject.WorkspaceID, name string) (x Secret, ok bool, err error) {
	return first(ctx, s, "read secret", scanSecret, secretByName, int64(ws), name)
}

func scanSecret(rows *sql.Rows) (x Secret, err error) {
	return x, rows.Scan(&x.Name, &x.Sealed, instant{&x.UpdatedAt})
}
