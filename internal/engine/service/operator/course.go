package operator

import (
	"fmt"
	"iter"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/joiner"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
)

// followCourse returns what follows a message of a course that a person has ended. It is nothing when the course has ended by now, or
// when it asks for something else: the evaluation of the record plans that.
func (o *Operator) followCourse(tx *store.Tx, a *action, s state, m definition.Match, set *definition.Set) (iter.Seq[instance.Row], error) {
	in := s.Instance
	ref := store.RecordKey{Workspace: in.Workspace, ID: in.Record}
	records, err := tx.RecordsByID([]store.RecordKey{ref})
	if err != nil {
		return nil, err
	}
	record, ok := records[ref]
	if !ok || record.Unreadable != nil {
		return nil, nil
	}
	states, err := condition.Parse(record.State)
	if err != nil {
		return nil, err
	}
	read, err := related.Read(tx, []related.Record{{Workspace: in.Workspace, Relations: set.Relations(record.Type), Record: record.Record}})
	if err != nil {
		return nil, fmt.Errorf("read what follows: %w", err)
	}
	seen := plan.Observation{Now: a.now, EvaluateAt: record.EvaluateAt, EvaluatedAt: record.EvaluatedAt, Meter: &expr.Meter{Calls: a.calls}}
	eval := plan.Due(set, m, record.Record, read.ByWorkspace()[in.Workspace], states, seen, &o.catalog.Zones)
	if err := a.calls.Wanted(); err != nil {
		return nil, err
	}
	if eval.Ahead == nil || eval.Ahead.Course == nil {
		return nil, nil
	}
	own, err := tx.OwnCourses([]instance.Row{in})
	if err != nil {
		return nil, err
	}
	eval.Ahead.People = joiner.People(own[in.ID])
	present, ok := eval.Ahead.Find(in)
	if !ok {
		return nil, nil
	}
	course := eval.Ahead.CourseOf(in)
	return func(yield func(instance.Row) bool) {
		for row := range course.Next(present, a.now) {
			row.Workspace, row.ID, row.Record, row.Definitions = in.Workspace, instance.ID(a.ids(a.now)), in.Record, s.InForce
			if !yield(row) {
				return
			}
		}
	}, nil
}
