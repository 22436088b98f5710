package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// 100 messages a second fall due, for a few seconds.
const (
	lateRows  = 500
	lateEvery = 10 * time.Millisecond
	// lateAhead is when the first falls due, and lateOffset how long before its due instant each event has happened.
	lateAhead  = 1500 * time.Millisecond
	lateOffset = time.Hour
	lateWithin = time.Minute
)

const lateDefinitions = `
workflow: later
type: reminder
triggers:
  - id: due
    event: later
timing:
  anchor: event.occurred_at
  offset: 1h
audience:
  - to: event.recipient
channel: memory
message:
  sms:
    text: "Due."
---
channel: memory:default
provider: memory
---
workspace: default
timezone: Europe/Berlin
`

func lateContenders(s settings) []contender {
	rows := []string{"T6"}
	return []contender{
		onDatabase("Carillon, lateness", []string{"T6", "T10"}, func(ctx context.Context, r *round, url string) error { return lateEngine(ctx, r, url, lateOurs, 0) }),
		onDatabase("Carillon, lateness during runs", []string{"T10"}, func(ctx context.Context, r *round, url string) error {
			return lateEngine(ctx, r, url, lateInRuns, s.records)
		}),
		onDatabase("graphile-worker", rows, func(ctx context.Context, r *round, url string) error { return graphileLate(ctx, r, url) }),
		onDatabase("timer", rows, lateTimer),
	}
}

// watching is a channel that notes how late each message came.
type watching struct {
	memory.Channel
	mu   sync.Mutex
	late []time.Duration
	all  chan struct{}
}

func (w *watching) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	now := (&clock.System{}).Now()
	var event struct {
		Due string `json:"due"`
	}
	if err := json.Unmarshal(out.Event, &event); err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	if event.Due == "" { // an alert of a record
		return w.Channel.Send(ctx, out)
	}
	due, err := strconv.ParseInt(event.Due, 10, 64)
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	w.mu.Lock()
	w.late = append(w.late, now.Sub(time.UnixMicro(due)))
	if len(w.late) == lateRows {
		close(w.all)
	}
	w.mu.Unlock()
	return w.Channel.Send(ctx, out)
}

// lateEngine is the whole engine as a server runs it; every event makes one delivery, known long before it is due. Where
// there are records, one run over all of them follows on another meanwhile.
func lateEngine(ctx context.Context, r *round, url, name string, records int) (err error) {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Migrate(ctx); err != nil {
		return err
	}
	seen := &watching{all: make(chan struct{})}
	provider := memory.Provider()
	provider.Open = func(map[string]string) (channel.Channel, error) { return seen, nil }
	system := &clock.System{}
	e, err := engine.New(engine.Config{
		Store: s, Clock: system, Providers: []channel.Provider{provider},
		Definitions: loader.Options{Providers: []definition.ProviderInfo{{Name: provider.Name}}},
	})
	if err != nil {
		return err
	}
	ws, err := s.EnsureWorkspace(ctx, "default", make([]byte, 32), system.Now())
	if err != nil {
		return err
	}
	applied, err := e.Apply(ctx, ws, []definition.File{{Name: "late.yaml", Text: []byte(lateDefinitions)}}, "bench")
	if err != nil {
		return err
	}
	if definition.HasErrors(applied.Problems) {
		return fmt.Errorf("definitions: %v", applied.Problems)
	}
	p := product{store: s, engine: e, workspace: ws, clock: system}
	if records > 0 {
		if err := fillKiosks(ctx, "pgx", url, ws.ID, system.Now(), records); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	var engineRuns sync.WaitGroup
	var runErr error
	engineRuns.Go(func() { runErr = e.Run(running) })
	var runsErr error
	if records > 0 {
		engineRuns.Go(func() { runsErr = p.keepRunning(running) })
	}
	err = errors.Join(lateEvents(ctx, e, ws, system.Now()), wait(ctx, seen.all))
	stop()
	engineRuns.Wait()
	if err = errors.Join(err, runErr, runsErr); err != nil {
		return err
	}
	return r.lateness(name, seen.late)
}

func lateEvents(ctx context.Context, e *engine.Engine, ws store.Workspace, now time.Time) error {
	items := make([]ingest.Item, lateRows)
	for i := range items {
		due := now.Add(lateAhead + time.Duration(i)*lateEvery).Truncate(time.Microsecond)
		items[i] = ingest.Accept(subject.Event{
			ExtID: fmt.Sprintf("late-%d", i), Kind: "later", OccurredAt: due.Add(-lateOffset), OccurredGiven: true,
			Payload:   map[string]any{"due": strconv.FormatInt(due.UnixMicro(), 10)},
			Recipient: &subject.Recipient{Address: person(i) + "@example.org"},
		}, now)
	}
	results, err := e.Ingest(ctx, ws, items)
	if err != nil {
		return err
	}
	for _, result := range results {
		if result.Outcome != ingest.Created {
			return fmt.Errorf("event was %s: %s", result.Outcome, result.Reason)
		}
	}
	return nil
}

func wait(ctx context.Context, all <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lateWithin, fmt.Errorf("not everything came within %s", lateWithin))
	defer cancel()
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const lateSchema = `
CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, due_at timestamptz NOT NULL, done bigint NOT NULL DEFAULT 0);
CREATE INDEX job_due ON job (due_at) WHERE done = 0`

const lateClaim = `
WITH due AS (SELECT id FROM job WHERE done = 0 AND due_at <= $1 ORDER BY due_at LIMIT 500 FOR UPDATE SKIP LOCKED)
UPDATE job SET done = 1 FROM due WHERE job.id = due.id RETURNING job.due_at`

// lateTimer is the least that a database can do: one connection sleeps until the first due instant and takes what is due.
func lateTimer(ctx context.Context, r *round, url string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, lateSchema); err != nil {
		return err
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	system := &clock.System{}
	first := system.Now().Add(lateAhead)
	due := make([]time.Time, lateRows)
	for i := range due {
		due[i] = first.Add(time.Duration(i) * lateEvery)
	}
	if _, err := conn.Exec(ctx, "INSERT INTO job (due_at) SELECT unnest($1::timestamptz[])", due); err != nil {
		return err
	}
	var late []time.Duration
	for len(late) < lateRows {
		rows, err := conn.Query(ctx, lateClaim, system.Now())
		if err != nil {
			return err
		}
		taken, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if err != nil {
			return err
		}
		now := system.Now()
		for _, at := range taken {
			late = append(late, now.Sub(at))
		}
		if len(taken) > 0 {
			continue
		}
		var next time.Time
		if err := conn.QueryRow(ctx, "SELECT min(due_at) FROM job WHERE done = 0").Scan(&next); err != nil {
			return err
		}
		if err := system.Sleep(ctx, next); err != nil {
			return err
		}
	}
	return r.lateness(lateProbe, late)
}
