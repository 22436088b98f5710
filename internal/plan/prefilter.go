package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// Prefilter finds the records of one type that an evaluation would change, so that a backfill writes only to those. It evaluates as
// Record does, but keeps no reasons and reads only the fields that conditions name. It is for one goroutine.
type Prefilter struct {
	set     *definition.Set
	zones   *civil.Zones
	matches []watched
	all     bool // every field is wanted
	picker  fieldPicker
	own     []string       // the wanted fields that every record has
	extra   int            // bytes that conditions can read in addition to the fields
	fields  map[string]any // of the record that is being evaluated
	in      expr.Input
	// Related are the records that the records of the page name.
	Related   Related
	relations []definition.Relation
	zoneOf    string // the name of the zone in the input
}

// watched is a trigger with the values that are the same for all records.
type watched struct {
	definition.Match
	name   string // the name of its state
	rule   condition.Rule
	issues []definition.Issue
}

// ownBytes exceeds the size of the fields that every record has.
const ownBytes = 4 << 10

// NewPrefilter makes the prefilter for a type of record.
func NewPrefilter(set *definition.Set, typ string, zones *civil.Zones) *Prefilter {
	s := &Prefilter{set: set, zones: zones, picker: fieldPicker{wanted: map[string]bool{"timezone": true}}, extra: ownBytes, fields: map[string]any{}}
	s.in, s.relations = Input(set, &definition.Workflow{}, nil, time.Time{}), set.Relations(typ)
	for _, m := range set.ByRecord(typ) {
		w := watched{Match: m, name: condition.Name(m.Workflow.Name, m.Trigger.ID), rule: RuleOf(m.Trigger), issues: issuesOf(m.Trigger)}
		s.matches = append(s.matches, w)
		for _, path := range readsOf(m.Trigger, w.issues) {
			s.want(path)
		}
		if vars, err := json.Marshal(m.Workflow.Vars); err == nil {
			s.extra = max(s.extra, ownBytes+len(vars))
		} else {
			s.extra = math.MaxInt32
		}
	}
	for _, name := range alertNames() {
		if s.picker.wanted[name] {
			s.own = append(s.own, name)
		}
	}
	return s
}

// readsOf returns the paths that the conditions and dates of a trigger read.
func readsOf(t *definition.Trigger, issues []definition.Issue) (paths []expr.Path) {
	conditions, programs := []*expr.Condition{t.StopWhen}, []*expr.Program{}
	for _, issue := range issues {
		conditions = append(conditions, issue.When)
	}
	if plan := t.OnPlan(); plan != nil {
		programs = append(programs, t.Anchor, plan.Dates.At.From)
		if p := plan.Dates.Person; p != nil && p.Field != "" {
			paths = append(paths, expr.Path{"record", p.Field})
		}
		for _, z := range plan.Dates.Zones {
			programs = append(programs, z.From)
		}
		if plan.Course != nil {
			programs = append(programs, plan.Course.Programs()...)
		}
	}
	for _, c := range conditions {
		if c != nil {
			paths = append(paths, c.Paths()...)
		}
	}
	for _, p := range programs {
		if p != nil {
			paths = append(paths, p.Paths()...)
		}
	}
	return paths
}

// want adds a path that a condition reads.
func (s *Prefilter) want(path expr.Path) {
	switch {
	case path[0] != "record":
	case len(path) == 1 || path[1] == "props":
		s.all = true
	default:
		s.picker.wanted[path[1]] = true
	}
}

