package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// zonesReminder is a reminder at nine in the zone of each contact, on the day of a paper.
func zonesReminder(timing, rest string) string {
	return "workflow: w\ntype: reminder\ntriggers:\n  - id: due\n    record: paper\n    when: record.wanted == true\naudience: {persona: Mother}\n" +
		"timing: {anchor: record.date, " + timing + "}\nchannel: inbox\nmessage:\n  inbox: {text: x}\n" + rest +
		"---\nrecord_type: paper\nfields: {date: date, wanted: bool, timezone: text}\n---\npersona: Mother\n---\nchannel: inbox\nprovider: inbox\n" +
		"---\nworkspace: default\ncadence: {max_per_day: 0}\n"
}

const byContact = `at: "09:00", timezone: [contact.timezone, record.timezone, Asia/Tokyo]`

// zonesWorld is on the evening before the reminder: it is nine nowhere yet.
func zonesWorld(t *testing.T, s *store.Store) world {
	w := newWorld(t, s, zonesReminder(byContact, ""))
	w.Clock.Set(time.Date(2026, 5, 14, 0, 0, 0, 0, time.UTC))
	w.mother("amina", "Africa/Nairobi")
	w.mother("berta", "Europe/Berlin")
	w.mother("carol", "America/New_York")
	w.put("paper/1", `{"date": "2026-05-16", "wanted": true}`)
	return w
}

// on returns an instant of May 2026.
func on(day, hour, minute int) time.Time {
	return time.Date(2026, 5, day, hour, minute, 0, 0, time.UTC)
}

// zoneRows returns the rows of an occasion: "zone due status reason".
func (w world) zoneRows() (list []string) {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, row := range rows {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", strings.TrimPrefix(row.Key, "reminder:w:paper:1:due:"), row.DueAt.UTC().Format("02 15:04"), row.Status, row.Reason)))
	}
	slices.Sort(list)
	return list
}

// Nine o'clock on the day of a record is nine o'clock in the zone of each contact: a row for each zone. A contact without a zone is notified in the
// record's zone, or in the next one of the list.
//
// Shows: R15, B34, D1.
func TestADateInTheZoneOfEachPerson(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := zonesWorld(t, s)
		w.person("dora", `"persona": "Mother"`)
		for w.tick() {
		}
		w.mustBe("planned", w.zoneRows(), []string{"2026-05-16:0 15 19:00 pending"})
		w.mustBe("the day", w.follow(on(17, 0, 0)), []string{"16 00:00 dora", "16 06:00 amina", "16 07:00 berta", "16 13:00 carol"})
		w.mustBe("its rows", w.zoneRows(), []string{
			"2026-05-16:0 15 19:00 completed expanded", "2026-05-16:0:z:Africa/Nairobi 16 06:00 completed expanded",
			"2026-05-16:0:z:America/New_York 16 13:00 completed expanded", "2026-05-16:0:z:Asia/Tokyo 16 00:00 completed expanded",
			"2026-05-16:0:z:Europe/Berlin 16 07:00 completed expanded",
		})
		w.put("paper/1", `{"date": "2026-05-20", "timezone": "Europe/Lisbon"}`)
		w.mustBe("another day, of a record with a zone", w.follow(on(20, 7, 30)), []string{"20 06:00 amina", "20 07:00 berta"})
		w.put("paper/1", `{"timezone": "America/Chicago"}`)
		w.mustBe("the record moves, and who has no zone with it", w.follow(on(22, 0, 0)), []string{"20 13:00 carol", "20 14:00 dora"})
	})
}

// A contact who moves is notified once: in the zone in which they are at its hour, or at the end of the occasion if they were in none. A contact who
// joins after it has begun, in a zone without a row, is not notified.
//
// Shows: R15, R16.
func TestAContactWhoMovesIsRemindedOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := zonesWorld(t, s)
		for _, name := range []string{"early", "late", "lost"} {
			w.mother(name, "Europe/Berlin")
		}
		w.follow(on(16, 5, 0))
		w.mother("early", "America/New_York") // before its hour
		w.mother("lost", "Asia/Tokyo")        // its hour has passed there
		w.mother("new", "Europe/Berlin")
		w.mustBe("in Berlin", w.follow(on(16, 8, 0)), []string{"16 06:00 amina", "16 07:00 berta", "16 07:00 late", "16 07:00 new"})
		w.mother("late", "America/New_York") // after its hour
		w.mother("tardy", "Asia/Tokyo")
		w.mustBe("elsewhere", w.follow(on(20, 0, 0)), []string{"16 13:00 carol", "16 13:00 early", "16 21:00 lost"})
	})
}

