package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// writeStatistics writes the statistics of a SQLite database whose schema has changed.
func (s *Store) writeStatistics(ctx context.Context) (err error) {
	tx, err := s.writers.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write statistics: %w", err), tx.Rollback())
		}
	}()
	// ANALYZE makes the table of statistics. What it finds is of no use: the tables may be empty.
	for _, text := range []string{"ANALYZE sqlite_schema", "DELETE FROM sqlite_stat1"} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	indexes, err := workspaceIndexes(ctx, tx)
	if err != nil {
		return err
	}
	for _, i := range indexes {
		if _, err := tx.ExecContext(ctx, "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", i.table, i.name, i.statistics()); err != nil {
			return err
		}
	}
	// This connection reads them by ANALYZE, and the others because the schema has changed.
	for _, text := range []string{"ANALYZE sqlite_schema", "CREATE TABLE statistics_changed (x)", "DROP TABLE statistics_changed"} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
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

func workspaceIndexes(ctx context.Context, tx *sql.Tx) (list []workspaceIndex, err error) {
	rows, err := tx.QueryContext(ctx, indexesOfWorkspaces)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var i workspaceIndex
		if err := rows.Scan(&i.table, &i.name, &i.columns, &i.partial); err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, rows.Err()
}
