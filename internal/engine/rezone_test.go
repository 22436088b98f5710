package engine_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A tz database with other rules moves pending occasions of records and of the calendar: the local time stays. Sent occasions and those in other
// zones stay. A second comparison finds nothing.
//
// Shows: B7, B34.
func TestOtherRulesOfAZoneMovePendingOccasions(t *testing.T) {
	t.Parallel()
	const definitions = `
workflow: papers
type: reminder
triggers:
  - id: due
    record: paper
    when: record.zone != ""
audience: [{to: record.who}]
timing: {anchor: record.date, offset: [-37d, -1d], at: "09:00", timezone: record.zone}
channel: memory
message: {inbox: {text: x}}
---
workflow: news
type: report
triggers:
  - id: daily
    schedule: {every: 1d, at: "09:00", timezone: Asia/Tbilisi}
audience: [{persona: Manager}]
channel: memory
message: {inbox: {text: x}}
---
persona: Manager
---
channel: memory
provider: memory
`
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, definitions, "ann")
		w.put("paper/1", `{"date": "2026-06-20", "zone": "Asia/Tbilisi", "who": "ann"}`)
		w.put("paper/2", `{"date": "2026-06-20", "zone": "Asia/Tokyo", "who": "ann"}`)
		w.live("10:10")
		due := func() map[string]string {
			rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]string{}
			for _, row := range rows {
				all[row.Key] = fmt.Sprint(row.ID, " ", row.Status, " ", row.DueAt.UTC().Format("01-02 15:04"))
			}
			return all
		}
		before := due()
		if moved, err := w.CompareZones(t.Context()); err != nil || len(moved) > 0 {
			t.Fatalf("at first: %v, %v", moved, err)
		}
		later := world{enginetest.Setup(t, s, definitions, func(c *engine.Config) {
			c.ZoneRules = map[string]*time.Location{"Asia/Tbilisi": time.FixedZone("+03", 3*3600)} // it was four hours ahead
		})}
		later.Clock.Set(w.Clock.Now())
		moved, err := later.CompareZones(t.Context())
		if diff := cmp.Diff([]string{"Asia/Tbilisi"}, moved); diff != "" || err != nil {
			t.Fatalf("%v, moved (-want +got):\n%s", err, diff)
		}
		later.live("10:20")
		want := maps.Clone(before)
		const paper, news = "reminder:papers:paper:1:due:2026-06-20:1", "report-subscription:news:daily:scheduled:20260515T0%d0000Z"
		planned, ok := strings.CutSuffix(before[paper], " pending 06-19 05:00")
		if !ok || !strings.HasSuffix(before[fmt.Sprintf(news, 5)], " pending 05-15 05:00") {
			t.Fatalf("before: %v", before)
		}
		want[paper] = planned + " pending 06-19 06:00"
		want[fmt.Sprintf(news, 5)] = strings.Replace(before[fmt.Sprintf(news, 5)], "pending", "deactivated", 1)
		after := due()
		if _, row, _ := strings.Cut(after[fmt.Sprintf(news, 6)], " "); row != "pending 05-15 06:00" { // an instant is part of its key (B14)
			t.Errorf("the next report: %q", row)
		}
		want[fmt.Sprintf(news, 6)] = after[fmt.Sprintf(news, 6)]
		if !strings.Contains(before["reminder:papers:paper:1:due:2026-06-20:37"], "completed") {
			t.Errorf("nothing was sent: %v", before)
		}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("occasions (-want +got):\n%s", diff)
		}
		if moved, err := later.CompareZones(t.Context()); err != nil || len(moved) > 0 {
			t.Errorf("once more: %v, %v", moved, err)
		}
		if moved, err := w.CompareZones(t.Context()); err != nil || len(moved) > 0 { // it has still the former rules
			t.Errorf("by the process that began before: %v, %v", moved, err)
		}
	})
}