// Changes between the first zone and the last one: contacts who were not notified yet get the present state, and nobody is notified twice.
//
// Shows: R2, R13, R14, R15, R17, B30, B32, B37, P2.
func TestADateThatChangesBetweenTwoZones(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name string
		does func(w world, until func(time.Time))
		want []string // from half past seven on: Nairobi and Berlin were notified
	}{
		{"nothing", func(world, func(time.Time)) {}, []string{"16 13:00 carol"}},
		{"another date", func(w world, _ func(time.Time)) { w.put("paper/1", `{"date": "2026-05-20"}`) }, []string{"20 06:00 amina", "20 07:00 berta", "20 13:00 carol"}},
		{"another date, and back", func(w world, until func(time.Time)) {
			w.put("paper/1", `{"date": "2026-05-20"}`)
			until(on(16, 7, 40))
			w.put("paper/1", `{"date": "2026-05-16"}`)
		}, []string{"16 13:00 carol"}},
		{"another date, and back when the hour is past", func(w world, until func(time.Time)) {
			w.put("paper/1", `{"date": "2026-05-20"}`)
			until(on(16, 13, 40))
			w.put("paper/1", `{"date": "2026-05-16"}`)
		}, []string{"16 13:40 carol"}},
		{"closed", func(w world, _ func(time.Time)) { w.write(upsert.Merge, "paper/1", `{"closed": true}`) }, nil},
		{"closed, and opened again", func(w world, until func(time.Time)) {
			w.write(upsert.Merge, "paper/1", `{"closed": true}`)
			until(on(16, 7, 40))
			w.write(upsert.Merge, "paper/1", `{"closed": false}`)
		}, []string{"16 13:00 carol"}},
		{"met no longer", func(w world, _ func(time.Time)) { w.put("paper/1", `{"wanted": false}`) }, nil},
		{"deleted", func(w world, _ func(time.Time)) { w.write(upsert.Delete, "paper/1", `{}`) }, nil},
		{"another hour", func(w world, _ func(time.Time)) {
			w.Apply(zonesReminder(strings.Replace(byContact, "09:00", "10:30", 1), ""))
		}, []string{"16 14:30 carol"}},
		{"an earlier hour", func(w world, _ func(time.Time)) {
			w.Apply(zonesReminder(strings.Replace(byContact, "09:00", "03:00", 1), ""))
		}, []string{"16 07:30 carol"}},
		{"one zone", func(w world, _ func(time.Time)) {
			w.Apply(zonesReminder(`at: "09:00", timezone: Asia/Kathmandu`, ""))
		}, []string{"16 07:30 carol"}},
		{"one zone that is not followed", func(w world, _ func(time.Time)) {
			w.Apply(zonesReminder(`at: "09:00", timezone: America/Los_Angeles, follow_zone: false`, ""))
		}, []string{"16 16:00 carol"}},
		{"another hour, with reminders", func(w world, until func(time.Time)) {
			w.Apply(zonesReminder(byContact+", reminders: [1d]", ""))
			w.put("paper/1", `{"date": "2026-05-20"}`)
			until(on(20, 7, 30))
			w.Apply(zonesReminder(strings.Replace(byContact, "09:00", "10:30", 1)+", reminders: [1d]", ""))
		}, []string{"20 06:00 amina", "20 07:00 berta", "20 14:30 carol", "21 06:00 amina", "21 07:00 berta", "21 14:30 carol"}},
		{"switched off", func(w world, _ func(time.Time)) { w.Apply(zonesReminder(byContact, "enabled: false\n")) }, nil},
		{"switched off and on", func(w world, until func(time.Time)) {
			w.Apply(zonesReminder(byContact, "enabled: false\n"))
			until(on(16, 7, 40))
			w.Apply(zonesReminder(byContact, ""))
		}, []string{"16 13:00 carol"}},
		{"paused for longer than it may be late", func(w world, until func(time.Time)) {
			w.Apply(zonesReminder(byContact+", catch_up: 1h", ""))
			pause(w.Bundle, "w")
			until(on(17, 6, 0))
			resume(w.Bundle, "w")
		}, []string{"17 06:00 carol"}},
		{"the occasion is cancelled", func(w world, _ func(time.Time)) { w.cancelRow("2026-05-16:0") }, nil},
		{"the row of a zone is cancelled", func(w world, _ func(time.Time)) { w.cancelRow("2026-05-16:0:z:America/New_York") }, nil},
		{"forgotten, and planned again", func(w world, until func(time.Time)) {
			if _, err := w.operator().Forget(w.Context(), w.Workspace.ID, "reminder:w:paper:1:due:2026-05-16:0", "test", w.Clock.Now()); err != nil {
				w.Fatal(err)
			}
			until(on(16, 7, 40))
			w.put("paper/1", `{"date": "2026-05-20"}`)
			until(on(16, 7, 50))
			w.put("paper/1", `{"date": "2026-05-16"}`)
		}, []string{"16 07:50 amina", "16 07:50 berta", "16 13:00 carol"}},
		{"the row of a zone is tried again", func(w world, until func(time.Time)) {
			until(on(18, 0, 0))
			w.retryRow("2026-05-16:0:z:Europe/Berlin")
		}, []string{"16 13:00 carol", "18 00:00 berta"}},
		{"tried again when it is over", func(w world, until func(time.Time)) {
			until(on(18, 0, 0))
			w.retryRow("2026-05-16:0")
		}, []string{"16 13:00 carol", "18 00:00 amina", "18 00:00 berta", "18 00:00 carol"}},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := zonesWorld(t, s)
				w.mustBe("before", w.follow(on(16, 7, 30)), []string{"16 06:00 amina", "16 07:00 berta"})
				var got []string
				story.does(w, func(until time.Time) { got = append(got, w.follow(until)...) })
				if diff := cmp.Diff(story.want, append(got, w.follow(on(24, 0, 0))...)); diff != "" {
					t.Errorf("(-want +got):\n%s\n%q", diff, w.zoneRows())
				}
				for _, row := range w.zoneRows() {
					if strings.Contains(row, "pending") {
						t.Errorf("it still waits: %s", row)
					}
				}
			})
		})
	}
}

