package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// everything has a workflow of each kind.
const everything = `
workspace: default
---
workflow: welcome
type: survey
triggers: [{id: came, event: came, dedup: [candidate.n, recipient.address]}]
timing: {offset: 1h, reminders: [1d, 1d]}
audience: {to: event.recipient}
channel: email
message: {email: {subject: Welcome, text: Hello}}
---
workflow: health
type: alert
triggers:
  - id: t
    record: team
    issues: {LOW: record.morale < 50, EMPTY: record.people < 1}
    cooldown: {length: 2h, per: [record.region, issues]}
audience: {persona: Manager}
channel: inbox
message: {inbox: {text: Look}}
resolved: {inbox: {text: All is well}}
limits: {revalidate: true}
---
workflow: visits
type: reminder
triggers:
  - id: dated
    record: visit
    when: record.live == true
    timing: {anchor: record.on_date, offset: [-1d, 0d], at: "12:00"}
    reconcile: {every: 1d, due_within: 14d}
  - id: single
    record: visit
    when: record.live == true
    timing: {offset: 1h}
  - id: rise
    record: visit
    metric: {name: m, value: record.booked, thresholds: [70, 80]}
    fire: false_to_true
audience: {to: record.who}
channel: inbox
message: {inbox: {text: Come}}
---
workflow: tips
type: broadcast
triggers: [{id: daily, schedule: {every: 1w, days: [thu], at: "09:00", timezone: contact.timezone}}]
audience: {everyone: true}
channel: inbox
message: {inbox: {text: A tip}}
---
workflow: folded
type: alert
triggers: [{id: f, event: f}]
audience: {to: event.recipient}
channel: inbox
message: {inbox: {text: Fold}}
limits: {at_send: fold}
---
persona: Manager
cadence: {cooldown: 30m, max_per_day: 4, max_per_week: 9, quiet_hours: "22:00-06:00"}
---
channel: inbox
provider: inbox
rate: 2/m
---
channel: email
provider: memory
`

// twins are workspaces of one database in which the same happens.
type twins struct {
	world
	all   []store.Workspace
	still string // the name of one in which people do nothing
}

func newTwins(t *testing.T, s *store.Store, names ...string) *twins {
	t.Helper()
	w := &twins{world: world{enginetest.Setup(t, s, "", func(c *engine.Config) { c.Retention = keepAll(15 * 24 * time.Hour) })}}
	for _, name := range names {
		ws, err := s.EnsureWorkspace(t.Context(), name, w.Workspace.Secret, enginetest.Start)
		if err != nil {
			t.Fatal(err)
		}
		w.all = append(w.all, ws)
	}
	return w
}

// each calls do in every workspace, at one instant.
func (w *twins) each(do func()) {
	w.Helper()
	for _, w.Workspace = range w.all {
		do()
	}
}

// people is each for what people do.
func (w *twins) people(do func()) {
	w.Helper()
	w.each(func() {
		if w.Workspace.Name != w.still {
			do()
		}
	})
}

// until advances the clock to an instant of a later day and runs every stage whenever something is due.
func (w *twins) until(days int, clock string) {
	w.Helper()
	end := at(clock).AddDate(0, 0, days)
	for range 100_000 {
		for w.tick() {
		}
		next, err := w.NextDue(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			w.Clock.Set(end)
			return
		}
		w.Clock.Set(next)
	}
	w.Fatal("there is no end to it")
}

// sweep finishes the current pass of retention, which takes several steps.
func (w *twins) sweep() {
	for range 3 {
		w.Clock.Set(w.Clock.Now().Add(2 * time.Hour))
		for range 40 {
			w.tick()
			w.Clock.Set(w.Clock.Now().Add(time.Second))
		}
	}
}

