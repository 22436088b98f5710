package store

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// dialect holds all differences between the two databases, except their migrations.
type dialect struct {
	name string
	// begin opens a writing transaction. beginPlan does so for a transaction that plans by the definitions in force: no apply
	// changes them before it ends.
	begin, beginPlan string
	// beginRead opens a transaction that only reads, all of it as of one instant.
	beginRead string
	// lockPlans, in an apply, waits for the transactions of beginPlan and makes later ones wait. Empty: there is one writer.
	lockPlans string
	// beginClaim opens a transaction that claims deliveries. awaitClaims, in a cancel, waits for those and makes later ones wait. Empty:
	// there is one writer. holdClaims has such a cancel wait for a transaction that has begun already.
	beginClaim, awaitClaims, holdClaims string
	// rows returns the SQL of a rowset, and bind its parameters.
	rows func(first int, columns []columnSpec, constant columnSet, as string) string
	bind func(*rowset, columnSet) []any
	// byName is written before a column, and byNameText after a column of text, by which no index shall be chosen.
	byName, byNameText string
	// skipLocked locks rows and passes over rows that other transactions have locked.
	skipLocked string
	// limit is written for "LIMIT $".
	limit string
	// lock locks the rows of the alias that follows, in the order of ORDER BY.
	lock string
	// retriable reports that the transaction had no effect and may succeed when it runs again.
	retriable func(error) bool
	// deadlock reports that two transactions waited for each other and that this one was ended.
	deadlock func(error) bool
	// broken reports that the connection or its prepared statement is lost. Work that only reads may run again.
	broken func(error) bool
	// busy reports that a lock was not free within the time limit.
	busy func(error) bool
	// clock asks for the database's time in µs. Empty: the database has no clock of its own.
	clock string
	// advisory: writers run in parallel, so that keys without a row need advisory locks.
	advisory bool
	// pipelines: inserts may wait for the next statement; see Tx.insert.
	pipelines bool
	// joinsByConstants: a constant column of a rowset is one parameter even if the statement joins by it. SQLite would then join
	// by these columns alone and read a whole workspace for each row.
	joinsByConstants bool
	// loneRows: all columns of a rowset with one row are parameters; see loneRow.
	loneRows bool
}

// planLock is the key of the advisory lock that an apply and the transactions of beginPlan take.
const planLock = "426836651120" // "carlp"

// claimLock is the key of the advisory lock that cancels and the transactions of beginClaim take.
const claimLock = "426836651107" // "carlc"

