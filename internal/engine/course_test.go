package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// weekly is a course of a record's date; keys are further keys of its timing, rest those of its workflow.
func weekly(keys, rest string) string {
	return fmt.Sprintf(`
workflow: w
type: reminder
triggers:
  - id: t
    record: stay
    when: record.is_on == true
    timing:
      anchor: record.on_date
      at: "12:00"
      timezone: UTC
      repeat: {every: 1d, times: 5, until: record.ends}
      reset_on: record.number
%s
audience: {to: "record.who == 'nobody' ? 1 / 0 : record.who"}
channel: inbox
message: {inbox: {text: x}}
%s
---
persona: Manager
---
channel: inbox
provider: inbox
`, keys, rest)
}

// course returns the occasions of a course in the order of their dates, each as "14 r1 status reason".
func (w world) course() (list []string) {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, row := range rows {
		line := row.DueAt.Format("02 15:04")
		if _, n, ok := strings.Cut(row.Key, ":0:r"); ok {
			line += " r" + n
		}
		if line += " " + string(row.Status); row.Held() {
			line += " held"
		}
		list = append(list, strings.TrimSpace(line+" "+string(row.Reason)))
	}
	slices.Sort(list)
	return list
}

// Why a message of a course is withdrawn, and what waits then.
func TestACourseThatChanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(w world)
		want   []string
	}{
		"another date": {
			func(w world) { w.put("stay/1", `{"on_date": "2026-05-20"}`) },
			[]string{"14 12:00 completed expanded", "15 12:00 deactivated date_changed", "20 12:00 pending"},
		},
		"reset": {
			func(w world) { w.put("stay/1", `{"number": 2}`) },
			[]string{"14 12:00 completed expanded", "15 12:00 deactivated course_reset", "15 12:00 r1 pending"},
		},
		"it ends before": {
			func(w world) { w.put("stay/1", `{"ends": "2026-05-15"}`) },
			[]string{"14 12:00 completed expanded", "15 12:00 deactivated course_over"},
		},
		"another rule": {
			func(w world) { w.Apply(strings.Replace(weekly("", ""), "every: 1d", "every: 2d", 1)) },
			[]string{"14 12:00 completed expanded", "15 12:00 deactivated rule_changed", "16 12:00 pending"},
		},
		"the condition is over": {
			func(w world) { w.put("stay/1", `{"is_on": false}`) },
			[]string{"14 12:00 completed expanded", "15 12:00 deactivated condition_cleared"},
		},
		"it is over, and again not": {
			func(w world) {
				w.put("stay/1", `{"is_on": false}`)
				w.live("12:30")
				w.put("stay/1", `{"is_on": true}`)
			},
			[]string{"14 12:00 completed expanded", "15 12:00 pending"},
		},
		"closed": {
			func(w world) { w.write(upsert.Merge, "stay/1", `{"closed": true}`) },
			[]string{"14 12:00 completed expanded", "15 12:00 deactivated record_closed"},
		},
		"another time of day, after the message of the day": {
			func(w world) { w.Apply(strings.Replace(weekly("", ""), `"12:00"`, `"18:00"`, 1)) },
			[]string{"14 12:00 completed expanded", "15 18:00 pending"},
		},
		"other texts": {
			func(w world) { w.Apply(strings.Replace(weekly("", ""), "text: x", "text: z", 1)) },
			[]string{"14 12:00 completed expanded", "15 12:00 pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, weekly("", ""), "ann")
				w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-14", "number": 1}`)
				w.live("12:10")
				tt.change(w)
				w.live("13:00")
				w.mustBe("the course", w.course(), tt.want)
			})
		})
	}
}

