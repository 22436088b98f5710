package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// ownReminder is a reminder at nine in the zone of the one person of a paper.
func ownReminder(to, timing string) string {
	return strings.Replace(zonesReminder(timing, ""), "audience: {persona: Mother}", "audience: {"+to+"}", 1)
}

// ownWorld is two days before the reminder of a paper whose person is in Nairobi.
func ownWorld(t *testing.T, s *store.Store, timing string) world {
	w := newWorld(t, s, ownReminder("to: record", timing))
	w.Clock.Set(on(14, 0, 0))
	w.mother("1", "Africa/Nairobi")
	w.put("paper/1", `{"date": "2026-05-16", "wanted": true}`)
	for w.tick() {
	}
	return w
}

// The zone of the one person of a record is read when its date is planned, and a change of it moves what waits: one row, under the key that it has
// in any zone.
//
// Shows: R13, R14, R15, B34, D1.
func TestADateInTheZoneOfOnePerson(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name   string
		timing string // empty: byContact
		does   func(w world, until func(time.Time))
		want   []string // messages from the beginning on
		rows   []string
	}{
		{"nothing", "", func(world, func(time.Time)) {}, []string{"16 06:00 1"}, []string{"2026-05-16:0 16 06:00 completed expanded"}},
		{"a move to the west", "", func(w world, until func(time.Time)) {
			until(on(16, 5, 0))
			w.mother("1", "America/New_York")
		}, []string{"16 13:00 1"}, []string{"2026-05-16:0 16 13:00 completed expanded"}},
		{"a move to where the hour is past", "", func(w world, until func(time.Time)) {
			until(on(16, 5, 0))
			w.mother("1", "Asia/Tokyo")
		}, []string{"16 05:00 1"}, []string{"2026-05-16:0 16 00:00 completed expanded"}},
		{"a move at the very instant", "", func(w world, until func(time.Time)) {
			until(on(16, 5, 59))
			w.Clock.Set(on(16, 6, 0))
			w.mother("1", "Europe/Berlin")
		}, []string{"16 07:00 1"}, []string{"2026-05-16:0 16 07:00 completed expanded"}},
		{"a move after the hour", "", func(w world, until func(time.Time)) {
			until(on(16, 6, 0))
			w.mother("1", "America/New_York")
		}, []string{"16 06:00 1"}, []string{"2026-05-16:0 16 06:00 completed expanded"}},
		{"there and back", "", func(w world, until func(time.Time)) {
			w.mother("1", "America/New_York")
			until(on(15, 0, 0))
			w.mother("1", "Africa/Nairobi")
		}, []string{"16 06:00 1"}, []string{"2026-05-16:0 16 06:00 completed expanded"}},
		{"the zone is removed", "", func(w world, _ func(time.Time)) { w.person("1", `"timezone": ""`) }, []string{"16 00:00 1"}, []string{"2026-05-16:0 16 00:00 completed expanded"}},
		{"the zone is removed, and the record has one", "", func(w world, _ func(time.Time)) {
			w.put("paper/1", `{"timezone": "Europe/Lisbon"}`)
			w.person("1", `"timezone": ""`)
		}, []string{"16 08:00 1"}, []string{"2026-05-16:0 16 08:00 completed expanded"}},
		{"the record moves, and the person has a zone", "", func(w world, _ func(time.Time)) {
			w.put("paper/1", `{"timezone": "Europe/Lisbon"}`)
		}, []string{"16 06:00 1"}, []string{"2026-05-16:0 16 06:00 completed expanded"}},
		{"what waits keeps its zone", byContact + ", offset: [-1d, 0d], follow_zone: false", func(w world, until func(time.Time)) {
			until(on(15, 7, 0))
			w.mother("1", "America/New_York")
			until(on(15, 8, 0))
			w.put("paper/1", `{"date": "2026-05-18"}`)
		}, []string{"15 06:00 1", "17 13:00 1", "18 13:00 1"}, []string{
			"2026-05-16:0 16 06:00 deactivated date_changed", "2026-05-16:1 15 06:00 completed expanded",
			"2026-05-18:0 18 13:00 completed expanded", "2026-05-18:1 17 13:00 completed expanded",
		}},
		{"an hour later", "", func(w world, until func(time.Time)) {
			w.Apply(ownReminder("to: record", strings.Replace(byContact, "09:00", "10:30", 1)))
			w.mother("1", "Europe/Berlin")
		}, []string{"16 08:30 1"}, []string{"2026-05-16:0 16 08:30 completed expanded"}},
		{"another date after the message", "", func(w world, until func(time.Time)) {
			until(on(16, 7, 0))
			w.mother("1", "America/New_York")
			w.put("paper/1", `{"date": "2026-05-20"}`)
		}, []string{"16 06:00 1", "20 13:00 1"}, []string{"2026-05-16:0 16 06:00 completed expanded", "2026-05-20:0 20 13:00 completed expanded"}},
		{"by the id", "", func(w world, until func(time.Time)) {
			w.Apply(ownReminder("to: record.id", byContact))
			until(on(14, 5, 0))
			w.mother("1", "Europe/Berlin")
		}, []string{"16 07:00 1"}, []string{"2026-05-16:0 16 07:00 completed expanded"}},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				timing := story.timing
				if timing == "" {
					timing = byContact
				}
				w := ownWorld(t, s, timing)
				var got []string
				story.does(w, func(until time.Time) { got = append(got, w.follow(until)...) })
				w.mustBe("messages", append(got, w.follow(on(24, 0, 0))...), story.want)
				w.mustBe("rows", w.zoneRows(), story.rows)
			})
		})
	}
}

