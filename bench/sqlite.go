package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // registers the driver

	"github.com/carillonhq/carillon/internal/clock"
)

// onSQLite are the contenders on files, each in a folder of its own.
func onSQLite(s settings) []contender {
	on := func(name string, run func(ctx context.Context, r *round, path string) error) contender {
		return contender{name, []string{"T13"}, func(ctx context.Context, r *round) (err error) {
			dir, err := os.MkdirTemp("", "carillon-bench-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			return run(ctx, r, filepath.Join(dir, "bench.db"))
		}}
	}
	return []contender{
		on("Carillon on SQLite", func(ctx context.Context, r *round, path string) (err error) {
			p, err := newProduct(ctx, path)
			if p != nil {
				defer func() { err = errors.Join(err, p.store.Close()) }()
			}
			if err != nil {
				return err
			}
			return p.measure(ctx, s, r, "", s.sqliteRows, expandSQLite, sendSQLite)
		}),
		on("cycle on SQLite", func(ctx context.Context, r *round, path string) error {
			return limitSQLite(ctx, r, path, s.sqliteRows)
		}),
	}
}

// The same driver, durability and sizes as the store's.
const sqlitePragmas = "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(16384)" +
	"&_txlock=immediate"

const sqliteSchema = `
CREATE TABLE due (
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE,
  status INT NOT NULL DEFAULT 0,
  due_at INT NOT NULL,
  lease_until INT,
  version INT NOT NULL DEFAULT 0,
  recipient TEXT NOT NULL,
  rule TEXT NOT NULL,
  payload TEXT NOT NULL);
CREATE INDEX due_active ON due (due_at) WHERE status = 0;
CREATE TABLE delivery (
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE,
  due_id INT NOT NULL,
  status INT NOT NULL DEFAULT 0,
  next_at INT NOT NULL,
  channel TEXT NOT NULL,
  recipient TEXT NOT NULL,
  body TEXT NOT NULL);
CREATE INDEX delivery_active ON delivery (next_at) WHERE status = 0;`

const sqliteInsert = `
INSERT INTO due (key, due_at, recipient, rule, payload)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO NOTHING`

const sqliteClaim = `
UPDATE due SET status = 1, lease_until = ?1, version = version + 1
WHERE id IN (SELECT id FROM due WHERE status = 0 AND due_at <= ?2 ORDER BY due_at LIMIT ?3)
RETURNING id, version, recipient, payload`

const sqliteDeliver = `
INSERT INTO delivery (key, due_id, next_at, channel, recipient, body)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO NOTHING`

const sqliteComplete = `
UPDATE due SET status = 2, lease_until = NULL
WHERE id = ? AND version = ? AND status = 1`

// limitSQLite is the cycle of limitPostgres, row by row with prepared statements, on the one connection that may write.
func limitSQLite(ctx context.Context, r *round, path string, rows int) (err error) {
	db, err := sql.Open("sqlite", "file:"+path+sqlitePragmas)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, sqliteSchema); err != nil {
		return err
	}
	now := (&clock.System{}).Now().UnixMicro()
	for first := 0; first < rows; first += 1000 {
		err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			insert, err := tx.PrepareContext(ctx, sqliteInsert)
			if err != nil {
				return err
			}
			for i := first; i < min(first+1000, rows); i++ {
				if _, err := insert.ExecContext(ctx, rowKey(int64(i)), now-int64(rows-i), person(i)+"@example.org", "rule-17", payload); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	elapsed := clock.Monotonic()
	for done := 0; done < rows; {
		n, err := sqliteCycle(ctx, db, now)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%d rows done of %d", done, rows)
		}
		done += n
	}
	return m.rate(cycleSQLite, rows, elapsed())
}

func sqliteCycle(ctx context.Context, db *sql.DB, now int64) (int, error) {
	var ids, versions []int64
	var recipients []string
	err := inTransaction(ctx, db, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, sqliteClaim, now+time.Minute.Microseconds(), now, batch)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, version int64
			var recipient, payload string
			if err := rows.Scan(&id, &version, &recipient, &payload); err != nil {
				return err
			}
			ids, versions, recipients = append(ids, id), append(versions, version), append(recipients, recipient)
		}
		return rows.Err()
	})
	if err != nil {
		return 0, err
	}
	return len(ids), inTransaction(ctx, db, func(tx *sql.Tx) error {
		deliver, err := tx.PrepareContext(ctx, sqliteDeliver)
		if err != nil {
			return err
		}
		complete, err := tx.PrepareContext(ctx, sqliteComplete)
		if err != nil {
			return err
		}
		for i, id := range ids {
			if _, err := deliver.ExecContext(ctx, rowKey(id), id, now, "email", recipients[i], payload); err != nil {
				return err
			}
			if _, err := complete.ExecContext(ctx, id, versions[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func inTransaction(ctx context.Context, db *sql.DB, work func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