func postgres() dialect {
	// These settings take one round trip. The engine's statements are written for index lookups in the order of their rowset.
	// If the statistics of a table are older than its contents, the planner prefers to read the whole table (measured: 163 ms
	// instead of 4), so the other plans are switched off in these transactions. Sorting stays on.
	plans := "; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; " +
		"SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"
	begin := "BEGIN ISOLATION LEVEL READ COMMITTED" + plans
	return dialect{
		name:      "postgres",
		begin:     begin,
		beginRead: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" + plans,
		// An advisory lock is held in memory; a lock on the workspace's row would write to that row in every transaction. It
		// is taken before the first statement that reads. So that statement sees the commit of an apply that it waited for.
		beginPlan: begin + "; SELECT pg_advisory_xact_lock_shared(" + planLock + ")",
		lockPlans: "SELECT pg_advisory_xact_lock(" + planLock + ")",
		// As with beginPlan, the statements after it see the commit of a cancel that it waited for.
		beginClaim:  begin + "; SELECT pg_advisory_xact_lock_shared(" + claimLock + ")",
		awaitClaims: "SELECT pg_advisory_xact_lock(" + claimLock + ")",
		holdClaims:  "SELECT pg_advisory_xact_lock_shared(" + claimLock + ")",
		rows: func(first int, columns []columnSpec, constant columnSet, as string) string {
			// In the SELECT list, the unnest calls advance together. In FROM each result would be stored first. This form
			// takes 0.4 of the time of that one.
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
		limit:      "LIMIT $",
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
		advisory: true, pipelines: true, joinsByConstants: true, loneRows: true,
		busy: func(err error) bool {
			var e *pgconn.PgError
			return errors.As(err, &e) && e.Code == "55P03" // lock not available
		},
	}
}

// outdated reports whether a prepared statement cannot be used any more: the types of its columns have changed, or the server
// does not know it, as when a pooler was added under an open connection. The next use prepares it again.
func outdated(e *pgconn.PgError) bool {
	return e.Code == "26000" || e.Code == "0A000" && e.Routine == "RevalidateCachedQuery"
}

func sqliteDialect() dialect {
	return dialect{
		name:  "sqlite",
		begin: "BEGIN IMMEDIATE", beginPlan: "BEGIN IMMEDIATE", beginClaim: "BEGIN IMMEDIATE", beginRead: "BEGIN",
		// A prepared statement whose limit is a bare parameter is parsed and planned again whenever one is bound to it: the planner reads it.
		limit: "LIMIT +$",
		// jsonb_each is used because json_each returns each row as text, which every ->> parses again (measured: 1.5 times
		// the time of a fan-out).
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

// parseSpec reads a list of columns. A name without a kind stands for the set of columns of that name.
func parseSpec(spec string) []columnSpec {
	var columns []columnSpec
	for part := range strings.SplitSeq(spec, ",") {
		name, kind, one := strings.Cut(strings.TrimSpace(part), " ")
		if one {
			columns = append(columns, columnSpec{name, strings.TrimSpace(kind)})
		} else {
			columns = append(columns, columnSets[name]...)
		}
	}
	return columns
}

const byNameHook = "/*BY NAME*/"

var (
	rowsHook   = regexp.MustCompile(`/\*ROWS \$(\d+) \(([^)]*)\)\*/ AS (\w+)`)
	namesHook  = regexp.MustCompile(`/\*NAMES (\w* ?)\(([^)]*)\)\*/`)
	setHook    = regexp.MustCompile(`/\*SET (\w+) \(([^)]*)\)\*/`)
	lockHook   = regexp.MustCompile(`/\*(SKIP LOCKED|LOCK|LOCK NOW|SHARE) (\w+)\*/`)
	columnName = regexp.MustCompile(`\b(\w+)\.(\w+)`)
	textHook   = regexp.MustCompile(`(\w)/\*BY NAME\*/`) // slow, so it is only used where byNameHook was found
)

// statement is a query in the SQL of one database.
type statement struct {
	text     string
	spec     []columnSpec // of its rowset
	joined   columnSet    // the columns of its rowset that are named after it, as in a condition
	constant columnSet    // the columns of its rowset that are one parameter each
}

// expand replaces the hooks of a query.
//
//	/*ROWS $3 (id bigint, key text)*/ AS r   a rowset of the parameters from $3 on, which must be the last ones; each of
//	                                         its constant columns is one parameter
//	/*NAMES d (id bigint, key text)*/        d.id, d.key; without the alias: id, key
//	/*NAMES d (delivery)*/                   the columns of that table, as columnsOf has them; also in ROWS
//	/*SET r (changed_record)*/               name = r.name, … of the columns of that table
//	/*SKIP LOCKED*/                          row locks; passes over rows that other transactions have locked
//	/*BY NAME*/b.ws                          keeps an index that begins with ws from being used for a lookup by name
//	b.type/*BY NAME*/                        the same for a column of text
//	/*LOCK c*/                               row locks on alias c
//	/*LOCK NOW c*/                           row locks on alias c; fails if another transaction has locked one of the rows
//	/*SHARE c*/                              shared row locks on alias c; passes over rows that another transaction has
//	                                         locked exclusively
//	/*SKIP LOCKED c*/                        row locks on alias c; passes over rows that other transactions have locked
func (d dialect) expand(query string, constant columnSet) statement {
	var spec []columnSpec
	var joined columnSet
	text := rowsHook.ReplaceAllStringFunc(query, func(hook string) string {
		m := rowsHook.FindStringSubmatch(hook)
		first, _ := strconv.Atoi(m[1]) // the pattern admits digits only
		spec = parseSpec(m[2])
		_, after, _ := strings.Cut(query, hook)
		joined = namedIn(after, m[3], spec)
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
	text = setHook.ReplaceAllStringFunc(text, func(hook string) string {
		m := setHook.FindStringSubmatch(hook)
		var set []string
		for _, c := range parseSpec(m[2]) {
			set = append(set, c.name+" = "+m[1]+"."+c.name)
		}
		return strings.Join(set, ", ")
	})
	text = strings.ReplaceAll(text, "/*SKIP LOCKED*/", d.skipLocked)
	text = strings.ReplaceAll(text, "LIMIT $", d.limit)
	if strings.Contains(text, byNameHook) { // few queries contain it
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
	return statement{text: text, spec: spec, joined: joined, constant: constant}
}

// namedIn returns the columns of a rowset that a text names by the rowset's alias.
func namedIn(text, alias string, spec []columnSpec) (s columnSet) {
	for _, m := range columnName.FindAllStringSubmatch(text, -1) {
		if i := slices.IndexFunc(spec, func(c columnSpec) bool { return m[1] == alias && m[2] == c.name }); i >= 0 {
			s |= 1 << i
		}
	}
	return s
}
