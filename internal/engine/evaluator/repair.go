package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// A look compares what a record implies with what it implied at the look before, and not with what is stored: so nobody
// misses rows that somebody deleted, or that a restored copy lacks. A repair does. A run of its own goes over the records of
// a trigger, a page at a time and after everything else: it reads without locks what is stored of those that were written
// since the last run, or imply something that is due soon. What is missing is planned again, under the same keys, in the
// transaction that moves the run on; what was withdrawn although it is implied is revived. Nothing else is touched, and
// nothing is sent: what a person has cancelled stays so (decision 23).

// overlap is how long before the last run began what was written is gone over again: a write may have been committed late.
const overlap = 5 * time.Minute

// repair takes the oldest run of a repair on by one page. Done is how many records that was.
func (c *Evaluator) repair(ctx context.Context, now time.Time) (done int, more bool, err error) {
	if !c.repairing.TryLock() {
		return 0, false, nil // another step of this process is at it
	}
	defer c.repairing.Unlock()
	if err := c.store.BeginRepairs(ctx, now); err != nil {
		return 0, false, err
	}
	run, open, err := c.store.RepairRun(ctx)
	if err != nil || !open {
		return 0, false, err
	}
	_, err = c.loaded(ctx, "repair what is planned", 1, func(int) (int, []journal.Entry, error) {
		set, err := c.catalog.Current(ctx, run.Workspace)
		if err != nil {
			return 0, nil, fmt.Errorf("judge records: %w", err)
		}
		m := repairing{Evaluator: c, now: now, run: run}
		m.match, m.rule = repaired(set, run.Subject)
		step, lacking := store.RunStep{Cursor: run.Cursor, End: true}, []subject.RecordID(nil)
		if m.rule != nil { // else the apply that took it away has cancelled the run
			if step, lacking, err = m.page(ctx, set); err != nil {
				return 0, nil, err
			}
		}
		more, err = c.store.AdvanceRepair(ctx, now, run, step, lacking, store.RepairFuncs{Relate: m.relate, Evaluate: m.evaluate, Decide: m.decide})
		done = step.Done
		return 1, m.entries, err
	})
	if err != nil || !more { // not moved: another process has it, or it is cancelled
		return 0, false, err
	}
	return done, true, nil
}

// repaired is the trigger of a run, with how it is repaired; nil: it is not any more.
func repaired(set *definition.Set, name string) (m definition.Match, rule *definition.Reconcile) {
	workflow, trigger, _ := strings.Cut(name, "/")
	if m.Workflow = set.Workflow(workflow); m.Workflow == nil {
		return m, nil
	}
	if m.Trigger = m.Workflow.TriggerByID(trigger); m.Trigger == nil {
		return m, nil
	}
	return m, m.Trigger.Reconcile
}

// repairing is one attempt of a step of a repair; its functions may be called again from the beginning.
type repairing struct {
	*Evaluator
	now     time.Time
	run     store.Run
	match   definition.Match
	rule    *definition.Reconcile
	related map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record
	records []*seen
	entries []journal.Entry
	meter   expr.Meter // of a page
}

// page reads the next records and finds those that lack something. Those that imply something else than at their last look are
// looked at, which plans it.
func (m *repairing) page(ctx context.Context, set *definition.Set) (step store.RunStep, lacking []subject.RecordID, err error) {
	page, err := m.read(ctx, set, m.run, m.match.Trigger.Record, m.run.Cursor, m.rule.Batch)
	if err != nil {
		return step, nil, err
	}
	step = store.RunStep{Cursor: page.end(), Done: len(page.records), End: !page.full}
	if m.run.Total == 0 {
		if step.Total = step.Done; page.full {
			if step.Total, err = m.store.CountRecords(ctx, m.run.Workspace, m.match.Trigger.Record); err != nil {
				return step, nil, err
			}
		}
	}
	looks, wanted := map[store.PlanRef]*plan.Evaluation{}, map[store.PlanRef][]key.Instance{}
	m.meter = expr.Meter{}
	for i, r := range page.records {
		if i > 0 && m.meter.Full() { // those that lack something are judged again in one transaction
			step.Cursor, step.Done, step.End = int64(page.records[i-1].ID), i, false
			break
		}
		row := r.RecordRow
		if row.Props, err = propsOf(r.PropsJSON); err != nil {
			continue // its look tells of it
		}
		look, before, ok := m.judge(set, row, page.related)
		switch {
		case !ok:
		case look.Ahead.State.Fingerprint != before.Ahead.Fingerprint:
			step.Marks = append(step.Marks, row.ID)
		default:
			if known := m.concerns(&look, row); len(known) > 0 {
				ref := m.planRef(m.run.Workspace, row.ID)
				looks[ref], wanted[ref] = &look, known
			}
		}
	}
	if len(wanted) == 0 {
		return step, nil, nil
	}
	stored, err := m.store.PlansOf(ctx, wanted)
	if err != nil {
		return step, nil, fmt.Errorf("look for what is missing: %w", err)
	}
	for ref, look := range looks {
		if len(missing(look, stored[ref], m.now)) > 0 {
			lacking = append(lacking, ref.Record)
		}
	}
	slices.Sort(lacking)
	return step, lacking, nil
}

