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

	"github.com/carillonhq/carillon/internal/topic"
)

// Errors that callers test for.
var (
	ErrNotFound         = errors.New("not found")
	ErrConflict         = errors.New("conflict")                                            // it was changed meanwhile, or it exists
	ErrInvalid          = errors.New("cannot be stored")                                    // the value itself is wrong; a further try is useless
	ErrStaleDefinitions = errors.New("another definition set is in force")                  // compile again with the new one
	errNewerSchema      = errors.New("the database belongs to a newer version of carillon") // its schema is unknown to this binary
	// errSchemaBeforeBaseline: the database was made by a development version, before the schema of the first release.
	errSchemaBeforeBaseline = errors.New("the database was made by a development version of carillon from before its first schema, and is not upgraded")
)

// defaultMaxConns is the size of the pool, which the engine's loops, the API and the console share. Two workers saturate a
// database of two cores; eight connections leave room for readers.
const defaultMaxConns = 8

// Options are the settings of a store.
type Options struct {
	// MaxConns bounds the connections of the pool (PostgreSQL), or of the readers, beside the one writer (SQLite).
	// 0: defaultMaxConns.
	MaxConns int
	// Direct is an address of the same PostgreSQL server that does not lead through a pooler, for notifications. Empty: the
	// database's own address.
	Direct string
	// Disposable allows Lose and AlterInputs to damage the database. It must be empty, and no other process may use it.
	Disposable bool
	// Strict makes a transaction panic if it breaks the rules of Write: if another method of the store is called inside it, or
	// if it takes locks out of order. It is meant for tests and costs a microsecond a call.
	Strict bool
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	dialect    dialect
	writers    *sql.DB // PostgreSQL: the pool; SQLite: one connection
	readers    *sql.DB // PostgreSQL, :memory:: the same as writers
	reader     *reader // SQLite: the readers; nil for :memory:
	memory     bool
	disposable bool            // see Options.Disposable
	strict     *strict         // nil: transactions are not checked
	path       string          // SQLite: the file's name
	file       *dbFile         // SQLite: the open file; nil for :memory:
	writer     *writer         // SQLite: the writing connection
	direct     *pgx.ConnConfig // PostgreSQL: the connection that receives notifications

	statements sync.Map // rendering → statement
	renderings sync.Map // query → *atomic.Int32, the number of its renderings
	sent       atomic.Int64
	deadlocks  atomic.Int64
	ids        ids
	epoch      atomic.Int64  // the number that Recognise stored last
	restored   atomic.Bool   // it is a copy that no person has accepted
	full       atomic.Bool   // the last transaction found no room
	givenUp    atomic.Int64  // µs, see GivenUpUntil
	busyAfter  time.Duration // see defaultBusyAfter
	turns      int64         // MaxTurns
	recent     int64         // MaxRecent

	dueRecords, dueInstances scanCursor
	dueDeliveries            [priorities]scanCursor
	inTurn                   workspaceTurns
	instances, deliveries    *growth
	nextDue                  scanCursor // only its pause between scans is used

	mu        sync.Mutex
	listeners []func(Due)
	followers []func(map[Followed]int)
}

// memory is the address of a private SQLite database that lives as long as its store.
const memory = ":memory:"

// Open opens postgres://… (or postgresql://…), a SQLite file, or ":memory:", a private database that lives as long as the
// store. It does not change the schema; see Migrate. If the schema is the one of this binary, Open takes the process's number
// for NewID.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if o.MaxConns < 0 {
		return nil, fmt.Errorf("open the database: %w: MaxConns %d", ErrInvalid, o.MaxConns)
	}
	if o.MaxConns == 0 {
		o.MaxConns = defaultMaxConns
	}
	s := &Store{busyAfter: defaultBusyAfter, turns: MaxTurns, recent: MaxRecent, disposable: o.Disposable, instances: newGrowth("instance"), deliveries: newGrowth("delivery")}
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
		return nil, fmt.Errorf("open the database: %w", unreadable(url, err))
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
	// With synchronous(FULL) a commit survives a power loss. The log is written into the file after 64 MB instead of 4, and
	// 64 MB of pages stay in memory: measurements showed that both are worth it.
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
	s.reader = newReader(s.readers)
	return nil
}

// touch makes the file of a new database. Only its owner can read it, because it holds secrets and addresses. SQLite gives the
// files beside it the same mode. touch also reports errors with the path, which SQLite's errors lack.
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

// Close closes every connection. Calls under way fail. If a SQLite file was replaced meanwhile, Close leaves no log beside the
// new file.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	closable, err := s.leave(ctx)
	errs := []error{err}
	if !closable {
		return err
	}
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
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

// Ping returns an error if the database does not answer, or if its file was replaced.
func (s *Store) Ping(ctx context.Context) error {
	return s.Read(ctx, func(t *Tx) error {
		_, err := query(t, scanInt, "SELECT 1")
		return err
	})
}

// Dialect returns "sqlite" or "postgres".
func (s *Store) Dialect() string { return s.dialect.name }

// Writers returns how many writing transactions callers should have under way at once: one on SQLite, which has one writer;
// half of the default pool on PostgreSQL, which leaves connections for everything else.
func (s *Store) Writers() int {
	if s.writer != nil {
		return 1
	}
	return defaultMaxConns / 2
}

// Statements returns the number of statements sent so far, including the beginnings and ends of transactions.
func (s *Store) Statements() int64 { return s.sent.Load() }

// Deadlocks returns the number of transactions so far that ran again after a deadlock. All transactions take locks in one
// order, so the number should be zero.
func (s *Store) Deadlocks() int64 { return s.deadlocks.Load() }

// OnCommit registers f, which is called after every commit that made work due. f runs on the goroutine that committed and must
// not block. Several functions may be registered, before the store is used.
func (s *Store) OnCommit(f func(Due)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, f)
}

// Followed says how subscriptions began, or why they ended.
type Followed struct {
	Source topic.Source    // empty: it is an end
	Reason topic.EndReason // empty: it is a beginning
}

// OnFollowed registers f, which is called after every commit that began or ended subscriptions, with how many. It is called as OnCommit's f is.
func (s *Store) OnFollowed(f func(map[Followed]int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = append(s.followers, f)
}

func (s *Store) countFollowed(n map[Followed]int) {
	if len(n) == 0 {
		return
	}
	s.mu.Lock()
	listeners := s.followers
	s.mu.Unlock()
	for _, f := range listeners {
		f(n)
	}
}

func (s *Store) committed(earliest dueFrom) {
	if earliest == (dueFrom{}) {
		return
	}
	s.dueRecords.due(earliest[WorkRecords])
	s.dueInstances.due(earliest[WorkInstances])
	for i := range s.dueDeliveries {
		s.dueDeliveries[i].due(earliest[WorkDeliveries])
	}
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	due := earliest.times()
	for _, f := range listeners {
		f(due)
	}
}

// ClockOffset returns how far the database's clock is ahead of now. Half of the round trip is taken into account. The result
// is 0 on SQLite, which has no clock of its own.
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
