package store

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// unlessThere begins the last clause of an insert that leaves out rows that exist.
const unlessThere = "\nWHERE true\nON CONFLICT"

const uniqueViolation = "23505"

// waiting is an insert that is not sent yet.
type waiting struct {
	what, text string
	args       []any
}

// insert inserts rows by a statement that may leave out rows that exist, and returns how many it inserted.
//
// On PostgreSQL the first try of a transaction inserts without ON CONFLICT, which would double the time of the insert
// (measured). If a row exists, the transaction runs again, with ON CONFLICT. So the result of the first try is always the
// number of rows. That lets the insert wait for the next statement: both are sent in one round trip. The last inserts are sent
// with COMMIT.
func (t *Tx) insert(what, text string, rows *rowset) (int64, error) {
	if t.try == 1 && t.s.dialect.pipelines {
		plain, _, _ := strings.Cut(text, unlessThere)
		rendered, args, empty, err := t.render(plain, []any{rows})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		if !empty {
			t.s.sent.Add(1)
			t.waiting = append(t.waiting, waiting{what, rendered, args})
		}
		return int64(rows.n), nil
	}
	n, err := t.exec(text, rows)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return n, nil
}

// insertNew inserts rows that do not exist yet; ErrAgain: another transaction has made one of them.
func (t *Tx) insertNew(what, text string, rows *rowset) error {
	n, err := t.insert(what, text, rows)
	if err == nil && n < int64(rows.n) {
		err = ErrAgain
	}
	return err
}

// updateAll updates rows, of which none may have changed since it was read, else ErrConflict: rows that are locked, or have a
// version.
func (t *Tx) updateAll(what, text string, rows *rowset, before ...any) error {
	n, err := t.exec(text, append(before, rows)...)
	if err == nil && n < int64(rows.n) {
		err = fmt.Errorf("%w: %d of %d rows", ErrConflict, n, rows.n)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// flush sends the waiting inserts before a statement whose rows are read.
func (t *Tx) flush() error {
	if len(t.waiting) == 0 {
		return nil
	}
	last := t.waiting[len(t.waiting)-1]
	t.waiting = t.waiting[:len(t.waiting)-1]
	_, err := t.together(last)
	return err
}

// together sends the waiting inserts, and a statement after them, in one round trip. It returns the number of rows that the
// statement changed. After a failed statement the server ignores the following ones, so that nothing is committed.
func (t *Tx) together(last waiting) (changed int64, err error) {
	var batch pgx.Batch
	all := append(t.waiting, last)
	t.waiting = nil
	for _, one := range all {
		batch.Queue(one.text, one.args...)
	}
	err = t.conn.(*sql.Conn).Raw(func(raw any) error {
		results := raw.(*stdlib.Conn).Conn().SendBatch(t.ctx, &batch)
		for _, one := range all {
			tag, err := results.Exec()
			if err != nil {
				_ = results.Close() // returns the same error
				return one.failed(err)
			}
			changed = tag.RowsAffected()
		}
		return results.Close()
	})
	return changed, err
}

// failed translates the error of a statement: driver.ErrBadConn if it was never sent, ErrAgain if a row exists.
func (w waiting) failed(err error) error {
	var e *pgconn.PgError
	switch {
	case pgconn.SafeToRetry(err):
		return driver.ErrBadConn
	case w.what == "":
		return err
	case errors.As(err, &e) && e.Code == uniqueViolation:
		return fmt.Errorf("%s: %w: %w", w.what, ErrAgain, err)
	}
	return fmt.Errorf("%s: %w", w.what, err)
}
