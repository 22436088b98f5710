package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SQLite knows nothing of the rows of a table that was never analyzed. It takes ten rows to have the same value in the first column of an index, whatever the
// column, and so prefers a search of the primary key by the workspace, which is all rows of most databases, to a search of an index by the workspace and a contact.
// So the schema comes with statistics, the same for every database: a workspace has many rows. Nothing analyzes the tables themselves, so that plans never change.
//
// PostgreSQL analyzes its tables by itself.
const (
	rowsOfWorkspace = "1000000"
	rowsOfPartial   = "10000" // of an index of a part of a table
	rowsOfMore      = "10"    // with the same values in a further column
)

// ensureStatistics writes the statistics of a SQLite database whose schema is current, unless they are those that it should have: it was just brought up to date, or
// the process that did so died before it wrote them.
func (s *Store) ensureStatistics(ctx context.Context) error {
	if s.writer == nil {
		return nil
	}
	var wanted []workspaceIndex
	current := false
	err := s.Read(ctx, func(t *Tx) (err error) {
		wanted, current, err = statisticsOf(t)
		return err
	})
	if err == nil && !current {
		err = s.writeStatistics(ctx, wanted)
	}
	if err != nil {
		return fmt.Errorf("write statistics: %w", err)
	}
	return nil
}

// statisticsOf returns the indexes that have statistics, and whether the database has them, and no others.
func statisticsOf(t *Tx) (wanted []workspaceIndex, current bool, err error) {
	if wanted, err = query(t, scanWorkspaceIndex, indexesOfWorkspaces); err != nil {
		return nil, false, err
	}
	made, err := query(t, scanInt, `SELECT COUNT(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'`)
	if err != nil || made[0] == 0 {
		return wanted, false, err
	}
	stored, err := query(t, func(rows *sql.Rows) (line string, err error) { return line, rows.Scan(&line) }, `SELECT tbl || ' ' || idx || ' ' || stat FROM sqlite_stat1`)
	if err != nil {
		return nil, false, err
	}
	lines := make([]string, len(wanted))
	for n, i := range wanted {
		lines[n] = i.table + " " + i.name + " " + i.statistics()
	}
	slices.Sort(lines)
	slices.Sort(stored)
	return wanted, slices.Equal(lines, stored), nil
}

func (s *Store) writeStatistics(ctx context.Context, wanted []workspaceIndex) (err error) {
	if err := s.writer.acquire(ctx); err != nil {
		return err
	}
	defer s.writer.release()
	if err := s.writer.drop(); err != nil {
		return err
	}
	tx, err := s.writers.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	// ANALYZE makes the table of statistics. What it finds is of no use: the tables may be empty.
	for _, text := range []string{"ANALYZE sqlite_schema", "DELETE FROM sqlite_stat1"} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	for _, i := range wanted {
		if _, err := tx.ExecContext(ctx, "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", i.table, i.name, i.statistics()); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	// This connection reads them by ANALYZE, and the others because the schema has changed.
	for _, text := range []string{"ANALYZE sqlite_schema", "CREATE TABLE statistics_changed (x)", "DROP TABLE statistics_changed"} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// workspaceIndex is an index whose first column is the workspace.
type workspaceIndex struct {
	table, name string
	columns     int
	partial     bool
}

// statistics are the numbers of rows of the index, and of those that have the same values in its first columns.
func (i workspaceIndex) statistics() string {
	rows := rowsOfWorkspace
	if i.partial {
		rows = rowsOfPartial
	}
	numbers := []string{rows, rows}
	for range i.columns - 1 {
		numbers = append(numbers, rowsOfMore)
	}
	if i.name == i.table { // the primary key
		numbers[len(numbers)-1] = "1"
	}
	// A search that skips over workspaces is not what a statement without a workspace means.
	return strings.Join(append(numbers, "noskipscan"), " ")
}

// Primary keys of tables without row ids are known by the name of their table.
const indexesOfWorkspaces = `
SELECT t.name, CASE WHEN l.origin = 'pk' THEN t.name ELSE l.name END, (SELECT COUNT(*) FROM pragma_index_info(l.name)), l.partial
FROM sqlite_schema AS t CROSS JOIN pragma_index_list(t.name) AS l
WHERE t.type = 'table' AND (SELECT c.name FROM pragma_index_info(l.name) AS c WHERE c.seqno = 0) = 'ws' AND (SELECT COUNT(*) FROM pragma_index_info(l.name)) > 1
ORDER BY t.name, l.name`

func scanWorkspaceIndex(rows *sql.Rows) (i workspaceIndex, err error) {
	return i, rows.Scan(&i.table, &i.name, &i.columns, &i.partial)
}
