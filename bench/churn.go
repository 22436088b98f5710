package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	// churnKeep is how long what is over stays.
	churnKeep = 2 * time.Second
	// churnWorkers do what workers of a server do, on half of them: the other half is for those who measure beside.
	churnWorkers = 2
	// churnPause is how long it runs before it is measured.
	churnPause = time.Minute
	// backlogBatches is how much is due at once when full batches are measured.
	backlogBatches = 10
	// snapshotPart is by how much shorter the snapshot is open.
	snapshotPart = 3
	// sampleCycles is how often a claim is measured in every sample; in the last one it is dueCycles.
	sampleCycles = 20
)

// churn has a steady stream of occasions planned, claimed, sent and deleted for a while, and measures claims then, beside
// those in a database that has been left alone (T9). Nothing but autovacuum cleans up. Then the same again while somebody
// holds a snapshot, as a dump does.
func churn(ctx context.Context, s settings, r *round) (err error) {
	calm, drop, err := newSide(ctx, r, fewWait)
	defer func() { err = errors.Join(err, drop()) }()
	if err != nil {
		return err
	}
	busy, drop, err := newSide(ctx, r, fewWait)
	defer func() { err = errors.Join(err, drop()) }()
	if err != nil {
		return err
	}
	c := &churned{calm: calm, busy: busy, r: r, elapsed: clock.Monotonic()}
	if err := c.sample(ctx, "", dueCycles); err != nil {
		return err
	}
	if err := c.run(ctx, s.churn); err != nil {
		return err
	}
	if err := c.sample(ctx, churnDone, dueCycles); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, busy.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, text := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM workspace"} {
		if _, err := conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	if err := c.run(ctx, s.churn/snapshotPart); err != nil {
		return err
	}
	return c.sample(ctx, churnSnapshot, dueCycles)
}

// churned are the two databases.
type churned struct {
	calm, busy *side
	r          *round
	elapsed    func() time.Duration
	cycles     atomic.Int64
	deleted    int64
}

// run lets the stream flow for a while, and samples it now and then.
func (c *churned) run(ctx context.Context, length time.Duration) error {
	elapsed := clock.Monotonic()
	for elapsed() < length {
		if err := c.flow(ctx, min(churnPause, length-elapsed())); err != nil {
			return err
		}
		if err := c.sample(ctx, "", sampleCycles); err != nil {
			return err
		}
	}
	return nil
}

// flow has the workers repeat the life of a batch until the time is over, and what is over deleted beside them.
func (c *churned) flow(ctx context.Context, length time.Duration) error {
	elapsed := clock.Monotonic()
	var feeding sync.Mutex
	life := func(ctx context.Context) error {
		feeding.Lock()
		err := c.busy.feed(ctx, batch)
		feeding.Unlock()
		if err != nil {
			return err
		}
		if _, err := c.busy.fanout.Step(ctx, c.busy.clock.Now(), batch); err != nil {
			return err
		}
		sent, err := c.busy.sender.Step(ctx, c.busy.clock.Now(), batch)
		c.cycles.Add(int64(sent.Claimed))
		return err
	}
	var over atomic.Bool
	var working, deleting sync.WaitGroup
	errs := make([]error, churnWorkers+1)
	deleting.Go(func() {
		for !over.Load() && errs[churnWorkers] == nil {
			errs[churnWorkers] = c.sweep(ctx)
		}
	})
	for w := range churnWorkers {
		working.Go(func() {
			for elapsed() < length && errs[w] == nil {
				errs[w] = life(ctx)
			}
		})
	}
	working.Wait()
	over.Store(true)
	deleting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := inParallel(ctx, func(ctx context.Context) (int, error) { // what one worker left to the other
		n, err := c.busy.fanout.Step(ctx, c.busy.clock.Now(), batch)
		if err != nil {
			return 0, err
		}
		sent, err := c.busy.sender.Step(ctx, c.busy.clock.Now(), batch)
		c.cycles.Add(int64(sent.Claimed))
		return n + sent.Claimed, err
	})
	return err
}

