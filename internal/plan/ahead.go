package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
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
	"github.com/carillonhq/carillon/internal/subject"
)

// Desired is an occasion that should exist of a record as it is. Events, edits, a repair, the moment at which one is due
// and the simulator all compare these with what is stored (B17).
type Desired struct {
	Key  key.Instance
	Due  time.Time  // none: at once
	Date civil.Date // of Due where it is meant; none where Due is
	Zone string

	// Elsewhere is set where it is due by the zone of each contact: the zone of people without one (R15). Due is the first instant
	// at which it is so anywhere, and Zone where that is.
	Elsewhere string

	Target    string         // the date or instant that it is about, as in the key; empty without one
	Offset    civil.Duration // from there
	Threshold string         // that is reached; empty without a metric
	Metric    float64        // with Threshold

	Iteration int // of the calendar: which one it is since its first day; 0: that is not said
}

// Ahead is what a trigger that plans ahead makes of a record.
type Ahead struct {
	Known   bool // it was time for the trigger to look; otherwise what was implied before still is
	Desired []Desired
	Inputs  string        // hash of what the keys stand for but do not spell (decision 20)
	Reason  reason.Reason // why nothing is implied; empty where something is
	Field   string        // the missing field, or the expression that failed
	Error   string        // of that
	Refused []string      // occasions that lie outside of the calendar, in words: the others are implied
	State   condition.Ahead

	rule  civil.Rule // for times of day that a zone does not have, or twice
	zones *civil.Zones
	level *float64 // the metric, where it was not time for the trigger to look; nil: there is none
}

// always holds.
func always() *expr.Condition { return expr.AllOf() }

// view is what a trigger that plans ahead reads of a record.
type view struct {
	set     *definition.Set
	trigger definition.Match
	typ, id string // of the record
	own     string // its own zone
	in      expr.Input
	fresh   bool // it was never looked at
	zones   *civil.Zones
}

// ahead finds what is implied where what is ripe is met, for long enough.
func (v *view) ahead(ripe []string, seen *condition.Observation, before condition.State) Ahead {
	t, met := v.trigger.Trigger, ripe
	a := Ahead{Known: true, State: before.Ahead, Inputs: t.Inputs(), rule: t.Dates.Rule, zones: v.zones}
	if a.State.By, a.State.Level = "", nil; t.Fire == definition.FireFalseToTrue {
		a.State = before.Ahead.Cross(v.height(ripe, seen), before.Since)
	}
	var err error
	switch {
	case len(met) == 0:
		a.Reason = reason.ConditionFalse // unless who judged knows better
	case t.StopWhen != nil && t.StopWhen.Holds(v.in):
		a.Reason, a.Field = reason.ConditionCleared, "stop_when"
	case t.Anchor != nil:
		err = v.dates(&a)
	default:
		err = v.reached(&a, met)
	}
	if err != nil {
		a.Desired, a.Reason, a.Error = nil, reason.ExpressionFailed, err.Error()
		if failure := (*expr.Failure)(nil); errors.As(err, &failure) {
			a.Reason = failure.Reason
		}
	}
	a.State.Fingerprint = a.print()
	return a
}

// height is what a trigger on crossings sees.
func (v *view) height(ripe []string, seen *condition.Observation) condition.Crossing {
	t := v.trigger.Trigger
	h := condition.Crossing{Rules: t.Crossing().Rules, Fresh: v.fresh, Defined: []string{""}, Met: seen.Met, Ripe: ripe, Failed: seen.Failed, Moving: t.Crossing().Moving}
	if t.Metric == nil {
		return h
	}
	h.Defined = nil
	for _, at := range t.Metric.Thresholds {
		h.Defined = append(h.Defined, at.Name)
	}
	if t.When.Holds(v.in) { // else nothing is reached
		h.Level = v.level()
	}
	return h
}

// level is the metric of the record; nil: it has none, or it cannot be computed.
func (v *view) level() *float64 {
	m := v.trigger.Trigger.Metric
	if m == nil {
		return nil
	}
	value, err := m.Value.Eval(v.in)
	if err != nil || value == nil {
		return nil
	}
	number := numberOf(value)
	return &number
}

// AsPlanned is the occasion of a row that is due between two looks of its trigger: what was planned holds, with the metric as it
// is now.
func (l *Evaluation) AsPlanned(row instance.Row) (i Desired) {
	base, _ := key.Instance(row.Key).Everywhere().Base()
	i.Key, i.Zone = base, row.Timezone
	if l.Ahead.level == nil || l.Trigger.Metric == nil {
		return i
	}
	i.Metric, i.Threshold = *l.Ahead.level, key.ThresholdOf(base)
	for n, at := range l.Trigger.Metric.Thresholds { // the highest that is reached speaks for all
		if key.ThresholdOf(base) == "" && (n == 0 || at.Value <= i.Metric) {
			i.Threshold = at.Name
		}
	}
	return i
}

