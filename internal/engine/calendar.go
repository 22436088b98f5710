package engine

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// rearrangement is what an apply does to the calendar, in its own transaction: it makes the first occasion of a series that is new or enabled again,
// moves a waiting occasion to another date, and withdraws one that is no longer desired.
type rearrangement struct {
	ws      subject.WorkspaceID
	old     *definition.Set // in force before; nil: none
	set     *definition.Set
	zones   *civil.Zones
	now     time.Time
	ids     func(time.Time) int64
	entries []journal.Entry
}

// refs returns the series of both sets, including unchanged ones: the workspace's zone may have changed.
func (r *rearrangement) refs() []store.SeriesRef {
	refs := map[store.SeriesRef]bool{}
	for _, set := range []*definition.Set{r.old, r.set} {
		if set == nil {
			continue
		}
		for _, m := range set.Schedules() {
			refs[store.SeriesRef{Workflow: m.Workflow.Name, Trigger: m.Trigger.ID}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(refs), func(a, b store.SeriesRef) int {
		return strings.Compare(a.Workflow+"\n"+a.Trigger, b.Workflow+"\n"+b.Trigger)
	})
}

// repairs returns the triggers whose records are repaired regularly.
func (r *rearrangement) repairs() (all []store.Repair) {
	for _, typ := range r.set.WatchedTypes() {
		for _, m := range r.set.ByRecord(typ) {
			if s := m.Trigger.OnPlan(); s != nil && s.Reconcile != nil && m.Workflow.Enabled && m.Trigger.Enabled {
				all = append(all, store.Repair{Workflow: m.Workflow.Name, Trigger: m.Trigger.ID, Every: s.Reconcile.Every})
			}
		}
	}
	return all
}

// write writes the repairs and the changes of the calendar. number is that of the new set, and versions are those of its workflows.
func (r *rearrangement) write(tx *store.Tx, number int64, versions map[string]int64, found map[store.SeriesRef]store.Series) error {
	r.entries = nil
	if err := tx.WriteRepairs(r.ws, r.now, r.repairs()); err != nil {
		return err
	}
	changed, next, err := r.decide(number, versions, found)
	if err != nil {
		return err
	}
	if err := tx.WritePlanned(r.now, nil, changed); err != nil {
		return err
	}
	made, err := tx.EnsureOccasions(next)
	for _, m := range made {
		r.report(journal.Created, m.Row)
	}
	return err
}

// decide compares the stored occasions with those that the new definitions ask for. It returns the rows that change, and of each series the rows of its
// next occasion: the first that has not ended has to exist.
func (r *rearrangement) decide(number int64, versions map[string]int64, found map[store.SeriesRef]store.Series) (changed []instance.Row, next []iter.Seq[instance.Row], err error) {
	for _, ref := range r.refs() {
		stored, version := found[ref], versions[ref.Workflow]
		series, err := r.series(ref)
		if err != nil {
			return nil, nil, err
		}
		var changes []plan.Change
		if series == nil {
			why := reason.RuleChanged
			if r.set.Workflow(ref.Workflow) == nil {
				why = reason.WorkflowInactive
			}
			changes = plan.Withdraw(stored.Pending, why, r.now)
		} else {
			all, rows := series.Compare(stored.Pending, plan.Place{Due: stored.LastDue, Date: stored.LastLocal}, r.now)
			changes = all
			next = append(next, r.rows(rows, number, version))
		}
		for _, c := range changes {
			if c.Effect == plan.Updated {
				c.Row.WorkflowVersion = version
				if c.Row == c.Was {
					continue
				}
				c.Row.Definitions = number
			}
			changed = append(changed, c.Row)
			if c.Moved() {
				r.report(journal.Moved, c.Row)
			} else if c.Effect == plan.Withdrawn {
				r.report(journal.Withdrawn, c.Row)
			}
		}
	}
	return changed, next, nil
}

// rows returns planned rows as they are stored.
func (r *rearrangement) rows(planned iter.Seq[instance.Row], number, version int64) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for row := range planned {
			row.Workspace, row.ID, row.Definitions, row.WorkflowVersion = r.ws, instance.ID(r.ids(r.now)), number, version
			if !yield(row) {
				return
			}
		}
	}
}

// series returns a series by the new definitions; nil: it is gone.
func (r *rearrangement) series(ref store.SeriesRef) (*plan.Series, error) {
	w := r.set.Workflow(ref.Workflow)
	if w == nil {
		return nil, nil
	}
	t := w.TriggerByID(ref.Trigger)
	if t == nil || t.OnSchedule() == nil {
		return nil, nil
	}
	return plan.SeriesOf(r.set, definition.Match{Workflow: w, Trigger: t}, r.zones)
}

func (r *rearrangement) report(what journal.What, row instance.Row) {
	r.entries = append(r.entries, journal.Entry{
		At: r.now, What: what, Workspace: r.ws, Workflow: row.Workflow, WorkflowVersion: row.WorkflowVersion, Trigger: row.Trigger,
		Key: row.Key, Instance: row.ID, Reason: row.Reason, Due: row.DueAt,
	})
}
