package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// planning returns a set with one trigger on visits.
func planning(trigger string) string {
	return `
workspace: default
timezone: Europe/Berlin
---
workflow: w
type: reminder
triggers:
  - id: t
    record: visit
` + trigger + strings.Replace(rest, "event.recipient", "record.id", 1) + `---
record_type: visit
fields: {day: date, starts_at: datetime, level: number}
`
}

// seen returns the trigger's evaluation of a visit at an instant.
func seen(t *testing.T, trigger, at string, props map[string]any) plan.Evaluation {
	t.Helper()
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	var zones civil.Zones
	rec := subject.Record{ID: 1, Type: "visit", ExtID: "v", Props: props}
	return plan.Record(load(t, planning(trigger)), rec, nil, nil, plan.Observation{Now: now, EvaluateAt: now}, &zones)[0]
}

// The desired occasions of a record: each key after the trigger's name, and when it is due.
//
// Shows: B34, B35, B36, R12.
func TestDesiredOccasions(t *testing.T) {
	t.Parallel()
	day, start := map[string]any{"day": "2026-03-30"}, map[string]any{"starts_at": "2026-03-28T23:30:00Z"}
	for name, c := range map[string]struct {
		trigger, at string
		props       map[string]any
		want        []string
		next        string // the next evaluation; empty: none until the record is written
	}{
		"a date, its morning":        {"    timing: {anchor: record.day}", "2026-03-01T00:00:00Z", day, []string{"2026-03-30:0 2026-03-30T07:00:00Z"}, ""},
		"days before it":             {"    timing: {anchor: record.day, offset: -2d}", "2026-03-01T00:00:00Z", day, []string{"2026-03-30:2 2026-03-28T08:00:00Z"}, ""},
		"hours before it":            {"    timing: {anchor: record.day, offset: -2h}", "2026-03-01T00:00:00Z", day, []string{"2026-03-30:2h 2026-03-30T05:00:00Z"}, ""},
		"hours after it":             {"    timing: {anchor: record.day, offset: +90m, at: \"22:30\"}", "2026-03-01T00:00:00Z", day, []string{"2026-03-30:-1h30m 2026-03-30T22:00:00Z"}, ""},
		"days and hours":             {"    timing: {anchor: record.day, offset: -1d3h, at: \"12:00\"}", "2026-03-01T00:00:00Z", day, []string{"2026-03-30:1d3h 2026-03-29T07:00:00Z"}, ""},
		"both":                       {"    timing: {anchor: record.day, offset: [-1d, -1h]}", "2026-03-01T00:00:00Z", day, []string{"2026-03-30:1 2026-03-29T07:00:00Z", "2026-03-30:1h 2026-03-30T06:00:00Z"}, ""},
		"an instant":                 {"    timing: {anchor: record.starts_at, offset: -2h}", "2026-03-01T00:00:00Z", start, []string{"20260328T233000Z:2h 2026-03-28T21:30:00Z"}, ""},
		"an instant, at a time":      {"    timing: {anchor: record.starts_at, at: \"08:00\"}", "2026-03-01T00:00:00Z", start, []string{"2026-03-29:0 2026-03-29T06:00:00Z"}, ""},
		"the day before it":          {"    timing: {anchor: record.starts_at, at: \"08:00\", offset: -1d}", "2026-03-01T00:00:00Z", start, []string{"2026-03-29:1 2026-03-28T07:00:00Z"}, ""},
		"in a zone":                  {"    timing: {anchor: record.starts_at, at: \"08:00\", timezone: America/New_York}", "2026-03-01T00:00:00Z", start, []string{"2026-03-28:0 2026-03-28T12:00:00Z"}, ""},
		"the highest threshold":      {"    metric: {name: m, value: record.level, thresholds: [10, 20, 30]}\n    fire: once_per_source", "2026-03-01T00:00:00Z", map[string]any{"level": 25}, []string{"threshold:m:any:OncePerSource:all 20"}, ""},
		"each threshold":             {"    metric: {name: m, value: record.level, thresholds: [10, 20, 30]}\n    fire: once_per_threshold", "2026-03-01T00:00:00Z", map[string]any{"level": 25}, []string{"threshold:m:10:OncePerThreshold:all 10", "threshold:m:20:OncePerThreshold:all 20"}, ""},
		"once a day":                 {"    when: record.level > 1\n    fire: once_per_day", "2026-03-28T22:59:59Z", map[string]any{"level": 25}, []string{"threshold:condition:any:OncePerDay:2026-03-28"}, "2026-03-28T23:00:00Z"},
		"the next day of Berlin":     {"    when: record.level > 1\n    fire: once_per_day", "2026-03-28T23:00:00Z", map[string]any{"level": 25}, []string{"threshold:condition:any:OncePerDay:2026-03-29"}, "2026-03-29T22:00:00Z"},
		"the day of another zone":    {"    when: record.level > 1\n    fire: once_per_day\n    timing: {timezone: Pacific/Auckland}", "2026-03-28T10:59:59Z", map[string]any{"level": 25}, []string{"threshold:condition:any:OncePerDay:2026-03-28"}, "2026-03-28T11:00:00Z"},
		"the day of the record":      {"    metric: {name: m, value: record.level, thresholds: [10]}\n    fire: once_per_day\n    timing: {timezone: record.timezone}", "2026-03-29T03:00:00Z", map[string]any{"level": 25, "timezone": "America/New_York"}, []string{"threshold:m:10:OncePerDay:2026-03-28 10"}, "2026-03-29T04:00:00Z"},
		"the record's, without zone": {"    when: record.level > 1\n    fire: once_per_day", "2026-03-29T03:00:00Z", map[string]any{"level": 25, "timezone": "America/New_York"}, []string{"threshold:condition:any:OncePerDay:2026-03-28"}, "2026-03-29T04:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := seen(t, c.trigger, c.at, c.props)
			var got []string
			for _, i := range l.Ahead.Desired {
				text := strings.TrimPrefix(string(i.Key), "reminder:w:visit:v:t:")
				if !i.Due.IsZero() {
					text += " " + i.Due.Format(time.RFC3339)
				}
				if i.Threshold != "" {
					text += " " + i.Threshold
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q (%s %s)", got, c.want, l.Ahead.Reason, l.Ahead.Error)
			}
			next := ""
			if !l.EvaluateAt.IsZero() {
				next = l.EvaluateAt.UTC().Format(time.RFC3339)
			}
			if next != c.next {
				t.Errorf("next evaluation at %q, want %q", next, c.next)
			}
		})
	}
}

