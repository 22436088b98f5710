// Package evaluator applies triggers to records. When a trigger fires and gate 1 lets it pass, the evaluator makes an instance with its deliveries.
//
//	write, time, tick ─▶ evaluation ─▶ fires ─▶ gate 1 (cooldown of the context) ─▶ audience ─▶ gate 2 ─▶ deliveries
//	                         └───▶ condition is over ─▶ contacts who got the alert are notified (R9)
//
// A record is evaluated when it was written, when time alone may change what is met, at the ticks of an interval while something is met, and when a
// cooldown ends. At no other time: a record that needs nothing costs nothing. Every evaluation acts on the present state, not on what was written in
// between (A4).
//
// Invariants:
//   - One transaction writes the stamp of a context, the instance, its deliveries and the state of the trigger (A5). After a crash the record is due as
//     before.
//   - A context does not fire again before its cooldown has passed, whichever process evaluates it.
//   - An alert without an audience stamps nothing (product decision 8).
package evaluator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// retryAfter is when a trigger without an interval retries a firing that something other than a cooldown prevented: the default interval of
// conditions (A2).
const retryAfter = 5 * time.Minute

// Store is what the evaluator needs of the store.
type Store interface {
	jobs.Store
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	ReadBatch(ctx context.Context, work func(*store.Tx) error) error
	RecordPage(ctx context.Context, ws subject.WorkspaceID, typ string, after int64, limit int) ([]store.PageRecord, error)
	CountRecords(ctx context.Context, ws subject.WorkspaceID, typ string) (int, error)
	PlansOf(ctx context.Context, wanted map[store.PlanRef][]key.Instance) (map[store.PlanRef]store.Plan, error)
	RepairsDue(ctx context.Context, now time.Time) (due bool, err error)
	NewID(now time.Time) int64
}

// Evaluator is the stage.
type Evaluator struct {
	store    Store
	catalog  *catalog.Catalog
	journal  journal.Writer
	jobs     *jobs.Worker
	backfill backfill
}

// New makes the stage.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Evaluator {
	e := &Evaluator{store: s, catalog: c, journal: w}
	e.jobs = jobs.New(s, related.Jobs(s, mostMarks),
		jobs.Kind{Kinds: []job.Kind{job.Backfill}, Page: e.advance},
		jobs.Kind{Kinds: []job.Kind{job.Reconcile}, Begin: e.beginRepairs, Page: e.repair})
	return e
}

// Result is what a step did.
type Result struct {
	Evaluated int  // records
	Passed    int  // records that a job went over
	More      bool // there is more than the step took
}

// Step evaluates up to limit records. If fewer are due, it advances a job that goes over all records because their definitions have changed. So
// written and marked records come before a job.
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
	if r.Passed, r.More, err = c.jobs.Step(ctx, now); err != nil {
		return r, fmt.Errorf("go over records: %w", err)
	}
	return r, nil
}

func (c *Evaluator) evaluate(ctx context.Context, now time.Time, limit int) (int, error) {
	calls := &expr.Calls{}
	return c.loaded(ctx, "evaluate records", limit, func(limit int) (n int, entries []journal.Entry, err error) {
		r := run{Evaluator: c, now: now, calls: calls}
		err = c.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			n, err = r.step(tx, limit)
			return err
		})
		return n, r.entries, err
	})
}

// step evaluates up to limit due records in one transaction and returns how many. What one transaction may not evaluate, or
// whose audiences are too large for one, is left to the next one.
func (r *run) step(tx *store.Tx, limit int) (int, error) {
	due, err := tx.DueRecords(r.now, limit)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	related, err := r.relate(tx, due)
	if err != nil {
		return 0, err
	}
	needs, err := r.judge(due)
	if err != nil {
		return 0, err
	}
	r.state = store.EvaluateState{Related: related}
	if r.state.Throttles, err = tx.LockThrottles(needs.throttles); err != nil {
		return 0, err
	}
	if r.state.Episodes, r.state.Plans, err = tx.LockOccasions(needs.episodes, needs.plans); err != nil {
		return 0, err
	}
	audiences, err := r.admit()
	if err != nil {
		return 0, err
	}
	tx.GroupBy(r.groups)
	people, err := tx.People(r.now, audiences, func(i int) subject.WorkspaceID { return due[i].Workspace }, r.floor(), true)
	if err != nil {
		return 0, err
	}
	stops, err := r.stopped(tx, people)
	if err != nil {
		return 0, err
	}
	writes, err := r.decide(people, stops)
	if err != nil {
		return 0, err
	}
	n := len(writes.Evaluated)
	tx.LeaveRecords(r.now, due[n:])
	if err := tx.WriteEvaluations(r.now, r.state, writes); err != nil {
		return 0, err
	}
	made, err := r.follow(tx)
	if err != nil {
		return 0, err
	}
	for _, ws := range slices.Sorted(maps.Keys(writes.Made)) {
		for _, row := range writes.Made[ws].Instances {
			made = append(made, tell.InstanceChange{Is: row})
		}
	}
	return n, tell.Instances(r.catalog, tell.InForce(r.catalog), tx, r.now, made)
}

// loaded runs a step again with the definitions that it lacks, and then writes its journal entries.
func (c *Evaluator) loaded(ctx context.Context, what string, limit int, step func(limit int) (int, []journal.Entry, error)) (int, error) {
	if err := c.catalog.Refresh(ctx); err != nil {
		return 0, err
	}
	n := 0
	var entries []journal.Entry
	err := c.catalog.Supply(ctx, limit, func(limit int) (err error) {
		n, entries, err = step(limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if n == 0 {
		return 0, nil // the entries belong to a try that was not committed
	}
	for _, e := range entries {
		c.journal.Write(e)
	}
	return n, nil
}
