package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
)

// Desired is an occasion that should exist for a record in its present state. Writes, edits, repairs, due instances and the
// simulator all compare desired occasions with the stored rows (B17).
type Desired struct {
	Key  key.Instance
	Due  time.Time  // none: at once
	Date civil.Date // the local date of Due; none when Due is none
	Zone string

	// Elsewhere is set when the occasion is due by the zone of each contact (R15): it is the zone of contacts that have none. Due is
	// then the first instant at which the occasion is due in any zone, and Zone is that zone.
	Elsewhere string

	Target    string         // the date or instant that the occasion is about, as in the key; empty: none
	Offset    civil.Duration // from Target
	Threshold string         // the threshold that is reached; empty without a metric
	Metric    float64        // the value of the metric, when Threshold is set

	Iteration int // number of the occasion since the schedule's first day, or of the course's round; 0: unknown

	Course   bool              // it is a message of a course
	Position schedule.Position // of a message of a course
	Dated    schedule.Dated    // what a message of a course is known by in its round
}

// Ahead is the plan of a trigger that plans ahead, for one record.
type Ahead struct {
	Known   bool // it was time for the trigger to evaluate; if false, the occasions that were desired before still are
	Desired []Desired
	Inputs  string        // hash of the inputs that the keys depend on but do not contain (product decision 20)
	Reason  reason.Reason // why no occasion is desired; empty when one is
	Field   string        // the missing field, or the expression that failed
	Error   string        // the error of that expression
	Refused []string      // sentences about occasions outside the calendar; the other occasions are desired
	State   condition.Ahead
	Course  *Course // the course that is desired; Desired has its next message. nil: none
	// People are those who have courses of their own, by their names in keys. The caller sets it, before it asks about rows of such courses.
	People map[string]Person
	// Continues is set if the trigger had a course before too, so that all that it has planned are messages of a course.
	Continues bool

	moved bool       // the date of the course's start has changed
	rule  civil.Rule // for local times that a zone skips or repeats
	zones *civil.Zones
	level *float64 // the metric, when it was not time for the trigger to evaluate; nil: none
}

// always returns a condition that is always true.
func always() *expr.Condition { return expr.AllOf() }

// view is what a trigger that plans ahead reads about a record.
type view struct {
	set     *definition.Set
	trigger definition.Match
	plan    *definition.OnPlan // of the trigger
	typ, id string             // of the record
	own     string             // its own zone
	person  string             // the zone of the contact whom the dates follow; empty: they follow none, or it is not known
	in      expr.Input
	fresh   bool // the record was never evaluated before
	zones   *civil.Zones
}

// ahead returns the plan for a record whose ripe issues have been met for long enough.
func (v *view) ahead(ripe []string, seen *condition.Observation, before condition.State) Ahead {
	t, met := v.trigger.Trigger, ripe
	a := Ahead{Known: true, State: before.Ahead, Inputs: t.Inputs(), rule: v.plan.Dates.Rule, zones: v.zones}
	if a.State.By, a.State.Level = "", nil; t.Crosses() {
		a.State = before.Ahead.Cross(v.height(ripe, seen), before.Since)
	}
	var err error
	switch {
	case len(met) == 0:
		a.Reason = reason.ConditionFalse // unless the evaluation of the condition gives another reason
	case t.StopWhen != nil && t.StopWhen.Holds(v.in):
		a.Reason, a.Field = reason.ConditionCleared, "stop_when"
	case v.plan.Course != nil:
		err = v.course(&a)
	case t.Anchor != nil:
		err = v.dates(&a)
	default:
		err = v.reached(&a, met)
	}
	if err != nil {
		a.Desired, a.Course, a.Reason, a.Error = nil, nil, reason.ExpressionFailed, err.Error()
		if failure := (*expr.Failure)(nil); errors.As(err, &failure) {
			a.Reason = failure.Reason
		}
	}
	a.State.Fingerprint = a.fingerprint()
	return a
}

// AsPlanned returns the occasion of a row that is due between two evaluations of its trigger: the occasion as planned, with the
// present metric.
func (l *Evaluation) AsPlanned(row instance.Row) (i Desired) {
	base, _ := key.Instance(row.Key).Everywhere().Base()
	i.Key, i.Zone = base, row.Timezone
	plan := l.Trigger.OnPlan()
	if l.Ahead.level == nil || plan == nil || plan.Metric == nil {
		return i
	}
	i.Metric, i.Threshold = *l.Ahead.level, key.ThresholdOf(base)
	for n, at := range plan.Metric.Thresholds { // the highest threshold that is reached represents all
		if key.ThresholdOf(base) == "" && (n == 0 || at.Value <= i.Metric) {
			i.Threshold = at.Name
		}
	}
	return i
}