// ofPatients is a trigger whose person is named by a field.
func ofPatients(zones string) string {
	return strings.Replace(ownReminder("to: record.patient", `at: "09:00", timezone: `+zones), "fields: {date: date,", "fields: {patient: contact, date: date,", 1)
}

// A record names its person in a field: any number of records move with the person, also those that were planned before the contact existed, and a
// record of another person does not.
//
// Shows: R14, R15, B34.
func TestThePersonInAField(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, ofPatients("[contact.timezone, record.timezone, Asia/Tokyo]"))
		w.Clock.Set(on(14, 0, 0))
		w.mother("berta", "Europe/Berlin")
		w.put("paper/1", `{"date": "2026-05-16", "wanted": true, "patient": "amina"}`)
		w.put("paper/2", `{"date": "2026-05-17", "wanted": true, "patient": "amina"}`)
		w.put("paper/3", `{"date": "2026-05-16", "wanted": true, "patient": "berta"}`)
		w.put("paper/4", `{"date": "2026-05-16", "wanted": true, "patient": "amina", "timezone": "Europe/Lisbon"}`)
		w.follow(on(14, 1, 0))
		w.mustBe("before the contact exists", w.zonesOf(), []string{"1 Asia/Tokyo", "2 Asia/Tokyo", "3 Europe/Berlin", "4 Europe/Lisbon"})
		w.mother("amina", "Africa/Nairobi")
		w.follow(on(14, 2, 0))
		w.mustBe("it exists", w.zonesOf(), []string{"1 Africa/Nairobi", "2 Africa/Nairobi", "3 Europe/Berlin", "4 Africa/Nairobi"})
		w.put("paper/2", `{"patient": "berta"}`)
		w.mother("berta", "America/New_York")
		w.follow(on(14, 3, 0))
		w.mustBe("another person, who moves", w.zonesOf(), []string{"1 Africa/Nairobi", "2 America/New_York", "3 America/New_York", "4 Africa/Nairobi"})
		w.put("paper/2", `{"patient": null}`)
		w.follow(on(14, 4, 0))
		w.mustBe("nobody", w.zonesOf(), []string{"1 Africa/Nairobi", "2 Asia/Tokyo", "3 America/New_York", "4 Africa/Nairobi"})
		w.Apply(ofPatients("Europe/Rome"))
		w.follow(on(14, 5, 0))
		w.mother("amina", "Pacific/Honolulu")
		w.mustBe("the rule has a zone", w.follow(on(16, 7, 0)), []string{"16 07:00 amina", "16 07:00 amina", "16 07:00 berta"})
	})
}

