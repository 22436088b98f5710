package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// joined is a course of three messages, one a day, that begins when its condition is met; keys are further keys of its timing.
func joined(policy, keys string) string {
	return fmt.Sprintf(`
workflow: w
type: reminder
triggers:
  - id: t
    record: stay
    when: record.is_on == true
    timing:
      at: "12:00"
      timezone: UTC
      repeat: {every: 1d, times: 3, until: record.ends}
      reset_on: record.number
      stop_when: record.stopped == true
      late_joiner: %s
%s
audience: {to: record.who}
channel: inbox
message: {inbox: {text: "{{ iteration }}"}}
---
persona: Manager
---
channel: inbox
provider: inbox
`, policy, keys)
}

// got returns who got what, as "ann 14 12:00 1": the message of the first round. A message that was not sent has its reason.
func (w world) got() []string { return w.gotIn(w.Workspace.ID) }

func (w world) gotIn(ws subject.WorkspaceID) (list []string) {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), ws, store.DeliveryFilter{}, store.Page{Limit: 500})
	if err != nil {
		w.Fatal(err)
	}
	for _, d := range rows {
		row, err := w.Store.InstanceByID(w.Context(), ws, d.Instance)
		if err != nil {
			w.Fatal(err)
		}
		line := fmt.Sprintf("%s %s %d", d.CustomerRef, d.LastSentAt.Format("02 15:04"), row.Round)
		if d.LastSentAt.IsZero() {
			line = fmt.Sprintf("%s %s %d %s", d.CustomerRef, d.NotBefore.Format("02 15:04"), row.Round, d.Reason)
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// waiting returns what waits of courses, as "16 12:00 bob 1", with the number of the round.
func (w world) waitingOf() (list []string) {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 500})
	if err != nil {
		w.Fatal(err)
	}
	for _, row := range rows {
		line := fmt.Sprintf("%s %d", row.DueAt.Format("02 15:04"), row.Round)
		if _, name, ok := strings.Cut(row.Key, ":c:"); ok {
			line += " " + name
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// Who comes into the audience of a running course gets its next message, nothing, or a course of their own from its first message on.
//
// Shows: R16, D20.
func TestLateJoiners(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][]string{
		"join": {"ann 14 12:00 1", "ann 15 12:00 2", "ann 16 12:00 3", "bob 15 12:00 2", "bob 16 12:00 3", "cid 16 12:00 3"},
		"skip": {
			"ann 14 12:00 1", "ann 15 12:00 2", "ann 16 12:00 3", "bob 15 12:00 2 late_joiner", "bob 16 12:00 3 late_joiner", "cid 16 12:00 3 late_joiner",
		},
		// Each begins on the first day whose message is not past.
		"fresh": {
			"ann 14 12:00 1", "ann 15 12:00 2", "ann 16 12:00 3", "bob 15 12:00 1", "bob 16 12:00 2", "bob 17 12:00 3",
			"cid 16 12:00 1", "cid 17 12:00 2", "cid 18 12:00 3",
		},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, joined(policy, ""), "ann", "bob", "cid", "dan")
				w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann", "bob"]}`)
				w.days(1)
				w.put("stay/1", `{"who": ["ann", "bob", "cid"]}`)
				w.days(1)
				w.put("stay/1", `{"who": ["ann", "bob", "cid", "dan"]}`) // the course is over
				w.days(5)
				w.mustBe("what they got", w.got(), want)
				w.mustBe("what waits", w.waitingOf(), nil)
			})
		})
	}
}

