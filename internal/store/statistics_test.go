package store_test

import (
	"path/filepath"
	"testing"

	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A database whose statistics were lost, or that somebody analyzed, has its own again after the next start, and a start that finds them writes nothing.
func TestStatisticsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, filepath.Join(t.TempDir(), "a.db"))
	lines := func() []string {
		t.Helper()
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		found, err := s.Strings(t.Context(), "SELECT tbl || ' ' || idx || ' ' || stat FROM sqlite_stat1 ORDER BY tbl, idx")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	version := func() string {
		t.Helper()
		found, err := s.Strings(t.Context(), "SELECT CAST(schema_version AS text) FROM pragma_schema_version")
		if err != nil {
			t.Fatal(err)
		}
		return found[0]
	}
	first := lines()
	if len(first) < 50 || first[0] == "" {
		t.Fatalf("%q", first)
	}
	before := version()
	if again := lines(); len(again) != len(first) || version() != before {
		t.Errorf("a second start wrote: %d lines, schema %s and then %s", len(again), before, version())
	}
	for _, text := range []string{"DELETE FROM sqlite_stat1", "DELETE FROM sqlite_stat1 WHERE tbl = 'item'", "ANALYZE workspace", "UPDATE sqlite_stat1 SET stat = '1 1 1' WHERE tbl = 'delivery'"} {
		if _, err := s.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		got := lines()
		if len(got) != len(first) {
			t.Fatalf("%s: %d lines, want %d", text, len(got), len(first))
		}
		for i := range got {
			if got[i] != first[i] {
				t.Errorf("%s: %q, want %q", text, got[i], first[i])
			}
		}
	}
}
