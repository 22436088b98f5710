package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/carillonhq/carillon/internal/clock"
)

// River is tuned as far as its settings go: by default it fetches at most 1,000 jobs a second.
const (
	riverWorkers  = 2000
	riverCooldown = time.Millisecond
	riverPoll     = 10 * time.Millisecond
	riverConns    = 20
)

type noop struct {
	Rule      string `json:"rule"`
	Recipient string `json:"recipient"`
	Payload   string `json:"payload"`
}

func (noop) Kind() string { return "noop" }

// noopWorker closes done when the last job was worked.
type noopWorker struct {
	riverqueue.WorkerDefaults[noop]
	left *atomic.Int64
	done chan struct{}
}

func (w *noopWorker) Work(context.Context, *riverqueue.Job[noop]) error {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
	return nil
}

// river drains due jobs that do nothing. The time ends when the last one was worked; that River writes this down
// a little later is not held against it.
func river(ctx context.Context, r *round, url string, rows int) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = riverConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrateRiver(ctx, pool); err != nil {
		return err
	}
	w := &noopWorker{left: &atomic.Int64{}, done: make(chan struct{})}
	w.left.Store(int64(rows))
	known := riverqueue.NewWorkers()
	riverqueue.AddWorker(known, w)
	client, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{
		Workers: known, Logger: slog.New(slog.DiscardHandler), FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverWorkers}},
	})
	if err != nil {
		return err
	}
	for first := 0; first < rows; first += 5000 {
		var jobs []riverqueue.InsertManyParams
		for i := first; i < min(first+5000, rows); i++ {
			jobs = append(jobs, riverqueue.InsertManyParams{Args: noop{"rule-17", person(i) + "@example.org", payload}})
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	elapsed := clock.Monotonic()
	if err := client.Start(ctx); err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return fmt.Errorf("%d jobs are left: %w", w.left.Load(), context.Cause(ctx))
	}
	if err := m.rate(drainRiver, rows, elapsed()); err != nil {
		return err
	}
	return client.Stop(ctx)
}

// beIdleRiver runs River with its default settings on a database whose jobs all lie ahead, until ctx ends.
func beIdleRiver(ctx context.Context, url string, out io.Writer) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	known := riverqueue.NewWorkers()
	riverqueue.AddWorker(known, &noopWorker{left: &atomic.Int64{}, done: make(chan struct{})})
	client, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{
		Workers: known, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: 100}},
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "started")
	<-ctx.Done()
	return client.Stop(context.WithoutCancel(ctx))
}

// migrateRiver makes River's tables.
func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}