// zonesOf lists the zones of what waits, by record.
func (w world) zonesOf() (list []string) {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	for _, row := range rows {
		if row.Status == "pending" {
			list = append(list, strings.Split(row.Key, ":")[3]+" "+row.Timezone)
		}
	}
	slices.Sort(list)
	return list
}

// A contact without records that follow it costs a look, and without such triggers nothing at all; a person of many records moves them page by page.
func TestAPersonOfManyRecordsMoves(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const papers = 1200
		w := newWorld(t, s, ofPatients("contact.timezone"))
		w.Clock.Set(on(14, 0, 0))
		w.mother("amina", "Africa/Nairobi")
		w.follow(on(14, 0, 1))
		items := make([]record.Item, papers)
		for i := range items {
			items[i] = record.Item{Type: "paper", ID: fmt.Sprint(i), Props: map[string]any{"date": "2026-05-16", "wanted": true, "patient": "amina"}}
		}
		for from := 0; from < papers; from += 600 {
			if _, err := w.Records().Write(t.Context(), w.Workspace, upsert.Merge, items[from:from+600], "test", w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		w.follow(on(14, 1, 0))
		w.mother("amina", "Europe/Berlin")
		w.mother("berta", "Europe/Berlin")
		w.person("berta", `"timezone": "Europe/Berlin", "name": "B"`)
		w.follow(on(14, 2, 0))
		for _, zone := range w.zonesOf()[:100] {
			if !strings.HasSuffix(zone, " Europe/Berlin") {
				t.Fatal(zone)
			}
		}
		runs, err := w.runs(job.Related)
		if err != nil {
			t.Fatal(err)
		}
		var done []string
		for _, r := range runs {
			done = append(done, fmt.Sprintf("%s %d %s", r.Subject, r.Done, r.Status))
		}
		slices.Sort(done)
		// Three writes moved somebody, and records followed one of those.
		w.mustBe("runs", done, []string{"@contact 1 done", "@contact 1 done", "@contact 1 done", "@contact/amina 1200 done"})
		w.Apply(ofPatients("record.timezone"))
		w.mother("amina", "Africa/Nairobi")
		w.follow(on(14, 3, 0))
		if runs, err = w.runs(job.Related); err != nil || len(runs) != 4 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

// A person whose contact is made by an event, for an address, or is merged: the zone is that of the contact with the record's id, else the record's own.
//
// Shows: R15, R20.
func TestThePersonOfARecordWithAnAddress(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const timing = `offset: [-2d, -1d, 0d], at: "09:00", timezone: [contact.timezone, Asia/Tokyo]`
		w := newWorld(t, s, strings.Replace(ownReminder("to: record", timing), "fields: {date: date,", "fields: {email: text, date: date,", 1))
		w.Clock.Set(on(14, 0, 0))
		w.put("paper/1", `{"date": "2026-05-16", "wanted": true, "email": "here@example.org", "timezone": "Europe/Lisbon"}`)
		w.mustBe("by its own address, in its own zone", w.follow(on(14, 9, 0)), []string{"14 08:00 here@example.org"})
		item := contact.Parse(json.RawMessage(`{"addresses": {"email": "here@example.org"}, "timezone": "Europe/Berlin"}`), "1")
		if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Merge, []contact.Item{item}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.mustBe("a contact of its id claims the address", w.follow(on(15, 9, 0)), []string{"15 07:00 1"})
		w.mustBe("rows", w.zoneRows(), []string{
			"2026-05-16:0 16 07:00 pending", "2026-05-16:1 15 07:00 completed expanded", "2026-05-16:2 14 08:00 completed expanded",
		})
	})
}

// The same ids in two workspaces: the person of one moves, and the other's stays.
//
// Shows: R15.
func TestThePersonOfAnotherWorkspaceMoves(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := ownWorld(t, s, byContact)
		ws, err := s.EnsureWorkspace(t.Context(), "other", []byte("fedcba9876543210fedcba9876543210"), w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		other := w.in(ws)
		other.apply(ownReminder("to: record", byContact))
		move := func(zone string) {
			item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": "o"}, "timezone": %q}`, zone)), "1")
			if _, err := w.Contacts().Write(t.Context(), ws, upsert.Merge, []contact.Item{item}, w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		move("Europe/Berlin")
		other.put("paper/1", `{"date": "2026-05-16", "wanted": true}`)
		w.follow(on(14, 1, 0))
		move("America/New_York")
		w.mustBe("messages", w.follow(on(17, 0, 0)), []string{"16 06:00 1", "16 13:00 o"})
	})
}

// An edit turns the zones of many people into the zone of one, and back, while the hour goes around the earth: no person gets a date twice, and none is
// lost. What was planned with a row for each zone, as by an older program, becomes the one row.
//
// Shows: R17, B32, P2.
func TestFromManyPeopleToOneAndBack(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name string
		from string // the audience at first
		at   time.Time
		back time.Time // none: it stays
		want []string
	}{
		{"before it begins", "persona: Mother", on(15, 0, 0), time.Time{}, []string{"16 06:00 1"}},
		{"while the hour goes around", "persona: Mother", on(16, 0, 0), time.Time{}, []string{"16 06:00 1"}},
		{"after the person's hour", "persona: Mother", on(16, 6, 30), time.Time{}, []string{"16 06:00 1"}},
		{"by a newer program", "persona: Mother", on(15, 18, 0), time.Time{}, []string{"16 06:00 1"}},
		{"by a newer program, while the hour goes around", "persona: Mother", on(16, 0, 0), time.Time{}, []string{"16 06:00 1"}},
		{"by a newer program, after the person's hour", "persona: Mother", on(16, 6, 30), time.Time{}, []string{"16 06:00 1"}},
		{"to one and back before the hour", "persona: Mother", on(15, 0, 0), on(15, 12, 0), []string{"16 06:00 1", "16 07:00 berta"}},
		{"to one and back while the hour goes around", "persona: Mother", on(15, 20, 0), on(16, 0, 0), []string{"16 06:00 1", "16 07:00 berta"}},
		{"to many before the hour", "to: record", on(15, 0, 0), time.Time{}, []string{"16 06:00 1", "16 07:00 berta"}},
		{"to many after the hour", "to: record", on(16, 6, 30), time.Time{}, []string{"16 06:00 1"}},
		{"to many and back", "to: record", on(15, 20, 0), on(16, 0, 0), []string{"16 06:00 1"}},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, ownReminder(story.from, byContact))
				w.Clock.Set(on(14, 0, 0))
				w.mother("1", "Africa/Nairobi")
				w.mother("berta", "Europe/Berlin")
				w.put("paper/1", `{"date": "2026-05-16", "wanted": true}`)
				other := map[string]string{"persona: Mother": "to: record", "to: record": "persona: Mother"}[story.from]
				got := w.follow(story.at)
				w.Apply(ownReminder(other, byContact))
				if strings.HasPrefix(story.name, "by a newer program") { // which evaluates no record by itself
					(&office{world: w}).unlock()
				}
				if !story.back.IsZero() {
					got = append(got, w.follow(story.back)...)
					w.Apply(ownReminder(story.from, byContact))
				}
				got = append(got, w.follow(on(24, 0, 0))...)
				if diff := cmp.Diff(story.want, got); diff != "" {
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

// A trigger that looks at its records at intervals alone: what was planned by the zones of many people, as by an older program, waits for its next look,
// and is not sent when the hour comes in the first zone of the earth.
//
// Shows: R17.
func TestFromManyPeopleToOneBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		looks := func(to string) string {
			return strings.Replace(ownReminder(to, byContact), "record: paper\n", "record: paper\n    check: [6h]\n", 1)
		}
		w := newWorld(t, s, looks("persona: Mother"))
		w.Clock.Set(on(14, 0, 0))
		w.mother("1", "Africa/Nairobi")
		w.put("paper/1", `{"date": "2026-05-16", "wanted": true}`)
		got := w.follow(on(15, 18, 30))
		w.Apply(looks("to: record"))
		got = append(got, w.follow(on(24, 0, 0))...)
		w.mustBe("messages", got, []string{"16 06:00 1"})
	})
}

