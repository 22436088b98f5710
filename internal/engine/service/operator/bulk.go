package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// bulkPage is how many deliveries a job reads at once.
	bulkPage = 100
	// bulkCount is how many rows are read at once to count what a job would do, and bulkCounts how often, while a caller waits for the answer: about
	// a second.
	bulkCount  = 1000
	bulkCounts = 40
	// samples is how many deliveries a dry run shows.
	samples = 10
)

// Bulk is a request to retry or cancel many deliveries.
type Bulk struct {
	Retry     bool // else cancel
	Selection delivery.Selection
}

func (b Bulk) kind() string {
	if b.Retry {
		return store.RunRetry
	}
	return store.RunCancel
}

func (b Bulk) selects(r delivery.Row) bool {
	if b.Retry {
		return b.Selection.ToRetry(r)
	}
	return b.Selection.ToCancel(r)
}

// Matched is what a selection finds.
type Matched struct {
	N        int
	ByStatus map[delivery.Status]int
	ByReason map[reason.Reason]int // of those that have a reason
	Samples  []delivery.Row        // the oldest
	More     bool                  // counting has stopped early: N is a lower bound
	last     delivery.ID
}

// Preview counts what a request selects, up to a bound, and changes nothing. ErrNotFound: it names a workflow that is not in force and has no
// deliveries.
func (o *Operator) Preview(ctx context.Context, ws subject.WorkspaceID, b Bulk) (Matched, error) {
	m := Matched{ByStatus: map[delivery.Status]int{}, ByReason: map[reason.Reason]int{}}
	var err error
	if m.last, err = o.store.LastDelivery(ctx, ws); err != nil {
		return m, err
	}
	for after, reads := delivery.ID(0), 0; ; reads++ {
		if m.More = reads == bulkCounts; m.More {
			return m, nil
		}
		rows, through, err := o.store.Selected(ctx, ws, b.Selection, after, m.last, bulkCount)
		if err != nil {
			return m, err
		}
		for _, r := range rows {
			if !b.selects(r) {
				continue
			}
			m.N++
			m.ByStatus[r.Status]++
			if r.Reason != "" {
				m.ByReason[r.Reason]++
			}
			if len(m.Samples) < samples {
				m.Samples = append(m.Samples, r)
			}
		}
		if through == 0 {
			break
		}
		after = through
	}
	if m.N > 0 || b.Selection.Workflow == "" {
		return m, nil
	}
	set, err := o.catalog.Current(ctx, ws)
	if err == nil && set.Workflow(b.Selection.Workflow) == nil {
		err = ErrNotFound
	}
	return m, err
}

// Begin starts a job for a request, with all deliveries that exist now; without deliveries there is no job. If a job runs for the same request, Begin
// answers with that job. A job has no total if not everything was counted. once keeps the answer to a request that may be repeated; see
// store.Idempotent.
func (o *Operator) Begin(ctx context.Context, ws subject.WorkspaceID, b Bulk, actor string, now time.Time, once func(Matched) *store.Idempotent[store.Run]) (store.Run, Matched, error) {
	m, err := o.Preview(ctx, ws, b)
	if err != nil || m.N == 0 && !m.More {
		return store.Run{}, m, err
	}
	selection, err := json.Marshal(b.Selection)
	if err != nil {
		return store.Run{}, m, fmt.Errorf("write the selection: %w", err)
	}
	detail, err := json.Marshal(map[string]any{"selection": b.Selection, "deliveries": m.N, "more": m.More})
	if err != nil {
		return store.Run{}, m, fmt.Errorf("write the audit entry: %w", err)
	}
	set, err := o.catalog.Current(ctx, ws)
	if err != nil {
		return store.Run{}, m, err
	}
	run := store.Run{
		Workspace: ws, RunSeed: store.RunSeed{Kind: b.kind(), Subject: b.Selection.String()}, Definitions: set.Number, Selection: string(selection),
		Actor: actor, LastID: int64(m.last),
	}
	if !m.More {
		run.Total = int64(m.N)
	}
	audit := store.Audit{At: now, Actor: actor, Action: b.kind() + " deliveries", Target: b.Selection.String(), Detail: detail}
	run, err = o.begin(ctx, run, audit, now, once(m))
	return run, m, err
}

