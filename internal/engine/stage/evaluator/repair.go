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
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// An evaluation compares what a record asks for with what it asked for at the last evaluation, not with what is stored. So it does not notice rows
// that somebody deleted, or that a restored copy lacks. A repair does. Its job goes over the records of a trigger, a page at a time and after all
// other work. It reads without locks what is stored for the records that were written since the last repair or that ask for something due soon. The
// transaction that advances the job plans missing rows again under the same keys, and revives rows that were withdrawn although the record asks for
// them. Nothing else changes, and nothing is sent; a cancellation by a person stays (product decision 23).

// overlap is how far before the start of the last repair the job begins: a write may have been committed late.
const overlap = 5 * time.Minute

// mostRepairs bounds how many jobs begin in one transaction.
const mostRepairs = 100

// beginRepairs begins the repair jobs that are due. A job that still runs replaces the next one.
func (c *Evaluator) beginRepairs(ctx context.Context, now time.Time) error {
	if due, err := c.store.RepairsDue(ctx, now); err != nil || !due {
		return err
	}
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		due, err := tx.DueRepairs(now, mostRepairs)
		if err != nil {
			return err
		}
		var begun []job.Row
		for _, r := range due {
			if !r.Running {
				begun = append(begun, job.New(r.Workspace, job.Seed{Kind: job.Reconcile, Subject: r.Subject(), Since: r.Since}, r.Definitions, now))
			}
		}
		if _, err := tx.AddJobs(now, begun); err != nil {
			return err
		}
		return tx.PutOffRepairs(now, due)
	})
	if err != nil {
		return fmt.Errorf("begin repairs: %w", err)
	}
	return nil
}

// repair advances a repair job by one page. done is the number of records of that page.
func (c *Evaluator) repair(ctx context.Context, now time.Time, j job.Row) (done int, err error) {
	calls := &expr.Calls{}
	_, err = c.loaded(ctx, "repair what is planned", 1, func(int) (int, []journal.Entry, error) {
		set, err := c.catalog.Current(ctx, j.Workspace)
		if err != nil {
			return 0, nil, fmt.Errorf("judge records: %w", err)
		}
		m := repairing{Evaluator: c, now: now, job: j, meter: expr.Meter{Calls: calls}}
		m.match, m.rule = repaired(set, j.Subject)
		p := repairPage{Step: job.Step{Cursor: j.Cursor, End: true}}
		if m.rule != nil { // else the apply that removed it has cancelled the job
			if p, err = m.page(ctx, set); err != nil {
				return 0, nil, err
			}
		}
		done = p.Done
		err = c.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error { return m.advance(tx, p) })
		return 1, m.entries, err
	})
	if err != nil {
		return 0, err
	}
	return done, nil
}

// repaired returns the trigger of a job and its repair rule; nil if it is defined no longer.
func repaired(set *definition.Set, name string) (m definition.Match, rule *definition.Reconcile) {
	workflow, trigger, _ := strings.Cut(name, "/")
	if m.Workflow = set.Workflow(workflow); m.Workflow == nil {
		return m, nil
	}
	if m.Trigger = m.Workflow.TriggerByID(trigger); m.Trigger == nil || m.Trigger.OnPlan() == nil {
		return m, nil
	}
	return m, m.Trigger.OnPlan().Reconcile
}

// repairing is one attempt of a repair step; its functions may be called again from the beginning.
type repairing struct {
	*Evaluator
	now     time.Time
	job     job.Row
	match   definition.Match
	rule    *definition.Reconcile
	records []*seen
	entries []journal.Entry
	meter   expr.Meter // of one page
}

// repairPage is what a page of a job finds.
type repairPage struct {
	job.Step
	marks   []subject.RecordID // records to evaluate, which plans what they lack
	lacking []subject.RecordID // records whose rows are missing, in the order of their ids
}