// A revived occasion that was on hold stays on hold: a person still has to decide. One that was on hold for its failures is not on
// hold after it has ended.
//
// Shows: B21, B23.
func TestAReactivationKeepsTheReasonOfAHold(t *testing.T) {
	t.Parallel()
	l := seen(t, "    timing: {anchor: record.day}", "2026-03-01T00:00:00Z", map[string]any{"day": "2026-03-30"})
	for name, c := range map[string]struct {
		row  instance.Row
		want string
	}{
		"held":     {instance.Row{Status: instance.Deactivated, Reason: reason.ConditionCleared, Hold: instance.HoldConflict}, "reactivated pending true input_conflict"},
		"not held": {instance.Row{Status: instance.Deactivated, Reason: reason.ConditionCleared}, "reactivated pending false "},
		"cancelled and held": {
			instance.Row{Status: instance.Cancelled, Reason: reason.CancelledByPerson, Hold: instance.HoldConflict},
			"reactivated pending true input_conflict",
		},
		"waits": {instance.Row{Status: instance.Pending, Reason: reason.RetriesUsedUp, Hold: instance.HoldRetries}, "updated pending true retries_used_up"},
	} {
		row := c.row
		row.ID, row.Key, row.InputHash, row.WorkflowVersion = 1, string(l.Ahead.Desired[0].Key), l.Ahead.Inputs, l.Workflow.Version
		row.DueAt = l.Ahead.Desired[0].Due
		changes := l.Diff([]instance.Row{row}, plan.BySource, l.At)
		if len(changes) != 1 {
			t.Fatalf("%s: %+v", name, changes)
		}
		after := changes[0].Row
		if got := fmt.Sprint(changes[0].Effect, " ", after.Status, " ", after.Held(), " ", after.Reason); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
