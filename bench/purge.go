package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	purgeOurs   = "messages of old runs deleted"
	purgeBeside = "events sent meanwhile"
	purgeAlone  = "events sent alone"
)

const (
	// purgeRuns is how many daily runs are older than the messages that are kept, each with a message for everybody.
	purgeRuns = 30
	purgeKeep = 7 * 24 * time.Hour
	// purgeTraffic is how long events are sent alone.
	purgeTraffic = 30 * time.Second
	// purgePause is the pause of a server between two steps.
	purgePause = 100 * time.Millisecond
)

// purgeContenders delete the messages of old runs of digests while events come (T27).
func purgeContenders(s settings) []contender {
	return []contender{onDatabase("purge", []string{"T27"}, func(ctx context.Context, r *round, url string) error {
		return onProduct(ctx, url, func(p *product) error { return p.purge(ctx, r, url, s) })
	})}
}

func (p *product) purge(ctx context.Context, r *round, url string, s settings) error {
	people := s.people
	if err := errors.Join(p.oneRun(ctx, url, people), copyRuns(ctx, url), r.calm(ctx, url)); err != nil {
		return err
	}
	elapsed := clock.Monotonic()
	n, took, err := p.traffic(ctx, people, func() bool { return elapsed() > purgeTraffic })
	if err != nil {
		return err
	}
	r.record(purgeAlone, float64(n)/took.Seconds())
	stage := retention.New(p.store, func(context.Context, subject.WorkspaceID) (retention.Reach, error) {
		return retention.Reach{Window: digest.Reach(civil.Duration{})}, nil
	}, retention.Keep{Messages: purgeKeep}, slog.New(slog.DiscardHandler))
	var over atomic.Bool
	var deleting sync.WaitGroup
	var deleted time.Duration
	var failed error
	elapsed = clock.Monotonic()
	deleting.Go(func() {
		defer over.Store(true)
		for more := true; more && failed == nil && elapsed() < s.purge; {
			more, failed = stage.Step(ctx, p.clock.Now(), retention.DefaultBatch)
			time.Sleep(purgePause)
		}
		deleted = elapsed()
	})
	n, took, err = p.traffic(ctx, people, over.Load)
	deleting.Wait()
	left, counted := oldMessages(ctx, url)
	if err := errors.Join(err, failed, counted); err != nil {
		return err
	}
	if left > 0 && deleted < s.purge {
		return fmt.Errorf("%d messages of old runs are left", left)
	}
	r.record(purgeOurs, float64(purgeRuns*people-left)/deleted.Seconds())
	r.record(purgeBeside, float64(n)/took.Seconds())
	return nil
}

// oneRun makes a run of digests with a message for everybody, and sends them.
func (p *product) oneRun(ctx context.Context, url string, people int) error {
	if err := p.subscribers(ctx, url, "daily", people, 1); err != nil {
		return err
	}
	if err := errors.Join(p.publish(ctx, map[string]any{"id": "1", "title": "News", "topics": []string{"topic-0"}}), p.matched(ctx)); err != nil {
		return err
	}
	now := p.clock.Now()
	run := time.Date(now.Year(), now.Month(), now.Day(), 8, 30, 0, 0, time.UTC)
	for !run.Add(-time.Hour).After(now) { // its window has the item
		run = run.AddDate(0, 0, 1)
	}
	rows := fanout.New(p.claims, catalog.New(p.store, loader.Options{}), nil, nil)
	if _, err := inParallel(ctx, func(ctx context.Context) (int, error) { return rows.Step(ctx, run, batch) }); err != nil {
		return err
	}
	mails, err := p.sendingAt(run)
	if err != nil {
		return err
	}
	_, err = inParallel(ctx, func(ctx context.Context) (int, error) {
		counts, err := mails.Step(ctx, run, batch)
		return counts.Claimed, err
	})
	if n := p.accepted.Swap(0); err == nil && n != int64(people) {
		err = fmt.Errorf("%d of %d digests were sent", n, people)
	}
	return err
}

