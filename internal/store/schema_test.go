package store_test

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// raw opens the database of a URL beside the store.
func raw(t *testing.T, url string) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if strings.HasPrefix(url, "postgres") {
		driver = "pgx"
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func column(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBothCatalogsAreTheSame(t *testing.T) {
	t.Parallel()
	if len(storetest.EveryDatabase(t)) < 2 {
		t.Skip("one database is selected")
	}
	lite, pg := raw(t, storetest.URL(t, "sqlite")), raw(t, storetest.URL(t, "postgres"))
	columns := map[string][2]string{
		"columns": {
			`SELECT m.name || '.' || c.name || ' ' || lower(c.type) || CASE WHEN c."notnull" = 1 THEN '' ELSE ' NULL' END ||
				COALESCE(' DEFAULT ' || c.dflt_value, '')
			FROM sqlite_master m, pragma_table_info(m.name) c
			WHERE m.type = 'table' AND m.name NOT LIKE 'goose%' AND m.name NOT LIKE 'sqlite%' ORDER BY m.name, c.cid`,
			`SELECT table_name || '.' || column_name || ' ' || data_type || CASE WHEN is_nullable = 'NO' THEN '' ELSE ' NULL' END ||
				COALESCE(' DEFAULT ' || replace(replace(column_default, '''::bigint', ''), '::text', ''), '')
			FROM information_schema.columns
			WHERE table_schema = 'public' AND table_name NOT LIKE 'goose%' ORDER BY table_name COLLATE "C", ordinal_position`,
		},
		"indexes": {
			`SELECT m.name || CASE WHEN i."unique" = 1 THEN ' unique (' ELSE ' (' END ||
				(SELECT group_concat(x.name, ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno) x) || ')' ||
				COALESCE((SELECT replace(replace(substr(s.sql, instr(s.sql, ' WHERE ')), '(', ''), ')', '') FROM sqlite_master s WHERE s.name = i.name AND i.partial = 1), '')
			FROM sqlite_master m, pragma_index_list(m.name) i
			WHERE m.type = 'table' AND m.name NOT LIKE 'goose%' AND m.name NOT LIKE 'sqlite%' ORDER BY 1`,
			`SELECT x FROM (SELECT t.relname || CASE WHEN i.indisunique THEN ' unique (' ELSE ' (' END ||
				(SELECT string_agg(a.attname, ', ' ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(attnum, n)
				 JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum) || ')' ||
				COALESCE(' WHERE ' || replace(regexp_replace(translate(pg_get_expr(i.indpred, i.indrelid), '()', ''), '''(\d+)''::bigint', '\1', 'g'), '''::text', ''''), '') AS x
			FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
			WHERE t.relnamespace = 'public'::regnamespace AND t.relname NOT LIKE 'goose%') i ORDER BY x COLLATE "C"`,
		},
	}
	for what, query := range columns {
		left, right := column(t, lite, query[0]), column(t, pg, query[1])
		if len(left) == 0 {
			t.Errorf("no %s read", what)
		}
		if diff := cmp.Diff(left, right); diff != "" {
			t.Errorf("%s (-sqlite +postgres)\n%s", what, diff)
		}
		if what == "columns" {
			for _, c := range left {
				if !regexp.MustCompile(`^\w+\.\w+ (bigint|text)( DEFAULT \S+)?$`).MatchString(c) {
					t.Errorf("column %s is not bigint or text and NOT NULL", c)
				}
			}
		}
	}
	for _, c := range column(t, lite, columns["columns"][0]) {
		table, ok := strings.CutSuffix(strings.Fields(c)[0], ".delivery_id")
		if ok && table != "outbox_event" && table != "past_slot" && !slices.ContainsFunc(store.WithDelivery(), func(text string) bool { return strings.Contains(text, "DELETE FROM "+table+"\n") }) {
			t.Errorf("rows of table %s are not deleted with their delivery", table)
		}
	}
	for _, index := range column(t, lite, columns["indexes"][0]) {
		table, key, _ := strings.Cut(index, " unique ")
		rowID := key == "(instance_id, contact_id, channel, topic_id, session_turn)" || key == "(delivery_id)" // row ids are unique across workspaces
		byName := table == "instance" && key == "(key, ws)" || table == "contact" && key == "(ext_id, ws)" ||
			table == "record" && key == "(ext_id, type, ws)" || table == "throttle" && key == "(context, workflow, ws)" ||
			table == "record_link" && key == "(ext_id, type, ws, child_id)" ||
			table == "record_parent" && key == "(ext_id, type, ws, child_id, name)" ||
			table == "item" && key == "(ext_id, edition, ws)" || table == "topic" && key == "(name, ws)" || table == "topic_term" && key == "(term, ws, topic_id)" ||
			table == "matcher" && key == "(ws)"
		ofAll := slices.Contains([]string{"workspace", "node", "installation", "zone"}, table)
		if key != "" && !strings.HasPrefix(key, "(ws, ") && !byName && !ofAll && !rowID {
			t.Errorf("unique key %s does not begin with the workspace", index)
		}
	}
}

var update = flag.Bool("update", false, "write the migrations of SQLite, and the current schema")

// The parts of a migration that SQLite lacks or spells differently.
var (
	commentPostgres = regexp.MustCompile(`(?m)^-- PostgreSQL: .*\n(-- [^A-Z].*\n)*`)
	collation       = strings.NewReplacer(` COLLATE "C"`, "")
	onlyPostgres    = regexp.MustCompile(`(?m)^-- Only PostgreSQL:\n([^-\n].*\n)*`)
	onlySQLite      = regexp.MustCompile(`(?m)^-- Only SQLite: `)
	endOfTable      = regexp.MustCompile(`(?m)^\)( WITH \([^)]*\))?;( -- SQLite: with row ids.*)?$`)
)

// forSQLite returns a migration of PostgreSQL in SQLite's SQL.
func forSQLite(source string) string {
	const head = "-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.\n"
	source = onlySQLite.ReplaceAllString(onlyPostgres.ReplaceAllString(commentPostgres.ReplaceAllString(source, ""), ""), "")
	return head + endOfTable.ReplaceAllStringFunc(collation.Replace(source), func(end string) string {
		if _, why, ok := strings.Cut(end, "; "); ok {
			return "); " + why
		}
		return ") WITHOUT ROWID;"
	})
}

// TestMigrationsHaveOneSource: SQLite's migrations are made from those of PostgreSQL.
func TestMigrationsHaveOneSource(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("migrations/postgres/*.sql")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	made, err := filepath.Glob("migrations/sqlite/*.sql")
	if err != nil || !*update && len(made) != len(sources) {
		t.Errorf("%d files of %d sources, %v", len(made), len(sources), err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		current(t, filepath.Join("migrations", "sqlite", filepath.Base(source)), forSQLite(string(text)))
	}
}

// TestSchemaFileIsCurrent: schema.sql is the result of all migrations, for readers: in SQLite's SQL, without comments.
func TestSchemaFileIsCurrent(t *testing.T) {
	t.Parallel()
	if storetest.Databases(t)[0] != "sqlite" {
		t.Skip("it is written by SQLite")
	}
	texts := column(t, raw(t, storetest.URL(t, "sqlite")), `SELECT sql FROM sqlite_master WHERE sql <> '' AND tbl_name NOT LIKE 'goose%' AND tbl_name NOT LIKE 'sqlite%' ORDER BY tbl_name, type DESC, name`)
	text := "-- The schema after all migrations. Written by go test ./internal/store -run TestSchemaFileIsCurrent -update.\n\n" + strings.Join(texts, ";\n") + ";\n"
	text = regexp.MustCompile(`(?m) *--.*$`).ReplaceAllString(text[strings.Index(text, "\n"):], "")
	text = regexp.MustCompile(`\n\s*\n`).ReplaceAllString(text, "\n")
	text = regexp.MustCompile(`, (\w+) +((?:bigint|text) NOT NULL)`).ReplaceAllString(text, ",\n  $1 $2") // columns of later migrations
	current(t, "schema.sql", "-- The schema after all migrations, as SQLite has it. Written by go test ./internal/store -run TestSchemaFileIsCurrent -update."+strings.ReplaceAll(text, "\nCREATE TABLE", "\n\nCREATE TABLE"))
}

// current compares a file with the content that it should have, or writes it with -update.
func current(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s is not current, %v: -update writes it\n%s", name, err, cmp.Diff(strings.Split(string(got), "\n"), strings.Split(want, "\n")))
	}
}

// TestSchemaBeforeTheBaselineIsRefused: no release had such a schema. The error names the remedy, and nothing is changed.
func TestSchemaBeforeTheBaselineIsRefused(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		for _, before := range []int64{6, store.Baseline - 1} {
			t.Run(fmt.Sprint(database, " ", before), func(t *testing.T) {
				t.Parallel()
				url := filepath.Join(t.TempDir(), "old.db")
				if database == "postgres" {
					url = pgtest.New(t)
				}
				db := raw(t, url)
				for _, q := range []string{
					`CREATE TABLE goose_db_version (id bigint, version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp)`,
					fmt.Sprintf(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, true), (%d, true)`, before),
				} {
					if _, err := db.ExecContext(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				f := fixture{t, storetest.Open(t, url), 1}
				want := fmt.Sprintf("its schema is %d, the first one is 101: start with a new database", before)
				for what, err := range map[string]error{"migrate": f.s.Migrate(t.Context()), "pending": func() error { _, err := f.s.Pending(t.Context()); return err }()} {
					if !errors.Is(err, store.ErrSchemaBeforeBaseline) || !strings.HasSuffix(err.Error(), want) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if have, _, err := f.s.SchemaVersion(t.Context()); have != before || err != nil {
					t.Errorf("afterwards it has schema %d, %v", have, err)
				}
				if database == "sqlite" {
					_, err := store.Restore(t.Context(), url, filepath.Join(t.TempDir(), "new.db"), false, now)
					f.mustBe(err, store.ErrSchemaBeforeBaseline)
				}
			})
		}
	}
}

// TestLandedMigrationsStay: databases have run a migration that has landed, so it is never edited. Migrations.sum has the hash of each
// one; -update adds those that it lacks, and changes none.
func TestLandedMigrationsStay(t *testing.T) {
	t.Parallel()
	const list = "migrations/migrations.sum"
	listed, err := os.ReadFile(list)
	if err != nil && !*update {
		t.Fatal(err)
	}
	hashes := map[string]string{}
	for line := range strings.Lines(string(listed)) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		hashes[name] = hash
	}
	files, err := filepath.Glob("migrations/*/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, hash := strings.TrimPrefix(filepath.ToSlash(file), "migrations/"), fmt.Sprintf("%x", sha256.Sum256(text))
		switch known := hashes[name]; {
		case known == "" && *update:
			hashes[name] = hash
		case known == "":
			t.Errorf("%s is not in %s: run this test with -update when the migration is finished", name, list)
		case known != hash:
			t.Errorf("%s was changed: add another migration; only if it has not landed yet, delete its line in %s and run this test with -update", name, list)
		}
	}
	if !*update {
		if len(hashes) > len(files) {
			t.Errorf("%s has %d files, there are %d: a landed migration is never removed", list, len(hashes), len(files))
		}
		return
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		fmt.Fprintf(&text, "%s  %s\n", hashes[name], name)
	}
	current(t, list, text.String())
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			if _, err := raw(t, url).ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)`); err != nil {
				t.Fatal(err)
			}
			s := storetest.Open(t, url)
			f := fixture{TB: t, s: s}
			f.mustBe(s.Migrate(t.Context()), store.ErrNewerSchema)
			have, want, err := s.SchemaVersion(t.Context())
			if err != nil || have != 999 || want == 999 {
				t.Errorf("%d %d %v", have, want, err)
			}
		})
	}
}

func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := filepath.Join(t.TempDir(), "50% new?#.db")
			if database == "postgres" {
				url = pgtest.New(t)
			}
			stores := make([]*store.Store, 4)
			for i := range stores {
				stores[i] = storetest.Open(t, url)
				if have, _, err := stores[i].SchemaVersion(t.Context()); have != 0 || err != nil {
					t.Errorf("new: %d %v", have, err)
				}
			}
			race(t, len(stores), func(n int) error { return stores[n].Migrate(t.Context()) })
			nodes := map[int64]bool{}
			for _, s := range stores {
				if err := s.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
				nodes[s.NewID(now)&1023] = true
			}
			nodes[storetest.Open(t, url).NewID(now)&1023] = true
			if len(nodes) != len(stores)+1 {
				t.Errorf("%d processes share %d numbers", len(stores)+1, len(nodes))
			}
		})
	}
}

