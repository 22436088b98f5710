package store

import (
	"context"
	"database/sql"
	"errors"
)

// writer is SQLite's only writing connection. One caller at a time uses it. It keeps every statement prepared, which saves parsing it in
// each transaction.
type writer struct {
	db       *sql.DB
	turn     chan struct{}
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

func newWriter(db *sql.DB) *writer {
	return &writer{db: db, turn: make(chan struct{}, 1), prepared: map[string]*sql.Stmt{}}
}

// acquire waits until the caller may use the connection, and opens the connection if there is none.
func (w *writer) acquire(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if w.conn != nil {
		return nil
	}
	var err error
	if w.conn, err = w.db.Conn(ctx); err != nil {
		w.conn = nil
		<-w.turn
	}
	return err
}

func (w *writer) release() { <-w.turn }

// drop returns the connection to the pool. The caller must have acquired the writer.
func (w *writer) drop() error {
	var errs []error
	for _, stmt := range w.prepared {
		errs = append(errs, stmt.Close())
	}
	clear(w.prepared)
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
		w.conn = nil
	}
	return errors.Join(errs...)
}

func (w *writer) close() error {
	w.turn <- struct{}{}
	defer w.release()
	return w.drop()
}

func (w *writer) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := w.prepared[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(ctx, text)
	if err == nil {
		w.prepared[text] = stmt
	}
	return stmt, err
}

// ExecContext runs a prepared statement. The caller must have acquired the writer.
func (w *writer) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	stmt, err := w.prepare(ctx, text) //nolint:sqlclosecheck // prepared once for the writer's life, and closed with its connection
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// QueryContext runs a prepared statement. The caller must have acquired the writer, until the rows are closed.
func (w *writer) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	stmt, err := w.prepare(ctx, text) //nolint:sqlclosecheck // prepared once for the writer's life, and closed with its connection
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}
