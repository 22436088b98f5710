package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/subject"
)

// limited are the workspace's limits on people, beside those definitions that have none.
const limited = `
workspace: default
base_url: https://example.org
timezone: Europe/Berlin
cadence:
  max_per_day: 5
  max_per_week: 20
  max_per_month: 60
  cooldown: 1m
`

// burst is a workflow whose messages are put off for a week at most.
const burst = `
workflow: burst
type: reminder
triggers:
  - id: due
    event: burst
    dedup: [id]
timing:
  expire_after: 7d
audience:
  - to: event.recipient
channel: memory
message:
  sms:
    text: "{{ event.n }}"
`

// olderSlots gives every second person four messages of the last weeks.
const olderSlots = `
INSERT INTO past_slot (ws, contact_id, slot, type, channel, delivery_id)
SELECT p.ws, p.id, $1 - d.days * 86400000000, 'reminder', 'memory:default', -d.days
FROM contact AS p, (VALUES (2), (5), (9), (20)) AS d(days)
WHERE p.id / 1024 % 2 = 0`

func limitsContenders(s settings) []contender {
	contended := func(name, more string) contender {
		return onDatabase(name, []string{"T3"}, func(ctx context.Context, r *round, url string) error {
			return contention(ctx, r, url, name, more)
		})
	}
	return []contender{
		onDatabase("Carillon with limits", []string{"T3"}, func(ctx context.Context, r *round, url string) error {
			return expandLimited(ctx, s, r, url)
		}),
		contended(oneLimited, limited), contended(oneFree, ""),
	}
}

// expandLimited is the expansion of T3 where every person has limits, and every second one older messages.
func expandLimited(ctx context.Context, s settings, r *round, url string) (err error) {
	p, err := newProduct(ctx, url)
	if p != nil {
		defer func() { err = errors.Join(err, p.store.Close()) }()
	}
	if err != nil {
		return err
	}
	if err := p.apply(ctx, limited); err != nil {
		return err
	}
	if err := p.fill(ctx, s.rows); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := execute(ctx, url, olderSlots, p.clock.Now().UnixMicro()); err != nil {
		return fmt.Errorf("older slots: %w", err)
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	took, err := profiled(s.profile, expandLimits, func() (time.Duration, error) { return p.expand(ctx, s.rows) })
	return errors.Join(err, m.rate(expandLimits, s.rows, took))
}

func execute(ctx context.Context, url, text string, args ...any) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, text, args...)
	return err
}

// Eight callers post ten thousand events for one person, ten a request.
const (
	oneEvents, onePosts, oneCallers = 10_000, 1_000, 8
	// oneMost is how many of them the limits leave room for: five a day for a week, and the days that it begins and ends with.
	oneMost = 5 * 9
)

// contention has all events meet one person. It measures until each is planned, or has ended because it would wait too long.
func contention(ctx context.Context, r *round, url, name, more string) (err error) {
	p, err := newProduct(ctx, url)
	if p != nil {
		defer func() { err = errors.Join(err, p.store.Close()) }()
	}
	if err != nil {
		return err
	}
	if err := p.apply(ctx, burst+"---\n"+more); err != nil {
		return err
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var next int
	var answered []time.Duration
	var running sync.WaitGroup
	errs := make([]error, oneCallers)
	elapsed := clock.Monotonic()
	for k := range oneCallers {
		running.Go(func() {
			for errs[k] == nil {
				mu.Lock()
				n := next
				next++
				mu.Unlock()
				if n >= onePosts {
					return
				}
				took := clock.Monotonic()
				errs[k] = p.post(ctx, n)
				mu.Lock()
				answered = append(answered, took())
				mu.Unlock()
			}
		})
	}
	running.Wait()
	_, err = inParallel(ctx, func(ctx context.Context) (int, error) { return p.fanout.Step(ctx, p.clock.Now(), batch) })
	took := elapsed()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	counts, err := p.store.Counts(ctx, p.workspace.ID)
	if err != nil {
		return err
	}
	total, waiting := int64(0), counts.DeliveriesByStatus["scheduled"]
	for _, n := range counts.DeliveriesByStatus {
		total += n
	}
	if total != oneEvents || more != "" && (waiting == 0 || waiting > oneMost) || more == "" && waiting != oneEvents {
		return fmt.Errorf("of %d events: %+v", oneEvents, counts)
	}
	return errors.Join(m.rate(name, oneEvents, took), r.lateness(name, answered))
}

// post is one request.
func (p *product) post(ctx context.Context, n int) error {
	items := make([]ingest.Item, oneEvents/onePosts)
	for i := range items {
		items[i] = ingest.Accept(subject.Event{
			ExtID: fmt.Sprintf("burst-%d-%d", n, i), Kind: "burst", Payload: map[string]any{"n": "1"},
			Recipient: &subject.Recipient{Address: "one@example.org", CustomerRef: "one"},
		}, p.clock.Now())
	}
	results, err := p.engine.Ingest(ctx, p.workspace, items)
	for _, result := range results {
		if err == nil && result.Outcome != ingest.Created {
			err = fmt.Errorf("event was %s: %s", result.Outcome, result.Reason)
		}
	}
	return err
}
