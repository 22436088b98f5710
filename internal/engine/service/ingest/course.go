package ingest

import (
	"fmt"
	"iter"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/trace"
)

// later are rows of a course after its first one: the first of them that has not ended has to exist.
type later struct {
	*batch
	rows  iter.Seq[instance.Row]
	count int // how many messages that are not sent it represents
}

// stepsOfMessage is what it costs to find a message that is due already, in steps of an evaluation.
const stepsOfMessage = 10

// course decides about the first row of a course and what is overdue of it already, because the event came late or its anchor is past. send is
// false if the first message is not sent; the row then represents those that are not.
func (d *decision) course(row *instance.Row, o plan.Occasion, actual key.Instance) (send bool, err error) {
	c := o.Course.Under(actual)
	first := c.First()
	*row = c.Placed(first, *row)
	if first.Due.After(d.now) {
		d.following(c.Next(first, d.now), 0)
		return true, nil
	}
	overdue := c.CatchUp(*row, first, d.now)
	d.meter.Steps += stepsOfMessage * uint64(overdue.Due)
	if overdue.Send {
		if overdue.Skipped != nil {
			skipped := overdue.Row
			skipped.Status, skipped.Reason, skipped.CompletedAt = instance.Skipped, overdue.Reason, d.now
			skipped.Trace = trace.Trace{Skipped: overdue.Skipped}.String()
			d.following(func(yield func(instance.Row) bool) { yield(skipped) }, overdue.Skipped.Count)
		}
		d.following(overdue.Next, 0)
		return true, nil
	}
	note := traceOf(o)
	note.Skipped = overdue.Skipped
	if row.Trace, err = note.Encode(); err != nil {
		return false, fmt.Errorf("encode the trace: %w", err)
	}
	row.Status, row.Reason = instance.Skipped, overdue.Reason
	e := d.entry(journal.Skipped, *row, o)
	e.Reason, e.Count = overdue.Reason, overdue.Skipped.Count
	d.entries = append(d.entries, e)
	d.following(overdue.Next, 0)
	return false, nil
}

func (d *decision) following(rows iter.Seq[instance.Row], count int) {
	ws, now, ids := d.ws.ID, d.now, d.ids
	d.later = append(d.later, later{batch: d.batch, count: count, rows: func(yield func(instance.Row) bool) {
		for row := range rows {
			if row.Workspace, row.ID = ws, instance.ID(ids(now)); !yield(row) {
				return
			}
		}
	}})
}

// ensure makes the rows that follow first ones.
func ensure(tx *store.Tx, following []later) error {
	if len(following) == 0 {
		return nil
	}
	rows := make([]iter.Seq[instance.Row], len(following))
	for i, f := range following {
		rows[i] = f.rows
	}
	made, err := tx.EnsureOccasions(rows)
	if err != nil {
		return err
	}
	for _, m := range made {
		f, row := following[m.Of], m.Row
		e := journal.Entry{
			At: f.now, What: journal.Created, Workspace: row.Workspace, Workflow: row.Workflow, WorkflowVersion: row.WorkflowVersion,
			Trigger: row.Trigger, Key: row.Key, Event: row.Event, Instance: row.ID, Reason: row.Reason, Due: row.DueAt, Count: f.count,
		}
		if row.Status == instance.Skipped {
			e.What = journal.Skipped
		}
		f.entries = append(f.entries, e)
	}
	return nil
}