// What ends or moves the course of everybody, ends or moves the courses of people.
func TestCoursesOfPeopleThatChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(w world)
		waits  []string
		why    string // of bob's message that waited
	}{
		"nothing": {func(world) {}, []string{"16 12:00 2 bob", "16 12:00 3"}, ""},
		"it ends before": {
			func(w world) { w.put("stay/1", `{"ends": "2026-05-16"}`) }, nil, "course_over",
		},
		"stopped": {func(w world) { w.put("stay/1", `{"stopped": true}`) }, nil, "condition_cleared"},
		"stopped for a while": {
			func(w world) {
				w.put("stay/1", `{"stopped": true}`)
				w.Clock.Set(w.Clock.Now().Add(time.Minute))
				w.tick()
				w.put("stay/1", `{"stopped": false}`)
			}, []string{"16 12:00 2 bob", "16 12:00 3"}, "",
		},
		"closed": {func(w world) { w.write(upsert.Merge, "stay/1", `{"closed": true}`) }, nil, "record_closed"},
		"begun again": {
			func(w world) { w.put("stay/1", `{"number": 2}`) }, []string{"16 12:00 1"}, "course_reset",
		},
		"another time of day": {
			func(w world) { w.Apply(strings.Replace(joined("fresh", ""), `"12:00"`, `"18:00"`, 1)) }, []string{"16 18:00 2 bob", "16 18:00 3"}, "",
		},
		"other days": {
			func(w world) { w.Apply(strings.Replace(joined("fresh", ""), "every: 1d", "every: 2d", 1)) },
			[]string{"16 12:00 2", "17 12:00 2 bob"},
			"rule_changed",
		},
		"another policy": {func(w world) { w.Apply(joined("join", "")) }, []string{"16 12:00 3"}, "rule_changed"},
		"a policy and back": {
			func(w world) {
				w.Apply(joined("skip", ""))
				w.tick()
				w.Apply(joined("fresh", ""))
			}, []string{"16 12:00 2 bob", "16 12:00 3"}, "",
		},
		"off": {func(w world) { w.Apply(joined("fresh", "    enabled: false")) }, nil, "trigger_disabled"},
		"no longer in the audience": {
			func(w world) { w.put("stay/1", `{"who": ["ann"]}`) }, []string{"16 12:00 2 bob", "16 12:00 3"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, joined("fresh", ""), "ann", "bob")
				w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann", "bob"]}`)
				w.days(1)
				w.mustBe("before", w.waitingOf(), []string{"16 12:00 2 bob", "16 12:00 3"})
				before, err := s.InstanceByKey(t.Context(), w.Workspace.ID, "reminder:w:stay:1:t:2026-05-16:0:c:bob")
				if err != nil {
					t.Fatal(err)
				}
				tt.change(w)
				for w.tick() {
				}
				w.mustBe("what waits", w.waitingOf(), tt.waits)
				if row := w.Instance(before.ID); string(row.Reason) != tt.why {
					t.Errorf("bob's message: %s %s, want %s", row.Status, row.Reason, tt.why)
				}
			})
		})
	}
}

// bobsFirst returns bob's first message of a course of his own, at an hour before it is due.
func bobsFirst(w world) instance.Row {
	w.Helper()
	w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
	w.live("13:00")
	w.put("stay/1", `{"who": ["ann", "bob"]}`)
	w.Clock.Set(at("12:01").AddDate(0, 0, 1)) // a minute too late for the day
	for w.tick() {
	}
	w.mustBe("what waits", w.waitingOf(), []string{"16 12:00 1 bob", "16 12:00 3"})
	row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, "reminder:w:stay:1:t:2026-05-16:0:c:bob")
	if err != nil || row.Contact == 0 {
		w.Fatal(row, err)
	}
	return row
}

