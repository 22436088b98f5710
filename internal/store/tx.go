package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
)

const (
	// maxTries bounds how often a transaction runs. A try that fails has waited for the transaction that won, so the next
	// one sees its rows; more than a few tries mean a bug.
	maxTries = 20
	// rollbackTimeout bounds a rollback whose caller has gone.
	rollbackTimeout = 5 * time.Second
	// commitTimeout bounds a commit whose caller may have gone: the longest stall that a disk recovers from.
	commitTimeout = 10 * time.Second
)

var (
	// ErrAgain is returned by the work of a transaction that has to run again, as when another transaction inserted one of
	// its keys after it began to decide.
	ErrAgain = errors.New("another transaction inserted the same key meanwhile")
	// errBegin means that a transaction did not begin, as on a connection from before a restart of the server.
	errBegin = errors.New("begin")
)

// Tx is a connection, inside a transaction or for one read. One goroutine uses it, until the function that got it returns.
type Tx struct {
	s                           *Store
	ctx                         context.Context //nolint:containedctx // a Tx lives as long as one call, and all its statements end with that call
	conn                        conn
	try                         int                       // of the transaction, from 1
	waiting                     []waiting                 // inserts sent with the next statement
	earliest                    dueFrom                   // the earliest instants at which written rows are due
	newInstances, newDeliveries int64                     // rows inserted
	cursors                     []*scanCursor             // cursors moved by this transaction; a rollback resets them
	undelivered                 map[instanceRef]time.Time // instances whose messages ended unsent, and when
	over                        overSessions
	unasked                     []Asked      // further questions that were to be sent, and were not
	unsent, begun               []askedFirst // first messages of sessions that were certainly not sent, or may have arrived
	begunAt                     time.Time
	claimed                     map[deliveryRef]bool // deliveries that this transaction has claimed
	followed                    map[Followed]int     // subscriptions that began or ended
	grouping                    Grouping             // of contacts that this transaction makes; nil: none belongs to a group
	// lastPerson is the last one, in the order of locks, that LockPersons has locked.
	lastPerson delivery.PersonRef
	locked     string // the last table of which a statement waited for row locks; see strict
}

type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// render returns a query in the database's dialect, with its parameters checked and flattened. empty reports that its rowset
// has no rows.
func (t *Tx) render(text string, in []any) (rendered string, out []any, empty bool, err error) {
	var constant columnSet
	for _, arg := range in {
		if rows, ok := arg.(*rowset); ok {
			constant = rows.constant()
			if rows.n == 1 && t.s.dialect.loneRows {
				constant = loneRow
			}
		}
	}
	t.s.strict.order(t, text)
	if constant != 0 && !t.s.dialect.joinsByConstants {
		constant &^= t.s.statement(text, 0).joined
	}
	st := t.s.statement(text, constant)
	for _, arg := range in {
		switch arg := arg.(type) {
		case *rowset:
			if arg.n == 0 {
				return "", nil, true, nil
			}
			if err := arg.check(st.spec); err != nil {
				return "", nil, false, err
			}
			out = append(out, t.s.dialect.bind(arg, st.constant)...)
		case string:
			if err := storable(arg); err != nil {
				return "", nil, false, err
			}
			out = append(out, arg)
		default:
			out = append(out, arg)
		}
	}
	return st.text, out, false, nil
}