// counted reports whether an evaluation would leave Ahead.By unchanged: crossings were counted by the trigger's present rules, or
// the trigger counts none and none were counted.
func counted(m definition.Match, before condition.Ahead, rec subject.Record) bool {
	switch {
	case !m.Workflow.Enabled || !m.Trigger.Enabled || !m.Trigger.Crosses():
		return before.By == ""
	case rec.Closed || rec.Deleted:
		return before.By == condition.Afresh
	}
	return before.By == m.Trigger.Crossing().Rules
}

// goneAhead returns the empty plan for a record that is closed or deleted, or for a trigger that is switched off or removed.
func goneAhead(t *definition.Trigger, why reason.Reason, before condition.Ahead) Ahead {
	a := Ahead{Known: true, State: before, Inputs: t.Inputs(), Reason: why}
	a.State.Level, a.State.Fingerprint = nil, ""
	switch {
	case why != reason.RecordClosed:
		a.State.By = "" // the thresholds that are reached when it is switched on again are the baseline (R11)
	case t.Crosses(): // also when the trigger is new or edited: a closed record has reached nothing
		a.State.By, a.State.Over = condition.Afresh, nil
	default:
		a.State.By, a.State.Over = "", nil
	}
	return a
}

// fingerprint identifies the desired occasions and what is wrong with them. It is empty when there are none and nothing is wrong.
func (a *Ahead) fingerprint() string {
	if len(a.Desired) == 0 && a.Error == "" && len(a.Refused) == 0 && a.Course == nil {
		return ""
	}
	h := sha256.New()
	if a.Course != nil { // which message is the next one changes without an evaluation
		fmt.Fprintln(h, a.Course.print)
	}
	for _, i := range a.Desired {
		if i.Course {
			break
		}
		fmt.Fprintf(h, "%s %d %s\n", i.Key, i.Due.UnixMicro(), i.Zone)
		if i.Elsewhere != "" {
			fmt.Fprintf(h, "%s %v\n", i.Elsewhere, a.rule)
		}
	}
	fmt.Fprintf(h, "%s %s", a.Inputs, a.Error)
	for _, refused := range a.Refused {
		fmt.Fprintf(h, "\n%s", refused)
	}
	const enough = 8 // bytes
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

// wrong returns in words why occasions could not be planned, or "" when all could.
func (a *Ahead) wrong() string {
	if a.Error != "" {
		return a.Error
	}
	return strings.Join(a.Refused, "; ")
}

// dates adds the occasions of a date: one for each offset (B34).
func (v *view) dates(a *Ahead) error {
	t := v.trigger.Trigger
	value, err := t.Anchor.Eval(v.in)
	if err != nil {
		a.Field = t.Anchor.Source()
		return fmt.Errorf("timing: anchor: %w", err)
	}
	if value == nil {
		a.Reason, a.Field = reason.ValueMissing, t.Anchor.Source()
		return nil
	}
	zone, loc, err := v.zone()
	if err != nil {
		a.Field = "timing.timezone"
		return fmt.Errorf("timing: timezone: %w", err)
	}
	clock, err := v.clock()
	if err != nil {
		a.Field = "timing.at"
		return fmt.Errorf("timing: at: %w", err)
	}
	var target civil.Date
	instant, exact := value.(time.Time)
	switch day := value.(type) {
	case civil.Date:
		target = day
	case time.Time:
		instant = day.UTC().Truncate(time.Microsecond)
		if v.plan.Dates.At.Given {
			_, home, err := v.home()
			if err != nil {
				a.Field = "timing.timezone"
				return fmt.Errorf("timing: timezone: %w", err)
			}
			target, _ = civil.DateOf(instant, home)
			exact = false
		}
	default:
		a.Field = t.Anchor.Source()
		return fmt.Errorf("timing: anchor: %s is neither a date nor an instant", t.Anchor.Source())
	}
	w, home := v.trigger.Workflow, ""
	if v.plan.Dates.ByContact && !exact { // an instant is the same in every zone
		home, zone = zone, firstZone
		if loc, err = v.zones.Load(zone); err != nil {
			return fmt.Errorf("timing: timezone: %w", err)
		}
	}
	for _, offset := range v.plan.Dates.Offsets {
		i := Desired{Zone: zone, Elsewhere: home, Offset: offset}
		if exact {
			i.Key = key.Anchored(w.Type, w.Name, v.typ, v.id, t.ID, instant, offset)
			i.Due = instant.Add(offset.Exact())
			i.Target = instant.Format(time.RFC3339Nano)
		} else {
			i.Key, i.Target = key.Date(w.Type, w.Name, v.typ, v.id, t.ID, target, offset), target.String()
			due, ok := civil.Resolve(target.Add(offset), clock.of(i.Key), loc, v.plan.Dates.Rule)
			if !ok {
				continue // a local time in a gap, which the rule skips
			}
			i.Due = due.Add(offset.Clock)
		}
		if i.Due.Year() < 1 || i.Ends(i.Due).Year() > 9999 {
			a.Refused = append(a.Refused, fmt.Sprintf("timing: %s from %s is outside of the years 1 to 9999", offset, i.Target))
			continue
		}
		if i.Due.IsZero() { // programs write the first instant of the year 1 for "no date"; here the zero time would mean "at once"
			i.Due = i.Due.Add(time.Microsecond)
		}
		i.Date, _ = civil.DateOf(i.Due, loc)
		a.Desired = append(a.Desired, i)
	}
	if len(a.Desired) == 0 && len(a.Refused) > 0 {
		a.Reason, a.Field = reason.OutsideCalendar, t.Anchor.Source()
	}
	return nil
}

// zone returns the zone of the trigger's dates, when it is the same for all contacts.
func (v *view) zone() (name string, loc *time.Location, err error) {
	if v.person != "" {
		loc, err = v.zones.Load(v.person)
		return v.person, loc, err
	}
	return v.home()
}

// home returns the zone of the trigger's dates for a contact without a zone. An instant with a time of day has its date there: the date is
// part of keys, and must not change when a person moves.
func (v *view) home() (name string, loc *time.Location, err error) {
	for _, z := range v.plan.Dates.Zones {
		if name = z.Name; z.From != nil {
			value, err := z.From.Eval(v.in)
			if err != nil {
				return "", nil, err
			}
			if name, err = textOr(value, "the name of a zone"); err != nil {
				return "", nil, fmt.Errorf("%s: %w", z.From.Source(), err)
			}
		}
		if name != "" {
			break
		}
	}
	name = cmp.Or(name, v.own, v.set.Workspace.Timezone)
	loc, err = v.zones.Load(name)
	return name, loc, err
}

// textOr returns a value that must be a text, or "" when it is missing.
func textOr(value any, what string) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	}
	return "", fmt.Errorf("%s was expected, not %s", what, expr.KindOf(value))
}

