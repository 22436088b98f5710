package loader

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
)

const (
	// leastReconcile bounds how often a repair runs: it is a repair, not the way in which occasions are planned (B45).
	leastReconcile = time.Hour
	// Defaults of a repair.
	reconcileWithin = 30 * 24 * time.Hour
	reconcileBatch  = 500
	mostReconcile   = 5000
)

// reconcile reads a repair; nil: none is written.
func (r *reader) reconcile(t *definition.Trigger, n *portable.Node, scope expr.Scope, dated bool) *definition.Reconcile {
	if n == nil || n.Kind == portable.Broken {
		return nil
	}
	f, ok := r.fields(n, "reconcile")
	if !ok {
		return nil
	}
	r.need(f)
	if t.OnPlan() == nil {
		r.invalid(n.Pos, fmt.Sprintf("trigger %s: with a cooldown nothing is planned ahead, so nothing can be missing", t.ID), "remove reconcile: every evaluation decides again what is sent")
	}
	c := &definition.Reconcile{DueWithin: reconcileWithin, Batch: reconcileBatch}
	every := f.get("every")
	if d, ok := r.duration(every); ok {
		if c.Every = d.Exact(); c.Every < leastReconcile {
			r.invalid(every.Pos, "a repair goes over all records: at most once an hour", "write 1h or longer, such as 1d")
		}
	}
	within := f.get("due_within")
	if d, ok := r.duration(within); ok {
		if c.DueWithin = d.Exact(); !dated && t.OnPlan() != nil {
			r.invalid(within.Pos, fmt.Sprintf("trigger %s: due_within is for a date", t.ID), "remove it: without a date all is due at once")
		}
	}
	c.Where = r.condition(f.get("where"), scope)
	batch := f.get("batch")
	if n := r.count(batch); n > 0 {
		if c.Batch = n; n > mostReconcile {
			r.invalid(batch.Pos, fmt.Sprintf("a batch has at most %d records", mostReconcile), "")
		}
	}
	return c
}