func TestNewID(t *testing.T) {
	t.Parallel()
	a, b := storetest.Memory(t), storetest.Memory(t)
	last := int64(0)
	for _, at := range []time.Time{now, now, now.Add(-time.Hour), now.Add(time.Second), now.Add(time.Second)} {
		id := a.NewID(at)
		if id <= last {
			t.Errorf("%d after %d", id, last)
		}
		if again := b.NewID(at); again != id {
			t.Errorf("in memory %d and %d: not the same twice", id, again)
		}
		last = id
	}
	if got := last >> 10; got != now.Add(time.Second).UnixMicro()+1 {
		t.Errorf("the time of an id is %d", got)
	}
}

func TestClockOffset(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		ours := now
		offset, err := s.ClockOffset(t.Context(), func() time.Time { ours = ours.Add(time.Second); return ours })
		if err != nil {
			t.Fatal(err)
		}
		if s.Dialect() == "sqlite" {
			if offset != 0 {
				t.Errorf("offset %s", offset)
			}
			return
		}
		theirs, err := s.Strings(t.Context(), `SELECT CAST(CAST(extract(epoch FROM clock_timestamp()) AS bigint) AS text)`)
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.ParseInt(theirs[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		want := time.Unix(seconds, 0).Sub(now.Add(1500 * time.Millisecond))
		if d := offset - want; d < -time.Minute || d > time.Minute {
			t.Errorf("offset %s, want about %s", offset, want)
		}
	})
}

