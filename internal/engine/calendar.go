package engine

import (
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

// plan returns the series of both sets, including unchanged ones: the workspace's zone may have changed.
func (r *rearrangement) plan(base int64) *store.CalendarPlan {
	refs := map[store.SeriesRef]bool{}
	for _, set := range []*definition.Set{r.old, r.set} {
		if set == nil {
			continue
		}
		for _, m := range set.Schedules() {
			refs[store.SeriesRef{Workflow: m.Workflow.Name, Trigger: m.Trigger.ID}] = true
		}
	}
	ordered := slices.SortedFunc(maps.Keys(refs), func(a, b store.SeriesRef) int {
		return strings.Compare(a.Workflow+"\n"+a.Trigger, b.Workflow+"\n"+b.Trigger)
	})
	return &store.CalendarPlan{Base: base, Refs: ordered, Repairs: repairsOf(r.set), Decide: func(number int64, version func(string) int64, found map[store.SeriesRef]store.Series) ([]instance.Row, []store.Successor, error) {
		r.entries = nil
		return r.decide(ordered, number, version, found)
	}}
}

// repairsOf returns the triggers whose records are repaired regularly.
func repairsOf(set *definition.Set) (all []store.Repair) {
	for _, typ := range set.WatchedTypes() {
		for _, m := range set.ByRecord(typ) {
			if s := m.Trigger.OnPlan(); s != nil && s.Reconcile != nil && m.Workflow.Enabled && m.Trigger.Enabled {
				all = append(all, store.Repair{Workflow: m.Workflow.Name, Trigger: m.Trigger.ID, Every: s.Reconcile.Every})
			}
		}
	}
	return all
}

func (r *rearrangement) decide(refs []store.SeriesRef, number int64, version func(string) int64, found map[store.SeriesRef]store.Series) (changed []instance.Row, successors []store.Successor, err error) {
	for _, ref := range refs {
		stored := found[ref]
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
			all, next := series.Compare(stored.Pending, plan.Place{Due: stored.LastDue, Date: stored.LastLocal}, r.now)
			changes = all
			successors = append(successors, store.Successor{
				Rows: func(yield func(instance.Row) bool) {
					for row := range next {
						row.Workspace, row.ID, row.Definitions, row.WorkflowVersion = r.ws, instance.ID(r.ids(r.now)), number, version(ref.Workflow)
						if !yield(row) {
							return
						}
					}
				},
				Made: func(row instance.Row) { r.report(journal.Created, row) },
			})
		}
		for _, c := range changes {
			if c.Effect == plan.Updated {
				c.Row.WorkflowVersion = version(ref.Workflow)
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
	return changed, successors, nil
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