// People act on the messages of one person's course as on those of everybody.
//
// Shows: R17, D16.
func TestOperatingOnCoursesOfPeople(t *testing.T) {
	t.Parallel()
	everybody := []string{"ann 14 12:00 1", "ann 15 12:01 2", "ann 16 12:00 3"}
	for name, tt := range map[string]struct {
		act func(w world, row instance.Row)
		bob []string
	}{
		"nothing": {func(world, instance.Row) {}, []string{"bob 16 12:00 1", "bob 17 12:00 2", "bob 18 12:00 3"}},
		"cancelled": {
			func(w world, row instance.Row) {
				_, err := w.Operator().CancelInstance(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
				w.no(err)
			}, []string{"bob 17 12:00 2", "bob 18 12:00 3"},
		},
		"cancelled and retried": {
			func(w world, row instance.Row) {
				_, err := w.Operator().CancelInstance(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
				w.no(err)
				_, err = w.Operator().RetryInstance(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
				w.no(err)
			}, []string{"bob 16 12:00 1", "bob 17 12:00 2", "bob 18 12:00 3"},
		},
		"paused for a day": {
			func(w world, row instance.Row) {
				_, err := w.Operator().Pause(w.Context(), w.Workspace.ID, "w", "", "test", w.Clock.Now())
				w.no(err)
				w.follow(at("18:00").AddDate(0, 0, 2))
				_, err = w.Operator().Resume(w.Context(), w.Workspace.ID, "w", "test", w.Clock.Now())
				w.no(err)
			}, []string{"bob 16 18:00 1", "bob 17 12:00 2", "bob 18 12:00 3"},
		},
		"down for two days": {
			func(w world, row instance.Row) { w.Clock.Set(at("18:00").AddDate(0, 0, 3)) }, []string{"bob 17 18:00 2", "bob 18 12:00 3"},
		},
		"away for a day": {
			func(w world, row instance.Row) {
				w.put("stay/1", `{"who": ["ann"]}`)
				w.follow(at("18:00").AddDate(0, 0, 2))
				if now := w.Instance(row.ID); now.Reason != "left_audience" {
					w.Errorf("%s %s", now.Status, now.Reason)
				}
				w.put("stay/1", `{"who": ["ann", "bob"]}`)
			}, []string{"bob 17 12:00 2", "bob 18 12:00 3"},
		},
		"suppressed": {
			func(w world, row instance.Row) { w.suppress("bob", true) },
			[]string{"bob 16 12:00 1 suppressed", "bob 17 12:00 2 suppressed", "bob 18 12:00 3 suppressed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, joined("fresh", ""), "ann", "bob")
				row := bobsFirst(w)
				tt.act(w, row)
				for w.tick() {
				}
				w.days(6)
				got := w.got()
				of := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, "bob") })
				if of < 0 {
					of = len(got)
				}
				w.mustBe("what bob got", got[of:], tt.bob)
				if name != "paused for a day" && name != "down for two days" {
					w.mustBe("what ann got", got[:of], everybody)
				}
				w.mustBe("what waits", w.waitingOf(), nil)
			})
		})
	}
}

func (w world) no(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// A person who joined by an address, and whose address a contact claims, goes on with that contact. The messages keep their keys.
//
// Shows: R20.
func TestJoinersThatAreClaimed(t *testing.T) {
	t.Parallel()
	definitions := strings.NewReplacer("audience: {to: record.who}", "audience: {address: record.who, kind: email}", "channel: inbox\nmessage", "channel: email\nmessage", "{inbox: {text", "{email: {subject: s, text",
		"provider: inbox", "provider: inbox\n---\nchannel: email\nprovider: memory").Replace(joined("fresh", ""))
	for name, tt := range map[string]struct {
		bob  string // when the course begins
		want []string
	}{
		// A stranger joins; then bob claims the address.
		"a stranger": {"", []string{"bob@example.org 15 12:00 1", "bob@example.org 16 12:00 2", "bob@example.org 17 12:00 3"}},
		// Bob is in the course of everybody by another address already, and stays in that.
		"a member": {"bob@example.com", []string{"bob@example.com 14 12:00 1", "bob@example.com 15 12:00 2", "bob@example.org 15 12:00 1", "bob@example.org 16 12:00 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, definitions)
				if tt.bob != "" {
					w.has("bob", tt.bob)
				}
				w.put("stay/1", `{"who": ["ann@example.org"], "is_on": true, "number": 1}`)
				if tt.bob != "" {
					w.put("stay/1", `{"who": ["ann@example.org", "bob@example.com"]}`)
				}
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann@example.org", "bob@example.org"]}`)
				if tt.bob != "" {
					w.put("stay/1", `{"who": ["ann@example.org", "bob@example.com", "bob@example.org"]}`)
				}
				w.days(1)
				w.has("bob", "bob@example.org")
				w.put("stay/1", `{"who": ["ann@example.org", "bob@example.org"]}`)
				w.days(6)
				var got []string
				for _, line := range w.addressed() {
					if strings.HasPrefix(line, "bob") {
						got = append(got, line)
					}
				}
				w.mustBe("what bob got", got, tt.want)
				w.mustBe("what waits", w.waitingOf(), nil)
			})
		})
	}
}