// A database file holds secrets and addresses, so only its owner can read it.
func TestANewFileIsItsOwnersOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	s, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", file, info.Mode())
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		url  string
		conn int
	}{
		"no address":       {"", 0},
		"a negative pool":  {":memory:", -1},
		"not a URL":        {"postgres://[", 0},
		"no such folder":   {filepath.Join(t.TempDir(), "none", "x.db"), 0},
		"a server is gone": {"postgres://x@127.0.0.1:1/x?connect_timeout=1", 0},
	} {
		if s, err := store.Open(t.Context(), test.url, store.Options{MaxConns: test.conn}); err == nil {
			t.Errorf("%s: opened", name)
			s.Close()
		}
	}
}

// Shows: C27.
func TestDueWorkIsFoundByItsPartialIndex(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(20, nil)
		at, lease := int64(now.UnixMicro()), now.Add(time.Minute).UnixMicro()
		tests := []struct {
			name, text string
			args       []any
			index      []string
			sorts      bool // few rows, in an order that no index has
		}{
			{"deliveries of existing instances", store.ExistingDeliveries, []any{store.OneRef(1, 2)}, []string{"delivery_instance"}, true},
			{"deliveries of one instance", store.LockDeliveries, []any{int64(1), int64(2)}, []string{"delivery_instance"}, true},
			{"deliveries of one instance to a contact", store.LockDeliveriesOf, []any{int64(1), int64(2), int64(3)}, []string{"delivery_instance"}, true},
			{"claim", store.ClaimDeliveries, []any{at, int64(500), lease, at - 1, int64(1), at - 1, int64(1), at - 1, int64(1), at - 1, int64(1)}, []string{"delivery_priority", "instance_cancelled"}, false},
			{"the turn of a workspace", store.ClaimOfWorkspace, []any{at, int64(500), lease, int64(2), int64(1)}, []string{"delivery_turn", "instance_cancelled"}, false},
			{"the workspaces that have a turn", store.WorkspacesDue, []any{at, int64(2)}, []string{"delivery_turn"}, false},
			{"what is more urgent", store.MoreUrgent, []any{at, store.Rows(2, func(i int) []any { return []any{i - 1} })}, []string{"delivery_priority"}, false},
			{"people whose subscriptions a run has ended", store.ChangedByEnded, []any{int64(1), int64(1), int64(0), int64(500)}, []string{"subscription_ended_by"}, false},
			{"people whose subscriptions a run has begun", store.ChangedByStarted, []any{int64(1), int64(1), int64(0), int64(500)}, []string{"subscription_started_by"}, false},
			{"what runs have ended last", store.LastMoved, []any{int64(1)}, []string{"subscription_moved"}, false},
			{"a page of a cancelled instance", store.LockDeliveryPage, []any{int64(1), int64(2), int64(3), int64(500)}, []string{"delivery_instance"}, true},
			{"what is left to cancel", store.LeftToCancel, []any{int64(1), int64(2)}, []string{"delivery_instance"}, false},
			{"what has become of an instance", store.TallyOf, []any{int64(1), int64(100_000), store.Rows(1, func(int) []any { return []any{7} })}, []string{"delivery_instance"}, true},
			{"a page of an instance that is checked", store.RetainedPage, []any{at, at, at, int64(1), int64(2), int64(3), int64(500)}, []string{"delivery_instance", "dispatch_group"}, false},
			{"a page of an instance that is deleted", store.LockRetainedPage, []any{at, at, at, int64(1), int64(2), int64(3), int64(500)}, []string{"delivery_instance"}, true},
			{"a marked instance", store.LockMarked, []any{int64(1), int64(2)}, []string{"delivery_instance", "outbox_event_instance"}, false},
			{"expand", store.DueInstances, []any{at, int64(500), at - 1, int64(1)}, []string{"instance_due"}, false},
			{"expire", store.ExpireDeliveries, []any{at, int64(500)}, []string{"delivery_expiry"}, false},
			{"sessions to end", store.DueSessions, []any{at, int64(100)}, []string{"session_due"}, false},
			{"a list of open sessions", store.OpenSessionsOf, []any{int64(1), int64(1 << 62), "open", int64(50)}, []string{"session_"}, false},
			{"a session by one of its messages", store.SessionByDelivery, []any{int64(1), int64(1 << 62), int64(7)}, []string{"delivery_instance"}, false},
			{"the deliveries of sessions", store.LockOfSessions, []any{store.Rows(1, func(int) []any { return []any{1, 2, 3} })}, []string{"delivery_instance"}, true},
			{"what was said in a session", store.SessionMessages, []any{int64(1), int64(2), int64(3)}, []string{"delivery_instance"}, false},
			{"deliveries that are reported on", store.LockNamedDeliveries, []any{store.Rows(1, func(int) []any { return []any{1, 7} })}, nil, true},
			{"the attempts that are reported on", store.AttemptsOfReceipts, []any{store.Rows(1, func(int) []any { return []any{0, 1, 7, 1, 1, "m"} })}, nil, false},
			{"what was reported last of attempts", store.LastReceipts, []any{store.Rows(1, func(int) []any { return []any{1, 7, 1} })}, nil, false},
			{"what was reported of a delivery", store.ReceiptsQuery, []any{int64(1), int64(7), int64(100)}, nil, true},
			{"the last sessions of people", store.LastSessions, []any{onKind(1)}, []string{"session_open", "session_contact"}, true},
			{"the open sessions of people", store.OpenSessions, []any{onKind(1)}, []string{"session_"}, true},
			{"the questions of people", store.AskSessions, []any{at, asked(1)}, []string{"session_open"}, false},
			{"the questions that were not sent", store.UnaskSessions, []any{store.Rows(1, func(int) []any { return []any{1, 1, "sms", 3, "fever"} })}, []string{"session_open"}, false},
			{"the sessions of deliveries that have ended", store.EndOpenSessions, []any{store.Rows(1, func(int) []any { return []any{1, 7, "answered", 1} })}, nil, false},
			{"the sessions before", store.ReplaceSessions, []any{at, store.Rows(1, func(int) []any { return []any{1, 1, "sms", 7} })}, []string{"session_"}, false},
			{"first messages that were not sent", store.PutOffSessions, []any{store.Rows(1, func(int) []any { return []any{1, 7, "fever"} })}, nil, false},
			{"first messages that are tried again", store.BeginAgain, []any{store.Rows(1, func(int) []any { return []any{1, 7, 1, 1, 1} })}, []string{"session_"}, false},
			{"sessions that another one follows", store.PassOver, []any{at, store.Rows(1, func(int) []any { return []any{1, 7} })}, nil, false},
			{"waiting sessions that open", store.OpenWaiting, []any{store.Rows(1, func(int) []any { return []any{1, 7} })}, nil, false},
			{"the sessions of addresses", store.SessionsTo, []any{store.Rows(1, func(int) []any { return []any{1, "hash"} })}, []string{"session_address"}, true},
			{"with whom sessions are open", store.TalkingTo, []any{onKind(1)}, []string{"session_open"}, true},
			{"backlog", store.BacklogQuery, []any{at, int64(10), int64(10), int64(10)}, []string{"instance_due", "delivery_due", "delivery_delayed", "instance_delayed", "instance_held", "delivery_unknown", "digest_run_begun"}, true},
			{"next", store.NextDueQuery, []any{at, at, at, at, at, int64(1), at, at, at, at, at, at, store.NoSink()}, []string{"instance_due", "delivery_priority", "delivery_expiry", "record_evaluate", "job_open"}, false},
			{"look", store.DueRecords, []any{at, int64(500), at - 1, int64(1)}, []string{"record_evaluate"}, false},
			{"a run's page", store.RecordPage, []any{"kiosk", int64(1), int64(0), int64(500)}, []string{"record_type"}, false},
			{"members", store.MembersOfPersona, []any{"Manager", int64(1), int64(0), int64(500)}, []string{"contact_persona"}, false},
			{"everybody", store.MembersOfAll, []any{int64(1), int64(0), int64(500)}, nil, false},
			{"members in a zone", store.MembersOfPersonaIn, []any{"Manager", int64(1), int64(0), int64(500), "UTC", ""}, []string{"contact_persona"}, false},
			{"everybody in a zone", store.MembersOfAllIn, []any{int64(1), int64(0), int64(500), "UTC", ""}, nil, false},
			{"members of a group", store.MembersOfGroup, []any{"vip", int64(1), int64(0), int64(500)}, nil, false},
			{"members of a group in a zone", store.MembersOfGroupIn, []any{"vip", int64(1), int64(0), int64(500), "UTC", ""}, nil, false},
			{"members of a place", store.MembersOfPlace, []any{"ma", int64(1), int64(0), int64(500)}, []string{"contact_place"}, false},
			{"members of a place in a zone", store.MembersOfPlaceIn, []any{"ma", int64(1), int64(0), int64(500), "UTC", ""}, []string{"contact_place"}, false},
			{"few below a place", store.FewBelowPlace, []any{"ma", int64(1), int64(0), int64(500), ""}, []string{"contact_place", "place_parent"}, false},
			{"few below a place in a zone", store.FewBelowPlaceIn, []any{"ma", int64(1), int64(0), int64(500), "clinic", "UTC", ""}, []string{"contact_place", "place_parent"}, false},
			{"many below a place", store.ManyBelowPlace, []any{"ma", int64(1), int64(0), int64(500), ""}, nil, false},
			{"many below a place in a zone", store.ManyBelowPlaceIn, []any{"ma", int64(1), int64(0), int64(500), "clinic", "UTC", ""}, nil, false},
			{"places above", store.PlacesAbove, []any{store.OnePlace()}, nil, false},
			{"related places", store.RelatedPlaces, []any{store.OnePlace()}, nil, false},
			{"places below", store.PlacesBelow, []any{int64(32), store.OnePlace()}, []string{"place_parent"}, true},
			{"a page of a group", store.GroupMembers, []any{int64(1), "vip", int64(1 << 62), int64(50)}, nil, false},
			{"a run's page of contacts", store.ContactsAfter, []any{int64(1), int64(0), int64(500)}, nil, false},
			{"the rows of an occasion", store.RowsOfOccasion, []any{int64(1), "a", "b"}, nil, false},
			{"throttles", store.LockThrottles, []any{store.OneThrottle()}, nil, true},
			{"what a record has pending", store.PendingOfPlans, []any{store.OnePlan()}, []string{"instance_waiting"}, false},
			{"which dates of a course have had their messages", store.DatedOfPlans, []any{store.OnePlan("2026-10-22")}, []string{"instance_dates"}, false},
			{"what a record has ended and deliveries wait of", store.OpenOfPlans, []any{store.OnePlan()}, []string{"delivery_record"}, true},
			{"what a record has planned under a key", store.NamedOfPlans, []any{store.OneAnswer(1, "key")}, nil, true},
			{"what a record has planned", store.LockPlans, []any{store.OneRef(1, 7)}, nil, true},
			{"who is in a course", store.CourseMembersQuery, []any{store.OneCourse(3)}, nil, false},
			{"whose course it is", store.OwnCoursesQuery, []any{store.OneCourse("bob")}, []string{"course_member_own"}, false},
			{"who has a course of their own", store.OwnCoursesOfPlans, []any{store.OneCourse()}, []string{"course_member_own"}, true},
			{"the courses of a person", store.HandMembers, []any{store.Rows(1, func(int) []any { return []any{1, 3, 4} })}, []string{"course_member_contact"}, false},
			{"people of courses", store.OldMembers, []any{int64(1), int64(7), "w", "t", int64(0), int64(3), int64(500)}, nil, false},
			{"courses that are over", store.FinishedCourses, []any{at, store.OneCourse()}, []string{"instance_record"}, false},
			{"what waits after events", store.WaitingAfterEventsQuery, []any{"w", int64(1), int64(1000)}, []string{"instance_events"}, false},
			{"what waits after the events of a contact", store.WaitingOfRecipientQuery, []any{int64(1), int64(7), "w", int64(1000)}, []string{"delivery_person"}, true},
			{"what waits of a series", store.PendingOfSeries, []any{"w", "t", int64(1)}, []string{"instance_series"}, false},
			{"the last of a series", store.LastOfSeries, []any{"w", "t", int64(1), "completed"}, []string{"instance_series"}, false},
			{"the later ones of a series", store.LaterOfSeries, []any{store.OneOccasion()}, []string{"instance_series"}, false},
			{"deliveries of what is planned", store.LockPlanDeliveries, []any{store.OneRef(1, 7)}, []string{"delivery_instance"}, true},
			{"alerts of episodes", store.LockEpisodes, []any{store.OneEpisode()}, []string{"instance_record"}, true},
			{"instances of old items", store.OldItemInstances, []any{at, at, at, at}, []string{"instance_event"}, false},
			{"runs before a time", store.RunsBefore, []any{at, at, at, at}, nil, false},
			{"the messages of a few instances", store.MessagesOfInstances, []any{store.OneRef(1, 2)}, []string{"delivery_instance"}, false},
			{"a page of the messages of one instance", store.MessagesPage, []any{at, at, at, at}, []string{"delivery_instance"}, false},
			{"throttles of a workflow", store.ThrottlesOfWorkflow, []any{"", "w", int64(1), int64(50)}, []string{"throttle_workflow"}, false},
			{"throttles of a record", store.ThrottlesOfRecord, []any{"", "", int64(1), int64(50), int64(7), ""}, []string{"throttle_record"}, true},
		}
		for _, test := range tests {
			plans, err := s.Plans(t.Context(), test.text, test.args...)
			f.must(err)
			for _, text := range plans {
				for _, index := range test.index {
					if !strings.Contains(text, index) {
						t.Errorf("%s does not use %s:\n%s", test.name, index, text)
					}
				}
				sorts := strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "Sort ")
				if strings.Contains(text, "PRIMARY KEY (ws=?)") {
					t.Errorf("%s reads a whole workspace:\n%s", test.name, text)
				}
				if strings.Contains(text, "Seq Scan") || regexp.MustCompile(`SCAN (instance|delivery|record|contact|throttle|course_member|group_member|place|attempt|receipt)($|\n)`).MatchString(text) || sorts && !test.sorts {
					t.Errorf("%s reads a whole table or sorts:\n%s", test.name, text)
				}
			}
		}
	})
}

