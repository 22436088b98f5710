package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// watchers are the conditions of ten workflows, of which one record in a thousand meets the third.
var watchers = []string{
	"record.charging == false", "record.screen_state == false", "record.battery_level < 20",
	"record.connection_status == false || age(record.last_heartbeat_at) >= days(2)", "record.temperature > 60", "record.status == 'blocked'",
	"record.disk_free < 5.5", "record.paper_level <= 0 && record.open", "record.error_count >= %d", "record.project_id == 0 || record.owner == null",
}

// watchedBy are their definitions. The number makes them others than before, so that a run begins.
func watchedBy(number int) string {
	var text strings.Builder
	for i, when := range watchers {
		if strings.Contains(when, "%d") {
			when = fmt.Sprintf(when, 1000+number)
		}
		fmt.Fprintf(&text, "workflow: watch-%d\ntype: alert\ntriggers:\n  - id: t\n    record: kiosk\n    check: [change, 5m]\n    when: \"%s\"\n    cooldown: {length: 2h}\n"+
			"audience:\n  - to: record.owner\nchannel: memory\nmessage:\n  sms:\n    text: \"{{ record.name }}\"\n---\n", i, when)
	}
	return text.String()
}

// Records after an evaluation: their condition is false, and the next evaluation is when their heartbeat is two days old.
const kioskColumns = `INSERT INTO record (ws, id, type, ext_id, props, rev, modified_by, evaluate_at, evaluated_at, created_at, updated_at)
`

var kioskRows = `SELECT $1, n, 'kiosk', 'kiosk-' || n, '{"name":"Kiosk ' || n || '","project_id":' || (n % 90 + 1) || ',"owner":"person-0000007","site":"district-7",' ||
  '"charging":true,"screen_state":true,"battery_level":' || CASE WHEN n % 1000 = 7 THEN 10 ELSE 40 + n % 60 END ||
  ',"connection_status":true,"last_heartbeat_at":"' || CAST($4 AS text) || '","temperature":31.5,"status":"open","disk_free":120,"paper_level":3,"open":true,"error_count":' || (n % 9) ||
  ',"note":"` + note + `"}', 1, 'bench', $2, $3, $3, $3
FROM `

var kioskFill = map[string]string{
	"pgx":    kioskColumns + kioskRows + "generate_series(1, $5::bigint) AS n",
	"sqlite": kioskColumns + "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < $5)\n" + kioskRows + "series",
}

// fillKiosks makes the records.
func fillKiosks(ctx context.Context, driver, url string, ws subject.WorkspaceID, now time.Time, records int) (err error) {
	db, err := sql.Open(driver, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	beat := now.Add(-time.Hour).Truncate(time.Second)
	_, err = db.ExecContext(ctx, kioskFill[driver], int64(ws), beat.Add(48*time.Hour).UnixMicro(), now.UnixMicro(), beat.UTC().Format(time.RFC3339), records)
	return err
}

// selectKiosks is what a run reads, in one statement.
const selectKiosks = `SELECT id, ext_id, props, closed, deleted, modified_by, created_at, updated_at, evaluate_at, evaluated_at, state FROM record WHERE type = 'kiosk'`

// readKiosks is the limit: the same columns of the same rows, through the same driver.
func readKiosks(ctx context.Context, driver, url string) (rows int, took time.Duration, err error) {
	db, err := sql.Open(driver, url)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return 0, 0, err
	}
	elapsed := clock.Monotonic()
	found, err := db.QueryContext(ctx, selectKiosks)
	if err != nil {
		return 0, 0, err
	}
	defer found.Close()
	for found.Next() {
		var id, closed, deleted, created, updated, evaluateAt, evaluatedAt int64
		var ext, props, by, state string
		if err := found.Scan(&id, &ext, &props, &closed, &deleted, &by, &created, &updated, &evaluateAt, &evaluatedAt, &state); err != nil {
			return 0, 0, err
		}
		rows++
	}
	return rows, elapsed(), found.Err()
}

