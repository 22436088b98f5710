// Package listed finds where the list of a course has the messages of deliveries that wait.
package listed

import (
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
)

// Tx is what it asks of a transaction.
type Tx interface {
	InstancesOf(deliveries []delivery.Row) (map[instance.ID]instance.Row, error)
}

// Rows are deliveries, each with the set in force of its workspace.
type Rows struct {
	rows []*delivery.Row
	live []*definition.Set
}

// Add adds a delivery if its workflow has been edited since it was made, so that an edit of the list may have moved its message. One that is pinned
// to its version has the list of that.
func (r *Rows) Add(row *delivery.Row, live *definition.Set) {
	w := live.Workflow(row.Workflow)
	if row.Definitions > 0 || w == nil || w.Version == row.WorkflowVersion {
		return
	}
	if t := w.TriggerByID(row.Trigger); t != nil && t.Lists() {
		r.rows, r.live = append(r.rows, row), append(r.live, live)
	}
}

// Find sets the places of the deliveries. One whose message the list does not have gets the place after its end.
func (r *Rows) Find(tx Tx) error {
	if len(r.rows) == 0 {
		return nil
	}
	asked := make([]delivery.Row, len(r.rows))
	for i, row := range r.rows {
		asked[i] = *row
	}
	instances, err := tx.InstancesOf(asked)
	if err != nil {
		return err
	}
	for i, row := range r.rows {
		of, known := instances[row.Instance]
		if !known {
			continue
		}
		of.Message = row.Message
		t := r.live[i].Workflow(row.Workflow).TriggerByID(row.Trigger)
		listed := false
		if row.Message, listed = plan.ListedAt(t, of); !listed {
			row.Message = len(t.Course().Messages)
		}
	}
	return nil
}
