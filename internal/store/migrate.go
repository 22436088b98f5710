package store

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/carillonhq/carillon/internal/clock"
)

// The migrations of PostgreSQL are written by hand. The migrations of SQLite are made from them by
// "go test ./internal/store -run TestMigrationsHaveOneSource -update": SQLite has no collation "C" and no storage parameters,
// and keeps rows in their primary keys. A migration that has landed is never edited; a change of the schema is a new file. Each
// file is one block between StatementBegin and StatementEnd, which goose sends to the server as one message.
//
//go:embed migrations/sqlite migrations/postgres
var migrations embed.FS

// baseline is the number of the first schema. Development versions made databases with lower numbers.
const baseline = 101

// migrationLock is the key of the advisory lock. No other program may use it on the same database.
const migrationLock = 0x6361726c6e // "carln"

// migrationWait is the interval at which a process asks whether another process has migrated.
const migrationWait = 100 * time.Millisecond

// Migrate upgrades the schema to the version of this binary. Processes that start together wait for one another. The error is
// errNewerSchema if the schema is newer than the binary, and errSchemaBeforeBaseline if it is older than the baseline; the
// database is then unchanged.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	if err := s.takeNode(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

func (s *Store) migrate(ctx context.Context) error {
	const tries = 3 // without progress. SQLite: if another process was first, a try fails on its tables, and the next one goes on after them
	before := int64(-1)
	for try := 1; ; try++ {
		have, want, err := s.SchemaVersion(ctx)
		switch {
		case err != nil:
			return err
		case have == want:
			// SQLite: if another process writes them too, one of the two fails, and finds them at its next try.
			if err := s.ensureStatistics(ctx); err == nil || try >= tries {
				return err
			}
		case have > before:
			before, try = have, 1
		}
		if err := Upgradable(have, want); err != nil {
			return err
		}
		if err := s.migrateOnce(ctx); err != nil && (s.writer == nil || try == tries) {
			return err
		}
	}
}

// Upgradable returns an error if a database with the schema have cannot be upgraded to the schema want.
func Upgradable(have, want int64) error {
	switch {
	case have > want:
		return fmt.Errorf("%w: its schema is %d, this program knows %d: run the newer program, or restore a copy from before", errNewerSchema, have, want)
	case have > 0 && have < baseline:
		return fmt.Errorf("%w: its schema is %d, the first one is %d: start with a new database", errSchemaBeforeBaseline, have, baseline)
	}
	return nil
}

func (s *Store) migrateOnce(ctx context.Context) error {
	if s.writer != nil {
		if err := s.writer.acquire(ctx); err != nil {
			return err
		}
		defer s.writer.release()
		if err := s.writer.drop(); err != nil {
			return err
		}
	}
	provider, err := s.provider()
	if err != nil {
		return err
	}
	if s.writer == nil {
		unlock, err := s.lockMigration(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	_, err = provider.Up(ctx)
	return err
}

// lockMigration lets one process migrate at a time, on PostgreSQL. The lock belongs to a transaction that stays open
// meanwhile. A lock of the session would be lost, or never released, behind a pooler that gives every transaction another
// connection. A process that waits for the lock holds no connection, because the process that migrates needs a second one of
// the pooler.
func (s *Store) lockMigration(ctx context.Context) (unlock func(), err error) {
	var wall clock.System
	for {
		tx, err := s.writers.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		locked := false
		_, err = tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`)
		if err == nil {
			err = tx.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(migrationLock)).Scan(&locked)
		}
		if locked && err == nil {
			return func() { _ = tx.Rollback() }, nil // if it fails, the connection is lost and the lock is released
		}
		if err = errors.Join(err, tx.Rollback()); err == nil {
			err = wall.Sleep(ctx, wall.Now().Add(migrationWait))
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *Store) provider() (*goose.Provider, error) {
	folder, err := fs.Sub(migrations, "migrations/"+s.dialect.name)
	if err != nil {
		return nil, err
	}
	dialect := goose.DialectPostgres
	if s.writer != nil {
		dialect = goose.DialectSQLite3
	}
	return goose.NewProvider(dialect, s.writers, folder, goose.WithDisableGlobalRegistry(true))
}

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string // of its file
	SQL     string
}

// Pending lists the migrations that the database lacks, in the order of their versions.
func (s *Store) Pending(ctx context.Context) ([]Migration, error) {
	have, want, err := s.SchemaVersion(ctx)
	if err == nil {
		err = Upgradable(have, want)
	}
	if err != nil {
		return nil, err
	}
	all, err := migrationsOf(s.dialect.name)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return slices.DeleteFunc(all, func(m Migration) bool { return m.Version <= have }), nil
}

// migrationsOf lists all migrations of a dialect, in the order of their versions.
func migrationsOf(dialect string) ([]Migration, error) {
	folder := "migrations/" + dialect
	files, err := migrations.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all []Migration
	for _, file := range files { // sorted by name, which begins with the version
		text, err := migrations.ReadFile(folder + "/" + file.Name())
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(file.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Migration{Version: version, Name: file.Name(), SQL: string(text)})
	}
	return all, nil
}

// newestSchema returns the schema version of this binary. It is the same for both databases.
func newestSchema() (int64, error) {
	all, err := migrationsOf("sqlite")
	if err != nil {
		return 0, err
	}
	return all[len(all)-1].Version, nil
}

// Fingerprint returns a hash of all migrations. Tests keep copies of a migrated database under it.
func Fingerprint() string {
	sum := sha256.New()
	err := fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := migrations.ReadFile(path)
		fmt.Fprintf(sum, "%s\x00%s\x00", path, text)
		return err
	})
	if err != nil { // the files are part of the binary
		panic(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

const schemaTable = `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'`

const schemaTablePostgres = `SELECT COUNT(to_regclass('goose_db_version'))`

const schemaVersion = `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version`

// SchemaVersion returns the schema's version in the database (0: none) and in this binary.
func (s *Store) SchemaVersion(ctx context.Context) (have, want int64, err error) {
	if want, err = newestSchema(); err != nil {
		return 0, 0, fmt.Errorf("read the schema's version: %w", err)
	}
	err = s.Read(ctx, func(t *Tx) error {
		table := schemaTable
		if s.writer == nil {
			table = schemaTablePostgres
		}
		found, err := query(t, scanInt, table)
		if err != nil || found[0] == 0 {
			return err
		}
		version, err := query(t, scanInt, schemaVersion)
		if err != nil {
			return err
		}
		have = version[0]
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema's version: %w", err)
	}
	return have, want, nil
}