// stored returns what a workspace stores in the end, without the ids, in which workspaces differ.
func (w *twins) stored(ws store.Workspace) (lines []string) {
	w.Helper()
	instances, err := w.Store.Instances(w.Context(), ws.ID, store.InstanceFilter{}, store.Page{Limit: 10_000})
	for _, i := range instances {
		lines = append(lines, fmt.Sprintf("instance %s %s %s held %t due %s %s %s attempts %d", i.Key, i.Status, i.Reason, i.Held(), i.DueAt, i.LocalDate, i.Timezone, i.Attempts))
	}
	deliveries, err2 := w.Store.Deliveries(w.Context(), ws.ID, store.DeliveryFilter{}, store.Page{Limit: 10_000})
	for _, d := range deliveries {
		lines = append(lines, fmt.Sprintf("delivery %s to %s %s %s step %d attempt %d send %s sent %s slot %s by %s fold %t", d.Key, d.Address, d.Status, d.Reason, d.Step, d.AttemptNo,
			d.SendAt, d.LastSentAt, d.Slot, d.DeferredBy, d.FoldedInto != 0))
	}
	decisions, err3 := w.Store.Decisions(w.Context(), ws.ID, store.DecisionFilter{}, store.Page{Limit: 10_000})
	for _, d := range decisions {
		lines = append(lines, fmt.Sprintf("decision %s %s %s %s %s", d.At, d.Workflow, d.Trigger, d.Context, d.Reason))
	}
	throttles, err4 := w.Throttles(w.Context(), ws.ID, store.ThrottleFilter{})
	for _, th := range throttles {
		lines = append(lines, fmt.Sprintf("throttle %s %s %s %s", th.Workflow, th.Context, th.FiredAt, th.Until))
	}
	runs, err5 := w.Store.Jobs(w.Context(), ws.ID, store.Page{Limit: 10_000})
	for _, r := range runs {
		lines = append(lines, fmt.Sprintf("run %s %s %s %d of %d repaired %d at %s", r.Kind, r.Subject, r.Status, r.Done, r.Total, r.Changed, r.StartedAt))
	}
	for _, id := range []string{"ann", "bob", "cal", "dan"} {
		limits, err := w.Limits(w.Context(), ws.ID, id)
		if err == nil {
			for _, kind := range limits.Kinds {
				lines = append(lines, fmt.Sprintf("limits of %s on %s %+v, %d wait", id, kind.Kind, kind.Limits, len(kind.Waiting)))
			}
		} else if !errors.Is(err, store.ErrNotFound) {
			w.Fatal(err)
		}
	}
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		w.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// happen runs every kind of flow, in each of the workspaces.
func (w *twins) happen() {
	w.Helper()
	now := w.Clock.Now
	ops := w.Operator()
	post := func(kind string, n int, who string) {
		w.Post(fmt.Sprintf(`{"kind": %q, "payload": {"n": %d}, "recipient": {"address": "%s@example.org", "customer_ref": %[3]q}}`, kind, n, who))
	}
	w.each(func() { w.Apply(everything) })
	w.Clock.Set(ten)
	w.each(func() {
		for _, name := range []string{"ann", "bob"} {
			w.person(name, `"persona": "Manager", "timezone": "Europe/Berlin"`)
		}
		w.person("cal", `"timezone": "Asia/Tokyo"`)
		w.put("team/a", `{"morale": 90, "people": 3, "region": "north"}`)
		w.put("team/b", `{"morale": 40, "people": 3, "region": "north"}`)
		w.put("visit/v", `{"on_date": "2026-05-20", "live": true, "who": "ann", "booked": 75}`)
		w.put("visit/x", `{"on_date": "2026-05-21", "live": true, "who": "bob", "booked": 10}`)
		for n := range 3 {
			post("came", n, "cal")
			post("came", n, "cal") // a duplicate
			post("f", n, "ann")
		}
	})
	w.until(0, "10:20")
	w.each(func() {
		w.put("team/a", `{"morale": 30}`) // throttled: the region has fired
		w.put("visit/x", `{"booked": 85}`)
	})
	w.people(func() {
		if _, err := w.RunManually(w.Context(), w.Workspace, "tips", "r1", "test", nil); err != nil {
			w.Fatal(err)
		}
	})
	w.until(0, "13:00")
	w.each(func() {
		w.put("team/a", `{"morale": 90}`)
		w.put("team/b", `{"morale": 90}`) // the condition is over
	})
	w.people(func() {
		if _, err := ops.Pause(w.Context(), w.Workspace.ID, "visits", "wait", "test", now()); err != nil {
			w.Fatal(err)
		}
	})
	w.until(5, "13:00") // due visits wait
	w.people(func() {
		if _, err := ops.Resume(w.Context(), w.Workspace.ID, "visits", "test", now()); err != nil {
			w.Fatal(err)
		}
		row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, "reminder:visits:visit:x:dated:2026-05-21:0")
		if err == nil {
			_, err = ops.CancelInstance(w.Context(), w.Workspace.ID, row.ID, "test", now())
		}
		if err != nil {
			w.Fatal(err)
		}
	})
	w.until(8, "13:00")
	w.people(func() {
		for _, k := range []string{"reminder:visits:visit:v:single:once", "reminder:visits:visit:v:dated:2026-05-20:0"} {
			if _, err := ops.Forget(w.Context(), w.Workspace.ID, k, "test", now()); err != nil {
				w.Fatalf("%s: %v", k, err)
			}
		}
	})
	w.each(func() {
		w.put("visit/v", `{"live": false, "booked": 60}`)
		w.person("dan", `"addresses": {"inbox": "cal"}`) // who claims the address
	})
	w.until(8, "14:00")
	w.each(func() { w.put("visit/v", `{"live": true, "booked": 90}`) }) // a freed key is planned again under another name
	w.until(9, "09:00")
	w.people(func() {
		wish := contact.Suppression{Contact: "bob", Suppress: true, Reason: "asked", Actor: "test"}
		if _, err := w.Contacts().Stop(w.Context(), w.Workspace, wish, now(), nil); err != nil {
			w.Fatal(err)
		}
	})
	w.each(func() {
		w.put("visit/v", `{"live": false}`)
		w.put("visit/x", `{"live": false}`)
	})
	w.until(30, "09:00")
	w.sweep() // retention has taken the rows: the keys are spent
	w.each(func() {
		w.put("visit/v", `{"live": true, "on_date": "2026-05-20"}`)
		w.put("visit/x", `{"live": true, "booked": 95}`)
		post("came", 1, "cal") // still a duplicate
		w.Apply(strings.Replace(everything, `at: "09:00", timezone: contact.timezone`, `at: "10:00", timezone: contact.timezone`, 1))
	})
	w.until(36, "22:00")
	w.sweep()
}

