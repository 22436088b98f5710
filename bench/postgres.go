package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/internal/clock"
)

// onPostgres are the contenders for the stages of the pipeline on one server.
func onPostgres(s settings) []contender {
	return []contender{
		onDatabase("Carillon", []string{"T3", "T4"}, func(ctx context.Context, r *round, url string) (err error) {
			p, err := newProduct(ctx, url)
			if p != nil {
				defer func() { err = errors.Join(err, p.store.Close()) }()
			}
			if err != nil {
				return err
			}
			return p.measure(ctx, s, r, url, s.rows, expandPostgres, sendPostgres)
		}),
		onDatabase("cycle", []string{"T3"}, func(ctx context.Context, r *round, url string) error {
			return limitPostgres(ctx, r, url, cycleSchema, cyclePostgres, s.rows, cycle)
		}),
		onDatabase("River", []string{"T4"}, func(ctx context.Context, r *round, url string) error {
			return river(ctx, r, url, s.rows)
		}),
		onDatabase("graphile-worker", []string{"T4"}, func(ctx context.Context, r *round, url string) error {
			return graphileDrain(ctx, r, url, s.rows)
		}),
		onDatabase("drain", []string{"T4"}, func(ctx context.Context, r *round, url string) error {
			return limitPostgres(ctx, r, url, drainSchema, drainPostgres, s.rows, drain)
		}),
	}
}

func settleServer(ctx context.Context, admin, url string) error {
	for _, c := range []struct{ url, do string }{{url, "VACUUM ANALYZE"}, {admin, "CHECKPOINT"}} {
		conn, err := pgx.Connect(ctx, c.url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, c.do)
		if err = errors.Join(err, conn.Close(ctx)); err != nil {
			return fmt.Errorf("%s: %w", c.do, err)
		}
	}
	return nil
}

// The limits: the least that a queue with leases does, with the plan that the engine's transactions prescribe too.
// Nothing is decided, nobody is looked up, nothing is rendered.
//
// The cycle marks what it claims in its index, like most queues; the drain leaves the index alone, so that its claim
// stays on the page.
const limitSchema = `
CREATE TABLE due (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key bytea NOT NULL UNIQUE,
  status smallint NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL,
  lease_until timestamptz,
  version int NOT NULL DEFAULT 0,
  recipient text NOT NULL,
  rule text NOT NULL,
  payload jsonb NOT NULL
);
CREATE TABLE delivery (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key bytea NOT NULL UNIQUE,
  due_id bigint NOT NULL,
  status smallint NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL,
  channel text NOT NULL,
  recipient text NOT NULL,
  body text NOT NULL);
CREATE INDEX delivery_active ON delivery (next_at) WHERE status = 0;`

const cycleSchema = limitSchema + `
CREATE INDEX due_active ON due (due_at) WHERE status = 0;`

const drainSchema = limitSchema + `
ALTER TABLE due SET (fillfactor = 70);
CREATE INDEX due_active ON due (due_at) WHERE status < 2;`

const limitInsert = `
INSERT INTO due (key, due_at, recipient, rule, payload)
SELECT * FROM unnest($1::bytea[], $2::timestamptz[], $3::text[], $4::text[], $5::jsonb[])
ON CONFLICT (key) DO NOTHING`

const cycleClaim = `
WITH c AS (
  SELECT id FROM due
  WHERE status = 0 AND due_at <= now()
  ORDER BY due_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED)
UPDATE due SET status = 1, lease_until = now() + interval '1 minute', version = due.version + 1
FROM c
WHERE due.id = c.id
RETURNING due.id, due.version, due.recipient, due.payload`

const drainClaim = `
WITH c AS (
  SELECT id FROM due
  WHERE status < 2 AND due_at <= now() AND (lease_until IS NULL OR lease_until < now())
  ORDER BY due_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED)
UPDATE due SET lease_until = now() + interval '1 minute', version = due.version + 1
FROM c
WHERE due.id = c.id
RETURNING due.id, due.version, due.recipient, due.payload`

const limitDeliver = `
INSERT INTO delivery (key, due_id, next_at, channel, recipient, body)
SELECT r.key, r.id, now(), 'email', r.recipient, $4 FROM unnest($1::bytea[], $2::bigint[], $3::text[]) AS r(key, id, recipient)
ON CONFLICT (key) DO NOTHING`

