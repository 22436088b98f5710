package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// A SQLite database is a file and its log, which SQLite finds by their names alone. SQLite writes a log that lies beside a
// database into it, even if the log belongs to another database. So a file is ruined if it takes the place of a database
// whose log remains: because a process still has that database open, or because a process was killed. Two measures prevent
// this:
//
//   - A process that has the database open compares the file under its name with the file that it opened, before every
//     transaction and before the answer to every commit and read. If they differ, it reports ErrReplaced, removes its own
//     log and ends.
//   - Every database has a token, in the user_version of its header, and the file that is kept beside it has the same token.
//     A start is refused with ErrForeignLog if there is a log and the two tokens differ, or if the log holds another token.
//     Copies that carillon backup makes have no token.

// Errors of a SQLite file that was replaced or removed.
var (
	// ErrReplaced means that another file, or none, has the name of the open database: writes would be lost.
	ErrReplaced = errors.New("the database's file was replaced or removed while it was open")
	// ErrForeignLog means that a log of another database lies beside the file.
	ErrForeignLog = errors.New("the log beside the database belongs to another one")
	// ErrMissing means that there was a database of that name, and that its file is gone.
	ErrMissing = errors.New("the database's file is gone")
)

const (
	headerSize = 100 // bytes; see "The Database Header" in SQLite's file format
	headerText = "SQLite format 3\x00"
	tokenAt    = 60 // user_version
)

// dbFile is the SQLite file that a store has opened, and the files beside it.
type dbFile struct {
	path   string
	info   os.FileInfo
	header *os.File // closed after all connections, because closing a file drops all locks that the process has on it

	mu       sync.Mutex
	log, shm os.FileInfo // nil: not seen yet
	token    uint32      // 0: not known yet
	gone     error       // ErrReplaced with details; nil: the file was not replaced
	written  bool        // another database was written into the file itself
	closing  bool        // the store is closing the file, and SQLite removes its log
	notify   func(error)
}

// openFile checks the file of a database, or makes it, before SQLite opens it.
func openFile(path string) (*dbFile, error) {
	if err := inspect(path); err != nil {
		return nil, err
	}
	if err := touch(path); err != nil {
		return nil, err
	}
	f := &dbFile{path: path}
	var err error
	if f.header, err = os.Open(path); err != nil {
		return nil, err
	}
	if f.info, err = f.header.Stat(); err != nil {
		return nil, errors.Join(err, f.header.Close())
	}
	return f, nil
}

// inspect returns an error, which names the remedy, for a file that must not be opened.
func inspect(path string) error {
	known, err := readBeside(path)
	if err != nil {
		known = beside{} // Recognise reports it
	}
	log, err := os.Stat(path + "-wal")
	alone := errors.Is(err, os.ErrNotExist)
	info, err := os.Stat(path)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, errNotAFile)
	case (err != nil || info.Size() == 0) && known.Epoch > 0:
		return fmt.Errorf("%s: %w: %s shows that there was one. Put it back, or carillon restore a backup; to begin with an empty database, remove %s",
			path, ErrMissing, path+besideSuffix, path+besideSuffix)
	case (err != nil || info.Size() == 0) && !alone && log.Size() > 0:
		return foreign(path)
	case err != nil || info.Size() == 0:
		return nil
	}
	header := make([]byte, headerSize)
	if err := readHeader(path, header); err != nil {
		return fmt.Errorf("%s: %w: %w. Put it back, or carillon restore --force a backup", path, errDamaged, err)
	}
	if why := damage(header, info.Size(), alone); why != "" {
		return fmt.Errorf("%s: %w: %s. Put the whole file back, or carillon restore --force a backup", path, errDamaged, why)
	}
	token := tokenOf(header)
	if token != 0 && !alone {
		if of, err := logToken(path + "-wal"); err != nil {
			return err
		} else if of != 0 && of != token {
			return foreign(path)
		}
	}
	if known.Token != 0 && known.Token != token {
		if !alone {
			return foreign(path)
		}
		known.Token = token
		return writeBeside(path, known)
	}
	return nil
}

