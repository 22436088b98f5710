package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
)

// What a trigger plans for a metric or a condition, and not for a date: an occasion for each threshold that is reached.

// height returns what a trigger on crossings observes.
func (v *view) height(ripe []string, seen *condition.Observation) condition.Crossing {
	t := v.trigger.Trigger
	h := condition.Crossing{Rules: t.Crossing().Rules, Fresh: v.fresh, Defined: []string{""}, Met: seen.Met, Ripe: ripe, Failed: seen.Failed, Moving: t.Crossing().Moving}
	if v.plan.Metric == nil {
		return h
	}
	h.Defined = nil
	for _, at := range v.plan.Metric.Thresholds {
		h.Defined = append(h.Defined, at.Name)
	}
	if t.When.Holds(v.in) { // else no threshold is reached
		h.Level = v.level()
	}
	return h
}

// level returns the metric of the record, or nil when there is none or it cannot be computed.
func (v *view) level() *float64 {
	m := v.plan.Metric
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

// reached adds the occasions of the thresholds that are reached, or of a condition that is true (B35, B36, product decision 25).
func (v *view) reached(a *Ahead, met []string) error {
	w, t, metric := v.trigger.Workflow, v.trigger.Trigger, v.plan.Metric
	today, zone := "", ""
	if v.plan.Fire == definition.FireOncePerDay {
		name, loc, err := v.zone()
		if err != nil {
			a.Field = "timing.timezone"
			return fmt.Errorf("timing: timezone: %w", err)
		}
		date, _ := civil.DateOf(v.in.Now, loc)
		today, zone = date.String(), name
	}
	if metric == nil {
		k := key.Once(w.Type, w.Name, v.typ, v.id, t.ID)
		switch v.plan.Fire {
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
	value, err := metric.Value.Eval(v.in)
	if err != nil {
		a.Field = metric.Value.Source()
		return fmt.Errorf("metric %s: %w", metric.Name, err)
	}
	number := numberOf(value)
	for _, at := range metric.Thresholds {
		if !slices.Contains(met, at.Name) {
			continue
		}
		i := Desired{Zone: zone, Threshold: at.Name, Metric: number}
		switch v.plan.Fire {
		case definition.FireOncePerThreshold:
			i.Key = v.threshold(metric.Name, at.Name, "OncePerThreshold", "")
		case definition.FireOncePerDay:
			i.Key = v.threshold(metric.Name, at.Name, key.OncePerDay, today)
		case definition.FireFalseToTrue:
			n := a.State.Over[at.Name]
			if n == 0 { // it was reached already when the trigger was added or edited
				continue
			}
			i.Key = v.threshold(metric.Name, at.Name, "FalseToTrue", fmt.Sprintf("e%d", n))
		default: // the highest threshold that is reached represents all
			i.Key = v.threshold(metric.Name, "", "OncePerSource", "")
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

// turns returns when the present day ends, for a trigger that fires once a day; otherwise the zero time.
func (v *view) turns() time.Time {
	if v.plan.Fire != definition.FireOncePerDay {
		return time.Time{}
	}
	_, loc, err := v.zone()
	if err != nil {
		return time.Time{}
	}
	_, end := civil.DayBounds(v.in.Now, loc)
	return end
}
