package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/subject"
)

// drawSet draws a set of a few triggers on boxes.
func drawSet(t *rapid.T) *definition.Set {
	var text strings.Builder
	line := rapid.SampledFrom([]string{
		"record.heat > 5", "record.state == 'full'", "record.seen == null", "age(record.seen) >= minutes(6)", "record.closed_on != null && days_until(record.closed_on) <= 1",
		"record.heat * 2 > record.most", "record.tags.exists(t, t == 'hot')", "record.props.heat < 2", "record['odd name'] == 'x'", "record.id == 'b' || record.place.room == 3",
		"record.last_modified_by == 'test' && age(record.updated_at) > minutes(20)", "now > record.until", "record.heat in [1, 2.5, 9]", "record.nothing.at.all == null && record.heat > 8",
		"!(record.state in ['free', 'full']) || record.heat >= 9", "size(record.tags) > 1 ? record.heat > 3 : record.heat > 7", "record.type == 'box' && record.created_at < record.seen",
	})
	for i := range rapid.IntRange(1, 3).Draw(t, "triggers") {
		when := "    when: " + fmt.Sprintf("%q", line.Draw(t, "when")) + "\n"
		if rapid.Bool().Draw(t, "issues") {
			when = fmt.Sprintf("    issues:\n      A: %q\n      B: {any: [%q, %q]}\n", line.Draw(t, "A"), line.Draw(t, "B"), line.Draw(t, "or"))
		}
		fmt.Fprintf(&text, `
workflow: w%d
type: alert
triggers:
  - id: t
    record: box
    check: %s
%s%s%s
audience:
  - to: record
channel: memory
message:
  sms: {text: hi}
---`, i, rapid.SampledFrom([]string{"[change]", "[change, 5m]", "[5m]", "[change, 7m]"}).Draw(t, "check"), when,
			rapid.SampledFrom([]string{"", "    for: 4m\n"}).Draw(t, "for"), drawAgain(t, strings.Contains(when, "issues")))
	}
	bundle, problems := loader.Load([]definition.File{{Name: "test.yaml", Text: []byte(text.String() + "\nworkspace: default\ntimezone: Europe/Berlin\n")}}, loader.Options{})
	if definition.HasErrors(problems) {
		t.Fatalf("refused: %v\n%s", problems, text.String())
	}
	return bundle.Set
}

// drawAgain draws the cooldown of a trigger, or a course.
func drawAgain(t *rapid.T, issues bool) string {
	if issues || rapid.Bool().Draw(t, "cooldown") {
		return fmt.Sprintf("    cooldown: {length: 10m, per: [record.id], reset_on_clear: %t}", rapid.Bool().Draw(t, "reset"))
	}
	return fmt.Sprintf(`    timing:
      reset_on: record.%s
      sequence:
        - {day: 0, at: "record.%s == null ? '09:00' : '10:00'"}
      repeat: {every: 1d, until: record.%s}
      timezone: %s`,
		rapid.SampledFrom([]string{"heat", "tags", "state"}).Draw(t, "reset_on"), rapid.SampledFrom([]string{"most", "seen"}).Draw(t, "at"),
		rapid.SampledFrom([]string{"closed_on", "seen", "until"}).Draw(t, "until"), rapid.SampledFrom([]string{"UTC", "contact.timezone", "[contact.timezone, Asia/Kolkata]"}).Draw(t, "zone"))
}