// page reads the next records and finds those that lack rows. Records that ask for something else than at their last evaluation are evaluated, which
// plans them.
func (m *repairing) page(ctx context.Context, set *definition.Set) (found repairPage, err error) {
	page, err := m.read(ctx, set, m.job.Workspace, m.match.Trigger.Watch().Record, m.job.Cursor, m.rule.Batch)
	if err != nil {
		return found, err
	}
	found.Step = job.Step{Cursor: page.end(), Done: len(page.records), End: !page.full}
	if m.job.Total == 0 {
		if found.Total = found.Done; page.full {
			if found.Total, err = m.store.CountRecords(ctx, m.job.Workspace, m.match.Trigger.Watch().Record); err != nil {
				return found, err
			}
		}
	}
	evals, wanted := map[store.PlanRef]*plan.Evaluation{}, map[store.PlanRef][]key.Instance{}
	m.meter.Steps = 0
	for i, r := range page.records {
		if i > 0 && m.meter.Full() { // records that lack rows are judged again in one transaction
			found.Cursor, found.Done, found.End = int64(page.records[i-1].ID), i, false
			break
		}
		row := r.RecordRow
		if row.Props, err = propsOf(r.PropsJSON); err != nil {
			continue // its evaluation reports the error
		}
		eval, before, ok := m.judge(set, row, page.related)
		switch {
		case !ok:
		case eval.Ahead.State.Fingerprint != before.Ahead.Fingerprint:
			found.marks = append(found.marks, row.ID)
		default:
			if known := m.concerns(&eval, row); len(known) > 0 || ofPeople(&eval) {
				ref := planRef(m.job.Workspace, row.ID, &eval)
				evals[ref], wanted[ref] = &eval, known
			}
		}
	}
	if err := m.meter.Calls.Wanted(); err != nil {
		return found, err
	}
	if len(wanted) == 0 {
		return found, nil
	}
	stored, err := m.store.PlansOf(ctx, wanted)
	if err != nil {
		return found, fmt.Errorf("look for missing rows: %w", err)
	}
	for ref, eval := range evals {
		if len(missing(eval, stored[ref], m.now)) > 0 {
			found.lacking = append(found.lacking, ref.Record)
		}
	}
	slices.Sort(found.lacking)
	return found, nil
}

func propsOf(text string) (props map[string]any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&props); err != nil {
		return nil, fmt.Errorf("read the fields of a record: %w", err)
	}
	return props, nil
}

// judge returns what the trigger wants for a record; not ok: this cannot be determined, or the repair skips the record.
func (m *repairing) judge(set *definition.Set, row store.RecordRow, related plan.Related) (eval plan.Evaluation, before condition.State, ok bool) {
	states, err := condition.Parse(row.State)
	if err != nil || row.Closed || row.Deleted || !m.match.Workflow.Enabled || !m.match.Trigger.Enabled {
		return eval, before, false
	}
	before = states[condition.Name(m.match.Workflow.Name, m.match.Trigger.ID)]
	eval = plan.Due(set, m.match, row.Record, related, states, plan.Observation{Now: m.now, EvaluateAt: m.now, EvaluatedAt: row.EvaluatedAt, Meter: &m.meter}, &m.catalog.Zones)
	if eval.Ahead == nil || !eval.Ahead.Known || len(eval.Ahead.Desired) == 0 && !ofPeople(&eval) {
		return eval, before, false
	}
	if m.rule.Where != nil {
		in := plan.Input(set, m.match.Workflow, nil, m.now)
		in.Record, in.Places, in.Meter = eval.Fields(), eval.Places, &m.meter
		if !m.rule.Where.Holds(in) {
			return eval, before, false
		}
	}
	return eval, before, true
}

// ofPeople reports whether single people may have courses of their own, which go on when that of everybody is over.
func ofPeople(eval *plan.Evaluation) bool {
	return eval.Ahead.Course != nil && eval.Ahead.Course.Fresh()
}

// concerns returns the keys of a record's desired occurrences that the job covers; none if an earlier repair covered the record and nothing is due
// soon.
func (m *repairing) concerns(eval *plan.Evaluation, row store.RecordRow) (keys []key.Instance) {
	concerned := !row.UpdatedAt.Before(m.job.Since.Add(-overlap))
	for _, i := range eval.Ahead.Desired {
		keys = append(keys, i.Key)
		soon := i.Due.IsZero() || !i.Due.After(m.now.Add(m.rule.DueWithin)) && !m.match.Trigger.Timing.Stale(m.now, i.Ends(i.Due))
		concerned = concerned || soon
	}
	if !concerned {
		return nil
	}
	return keys
}