// has makes a contact with an address.
func (w world) has(name, email string) {
	w.Helper()
	item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"email": %q}}`, email)), name)
	results, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		w.Fatal(err, results)
	}
}

// addressed returns what was sent to which address, as "ann@example.org 14 12:00 1".
func (w world) addressed() (list []string) {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 500})
	if err != nil {
		w.Fatal(err)
	}
	for _, d := range rows {
		list = append(list, fmt.Sprintf("%s %s %d", d.Address, d.LastSentAt.Format("02 15:04"), w.Instance(d.Instance).Round))
	}
	slices.Sort(list)
	return list
}

// A message of everybody's course that a person asks for again goes to those whose course it is, and begins no course.
//
// Shows: R16.
func TestRepeatedMessagesAndJoiners(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][]string{
		"skip":  {"ann 14 12:00 1", "ann 14 13:00 1", "ann 15 12:00 2", "ann 16 12:00 3", "bob 14 13:00 1 late_joiner", "bob 15 12:00 2 late_joiner", "bob 16 12:00 3 late_joiner"},
		"fresh": {"ann 14 12:00 1", "ann 14 13:00 1", "ann 15 12:00 2", "ann 16 12:00 3", "bob 14 13:00 1 late_joiner", "bob 15 12:00 1", "bob 16 12:00 2", "bob 17 12:00 3"},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, joined(policy, ""), "ann", "bob")
				w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann", "bob"]}`)
				row, err := s.InstanceByKey(t.Context(), w.Workspace.ID, "reminder:w:stay:1:t:2026-05-14:0")
				w.no(err)
				_, err = w.Operator().RetryInstance(t.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
				w.no(err)
				w.days(6)
				w.mustBe("what they got", w.got(), want)
			})
		})
	}
}

// The first message that is expanded has the people of the course, whatever became of those before it; and it has them although nobody can be reached.
func TestWhoIsThereFromTheBeginning(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		begin func(w world)
		want  []string
	}{
		"the first message is cancelled": {
			func(w world) {
				for w.tick() {
				}
				row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, "reminder:w:stay:1:t:2026-05-14:0")
				w.no(err)
				_, err = w.Operator().CancelInstance(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
				w.no(err)
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann", "bob"]}`)
				w.days(1)
			},
			[]string{"ann 15 12:00 2", "ann 16 12:00 3", "bob 15 12:00 2", "bob 16 12:00 3"},
		},
		"nobody can be reached": {
			func(w world) {
				w.suppress("ann", true)
				w.live("13:00")
				w.suppress("ann", false)
				w.put("stay/1", `{"who": ["ann", "bob"]}`)
				w.days(1)
			},
			[]string{"ann 14 12:00 1 suppressed", "ann 15 12:00 2", "ann 16 12:00 3", "bob 15 12:00 2 late_joiner", "bob 16 12:00 3 late_joiner"},
		},
		"nobody is there": {
			func(w world) {
				w.put("stay/1", `{"who": []}`)
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann"]}`)
				w.days(1)
			},
			[]string{"ann 15 12:00 2 late_joiner", "ann 16 12:00 3 late_joiner"},
		},
		"begun again": {
			func(w world) {
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann", "bob"], "number": 2}`)
				w.days(1)
			},
			[]string{"ann 14 12:00 1", "ann 15 12:00 1", "ann 16 12:00 2", "ann 17 12:00 3", "bob 15 12:00 1", "bob 16 12:00 2", "bob 17 12:00 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, joined("skip", ""), "ann", "bob")
				w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
				tt.begin(w)
				w.days(6)
				w.mustBe("what they got", w.got(), tt.want)
			})
		})
	}
}

// Two workspaces have records, people and courses of the same names, and nobody of one is in a course of the other.
func TestJoinersOfTwoWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, joined("fresh", ""), "ann", "bob")
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), w.Clock.Now())
		w.no(err)
		n := w.in(other)
		n.apply(joined("fresh", ""))
		n.person("ann", "")
		n.person("bob", "")
		w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
		n.put("stay/1", `{"who": ["ann", "bob"], "is_on": true, "number": 1}`)
		w.live("13:00")
		w.put("stay/1", `{"who": ["ann", "bob"]}`)
		w.days(6)
		w.mustBe("here", w.got(), []string{
			"ann 14 12:00 1", "ann 15 12:00 2", "ann 16 12:00 3", "bob 15 12:00 1", "bob 16 12:00 2", "bob 17 12:00 3",
		})
		w.mustBe("there", w.gotIn(other.ID), []string{
			"ann 14 12:00 1", "ann 15 12:00 2", "ann 16 12:00 3", "bob 14 12:00 1", "bob 15 12:00 2", "bob 16 12:00 3",
		})
	})
}

