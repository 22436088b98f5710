package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/reschedule"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Messages that wait for a changed limit are planned again, in the order in which they were due.
//
// Shows: R5, A42.
func TestLimitsThatHaveChanged(t *testing.T) {
	t.Parallel()
	persona := func(cadence string) func(world) {
		return func(w world) { w.Apply("persona: Manager\ncadence: " + cadence + "\n") }
	}
	for _, c := range []struct {
		name, cadence string
		change        func(world)
		want          string // when the five messages are planned, or when they left
	}{
		{
			"more a day", "{max_per_day: 1}", persona("{max_per_day: 2, cooldown: 1h}"),
			"14 10:00, 14 11:00, 15 00:00, 15 00:00, 16 00:00",
		},
		{
			"less a day", "{max_per_day: 3, cooldown: 1h}", persona("{max_per_day: 1}"),
			"14 10:00, 14 10:00, 14 10:00, 15 00:00, 16 00:00",
		},
		{
			"none any more", "{max_per_day: 1}", persona("{}"),
			"14 10:00, 14 10:30, 14 10:30, 14 10:30, 14 10:30",
		},
		{
			"another persona", "{max_per_day: 1}", func(w world) {
				w.Apply("persona: Guard\ncadence: {cooldown: 3h, max_per_slot: 2}\n")
				w.person("ann", `"persona": "Guard"`)
			},
			"14 10:00, 14 13:00, 14 13:00, 14 16:00, 14 16:00",
		},
		{
			"limits of their own", "{max_per_day: 1}", func(w world) { w.person("ann", `"persona": "Manager", "cadence": {"max_per_day": 3}`) },
			"14 10:00, 14 10:30, 14 10:30, 15 00:00, 15 00:00",
		},
		{
			"another zone", "{max_per_day: 1}", func(w world) { w.person("ann", `"persona": "Manager", "timezone": "Pacific/Auckland"`) },
			"14 10:00, 14 12:00, 15 12:00, 16 12:00, 17 12:00", // their days end at noon, UTC
		},
		{
			"longer than they may wait", "{max_per_day: 2}", persona("{max_per_month: 1}"),
			"14 10:00, 14 10:00, expired, expired, expired",
		},
		{
			"the workspace's, for who has no others", "", func(w world) { w.Apply("workspace: default\ncadence: {cooldown: 6h}\n") },
			"14 10:00, 14 16:00, 14 16:00, 14 16:00, 14 16:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				definitions := limited(c.cadence, "timing: {expire_after: 10d}\n")
				fields := `"persona": "Manager"`
				if c.cadence == "" {
					definitions = strings.Split(definitions, "persona: Manager")[0] + "workspace: default\ncadence: {max_per_day: 1}\n"
					fields = `"name": "Ann"`
				}
				w := newWorld(t, s, definitions)
				w.person("ann", fields)
				for i := range 5 {
					w.Post(fmt.Sprintf(`{"kind": "news", "id": "%d", "recipient": {"address": "ann", "customer_ref": "ann"}}`, i))
				}
				w.live("10:00")
				w.live("10:30")
				c.change(w)
				w.live("10:30")
				var got []string
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				for i := len(rows) - 1; i >= 0; i-- {
					switch row := rows[i]; row.Status {
					case delivery.Sent:
						got = append(got, row.LastSentAt.Format("02 15:04"))
					case delivery.Scheduled:
						got = append(got, row.SendAt.Format("02 15:04"))
						if !row.Slot.Equal(row.SendAt) || row.DeferredBy == "" {
							t.Errorf("waits as %+v", row)
						}
					default:
						got = append(got, string(row.Status))
					}
				}
				w.mustBe("the five", got, strings.Split(c.want, ", "))
				if due, err := w.NextDue(t.Context()); err != nil || !due.IsZero() && due.Equal(w.Clock.Now()) {
					t.Errorf("something is due at once, for ever: %v, %v", due, err)
				}
			})
		})
	}
}