func foreign(path string) error {
	name := filepath.Base(path)
	return fmt.Errorf("%s: %w, and SQLite would write it into this one. Put the former file back, or move %s-wal and %s-shm away: they hold the newest rows of the former file",
		path, ErrForeignLog, name, name)
}

func readHeader(path string, header []byte) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(file, header)
	return errors.Join(err, file.Close())
}

// damage returns why a file is not a whole database; empty: no damage was found. The length of the file is checked only if
// there is no log, because the last pages may be in the log alone.
func damage(header []byte, size int64, alone bool) string {
	if !bytes.HasPrefix(header, []byte(headerText)) {
		return "it is no SQLite file"
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 65536
	}
	changes, countedAt := binary.BigEndian.Uint32(header[24:]), binary.BigEndian.Uint32(header[92:])
	if pages := int64(binary.BigEndian.Uint32(header[28:])); alone && changes == countedAt && size < pages*page {
		return fmt.Sprintf("it ends after %d bytes of %d", size, pages*page)
	}
	return ""
}

func tokenOf(header []byte) uint32 { return binary.BigEndian.Uint32(header[tokenAt:]) }

// readToken reads the token from the open file; 0: it has none, or the token is still in the log.
func (f *dbFile) readToken() (uint32, error) {
	var raw [4]byte
	if _, err := f.header.ReadAt(raw[:], tokenAt); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return binary.BigEndian.Uint32(raw[:]), nil
}

// check returns ErrReplaced once another file has the name of the database. A nil file is not checked.
func (f *dbFile) check() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone != nil || f.closing {
		return f.gone
	}
	what := f.changed()
	if what == "" {
		return nil
	}
	f.gone = fmt.Errorf("%s: %w: %s", f.path, ErrReplaced, what)
	if f.notify != nil {
		f.notify(f.gone)
	}
	return f.gone
}

// close ends the checks, because closing the store changes the files. It does nothing on a nil file.
func (f *dbFile) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
}

// forget closes the file of a closed store; it may be called twice.
func (f *dbFile) forget() error {
	if err := f.header.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// changed returns what differs from the opened files; empty: nothing. Files that cannot be read are left to SQLite.
func (f *dbFile) changed() string {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "it is gone"
	case err == nil && !os.SameFile(info, f.info):
		return "another file has its name"
	}
	if f.token != 0 {
		if token, err := f.readToken(); err == nil && token != f.token {
			f.written = true
			return "another database was written into it"
		}
	}
	log, err := os.Stat(f.path + "-wal")
	switch {
	case f.log == nil && err == nil:
		f.log = log
	case f.log != nil && errors.Is(err, os.ErrNotExist):
		return "its log is gone"
	case f.log != nil && err == nil && !os.SameFile(log, f.log):
		return "another log lies beside it"
	}
	if shm, err := os.Stat(f.path + "-shm"); f.shm == nil && err == nil {
		f.shm = shm
	}
	return ""
}

// OnReplaced registers f, which is called once, when the store finds that the database's file was replaced. f must not block.
func (s *Store) OnReplaced(f func(error)) {
	if s.file == nil {
		return
	}
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	s.file.notify = f
}

const (
	setToken   = `PRAGMA user_version = %d`
	checkpoint = `PRAGMA wal_checkpoint(%s)`
)

// mark gives the database a token if it has none, and stores the token in the file beside it. The token counts once it is in
// the database file: a token in the log alone is lost with the log.
func (s *Store) mark(ctx context.Context) error {
	f := s.file
	if f == nil {
		return nil
	}
	token, err := f.readToken()
	if err == nil && token == 0 {
		if err = s.setToken(ctx); err == nil {
			token, err = f.readToken()
		}
	}
	if err != nil || token == 0 { // 0: a reader keeps the log from being written to the file; the next call tries again
		return err
	}
	f.mu.Lock()
	f.token = token
	f.mu.Unlock()
	if err := s.markLog(ctx, token); err != nil {
		return err
	}
	beside, err := readBeside(s.path)
	if err != nil || beside.Token == token {
		return err
	}
	beside.Token = token
	return writeBeside(s.path, beside)
}

