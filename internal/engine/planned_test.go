package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// visits is a reminder of the date of a record; trigger are the keys of its trigger.
func visits(trigger string) string {
	return `
workflow: w
type: reminder
triggers:
  - id: t
    record: visit
` + trigger + `
audience: {to: record.who}
channel: inbox
message:
  inbox: {text: x}
---
persona: Manager
---
channel: inbox
provider: inbox
`
}

// waits returns the waiting occasions, each as "day hour:minute".
func (w world) waits() (list []string) {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Status: "pending"}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, row := range rows {
		list = append(list, row.DueAt.UTC().Format("02 15:04"))
	}
	return list
}

// The first instant of the year 1 is how some programs write that there is no date: it has long passed, and must not count as now.
func TestTheFirstInstantIsNotNow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "00:00", timezone: UTC}`), "ann")
		w.put("visit/date", `{"on_date": "0001-01-01", "who": "ann"}`)
		w.put("visit/instant", `{"on_date": "0001-01-01T00:00:00Z", "who": "ann"}`)
		w.live("10:10")
		if n := len(w.Provider.Sent()); n != 0 {
			t.Errorf("%d messages were sent", n)
		}
	})
}

// With follow_zone: false a reminder leaves at the time of the zone in which it was planned, even if its record has another zone by then. Shows: B38.
func TestAZoneThatIsNotFollowed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", follow_zone: false}`), "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann", "timezone": "UTC"}`)
		w.live("10:10")
		w.put("visit/v", `{"timezone": "America/Los_Angeles"}`)
		w.live("12:00")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent at noon", n)
		}
	})
}

// An occasion becomes due while its record does not ask for it; the record asks for it again before the next evaluation. The occasion is sent.
// Shows: P1, R14.
func TestABreakThatNoEvaluationHasSeen(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits("    when: record.live == true\n    timing: {anchor: record.on_date, at: \"12:00\"}"), "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann", "live": true}`)
		w.live("11:00")
		w.Clock.Set(at("12:00"))
		w.put("visit/v", `{"live": false}`)
		x := fanout.New(s, catalog.New(s, enginetest.Options(nil)), nil, nil)
		if n, err := x.Step(t.Context(), w.Clock.Now(), 10); err != nil || n != 1 {
			t.Fatalf("%d were taken up: %v", n, err)
		}
		w.put("visit/v", `{"live": true}`)
		w.live("12:01")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent", n)
		}

		w.put("visit/v", `{"on_date": "2026-05-15"}`)
		w.live("12:02")
		w.Clock.Set(at("12:00").AddDate(0, 0, 1))
		w.put("visit/v", `{"live": false}`)
		if n, err := x.Step(t.Context(), w.Clock.Now(), 10); err != nil || n != 1 {
			t.Fatalf("%d were taken up: %v", n, err)
		}
		for w.tick() {
		}
		w.Clock.Set(w.Clock.Now().Add(time.Minute))
		for w.tick() {
		}
		if n, waits := len(w.Provider.Sent()), w.waits(); n != 0 || waits != nil {
			t.Errorf("of what ended at its moment %d messages were sent, and %v waits", n, waits)
		}
	})
}

// A trigger that gets a cooldown instead of a date withdraws its planned occasions, and plans them again when the edit is reverted.
func TestAnotherKindOfTrigger(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		date := visits("    when: record.live == true\n    timing: {anchor: record.on_date, at: \"12:00\", offset: [0d, 1d]}")
		w := newWorld(t, s, date, "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann", "live": true}`)
		w.live("11:00")
		w.mustBe("planned", w.waits(), []string{"15 12:00", "14 12:00"})
		w.Apply(visits("    when: record.live == true\n    cooldown: {length: 9d}"))
		w.live("12:30")
		w.mustBe("under a cooldown", w.waits(), nil)
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent under the cooldown, want 1", n)
		}
		w.Apply(date)
		w.live("12:31")
		w.mustBe("again", w.waits(), []string{"15 12:00"})
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d messages of what came due meanwhile, want 1", n)
		}
	})
}

// A daily message with an offset is sent, although it is due on the next day. Shows: B36.
func TestOnceADayWithAnOffset(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		trigger := "    metric: {name: m, value: record.booked, thresholds: [80]}\n    fire: once_per_day\n    timing: {offset: 6h}"
		w := newWorld(t, s, visits(trigger), "ann")
		w.Clock.Set(at("20:00"))
		w.put("visit/v", `{"booked": 85, "who": "ann"}`)
		w.live("23:59")
		for _, hour := range []int{24, 26} {
			w.Clock.Set(at("00:00").Add(time.Duration(hour) * time.Hour))
			for w.tick() {
			}
		}
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent", n)
		}
		if waits := strings.Join(w.waits(), " "); waits != "15 06:00" {
			t.Errorf("%s waits", waits)
		}
	})
}

// centres have reminders of their visits at their own date and in their own zone.
const centres = `
workflow: w
type: reminder
triggers:
  - id: t
    record: visit
    timing:
      anchor: record.centre.opens_on
      at: "12:00"
      timezone: [record.centre.timezone]
audience: {to: record.who}
channel: inbox
message:
  inbox: {text: x}
---
record_type: centre
fields: {opens_on: date, timezone: text}
---
record_type: visit
fields: {centre: record(centre), who: text}
---
persona: Manager
---
channel: inbox
provider: inbox
`

// Occasions that are planned by a field of a related record follow it: also when that record comes later, is deleted and made again.
func TestPlannedOccasionsFollowTheParent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, centres, "ann")
		w.put("visit/v", `{"centre": "c", "who": "ann"}`)
		w.live("10:01")
		w.mustBe("without a centre", w.waits(), nil)
		w.put("centre/c", `{"opens_on": "2026-05-14", "timezone": "UTC"}`)
		w.live("10:02")
		w.mustBe("once it is there", w.waits(), []string{"14 12:00"})
		w.put("centre/c", `{"timezone": "America/New_York"}`)
		w.live("10:03")
		w.mustBe("in another zone", w.waits(), []string{"14 16:00"})
		w.write(upsert.Delete, "centre/c", `{}`)
		w.live("10:04")
		w.mustBe("when it is deleted", w.waits(), nil)
		w.put("centre/c", `{"opens_on": "2026-05-14", "timezone": "UTC"}`)
		w.live("12:00")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent once it was made again", n)
		}
	})
}

// A record that is written again and again has all related records evaluated, and not only the first ones. Shows: P1.
func TestABusyParentKeepsNoChildWaiting(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, centres, "ann")
		for i := range 7 {
			w.put(fmt.Sprint("visit/", i), `{"centre": "c", "who": "ann"}`)
		}
		w.live("10:01")
		for i := range 6 {
			w.put("centre/c", fmt.Sprintf(`{"opens_on": "2026-06-%02d", "timezone": "UTC"}`, i+1))
			if _, _, err := jobs.New(s, related.Jobs(s, 2)).Step(t.Context(), w.Clock.Now()); err != nil {
				t.Fatal(err)
			}
		}
		visits, err := s.Records(t.Context(), w.Workspace.ID, "visit", store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range visits {
			if v.EvaluateAt.IsZero() {
				t.Errorf("visit %s waits for an evaluation", v.ExtID)
			}
		}
		w.live("10:02")
		if waits := slices.Compact(w.waits()); len(waits) != 1 || waits[0] != "06 12:00" {
			t.Errorf("%v waits, want all on the last date", waits)
		}
	})
}