// exec runs a statement and returns the number of rows it changed. With an empty rowset nothing is sent.
func (t *Tx) exec(text string, in ...any) (int64, error) {
	rendered, args, empty, err := t.render(text, in)
	if err != nil || empty {
		return 0, err
	}
	t.s.sent.Add(1)
	t.s.strict.plan(t, rendered, args)
	if len(t.waiting) > 0 {
		return t.together(waiting{text: rendered, args: args})
	}
	result, err := t.conn.ExecContext(t.ctx, rendered, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query runs a statement and collects the results of scan. With an empty rowset nothing is sent.
func query[T any](t *Tx, scan func(*sql.Rows) (T, error), text string, in ...any) ([]T, error) {
	rendered, args, empty, err := t.render(text, in)
	if err != nil || empty {
		return nil, err
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	t.s.sent.Add(1)
	t.s.strict.plan(t, rendered, args)
	rows, err := t.conn.QueryContext(t.ctx, rendered, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() // does nothing after Next has returned false, which closes rows
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

func scanInt(rows *sql.Rows) (v int64, err error) { return v, rows.Scan(&v) }

// maxRenderings bounds the renderings of a query by constant columns. Every connection keeps each of them prepared.
const maxRenderings = 8

// rendering identifies a rendering of a query.
type rendering struct {
	text     string
	constant columnSet
}

// statement returns the query in the database's dialect, rendered at its first use.
func (s *Store) statement(text string, constant columnSet) statement {
	if st, ok := s.statements.Load(rendering{text, constant}); ok {
		return st.(statement)
	}
	if constant != 0 && constant != loneRow {
		n, _ := s.renderings.LoadOrStore(text, new(atomic.Int32))
		if n.(*atomic.Int32).Add(1) > maxRenderings {
			return s.statement(text, 0)
		}
	}
	st := expanded(s.dialect, rendering{text, constant})
	s.statements.Store(rendering{text, constant}, st)
	return st
}

// expansions are the statements that were rendered in this process, by dialect and rendering: another store of the same kind, such as that of
// the next test, has them at once. Each store bounds what it adds.
var expansions sync.Map //nolint:gochecknoglobals // of constants

func expanded(d dialect, r rendering) statement {
	type of struct {
		dialect string
		rendering
	}
	key := of{d.name, r}
	if st, ok := expansions.Load(key); ok {
		return st.(statement)
	}
	st := d.expand(sabotaged(r.text), r.constant)
	expansions.Store(key, st)
	return st
}

// Read runs work outside a transaction: each statement reads what is committed when it begins. It runs work again if the
// connection is lost: a restart of the server ends all connections of the pool.
func (s *Store) Read(ctx context.Context, work func(*Tx) error) error {
	leave := s.enter()
	defer leave()
	if !s.memory {
		for try := 1; ; try++ {
			if err := s.file.check(); err != nil {
				return err
			}
			t := &Tx{s: s, ctx: ctx, conn: s.readers}
			if s.reader != nil {
				t.conn = s.reader
			}
			err := work(t)
			if err == nil || ctx.Err() != nil || try == maxTries || !s.dialect.broken(err) {
				return err
			}
		}
	}
	if err := s.writer.acquire(ctx); err != nil {
		return err
	}
	defer s.writer.release()
	return work(&Tx{s: s, ctx: ctx, conn: s.writer})
}

// ReadBatch is Read for statements that look up many rows. On PostgreSQL it reads in a transaction, whose settings make the
// planner use indexes: without them it reads whole tables.
func (s *Store) ReadBatch(ctx context.Context, work func(*Tx) error) error {
	if s.writer == nil {
		return s.Write(ctx, work)
	}
	return s.Read(ctx, work)
}

// Write runs work in a transaction and commits it, and runs all of it again if the database is busy, found a deadlock or a
// serialization failure, or if another transaction inserted one of its keys meanwhile. So work may run more than once: it
// begins with empty results, has no effects but those of tx, reads no clock, and calls no other method of the store but
// NewID. Its error rolls everything back and is returned as it is.
//
// Locks are taken in the order of lockOrder.
func (s *Store) Write(ctx context.Context, work func(*Tx) error) error {
	return s.writeFrom(ctx, s.dialect.begin, work)
}

// WriteHoldingDefinitions is Write for work that follows from the definitions in force. No other set comes into force before
// it commits, so nothing planned by an older set is committed after an apply.
func (s *Store) WriteHoldingDefinitions(ctx context.Context, work func(*Tx) error) error {
	return s.writeFrom(ctx, s.dialect.beginPlan, work)
}

func (s *Store) writeFrom(ctx context.Context, begin string, work func(*Tx) error) error {
	for try := 1; ; try++ {
		t := &Tx{s: s, try: try}
		err := s.attempt(ctx, begin, t, work)
		s.noteRoom(err)
		if err == nil {
			s.committed(t.earliest)
			s.countFollowed(t.followed)
			s.grown(ctx, t.newInstances, t.newDeliveries)
			return nil
		}
		if cause := context.Cause(ctx); cause != nil { // drivers report a cancelled context in many ways
			return fmt.Errorf("%w: %w", cause, err)
		}
		if s.dialect.busy(err) {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
		if readOnly(err) {
			if s.path != "" {
				return fmt.Errorf("%s: %w: %w", s.path, ErrReadOnly, err)
			}
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
		if !errors.Is(err, ErrAgain) && !errors.Is(err, errBegin) && !s.dialect.retriable(err) {
			return err
		}
		if s.dialect.deadlock(err) {
			s.deadlocks.Add(1)
		}
		if try == maxTries {
			if !errors.Is(err, ErrAgain) && !s.dialect.retriable(err) { // nothing was in its way: it cannot begin
				return fmt.Errorf("gave up after %d tries: %w", try, err)
			}
			return fmt.Errorf("%w: gave up after %d tries: %w", ErrConflict, try, err)
		}
	}
}

func (s *Store) attempt(ctx context.Context, begin string, t *Tx, work func(*Tx) error) error {
	leave := s.enter()
	defer leave()
	c, release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := s.file.check(); err != nil {
		return err
	}
	t.ctx, t.conn = ctx, c
	open := true
	defer func() {
		if !open {
			return
		}
		for _, c := range t.cursors {
			c.back()
		}
		// Also runs when work panics. A connection on which the rollback fails is not used again: the pool checks the
		// transaction state of a PostgreSQL connection, and SQLite has rolled back by itself.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		t.ctx, t.waiting = end, nil
		_, _ = t.exec("ROLLBACK")
	}()
	if _, err := t.exec(begin); err != nil {
		return fmt.Errorf("%w: %w", errBegin, err)
	}
	if err := work(t); err != nil {
		return err
	}
	if err := t.markUndelivered(); err != nil {
		return err
	}
	if err := t.tellSessions(); err != nil {
		return err
	}
	if err := t.endSessions(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err // nothing is written
	}
	// A commit that its caller abandons may still succeed, and would leave intents open that no worker knows of. So a commit
	// does not end with its caller's context.
	commit, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), commitTimeout, fmt.Errorf("no answer to COMMIT within %s", commitTimeout))
	defer cancel()
	t.ctx = commit
	if _, err := t.exec("COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	open = false
	return s.file.check() // rows written to a deleted file are lost
}

func (s *Store) acquire(ctx context.Context) (conn, func(), error) {
	if s.writer != nil {
		if err := s.writer.acquire(ctx); err != nil {
			return nil, nil, err
		}
		return s.writer, s.writer.release, nil
	}
	c, err := s.writers.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c, func() { _ = c.Close() }, nil // returns it to the pool
}