// Two workspaces with equal names and keys, in which the same happens at the same instants, each store what a workspace that is alone in its database
// stores. So do two of which one has people who pause, cancel, free keys and stop messages, while in the other one people do nothing.
//
// Shows: reliability 35.
func TestTwinsKnowNothingOfEachOther(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			live := func(still string, names ...string) (found map[string][]string, sent int) {
				w := newTwins(t, storetest.Open(t, storetest.URL(t, database)), names...)
				w.still, found = still, map[string][]string{}
				w.happen()
				for _, ws := range w.all {
					found[ws.Name] = w.stored(ws)
				}
				return found, len(w.Provider.Sent())
			}
			alone, once := live("", "default")
			left, others := live("other", "other")
			if once < 40 || others < 40 || cmp.Equal(alone["default"], left["other"]) {
				t.Fatalf("%d messages, and %d without people", once, others)
			}
			for still, want := range map[string][]string{"": alone["default"], "other": left["other"]} {
				both, sent := live(still, "default", "other")
				if diff := cmp.Diff(alone["default"], both["default"]); diff != "" {
					t.Errorf("beside its twin (-alone +beside):\n%s", diff)
				}
				if diff := cmp.Diff(want, both["other"]); diff != "" {
					t.Errorf("beside its twin, people do nothing %t (-alone +beside):\n%s", still != "", diff)
				}
				if expected := map[string]int{"": 2 * once, "other": once + others}[still]; sent != expected {
					t.Errorf("%d messages of two, want %d", sent, expected)
				}
			}
			t.Logf("%d lines, %d messages", len(alone["default"]), once)
		})
	}
}
