package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

const (
	migrateOurs  = "subscriptions moved to another topic"
	migrateUndo  = "the undo of it"
	migrateProbe = "UPDATE and INSERT of subscriptions, a page after the other"
)

const (
	sameSubscriptions = `CREATE TABLE same_subscription (LIKE subscription INCLUDING ALL)`
	fillSubscriptions = `INSERT INTO same_subscription SELECT * FROM subscription WHERE topic_id = (SELECT id FROM topic WHERE name = 'topic-0')`
	// moveSubscriptions ends a page of subscriptions and begins others: what a run writes of each.
	moveSubscriptions = `
WITH page AS (
  SELECT * FROM same_subscription WHERE ended_at = 0 AND contact_id > $1 AND id > 0 ORDER BY contact_id LIMIT $2),
ended AS (
  UPDATE same_subscription AS s SET ended_at = $3, end_reason = 'bulk_migrated', ended_by = 7 FROM page AS p WHERE s.ws = p.ws AND s.id = p.id),
begun AS (
  INSERT INTO same_subscription (ws, id, contact_id, topic_id, frequency, source, since, started_at, covered_through, started_by)
  SELECT ws, -id, contact_id, topic_id + 1, frequency, 'bulk', $3, $3, 0, 7 FROM page)
SELECT coalesce(max(contact_id), 0), count(*) FROM page`
)

// subscribersContenders move all people of a topic to another one, and take it back (T26).
func subscribersContenders(s settings) []contender {
	return []contender{onDatabase("runs over subscribers", []string{"T26"}, func(ctx context.Context, r *round, url string) error {
		return onProduct(ctx, url, func(p *product) error { return p.moveAll(ctx, r, url, s.people) })
	})}
}

func (p *product) moveAll(ctx context.Context, r *round, url string, people int) error {
	if err := p.subscribers(ctx, url, "daily", people, 1); err != nil {
		return err
	}
	into, err := p.engine.Topics().Find(ctx, p.workspace, json.RawMessage(`{"match": [{"tags": {"policy": {"any": ["elsewhere"]}}}]}`), p.clock.Now(), nil)
	if err != nil {
		return err
	}
	run, err := p.runOver(ctx, r, url, migrateOurs, people, func() (job.Row, error) {
		found, err := p.engine.Subscribers().Begin(ctx, p.workspace, bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: []string{"topic-0"}, To: into.Row.Name}}, "bench", p.clock.Now(), nil)
		return found.Run, err
	})
	if err != nil {
		return err
	}
	if _, err := p.runOver(ctx, r, url, migrateUndo, people, func() (job.Row, error) {
		return p.engine.Subscribers().Undo(ctx, p.workspace, run.ID, p.clock.Now(), store.Audit{At: p.clock.Now(), Actor: "bench", Action: "undo run"})
	}); err != nil {
		return err
	}
	return moveRows(ctx, r, url, people)
}

// runOver measures a run from the request to its end.
func (p *product) runOver(ctx context.Context, r *round, url, name string, people int, begin func() (job.Row, error)) (run job.Row, err error) {
	if err := r.calm(ctx, url); err != nil {
		return run, err
	}
	m, err := r.meter()
	if err != nil {
		return run, err
	}
	elapsed := clock.Monotonic()
	if run, err = begin(); err != nil {
		return run, err
	}
	for more := true; more; {
		if _, more, err = p.engine.Subscribers().Work(ctx, p.clock.Now()); err != nil {
			return run, err
		}
	}
	took := elapsed()
	jobs, err := p.store.Jobs(ctx, p.workspace.ID, store.Page{Limit: 1})
	if err != nil {
		return run, err
	}
	if jobs[0].ID != run.ID || jobs[0].Status != job.Done || jobs[0].Changed != int64(people) {
		return run, fmt.Errorf("the run is %+v", jobs[0])
	}
	return run, m.rate(name, people, took)
}

func moveRows(ctx context.Context, r *round, url string, people int) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, sameSubscriptions)
	if err == nil {
		_, err = pool.Exec(ctx, fillSubscriptions)
	}
	if err := errors.Join(err, r.calm(ctx, url)); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	elapsed, last, all := clock.Monotonic(), int64(0), 0
	for all < people {
		n := 0
		if err := pool.QueryRow(ctx, moveSubscriptions, last, store.MemberPage, int64(1)).Scan(&last, &n); err != nil || n == 0 {
			return fmt.Errorf("%d of %d rows are moved: %w", all, people, err)
		}
		all += n
	}
	return m.rate(migrateProbe, people, elapsed())
}
