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

// unlessThere begins the end of an insert that passes over rows which exist.
const unlessThere = "\nWHERE true\nON CONFLICT"

const uniqueViolation = "23505"

// waiting is an insert that is decided and not sent yet.
type waiting struct {
	what, text string
	args       []any
}

// insert inserts rows by a statement that may pass over those that exist, and returns how many did not.
//
// On PostgreSQL the first try of a transaction does not look for them: that would double the time of the insert
// (measured). A row that does exist has the whole done again, looking. So the answer holds nothing to decide by, and
// the insert waits for the next statement, to go with it in one round trip; the last ones go with COMMIT.
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

// flush sends the inserts that wait, before a statement whose rows are read.
func (t *Tx) flush() error {
	if len(t.waiting) == 0 {
		return nil
	}
	last := t.waiting[len(t.waiting)-1]
	t.waiting = t.waiting[:len(t.waiting)-1]
	_, err := t.together(last)
	return err
}

// together sends the inserts that wait and a statement after them in one round trip, and returns the number of rows
// that the statement changed. The server passes over all that follows a failure, so that nothing is committed then.
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
				_ = results.Close() // says the same
				return one.failed(err)
			}
			changed = tag.RowsAffected()
		}
		return results.Close()
	})
	return changed, err
}

// failed is the error of a statement: that it was never sent, that a row exists, or what else it is.
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
