package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of Backup and Restore.
var (
	// errNotAFile means that the database is not a SQLite file.
	errNotAFile = errors.New("the database is not a SQLite file")
	// ErrExists means that the target file exists already.
	ErrExists = errors.New("exists already")
	// ErrInUse means that a process has the database open.
	ErrInUse = errors.New("a process has the database open")
	// errDamaged means that a file is not a carillon database, or is incomplete.
	errDamaged = errors.New("not a whole database of carillon")
)

// IsFile reports whether an address names a SQLite file: neither PostgreSQL nor ":memory:".
func IsFile(url string) bool { return !IsPostgres(url) && url != memory }

// IsPostgres reports whether an address names a PostgreSQL database.
func IsPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// besides are the suffixes of the files that SQLite keeps beside a database.
var besides = []string{"-wal", "-shm"}

// Backup copies the SQLite file db, as it is at one moment, to the file to. Other processes may go on writing meanwhile. The
// copy is one file that only its owner can read, and it appears under its name when it is complete. The error is ErrExists if
// the file to exists already.
func Backup(ctx context.Context, db, to string) error {
	if err := isFile(db); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("back up: %s %w", to, ErrExists)
	}
	part, err := newPart(to)
	if err == nil {
		err = vacuumInto(ctx, db, part)
	}
	if err == nil {
		_, err = checkFile(ctx, part)
	}
	if err == nil {
		err = place(part, to)
	}
	if err != nil {
		return fmt.Errorf("back up: %w", errors.Join(err, remove(part)))
	}
	return nil
}

func isFile(db string) error {
	if !IsFile(db) {
		return errNotAFile
	}
	info, err := os.Stat(db)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", db, errNotAFile)
	}
	return err
}

// newPart makes an empty file beside to, for an incomplete copy. The file is new and not a link, only its owner can read it,
// and no other process that makes a copy uses it.
func newPart(to string) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*.part")
	if err != nil {
		return "", err
	}
	return file.Name(), file.Close()
}

// vacuumInto copies the database db into the empty file to.
func vacuumInto(ctx context.Context, db, to string) (err error) {
	source, err := sql.Open("sqlite", fileName(db)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if _, err := source.ExecContext(ctx, `VACUUM INTO ?`, to); err != nil {
		return err
	}
	copied, err := sql.Open("sqlite", fileName(to))
	if err != nil {
		return err
	}
	return errors.Join(withoutToken(ctx, copied), copied.Close())
}

// withoutToken removes the token of a copy, so that the copy counts as another database than its source.
func withoutToken(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf(setToken, 0))
	return err
}

func fileName(path string) string {
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// Restored is the result of Restore.
type Restored struct {
	Schema   int64  // the version of the copy's schema
	Previous string // new name of the former database; empty: there was none
}

// Restore checks a copy of the file from and puts it in the place of the SQLite file db. If db exists, the error is ErrExists
// without force, and ErrInUse if a process has db open; otherwise db is kept under another name. The new file gets the owner
// of the former one, so that a server with its own user can open a file that root has restored.
func Restore(ctx context.Context, from, db string, force bool, now time.Time) (Restored, error) {
	r, err := restore(ctx, from, db, force, now)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	return r, nil
}

func restore(ctx context.Context, from, db string, force bool, now time.Time) (r Restored, err error) {
	if !IsFile(db) {
		return r, errNotAFile
	}
	if err := isFile(from); err != nil {
		return r, err
	}
	if info, err := os.Stat(from + "-wal"); err == nil && info.Size() > 0 {
		return r, fmt.Errorf("%s has a log beside it, so it is not a copy but a database: make one with carillon backup", from)
	}
	_, missing := os.Lstat(db)
	if missing == nil && !force {
		return r, fmt.Errorf("%s %w", db, ErrExists)
	}
	part, err := newPart(db)
	if err == nil {
		err = copyFile(from, part)
	}
	if err == nil {
		r.Schema, err = checkFile(ctx, part)
	}
	if err == nil {
		err = markRestored(ctx, part, now)
	}
	if err == nil && missing == nil {
		err = errors.Join(unused(ctx, db), sameOwner(part, db))
	}
	if err == nil {
		r.Previous, err = moveAway(db, db+"."+now.UTC().Format("20060102T150405Z"))
	}
	if err == nil {
		err = place(part, db)
	}
	if err != nil {
		return Restored{}, errors.Join(err, remove(part))
	}
	return r, nil
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	file, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	return errors.Join(err, file.Close())
}

// sameOwner changes the owner and group of path to those of file.
func sameOwner(path, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	own, err := os.Stat(path)
	if err != nil {
		return err
	}
	want, ok := info.Sys().(*syscall.Stat_t)
	have, ok2 := own.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || (want.Uid == have.Uid && want.Gid == have.Gid) {
		return nil
	}
	return os.Chown(path, int(want.Uid), int(want.Gid))
}

// checkFile checks a database file that no process uses for damage, and returns the version of its schema.
func checkFile(ctx context.Context, path string) (schema int64, err error) {
	db, err := sql.Open("sqlite", fileName(path))
	if err != nil {
		return 0, err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&verdict); err != nil {
		return 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if verdict != "ok" {
		return 0, fmt.Errorf("%w: %s", errDamaged, verdict)
	}
	if err := db.QueryRowContext(ctx, schemaVersion).Scan(&schema); err != nil {
		return 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	want, err := newestSchema()
	if err == nil {
		err = Upgradable(schema, want)
	}
	return schema, err
}

// unused returns ErrInUse if a process has the file open. A file that SQLite cannot read counts as unused.
func unused(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", fileName(path)+"?_pragma=busy_timeout(100)&_pragma=locking_mode(EXCLUSIVE)")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, `BEGIN EXCLUSIVE; ROLLBACK`)
	var refused *sqlite.Error
	switch {
	case errors.As(err, &refused) && (refused.Code()&0xff == sqlite3.SQLITE_BUSY || refused.Code()&0xff == sqlite3.SQLITE_LOCKED):
		return fmt.Errorf("%s: %w", path, ErrInUse)
	case errors.As(err, &refused):
		return nil
	}
	return err
}

// moveAway renames a database and the files beside it, and returns the new name, or "" if there was none. It also renames a
// log without a database, because SQLite would write that log into the copy.
func moveAway(db, to string) (string, error) {
	moved := ""
	for _, end := range append([]string{""}, besides...) {
		if _, err := os.Lstat(to + end); err == nil {
			return "", fmt.Errorf("%s %w", to+end, ErrExists)
		}
		err := os.Rename(db+end, to+end)
		switch {
		case err == nil:
			moved = cmp.Or(moved, to+end)
		case !errors.Is(err, os.ErrNotExist):
			return "", err
		}
	}
	return moved, nil
}

// place syncs a finished file to disk and gives it its final name.
func place(part, path string) error {
	file, err := os.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	for _, end := range besides {
		if err := os.Remove(part + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func remove(path string) error {
	if path == "" {
		return nil
	}
	var errs []error
	for _, end := range append([]string{""}, besides...) {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
