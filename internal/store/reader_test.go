package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// The statements that come again are kept, a bounded number, and a query returns the same either way.
func TestReaderKeepsWhatComesAgain(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(db)
	read := func(text string, arg, want int64) {
		rows, err := r.QueryContext(t.Context(), text, arg)
		if err != nil {
			t.Error(err)
			return
		}
		defer rows.Close()
		var got int64
		if !rows.Next() || rows.Scan(&got) != nil || got != want || rows.Next() || rows.Err() != nil {
			t.Errorf("%s of %d is %d, want %d (%v)", text, arg, got, want, rows.Err())
		}
	}
	for round := range int64(3) {
		if read("SELECT $1 + 1", round, round+1); len(r.prepared) != min(int(round), 1) {
			t.Errorf("after %d queries %d statements are kept", round+1, len(r.prepared))
		}
	}
	var all sync.WaitGroup
	for g := range int64(8) {
		all.Go(func() {
			for i := range int64(maxKept + 10) {
				for range 2 {
					read(fmt.Sprintf("SELECT $1 + %d", i), g, g+i)
				}
			}
		})
	}
	all.Wait()
	if len(r.prepared) != maxKept {
		t.Errorf("%d statements are kept, want %d", len(r.prepared), maxKept)
	}
	delete(r.prepared, "SELECT $1 + 1") // room for one
	for range 3 {
		if _, err := r.QueryContext(t.Context(), "SELECT nothing"); err == nil { //nolint:rowserrcheck,sqlclosecheck // there are none
			t.Error("a wrong statement was read")
		}
	}
	if len(r.prepared) != maxKept-1 {
		t.Error("a wrong statement was kept")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// SQLite parses a statement again whenever something is bound to a limit that is a bare parameter; see dialect.limit.
func TestLimitsAreNoBareParameters(t *testing.T) {
	t.Parallel()
	const text = "SELECT id FROM delivery LIMIT $1"
	if got := sqliteDialect().expand(text, 0).text; got != "SELECT id FROM delivery LIMIT +$1" {
		t.Errorf("SQLite reads %q", got)
	}
	if got := postgres().expand(text, 0).text; got != text {
		t.Errorf("PostgreSQL reads %q", got)
	}
}
