package evaluator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// narrow is what store.Plan has of all rows: those that are pending with their first rows, and of each desired key the first row and the one with
// the highest number.
func narrow(all store.Plan, desired []key.Instance) (some store.Plan) {
	named := map[key.Instance]bool{}
	for _, k := range desired {
		named[k] = true
	}
	for _, row := range all.Instances {
		if row.Status == instance.Pending {
			base, _ := key.Instance(row.Key).Everywhere().Base()
			named[base] = true
		}
	}
	highest := map[key.Instance]int{}
	for _, row := range all.Instances {
		if base, n := key.Instance(row.Key).Base(); named[base] {
			highest[base] = max(highest[base], n)
		}
	}
	some.Freed = map[key.Instance]int{}
	for _, row := range all.Instances {
		base, n := key.Instance(row.Key).Base()
		if row.Status == instance.Pending || named[base] && (n == 0 || n == highest[base]) {
			some.Instances = append(some.Instances, row)
			if freed := all.Freed[key.Instance(row.Key)]; freed > 0 {
				some.Freed[key.Instance(row.Key)] = freed
			}
		}
	}
	return some
}

// A comparison of what is desired with what is stored needs no more rows than a store.Plan has: whatever has ended under other keys, or under lower
// numbers, changes nothing.
func TestWhatHasEndedChangesNoPlan(t *testing.T) {
	t.Parallel()
	catalog := catalogtest.Of(t, `
workflow: w
type: reminder
triggers: [{id: t, record: visit}]
timing: {anchor: record.due_on, offset: [-1d, 0d], at: "09:00", timezone: [contact.timezone, UTC]}
audience: {to: record}
channel: inbox
message: {inbox: {text: x}}
---
channel: inbox
provider: inbox
`)
	set, err := catalog.Current(t.Context(), catalogtest.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	less := 0 // cases in which rows were left out
	rapid.Check(t, func(t *rapid.T) {
		dates := []string{"2026-05-13", "2026-05-16", "2026-05-17"}
		rec := subject.Record{ID: 7, Type: "visit", ExtID: "1", Rev: 1, CreatedAt: now, UpdatedAt: now, Props: map[string]any{"due_on": rapid.SampledFrom(dates).Draw(t, "date")}}
		rec.Closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0
		var zones civil.Zones
		eval := plan.Record(set, rec, nil, nil, plan.Observation{Now: now, EvaluateAt: now}, &zones)[0]
		all := store.Plan{Freed: map[key.Instance]int{}}
		known := map[key.Instance]bool{}
		for n := range rapid.IntRange(0, 20).Draw(t, "rows") {
			date, _ := civil.ParseDate(rapid.SampledFrom(dates).Draw(t, "of"))
			offset := civil.Duration{Days: -rapid.IntRange(0, 2).Draw(t, "before")}
			k := key.Date("reminder", "w", "visit", "1", "t", date, offset)
			if zone := rapid.SampledFrom([]string{"", "", "Africa/Nairobi"}).Draw(t, "zone"); zone != "" {
				k = k.InZone(zone)
			}
			first := k
			if k = k.Retry(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 10}).Draw(t, "retry")); known[k] {
				continue
			}
			known[k] = true
			row := instance.Row{
				Workspace: 1, ID: instance.ID(n + 1), Key: string(k), Workflow: "w", Trigger: "t", Record: 7, Type: "reminder", Source: instance.FromPlan,
				Status: rapid.SampledFrom(instance.Statuses()).Draw(t, "status"), DueAt: now.AddDate(0, 0, rapid.IntRange(-3, 3).Draw(t, "due")),
				InputHash: rapid.SampledFrom([]string{eval.Ahead.Inputs, "others"}).Draw(t, "inputs"), Timezone: "UTC", LocalDate: date.String(),
				WorkflowVersion: int64(rapid.IntRange(0, 2).Draw(t, "version")),
			}
			if row.Status != instance.Pending {
				row.CompletedAt = now
			}
			if rapid.IntRange(0, 5).Draw(t, "begun") == 0 {
				row.Event = 9
			}
			if k == first && k.Zone() == "" {
				if freed := rapid.IntRange(0, 3).Draw(t, "freed"); freed > 0 {
					all.Freed[k] = freed
				}
			}
			all.Instances = append(all.Instances, row)
		}
		l := &evaluation{Evaluation: eval}
		some := narrow(all, keys(l))
		if len(some.Instances) < len(all.Instances) {
			less++
		}
		for _, by := range []plan.Cause{plan.BySource, plan.ByRepair} {
			opts := []cmp.Option{cmpopts.EquateEmpty(), cmp.AllowUnexported(plan.Desired{}, civil.Duration{})}
			if diff := cmp.Diff(eval.Diff(standing(all), by, now), eval.Diff(standing(some), by, now), opts...); diff != "" {
				t.Fatalf("by %s (-with all rows +with those of a plan)\n%s", by, diff)
			}
		}
	})
	if less == 0 {
		t.Error("no row was left out")
	}
}