// A message that is put on hold, or retried by a person, stops no course: the next one waits beside it.
func TestAHeldMessageOfACourse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, weekly("", "retry: {backoff: [5m], jitter: none}"), "ann")
		w.put("stay/1", `{"who": "nobody", "is_on": true, "on_date": "2026-05-14", "number": 1}`)
		w.live("12:10")
		w.mustBe("the course", w.course(), []string{"14 12:00 pending held retries_used_up", "15 12:00 pending"})
		w.put("stay/1", `{"who": "ann"}`)
		w.Apply(strings.Replace(weekly("", "retry: {backoff: [5m], jitter: none}"), `"12:00"`, `"13:00"`, 1))
		w.live("12:20")
		w.mustBe("edited", w.course(), []string{"14 13:00 pending held retries_used_up", "15 13:00 pending"})
		rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		if _, err := w.Operator().Release(w.Context(), w.Workspace.ID, rows[0].ID, "test", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.days(2)
		w.mustBe("released", w.course(), []string{"14 13:00 completed expanded", "15 13:00 completed expanded", "16 13:00 pending"})
		done, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, "reminder:w:stay:1:t:2026-05-14:0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Operator().RetryInstance(w.Context(), w.Workspace.ID, done.ID, "test", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.put("stay/1", `{"number": 1, "unrelated": true}`)
		w.days(1)
		if n := len(w.Provider.Sent()); n != 4 {
			t.Errorf("%d messages were sent: two, the retry, and the third", n)
		}
		w.mustBe("retried", w.course()[3:], []string{"16 13:00 completed expanded", "17 13:00 pending"})
	})
}

// A course that begins again while its message is being expanded, under a lease or page by page, goes on with its first message.
//
// Shows: D20.
func TestACourseThatBeginsAgainDuringAnExpansion(t *testing.T) {
	t.Parallel()
	t.Run("under a lease", func(t *testing.T) {
		t.Parallel()
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			dies := false
			w := world{enginetest.Setup(t, s, weekly("", "retry: {lease: 5m}"), func(c *engine.Config) {
				c.Failpoint = func(at string) error {
					if at == fanout.AfterTaken && dies {
						dies = false
						return errDied
					}
					return nil
				}
			})}
			w.Clock.Set(ten)
			w.person("ann", `"persona": "Manager"`)
			w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-14", "number": 1}`)
			w.live("11:00")
			w.Clock.Set(at("12:00"))
			dies = true
			if _, err := w.Tick(t.Context()); !errors.Is(err, errDied) {
				t.Fatal("it did not die", err)
			}
			w.Clock.Set(at("12:02"))
			w.put("stay/1", `{"number": 2}`)
			w.live("12:10")
			w.mustBe("the course", w.course(), []string{"14 12:00 deactivated source_no_longer_valid", "15 12:00 r1 pending"})
		})
	})
	t.Run("page by page", func(t *testing.T) {
		t.Parallel()
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			w := newWorld(t, s, strings.Replace(joined("join", ""), "to: record.who", "persona: Manager", 1))
			people := make([]contact.Item, store.MemberPage+10)
			for i := range people {
				name := fmt.Sprintf("p%04d", i)
				people[i] = contact.Parse([]byte(fmt.Sprintf(`{"addresses": {"inbox": %q}, "persona": "Manager"}`, name)), name)
			}
			_, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, people, w.Clock.Now(), nil)
			w.no(err)
			w.put("stay/1", `{"is_on": true, "number": 1}`)
			w.live("11:00")
			w.At(at("12:00"))
			w.mustBe("after a page", w.waitingOf(), []string{"14 12:00 1", "15 12:00 2"})
			w.Clock.Set(at("12:02"))
			w.put("stay/1", `{"number": 2}`)
			w.live("12:10")
			w.mustBe("begun again", w.waitingOf(), []string{"15 12:00 1"})
		})
	})
}

