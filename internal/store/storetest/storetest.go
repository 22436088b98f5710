// Package storetest runs a test on every database that the store knows.
//
// It is for tests only. A PostgreSQL server is started by the first test that needs one (see pgtest); the schema
// is migrated once a process and copied for each test.
package storetest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// EnvDatabase names the environment variable that selects one database: sqlite or postgres. Without it every test
// runs on both.
const EnvDatabase = "CARILLON_TEST_DB"

// EnvRaced names the environment variable that, when set, leaves out PostgreSQL, because another run has the same tests there, under the
// race detector.
const EnvRaced = "CARILLON_TEST_RACED"

// EnvLives names the environment variable that, when it is "all", has properties checked over as many lives as they name, and over new ones. See Lives and
// SameLives.
const EnvLives = "CARILLON_TEST_LIVES"

// EnvPooler names the environment variable that, when set, makes every test connect to PostgreSQL through PgBouncer in
// transaction mode.
const EnvPooler = "CARILLON_TEST_POOLER"

// poolSize is the number of the pooler's connections to a database. It is less than a store would open, so that connections are
// shared, and enough for a test in which two transactions wait for a third one.
const poolSize = 6

// Each runs f as a parallel subtest on SQLite and on PostgreSQL, each with an empty, migrated store of its own.
func Each(t *testing.T, f func(t *testing.T, s *store.Store)) {
	t.Helper()
	for _, database := range Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			f(t, Open(t, URL(t, database)))
		})
	}
}

// All is Each and a store in memory.
func All(t *testing.T, f func(t *testing.T, s *store.Store)) {
	t.Helper()
	Each(t, f)
	if os.Getenv(EnvDatabase) == "postgres" {
		return
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		f(t, Memory(t))
	})
}

// Databases returns the names of the databases that this run tests: the selected ones without PostgreSQL if the run under the race detector has it.
func Databases(t testing.TB) []string {
	t.Helper()
	if os.Getenv(EnvDatabase) == "" && os.Getenv(EnvRaced) != "" {
		return []string{"sqlite"}
	}
	return EveryDatabase(t)
}

// EveryDatabase returns the names of the selected databases. It is for tests that compare them, or that do not run under the race detector.
func EveryDatabase(t testing.TB) []string {
	t.Helper()
	switch name := os.Getenv(EnvDatabase); name {
	case "":
		return []string{"sqlite", "postgres"}
	case "sqlite", "postgres":
		return []string{name}
	default:
		t.Fatalf("%s is %q, want sqlite or postgres", EnvDatabase, name)
		return nil
	}
}

// URL makes a migrated database for one test.
func URL(t testing.TB, database string) string {
	t.Helper()
	if database == "postgres" {
		url := pgtest.NewFrom(t, pgtest.Template{Version: store.Fingerprint(), Prepare: migrate})
		if os.Getenv(EnvPooler) != "" {
			return pooled(t, url)
		}
		return url
	}
	return migratedFile(t)
}

// migrated are the bytes of a new SQLite database. They are made once a process.
var migrated struct {
	once  sync.Once
	bytes []byte
	err   error
}

// migratedFile makes a SQLite database in memory if there is room: nothing that is tested here waits for a disk.
func migratedFile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(pgtest.MemoryDir(), "carillon-sqlite-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "carillon.db")
	migrated.once.Do(func() {
		if migrated.err = migrate(t.Context(), path); migrated.err == nil {
			migrated.bytes, migrated.err = os.ReadFile(path)
		}
	})
	if err := migrated.err; err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, migrated.bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// SameLives has each property of a package begin with the same seed in each run, so that a change fails by what it does and not by chance. With EnvLives=all or
// -rapid.checks=N the lives are new ones; -rapid.seed=N is for those of a failure. TestMain calls it.
func SameLives() error {
	flag.Parse()
	if os.Getenv(EnvLives) == "all" || asked() || flag.Lookup("rapid.seed").Value.String() != "0" {
		return nil
	}
	return flag.Set("rapid.seed", "1") //nolint:wrapcheck // of the package's own test
}

// asked reports whether the command line says how many lives a property has.
func asked() bool { return flag.Lookup("rapid.checks").Value.String() != "100" } // the default

// NotUnderRace skips a test under the race detector. The test would take long there and cannot find a race; why states the
// reason. The test runs without the detector.
func NotUnderRace(t testing.TB, why string) {
	t.Helper()
	if raceDetector {
		t.Skip("not under the race detector: " + why)
	}
}

// Lives returns a function that reports whether a property, each check of which is an engine's life, was checked often enough: n times with
// EnvLives=all, which make lives sets, else a third of it, and under the race detector, which finds little in one goroutine, an eighth. With
// -rapid.checks=N, it is not before N checks.
func Lives(n int) (enough func() bool) { return lives(n, 3, 8) }

// MoreLives is Lives for a property whose lives have to see what is rare: half of them, and a fifth under the race detector.
func MoreLives(n int) (enough func() bool) { return lives(n, 2, 5) }

func lives(n, part, raced int) (enough func() bool) {
	switch {
	case raceDetector:
		n = 1 + n/raced
	case os.Getenv(EnvLives) != "all":
		n = 1 + n/part
	}
	return func() bool {
		n--
		return n < 0 && !asked()
	}
}

// shared is the one pooler of a test process, for the same reason as pgtest's server.
var shared struct {
	once   sync.Once
	pooler *pgtest.Pooler
	err    error
}

func pooled(t testing.TB, url string) string {
	t.Helper()
	shared.once.Do(func() { shared.pooler, shared.err = pgtest.Shared(t).StartPooler(context.Background(), poolSize) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	through, err := shared.pooler.Through(url)
	if err != nil {
		t.Fatal(err)
	}
	return through
}

// Memory opens a migrated store in memory.
func Memory(t testing.TB) *store.Store {
	t.Helper()
	s := Open(t, ":memory:")
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Beside runs f on a goroutine of its own and waits for it, as another process acts in the middle of a transaction.
func Beside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Open opens a store and closes it at the end of the test.
func Open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

func migrate(ctx context.Context, url string) error {
	s, err := store.Open(ctx, url, store.Options{MaxConns: 2})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx)
}

// ChangeInstance changes a stored instance past the engine.
func ChangeInstance(t testing.TB, s *store.Store, now time.Time, row instance.Row, change func(*instance.Row)) {
	t.Helper()
	err := s.Write(t.Context(), func(tx *store.Tx) error {
		old, err := tx.LockInstance(row.Workspace, row.ID)
		if err != nil {
			return err
		}
		changed := old
		change(&changed)
		return tx.UpdateInstance(now, old, changed)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Apply puts definitions in force, and nothing that follows from them. It returns the number of the set.
func Apply(ctx context.Context, s *store.Store, ws subject.WorkspaceID, now time.Time, docs ...store.Definition) (number int64, changes []store.DefinitionChange, err error) {
	err = s.Write(ctx, func(tx *store.Tx) error {
		held, err := tx.LockDefinitions(ws)
		if err != nil {
			return err
		}
		if changes, err = tx.WriteDefinitions(ws, now, held+1, store.DefinitionEdit{Documents: docs, Actor: "test", Action: "apply"}); err != nil {
			return err
		}
		number, err = tx.DefinitionsNumber(ws)
		return err
	})
	return number, changes, err
}
