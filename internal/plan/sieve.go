package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// Sieve tells which of many records of one type a look would do something about: so that a run over all of them writes to
// those only. It judges as Record does, but keeps no reasons. It is for one goroutine.
type Sieve struct {
	set     *definition.Set
	zones   *civil.Zones
	matches []watched
}

// watched is a trigger with what is the same for all records.
type watched struct {
	definition.Match
	name   string // of its state
	rule   condition.Rule
	issues []definition.Issue
	in     expr.Input
}

// NewSieve makes the sieve of a type of record.
func NewSieve(set *definition.Set, typ string, zones *civil.Zones) *Sieve {
	s := &Sieve{set: set, zones: zones}
	for _, m := range set.ByRecord(typ) {
		s.matches = append(s.matches, watched{
			Match: m, name: condition.Name(m.Workflow.Name, m.Trigger.ID), rule: RuleOf(m.Trigger), issues: issuesOf(m.Trigger),
			in: Input(set, m.Workflow, nil, time.Time{}),
		})
	}
	return s
}

// Rests reports whether a look at the record, marked at g.Now, would leave all as it is: nothing fires, is over or lapses,
// what is remembered stays the same, and the next look is at g.LookAt already. Of a record that is due it says so too: it
// is looked at anyway. Props and state are as they are stored.
func (s *Sieve) Rests(rec subject.Record, props, state string, g Glance) (bool, error) {
	if !g.LookAt.IsZero() && !g.LookAt.After(g.Now) {
		return true, nil
	}
	d := json.NewDecoder(strings.NewReader(props))
	d.UseNumber()
	if err := d.Decode(&rec.Props); err != nil {
		return false, fmt.Errorf("fields of record %d: %w", rec.ID, err)
	}
	states, err := condition.Parse(state)
	if err != nil {
		return false, fmt.Errorf("record %d: %w", rec.ID, err)
	}
	planned := g.LookAt
	g.LookAt = g.Now
	fields, zone := RecordFields(rec), recordZone(s.set, rec, s.zones)
	var next time.Time
	for i := range s.matches {
		w := &s.matches[i]
		w.in.Record, w.in.Zone, w.in.Now = fields, zone, g.Now
		o, rests := w.rests(rec, states[w.name], g)
		if !rests {
			return false, nil
		}
		if !o.Next.IsZero() && (next.IsZero() || o.Next.Before(next)) {
			next = o.Next
		}
	}
	return next.Equal(planned), nil
}

// rests judges one trigger. What is met for long enough would fire, or be told to wait.
func (w *watched) rests(rec subject.Record, before condition.State, g Glance) (condition.Outcome, bool) {
	seen := sight(w.Match, w.rule, rec, g)
	if !seen.Gone {
		for _, issue := range w.issues {
			met, flip, exact := issue.When.Watch(w.in)
			if met {
				seen.Met = append(seen.Met, issue.Name)
			}
			noteFlip(&seen, flip, exact)
		}
		slices.Sort(seen.Met)
	}
	o := before.Look(w.rule, seen)
	o.Lapse(w.rule, "")
	return o, len(o.Issues) == 0 && o.State.Equal(before) // what is over, or lapses, has another state
}
