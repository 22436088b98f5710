package store

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// dialect is everything in which the two databases differ, besides their migrations.
type dialect struct {
	name       string
	begin      string                                                                      // opens a writing transaction
	beginPlan  string                                                                      // the same for one that plans by the definitions in force, which no apply changes meanwhile
	lockPlans  string                                                                      // in an apply: waits for those, and has later ones wait; empty: there is one writer
	rows       func(first int, columns []columnSpec, constant columnSet, as string) string // the spelling of a rowset
	bind       func(*rowset, columnSet) []any                                              // its parameters
	byName     string                                                                      // before a column that no index shall be chosen by
	byNameText string                                                                      // behind a column of text that no index shall be chosen by
	skipLocked string                                                                      // locks rows and passes over those that others hold
	lock       string                                                                      // locks the rows of the alias that follows, in the order of ORDER BY
	retriable  func(error) bool                                                            // the transaction had no effect and may succeed when done again
	deadlock   func(error) bool                                                            // two transactions waited for each other, and this one gave way
	broken     func(error) bool                                                            // the connection is gone, or its statement: what only reads may be done again
	clock      string                                                                      // asks for the database's time in µs; empty: it has none of its own
	advisory   bool                                                                        // writers run side by side, so that keys without a row need locks of their own
	pipelines  bool                                                                        // inserts may wait for the next statement; see session.insert
	constants  bool                                                                        // constant columns of a rowset are left out of joins too. SQLite would join by them alone, and read a workspace for each row
	busy       func(error) bool                                                            // a lock was not to be had within the time that was set
}

// planLock is the key of the advisory lock between an apply and what is planned by definitions.
const planLock = "426836651120" // "carlp"

func postgres() dialect {
	// One round trip. The engine's statements are written for index lookups in the order of their rowset. On tables
	// whose statistics are older than their contents the planner prefers to read them whole (measured: 163 ms instead
	// of 4), so these transactions do without the other ways. Sorting stays on.
	begin := "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; " +
		"SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"
	return dialect{
		name:  "postgres",
		begin: begin,
		// A lock in memory: one on the workspace's row would be a write of it in every transaction. Taken before the
		// first statement that reads, which so sees what an apply that it waited for has committed.
		beginPlan: begin + "; SELECT pg_advisory_xact_lock_shared(" + planLock + ")",
		lockPlans: "SELECT pg_advisory_xact_lock(" + planLock + ")",
		rows: func(first int, columns []columnSpec, constant columnSet, as string) string {
			// In the list of a subquery they run in step; in FROM each would be stored away first (0.4 of the time).
			arrays := make([]string, len(columns))
			for i, c := range columns {
				form := "unnest($%d::%s[]) AS %s"
				if constant.has(i) {
					form = "$%d::%s AS %s"
				}
				arrays[i] = fmt.Sprintf(form, first+i, c.kind, c.name)
			}
			return fmt.Sprintf("(SELECT %s) AS %s", strings.Join(arrays, ", "), as)
		},
		bind:       (*rowset).arrays,
		byName:     "+",
		byNameText: " || ''",
		skipLocked: "FOR NO KEY UPDATE SKIP LOCKED",
		lock:       "FOR NO KEY UPDATE OF ",
		retriable: func(err error) bool {
			var e *pgconn.PgError
			if errors.As(err, &e) {
				return e.Code == "40001" || e.Code == "40P01" || outdated(e) // serialization failure, deadlock
			}
			return errors.Is(err, driver.ErrBadConn) // the statement was never sent
		},
		deadlock: func(err error) bool {
			var e *pgconn.PgError
			return errors.As(err, &e) && e.Code == "40P01"
		},
		broken: func(err error) bool {
			var network *net.OpError
			var server *pgconn.PgError
			if errors.As(err, &server) {
				return strings.HasPrefix(server.Code, "57P") || outdated(server) // the server is stopping or starting
			}
			return errors.As(err, &network) && network.Op != "dial" || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
		},
		clock:    "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
		advisory: true, pipelines: true, constants: true,
		busy: func(err error) bool {
			var e *pgconn.PgError
			return errors.As(err, &e) && e.Code == "55P03" // lock not available
		},
	}
}

// outdated reports whether a prepared statement cannot be used any more: the types of its columns have changed, or it is
// not known, as when a pooler was put before the database under a connection that stays. It is prepared anew next time.
func outdated(e *pgconn.PgError) bool {
	return e.Code == "26000" || e.Code == "0A000" && e.Routine == "RevalidateCachedQuery"
}

