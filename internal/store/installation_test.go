package store_test

import (
	"context"
	"database/sql"
	"errors"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// recognised opens a database as a process does at its start, and closes it.
func recognised(t *testing.T, url string, now time.Time) store.Copied {
	t.Helper()
	s := opened(t, url)
	c, err := s.Recognise(t.Context(), now)
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return c
}

func opened(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sh(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func signIn(t *testing.T, s *store.Store, now time.Time) {
	t.Helper()
	in := store.SignIn{Workspace: 1, Hash: "token", KeyHash: "key", CreatedAt: now, ExpiresAt: now.Add(12 * time.Hour)}
	if err := s.CreateSignIn(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// Every way to copy a SQLite database is recognised, and the database counts as a copy until it is accepted.
func TestCopiesOfAFile(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	const epoch = "-epoch"
	for name, test := range map[string]struct {
		copy func(t *testing.T, from, to string) string // returns what is then opened
		why  string                                     // empty: it is no copy
	}{
		"itself": {func(_ *testing.T, from, _ string) string { return from }, ""},
		"by another name of its folder": {func(t *testing.T, from, to string) string {
			t.Helper()
			if err := os.Symlink(filepath.Dir(from), to); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(to, filepath.Base(from))
		}, ""},
		"the file alone": {func(t *testing.T, from, to string) string { t.Helper(); sh(t, from, to); return to }, "is not with it"},
		"the folder": {func(t *testing.T, from, to string) string {
			t.Helper()
			sh(t, from, to)
			sh(t, from+epoch, to+epoch)
			return to
		}, "it was copied or moved here from "},
		"a backup that is restored": {func(t *testing.T, from, to string) string {
			t.Helper()
			if err := store.Backup(t.Context(), from, to); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Restore(t.Context(), to, from, true, now); err != nil {
				t.Fatal(err)
			}
			return from
		}, "it was put in place by carillon restore"},
		"a backup put in its place by hand": {func(t *testing.T, from, to string) string {
			t.Helper()
			if err := store.Backup(t.Context(), from, to); err != nil {
				t.Fatal(err)
			}
			recognised(t, from, now.Add(time.Minute)) // the original stayed in use
			if err := errors.Join(os.Remove(from), os.Rename(to, from)); err != nil {
				t.Fatal(err)
			}
			return from
		}, "it is older than the one that was in use here"},
		"another machine": {func(t *testing.T, from, _ string) string {
			t.Helper()
			text, err := os.ReadFile(from + epoch)
			if err == nil {
				err = os.WriteFile(from+epoch, []byte(strings.Replace(string(text), "}", `,"machine":"another"}`, 1)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.ReadFile("/etc/machine-id"); err != nil {
				t.Skip("this machine has no id")
			}
			return from
		}, "it was copied or moved here from another machine"},
		"a new database where a former one was": {func(t *testing.T, from, _ string) string {
			t.Helper()
			if err := errors.Join(os.Remove(from), os.Remove(from+epoch)); err != nil {
				t.Fatal(err)
			}
			return from
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := filepath.Join(t.TempDir(), "carillon.db")
			s := opened(t, from)
			setup(t, s).event("e")
			signIn(t, s, now)
			for n := range 2 {
				if c, err := s.Recognise(t.Context(), now.Add(time.Duration(n)*time.Second)); err != nil || c.Restored() {
					t.Fatalf("before it is copied: %+v, %v", c, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			url := test.copy(t, from, filepath.Join(t.TempDir(), "copy.db"))
			for n := range 2 { // a second start changes nothing
				c := recognised(t, url, now.Add(time.Hour+time.Duration(n)*time.Minute))
				if c.Restored() != (test.why != "") || !strings.Contains(c.Why, test.why) {
					t.Fatalf("start %d: %+v", n, c)
				}
			}
			s = opened(t, url)
			_, signedIn, err := s.SignInByHash(t.Context(), "token")
			if want := test.why == "" && !strings.HasPrefix(name, "a new database"); signedIn != want || err != nil {
				t.Errorf("a session of the console: %v, want %v, %v", signedIn, want, err)
			}
			err = s.AcceptRestore(t.Context(), now.Add(2*time.Hour), true, store.Audit{Actor: "a", Action: "database.accept"})
			if err = errors.Join(err, s.Close()); errors.Is(err, store.ErrNotRestored) != (test.why == "") {
				t.Fatal(err)
			}
			s = opened(t, url)
			c, err := s.Recognise(t.Context(), now.Add(3*time.Hour))
			if err != nil || c.Restored() || s.Restored() {
				t.Errorf("after it was accepted: %+v, %v", c, err)
			}
			if given := s.GivenUpUntil(); test.why != "" && !given.Equal(now.Add(2*time.Hour)) || test.why == "" && !given.IsZero() {
				t.Errorf("given up until %s", given)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// On PostgreSQL a database that was made from another one is a copy, and so is one that goes back to an earlier state while a
// process runs.
func TestCopiesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("another database is selected")
	}
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	clone := pgtest.NewFrom(t, pgtest.Template{Version: "a copy of " + store.Fingerprint(), Prepare: func(ctx context.Context, url string) error {
		s, err := store.Open(ctx, url, store.Options{})
		if err != nil {
			return err
		}
		if err = s.Migrate(ctx); err == nil {
			_, err = s.Recognise(ctx, now)
		}
		if err == nil {
			err = s.CreateSignIn(ctx, store.SignIn{Workspace: 1, Hash: "token", KeyHash: "key", CreatedAt: now, ExpiresAt: now.Add(12 * time.Hour)})
		}
		return errors.Join(err, s.Close())
	}})
	if c := recognised(t, clone, now.Add(time.Hour)); !strings.Contains(c.Why, "created again") || !c.AliveAt.Equal(now) {
		t.Errorf("a clone: %+v", c)
	}
	s := opened(t, clone)
	defer s.Close()
	if _, ok, err := s.SignInByHash(t.Context(), "token"); ok || err != nil {
		t.Errorf("a session of the console is in force in the clone, %v", err)
	}
	if err := s.AcceptRestore(t.Context(), now.Add(time.Hour), false, store.Audit{Actor: "a"}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // other processes, and this one
		if c := recognised(t, clone, now.Add(2*time.Hour)); c.Restored() {
			t.Fatalf("after it was accepted: %+v", c)
		}
		if c, err := s.Recognise(t.Context(), now.Add(2*time.Hour)); err != nil || c.Restored() {
			t.Fatalf("after it was accepted: %+v, %v", c, err)
		}
	}
	db, err := sql.Open("pgx", clone)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "UPDATE installation SET epoch = epoch - 1"); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Recognise(t.Context(), now.Add(3*time.Hour)); err != nil || !strings.Contains(c.Why, "gone back") {
		t.Errorf("one that has gone back: %+v, %v", c, err)
	}
}

// A process starts even if its role may not read the server's identity. A database does not become a copy when the role gets or
// loses that right.
func TestARoleThatMayNotKnowTheServer(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("another database is selected")
	}
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	url := storetest.URL(t, "postgres")
	if err := opened(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// The tests' role cannot revoke this right. Functions earlier in the search path take the place of a server that denies it.
	for _, statement := range []string{
		`CREATE SCHEMA denying`,
		`CREATE FUNCTION denying.has_function_privilege(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
		`CREATE FUNCTION denying.pg_control_system(OUT system_identifier bigint) LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege; END $$`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	as := url + "&search_path=" + neturl.QueryEscape("denying,pg_catalog,public")
	if !strings.Contains(url, "?") {
		as = strings.Replace(as, "&", "?", 1)
	}
	for n, who := range []string{as, as, url, as} {
		s, err := store.Open(t.Context(), who, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Recognise(t.Context(), now.Add(time.Duration(n)*time.Minute))
		if err = errors.Join(err, s.Close()); err != nil || c.Restored() {
			t.Fatalf("start %d: %+v, %v", n, c, err)
		}
	}
	var place string
	if err := db.QueryRowContext(t.Context(), "SELECT place FROM installation").Scan(&place); err != nil || !strings.HasPrefix(place, "/") {
		t.Errorf("the role was not denied: %q, %v", place, err)
	}
}
