package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of Writable.
var (
	// ErrNoRoom means that the database's disk is full.
	ErrNoRoom = errors.New("the database has no room left: its disk is full")
	// ErrReadOnly means that the database takes no writes. Hosted databases do that when their disk is nearly full.
	ErrReadOnly = errors.New("the database takes no writes: it is read-only")
)

// noRoom reports whether err means a full disk.
func noRoom(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code == "53100" // disk_full
	}
	var file *sqlite.Error
	return errors.As(err, &file) && (file.Code()&0xff == sqlite3.SQLITE_FULL || file.Code() == sqlite3.SQLITE_IOERR_WRITE || file.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

func readOnly(err error) bool {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code == "25006" // read_only_sql_transaction
	}
	var file *sqlite.Error
	return errors.As(err, &file) && file.Code()&0xff == sqlite3.SQLITE_READONLY
}

// noteRoom remembers that a transaction failed on a full disk, until a transaction succeeds.
func (s *Store) noteRoom(err error) {
	if err == nil {
		s.full.Store(false)
	} else if noRoom(err) {
		s.full.Store(true)
	}
}

// roomBytes is the size of a probe in bytes. It is larger than the free part of any page, so that the probe needs new pages.
const roomBytes = 16 << 10

const (
	insertProbe = `
INSERT INTO console_session (ws, hash, key_hash, created_at, expires_at)
VALUES (0, 'probe', $1, 0, 0)`
	deleteProbe = `
DELETE FROM console_session
WHERE ws = 0 AND hash = 'probe'`
	takesNoWrites = `
SELECT CASE WHEN pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' THEN 1 ELSE 0 END`
)

// Writable checks whether the database takes writes. It returns ErrNoRoom, ErrReadOnly, or the error of a database that does
// not answer. On SQLite it writes and deletes a probe. On PostgreSQL a probe proves nothing, because it finds room in existing
// pages; Writable asks whether the server takes writes, and returns ErrNoRoom if this process's last transaction failed on a
// full disk.
func (s *Store) Writable(ctx context.Context) error {
	if s.writer == nil {
		no, err := all(ctx, s, "ask whether the database takes writes", scanInt, takesNoWrites)
		switch {
		case err != nil:
			return err
		case no[0] == 1:
			return ErrReadOnly
		case s.full.Load():
			return ErrNoRoom
		}
		return nil
	}
	chance := make([]byte, roomBytes/2)
	_, _ = rand.Read(chance) // it never returns an error: it ends the process instead
	err := s.Write(ctx, func(t *Tx) error {
		if _, err := t.exec(insertProbe, hex.EncodeToString(chance)); err != nil {
			return err
		}
		_, err := t.exec(deleteProbe)
		return err
	})
	switch {
	case noRoom(err):
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	case errors.Is(err, ErrReadOnly):
		return err
	case err != nil:
		return fmt.Errorf("write to the database: %w", err)
	}
	return nil
}