// sweep is one pass of retention, seen from a time when no limit reaches back to what was sent today.
func (c *churned) sweep(ctx context.Context) error {
	now := c.busy.clock.Now()
	var at store.RetainCursor
	for {
		deleted, done, err := c.busy.store.Retain(ctx, c.busy.workspace.ID, now.AddDate(1, 0, 0), store.Cutoffs{Occasions: now.Add(-churnKeep), Quiet: now}, &at, retention.DefaultBatch)
		if err != nil {
			return err
		}
		if c.deleted += deleted.Instances; done {
			return c.busy.clock.Sleep(ctx, c.busy.clock.Now().Add(time.Second))
		}
	}
}

// look measures claims of both databases in turn: of a few rows, and of full batches of a backlog. With a name these are
// figures of the table.
func (c *churned) sample(ctx context.Context, name string, times int) error {
	sides := []*side{c.calm, c.busy}
	found := map[*side]map[string][]time.Duration{}
	for _, s := range sides {
		s.claims.take() // those of before
		found[s] = map[string][]time.Duration{}
	}
	note := func(s *side, size string) {
		for what, all := range s.claims.take() {
			found[s][size+" "+what] = append(found[s][size+" "+what], all...)
		}
	}
	for k := range times {
		for i := range sides {
			s := sides[(i+k)%len(sides)]
			if _, err := s.due(ctx, dueRows); err != nil {
				return err
			}
			note(s, claimTen)
		}
	}
	if name != "" {
		for _, s := range sides {
			if err := s.feed(ctx, backlogBatches*batch); err != nil {
				return err
			}
		}
		for k := range backlogBatches {
			for i := range sides {
				s := sides[(i+k)%len(sides)]
				if _, err := s.step(ctx, batch); err != nil {
					return err
				}
				note(s, claimFull)
			}
		}
	}
	elapsed := clock.Monotonic()
	if _, err := c.busy.store.NextDue(ctx, c.busy.clock.Now()); err != nil {
		return err
	}
	next := elapsed()
	sizes, err := c.sizes(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, what := range []string{ofInstances, ofDeliveries} {
		of := claimTen + " " + what
		fmt.Fprintf(&text, "; claim of ten %s %.2f ms, in a database left alone %.2f", what, median(found[c.busy][of]), median(found[c.calm][of]))
	}
	fmt.Fprintf(c.r.progress, "churn: %s, %d cycles, %d deleted%s; next due instant known in %.2f ms; %s\n",
		c.elapsed().Round(time.Second), c.cycles.Load(), c.deleted, &text, next.Seconds()*1000, sizes)
	if name == "" {
		return nil
	}
	for _, size := range []string{claimTen, claimFull} {
		for _, what := range []string{ofInstances, ofDeliveries} {
			of := size + " " + what
			if err := errors.Join(c.r.lateness(name+" "+of, found[c.busy][of]), c.r.lateness(name+" "+of+leftAlone, found[c.calm][of])); err != nil {
				return err
			}
		}
	}
	return nil
}

// tableSizes are those that the churn meets, with their indexes by which is claimed.
const tableSizes = `
SELECT string_agg(format('%s %s MB, %s %s MB, %s dead, vacuumed %s times', t.relname, pg_relation_size(t.relid) / 1048576,
  i.indexrelname, pg_relation_size(i.indexrelid) / 1048576, t.n_dead_tup, t.autovacuum_count), '; ' ORDER BY t.relname DESC)
FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i ON i.relid = t.relid
WHERE i.indexrelname IN ('instance_due', 'delivery_due')`

func (c *churned) sizes(ctx context.Context) (text string, err error) {
	conn, err := pgx.Connect(ctx, c.busy.url)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return text, conn.QueryRow(ctx, tableSizes).Scan(&text)
}
