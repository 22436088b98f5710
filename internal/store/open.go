package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // registers the driver
)

// Errors on which callers branch.
var (
	ErrNotFound         = errors.New("not found")
	ErrConflict         = errors.New("conflict")                                            // somebody else changed it meanwhile, or it exists
	ErrInvalid          = errors.New("cannot be stored")                                    // the value itself is wrong; trying again is useless
	ErrStaleDefinitions = errors.New("another definition set is in force")                  // compile again with the new one
	ErrNewerSchema      = errors.New("the database belongs to a newer version of carillon") // its schema is unknown to this binary
	// The database was made before the first schema, which no release had.
	ErrSchemaBeforeBaseline = errors.New("the database was made by a development version of carillon from before its first schema, and is not upgraded")
)

// DefaultMaxConns is the size of the pool: the engine's loops, the API's requests and the console share it. Two
// workers saturate a database of two cores; eight leave room for readers.
const DefaultMaxConns = 8

// Options are the settings of a store.
type Options struct {
	// MaxConns bounds the connections. PostgreSQL: of the whole pool. SQLite: of the readers, beside the one writer.
	// 0 = DefaultMaxConns.
	MaxConns int
	// Direct is an address of the same PostgreSQL past any pooler, for notifications. Empty: the database's own.
	Direct string
	// Disposable says that the database is the caller's own and empty, so that it may be damaged on purpose; see Lose.
	Disposable bool
	// Strict has transactions panic that break the rules of Write: another method of the store is called inside one, or
	// locks are taken out of order. For tests: it costs a microsecond a call.
	Strict bool
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	dialect    dialect
	writers    *sql.DB // PostgreSQL: the pool; SQLite: one connection
	readers    *sql.DB // PostgreSQL, :memory:: the same as writers
	memory     bool
	disposable bool            // it may be damaged
	strict     *strict         // nil: transactions are not checked
	path       string          // SQLite: the file's name
	file       *dbFile         // and what was found there
	writer     *writer         // SQLite: the writing connection
	direct     *pgx.ConnConfig // PostgreSQL: where notifications are heard

	statements sync.Map // spelling → statement
	renderings sync.Map // query → *atomic.Int32, how many it has
	sent       atomic.Int64
	deadlocks  atomic.Int64
	ids        ids
	epoch      atomic.Int64  // the last number by which the database was known (Recognise)
	restored   atomic.Bool   // it is a copy that nobody has accepted
	full       atomic.Bool   // the last transaction found no room
	givenUp    atomic.Int64  // µs, see GivenUpUntil
	busyAfter  time.Duration // see defaultBusyAfter

	dueRecords, dueInstances, dueDeliveries scanCursor
	nextDue                                 scanCursor // of which only the rest counts

	mu        sync.Mutex
	listeners []func(earliest time.Time)
}

// memory is the address of a private SQLite database that lives as long as its store.
const memory = ":memory:"

// Open opens postgres://… (or postgresql://…), a SQLite file, or ":memory:", a private database that lives as long
// as the store. It does not change the schema; see Migrate. On a database in which Migrate has been run it takes
// this process's number for NewID.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if o.MaxConns < 0 {
		return nil, fmt.Errorf("open the database: %w: MaxConns %d", ErrInvalid, o.MaxConns)
	}
	if o.MaxConns == 0 {
		o.MaxConns = DefaultMaxConns
	}
	s := &Store{busyAfter: defaultBusyAfter, disposable: o.Disposable}
	if o.Strict {
		s.strict = &strict{inside: map[int64]bool{}}
	}
	var err error
	switch {
	case url == "":
		return nil, fmt.Errorf("open the database: %w: no address", ErrInvalid)
	case IsPostgres(url):
		err = s.openPostgres(url, o)
	default:
		err = s.openSQLite(url, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", unreadable(url, err)), s.Close())
	}
	return s, nil
}

func (s *Store) openPostgres(url string, o Options) error {
	config, err := postgresConfig(url)
	if err != nil {
		return err
	}
	s.direct = config.Copy()
	if o.Direct != "" {
		if s.direct, err = postgresConfig(o.Direct); err != nil {
			return fmt.Errorf("the direct address: %w", err)
		}
	}
	s.dialect = postgres()
	s.writers = sql.OpenDB(newConnector(url, config))
	s.readers = s.writers
	s.writers.SetMaxOpenConns(o.MaxConns)
	s.writers.SetMaxIdleConns(o.MaxConns)
	return nil
}

