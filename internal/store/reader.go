package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// reader runs the queries of SQLite's reading connections. It keeps those prepared that come again, up to maxKept: to parse the
// statement that looks for due work takes longer than to run it.
type reader struct {
	*sql.DB
	mu       sync.Mutex
	seen     map[string]bool
	prepared map[string]*sql.Stmt
}

// maxKept bounds the statements that each connection keeps prepared.
const maxKept = 64

func newReader(db *sql.DB) *reader {
	return &reader{DB: db, seen: map[string]bool{}, prepared: map[string]*sql.Stmt{}}
}

// QueryContext runs a query on a free connection.
func (r *reader) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	stmt, again := r.kept(text)
	if stmt == nil && again {
		var err error
		if stmt, err = r.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
		stmt = r.keep(text, stmt) //nolint:sqlclosecheck // closed with the reader
	}
	if stmt == nil {
		return r.DB.QueryContext(ctx, text, args...)
	}
	return stmt.QueryContext(ctx, args...)
}

// kept returns the prepared statement of a text; if there is none, again reports that it is to be prepared.
func (r *reader) kept(text string) (stmt *sql.Stmt, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stmt := r.prepared[text]; stmt != nil || len(r.prepared) == maxKept {
		return stmt, false
	}
	again = r.seen[text]
	r.seen[text] = true
	return nil, again
}

// keep keeps a statement and returns it, or what other goroutines leave: the one that they have prepared meanwhile, or none if there are enough.
func (r *reader) keep(text string, stmt *sql.Stmt) *sql.Stmt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.prepared[text]; other != nil || len(r.prepared) == maxKept {
		_ = stmt.Close() // it was not used
		return other
	}
	r.prepared[text] = stmt
	return stmt
}

// Close closes the statements and the connections.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, stmt := range r.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, r.DB.Close())...)
}
