package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Writable returns ErrNoRoom for a SQLite file on a full disk, although Ping succeeds, and nil once there is room again.
func TestNoRoomInAFile(t *testing.T) {
	t.Parallel()
	s := opened(t, t.TempDir()+"/full.db")
	defer s.Close()
	f := setup(t, s)
	f.must(s.Writable(t.Context()))
	pages, err := s.Strings(t.Context(), "PRAGMA page_count")
	f.must(err)
	limit := func(pages string) {
		t.Helper()
		_, err := s.Strings(t.Context(), "PRAGMA max_page_count = "+pages)
		f.must(err)
	}
	limit(pages[0])
	for n := 0; err == nil; n++ { // pages that are free are room
		_, err = s.Exec(t.Context(), "INSERT INTO console_session (ws, hash, key_hash, created_at, expires_at) VALUES (9, $1, $2, 0, 0)", fmt.Sprint(n), strings.Repeat("x", 2000))
	}
	if err := s.Writable(t.Context()); !errors.Is(err, store.ErrNoRoom) {
		t.Errorf("without room: %v", err)
	}
	f.must(s.Ping(t.Context())) // it answers
	limit("4294967294")
	f.must(s.Writable(t.Context()))
	left, err := s.Strings(t.Context(), "SELECT count(*) FROM console_session WHERE ws = 0")
	f.must(err)
	if left[0] != "0" {
		t.Errorf("%s rows of probes are left", left[0])
	}
}

// A SQLite file that becomes read-only while it is open: each write is refused by its name, and nothing of it is there afterwards.
func TestFileBecomesReadOnly(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/only.db"
	s := opened(t, path)
	defer s.Close()
	f := setup(t, s)
	_, err := s.Strings(t.Context(), "PRAGMA query_only = 1") // of the writing connection
	f.must(err)
	event := f.event("late")
	write := func(tx *store.Tx) error {
		return tx.WriteOccasions(f.ws, store.OccasionWrites{Events: []store.EventRow{event}})
	}
	if err := s.Writable(t.Context()); !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), path) {
		t.Errorf("asked: %v", err)
	}
	if err := s.Write(t.Context(), write); !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), path) || !store.Unavailable(err) || errors.Is(err, store.ErrConflict) {
		t.Errorf("a write: %v", err)
	}
	events, err := s.Events(t.Context(), f.ws, store.EventFilter{}, store.Page{Limit: 10}) // it is still read
	if f.must(err); len(events) != 0 {
		t.Errorf("%d events of a refused write are there", len(events))
	}
	f.must(s.Close())
	again := opened(t, path)
	defer again.Close()
	f.must(again.Write(t.Context(), write))
}

// PostgreSQL reports whether it takes writes; one that is refused is not tried again. A transaction that failed on a full disk is remembered until one succeeds.
func TestNoRoomOnPostgreSQL(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("another database is selected")
	}
	url := storetest.URL(t, "postgres")
	s := opened(t, url)
	defer s.Close()
	f := setup(t, s)
	f.must(s.Writable(t.Context()))
	raise := func(code string) error {
		_, err := s.Exec(t.Context(), fmt.Sprintf("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '%s'; END $$", code))
		return err
	}
	if err := raise("53100"); err == nil {
		t.Fatal("nothing was raised")
	}
	if err := s.Writable(t.Context()); !errors.Is(err, store.ErrNoRoom) {
		t.Errorf("after a transaction that found no room: %v", err)
	}
	_, err := s.Exec(t.Context(), "DELETE FROM console_session")
	f.must(err)
	f.must(s.Writable(t.Context()))
	if err := raise("23505"); err == nil {
		t.Fatal("nothing was raised")
	}
	f.must(s.Writable(t.Context())) // another failure does not count
	only, err := store.Open(t.Context(), url, store.Options{MaxConns: 1})
	f.must(err)
	defer only.Close()
	_, err = only.Exec(t.Context(), "SET default_transaction_read_only = on")
	f.must(err)
	if err := only.Writable(t.Context()); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	event := f.event("late")
	write := func(tx *store.Tx) error {
		return tx.WriteOccasions(f.ws, store.OccasionWrites{Events: []store.EventRow{event}})
	}
	if err := only.Write(t.Context(), write); !errors.Is(err, store.ErrReadOnly) || !store.Unavailable(err) || errors.Is(err, store.ErrConflict) {
		t.Errorf("a write: %v", err)
	}
	_, err = only.Exec(t.Context(), "SET default_transaction_read_only = off")
	f.must(err)
	f.must(only.Write(t.Context(), write))
}