// Unchanged reports whether an evaluation of the record at g.Now would change nothing: no context fires, ends or lapses, the state
// stays the same, and the next evaluation is at g.EvaluateAt already. It is true for a record that is due for evaluation, since that
// record is evaluated anyway. Props and state are as they are stored.
func (s *Prefilter) Unchanged(rec subject.Record, props, state string, g Observation) (bool, error) {
	if !g.EvaluateAt.IsZero() && !g.EvaluateAt.After(g.Now) {
		return true, nil
	}
	var states condition.States
	if state != "" {
		var err error
		if states, err = condition.Parse(state); err != nil {
			return false, fmt.Errorf("record %d: %w", rec.ID, err)
		}
	}
	for name, state := range states {
		if (state.Ahead.Fingerprint != "" || state.Ahead.By != "") && !slices.ContainsFunc(s.matches, func(w watched) bool { return w.name == name }) {
			return false, nil // a trigger that was removed has planned occasions
		}
	}
	if err := s.read(rec, props); err != nil {
		return false, err
	}
	planned := g.EvaluateAt
	g.EvaluateAt, s.in.Now = g.Now, g.Now
	var next time.Time
	var of *definition.Workflow
	for i := range s.matches {
		w := &s.matches[i]
		if w.Workflow != of {
			of = w.Workflow
			s.in.Vars, s.in.TemplateID = of.Vars, of.ExtID
		}
		at, unchanged := s.evaluate(w, states[w.name], rec, g, len(props)+s.extra)
		if !unchanged {
			return false, nil
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next.Equal(planned), nil
}

// read sets the fields of the record that the conditions read.
func (s *Prefilter) read(rec subject.Record, props string) error {
	clear(s.fields)
	s.in.Places = s.Related.Path
	if !s.all && s.picker.pick(props, s.fields) {
		s.readZone(s.fields["timezone"])
		for _, name := range s.own {
			s.fields[name] = ownField(rec, name)
		}
		if rec.Owner != "" && s.picker.wanted[expr.Owner] {
			s.fields[expr.Owner] = ownerFields(rec.Owner)
		}
		rec.Props = s.fields
		s.Related.relate(s.relations, s.fields, &rec)
		s.in.Record = s.fields
		return nil
	}
	d := json.NewDecoder(strings.NewReader(props))
	d.UseNumber()
	if err := d.Decode(&rec.Props); err != nil {
		return fmt.Errorf("fields of record %d: %w", rec.ID, err)
	}
	s.readZone(rec.Props["timezone"])
	s.in.Record = s.Related.Fields(s.set, rec)
	return nil
}

func (s *Prefilter) readZone(named any) {
	if own := expr.TextOf(named); s.in.Zone == nil || own != s.zoneOf {
		s.in.Zone, s.zoneOf = recordZone(s.set, own, s.zones), own
	}
}

// evaluate evaluates one trigger. It returns when the next evaluation is, and whether the state is unchanged and nothing fires.
func (s *Prefilter) evaluate(w *watched, before condition.State, rec subject.Record, g Observation, size int) (next time.Time, unchanged bool) {
	var seen condition.Observation
	gone := gone(w.Match, rec)
	if !gone {
		for i := range w.issues {
			issue := &w.issues[i]
			met, flip, exact := issue.When.Watch(&s.in, size)
			if met {
				seen.Met = append(seen.Met, issue.Name)
			}
			if !met && s.in.Failed() {
				seen.Failed = append(seen.Failed, issue.Name)
			}
			noteFlip(&seen, flip, exact)
		}
	}
	plan := w.Trigger.OnPlan()
	if stop := w.Trigger.StopWhen; stop != nil && !gone {
		_, flip, exact := stop.Watch(&s.in, size)
		noteFlip(&seen, flip, exact)
	}
	if len(seen.Met)+len(seen.Failed) == 0 && before.Idle(w.rule) && counted(w.Match, before.Ahead, rec) { // most records: this is cheaper than a full evaluation
		if gone {
			return next, true
		}
		return w.rule.Rest(g.Now, seen.Flip, seen.Bound), true
	}
	slices.Sort(seen.Met)
	seen.Now, seen.Gone, seen.Tick = g.Now, gone, condition.DueTick(w.rule.Every, g.Now, g.EvaluatedAt, g.EvaluateAt)
	o := before.Evaluate(w.rule, seen)
	if plan != nil {
		l := Evaluation{Workflow: w.Workflow, Trigger: w.Trigger, Rule: w.rule, Outcome: o}
		v := view{
			set: s.set, trigger: w.Match, plan: plan, typ: rec.Type, id: rec.ExtID, own: s.zoneOf, in: s.in, fresh: g.EvaluatedAt.IsZero(), zones: s.zones,
			person: s.Related.zoneOf(plan.Dates.Person, rec.ExtID, s.zoneOf, s.in.Record, s.zones),
		}
		l.planned(&v, before, &seen)
		return l.EvaluateAt, l.State.Equal(before)
	}
	o.Lapse(w.rule, "")
	return o.EvaluateAt, before.Ahead.Fingerprint == "" && before.Ahead.By == "" && len(o.Issues) == 0 && o.State.Equal(before) // an episode that ends or a context that lapses changes the state
}