// ownCourse is a course of five days in the zone of its person.
func ownCourse(keys string) string {
	return `
workflow: w
type: reminder
triggers:
  - id: due
    record: paper
    when: record.wanted == true
    timing:
      anchor: record.date
      at: "09:00"
      timezone: [contact.timezone, record.timezone, Asia/Tokyo]
      repeat: {every: 1d, times: 5}
` + keys + `
audience: {to: record}
channel: inbox
message: {inbox: {text: x}}
---
record_type: paper
fields: {date: date, wanted: bool, timezone: text}
---
persona: Mother
---
channel: inbox
provider: inbox
`
}

// A course in the zone of its person: a move takes the message that waits along, and all that follow. follow_zone: false leaves it where it is.
//
// Shows: R13, D16, D20.
func TestACourseInTheZoneOfItsPerson(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keys string
		does func(w world)
		want []string
	}{
		"nothing": {"", func(world) {}, []string{"16 06:00 1", "17 06:00 1", "18 06:00 1", "19 06:00 1", "20 06:00 1"}},
		"to the west": {
			"", func(w world) { w.mother("1", "America/New_York") },
			[]string{"16 06:00 1", "17 13:00 1", "18 13:00 1", "19 13:00 1", "20 13:00 1"},
		},
		"to the east, past the hour": {
			"", func(w world) { w.mother("1", "Asia/Tokyo") },
			[]string{"16 06:00 1", "17 05:00 1", "18 00:00 1", "19 00:00 1", "20 00:00 1"},
		},
		"it has no zone any more": {
			"", func(w world) {
				w.put("paper/1", `{"timezone": "Europe/Berlin"}`)
				w.person("1", `"timezone": ""`)
			},
			[]string{"16 06:00 1", "17 07:00 1", "18 07:00 1", "19 07:00 1", "20 07:00 1"},
		},
		"it does not follow": {
			"      follow_zone: false\n", func(w world) { w.mother("1", "America/New_York") },
			[]string{"16 06:00 1", "17 06:00 1", "18 13:00 1", "19 13:00 1", "20 13:00 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, ownCourse(tt.keys))
				w.Clock.Set(on(14, 0, 0))
				w.mother("1", "Africa/Nairobi")
				w.put("paper/1", `{"date": "2026-05-16", "wanted": true}`)
				got := w.follow(on(17, 5, 0))
				tt.does(w)
				w.mustBe("messages", append(got, w.follow(on(30, 0, 0))...), tt.want)
			})
		})
	}
}

