package store_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The tests that write, race and wait for locks also pass if every transaction gets another connection.
func TestThroughAPooler(t *testing.T) {
	t.Parallel()
	if os.Getenv(storetest.EnvPooler) != "" || !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("this is it, or PostgreSQL is not selected")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const which = "^Test(Ingest|Racing|Settle|Intent|Expand|Claim|Operate|Renew|Forgotten|Deadlocks|Statements|Definitions|Workspaces|Keys|Listings)"
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+which, "-test.count=1")
	cmd.Env = append(os.Environ(), storetest.EnvPooler+"=1", storetest.EnvDatabase+"=postgres", pgtest.EnvURL+"="+pgtest.Shared(t).URL())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Several processes that start together on an empty database behind a pooler migrate it once.
func TestMigrateTogetherThroughAPooler(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	direct := pgtest.New(t)
	url, err := pgtest.Pool(t, 3).Through(direct)
	if err != nil {
		t.Fatal(err)
	}
	stores := make([]*store.Store, 3)
	for i := range stores {
		stores[i] = storetest.Open(t, url)
	}
	race(t, len(stores), func(n int) error { return stores[n].Migrate(t.Context()) })
	db := raw(t, direct)
	if twice := column(t, db, `SELECT CAST(version_id AS text) FROM goose_db_version GROUP BY version_id HAVING COUNT(*) > 1`); len(twice) > 0 {
		t.Errorf("migrated more than once: %v", twice)
	}
	if locks := column(t, db, `SELECT CAST(pid AS text) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); len(locks) > 0 {
		t.Errorf("locks were left behind by %v", locks)
	}
}

// Behind a pooler no notification arrives, and Listen returns an error; on the direct address they arrive.
func TestListenPastAPooler(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	direct := storetest.URL(t, "postgres")
	pooled, err := pgtest.Pool(t, 3).Through(direct)
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.Open(t, pooled)
	if err := s.Listen(t.Context(), func() { t.Error("ready") }, func() { t.Error("heard") }); !errors.Is(err, store.ErrPooled) {
		t.Errorf("error %v, want %v", err, store.ErrPooled)
	}
	past, err := store.Open(t.Context(), pooled, store.Options{Direct: direct})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	ctx, halt := context.WithCancel(t.Context())
	defer halt()
	err = past.Listen(ctx, func() {
		if err := past.Notify(ctx); err != nil { // its own does not count
			t.Error(err)
		}
		if err := s.Notify(ctx); err != nil {
			t.Error(err)
		}
	}, halt)
	if !errors.Is(err, context.Canceled) || t.Context().Err() != nil {
		t.Errorf("nothing heard: %v", err)
	}
}