// A repair finds messages of people's courses that are missing, also when the course of everybody is over.
//
// Shows: B42.
func TestRepairsOfCoursesOfPeople(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			repaired := strings.Replace(joined("fresh", ""), "    when: record.is_on == true\n", "    when: record.is_on == true\n    reconcile: {every: 6h}\n", 1)
			w, db := newWorld(t, s, repaired, "ann", "bob"), behind(t, database, url)
			w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
			w.live("13:00")
			w.days(1)
			w.put("stay/1", `{"who": ["ann", "bob"]}`)
			w.days(1)
			w.mustBe("everybody's is over", w.waitingOf(), []string{"17 12:00 2 bob"})
			if _, err := db.ExecContext(t.Context(), `DELETE FROM instance WHERE status = 'pending'`); err != nil {
				t.Fatal(err)
			}
			w.mustBe("it is lost", w.waitingOf(), nil)
			w.days(5)
			var bob []string
			for _, line := range w.got() {
				if strings.HasPrefix(line, "bob") {
					bob = append(bob, line)
				}
			}
			w.mustBe("what bob got", bob, []string{"bob 16 12:00 1", "bob 17 12:00 2", "bob 18 12:00 3"})
		})
	}
}

// In an audience of several pages everybody who joins late is found, by whichever page, and begins with their own first message.
func TestJoinersOfALargeAudience(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(joined("fresh", ""), "to: record.who", "persona: Manager", 1))
		people := func(from, to int) {
			var items []contact.Item
			for i := from; i < to; i++ {
				name := fmt.Sprintf("p%04d", i)
				items = append(items, contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}, "persona": "Manager"}`, name)), name))
			}
			if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, items, w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		const first, all = store.MemberPage + 50, store.MemberPage + 80 // those who join are on the second page
		people(0, first)
		w.put("stay/1", `{"is_on": true, "number": 1}`)
		w.live("13:00")
		people(first, all)
		w.days(1)
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 500})
		w.no(err)
		own := 0
		for _, row := range rows {
			if row.Contact != 0 && row.Round == 2 {
				own++
			}
		}
		if own != all-first || len(rows) != own+1 {
			t.Errorf("%d courses of people wait, %d messages in all", own, len(rows))
		}
	})
}

// What is to come of a record has the next message of each person's own course beside the course of everybody, also before an edit is evaluated.
func TestUpcomingOfCoursesOfPeople(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, joined("fresh", ""), "ann", "bob")
		bobsFirst(w)
		stay := outlook.Query{Record: subject.RecordRef{Type: "stay", ExtID: "1"}}
		upcoming := func() (list []string) {
			stay.Workflow, stay.Limit = "w", 10
			answer, err := w.Upcoming(t.Context(), w.Workspace.ID, stay)
			w.no(err)
			for _, o := range answer.Occurrences {
				list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d %s", o.At.Format("02 15:04"), o.Iteration, o.Key.Person())))
			}
			if of := answer.Triggers[0]; of.Endless || of.End != schedule.EndTimes || !of.Last.IsZero() || of.Reason != "" { // each person's course has the same end, and the last message of all is not computed
				t.Errorf("%+v", of)
			}
			slices.Sort(list)
			return list
		}
		w.mustBe("what comes", upcoming(), []string{"16 12:00 1 bob", "16 12:00 3"})
		w.Apply(strings.Replace(joined("fresh", ""), `"12:00"`, `"18:00"`, 1))
		w.mustBe("after an edit", upcoming(), []string{"16 18:00 1 bob", "16 18:00 3"})
		for w.tick() {
		}
		w.mustBe("once it is evaluated", upcoming(), []string{"16 18:00 1 bob", "16 18:00 3"})
		w.days(2)
		w.mustBe("everybody's is over", upcoming(), []string{"17 18:00 2 bob"})
	})
}