// begin begins a job, or finds the one that runs for the same selection.
func (o *Operator) begin(ctx context.Context, job store.Run, audit store.Audit, now time.Time, once *store.Idempotent[store.Run]) (begun store.Run, err error) {
	ws := job.Workspace
	err = o.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws); err != nil {
			return err
		}
		open := false
		if begun, open, err = tx.OpenBulk(ws, job.Kind, job.Selection); err != nil {
			return err
		}
		if !open {
			if begun, err = tx.BeginBulk(now, job); err != nil {
				return err
			}
			if err := tx.Audit(ws, now, audit); err != nil {
				return err
			}
		}
		return once.Keep(tx, ws, begun)
	})
	if err != nil {
		return store.Run{}, fmt.Errorf("begin a job over deliveries: %w", err)
	}
	return begun, nil
}

// Work does one page of the oldest job; more reports whether there is another one.
func (o *Operator) Work(ctx context.Context, now time.Time) (done int, more bool, err error) {
	run, open, err := o.store.BulkRun(ctx)
	if err != nil || !open {
		return 0, false, err
	}
	b := Bulk{Retry: run.Kind == store.RunRetry}
	if err := json.Unmarshal([]byte(run.Selection), &b.Selection); err != nil {
		return 0, true, o.store.FailBulk(ctx, now, run, fmt.Errorf("its selection cannot be read: %w", err))
	}
	rows, through, err := o.store.Selected(ctx, run.Workspace, b.Selection, delivery.ID(run.Cursor), delivery.ID(run.LastID), bulkPage)
	if err != nil {
		return 0, false, err
	}
	behind := 0 // decided since the job has advanced
	for _, row := range rows {
		if !b.selects(row) {
			continue
		}
		done++
		behind++
		moved, err := o.one(ctx, b, store.JobStep{Run: run, Cursor: row.ID, Done: behind}, now)
		var refused *StateError
		switch {
		case errors.Is(err, store.ErrMoved):
			return done, true, nil
		case errors.As(err, &refused), errors.Is(err, ErrNotFound): // it has changed meanwhile
		case err != nil:
			return done, false, err
		case moved:
			run.Cursor, behind = int64(row.ID), 0
		}
	}
	step := store.RunStep{Cursor: int64(through), Done: behind, End: through == 0}
	if step.End {
		step.Cursor = run.Cursor
	}
	if step.End && b.Selection.Removed {
		instances := 0
		if instances, step.End, err = o.withdrawInstances(ctx, run, b.Selection.Workflow, now); err != nil {
			return done, false, err
		}
		done, step.Done = done+instances, step.Done+instances
	}
	_, err = o.store.AdvanceBulk(ctx, now, run, step)
	return done, true, err
}

// one does with a delivery what a single action does, unless it is no longer selected. moved reports whether the job has advanced to it.
func (o *Operator) one(ctx context.Context, b Bulk, step store.JobStep, now time.Time) (moved bool, err error) {
	name := "cancel"
	switch {
	case b.Retry:
		name = "retry"
	case b.Selection.Removed:
		name = "withdraw"
	}
	var act *action
	_, err = o.onDelivery(ctx, step.Run.Workspace, step.Cursor, name, step.Run.Actor, now, func(a *action, s state, d delivery.Row) (change, error) {
		act = a
		if !b.selects(d) {
			return change{}, nil
		}
		a.job = &step
		switch {
		case b.Retry:
			return a.retryDelivery(s, d)
		case b.Selection.Removed:
			return o.withdrawn(a, s, d)
		}
		return a.cancelDelivery(d)
	})
	return act != nil && act.moved, err
}