// scanContenders are a run over many records, and their mere reading, on both databases.
func scanContenders(s settings) []contender {
	return []contender{
		onDatabase("run over records", []string{"T10"}, func(ctx context.Context, r *round, url string) error {
			return scan(ctx, s, r, "pgx", url, scanPostgres, readPostgres)
		}),
		{"run over records on SQLite", []string{"T10"}, func(ctx context.Context, r *round) (err error) {
			dir, err := os.MkdirTemp("", "carillon-bench-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			return scan(ctx, s, r, "sqlite", filepath.Join(dir, "bench.db"), scanSQLite, readSQLite)
		}},
	}
}

// scan measures one after the other on the same rows, the reading first in odd rounds.
func scan(ctx context.Context, s settings, r *round, driver, url, ours, limit string) (err error) {
	p, err := newProduct(ctx, url)
	if p != nil {
		defer func() { err = errors.Join(err, p.store.Close()) }()
	}
	if err != nil {
		return err
	}
	if err := fillKiosks(ctx, driver, url, p.workspace.ID, p.clock.Now(), s.records); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if driver == "pgx" {
		if err := r.calm(ctx, url); err != nil {
			return err
		}
	}
	steps := []func() error{
		func() error { return p.scan(ctx, s, r, ours) },
		func() error {
			m, err := r.meter()
			if err != nil {
				return err
			}
			rows, took, err := readKiosks(ctx, driver, url)
			if err == nil && rows != s.records {
				err = fmt.Errorf("%d rows read of %d", rows, s.records)
			}
			return errors.Join(err, m.rate(limit, s.records, took))
		},
	}
	if r.n%2 == 1 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	return errors.Join(steps[0](), steps[1]())
}

// apply puts further definitions in force.
func (p *product) apply(ctx context.Context, text string) error {
	applied, err := p.engine.Apply(ctx, p.workspace, []definition.File{{Name: "more.yaml", Text: []byte(text)}}, "bench")
	if err == nil && definition.HasErrors(applied.Problems) {
		err = fmt.Errorf("definitions: %v", applied.Problems)
	}
	return err
}

// check evaluates records until none is due, and returns how many there were.
func (p *product) check(ctx context.Context) (all evaluator.Result, took time.Duration, err error) {
	c := evaluator.New(p.store, catalog.New(p.store, loader.Options{}), nil)
	elapsed := clock.Monotonic()
	for {
		step, err := c.Step(ctx, p.clock.Now(), batch)
		all.Evaluated, all.Passed = all.Evaluated+step.Evaluated, all.Passed+step.Passed
		if err != nil || step.Evaluated+step.Passed == 0 && !step.More {
			return all, elapsed(), err
		}
	}
}

// scan has a run go over the records, with what it makes of those that meet a condition.
func (p *product) scan(ctx context.Context, s settings, r *round, name string) error {
	if err := p.fill(ctx, 1000); err != nil { // the people who are notified
		return err
	}
	if err := p.apply(ctx, watchedBy(0)); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	var done evaluator.Result
	took, err := profiled(s.profile, name, func() (took time.Duration, err error) {
		done, took, err = p.check(ctx)
		return took, err
	})
	if err != nil {
		return err
	}
	runs, err := p.store.Jobs(ctx, p.workspace.ID, store.Page{})
	if err == nil && (done.Passed != s.records || done.Evaluated != s.records/1000 || len(runs) == 0 || runs[0].Status != job.Done) {
		err = fmt.Errorf("a run over %d of %d records, %d evaluated: %+v", done.Passed, s.records, done.Evaluated, runs)
	}
	return errors.Join(err, m.rate(name, s.records, took))
}

// keepRunning has one run over the records follow on another.
func (p *product) keepRunning(ctx context.Context) error {
	for n := 0; ; {
		_, open, err := p.store.OldestJob(ctx, job.Backfill)
		if err == nil && !open {
			n++
			err = p.apply(ctx, watchedBy(n))
		}
		if err == nil {
			err = p.clock.Sleep(ctx, p.clock.Now().Add(20*time.Millisecond))
		}
		if ctx.Err() != nil {
			if n == 0 {
				return errors.New("there was no run: this shows nothing")
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}