// Waiting messages are planned again when the limits of their workflow change, unless they are pinned to the version that made them. An edit that
// changes no limit reschedules nothing.
//
// Shows: A34, A39, R5.
func TestLimitsOfAWorkflowChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cadence, old, changed string // the change is made to both workflows
		runs                        bool
		then, later                 string // at 10:20, and at its end: the alert of the record, the pinned one of the event
	}{
		{"it need not wait any more", "{cooldown: 2h}", "", "limits: {critical: true}", true, "sent 10:20 alert, waits 12:00 alert cooldown", "sent 10:20 alert, sent 12:20 alert"},
		{"other hours", "{cooldown: 2h}", "", `limits: {send_window: "15:00-18:00"}`, true, "waits 15:00 alert cooldown, waits 12:00 alert cooldown", "sent 15:00 alert, sent 12:00 alert"},
		{"a type that limits do not count", "{cooldown: 2h, types: [alert]}", "type: alert", "type: reminder", true, "sent 10:20 reminder, waits 12:00 alert cooldown", "sent 10:20 reminder, sent 12:00 alert"},
		{"a type with a limit of its own", "{type_limits: {alert: 1, report: 2}}", "type: alert", "type: report", true, "sent 10:20 report, waits 00:00 alert type_daily", "sent 10:20 report, waits 00:00 alert type_daily"},
		{"a type that waits as long", "{cooldown: 2h}", "type: alert", "type: report", true, "waits 12:00 report cooldown, waits 12:00 alert cooldown", "sent 12:00 report, sent 12:00 alert"},
		{"another text", "{cooldown: 2h}", "subject: ", "subject: New ", false, "waits 12:00 alert cooldown, waits 12:00 alert cooldown", "sent 12:00 alert, sent 12:00 alert"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				rules := strings.Replace(simple("[change]", "    cooldown: {length: 1d}\n", ""), "{max_per_month: 10000}", c.cadence, 1) +
					"---\nworkflow: news\ntype: alert\ntriggers: [{id: t, event: news}]\naudience: [{to: event.recipient}]\nchannel: inbox\n" +
					"message:\n  inbox:\n    subject: s\n    text: t\n"
				w := newWorld(t, s, rules, "alice")
				w.put("team/a", `{"name": "A", "morale": 40, "owner_id": "alice"}`)
				w.live("10:10")
				w.put("team/b", `{"name": "B", "morale": 40, "owner_id": "alice"}`)
				w.post("news", "alice")
				w.live("10:20")
				stand := func() string {
					t.Helper()
					rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
					if err != nil || len(rows) != 3 {
						t.Fatalf("%d deliveries, %v", len(rows), err)
					}
					rows = rows[:2] // the first alert was sent
					var got []string
					slices.SortFunc(rows, func(a, b delivery.Row) int { return strings.Compare(b.Workflow, a.Workflow) })
					for _, row := range rows {
						if row.Status == delivery.Sent {
							got = append(got, fmt.Sprint("sent ", row.LastSentAt.Format("15:04"), " ", row.Type))
						} else if got = append(got, fmt.Sprint("waits ", row.SendAt.Format("15:04"), " ", row.Type, " ", row.DeferredBy)); !row.Slot.Equal(row.SendAt) {
							t.Errorf("%s waits until %s and has %s", row.Workflow, row.SendAt, row.Slot)
						}
					}
					return strings.Join(got, ", ")
				}
				runs, err := w.runs(job.Limits)
				if err != nil {
					t.Fatal(err)
				}
				before := len(runs)
				changed := strings.ReplaceAll(rules, c.old, c.changed)
				if c.old == "" {
					changed = strings.ReplaceAll(rules, "channel: inbox\nmessage", c.changed+"\nchannel: inbox\nmessage")
				}
				w.Apply(changed)
				w.live("10:20")
				if got := stand(); got != c.then {
					t.Errorf("after the change: %s, want %s", got, c.then)
				}
				if runs, err = w.runs(job.Limits); err != nil || (len(runs) > before) != c.runs {
					t.Errorf("%d jobs have rescheduled, %v", len(runs)-before, err)
				}
				w.live("16:00")
				if got := stand(); got != c.later {
					t.Errorf("in the end: %s, want %s", got, c.later)
				}
			})
		})
	}
}

// A job goes over the contacts in pages, continues in another process, and reports its progress.
func TestARunOverPeople(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, limited("{max_per_day: 1}", ""))
		const people = store.MemberPage + 20
		items := make([]contact.Item, people)
		events := make([]string, 0, people)
		for i := range items {
			name := fmt.Sprintf("p%d", i)
			items[i] = contact.Parse([]byte(`{"addresses": {"inbox": "x"}, "persona": "Manager"}`), name)
			events = append(events, fmt.Sprintf(`{"kind": "news", "id": "%s", "recipient": {"address": "x", "customer_ref": %[1]q}}`, name))
		}
		if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, items, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.PostAll(events...)
		for i, e := range events {
			events[i] = strings.Replace(e, `"id": "`, `"id": "again-`, 1)
		}
		w.PostAll(events...) // these wait until tomorrow
		apply := func(most int) {
			w.Clock.Set(w.Clock.Now().Add(time.Minute))
			w.Apply(fmt.Sprintf("persona: Manager\ncadence: {max_per_day: %d}\n", most))
		}
		runs := func() []job.Row {
			t.Helper()
			list, err := w.runs(job.Limits)
			if err != nil {
				t.Fatal(err)
			}
			list = slices.DeleteFunc(list, func(r job.Row) bool { return r.Definitions == 1 })
			return list
		}
		apply(2)
		if marked, open, err := jobs.New(s, reschedule.Jobs(s)).Step(t.Context(), w.Clock.Now()); marked != store.MemberPage || !open || err != nil {
			t.Fatalf("first page: %d, %t, %v", marked, open, err)
		}
		if r := runs(); len(r) != 1 || r[0].Done != store.MemberPage || r[0].Total != people || r[0].Status != job.Running || r[0].Subject != "Manager" {
			t.Errorf("%+v", r)
		}
		w.live("11:00")
		if r := runs(); r[0].Done != people || r[0].Status != job.Done {
			t.Errorf("%+v", r)
		}
		counts, err := s.Counts(t.Context(), w.Workspace.ID)
		if err != nil || counts.DeliveriesByStatus[delivery.Sent] != 2*people {
			t.Errorf("sent %d of %d, %v", counts.DeliveriesByStatus[delivery.Sent], 2*people, err)
		}
	})
}

// runs lists the jobs of a kind, the newest first.
func (w world) runs(kind job.Kind) ([]job.Row, error) {
	w.Helper()
	all, err := w.Store.Jobs(w.Context(), w.Workspace.ID, store.Page{})
	return slices.DeleteFunc(all, func(r job.Row) bool { return r.Kind != kind }), err
}

// unlock ends the job that the last edit started, as a person who edits the workflow again may.
func (f *office) unlock() {
	f.Helper()
	now := f.Clock.Now()
	runs, err := f.Store.Jobs(f.Context(), f.Workspace.ID, store.Page{Limit: 100})
	for _, r := range runs {
		if err == nil && r.Status == job.Running && r.Cause != "" {
			_, err = jobs.Cancel(f.Context(), f.Store, f.Workspace.ID, r.ID, now, store.Audit{At: now, Actor: "test", Action: "cancel run"})
		}
	}
	if err != nil {
		f.Fatal(err)
	}
}
