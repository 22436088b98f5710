package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// maxContext bounds a context in bytes: it is part of keys, which an index of the database has to hold.
const maxContext = 1000

// Observation holds the instant of an evaluation of a record, and when the record was evaluated and due before.
type Observation struct {
	Now         time.Time
	EvaluateAt  time.Time   // since when the record has been due for evaluation
	EvaluatedAt time.Time   // when it was last evaluated; none: never
	Meter       *expr.Meter // counts what one transaction evaluates; nil: not counted
}

// Evaluation is the result of evaluating one trigger on a record.
type Evaluation struct {
	Workflow *definition.Workflow
	Trigger  *definition.Trigger
	Rule     condition.Rule
	condition.Outcome
	Ticked bool         // a tick of its interval is due
	Judged []Judged     // the conditions that were evaluated, in the order of the issues
	Failed *expr.Clause // the first line that could not be evaluated in an issue that is not met

	// The fields from here to Err are set when issues fire, that is when Outcome.Issues is not empty.
	Context  string        // the context by which gate 1 counts the cooldown
	Cooldown time.Duration // least time between two firings of the context
	Missing  []string      // context parts without a value, which count as empty, in a context that several records may share
	Due      time.Time     // when the message is due
	Err      error         // the context could not be computed, so that nothing fires

	Ahead *Ahead // the plan of a trigger that plans ahead; nil: it does not

	fields map[string]any             // of the record, as expressions read them
	places func(name string) []string // the places above those that the record names
}

// Places returns the name of a place that the evaluated record names and those of the places above it.
func (l *Evaluation) Places(name string) []string { return l.places(name) }

// Fields returns what expressions read from the evaluated record.
func (l *Evaluation) Fields() map[string]any { return l.fields }

// Judged is the result of one condition of a trigger.
type Judged struct {
	Issue   string // empty for a trigger with a single condition
	Met     bool
	Clauses []expr.Clause
}

// Fires reports whether a context fires, if gate 1 permits it.
func (l *Evaluation) Fires() bool { return len(l.Outcome.Issues) > 0 && l.Err == nil }

// Issues returns the names of the issues that fire, for texts and contexts; a single condition has none.
func (l *Evaluation) Issues() []string {
	if c := l.Trigger.OnCondition(); c == nil || len(c.Issues) == 0 {
		return nil
	}
	return l.Outcome.Issues
}

// RuleOf returns how a trigger has its conditions evaluated.
func RuleOf(t *definition.Trigger) condition.Rule {
	w, c := t.Watch(), t.OnCondition()
	return condition.Rule{For: w.For, Change: w.Check.Change, Every: w.Check.Every, Reset: c != nil && c.Cooldown.ResetOnClear}
}

// Record evaluates every trigger for the record's type, in the set's order. States are what the triggers remember about the record;
// the outcomes hold the new ones. No condition is met on a record that is closed or deleted, or for a trigger that is switched off.
func Record(set *definition.Set, rec subject.Record, related Related, states condition.States, g Observation, zones *civil.Zones) []Evaluation {
	matches := set.ByRecord(rec.Type)
	if len(matches) == 0 {
		return nil
	}
	v := evaluator{set: set, rec: rec, related: related, states: states, obs: g, fields: related.Fields(set, rec), zones: zones}
	evaluations := make([]Evaluation, len(matches))
	for i, m := range matches {
		evaluations[i] = v.evaluate(m)
	}
	return evaluations
}

// Due evaluates one trigger on a record because an occasion that it planned is due (R14).
func Due(set *definition.Set, m definition.Match, rec subject.Record, related Related, states condition.States, g Observation, zones *civil.Zones) Evaluation {
	v := evaluator{set: set, rec: rec, related: related, states: states, obs: g, fields: related.Fields(set, rec), zones: zones}
	return v.evaluate(m)
}

// evaluator evaluates triggers on one record.
type evaluator struct {
	set     *definition.Set
	rec     subject.Record
	related Related
	states  condition.States
	obs     Observation
	fields  map[string]any
	zones   *civil.Zones
}

func (v *evaluator) evaluate(m definition.Match) Evaluation {
	own, _ := v.rec.Props["timezone"].(string)
	in := Input(v.set, m.Workflow, nil, v.obs.Now)
	in.Places = v.related.Path
	in.Record, in.Zone, in.Meter = v.fields, recordZone(v.set, own, v.zones), v.obs.Meter
	l := Evaluation{Workflow: m.Workflow, Trigger: m.Trigger, Rule: RuleOf(m.Trigger), fields: v.fields, places: v.related.Path}
	seen := condition.Observation{
		Now: v.obs.Now, Tick: condition.DueTick(l.Rule.Every, v.obs.Now, v.obs.EvaluatedAt, v.obs.EvaluateAt), Gone: gone(m, v.rec),
	}
	if !seen.Gone {
		l.judge(&seen, in)
	}
	l.Ticked = !seen.Tick.IsZero()
	before := v.states[condition.Name(m.Workflow.Name, m.Trigger.ID)]
	l.Outcome = before.Evaluate(l.Rule, seen)
	plan, planned := m.Trigger.OnPlan(), before.Ahead.Fingerprint != "" || before.Ahead.By != ""
	switch {
	case plan == nil && planned: // it planned ahead before it was edited
		a := goneAhead(m.Trigger, reason.RuleChanged, before.Ahead)
		l.Ahead, l.State.Ahead = &a, a.State
	case plan != nil:
		ahead := view{
			set: v.set, trigger: m, plan: plan, typ: v.rec.Type, id: v.rec.ExtID, own: own, in: in, fresh: v.obs.EvaluatedAt.IsZero(), zones: v.zones,
			person: v.related.zoneOf(plan.Dates.Person, v.rec.ExtID, own, v.rec.Props, v.zones),
		}
		l.planned(&ahead, before, &seen)
	}
	if len(l.Outcome.Issues) > 0 {
		l.fire(v.set, in)
	}
	l.Lapse(l.Rule, l.Context)
	return l
}

