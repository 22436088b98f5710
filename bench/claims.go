package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
)

// claims is the store as the stages use it. It notes how long each took to find out what is due: from the beginning of the
// transaction until the first decision about what it has found.
type claims struct {
	*store.Store
	fanout atomic.Pointer[func()] // what notes the claim of instances that began last
	mu     sync.Mutex
	found  map[string][]time.Duration
}

// What is claimed.
const (
	ofInstances  = "instances"
	ofDeliveries = "deliveries"
)

func newClaims(s *store.Store) *claims {
	return &claims{Store: s, found: map[string][]time.Duration{}}
}

// noting returns what is to be called at every decision of one claim, of which the first counts.
func (c *claims) noting(what string) func() {
	elapsed := clock.Monotonic()
	return sync.OnceFunc(func() {
		took := elapsed()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.found[what] = append(c.found[what], took)
	})
}

// take hands over what was noted.
func (c *claims) take() map[string][]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.found
	c.found = map[string][]time.Duration{}
	return found
}

// WriteHoldingDefinitions begins the claim of instances.
func (c *claims) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	note := c.noting(ofInstances)
	c.fanout.Store(&note)
	return c.Store.WriteHoldingDefinitions(ctx, work)
}

// foundInstances ends it. Steps that run beside each other are not measured.
func (c *claims) foundInstances() { (*c.fanout.Load())() }

// sending is the claim of deliveries, for the failpoints of the sender.
func (c *claims) sending() func(point string) error {
	note := func() {}
	return func(point string) error {
		switch point {
		case sender.BeforeIntent:
			note = c.noting(ofDeliveries)
		case sender.Claimed:
			note()
		}
		return nil
	}
}

// waitingRows lie a month ahead.
const waitingRows = `
INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, status, due_at, ready_at, input_hash, created_at)
SELECT w.id, n, 'reminder:invoice-due:event:' || n, 'invoice-due', 1, 1, 'reminder', 'due', 'event', n, 'pending', at, at, '', 1
FROM workspace w, generate_series(1, $1::bigint) n, LATERAL (SELECT (extract(epoch FROM now() + interval '30 days') * 1000000)::bigint + n AS at) t`

// fewWait is how many rows wait in a database with which another one is compared.
const fewWait = 10_000

// side is the product on a database of its own, where nothing is due and rows wait.
type side struct {
	*product
	url   string
	taken int // events, for ids
}

// newSide makes one. What is returned drops it, also beside an error.
func newSide(ctx context.Context, r *round, waiting int) (*side, func() error, error) {
	s, drop := &side{}, func() error { return nil }
	var err error
	if s.url, err = r.server.Create(ctx, pgtest.Template{}); err != nil {
		return nil, drop, err
	}
	drop = func() error { return r.server.Drop(context.WithoutCancel(ctx), s.url) }
	if s.product, err = newProduct(ctx, s.url); s.product != nil {
		dropAlone := drop
		drop = func() error {
			err := s.store.Close()
			if e := dropAlone(); err == nil {
				err = e
			}
			return err
		}
	}
	if err != nil {
		return nil, drop, err
	}
	if err := s.fill(ctx, dueRows*dueCycles); err != nil {
		return nil, drop, err
	}
	for _, all := range []func(context.Context, int) (time.Duration, error){s.expand, s.send} { // what filling has made due
		if _, err := all(ctx, dueRows*dueCycles); err != nil {
			return nil, drop, err
		}
	}
	if err := execute(ctx, s.url, waitingRows, waiting); err != nil {
		return nil, drop, fmt.Errorf("fill: %w", err)
	}
	return s, drop, r.calm(ctx, s.url)
}

const (
	// dueRows and dueCycles are how much is due while many rows wait, and how often.
	dueRows   = 10
	dueCycles = 200
)

// feed has as many events taken in, each of which is due at once.
func (s *side) feed(ctx context.Context, rows int) error {
	for rows > 0 {
		items := make([]ingest.Item, min(rows, ingest.MaxBatch))
		for i := range items {
			items[i] = invoice(fmt.Sprintf("more-%d", s.taken), s.taken%(dueRows*dueCycles), s.clock.Now())
			s.taken++
		}
		if err := s.take(ctx, items); err != nil {
			return err
		}
		rows -= len(items)
	}
	return nil
}

// due makes rows due, and measures how long it takes to take them up and expand them; then they are sent.
func (s *side) due(ctx context.Context, rows int) (time.Duration, error) {
	if err := s.feed(ctx, rows); err != nil {
		return 0, err
	}
	return s.step(ctx, rows)
}

// step takes up one batch of what is due, of which it knows how many rows it has.
func (s *side) step(ctx context.Context, rows int) (time.Duration, error) {
	elapsed := clock.Monotonic()
	n, err := s.fanout.Step(ctx, s.clock.Now(), batch)
	took := elapsed()
	if err == nil && n != rows {
		err = fmt.Errorf("%d of %d were taken up", n, rows)
	}
	if err != nil {
		return 0, err
	}
	sent, err := s.sender.Step(ctx, s.clock.Now(), batch)
	if err == nil && sent.Claimed != n {
		err = fmt.Errorf("%d of %d were sent", sent.Claimed, n)
	}
	return took, err
}
