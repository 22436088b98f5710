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

// Observation says at which instant a record is looked at, and what was known of it before.
type Observation struct {
	Now         time.Time
	EvaluateAt  time.Time   // since when it has to be looked at
	EvaluatedAt time.Time   // when it was last; none: never
	Meter       *expr.Meter // of what is evaluated in one transaction; nil: nobody asks
}

// Evaluation is what one trigger sees of a record.
type Evaluation struct {
	Workflow *definition.Workflow
	Trigger  *definition.Trigger
	Rule     condition.Rule
	condition.Outcome
	Ticked bool         // a tick of its interval is due
	Judged []Judged     // what was judged, in the order of the issues
	Failed *expr.Clause // the first line that could not be evaluated, of an issue that is not met

	// The rest is set when issues fire, that is when Outcome.Issues is not empty.
	Context  string        // by which gate 1 knows it
	Cooldown time.Duration // least time between two firings of the context
	Missing  []string      // parts of a context that several records may share, without a value: they count as empty
	Due      time.Time     // when the message is
	Err      error         // the context could not be computed, so that nothing fires

	Ahead *Ahead // of a trigger that plans ahead; nil = it does not

	fields map[string]any // that it read of the record
}

// Fields are what expressions read of the record that was looked at.
func (l *Evaluation) Fields() map[string]any { return l.fields }

// Judged is the judgement of one condition of a trigger.
type Judged struct {
	Issue   string // empty for a trigger with a single condition
	Met     bool
	Clauses []expr.Clause
}

// Fires reports whether something is to be said, if gate 1 lets it.
func (l *Evaluation) Fires() bool { return len(l.Outcome.Issues) > 0 && l.Err == nil }

// Issues are the names of what fires, for texts and contexts; a single condition has none.
func (l *Evaluation) Issues() []string {
	if len(l.Trigger.Issues) == 0 {
		return nil
	}
	return l.Outcome.Issues
}

// RuleOf says how a trigger wants its conditions looked at.
func RuleOf(t *definition.Trigger) condition.Rule {
	return condition.Rule{
		For: t.For, Change: t.Check.Change, Every: t.Check.Every, Reset: t.Cooldown != nil && t.Cooldown.ResetOnClear,
	}
}

// Record looks at a record with every trigger of its type, in the set's order. States are what they remember of it; the
// new ones are in the outcomes. Of a record that is closed or deleted nothing is met, and so of a trigger that is
// switched off.
func Record(set *definition.Set, rec subject.Record, kin Related, states condition.States, g Observation, zones *civil.Zones) []Evaluation {
	matches := set.ByRecord(rec.Type)
	if len(matches) == 0 {
		return nil
	}
	v := seeing{set: set, rec: rec, states: states, glance: g, fields: kin.Fields(set, rec), zones: zones}
	looks := make([]Evaluation, len(matches))
	for i, m := range matches {
		looks[i] = v.look(m)
	}
	return looks
}

// Due looks at a record with one trigger, because something that it planned is due (R14).
func Due(set *definition.Set, m definition.Match, rec subject.Record, kin Related, states condition.States, g Observation, zones *civil.Zones) Evaluation {
	v := seeing{set: set, rec: rec, states: states, glance: g, fields: kin.Fields(set, rec), zones: zones}
	return v.look(m)
}

// seeing is a record that triggers look at.
type seeing struct {
	set    *definition.Set
	rec    subject.Record
	states condition.States
	glance Observation
	fields map[string]any
	zones  *civil.Zones
}