// planned sets the plan of a trigger that plans ahead.
func (l *Evaluation) planned(v *view, before condition.State, seen *condition.Observation) {
	met := l.Outcome.Issues
	l.Outcome.Issues, l.Outcome.Faded, l.Outcome.Cleared = nil, nil, false // gate 1 does not apply to planned occasions
	var a Ahead
	switch {
	case seen.Gone:
		why := reason.RecordClosed
		switch {
		case !l.Workflow.Enabled:
			why = reason.WorkflowInactive
		case !l.Trigger.Enabled:
			why = reason.TriggerDisabled
		}
		a = goneAhead(l.Trigger, why, before.Ahead)
	case !l.Outcome.Judged:
		a = Ahead{rule: v.plan.Dates.Rule, zones: v.zones, State: before.Ahead}
		var err error
		switch {
		case v.plan.Course != nil && !before.Ahead.Course.Begun():
		case v.plan.Course != nil:
			err = v.course(&a)
		case l.Trigger.Anchor != nil:
			err = v.dates(&a)
		}
		if err != nil {
			a.Desired, a.Course = nil, nil // the plan stays, and the error is reported when the trigger evaluates
		}
		a = Ahead{State: before.Ahead, Desired: a.Desired, Course: a.Course, rule: a.rule, zones: a.zones, level: v.level()}
		if v.fresh && a.State.By == "" && l.Trigger.Crosses() {
			a.State.By = condition.Afresh // the record is still new when the trigger evaluates it
		}
	default:
		a = v.ahead(met, seen, before)
		if len(met) == 0 {
			if a.Reason, a.Field, a.Error = l.whyNot(); len(seen.Met) > 0 {
				a.Reason = reason.ForNotReached
			}
			a.State.Fingerprint = a.fingerprint()
		} else if turns := v.turns(); l.Rule.Change && !turns.IsZero() && (l.Outcome.EvaluateAt.IsZero() || turns.Before(l.Outcome.EvaluateAt)) {
			l.Outcome.EvaluateAt = turns
		}
	}
	l.Ahead, l.State.Ahead = &a, a.State
}

// whyNot returns why no condition is met: a failure ranks before a missing value, and that before a false comparison.
func (l *Evaluation) whyNot() (why reason.Reason, field, failed string) {
	rank := func(r reason.Reason) int {
		return slices.Index([]reason.Reason{reason.ConditionFalse, reason.ValueMissing, reason.CostExceeded, reason.ExpressionFailed}, r)
	}
	why = reason.ConditionFalse
	for _, j := range l.Judged {
		for _, c := range j.Clauses {
			if !c.Met && rank(c.Reason) > rank(why) {
				why, field, failed = c.Reason, c.Field, ""
				if c.Reason == reason.ExpressionFailed || c.Reason == reason.CostExceeded {
					field, failed = c.Source, c.Detail
				}
			}
		}
	}
	return why, field, failed
}
