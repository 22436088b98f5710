package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

// LimitedByDefault returns the types of the workflows whose messages are subject to the default limits: the workspace sets none, and
// the audience is not limited to personas that do (A37).
func (s *Set) LimitedByDefault() []string {
	if s.Workspace.Limits != cadence.LayerDefault {
		return nil
	}
	types := map[string]bool{}
	for _, w := range s.workflows {
		if !s.Workspace.Cadence.Counts(w.Type) {
			continue
		}
		for t := range w.Forms() {
			kind, _, _ := strings.Cut(t.Channel, ":")
			if !t.Limits.Critical && slices.ContainsFunc(t.Audience, func(a Audience) bool { return !s.limits(a.Persona, kind) }) {
				types[w.Type] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// limits reports whether a persona has limits of its own for a kind of channel.
func (s *Set) limits(persona, kind string) bool {
	p := s.personas[persona]
	return p != nil && !p.Cadence.For(kind).Empty()
}

// By default a wait for a new day, week or month ends at midnight, when a message may make a telephone ring. Only the first channel of
// a trigger counts, since messages wait for it, unless the contact has no address there.

// rings reports whether messages on a kind of channel make a sound when they arrive.
func rings(kind string) bool { return kind == "sms" || kind == "whatsapp" || kind == "push" }

// RingsByDefault returns the kinds of channels whose messages may make a telephone ring at midnight under the default limits, in
// ascending order.
func (s *Set) RingsByDefault() []string {
	if s.Workspace.Limits != cadence.LayerDefault {
		return nil
	}
	var kinds []string
	for _, w := range s.workflows {
		for t := range w.Forms() {
			kind, _, _ := strings.Cut(t.Channel, ":")
			if whose, _, found := s.WaitsForMidnight(w, t, kind); found && whose == "" && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// WaitsForMidnight returns a calendar limit that may make a trigger's messages on a kind of channel wait until midnight, and the persona that
// sets it. An empty persona means the workspace.
func (s *Set) WaitsForMidnight(w *Workflow, t *Trigger, kind string) (persona string, limit cadence.Limit, found bool) {
	switch l := t.Limits; {
	case !rings(kind), l.Critical, t.ownAt(s) && len(t.Timing.Reminders) == 0, l.AtCreate == LimitSkip && l.AtSend == LimitFail,
		!l.SendWindow.IsZero() && !holdsMidnight(l.SendWindow):
		return "", "", false
	}
	names := t.Personas()
	if slices.ContainsFunc(t.Audience, func(a Audience) bool { return a.Persona == "" }) {
		names = append(names, "")
	}
	for _, name := range names {
		var rules cadence.Rules
		if p := s.personas[name]; p != nil {
			rules = p.Cadence
		}
		p := cadence.EffectiveOn(kind, cadence.Rules{}, rules, s.Workspace.Cadence).Of(w.Type)
		if p.ResumeAt > 0 || holdsMidnight(p.Quiet) {
			continue
		}
		if limit, found = byCalendar(p, w.Type); !found {
			continue
		}
		if cadence.LayerOn(kind, limit, cadence.Rules{}, rules, cadence.LayerWorkspace) == cadence.LayerWorkspace {
			name = ""
		}
		return name, limit, true
	}
	return "", "", false
}

// byCalendar returns the first limit of a policy that makes messages of a type wait until another day.
func byCalendar(p cadence.Policy, typ string) (cadence.Limit, bool) {
	for _, limit := range []struct {
		most    int
		rolling bool
		name    cadence.Limit
	}{
		{p.TypeLimits[typ], p.Rolling, cadence.LimitType},
		{p.MaxPerDay, p.Rolling, cadence.LimitMaxPerDay},
		{p.Total.MaxPerDay, p.Total.Rolling, cadence.LimitTotalDay},
		{p.MaxPerWeek, p.Rolling, cadence.LimitMaxPerWeek},
		{p.Total.MaxPerWeek, p.Total.Rolling, cadence.LimitTotalWeek},
		{p.MaxPerMonth, p.Rolling, cadence.LimitMaxPerMonth},
		{p.Total.MaxPerMonth, p.Total.Rolling, cadence.LimitTotalMonth},
	} {
		if limit.most > 0 && !limit.rolling {
			return limit.name, true
		}
	}
	return "", false
}

// ownAt reports whether the timing gives messages a time of day of their own, as far as the definition shows.
func (t *Trigger) ownAt(set *Set) bool {
	switch plan, course := t.OnPlan(), t.Course(); {
	case t.OnSchedule() != nil:
		return true
	case course != nil:
		for i := range course.Messages {
			if !t.Timetable().HasTime(i, t.ofDate(set)) {
				return false
			}
		}
		return true
	case plan != nil && t.Anchor != nil && plan.Dates.At.Given:
		return true
	}
	return t.ofDate(set)
}

// ofDate reports whether a trigger counts from a date and not from an instant, as far as the definition shows.
func (t *Trigger) ofDate(set *Set) bool {
	if t.Anchor == nil || t.Anchor.Source() == AnchorNow {
		return false
	}
	field, ofRecord := strings.CutPrefix(t.Anchor.Source(), "record.")
	declared := set.types[t.Watch().Record]
	return !ofRecord || declared == nil || declared.Declared[field] != "datetime"
}

// holdsMidnight reports whether a span of the day contains midnight.
func holdsMidnight(s civil.Span) bool {
	return !s.IsZero() && (s.From > s.To && s.To > 0 || s.From == 0)
}
