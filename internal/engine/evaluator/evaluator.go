// Package evaluator looks at records: it judges what triggers say of them, and makes an instance with its deliveries of
// what fires, if gate 1 lets it.
//
//	write, time, tick ─▶ look ─▶ fires ─▶ gate 1 (cooldown of the context) ─▶ audience ─▶ gate 2 ─▶ deliveries
//	                       └──▶ is over ─▶ whoever was told hears that it is (R9)
//
// A record is looked at when it was written, when time alone may change what is met, at the ticks of an interval while
// something is met, and when a cooldown ends; never otherwise, so that a record that is well costs nothing. Every look
// acts on what is true now, not on what was written in between (A4).
//
// Invariants:
//   - The stamp of a context, the instance, its deliveries and what the trigger remembers are written in one transaction
//     (A5): a crash leaves the record as it was, due.
//   - A context fires again no sooner than its cooldown after it fired, whichever process looks.
//   - With nobody to tell nothing is stamped (decision 8).
package evaluator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/engine/catalog"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// retryAfter is when a trigger without an interval tries again to fire what was held up by something else than a
	// cooldown: the sources' tick (A2).
	retryAfter = 5 * time.Minute
	// loads is how many definition sets are fetched before a smaller batch is tried.
	loads = 20
)

// Store is what the checker needs of the store.
type Store interface {
	Undelivered(ctx context.Context, now time.Time, limit int, decide func([]store.Undelivered) ([]store.Refund, error)) (int, error)
	EvaluateDue(ctx context.Context, now time.Time, limit int, decide store.EvaluateFuncs) (int, error)
	BackfillRun(ctx context.Context) (run store.Run, open bool, err error)
	CountRecords(ctx context.Context, ws subject.WorkspaceID, typ string) (int, error)
	RelatedRecords(ctx context.Context, more func(store.Related) []store.RelatedRef) error
	MarkChildren(ctx context.Context, now time.Time, limit int) (done int, more bool, err error)
	RecordPage(ctx context.Context, ws subject.WorkspaceID, typ string, after int64, limit int) ([]store.PageRecord, error)
	Analyze(ctx context.Context) error
	AdvanceBackfill(ctx context.Context, now time.Time, run store.Run, step store.RunStep) (moved bool, err error)
	PlansOf(ctx context.Context, wanted map[store.PlanRef][]key.Instance) (map[store.PlanRef]store.Plan, error)
	BeginRepairs(ctx context.Context, now time.Time) error
	RepairRun(ctx context.Context) (run store.Run, open bool, err error)
	AdvanceRepair(ctx context.Context, now time.Time, run store.Run, step store.RunStep, lacking []subject.RecordID, mend store.RepairFuncs) (moved bool, err error)
	NewID(now time.Time) int64
}

// Evaluator is the stage.
type Evaluator struct {
	store    Store
	catalog  *catalog.Catalog
	journal  journal.Writer
	backfill backfill
	// repairing is held by the one step of this process that is at a repair.
	repairing sync.Mutex
}

// New makes the stage.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Evaluator {
	return &Evaluator{store: s, catalog: c, journal: w}
}

// Result says what a step did.
type Result struct {
	Evaluated int  // records
	Passed    int  // records that a run went over
	More      bool // there is more than the step took
}

// Step looks at up to limit records. When there are fewer, it takes a run on that goes over all records because
// what looks at them has changed: so what was written, and what a run has marked, goes before a run.
func (c *Evaluator) Step(ctx context.Context, now time.Time, limit int) (r Result, err error) {
	returned, err := c.refundUndelivered(ctx, now, limit)
	if err != nil {
		return r, err
	}
	if r.Evaluated, err = c.evaluate(ctx, now, limit); err != nil {
		return r, err
	}
	if r.More = r.Evaluated >= limit || returned >= limit; r.More {
		return r, nil
	}
	if r.Passed, r.More, err = c.store.MarkChildren(ctx, now, mostMarks); err != nil || r.More {
		return r, err
	}
	if r.Passed, r.More, err = c.advance(ctx, now); err != nil {
		return r, fmt.Errorf("go over all records: %w", err)
	}
	if r.More {
		return r, nil
	}
	if r.Passed, r.More, err = c.repair(ctx, now); err != nil {
		return r, fmt.Errorf("go over records: %w", err)
	}
	return r, nil
}

func (c *Evaluator) evaluate(ctx context.Context, now time.Time, limit int) (int, error) {
	return c.loaded(ctx, "look at records", limit, func(limit int) (int, []journal.Entry, error) {
		r := run{Evaluator: c, now: now}
		n, err := c.store.EvaluateDue(ctx, now, limit, store.EvaluateFuncs{Relate: r.relate, Evaluate: r.evaluation, Admit: r.admit, Decide: r.decide, Floor: r.floor()})
		return n, r.entries, err
	})
}

// loaded does a step again with the definitions that it lacks, and then writes what it tells.
func (c *Evaluator) loaded(ctx context.Context, what string, limit int, step func(limit int) (int, []journal.Entry, error)) (int, error) {
	if err := c.catalog.Refresh(ctx); err != nil {
		return 0, err
	}
	for tries := 1; ; tries++ {
		n, entries, err := step(limit)
		if err == nil {
			if n == 0 {
				return 0, nil // what is told is of a try that was not committed
			}
			for _, e := range entries {
				c.journal.Write(e)
			}
			return n, nil
		}
		if loaded, loadErr := c.catalog.Load(ctx, err); loadErr != nil {
			return 0, fmt.Errorf("%s: %w", what, loadErr)
		} else if !loaded {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		if tries%loads == 0 { // each workspace has a set of its own, and fewer are kept than a batch may need
			limit = max(limit/4, 1)
		}
		if err := context.Cause(ctx); err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
	}
}