func (v *seeing) look(m definition.Match) Evaluation {
	own, _ := v.rec.Props["timezone"].(string)
	in := Input(v.set, m.Workflow, nil, v.glance.Now)
	in.Record, in.Zone, in.Meter = v.fields, recordZone(v.set, own, v.zones), v.glance.Meter
	l := Evaluation{Workflow: m.Workflow, Trigger: m.Trigger, Rule: RuleOf(m.Trigger), fields: v.fields}
	seen := condition.Observation{
		Now: v.glance.Now, Tick: condition.DueTick(l.Rule.Every, v.glance.Now, v.glance.EvaluatedAt, v.glance.EvaluateAt), Gone: gone(m, v.rec),
	}
	if !seen.Gone {
		l.judge(&seen, in)
	}
	l.Ticked = !seen.Tick.IsZero()
	before := v.states[condition.Name(m.Workflow.Name, m.Trigger.ID)]
	l.Outcome = before.Evaluate(l.Rule, seen)
	switch planned := before.Ahead.Fingerprint != "" || before.Ahead.By != ""; {
	case !m.Trigger.Ahead() && planned: // it did, before it was edited
		a := goneAhead(m.Trigger, reason.RuleChanged, before.Ahead)
		l.Ahead, l.State.Ahead = &a, a.State
	case m.Trigger.Ahead():
		ahead := view{
			set: v.set, trigger: m, typ: v.rec.Type, id: v.rec.ExtID, own: own, in: in, fresh: v.glance.EvaluatedAt.IsZero(), zones: v.zones,
		}
		l.planned(&ahead, before, &seen)
	}
	if len(l.Outcome.Issues) > 0 {
		l.fire(v.set, in)
	}
	l.Lapse(l.Rule, l.Context)
	return l
}

// gone reports whether a trigger sees nothing of a record.
func gone(m definition.Match, rec subject.Record) bool {
	return rec.Closed || rec.Deleted || !m.Workflow.Enabled || !m.Trigger.Enabled
}

// issuesOf are the conditions of a trigger; a single one has no name, those of a metric have the names of its thresholds.
func issuesOf(t *definition.Trigger) []definition.Issue {
	switch {
	case t.Metric != nil:
		issues := make([]definition.Issue, len(t.Metric.Thresholds))
		for i, at := range t.Metric.Thresholds {
			issues[i] = definition.Issue{Name: at.Name, When: at.When}
		}
		return issues
	case len(t.Issues) > 0:
		return t.Issues
	case t.When == nil: // by a date alone
		return []definition.Issue{{When: always()}}
	}
	return []definition.Issue{{When: t.When}}
}

// judge finds what is met, and when time alone may change that.
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
		flip, exact := issue.When.NextLook(in)
		noteFlip(seen, flip, exact)
	}
	if stop := l.Trigger.StopWhen; stop != nil {
		flip, exact := stop.NextLook(in)
		noteFlip(seen, flip, exact)
	}
	slices.Sort(seen.Met)
}

// failedLine is the first line that could not be evaluated.
func failedLine(clauses []expr.Clause) *expr.Clause {
	for i, c := range clauses {
		if c.Reason == reason.ExpressionFailed || c.Reason == reason.CostExceeded {
			return &clauses[i]
		}
	}
	return nil
}

// noteFlip notes when time alone may change one of the answers, if that can be said.
func noteFlip(seen *condition.Observation, flip time.Time, exact bool) {
	seen.Bound = seen.Bound || !exact
	if !flip.IsZero() && (seen.Flip.IsZero() || flip.Before(seen.Flip)) {
		seen.Flip = flip
	}
}

// fire names what fires.
func (l *Evaluation) fire(set *definition.Set, in expr.Input) {
	t := l.Trigger
	in.Issues = l.Issues()
	parts := make([]any, 0, len(t.Cooldown.Per))
	for _, part := range t.Cooldown.Per {
		value, err := part.Eval(in)
		if err != nil {
			l.Err = fmt.Errorf("cooldown: per: %s: %w", part.Source(), err)
			return
		}
		if value == nil && !t.Cooldown.OfRecord() {
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

// Key names the instance of what fires.
func (l *Evaluation) Key(rec subject.Record) key.Instance {
	return key.Context(l.Workflow.Type, l.Workflow.Name, rec.Type, rec.ExtID, l.Trigger.ID, l.Context, l.At, false)
}

// ResolvedKey names the instance of what is said when an episode is over (R9).
func (l *Evaluation) ResolvedKey(rec subject.Record) key.Instance {
	return key.Context(l.Workflow.Type, l.Workflow.Name, rec.Type, rec.ExtID, l.Trigger.ID, l.Latest.Context, l.Latest.At, true)
}

// recordZone is where the dates of a record are meant: in its own zone, if it names one, else in the workspace's.
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