func sqliteDialect() dialect {
	return dialect{
		name:  "sqlite",
		begin: "BEGIN IMMEDIATE", beginPlan: "BEGIN IMMEDIATE",
		// jsonb_each, because json_each writes each row as text and every ->> parses that again (measured: 1.5 times
		// the time of an expansion).
		rows: func(first int, columns []columnSpec, constant columnSet, as string) string {
			gets := make([]string, len(columns))
			varying, next := 0, first+1
			for i, c := range columns {
				if constant.has(i) {
					gets[i] = fmt.Sprintf("$%d AS %s", next, c.name)
					next++
					continue
				}
				gets[i] = fmt.Sprintf("value->>%d AS %s", varying, c.name)
				varying++
			}
			return fmt.Sprintf("(SELECT %s FROM jsonb_each($%d)) AS %s", strings.Join(gets, ", "), first, as)
		},
		bind: func(r *rowset, constant columnSet) []any {
			return append([]any{r.json(constant)}, r.constants(constant)...)
		},
		retriable: func(err error) bool {
			var e *sqlite.Error
			return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
		},
		deadlock: func(error) bool { return false },
		broken:   func(error) bool { return false },
		busy:     func(error) bool { return false },
	}
}

// columnSpec is one column of a rowset: its name and bigint or text.
type columnSpec struct{ name, kind string }

func parseSpec(spec string) []columnSpec {
	var columns []columnSpec
	for part := range strings.SplitSeq(spec, ",") {
		name, kind, _ := strings.Cut(strings.TrimSpace(part), " ")
		columns = append(columns, columnSpec{name, strings.TrimSpace(kind)})
	}
	return columns
}

const byNameHook = "/*BY NAME*/"

var (
	rowsHook  = regexp.MustCompile(`/\*ROWS \$(\d+) \(([^)]*)\)\*/ AS (\w+)`)
	namesHook = regexp.MustCompile(`/\*NAMES (\w* ?)\(([^)]*)\)\*/`)
	lockHook  = regexp.MustCompile(`/\*(SKIP LOCKED|LOCK|LOCK NOW|SHARE) (\w+)\*/`)
	textHook  = regexp.MustCompile(`(\w)/\*BY NAME\*/`) // slow: where byNameHook is
)

// statement is a text in the spelling of one database.
type statement struct {
	text     string
	spec     []columnSpec // of its rowset
	constant columnSet    // those of its columns that are one value
}

// expand replaces the hooks of a query.
//
//	/*ROWS $3 (id bigint, key text)*/ AS r   a rowset from the parameters $3 …, which stand last; of its constant
//	                                         columns each is one value
//	/*NAMES d (id bigint, key text)*/        d.id, d.key; without the alias: id, key
//	/*SKIP LOCKED*/                          row locks that pass over what others hold
//	/*BY NAME*/b.ws                          keeps an index that begins with ws away from a look-up by name
//	b.type/*BY NAME*/                        the same with a text
//	/*LOCK c*/                               row locks on alias c
//	/*LOCK NOW c*/                           row locks on alias c that are refused where others hold one
//	/*SHARE c*/                              row locks on alias c that several hold at once, and that pass over what
//	                                         others hold alone
//	/*SKIP LOCKED c*/                        row locks on alias c that pass over what others hold
func (d dialect) expand(query string, constant columnSet) statement {
	var spec []columnSpec
	text := rowsHook.ReplaceAllStringFunc(query, func(hook string) string {
		m := rowsHook.FindStringSubmatch(hook)
		first, _ := strconv.Atoi(m[1]) // the pattern admits digits only
		spec = parseSpec(m[2])
		return d.rows(first, spec, constant, m[3])
	})
	text = namesHook.ReplaceAllStringFunc(text, func(hook string) string {
		m := namesHook.FindStringSubmatch(hook)
		alias := strings.TrimSpace(m[1])
		if alias != "" {
			alias += "."
		}
		var names []string
		for _, c := range parseSpec(m[2]) {
			names = append(names, alias+c.name)
		}
		return strings.Join(names, ", ")
	})
	text = strings.ReplaceAll(text, "/*SKIP LOCKED*/", d.skipLocked)
	if strings.Contains(text, byNameHook) { // few have it
		text = textHook.ReplaceAllString(text, "${1}"+d.byNameText)
		text = strings.ReplaceAll(text, byNameHook, d.byName)
	}
	text = lockHook.ReplaceAllStringFunc(text, func(hook string) string {
		if d.lock == "" {
			return ""
		}
		m := lockHook.FindStringSubmatch(hook)
		switch m[1] {
		case "LOCK":
			return d.lock + m[2]
		case "LOCK NOW":
			return d.lock + m[2] + " NOWAIT"
		case "SHARE":
			return "FOR SHARE OF " + m[2] + " SKIP LOCKED"
		}
		return d.lock + m[2] + " SKIP LOCKED"
	})
	return statement{text: text, spec: spec, constant: constant}
}