// Processes that die between two pages expand a large audience, and the date changes meanwhile: everybody gets one message, at their hour of the new
// date.
//
// Shows: R15, B32, P2.
func TestManyPeopleOfARecordInTwoZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const people = 600
		w := newWorld(t, s, zonesReminder(byContact, ""))
		w.Clock.Set(on(14, 0, 0))
		items := make([]contact.Item, people)
		for i := range items {
			zone := []string{"Europe/Berlin", "America/New_York"}[i%2]
			items[i] = contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": "%d"}, "persona": "Mother", "timezone": %q}`, i, zone)), fmt.Sprint(i))
		}
		for from := 0; from < people; from += 500 {
			if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, items[from:min(from+500, people)], w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		w.put("paper/1", `{"wanted": true, "date": "2026-05-15"}`)
		for w.tick() {
		}
		w.Clock.Set(on(14, 19, 0))
		page := func() {
			x := fanout.New(s, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}, afterChunk)
			if _, err := x.Step(t.Context(), w.Clock.Now(), 10); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
		}
		page() // the first of two
		w.put("paper/1", `{"date": "2026-05-16"}`)
		if got := w.follow(on(15, 18, 59)); len(got) > 0 {
			t.Errorf("%d messages of a date that is no more", len(got))
		}
		w.mustBe("its rows", w.zoneRows(), []string{
			"2026-05-15:0 14 19:00 deactivated date_changed", "2026-05-15:0:z:America/New_York 15 13:00 deactivated date_changed",
			"2026-05-15:0:z:Europe/Berlin 15 07:00 deactivated date_changed", "2026-05-16:0 15 19:00 pending",
		})
		hours := map[string]int{}
		for hour := range 30 {
			w.Clock.Set(on(15, 19, 0).Add(time.Duration(hour) * time.Hour))
			for range 3 {
				if _, err := fanout.New(s, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}, afterChunk).Step(t.Context(), w.Clock.Now(), 10); err != nil && !errors.Is(err, errDied) {
					t.Fatal(err)
				}
			}
			for w.tick() {
			}
			if n := len(w.Provider.Sent()); n > 0 {
				hours[w.Clock.Now().Format("02 15:04")] = n
			}
		}
		if diff := cmp.Diff(map[string]int{"16 07:00": people / 2, "16 13:00": people / 2}, hours); diff != "" || w.Provider.Repeats > 0 {
			t.Errorf("%d left twice; (-want +got):\n%s", w.Provider.Repeats, diff)
		}
	})
}

func (w world) cancelRow(key string) {
	w.Helper()
	row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, "reminder:w:paper:1:due:"+key)
	if err == nil {
		_, err = w.operator().CancelInstance(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w world) retryRow(key string) {
	w.Helper()
	row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, "reminder:w:paper:1:due:"+key)
	if err == nil {
		_, err = w.operator().RetryInstance(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
	}
	if err != nil {
		w.Fatal(err)
	}
}