// Rows of a batch are found by their whole key, although its first column is constant in most batches.
func TestBatchesAreJoinedByTheirWholeKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for text, args := range store.Joined() {
			plans, err := s.Plans(t.Context(), text, args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, plan := range plans {
				if strings.Contains(plan, "(ws=?)") || strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "id=?") && !strings.Contains(plan, "Index Cond") {
					t.Errorf("%s\n%s", text, plan)
				}
			}
		}
	})
}

// A rowset of one row is parameters on PostgreSQL. As a join, the planner would begin at a table that was nearly empty when the
// statement was prepared, and go on to read all of it when it has grown. The age of an answer never chooses the index.
func TestOneRowIsNoJoin(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		if s.Dialect() == "sqlite" {
			t.Skip("its rows are read as JSON")
		}
		_, err := s.Exec(t.Context(), "ANALYZE idempotency")
		if err != nil {
			t.Fatal(err)
		}
		plans, err := s.Plans(t.Context(), store.SelectAnswers, now.UnixMicro(), store.OneAnswer(1, "key"))
		if err != nil {
			t.Fatal(err)
		}
		for i, plan := range plans {
			if !strings.Contains(plan, "idempotency_pkey") || i != 1 && strings.Contains(plan, "Nested Loop") {
				t.Error(plan)
			}
		}
	})
}