const limitComplete = `
UPDATE due SET status = 2, lease_until = NULL
FROM unnest($1::bigint[], $2::int[]) AS r(id, version)
WHERE due.id = r.id AND due.version = r.version`

// note brings a row to about 300 bytes.
var note = strings.Repeat("x", 60)

// payload is as long as that of the events of our side.
var payload = `{"event": "case.updated", "fields": {"status": "open", "owner": "u-1042", "site": "district-7", "score": 17}, "note": "` +
	note + `"}`

func rowKey(i int64) []byte {
	sum := sha256.Sum256(fmt.Append(nil, i))
	return sum[:]
}

// limitPostgres fills a table, lets the workers repeat a step, and sees that everything was done.
func limitPostgres(
	ctx context.Context, r *round, url, schema, name string, rows int,
	work func(context.Context, *pgxpool.Pool) (done int, err error),
) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = workers
	config.ConnConfig.RuntimeParams["enable_bitmapscan"] = "off"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return err
	}
	hourAgo := (&clock.System{}).Now().Add(-time.Hour)
	for first := 0; first < rows; first += 1000 {
		var keys [][]byte
		var dues []time.Time
		var recipients, rules, payloads []string
		for i := first; i < min(first+1000, rows); i++ {
			keys, dues = append(keys, rowKey(int64(i))), append(dues, hourAgo.Add(time.Duration(i)*time.Microsecond))
			recipients, rules, payloads = append(recipients, person(i)+"@example.org"), append(rules, "rule-17"), append(payloads, payload)
		}
		if _, err := pool.Exec(ctx, limitInsert, keys, dues, recipients, rules, payloads); err != nil {
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
	var done atomic.Int64
	took, err := inParallel(ctx, func(ctx context.Context) (int, error) {
		n, err := work(ctx, pool)
		done.Add(int64(n))
		return n, err
	})
	if err != nil {
		return err
	}
	if done.Load() != int64(rows) {
		return fmt.Errorf("%d rows done of %d", done.Load(), rows)
	}
	return m.rate(name, rows, took)
}

type claimed struct {
	ids        []int64
	versions   []int32
	recipients []string
}

func readClaimed(rows pgx.Rows) (c claimed, err error) {
	defer rows.Close()
	for rows.Next() {
		var id int64
		var version int32
		var recipient, payload string
		if err := rows.Scan(&id, &version, &recipient, &payload); err != nil {
			return c, err
		}
		c.ids, c.versions, c.recipients = append(c.ids, id), append(c.versions, version), append(c.recipients, recipient)
	}
	return c, rows.Err()
}

// cycle claims a batch and then, in a second transaction, inserts its deliveries and completes it.
func cycle(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	rows, err := pool.Query(ctx, cycleClaim, batch)
	if err != nil {
		return 0, err
	}
	c, err := readClaimed(rows)
	if err != nil || len(c.ids) == 0 {
		return 0, err
	}
	keys := make([][]byte, len(c.ids))
	for i, id := range c.ids {
		keys[i] = rowKey(id)
	}
	return len(c.ids), pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, limitDeliver, keys, c.ids, c.recipients, payload); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, limitComplete, c.ids, c.versions)
		return err
	})
}

// drain is the cheapest queue: completing the last batch and claiming the next is one round trip and one commit.
// A call takes the queue to its end.
func drain(ctx context.Context, pool *pgxpool.Pool) (done int, err error) {
	var c claimed
	for {
		var both pgx.Batch
		if len(c.ids) > 0 {
			both.Queue(limitComplete, c.ids, c.versions)
		}
		both.Queue(drainClaim, batch)
		answers := pool.SendBatch(ctx, &both)
		if len(c.ids) > 0 {
			if _, err := answers.Exec(); err != nil {
				return done, errors.Join(err, answers.Close())
			}
			done += len(c.ids)
		}
		rows, err := answers.Query()
		if err == nil {
			c, err = readClaimed(rows)
		}
		if err = errors.Join(err, answers.Close()); err != nil || len(c.ids) == 0 {
			return done, err
		}
	}
}
