package store

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// largeTables grow with what a workspace does. A statement that searches one by the workspace alone reads nearly all of it.
func largeTables() []string {
	return []string{
		"attempt", "cadence", "contact", "covered_ahead", "delivery", "digest", "dispatch", "event", "instance", "item", "outbox_event", "record", "response", "subscription", "topic", "topic_match",
	}
}

var (
	// explained are the statements whose plans were read in this process.
	explained sync.Map
	// byWorkspace is a line of SQLite's plan that searches by the workspace alone.
	byWorkspace = regexp.MustCompile(`^SEARCH (\w+) USING .*\(ws=\?\)$`)
	// counting is what a statement may read a whole table for, and paged what a list has that is read page by page.
	counting = regexp.MustCompile(`(?i)\b(COUNT|SUM|MIN|MAX) ?\(`)
	paged    = regexp.MustCompile(`\sLIMIT `)
)

// plan panics if a statement searches a large table by the workspace alone, on SQLite. It may count so, and it may read a page of a list that has the order of
// the table itself.
func (c *strict) plan(t *Tx, text string, args []any) {
	if c == nil || t.s.writer == nil {
		return
	}
	if _, known := explained.LoadOrStore(text, true); known || counting.MatchString(text) {
		return
	}
	lines, err := plansOf(t, text, args)
	if err != nil {
		return // the statement itself says what is wrong
	}
	sorts := slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "TEMP B-TREE") })
	for _, line := range lines {
		m := byWorkspace.FindStringSubmatch(line)
		if m == nil || paged.MatchString(text) && !sorts {
			continue
		}
		table := m[1]
		for _, named := range tableNamed.FindAllStringSubmatch(text, -1) {
			if named[2] == table {
				table = named[1]
				break
			}
		}
		if slices.Contains(largeTables(), table) {
			panic(fmt.Sprintf("store: a statement reads the table %s of a whole workspace:\n%s\n%s", table, text, strings.Join(lines, "\n")))
		}
	}
}

func plansOf(t *Tx, text string, args []any) (lines []string, err error) {
	rows, err := t.conn.QueryContext(t.ctx, "EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() // Next has closed them, or failed
	for rows.Next() {
		var id, parent, unused int
		var line string
		if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, rows.Err()
}