// A type that declares the person's field otherwise makes an audience of any number of people again: a course refuses it.
func TestTheFieldOfThePersonIsDeclaredOtherwise(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, ofPatients("contact.timezone"))
		w.Clock.Set(on(14, 0, 0))
		w.mother("amina", "Africa/Nairobi")
		w.put("paper/1", `{"date": "2026-05-16", "wanted": true, "patient": "amina"}`)
		w.follow(on(14, 1, 0))
		w.mustBe("declared", w.zonesOf(), []string{"1 Africa/Nairobi"})
		w.Apply(strings.Replace(ofPatients("contact.timezone"), "patient: contact", "patient: text", 1))
		w.follow(on(14, 2, 0))
		w.mustBe("a text", w.zonesOf(), []string{"1 Etc/GMT-14"})
		w.mustBe("messages", w.follow(on(18, 0, 0)), []string{"16 06:00 amina"})
		course := strings.NewReplacer("to: record}", "to: record.patient}", "fields: {date: date,", "fields: {patient: text, date: date,").Replace(ownCourse(""))
		applied, err := w.Engine.Apply(t.Context(), w.Workspace, []definition.File{{Name: "x.yaml", Text: []byte(course)}}, "test")
		if err != nil || !definition.HasErrors(applied.Problems) {
			t.Errorf("%v, %v", applied.Problems, err)
		}
	})
}