// gone reports whether a trigger ignores a record: the record is closed or deleted, or the trigger or its workflow is switched off.
func gone(m definition.Match, rec subject.Record) bool {
	return rec.Closed || rec.Deleted || !m.Workflow.Enabled || !m.Trigger.Enabled
}

// issuesOf returns the conditions of a trigger. A single condition has no name; those of a metric have the names of its thresholds.
func issuesOf(t *definition.Trigger) []definition.Issue {
	plan, alert := t.OnPlan(), t.OnCondition()
	switch {
	case plan != nil && plan.Metric != nil:
		issues := make([]definition.Issue, len(plan.Metric.Thresholds))
		for i, at := range plan.Metric.Thresholds {
			issues[i] = definition.Issue{Name: at.Name, When: at.When}
		}
		return issues
	case alert != nil && len(alert.Issues) > 0:
		return alert.Issues
	case t.When == nil: // triggered by a date alone
		return []definition.Issue{{When: always()}}
	}
	return []definition.Issue{{When: t.When}}
}

// judge evaluates the conditions, and finds when time alone may change their results.
func (l *Evaluation) judge(seen *condition.Observation, in expr.Input) {
	for _, issue := range issuesOf(l.Trigger) {
		v := issue.When.Judge(in)
		l.Judged = append(l.Judged, Judged{Issue: issue.Name, Met: v.Met, Clauses: v.Clauses})
		if v.Met {
			seen.Met = append(seen.Met, issue.Name)
		}
		if c := failedLine(v.Clauses); c != nil && !v.Met && issue.When.Fails(in) {
			if seen.Failed = append(seen.Failed, issue.Name); l.Failed == nil {
				l.Failed = c
			}
		}
		flip, exact := issue.When.NextChange(in)
		noteFlip(seen, flip, exact)
	}
	if stop := l.Trigger.StopWhen; stop != nil {
		flip, exact := stop.NextChange(in)
		noteFlip(seen, flip, exact)
	}
	slices.Sort(seen.Met)
}

// failedLine returns the first line that could not be evaluated, or nil.
func failedLine(clauses []expr.Clause) *expr.Clause {
	for i, c := range clauses {
		if c.Reason == reason.ExpressionFailed || c.Reason == reason.CostExceeded {
			return &clauses[i]
		}
	}
	return nil
}

// noteFlip records when time alone may change a condition's result, or that this cannot be computed.
func noteFlip(seen *condition.Observation, flip time.Time, exact bool) {
	seen.Bound = seen.Bound || !exact
	if !flip.IsZero() && (seen.Flip.IsZero() || flip.Before(seen.Flip)) {
		seen.Flip = flip
	}
}

// fire computes the context, the cooldown and the due instant of the issues that fire.
func (l *Evaluation) fire(set *definition.Set, in expr.Input) {
	t, cooldown := l.Trigger, &l.Trigger.OnCondition().Cooldown
	in.Issues = l.Issues()
	parts := make([]any, 0, len(cooldown.Per))
	for _, part := range cooldown.Per {
		value, err := part.Eval(in)
		if err != nil {
			l.Err = fmt.Errorf("cooldown: per: %s: %w", part.Source(), err)
			return
		}
		if value == nil && !cooldown.OfRecord() {
			l.Missing = append(l.Missing, part.Source())
		}
		parts = append(parts, value)
	}
	if l.Context, l.Err = key.ContextText(t.ID, parts); len(l.Context) > maxContext {
		l.Context, l.Err = "", fmt.Errorf("cooldown: per: what makes a context is longer than %d bytes: name shorter fields", maxContext)
	}
	l.Cooldown = definition.CooldownOf(set, t, l.Issues())
	l.Due = t.Timing.NotBefore(in.Now)
}

// Key returns the key of the instance that fires.
func (l *Evaluation) Key(rec subject.Record) key.Instance {
	return key.Context(l.Workflow.Type, l.Workflow.Name, rec.Type, rec.ExtID, l.Trigger.ID, l.Context, l.At, false)
}

// ResolvedKey returns the key of the instance that reports the end of an episode (R9).
func (l *Evaluation) ResolvedKey(rec subject.Record) key.Instance {
	return key.Context(l.Workflow.Type, l.Workflow.Name, rec.Type, rec.ExtID, l.Trigger.ID, l.Latest.Context, l.Latest.At, true)
}

// recordZone returns the zone of a record's dates: its own zone, if it names a valid one, else the workspace's.
func recordZone(set *definition.Set, own string, zones *civil.Zones) *time.Location {
	for _, name := range []string{own, set.Workspace.Timezone} {
		if name == "" {
			continue
		}
		if loc, err := zones.Load(name); err == nil {
			return loc
		}
	}
	return time.UTC
}
