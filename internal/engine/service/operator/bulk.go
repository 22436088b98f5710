package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/job"
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

func (b Bulk) kind() job.Kind {
	if b.Retry {
		return job.Retry
	}
	return job.Cancel
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
func (o *Operator) Begin(ctx context.Context, ws subject.WorkspaceID, b Bulk, actor string, now time.Time, once func(Matched) *store.Idempotent[job.Row]) (job.Row, Matched, error) {
	m, err := o.Preview(ctx, ws, b)
	if err != nil || m.N == 0 && !m.More {
		return job.Row{}, m, err
	}
	selection, err := json.Marshal(b.Selection)
	if err != nil {
		return job.Row{}, m, fmt.Errorf("write the selection: %w", err)
	}
	detail, err := json.Marshal(map[string]any{"selection": b.Selection, "deliveries": m.N, "more": m.More})
	if err != nil {
		return job.Row{}, m, fmt.Errorf("write the audit entry: %w", err)
	}
	set, err := o.catalog.Current(ctx, ws)
	if err != nil {
		return job.Row{}, m, err
	}
	j := job.New(ws, job.Seed{Kind: b.kind(), Subject: b.Selection.String()}, set.Number, now)
	j.Selection, j.Actor, j.LastID = string(selection), actor, int64(m.last)
	if !m.More {
		j.Total = int64(m.N)
	}
	audit := store.Audit{At: now, Actor: actor, Action: string(b.kind()) + " deliveries", Target: b.Selection.String(), Detail: detail}
	j, err = o.begin(ctx, j, audit, now, once(m))
	return j, m, err
}

// begin begins a job, or finds the one that runs for the same selection.
func (o *Operator) begin(ctx context.Context, j job.Row, audit store.Audit, now time.Time, once *store.Idempotent[job.Row]) (begun job.Row, err error) {
	ws := j.Workspace
	err = o.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws); err != nil {
			return err
		}
		open := false
		if begun, open, err = tx.OpenBulk(ws, j.Kind, j.Selection); err != nil {
			return err
		}
		if !open {
			added, err := tx.AddJobs(now, []job.Row{j})
			if err != nil {
				return err
			}
			begun = added[0]
			if err := tx.Audit(ws, now, audit); err != nil {
				return err
			}
		}
		return once.Keep(tx, ws, begun)
	})
	if err != nil {
		return job.Row{}, fmt.Errorf("begin a job over deliveries: %w", err)
	}
	return begun, nil
}

// Work does one page of the oldest job; more reports whether there is another one.
func (o *Operator) Work(ctx context.Context, now time.Time) (done int, more bool, err error) {
	return o.jobs.Step(ctx, now)
}

// bulk does one page of a job: with each delivery what a person does with one, in a transaction of its own that also advances the job. After a crash it
// continues with the next delivery, and its counts are of what it has done.
func (o *Operator) bulk(ctx context.Context, now time.Time, j job.Row) (done int, err error) {
	b := Bulk{Retry: j.Kind == job.Retry}
	if err := json.Unmarshal([]byte(j.Selection), &b.Selection); err != nil {
		return 0, &jobs.Impossible{Cause: fmt.Errorf("its selection cannot be read: %w", err)}
	}
	if id := b.Selection.Instance; id != 0 {
		return o.endCancelled(ctx, now, j, id)
	}
	rows, through, err := o.store.Selected(ctx, j.Workspace, b.Selection, delivery.ID(j.Cursor), delivery.ID(j.LastID), bulkPage)
	if err != nil {
		return 0, err
	}
	behind := 0 // decided since the job has advanced
	for _, row := range rows {
		if !b.selects(row) {
			continue
		}
		done++
		behind++
		step := &jobStep{job: j, Step: job.Step{Cursor: int64(row.ID), Done: behind}}
		err := o.one(ctx, b, step, now)
		var refused *StateError
		switch {
		case errors.As(err, &refused), errors.Is(err, ErrNotFound): // it has changed meanwhile
		case err != nil:
			return done, err
		case step.saved != nil:
			j, behind = *step.saved, 0
			j.Version++ // as saved
		}
	}
	step := job.Step{Cursor: int64(through), Done: behind, End: through == 0}
	if step.End {
		step.Cursor = j.Cursor
	}
	if step.End && b.Selection.Removed {
		instances := 0
		if instances, step.End, err = o.withdrawInstances(ctx, j, b.Selection.Workflow, now); err != nil {
			return done, err
		}
		done, step.Done = done+instances, step.Done+instances
	}
	return done, o.store.Write(ctx, func(tx *store.Tx) error { return tx.SaveJobs(now, j.Advance(step, now)) })
}

// jobStep is how far a job over deliveries goes with one of them.
type jobStep struct {
	job job.Row // as it was before
	job.Step
	saved *job.Row // with the step; nil: the action did not advance the job
}

// one does with a delivery what a single action does, and advances the job to it, unless the delivery is no longer selected.
func (o *Operator) one(ctx context.Context, b Bulk, step *jobStep, now time.Time) error {
	name := "cancel"
	switch {
	case b.Retry:
		name = "retry"
	case b.Selection.Removed:
		name = "withdraw"
	}
	_, err := o.onDelivery(ctx, step.job.Workspace, delivery.ID(step.Cursor), name, step.job.Actor, now, func(a *action, s state, d delivery.Row) (change, error) {
		step.saved = nil
		if b.Retry {
			d = s.cancelled(d, now)
		}
		if !b.selects(d) {
			return change{}, nil
		}
		a.job = step
		switch {
		case b.Retry:
			return a.retryDelivery(s, d)
		case b.Selection.Removed:
			return o.withdrawn(a, s, d)
		}
		return a.cancelDelivery(d)
	})
	return err
}