func (s *Store) openSQLite(path string, o Options) error {
	// FULL: what was committed survives a power loss. The log is folded back after 64 MB instead of 4, and 64 MB of
	// pages stay in memory: both were measured to be worth it.
	const pragmas = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(16384)&_pragma=temp_store(MEMORY)"
	s.dialect = sqliteDialect()
	s.memory = path == memory
	name := fileName(path) + pragmas
	if s.memory {
		name = memory
	}
	if !s.memory {
		file, err := openFile(path)
		if err != nil {
			return err
		}
		s.path, s.file = path, file
	}
	var err error
	if s.writers, err = sql.Open("sqlite", name); err != nil {
		return err
	}
	s.writers.SetMaxOpenConns(1)
	s.writers.SetMaxIdleConns(1)
	s.writer = newWriter(s.writers)
	if s.readers = s.writers; s.memory {
		return nil
	}
	if s.readers, err = sql.Open("sqlite", name+"&_pragma=query_only(1)"); err != nil {
		return err
	}
	s.readers.SetMaxOpenConns(o.MaxConns)
	s.readers.SetMaxIdleConns(o.MaxConns)
	return nil
}

// touch makes the file of a new database, readable for its owner only: it holds secrets and addresses. SQLite gives
// the files beside it the same mode, and its own errors do not name the path.
func touch(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func (s *Store) start(ctx context.Context) error {
	have, want, err := s.SchemaVersion(ctx)
	if err != nil || have != want {
		return err
	}
	return s.takeNode(ctx)
}

// Close closes every connection. Calls under way fail. Of a SQLite file that was replaced meanwhile nothing is left under
// its name.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	closable, err := s.leave(ctx)
	errs := []error{err}
	if !closable {
		return err
	}
	if s.readers != nil && s.readers != s.writers {
		errs = append(errs, s.readers.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	if s.writers != nil {
		errs = append(errs, s.writers.Close())
	}
	if s.file != nil {
		if s.file.check() != nil {
			errs = append(errs, s.file.takeAlong())
		}
		errs = append(errs, s.file.forget())
	}
	return errors.Join(errs...)
}

// Ping reports whether the database answers, and is still the one that was opened.
func (s *Store) Ping(ctx context.Context) error {
	return s.Read(ctx, func(t *Tx) error {
		_, err := query(t, scanInt, "SELECT 1")
		return err
	})
}

// Dialect is "sqlite" or "postgres".
func (s *Store) Dialect() string { return s.dialect.name }

// Writers is how many writing transactions are worth having under way at once: SQLite has one writer, and on
// PostgreSQL half of the default pool leaves room for everything else.
func (s *Store) Writers() int {
	if s.writer != nil {
		return 1
	}
	return DefaultMaxConns / 2
}

// Statements is the number of statements sent so far, the beginnings and ends of transactions included.
func (s *Store) Statements() int64 { return s.sent.Load() }

// Deadlocks is the number of transactions so far that were done again because others waited for them and they for those.
// Locks are taken in one order everywhere, so there are none.
func (s *Store) Deadlocks() int64 { return s.deadlocks.Load() }

// OnCommit has f called after every commit that made work due, with the earliest instant of that work. It runs on
// the goroutine that committed and must not block. Several may be added, before the store is used.
func (s *Store) OnCommit(f func(earliest time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, f)
}

func (s *Store) committed(earliest int64) {
	if earliest == 0 {
		return
	}
	s.dueRecords.due(earliest)
	s.dueInstances.due(earliest)
	s.dueDeliveries.due(earliest)
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	for _, f := range listeners {
		f(fromMicros(earliest))
	}
}

// ClockOffset is how far the database's clock is ahead of ours: what has to be added to now. Half of the round
// trip is taken into account. SQLite: 0, it has no clock of its own.
func (s *Store) ClockOffset(ctx context.Context, now func() time.Time) (time.Duration, error) {
	if s.dialect.clock == "" {
		return 0, nil
	}
	var offset time.Duration
	err := s.Read(ctx, func(t *Tx) error {
		before := now()
		theirs, err := query(t, scanInt, s.dialect.clock)
		if err != nil {
			return err
		}
		after := now()
		offset = time.UnixMicro(theirs[0]).Sub(before.Add(after.Sub(before) / 2))
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the database's time: %w", err)
	}
	return offset, nil
}