// What a person does with one message of a course makes none of those that the course has passed over, and no message on hold keeps the course from
// what follows it.
//
// Shows: D20, R3.
func TestWhatAPersonDoesWithOneMessage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		act  func(w world, held, skipped instance.Row) error
		want []string
	}{
		"released": {
			func(w world, held, _ instance.Row) error {
				_, err := w.Operator().Release(w.Context(), w.Workspace.ID, held.ID, "test", w.Clock.Now())
				return err
			},
			[]string{"14 12:00 completed expanded", "15 12:00 completed expanded", "16 12:00 skipped collapsed", "18 12:00 pending"},
		},
		"retried": {
			func(w world, held, _ instance.Row) error {
				_, err := w.Operator().RetryInstance(w.Context(), w.Workspace.ID, held.ID, "test", w.Clock.Now())
				return err
			},
			[]string{"14 12:00 completed expanded", "15 12:00 completed expanded", "16 12:00 skipped collapsed", "18 12:00 pending"},
		},
		"cancelled": {
			func(w world, held, _ instance.Row) error {
				_, err := w.Operator().CancelInstance(w.Context(), w.Workspace.ID, held.ID, "test", w.Clock.Now())
				return err
			},
			[]string{"14 12:00 cancelled cancelled_by_operator", "15 12:00 completed expanded", "16 12:00 skipped collapsed", "18 12:00 pending"},
		},
		"one that was skipped is sent after all": {
			func(w world, _, skipped instance.Row) error {
				_, err := w.Operator().RetryInstance(w.Context(), w.Workspace.ID, skipped.ID, "test", w.Clock.Now())
				return err
			},
			[]string{"14 12:00 pending held retries_used_up", "15 12:00 completed expanded", "16 12:00 skipped collapsed", "17 12:00 retry:1 completed expanded", "18 12:00 pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, weekly("      backlog: first", "retry: {backoff: []}"), "ann")
				w.put("stay/1", `{"who": "nobody", "is_on": true, "on_date": "2026-05-14", "number": 1}`)
				w.live("12:10")
				w.put("stay/1", `{"who": "ann"}`)
				w.live("12:20")
				w.Clock.Set(on(17, 12, 0)) // it was down
				for w.tick() {
				}
				row := func(day string) instance.Row {
					row, err := s.InstanceByKey(t.Context(), w.Workspace.ID, "reminder:w:stay:1:t:2026-05-"+day+":0")
					w.no(err)
					return row
				}
				w.no(tt.act(w, row("14"), row("16")))
				for w.tick() {
				}
				w.mustBe("the course", w.course(), tt.want)
			})
		})
	}
	t.Run("moved while it is on hold", func(t *testing.T) {
		t.Parallel()
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			twice := strings.Replace(weekly("", "retry: {backoff: []}"), "repeat: {every: 1d", `sequence: [{day: 0, at: "11:00"}, {day: 0, at: "12:00"}]
      repeat: {every: 1d`, 1)
			w := newWorld(t, s, strings.Replace(twice, `      at: "12:00"`+"\n", "", 1), "ann")
			w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-14", "number": 1}`)
			w.live("11:10")
			w.put("stay/1", `{"who": "nobody"}`)
			w.live("12:10")
			w.put("stay/1", `{"who": "ann"}`)
			w.live("12:20")
			w.mustBe("before", w.course(), []string{"14 11:00 completed expanded", "14 12:00 pending held retries_used_up", "15 11:00 pending"})
			w.Apply(strings.NewReplacer(`"11:00"`, `"18:00"`, `"12:00"`, `"19:00"`, "every: 1d", "every: 2d", `      at: "12:00"`+"\n", "").Replace(twice))
			w.live("12:30")
			w.mustBe("after", w.course(), []string{"14 11:00 completed expanded", "14 19:00 pending held retries_used_up", "15 11:00 deactivated rule_changed", "16 18:00 pending"})
		})
	})
}

// Each message of a sequence may have its own texts and audience.
func TestMessagesOfACourseDiffer(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(weekly("", ""), "repeat: {every: 1d, times: 5, until: record.ends}",
			`sequence: [{after: 0m}, {after: 30m, message: {inbox: {text: "z {{ iteration }}"}}}, {after: 30m, audience: {to: record.boss}}]`, 1), "ann", "bob")
		w.put("stay/1", `{"who": "ann", "boss": "bob", "is_on": true, "on_date": "2026-05-14", "number": 1}`)
		w.live("14:00")
		var sent []string
		for _, out := range w.Provider.Sent() {
			sent = append(sent, out.Address+" "+out.Text)
		}
		w.mustBe("what was sent", sent, []string{"ann x", "ann z 1", "bob x"})
		rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 10})
		if err != nil || len(rows) != 0 {
			t.Errorf("%v wait (%v)", rows, err)
		}
	})
}
