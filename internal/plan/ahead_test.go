package plan_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/subject"
)

// zonesOfTheWorld are zones of the tz database, one for each distinct set of clock changes in that year.
func zonesOfTheWorld(tb testing.TB, year int) (zones []string) {
	tb.Helper()
	names, err := os.ReadFile("../civil/testdata/zones.txt")
	if err != nil {
		tb.Fatal(err)
	}
	seen := map[string]bool{}
	for name := range strings.FieldsSeq(string(names)) {
		loc, err := time.LoadLocation(name)
		if err != nil {
			tb.Fatal(err)
		}
		var way strings.Builder
		for at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == year; at = at.Add(6 * time.Hour) {
			_, ahead := at.In(loc).Zone()
			fmt.Fprint(&way, ahead, " ")
		}
		if !seen[way.String()] {
			zones = append(zones, name)
		}
		seen[way.String()] = true
	}
	return zones
}

// wallClock maps every local minute of a year in a zone to the first and the last instant at which clocks there show it. It asks Go
// for the local time of every minute and does not use the code that finds instants for local times.
func wallClock(loc *time.Location, from, to time.Time) map[string][2]time.Time {
	shown := map[string][2]time.Time{}
	for at := from; at.Before(to); at = at.Add(15 * time.Minute) {
		wall := at.In(loc).Format("2006-01-02 15:04")
		if of, seen := shown[wall]; seen {
			shown[wall] = [2]time.Time{of[0], at}
		} else {
			shown[wall] = [2]time.Time{at, at}
		}
	}
	return shown
}

// A daily reminder is due once on every day of a year, in every zone, also at local times that are skipped or repeated. For a
// repeated time the dst setting chooses the first or the second; a skipped time moves by the length of the gap or is left out.
//
// Shows: B34.
func TestEveryDayIsDueOnceInEveryZone(t *testing.T) {
	t.Parallel()
	zones := zonesOfTheWorld(t, 2026)
	for _, rule := range []string{"{gap: forward, overlap: first}", "{gap: skip, overlap: second}"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			bundle, problems := loader.Load([]definition.File{{Name: "test.yaml", Text: []byte(`
workflow: w
type: reminder
triggers:
  - id: t
    record: day
    timing:
      anchor: record.date
      at: record.at
      timezone: record.zone
      dst: ` + rule + `
audience:
  - to: record.id
channel: memory
message:
  sms: {text: x}
---
record_type: day
fields: {date: date, at: text, zone: text}
---
workspace: default
`)}}, loader.Options{})
			if definition.HasErrors(problems) {
				t.Fatal(problems)
			}
			var known civil.Zones
			gaps, twice, checked := 0, 0, 0
			for _, name := range zones {
				loc, err := time.LoadLocation(name)
				if err != nil {
					t.Fatal(err)
				}
				first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				shown := wallClock(loc, first.AddDate(0, 0, -3), first.AddDate(1, 0, 3))
				for _, clock := range []string{"00:00", "00:30", "01:30", "02:15"} {
					for day := first; day.Year() == first.Year(); day = day.AddDate(0, 0, 1) {
						if strings.Contains(rule, "second") && !moved(loc, day) {
							continue // as by the other rule
						}
						date := day.Format(time.DateOnly)
						rec := subject.Record{ID: 1, Type: "day", ExtID: date, Props: map[string]any{"date": date, "at": clock, "zone": name}}
						a := plan.Record(bundle.Set, rec, nil, nil, plan.Observation{Now: first, EvaluateAt: first}, &known)[0].Ahead
						checked++
						of, exists := shown[date+" "+clock]
						var want []time.Time
						switch {
						case exists && strings.Contains(rule, "second"):
							want = []time.Time{of[1]}
						case exists:
							want = []time.Time{of[0]}
						case strings.Contains(rule, "forward"):
							want = []time.Time{afterGap(t, shown, loc, day, clock)}
						}
						if exists && !of[0].Equal(of[1]) {
							twice++
						}
						if !exists {
							gaps++
						}
						var got []time.Time
						for _, i := range a.Desired {
							got = append(got, i.Due)
						}
						if fmt.Sprint(got) != fmt.Sprint(want) {
							t.Errorf("%s %s in %s: due %v, want %v (%s %s)", date, clock, name, got, want, a.Reason, a.Error)
						}
					}
				}
			}
			if gaps < 20 || twice < 20 {
				t.Errorf("%d gaps and %d overlaps are no test", gaps, twice)
			}
			t.Logf("%d zones, %d dates, %d in a gap, %d twice", len(zones), checked, gaps, twice)
		})
	}
}

// moved reports whether the clocks change around a day.
func moved(loc *time.Location, day time.Time) bool {
	_, before := day.AddDate(0, 0, -1).In(loc).Zone()
	_, after := day.AddDate(0, 0, 2).In(loc).Zone()
	return before != after
}

// afterGap returns the local time that replaces a skipped one: as long after the gap as the skipped time is after the gap's start.
func afterGap(t *testing.T, shown map[string][2]time.Time, loc *time.Location, day time.Time, clock string) time.Time {
	t.Helper()
	c, err := time.Parse("15:04", clock)
	if err != nil {
		t.Fatal(err)
	}
	wall := day.Add(time.Duration(c.Hour())*time.Hour + time.Duration(c.Minute())*time.Minute)
	for back := 15 * time.Minute; back < 36*time.Hour; back += 15 * time.Minute {
		if of, exists := shown[wall.Add(-back).Format("2006-01-02 15:04")]; exists {
			return of[1].Add(back) // as if the clock had not changed
		}
	}
	t.Fatalf("%s %s in %s: no time of day before it", day, clock, loc)
	return time.Time{}
}
