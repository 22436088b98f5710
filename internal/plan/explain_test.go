package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

const standingRules = `
workflow: watch
type: alert
triggers:
  - id: t
    record: host
    when: record.load > 2
    for: 10m
    cooldown: {length: 1h, per: [record.id]}
  - id: tick
    record: host
    when: record.load > 2
    check: [5m]
    cooldown: {length: 1h, per: [record.list]}
  - id: idle
    record: host
    enabled: false
    when: record.load > 2
    cooldown: {length: 1h}
audience: [{everyone: true}]
channel: memory
message:
  sms:
    text: "{{ record.id }}"
---
{channel: "memory:default", provider: memory}
`

func TestStand(t *testing.T) {
	t.Parallel()
	bundle, problems := loader.Load([]definition.File{{Name: "rules.yaml", Text: []byte(standingRules)}}, loader.Options{Providers: []definition.ProviderInfo{{Name: "memory"}}})
	if definition.HasErrors(problems) {
		t.Fatal(problems)
	}
	now := time.Date(2026, 5, 14, 10, 2, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	since := func(minutes int) condition.State {
		return condition.State{Since: map[string]time.Time{"": at(minutes)}}
	}
	undelivered, _ := since(-10).Block("t:1", time.Time{}, true)
	for _, test := range []struct {
		name     string
		trigger  int
		load     any
		closed   bool
		before   condition.State
		firedAt  time.Time
		voidAt   time.Time
		inFlight bool
		want     reason.Reason
		until    time.Time
	}{
		{name: "well", load: 1, want: reason.ConditionFalse},
		{name: "nothing to compare", want: reason.ValueMissing},
		{name: "not yet", load: 3, want: reason.ForNotReached, until: at(10)},
		{name: "not yet, for a while", load: 3, before: since(-4), want: reason.ForNotReached, until: at(6)},
		{name: "long enough", load: 3, before: since(-10), want: reason.Matched},
		{name: "cooling down", load: 3, before: since(-10), firedAt: at(-59), want: reason.Throttled, until: at(1)},
		{name: "cooled down", load: 3, before: since(-10), firedAt: at(-60), want: reason.Matched},
		{name: "nobody was notified", load: 3, before: since(-10), firedAt: at(-30), voidAt: at(-1), want: reason.Matched},
		{name: "it failed, and is tried again", load: 3, before: since(-10), firedAt: at(-30), voidAt: at(10), want: reason.Throttled, until: at(10)},
		{name: "it failed late", load: 3, before: since(-10), firedAt: at(-59), voidAt: at(10), want: reason.Throttled, until: at(1)},
		{name: "still going out", load: 3, before: since(-10), firedAt: at(-60), inFlight: true, want: reason.InFlight},
		{name: "no recipient", load: 3, before: undelivered, want: reason.NoRecipient, until: now},
		{name: "no recipient, then one", load: 3, before: undelivered.Fire(condition.Rule{}, "t:1", nil, at(-60)), firedAt: at(-60), want: reason.Matched},
		{name: "closed", load: 3, closed: true, before: since(-10), want: reason.RecordClosed},
		{name: "between ticks", trigger: 1, load: 3, want: reason.AwaitsTick, until: time.Date(2026, 5, 14, 10, 5, 0, 0, time.UTC)},
		{name: "off", trigger: 2, load: 3, want: reason.TriggerDisabled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rec := subject.Record{Type: "host", ExtID: "1", Closed: test.closed, Props: map[string]any{"load": test.load}}
			g := plan.Observation{Now: now, EvaluateAt: now, EvaluatedAt: now}
			name := "watch/" + []string{"t", "tick", "idle"}[test.trigger]
			evaluations := plan.Record(bundle.Set, rec, nil, condition.States{name: test.before}, g, &civil.Zones{})
			got := plan.Explain(evaluations[test.trigger], test.before, rec, g, plan.Firing{FiredAt: test.firedAt, VoidAt: test.voidAt, InFlight: test.inFlight})
			if got.Reason != test.want || !got.Until.Equal(test.until) {
				t.Errorf("got %s until %s, want %s until %s", got.Reason, got.Until, test.want, test.until)
			}
		})
	}
}

const datedRules = `workflow: visits
type: reminder
triggers:
  - id: due
    record: visit
    when: record.ward < 5
    timing: {anchor: record.day, offset: [-1d, 0d], timezone: record.zone}
audience: [{everyone: true}]
channel: memory
message:
  sms:
    text: "{{ days_left }}"
---
{channel: "memory:default", provider: memory}
`

// Explain says in words why a date of a record plans nothing, also when its condition is true.
func TestExplainADate(t *testing.T) {
	t.Parallel()
	bundle, problems := loader.Load([]definition.File{{Name: "rules.yaml", Text: []byte(datedRules)}}, loader.Options{Providers: []definition.ProviderInfo{{Name: "memory"}}})
	if definition.HasErrors(problems) {
		t.Fatal(problems)
	}
	for _, test := range []struct {
		name  string
		props map[string]any
		want  reason.Reason
		wrong string
	}{
		{"well", map[string]any{"ward": 1, "day": "2026-06-01"}, reason.Matched, ""},
		{"no date", map[string]any{"ward": 1}, reason.ValueMissing, ""},
		{"another ward", map[string]any{"ward": 7, "day": "2026-06-01"}, reason.ConditionFalse, ""},
		{"no zone of that name", map[string]any{"ward": 1, "day": "2026-06-01", "zone": "Mars/Olympus"}, reason.ExpressionFailed, `timing: timezone: "Mars/Olympus" is not a zone`},
		{"an object for a zone", map[string]any{"ward": 1, "day": "2026-06-01", "zone": map[string]any{"name": "UTC"}}, reason.ExpressionFailed, "timing: timezone: record.zone: the name of a zone was expected, not an object"},
		{"a ward that is no number", map[string]any{"ward": "five", "day": "2026-06-01"}, reason.ExpressionFailed, "a text cannot be compared with a number"},
		{"outside of the calendar", map[string]any{"ward": 1, "day": "0001-01-01", "zone": "UTC"}, reason.Matched, "timing: -1d from 0001-01-01 is outside of the years 1 to 9999"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 5, 14, 10, 2, 0, 0, time.UTC)
			rec := subject.Record{Type: "visit", ExtID: "1", Props: test.props}
			g := plan.Observation{Now: now, EvaluateAt: now, EvaluatedAt: now}
			evaluations := plan.Record(bundle.Set, rec, nil, condition.States{}, g, &civil.Zones{})
			got := plan.Explain(evaluations[0], condition.State{}, rec, g, plan.Firing{})
			var wrong string
			if got.Err != nil {
				wrong = got.Err.Error()
			}
			if got.Reason != test.want || !strings.HasPrefix(wrong, test.wrong) || (test.wrong == "") != (wrong == "") {
				t.Errorf("got %s %q, want %s %q", got.Reason, wrong, test.want, test.wrong)
			}
		})
	}
}