// missing returns the changes of a repair: desired rows that are not stored or were withdrawn. It leaves out rows that would only be stored as too
// late.
func missing(eval *plan.Evaluation, stored store.Plan, now time.Time) (changes []plan.Change) {
	know(eval, stored)
	for _, c := range eval.Diff(standing(stored), plan.ByRepair, now) {
		if c.Effect != plan.Inserted && c.Effect != plan.Reactivated || c.Row.Status != instance.Pending || stored.Spent[c.Desired.Key] {
			continue
		}
		changes = append(changes, c)
	}
	return changes
}

// advance plans what the records lack, and advances the job.
func (m *repairing) advance(tx *store.Tx, p repairPage) (err error) {
	m.entries = nil
	if p.Changed, err = m.plan(tx, p.lacking); err != nil {
		return err
	}
	if err := tx.MarkRecords(m.job.Workspace, m.now, p.marks); err != nil {
		return err
	}
	if p.End {
		if err := tx.EndRepair(m.job); err != nil {
			return err
		}
	}
	return tx.SaveJobs(m.now, m.job.Advance(p.Step, m.now))
}

// plan plans what records lack, and returns how many rows that were.
func (m *repairing) plan(tx *store.Tx, lacking []subject.RecordID) (planned int, err error) {
	if len(lacking) == 0 {
		return 0, nil
	}
	records, err := tx.RecordsToEvaluate(m.job.Workspace, lacking)
	if err != nil {
		return 0, err
	}
	read, err := related.Read(tx, withRelations(m.catalog, records))
	if err != nil {
		return 0, err
	}
	wanted, err := m.evaluate(records, read.ByWorkspace())
	if err != nil {
		return 0, err
	}
	_, plans, err := tx.LockOccasions(nil, wanted)
	if err != nil {
		return 0, err
	}
	r := &run{Evaluator: m.Evaluator, now: m.now, state: store.EvaluateState{Plans: plans}}
	made, revived := m.decide(r)
	planned = len(revived)
	for _, writes := range made {
		planned += len(writes.Instances)
	}
	if err := tx.WritePlanned(m.now, made, revived); err != nil {
		return 0, err
	}
	next, err := r.follow(tx)
	for i := range r.entries {
		r.entries[i].Reason = reason.Repaired
	}
	m.entries = r.entries
	return planned + len(next), err
}

// evaluate judges the records again under their locks.
func (m *repairing) evaluate(due []store.DueRecord, related map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record) (map[store.PlanRef][]key.Instance, error) {
	m.records = nil
	plans := map[store.PlanRef][]key.Instance{}
	for _, d := range due {
		set, err := m.catalog.Loaded(d.Workspace, d.InForce)
		if err != nil {
			return nil, err
		}
		if m.match, m.rule = repaired(set, m.job.Subject); m.rule == nil || d.Err != nil {
			continue
		}
		found, before, ok := m.judge(set, d.RecordRow, related[d.Workspace])
		if !ok || found.Ahead.State.Fingerprint != before.Ahead.Fingerprint { // somebody else evaluates it
			continue
		}
		s := &seen{DueRecord: d, set: set, evals: []*evaluation{{Evaluation: found}}}
		m.records = append(m.records, s)
		plans[s.planRef(s.evals[0])] = keys(s.evals[0])
	}
	return plans, m.meter.Calls.Wanted()
}

// decide plans the missing rows again.
func (m *repairing) decide(r *run) (made map[subject.WorkspaceID]store.OccasionWrites, revived []instance.Row) {
	d := decision{run: r, writes: store.EvaluateWrites{Made: map[subject.WorkspaceID]store.OccasionWrites{}}}
	for _, s := range m.records {
		l := s.evals[0]
		of := r.state.Plans[s.planRef(l)]
		for _, c := range missing(&l.Evaluation, of, m.now) {
			d.change(s, l, of, &c)
		}
	}
	return d.writes.Made, d.writes.Planned
}
