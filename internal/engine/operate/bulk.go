package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// bulkPage is how many deliveries a job goes through before it moves on: a job that is cancelled stops within one page, and
	// after a crash one page is gone through again.
	bulkPage = 100
	// bulkCount is how many rows are read at once to count what a job would do.
	bulkCount = 1000
	// samples is how many deliveries a dry run shows.
	samples = 10
)

// Bulk is a wish to retry or cancel many deliveries.
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

// Matched says what a selection finds.
type Matched struct {
	N        int
	ByStatus map[delivery.Status]int
	Samples  []delivery.Row // the oldest
	last     delivery.ID
}

// Preview counts what a wish concerns and changes nothing. ErrNotFound: it names a workflow that is not in force, and of which there
// is nothing.
func (o *Operator) Preview(ctx context.Context, ws subject.WorkspaceID, b Bulk) (Matched, error) {
	m := Matched{ByStatus: map[delivery.Status]int{}}
	var err error
	if m.last, err = o.store.LastDelivery(ctx, ws); err != nil {
		return m, err
	}
	for after := delivery.ID(0); ; {
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

// Begin has a job do what somebody wishes, with all deliveries that there are now; where there are none, there is no job. While one runs for the same wish, that one is
// answered. once keeps the answer to a request that may come again; see store.Once.
func (o *Operator) Begin(ctx context.Context, ws subject.WorkspaceID, b Bulk, actor string, now time.Time, once func(Matched) *store.Once[store.Run]) (store.Run, Matched, error) {
	m, err := o.Preview(ctx, ws, b)
	if err != nil || m.N == 0 {
		return store.Run{}, m, err
	}
	selection, err := json.Marshal(b.Selection)
	if err != nil {
		return store.Run{}, m, fmt.Errorf("write the selection: %w", err)
	}
	detail, err := json.Marshal(map[string]any{"selection": b.Selection, "deliveries": m.N})
	if err != nil {
		return store.Run{}, m, fmt.Errorf("write the audit entry: %w", err)
	}
	set, err := o.catalog.Current(ctx, ws)
	if err != nil {
		return store.Run{}, m, err
	}
	run := store.Run{
		Workspace: ws, RunSeed: store.RunSeed{Kind: b.kind(), Subject: b.Selection.String()}, Definitions: set.Number, Selection: string(selection),
		Actor: actor, LastID: int64(m.last), Total: int64(m.N),
	}
	run, err = o.store.BeginBulk(ctx, now, run, store.Audit{At: now, Actor: actor, Action: b.kind() + " deliveries", Target: b.Selection.String(), Detail: detail}, once(m))
	return run, m, err
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
	step, changed := store.RunStep{Cursor: int64(through), End: through == 0}, 0
	if step.End {
		step.Cursor = run.Cursor
	}
	for _, row := range rows {
		if !b.selects(row) {
			continue
		}
		result, err := o.one(ctx, run.Workspace, b, row.ID, run.Actor, now)
		var refused *StateError
		switch {
		case errors.As(err, &refused), errors.Is(err, ErrNotFound): // it has gone on meanwhile
		case err != nil:
			return 0, false, err
		case result.Changed:
			changed++
		}
		step.Done++
	}
	_, err = o.store.MoveBulk(ctx, now, run, step, changed)
	return step.Done, true, err
}

// one does with a delivery what a person does, unless it is no longer selected.
func (o *Operator) one(ctx context.Context, ws subject.WorkspaceID, b Bulk, id delivery.ID, actor string, now time.Time) (Result, error) {
	if b.Retry {
		return o.onDelivery(ctx, ws, id, "retry", actor, now, func(a *action, s store.OperatorState, d delivery.Row) (store.OperatorChange, error) {
			if !b.selects(d) {
				return store.OperatorChange{}, nil
			}
			return a.retryDelivery(s, d)
		})
	}
	return o.onDelivery(ctx, ws, id, "cancel", actor, now, func(a *action, _ store.OperatorState, d delivery.Row) (store.OperatorChange, error) {
		if !b.selects(d) {
			return store.OperatorChange{}, nil
		}
		return a.cancelDelivery(d)
	})
}