// counted reports whether crossings were counted by the rules of the trigger, or not at all where it counts none: a look would
// change nothing of that.
func counted(m definition.Match, before condition.Ahead, rec subject.Record) bool {
	switch {
	case !m.Workflow.Enabled || !m.Trigger.Enabled || !m.Trigger.Ahead() || m.Trigger.Fire != definition.FireFalseToTrue:
		return before.By == ""
	case rec.Closed || rec.Deleted:
		return before.By == "" || before.By == condition.Afresh
	}
	return before.By == m.Trigger.Crossing().Rules
}

// gone is what is implied by a record or a trigger that is not looked at any more.
func goneAhead(t *definition.Trigger, why reason.Reason, before condition.Ahead) Ahead {
	a := Ahead{Known: true, State: before, Inputs: t.Inputs(), Reason: why}
	a.State.Level, a.State.Fingerprint = nil, ""
	switch {
	case why != reason.RecordClosed:
		a.State.By = "" // what holds when it is switched on again is the baseline (R11)
	case a.State.By != "":
		a.State.By, a.State.Over = condition.Afresh, nil
	default:
		a.State.Over = nil
	}
	return a
}

// print tells what is implied from anything else that may be; empty: nothing, and nothing is wrong.
func (a *Ahead) print() string {
	if len(a.Desired) == 0 && a.Error == "" && len(a.Refused) == 0 {
		return ""
	}
	h := sha256.New()
	for _, i := range a.Desired {
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

// wrong says in words what kept occasions from being implied; empty: nothing did.
func (a *Ahead) wrong() string {
	if a.Error != "" {
		return a.Error
	}
	return strings.Join(a.Refused, "; ")
}

// dates finds the occasions of a date: one for each offset (B34).
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
		if t.Dates.At.Given {
			target, _ = civil.DateOf(instant, loc)
			exact = false
		}
	default:
		a.Field = t.Anchor.Source()
		return fmt.Errorf("timing: anchor: %s is neither a date nor an instant", t.Anchor.Source())
	}
	w, home := v.trigger.Workflow, ""
	if t.Dates.ByContact && !exact { // an instant is the same everywhere
		home, zone = zone, firstZone
		if loc, err = v.zones.Load(zone); err != nil {
			return fmt.Errorf("timing: timezone: %w", err)
		}
	}
	for _, offset := range t.Dates.Offsets {
		i := Desired{Zone: zone, Elsewhere: home, Offset: offset}
		if exact {
			i.Key = key.Anchored(w.Type, w.Name, v.typ, v.id, t.ID, instant, offset)
			i.Due = instant.Add(offset.Exact())
			i.Target = instant.Format(time.RFC3339Nano)
		} else {
			i.Key, i.Target = key.Date(w.Type, w.Name, v.typ, v.id, t.ID, target, offset), target.String()
			due, ok := civil.Resolve(target.Add(offset), clock.of(i.Key), loc, t.Dates.Rule)
			if !ok {
				continue // a gap that is to be skipped
			}
			i.Due = due.Add(offset.Clock)
		}
		if i.Due.Year() < 1 || i.Ends(i.Due).Year() > 9999 {
			a.Refused = append(a.Refused, fmt.Sprintf("timing: %s from %s is outside of the years 1 to 9999", offset, i.Target))
			continue
		}
		if i.Due.IsZero() { // programs write the first instant of the year 1 for no date; none would be at once
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

// zone finds where dates are meant, where that is the same for everybody.
func (v *view) zone() (name string, loc *time.Location, err error) {
	for _, z := range v.trigger.Trigger.Dates.Zones {
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

// textOr is a value that must be a text; empty when it is missing.
func textOr(value any, what string) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	}
	return "", fmt.Errorf("%s was expected, not %T", what, value)
}

// clock is a time of day, or a span of which each occasion has a minute of its own.
type clock struct {
	time   civil.TimeOfDay
	random civil.Span
}

func (v *view) clock() (clock, error) {
	at := v.trigger.Trigger.Dates.At
	switch {
	case !at.Given:
		return clock{time: morning}, nil
	case at.From == nil:
		return clock{time: at.Time, random: at.Random}, nil
	}
	value, err := at.From.Eval(v.in)
	if err != nil {
		return clock{}, err
	}
	text, err := textOr(value, "a time of day")
	if err != nil || text == "" {
		return clock{time: morning}, err
	}
	c, err := civil.ParseTimeOfDay(text)
	return clock{time: c}, err
}

// of is the time of day of one occasion: drawn by its key, so that whoever plans it again finds the same minute.
func (c clock) of(k key.Instance) civil.TimeOfDay {
	if c.random.IsZero() {
		return c.time
	}
	const day, minute = 24 * 60 * 60, 60
	minutes := (int(c.random.To) - int(c.random.From) + day) % day / minute
	if minutes == 0 {
		return c.random.From
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(k)) // a hash takes everything
	return civil.TimeOfDay((int(c.random.From) + int(h.Sum64()%uint64(minutes))*minute) % day)
}

// reached finds the occasions of thresholds that are reached, or of a condition that holds (B35, B36, decision 25).
func (v *view) reached(a *Ahead, met []string) error {
	w, t := v.trigger.Workflow, v.trigger.Trigger
	today, zone := "", ""
	if t.Fire == definition.FireOncePerDay {
		name, loc, err := v.zone()
		if err != nil {
			a.Field = "timing.timezone"
			return fmt.Errorf("timing: timezone: %w", err)
		}
		date, _ := civil.DateOf(v.in.Now, loc)
		today, zone = date.String(), name
	}
	if t.Metric == nil {
		k := key.Once(w.Type, w.Name, v.typ, v.id, t.ID)
		switch t.Fire {
		case definition.FireOncePerDay:
			k = v.threshold("condition", "", key.OncePerDay, today)
		case definition.FireFalseToTrue:
			n := a.State.Over[""]
			if n == 0 {
				a.Reason = reason.Baseline
				return nil
			}
			k = v.threshold("condition", "", "FalseToTrue", fmt.Sprintf("e%d", n))
		}
		a.Desired = []Desired{{Key: k, Zone: zone}}
		return nil
	}
	value, err := t.Metric.Value.Eval(v.in)
	if err != nil {
		a.Field = t.Metric.Value.Source()
		return fmt.Errorf("metric %s: %w", t.Metric.Name, err)
	}
	number := numberOf(value)
	for _, at := range t.Metric.Thresholds {
		if !slices.Contains(met, at.Name) {
			continue
		}
		i := Desired{Zone: zone, Threshold: at.Name, Metric: number}
		switch t.Fire {
		case definition.FireOncePerThreshold:
			i.Key = v.threshold(t.Metric.Name, at.Name, "OncePerThreshold", "")
		case definition.FireOncePerDay:
			i.Key = v.threshold(t.Metric.Name, at.Name, key.OncePerDay, today)
		case definition.FireFalseToTrue:
			n := a.State.Over[at.Name]
			if n == 0 { // it was reached when the trigger came, or was edited
				continue
			}
			i.Key = v.threshold(t.Metric.Name, at.Name, "FalseToTrue", fmt.Sprintf("e%d", n))
		default: // the highest that is reached speaks for all
			i.Key = v.threshold(t.Metric.Name, "", "OncePerSource", "")
			a.Desired = nil
		}
		a.Desired = append(a.Desired, i)
	}
	if len(a.Desired) == 0 {
		a.Reason = reason.Baseline
	}
	return nil
}

func numberOf(value any) float64 {
	switch n := value.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0 // a threshold is reached, so there is a number
}

func (v *view) threshold(metric, threshold, policy, scope string) key.Instance {
	w := v.trigger.Workflow
	return key.Threshold(w.Type, w.Name, v.typ, v.id, v.trigger.Trigger.ID, metric, threshold, policy, scope)
}

// turns is when a day ends by which a trigger names its occasions; none: it does not.
func (v *view) turns() time.Time {
	if v.trigger.Trigger.Fire != definition.FireOncePerDay {
		return time.Time{}
	}
	_, loc, err := v.zone()
	if err != nil {
		return time.Time{}
	}
	_, end := civil.DayBounds(v.in.Now, loc)
	return end
}

// planned judges a trigger that plans ahead.
func (l *Evaluation) planned(v *view, before condition.State, seen *condition.Observation) {
	met := l.Outcome.Issues
	l.Outcome.Issues, l.Outcome.Faded, l.Outcome.Cleared = nil, nil, false // gate 1 has no part in it
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
		if a = (Ahead{rule: l.Trigger.Dates.Rule, zones: v.zones}); l.Trigger.Anchor != nil && v.dates(&a) != nil {
			a.Desired = nil // what was planned holds, and is told of when the trigger looks
		}
		a = Ahead{State: before.Ahead, Desired: a.Desired, rule: a.rule, zones: a.zones, level: v.level()}
		if v.fresh && a.State.By == "" && l.Trigger.Fire == definition.FireFalseToTrue {
			a.State.By = condition.Afresh // it is new still when the trigger looks
		}
	default:
		a = v.ahead(met, seen, before)
		if len(met) == 0 {
			if a.Reason, a.Field, a.Error = l.whyNot(); len(seen.Met) > 0 {
				a.Reason = reason.ForNotReached
			}
			a.State.Fingerprint = a.print()
		} else if turns := v.turns(); l.Rule.Change && !turns.IsZero() && (l.Outcome.EvaluateAt.IsZero() || turns.Before(l.Outcome.EvaluateAt)) {
			l.Outcome.EvaluateAt = turns
		}
	}
	l.Ahead, l.State.Ahead = &a, a.State
}

// whyNot is why nothing is met: what failed goes before what is missing, and both before what is simply false.
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