func (m *repairing) planRef(ws subject.WorkspaceID, id subject.RecordID) store.PlanRef {
	return store.PlanRef{Workspace: ws, Record: id, Workflow: m.match.Workflow.Name, Trigger: m.match.Trigger.ID}
}

func propsOf(text string) (props map[string]any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&props); err != nil {
		return nil, fmt.Errorf("read the fields of a record: %w", err)
	}
	return props, nil
}

// judge says what the trigger implies of a record; not ok: nothing can be said, or it does not concern the repair.
func (m *repairing) judge(set *definition.Set, row store.RecordRow, kin plan.Related) (look plan.Evaluation, before condition.State, ok bool) {
	states, err := condition.Parse(row.State)
	if err != nil || row.Closed || row.Deleted || !m.match.Workflow.Enabled || !m.match.Trigger.Enabled {
		return look, before, false
	}
	before = states[condition.Name(m.match.Workflow.Name, m.match.Trigger.ID)]
	look = plan.Due(set, m.match, row.Record, kin, states, plan.Observation{Now: m.now, EvaluateAt: m.now, EvaluatedAt: row.EvaluatedAt, Meter: &m.meter}, &m.catalog.Zones)
	if look.Ahead == nil || !look.Ahead.Known || len(look.Ahead.Desired) == 0 {
		return look, before, false
	}
	if m.rule.Where != nil {
		in := plan.Input(set, m.match.Workflow, nil, m.now)
		in.Record, in.Meter = look.Fields(), &m.meter
		if !m.rule.Where.Holds(in) {
			return look, before, false
		}
	}
	return look, before, true
}

// concerns are the keys of what is implied of a record that the run asks for; none where it was gone over before, and nothing
// is due soon.
func (m *repairing) concerns(look *plan.Evaluation, row store.RecordRow) (keys []key.Instance) {
	concerned := !row.UpdatedAt.Before(m.run.Since.Add(-overlap))
	for _, i := range look.Ahead.Desired {
		keys = append(keys, i.Key)
		soon := i.Due.IsZero() || !i.Due.After(m.now.Add(m.rule.DueWithin)) && !m.match.Trigger.Timing.Stale(m.now, i.Ends(i.Due))
		concerned = concerned || soon
	}
	if !concerned {
		return nil
	}
	return keys
}

// missing are the changes of a repair: what is not stored although it is implied, and what was withdrawn. What would only be
// kept as too late is not missed.
func missing(look *plan.Evaluation, stored store.Plan, now time.Time) (changes []plan.Change) {
	for _, c := range look.Diff(standing(stored), plan.ByRepair, now) {
		if c.Effect != plan.Inserted && c.Effect != plan.Reactivated || c.Row.Status != instance.Pending || stored.Spent[c.Desired.Key] {
			continue
		}
		changes = append(changes, c)
	}
	return changes
}

func (m *repairing) relate(due []store.DueRecord, read store.Related) []store.RelatedRef {
	r := run{Evaluator: m.Evaluator, now: m.now}
	more := r.relate(due, read)
	m.related = r.related
	return more
}

// evaluate judges the records again, now that they are locked.
func (m *repairing) evaluate(due []store.DueRecord) (needs store.EvaluateNeeds, err error) {
	m.records, needs.Plans = nil, map[store.PlanRef][]key.Instance{}
	for _, d := range due {
		set, err := m.catalog.Loaded(d.Workspace, d.InForce)
		if err != nil {
			return needs, err
		}
		if m.match, m.rule = repaired(set, m.run.Subject); m.rule == nil || d.Err != nil {
			continue
		}
		found, before, ok := m.judge(set, d.RecordRow, m.related[d.Workspace])
		if !ok || found.Ahead.State.Fingerprint != before.Ahead.Fingerprint { // somebody looks at it
			continue
		}
		s := &seen{DueRecord: d, set: set, looks: []*evaluation{{Evaluation: found}}}
		m.records = append(m.records, s)
		needs.Plans[s.planRef(s.looks[0])] = keys(s.looks[0])
	}
	return needs, nil
}

// decide plans again what is missing.
func (m *repairing) decide(stored map[store.PlanRef]store.Plan) (made map[subject.WorkspaceID]store.IngestWrites, revived []instance.Row, err error) {
	r := &run{Evaluator: m.Evaluator, now: m.now, state: store.EvaluateState{Plans: stored}}
	d := decision{run: r, writes: store.EvaluateWrites{Made: map[subject.WorkspaceID]store.IngestWrites{}}}
	for _, s := range m.records {
		l := s.looks[0]
		of := stored[s.planRef(l)]
		for _, c := range missing(&l.Evaluation, of, m.now) {
			d.change(s, l, of, &c)
		}
	}
	m.entries = d.entries
	for i := range m.entries {
		m.entries[i].Reason = reason.Repaired
	}
	return d.writes.Made, d.writes.Planned, nil
}