// drawProps draws the fields of a box, as they are stored.
func drawProps(t *rapid.T, now time.Time) string {
	props := map[string]any{}
	for name, values := range map[string][]any{
		"heat": {1, 4, 9, 2.5, "9", nil, json.Number("1e1")}, "most": {3, nil}, "state": {"free", "full", "f\"u\\ll", "füll", ""},
		"seen": {now.Add(-3 * time.Minute).Format(time.RFC3339), now.Add(-time.Hour).Format(time.RFC3339), "2026-03-01", nil, 7},
		"tags": {[]any{"hot"}, []any{"a", "b"}, []any{}, nil}, "place": {map[string]any{"room": 3, "x": []any{1, "}"}}, "none"},
		"odd name": {"x", "y"}, "until": {now.Add(4 * time.Minute).Format(time.RFC3339)}, "timezone": {"Asia/Tokyo", "nowhere"}, "closed_on": {"2026-03-02", "2026-03-03"},
		"id": {"shadowed"}, "unread": {"much", map[string]any{"deep": []any{map[string]any{"er": "]"}}}},
	} {
		if i := rapid.IntRange(-1, len(values)-1).Draw(t, name); i >= 0 {
			props[name] = values[i]
		}
	}
	text, err := json.Marshal(props)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Unchanged is true exactly for the records that an evaluation would not change, whatever their history. Shows: A22, A23.
func TestPrefilterKeepsRecordsThatAnEvaluationChanges(t *testing.T) {
	t.Parallel()
	var zones civil.Zones
	answers := map[bool]int{}
	seen := func() bool { return answers[true] >= 20 && answers[false] >= 20 }
	check := func(t *rapid.T) {
		set := drawSet(t)
		prefilter := plan.NewPrefilter(set, "box", &zones)
		rec := subject.Record{ID: 1, Type: "box", ExtID: "b", CreatedAt: received, ModifiedBy: "test"}
		props, state := "{}", ""
		var evaluateAt, evaluatedAt time.Time
		now := received
		for range rapid.IntRange(1, 8).Draw(t, "evaluations") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 90 * time.Second, 5 * time.Minute, time.Hour, 36 * time.Hour}).Draw(t, "later"))
			if rapid.IntRange(0, 2).Draw(t, "written") > 0 {
				props, evaluateAt, rec.UpdatedAt = drawProps(t, now), now, now
				rec.Closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0
			}
			if rapid.IntRange(0, 3).Draw(t, "another set") == 0 {
				set = drawSet(t)
				prefilter = plan.NewPrefilter(set, "box", &zones)
			}
			person := plan.Related{}
			if home := rapid.SampledFrom([]string{"none", "", "Asia/Tokyo", "nowhere"}).Draw(t, "home"); home != "none" {
				person[subject.RecordRef{Type: subject.ContactType, ExtID: "b"}] = &subject.Record{Props: map[string]any{"timezone": home}}
			}
			prefilter.Related = person
			due := !evaluateAt.IsZero() && !evaluateAt.After(now)
			obs := plan.Observation{Now: now, EvaluateAt: evaluateAt, EvaluatedAt: evaluatedAt}
			unchanged, err := prefilter.Unchanged(rec, props, state, obs)
			if err != nil {
				t.Fatal(err)
			}
			// The state after an evaluation of a record that is due for it.
			full := rec
			d := json.NewDecoder(strings.NewReader(props))
			d.UseNumber()
			if err := d.Decode(&full.Props); err != nil {
				t.Fatal(err)
			}
			before, err := condition.Parse(state)
			if err != nil {
				t.Fatal(err)
			}
			if !due {
				obs.EvaluateAt = now
			}
			after, next, acts, either := before.Clone(), time.Time{}, false, false
			for _, l := range plan.Record(set, full, person, before, obs, &zones) {
				acts = acts || l.Fires() || l.Err != nil || l.Cleared || len(l.Lapsed) > 0
				either = either || l.Ahead != nil && l.State.Failed // its error is part of the plan, and only an evaluation finds out which it is
				if !l.EvaluateAt.IsZero() && (next.IsZero() || l.EvaluateAt.Before(next)) {
					next = l.EvaluateAt
				}
				if l.Fires() {
					l.State = l.State.Fire(l.Rule, l.Context, l.Outcome.Issues, l.At)
				}
				after[condition.Name(l.Workflow.Name, l.Trigger.ID)] = l.State
			}
			for _, name := range before.Names() { // the engine withdraws what a trigger has planned that is removed
				workflow, _, _ := strings.Cut(name, "/")
				if left := before[name]; left.Ahead.Fingerprint != "" && set.Workflow(workflow) == nil {
					left.Ahead.Fingerprint, acts = "", true
					after[name] = left
				}
			}
			changes := acts || after.String() != state || !next.Equal(evaluateAt)
			if unchanged != (due || !changes) && !either {
				t.Fatalf("%s %s closed %t: unchanged: %t; an evaluation acts: %t, %q becomes %q, the next evaluation %s becomes %s", now, props, rec.Closed, unchanged, acts, state, after, evaluateAt, next)
			}
			if !due {
				answers[unchanged]++
			}
			if due || rapid.Bool().Draw(t, "evaluate") {
				state, evaluateAt, evaluatedAt = after.String(), next, now
			}
		}
	}
	for range 10 { // chance may withhold one of the answers
		if rapid.Check(t, check); seen() {
			break
		}
	}
	if !seen() {
		t.Errorf("of what was drawn %d rest and %d do not: this shows nothing", answers[true], answers[false])
	}
}