// markLog writes the token into the log, which starts empty again once all of it is in the file. By the token, a log that was
// moved beside another database is recognised.
func (s *Store) markLog(ctx context.Context, token uint32) error {
	return s.Write(ctx, func(t *Tx) error {
		_, err := t.pragma(fmt.Sprintf(setToken, token))
		return err
	})
}

// setToken gives the database a token, unless another process has done so.
func (s *Store) setToken(ctx context.Context) error {
	err := s.Write(ctx, func(t *Tx) error {
		have, err := t.pragma(`PRAGMA user_version`)
		if err != nil || have != 0 {
			return err
		}
		var raw [4]byte
		if _, err := rand.Read(raw[:]); err != nil {
			return err
		}
		_, err = t.pragma(fmt.Sprintf(setToken, binary.BigEndian.Uint32(raw[:])&0x7fffffff|1))
		return err
	})
	if err != nil {
		return err
	}
	return s.checkpoint(ctx, "PASSIVE")
}

// pragma runs a SQLite pragma and returns the first number of its result; 0 without a result.
func (t *Tx) pragma(text string) (n int64, err error) {
	rows, err := t.s.writer.conn.QueryContext(t.ctx, text)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.Next() {
		return 0, rows.Err()
	}
	values := make([]any, 0, 3)
	columns, err := rows.Columns()
	for range columns {
		values = append(values, new(int64))
	}
	if err != nil || len(values) == 0 {
		return 0, err
	}
	if err := rows.Scan(values...); err != nil {
		return 0, err
	}
	n = *values[0].(*int64) //nolint:forcetypeassert // made above
	return n, rows.Err()
}

// checkpoint writes the log into the file that was opened, even if that file has another name now.
func (s *Store) checkpoint(ctx context.Context, mode string) error {
	select {
	case s.writer.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer s.writer.release()
	if s.writer.conn == nil { // nothing was ever written; a new connection would open the file that has the name now
		return nil
	}
	_, err := (&Tx{s: s, ctx: ctx}).pragma(fmt.Sprintf(checkpoint, mode))
	return err
}

// leave prepares the store for closing, so that a file that has replaced the database is not damaged. If closable is false,
// the connections must stay open: closing the last one would write the log into the file of that name, which is another
// database now.
func (s *Store) leave(ctx context.Context) (closable bool, err error) {
	f := s.file
	if f.check() == nil {
		f.close()
		return true, nil
	}
	if f.written {
		return false, f.takeAlong()
	}
	// This completes the file that was open, even if it was moved.
	return true, s.checkpoint(ctx, "TRUNCATE")
}

// takeAlong removes the log beside the database's name if it belongs to the file that was open. A log that is not empty is
// renamed instead.
func (f *dbFile) takeAlong() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for end, own := range map[string]os.FileInfo{"-wal": f.log, "-shm": f.shm} {
		info, err := os.Stat(f.path + end)
		if own == nil || err != nil || !os.SameFile(info, own) {
			continue
		}
		if end == "-shm" || info.Size() == 0 {
			errs = append(errs, os.Remove(f.path+end))
			continue
		}
		kept, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+end+".*.aside")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, kept.Close(), os.Rename(f.path+end, kept.Name()))
	}
	return errors.Join(errs...)
}

// unreadable adds the file's name and the remedy to an error about a file that cannot be read or written.
func unreadable(path string, err error) error {
	var refused *sqlite.Error
	if errors.As(err, &refused) && (refused.Code()&0xff == sqlite3.SQLITE_CORRUPT || refused.Code()&0xff == sqlite3.SQLITE_NOTADB) {
		return fmt.Errorf("%s: %w: %w. Put the whole file back, or carillon restore --force a backup", path, errDamaged, err)
	}
	if path == "" || IsPostgres(path) { // no file, and an address may hold a password
		return err
	}
	cannotOpen := refused != nil && refused.Code()&0xff == sqlite3.SQLITE_CANTOPEN
	if cannotOpen || readOnly(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w. The user of this process has to be able to write %s, the files beside it whose names begin with its name, and their folder", err, path)
	}
	return err
}
