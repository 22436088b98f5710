package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/subject"
)

// When the first messages of a person's own course are due, by when they join. It never begins with a later message than the first one.
//
// Shows: R16, D20.
func TestJoin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timing string
		joins  string
		want   []string
	}{
		"before the hour":          {`at: "12:00", repeat: {every: 1d, times: 2}`, "15 11:59", []string{"15 12:00", "16 12:00"}},
		"at the hour":              {`at: "12:00", repeat: {every: 1d, times: 2}`, "15 12:00", []string{"15 12:00", "16 12:00"}},
		"after the hour":           {`at: "12:00", repeat: {every: 1d, times: 2}`, "15 12:01", []string{"16 12:00", "17 12:00"}},
		"between two of a day":     {`sequence: [{day: 0, at: "08:00"}, {day: 0, at: "20:00"}]`, "15 12:00", []string{"16 08:00", "16 20:00"}},
		"of a weekday":             {`at: "12:00", start_on: mon, repeat: {every: 1w, times: 2}`, "15 12:01", []string{"18 12:00", "25 12:00"}},
		"at once":                  {`sequence: [{after: 0m}, {after: 2h}]`, "15 12:01", []string{"15 12:01", "15 14:01"}},
		"with an offset":           {`at: "12:00", offset: 2d, repeat: {every: 1d, times: 2}`, "15 11:00", []string{"17 12:00", "18 12:00"}},
		"of a date":                {`anchor: record.d, at: "12:00", repeat: {every: 1d, times: 2}`, "15 11:00", []string{"15 12:00", "16 12:00"}},
		"of a date, by the way":    {`anchor: record.d, repeat: {every: 1d, times: 2}`, "15 08:00", []string{"15 09:00", "16 09:00"}},
		"days before a date":       {`anchor: record.d, offset: -20d, at: "12:00", repeat: {every: 1d, times: 2}`, "15 11:00", []string{"15 12:00", "16 12:00"}},
		"days after a date":        {`anchor: record.d, offset: 20d, at: "12:00", repeat: {every: 1d, times: 2}`, "15 11:00", []string{"15 12:00", "16 12:00"}},
		"its end is that of all":   {`at: "12:00", repeat: {every: 1d, until: 2026-05-17}`, "15 11:00", []string{"15 12:00", "16 12:00"}},
		"it is over":               {`at: "12:00", repeat: {every: 1d, until: 2026-05-17}`, "16 13:00", nil},
		"of the days of a month":   {`at: "12:00", repeat: {every: 1mo, days: [20, 25], times: 1}`, "15 11:00", []string{"20 12:00", "25 12:00"}},
		"in the middle of a month": {`at: "12:00", repeat: {every: 1mo, days: [10, 25], times: 1}`, "15 11:00", []string{"10 12:00", "25 12:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle, problems := loader.Load([]definition.File{{Name: "test.yaml", Text: []byte(fmt.Sprintf(`
workflow: w
type: reminder
triggers: [{id: t, record: stay, when: record.is_on == true, timing: {timezone: UTC, late_joiner: fresh, %s}}]
audience: {everyone: true}
channel: inbox
message: {inbox: {text: x}}
---
channel: inbox
provider: inbox
`, tt.timing))}}, loader.Options{Providers: []definition.ProviderInfo{{Name: "inbox"}}})
			if definition.HasErrors(problems) {
				t.Fatal(problems)
			}
			set := bundle.Set
			w := set.Workflow("w")
			began := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
			record := subject.Record{ID: 1, Type: "stay", ExtID: "1", Props: map[string]any{"is_on": true, "d": "2026-05-01"}}
			eval := Due(set, definition.Match{Workflow: w, Trigger: w.TriggerByID("t")}, record, nil, condition.States{}, Observation{Now: began}, new(civil.Zones))
			if eval.Ahead.Course == nil {
				t.Fatal(eval.Ahead.Reason, eval.Ahead.Error)
			}
			joins, err := time.Parse("2006-01-02 15:04", "2026-05-"+tt.joins)
			if err != nil {
				t.Fatal(err)
			}
			own := eval.Ahead.Course.Of(eval.Ahead.Course.Join(7, "bob", joins))
			var got []string
			for row := range own.All(joins) {
				if got = append(got, row.DueAt.Format("02 15:04")); row.Contact != 7 {
					t.Errorf("%s is of %d", row.Key, row.Contact)
				}
				eval.Ahead.People = map[string]Person{"bob": own.person}
				if i, ok := eval.Ahead.Find(row); !ok || string(i.Key) != row.Key || !i.Due.Equal(row.DueAt) {
					t.Errorf("%s is found as %+v", row.Key, i)
				}
				if len(got) == 2 {
					break
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("due %v, want %v", got, tt.want)
			}
		})
	}
}
