package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/pgtest"
)

// idleWarm is how long a side runs before its CPU time counts: it starts, and looks for work once.
const idleWarm = 2 * time.Second

// idleJobs lie a month ahead.
const idleJobs = `
INSERT INTO river_job (kind, args, max_attempts, state, scheduled_at)
SELECT 'noop', '{}', 25, 'scheduled', now() + interval '30 days' + n * interval '1 microsecond' FROM generate_series(1, $1::bigint) n`

// idle measures how much CPU time is used while rows wait and nothing is due, by the process and by the database.
// The tables are filled once; the windows of the sides alternate.
func idle(ctx context.Context, s settings, r *round, b *binary) (err error) {
	ours, err := r.server.Create(ctx, pgtest.Template{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.Drop(context.WithoutCancel(ctx), ours)) }()
	theirs, err := r.server.Create(ctx, pgtest.Template{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.Drop(context.WithoutCancel(ctx), theirs)) }()
	p, err := b.serve(ctx, ours) // makes the tables
	if err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	for _, fill := range []struct {
		url, text string
		before    func(context.Context, *pgxpool.Pool) error
	}{{ours, waitingRows, nil}, {theirs, idleJobs, migrateRiver}} {
		if err := fillIdle(ctx, r, fill.url, fill.before, fill.text, s.pending); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sides := []struct {
		name   string
		launch func() (*process, error)
	}{
		{idleOurs, func() (*process, error) { return b.serve(ctx, ours) }},
		{idleRiver, func() (*process, error) { return launch(ctx, self, "-river", theirs) }},
		{idleServer, func() (*process, error) { return nil, nil }},
	}
	window := max(s.idle/time.Duration(s.rounds), time.Second)
	for n := range s.rounds {
		r.n = n + 1
		for k := range sides {
			side := sides[(k+n)%len(sides)]
			if err := idleWindow(ctx, r, side.name, side.launch, window); err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
		}
	}
	return nil
}

func fillIdle(ctx context.Context, r *round, url string, before func(context.Context, *pgxpool.Pool) error, text string, rows int) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if before != nil {
		if err := before(ctx, pool); err != nil {
			return err
		}
	}
	if _, err := pool.Exec(ctx, text, int64(rows)); err != nil {
		return err
	}
	return r.calm(ctx, url)
}

func idleWindow(ctx context.Context, r *round, name string, launch func() (*process, error), window time.Duration) (err error) {
	p, err := launch()
	if err != nil {
		return err
	}
	pids := []int{r.postmaster}
	if p != nil {
		defer func() { err = errors.Join(err, p.stop()) }()
		pids = append(pids, p.pid)
	}
	system := &clock.System{}
	if err := system.Sleep(ctx, system.Now().Add(idleWarm)); err != nil {
		return err
	}
	used := func() (total time.Duration, err error) {
		for _, pid := range pids {
			t, e := family(pid)
			total, err = total+t, errors.Join(err, e)
		}
		return total, err
	}
	elapsed := clock.Monotonic()
	before, err := used()
	if err != nil {
		return err
	}
	if err := system.Sleep(ctx, system.Now().Add(window)); err != nil {
		return err
	}
	after, err := used()
	if err != nil {
		return err
	}
	r.record(name, 100*(after-before).Seconds()/elapsed().Seconds())
	return nil
}