// runTables are the tables of a run, with the columns that have ids of its rows and those that have keys.
var runTables = []struct {
	name, of  string
	ids, keys []string
}{
	{"instance", "id = $4", []string{"id"}, []string{"key"}},
	{"digest_run", "instance_id = $4", []string{"instance_id"}, nil},
	{"delivery", "instance_id = $4", []string{"id", "instance_id"}, []string{"key"}},
	{"digest", "delivery_id IN (SELECT id FROM delivery WHERE instance_id = $4)", []string{"delivery_id"}, nil},
	{"attempt", "delivery_id IN (SELECT id FROM delivery WHERE instance_id = $4)", []string{"delivery_id"}, nil},
}

// copyRuns copies the run to days before the messages that are kept, each copy with ids, keys and instants of its own.
func copyRuns(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	var run int64
	if err := pool.QueryRow(ctx, "SELECT max(instance_id) FROM digest_run").Scan(&run); err != nil {
		return err
	}
	for day := range purgeRuns {
		back := purgeKeep + time.Duration(day+2)*24*time.Hour
		for _, table := range runTables {
			rows, err := pool.Query(ctx, "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1 ORDER BY ordinal_position", table.name)
			if err != nil {
				return err
			}
			var columns, values []string
			for rows.Next() {
				var column, typ string
				if err := rows.Scan(&column, &typ); err != nil {
					return err
				}
				value := column
				switch {
				case slices.Contains(table.ids, column):
					value += " - $1::bigint"
				case slices.Contains(table.keys, column):
					value += " || $2::text"
				case typ == "bigint" && strings.HasSuffix(column, "_at") || column == "slot" || column == "not_before":
					value = fmt.Sprintf("CASE WHEN %[1]s > 0 THEN %[1]s - $3::bigint ELSE %[1]s END", column)
				}
				columns, values = append(columns, column), append(values, value)
			}
			if err := rows.Err(); err != nil {
				return err
			}
			// Each statement uses all parameters, so that they have types.
			text := fmt.Sprintf("INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM %[1]s WHERE %[4]s AND ($1::bigint, $2::text, $3::bigint) IS NOT NULL",
				table.name, strings.Join(columns, ", "), strings.Join(values, ", "), table.of)
			if _, err := pool.Exec(ctx, text, back.Microseconds()<<key.NodeBits, fmt.Sprint(".", day), back.Microseconds(), run); err != nil {
				return fmt.Errorf("copy %s: %w", table.name, err)
			}
		}
	}
	return nil
}

// oldMessages counts the messages of all runs but the one that is not old.
func oldMessages(ctx context.Context, url string) (left int, err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	err = pool.QueryRow(ctx, "SELECT count(*) FROM delivery WHERE instance_id IN (SELECT instance_id FROM digest_run ORDER BY instance_id DESC OFFSET 1)").Scan(&left)
	return left, err
}

// traffic takes events in and sends their messages until it is over.
func (p *product) traffic(ctx context.Context, people int, over func() bool) (n int, took time.Duration, err error) {
	elapsed := clock.Monotonic()
	begun := p.clock.Now().UnixMicro()
	for !over() {
		items := make([]ingest.Item, batch)
		for i := range items {
			id := fmt.Sprintf("%d-%d", begun, n+i)
			items[i] = ingest.Accept(subject.Event{
				ExtID: id, Kind: "invoice-due", Payload: map[string]any{"person": fmt.Sprintf("person-%d", 1+(n+i)*stride%people), "invoice": "R-" + id, "amount": "120.50"},
			}, p.clock.Now())
		}
		if err := p.take(ctx, items); err != nil {
			return n, 0, err
		}
		for {
			expanded, err := p.fanout.Step(ctx, p.clock.Now(), batch)
			if err != nil {
				return n, 0, err
			}
			sent, err := p.sender.Step(ctx, p.clock.Now(), batch)
			if err != nil {
				return n, 0, err
			}
			if expanded+sent.Claimed == 0 {
				break
			}
		}
		n += batch
	}
	if sent := p.accepted.Swap(0); sent != int64(n) {
		return n, 0, fmt.Errorf("%d of %d events were sent", sent, n)
	}
	return n, elapsed(), nil
}
