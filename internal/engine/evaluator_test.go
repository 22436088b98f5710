package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// kiosks is the worked example: members of a persona are notified of the issues of kiosks.
const kiosks = `
workflow: kiosk-health-alert
type: alert
triggers:
  - id: kiosk_health_status
    record: kiosk
    check: [change, 5m]
    issues:
      NOT_CHARGING: record.charging == false
      SCREEN_OFF: record.screen_state == false
      LOW_BATTERY: record.battery_level < 20
      OFFLINE: record.connection_status == false || age(record.last_heartbeat_at) >= minutes(5)
    cooldown:
      length: 2h
      per: [record.id, record.project_id, issues]
      issues:
        OFFLINE: 15m
audience:
  - persona: Manager
channel: inbox
message:
  inbox:
    subject: "{{ record.name }}: {{ issues | join: ',' }}"
    text: "Battery at {{ record.battery_level }}"
---
persona: Manager
cadence: {max_per_month: 10000}
---
channel: inbox
provider: inbox
`

// simple is a trigger with one condition; the arguments are its check, its other keys and further keys of the workflow.
func simple(check, trigger, workflow string) string {
	return `
workflow: w
type: alert
triggers:
  - id: t
    record: team
    check: ` + check + `
    when: record.morale < 50
` + trigger + `
audience:
  - to: record.owner_id
channel: inbox
message:
  inbox:
    subject: "{{ record.name }}"
    text: "{{ record.morale }} of {{ record.id }} at {{ detected_at | date: '%H:%M' }}"
` + workflow + `
---
persona: Manager
cadence: {max_per_month: 10000}
---
channel: inbox
provider: inbox
`
}

// world is an engine with contacts and records, on a day that begins at ten.
type world struct{ *enginetest.Bundle }

var ten = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

func newWorld(t testing.TB, s *store.Store, definitions string, people ...string) world {
	t.Helper()
	w := world{enginetest.Setup(t, s, definitions, nil)}
	w.Clock.Set(ten)
	for _, name := range people {
		w.person(name, `"persona": "Manager"`)
	}
	w.live("10:00")
	w.Journal()
	return w
}

// at returns an instant of that day.
func at(s string) time.Time {
	d, err := time.Parse("15:04:05", s+":00"[:8-len(s)])
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 5, 14, d.Hour(), d.Minute(), d.Second(), 0, time.UTC)
}

func (w world) person(name, fields string) {
	w.Helper()
	item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": "%s", "email": "%[1]s@example.org"}, %s}`, name, fields)), name)
	results, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		w.Fatalf("%s: %v, %v", name, err, results)
	}
}

// put merges fields into a record such as kiosk/123.
func (w world) put(name, props string) {
	w.Helper()
	w.write(upsert.Merge, name, `{"props": `+props+`}`)
}

func (w world) write(mode upsert.Mode, name, body string) {
	w.Helper()
	typ, id, _ := strings.Cut(name, "/")
	results, err := w.Records().Write(w.Context(), w.Workspace, mode, []record.Item{record.Parse(json.RawMessage(body), typ, id)}, "test", w.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		w.Fatalf("%s: %v, %v", name, err, results)
	}
}

// live advances the clock to an instant and runs every stage whenever something is due.
func (w world) live(until string) {
	w.Helper()
	end := at(until)
	for range 10_000 {
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
		if !next.After(w.Clock.Now()) {
			w.Fatalf("at %s something is due since %s, and nobody takes it up", w.Clock.Now(), next)
		}
		w.Clock.Set(next)
	}
	w.Fatal("there is no end to it")
}

func (w world) tick() bool {
	w.Helper()
	r, err := w.Tick(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return r.Any()
}

// happened returns the journal entries of some kinds since the last call, each as "10:05 what context reason".
func (w world) happened(kinds ...journal.What) []string {
	w.Helper()
	var list []string
	for _, e := range w.Journal() {
		if !slices.Contains(kinds, e.What) || e.What == journal.Skipped && e.Delivery == 0 && e.Record == "" {
			continue
		}
		line := e.At.Format("15:04") + " " + string(e.What)
		for _, part := range []string{e.Context, e.Contact, string(e.Reason)} {
			if part != "" {
				line += " " + part
			}
		}
		list = append(list, line)
	}
	return list
}

func (w world) mustBe(what string, got, want []string) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// The worked example of the sources, from 10:00 to 12:05.
//
// Shows: A1, A3, A10, A11, A15, A16, A18, A19, A20, A21, A22, A24, A27, A28, A29, A46.
func TestKiosksFromTenToTwelve(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, kiosks, "alice", "bob")
		well := `{"name": "Lobby", "project_id": 45, "charging": true, "screen_state": true, "battery_level": 80, "connection_status": true, "last_heartbeat_at": "2026-05-15T10:00:00Z"}`
		w.put("kiosk/123", well)
		w.put("kiosk/456", strings.Replace(well, "Lobby", "Gate", 1))
		w.live("10:00")
		w.mustBe("while all is well", w.happened(journal.Created, journal.Throttled), nil)

		w.put("kiosk/123", `{"charging": false}`)
		w.live("10:00")
		w.mustBe("at 10:00", w.happened(journal.Created, journal.Sent, journal.Throttled), []string{
			"10:00 created kiosk_health_status:123:45:NOT_CHARGING", "10:00 sent alice delivered", "10:00 sent bob delivered",
		})
		var subjects []string
		for _, m := range w.Provider.Sent() {
			subjects = append(subjects, m.Subject+" / "+m.Text)
		}
		w.mustBe("messages", subjects, []string{"Lobby: NOT_CHARGING / Battery at 80", "Lobby: NOT_CHARGING / Battery at 80"})

		w.Clock.Set(at("10:05"))
		w.put("kiosk/123", `{"charging": true, "battery_level": 15}`)
		w.live("10:09")
		w.mustBe("at 10:05", w.happened(journal.Created, journal.Throttled), []string{"10:05 created kiosk_health_status:123:45:LOW_BATTERY"})
		w.Clock.Set(at("10:10"))
		w.put("kiosk/123", `{"charging": false, "battery_level": 50}`)
		w.tick()
		for _, e := range w.Journal() {
			if e.What != journal.Throttled {
				continue
			}
			if e.Message != "Rate limit not yet reached for workflow kiosk-health-alert, trigger 'kiosk_health_status'. Skipping delivery." {
				t.Errorf("the log says %q", e.Message)
			}
			if wait := e.Until.Sub(e.At); wait != 110*time.Minute || e.Context != "kiosk_health_status:123:45:NOT_CHARGING" {
				t.Errorf("%s waits %s", e.Context, wait)
			}
		}
		w.live("11:59")
		w.Journal()
		w.Clock.Set(at("12:00"))
		w.put("kiosk/456", `{"battery_level": 12}`)
		w.live("12:05")
		w.mustBe("at 12:00 and 12:05", w.happened(journal.Created, journal.Throttled), []string{
			"12:00 created kiosk_health_status:123:45:NOT_CHARGING", "12:00 created kiosk_health_status:456:45:LOW_BATTERY",
			"12:05 throttled kiosk_health_status:123:45:NOT_CHARGING throttled", "12:05 throttled kiosk_health_status:456:45:LOW_BATTERY throttled",
		})
		decisions, err := s.Decisions(t.Context(), w.Workspace.ID, store.DecisionFilter{}, store.Page{})
		if err != nil || len(decisions) != 3 { // NOT_CHARGING after 10:00 and after 12:00, LOW_BATTERY of 456 after 12:00
			t.Errorf("%d decisions are kept, want the first block after each firing: %+v, %v", len(decisions), decisions, err)
		}
	})
}

// Time alone makes a kiosk offline: nobody writes, and it is evaluated at the instant.
//
// Shows: A9, A23, A25.
func TestSilenceIsNoticed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(kiosks, "check: [change, 5m]", "check: [change]", 1), "alice")
		w.put("kiosk/1", `{"project_id": 1, "last_heartbeat_at": "2026-05-14T09:58:30Z"}`)
		w.live("10:40")
		w.mustBe("silence", w.happened(journal.Created), []string{
			"10:03 created kiosk_health_status:1:1:OFFLINE", "10:18 created kiosk_health_status:1:1:OFFLINE", "10:33 created kiosk_health_status:1:1:OFFLINE",
		})
	})
}

// A condition that must hold for a while fires only after that time, and a break restarts it (R8).
func TestFor(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    for: 10m\n    cooldown: {length: 1h}\n", ""), "alice")
		w.put("team/a", `{"morale": 40, "owner_id": "alice"}`)
		w.live("10:09")
		w.put("team/a", `{"morale": 60}`)
		w.live("10:12")
		w.put("team/a", `{"morale": 30}`)
		w.live("10:30")
		w.mustBe("", w.happened(journal.Created), []string{"10:22 created t:a"})
	})
}

// A trigger with only an interval acts at its ticks, on the state of that instant.
//
// Shows: A2, A4, A5.
func TestTicksAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[5m]", "    cooldown: {length: 10m}\n", ""), "alice")
		w.live("10:01")
		w.put("team/a", `{"morale": 40, "owner_id": "alice"}`)
		w.put("team/b", `{"morale": 40, "owner_id": "alice"}`)
		w.live("10:04")
		w.put("team/b", `{"morale": 60}`)
		w.live("10:12")
		w.mustBe("", w.happened(journal.Created, journal.Throttled), []string{"10:05 created t:a", "10:10 throttled t:a throttled"})
		w.Clock.Set(at("10:26")) // no process ran: the latest tick counts, and missed ones are not made up for
		w.live("10:31")
		w.mustBe("late", w.happened(journal.Created, journal.Throttled), []string{"10:26 created t:a", "10:30 throttled t:a throttled"})
		row, err := s.InstanceByKey(t.Context(), w.Workspace.ID, "alert:w:team:a:t:context:t:a:20260514T102500Z")
		if err != nil || row.DueAt != at("10:26") {
			t.Errorf("it is known by another instant than its tick: %+v, %v", row, err)
		}
	})
}

// One cooldown for the whole trigger: alerts that are found together are sent together.
func TestOneCooldownForTheTrigger(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[5m]", "    cooldown: {length: 1h, per: []}\n", ""), "alice")
		w.live("10:01")
		for _, name := range []string{"team/a", "team/b", "team/c"} {
			w.put(name, `{"morale": 40, "owner_id": "alice"}`)
		}
		w.live("10:07")
		w.put("team/d", `{"morale": 40, "owner_id": "alice"}`)
		w.live("10:14")
		w.mustBe("", w.happened(journal.Created, journal.Throttled), []string{
			"10:05 created t", "10:05 created t", "10:05 created t",
			"10:10 throttled t throttled", "10:10 throttled t throttled", "10:10 throttled t throttled", "10:10 throttled t throttled",
		})
	})
}

// An alert without an audience makes no instance and stamps no context; it is tried again (product decision 8).
func TestAnAlertWithoutAudience(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    cooldown: {length: 1h}\n", ""))
		w.put("team/a", `{"morale": 40, "owner_id": "alice"}`)
		w.live("10:07")
		w.mustBe("nobody", w.happened(journal.Created, journal.Skipped), []string{"10:00 skipped t:a no_recipient", "10:05 skipped t:a no_recipient"})
		decisions, err := s.Decisions(t.Context(), w.Workspace.ID, store.DecisionFilter{}, store.Page{})
		if err != nil || len(decisions) != 1 || decisions[0].Record == 0 || decisions[0].Context != "t:a" {
			t.Errorf("%+v, %v", decisions, err)
		}
		team, err := s.Record(t.Context(), w.Workspace.ID, subject.RecordRef{Type: "team", ExtID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		standings, err := w.ExplainRecord(t.Context(), w.Workspace.ID, team)
		if err != nil || len(standings) != 1 || standings[0].Reason != reason.NoRecipient || !standings[0].Until.Equal(at("10:10")) {
			t.Errorf("%+v, %v", standings, err)
		}
		w.person("alice", `"name": "A"`)
		w.live("10:20")
		w.mustBe("somebody", w.happened(journal.Created, journal.Skipped), []string{"10:10 created t:a"})
	})
}

// Contacts who got the alert are notified once that it is over. A waiting alert is withdrawn, and its contact gets nothing (R9).
func TestResolved(t *testing.T) {
	t.Parallel()
	resolved := "resolved:\n  inbox:\n    subject: '{{ record.name }} is well'\n    text: 'now {{ record.morale }}'\n"
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(simple("[change]", "    cooldown: {length: 1h}\n", resolved), "to: record.owner_id", "to: record.owners", 1))
		w.person("alice", `"name": "A"`)
		w.person("bob", `"name": "B"`)
		w.put("team/a", `{"name": "Team", "morale": 40, "owners": ["alice", "bob"]}`)
		w.live("10:01")
		if n := len(w.Provider.Sent()); n != 2 {
			t.Fatalf("%d alerts", n)
		}
		w.put("team/a", `{"morale": 70}`)
		w.live("10:02")
		var got []string
		for _, m := range w.Provider.Sent() {
			got = append(got, m.Address+": "+m.Subject+", "+m.Text)
		}
		w.mustBe("resolved", got, []string{"alice: Team is well, now 70", "bob: Team is well, now 70"})
		w.put("team/a", `{"morale": 40}`) // in the cooldown: an episode without an alert does not clear for anybody
		w.live("10:03")
		w.put("team/a", `{"morale": 80}`)
		w.live("10:04")
		if n := len(w.Provider.Sent()); n != 0 {
			t.Errorf("%d messages about an episode that nobody heard of", n)
		}
		w.live("11:10")
		w.Journal()
		w.Clock.Set(at("11:20"))
		w.put("team/a", `{"morale": 40}`)
		w.evaluateOnly()
		w.put("team/a", `{"morale": 90}`) // before any of its messages left
		w.live("11:30")
		if n := len(w.Provider.Sent()); n != 0 {
			t.Errorf("%d messages about what was over before it left", n)
		}
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Status: delivery.Skipped}, store.Page{})
		if err != nil || len(rows) != 2 || rows[0].Reason != "condition_cleared" || !rows[0].Slot.IsZero() {
			t.Errorf("%+v, %v", rows, err)
		}
		w.put("team/a", `{"morale": 10}`)
		w.live("12:40")
		w.Provider.Sent()
		w.write(upsert.Merge, "team/a", `{"closed": true}`)
		w.live("12:50")
		if n := len(w.Provider.Sent()); n != 0 {
			t.Errorf("%d people hear that a closed record is well", n)
		}
	})
}

// A waiting alert is no longer needed, and in the same evaluation another record of its context fires: the newer message supersedes it, and it is
// ended once.
func TestWithdrawnAndSupersededAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(simple("[change]", "    cooldown: {length: 2m, per: []}\n    limits: {revalidate: true}\n", ""), "{max_per_month: 10000}", "{cooldown: 2h}", 1), "alice")
		put := func(when, name string, morale int) {
			if w.Clock.Now().Before(at(when)) {
				w.live(when)
			}
			w.put(name, fmt.Sprintf(`{"name": "T", "morale": %d, "owner_id": "alice"}`, morale))
		}
		put("10:00", "team/a", 40)
		put("10:01", "team/a", 90)
		put("10:02", "team/b", 40) // alice waits until 12:00
		w.live("10:05:59")
		w.Clock.Set(at("10:06"))
		put("10:06", "team/b", 90)
		w.put("team/c", `{"name": "T", "morale": 10, "owner_id": "alice"}`)
		w.live("10:06")
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range slices.Backward(rows) {
			got = append(got, string(row.Status))
		}
		w.mustBe("messages", got, []string{"sent", "superseded", "superseded", "scheduled"})
	})
}

// faults are alerts about two issues, to contacts with few messages a day; alerts that no longer hold are withdrawn.
func faults(cadence string) string {
	return strings.NewReplacer("when: record.morale < 50", "issues: {A: record.a == true, B: record.b == true}", "{max_per_month: 10000}", cadence).Replace(
		simple("[change]", "    cooldown: {length: 1d}\n    limits: {revalidate: true}\n", ""))
}

// The issue of a waiting alert is over, and the record has another issue: the alert is withdrawn, and the newer one gets its slot. An alert of which
// one issue still holds stays.
//
// Shows: A29, A47.
func TestAlertsThatNoLongerHoldAreWithdrawn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, faults("{cooldown: 2h, max_per_day: 4}"), "alice")
		for i, change := range []string{
			`x a:true`, `x a:true b:true`, `x a:false b:true`, `x a:true b:false`, `x b:true`, `x a:false`,
			`y a:true`, `y a:false b:true`, // the last slot of the day goes to the alert that holds
		} {
			w.live(fmt.Sprintf("10:%02d", 5*i))
			name, props, _ := strings.Cut(change, " ")
			props = strings.NewReplacer("a:", `"a": `, "b:", `"b": `, " ", ", ").Replace(props)
			w.put("team/"+name, `{"name": "N", "morale": 1, "owner_id": "alice", `+props+`}`)
		}
		w.live("12:00")
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range slices.Backward(rows) {
			parts := strings.Split(row.Key, ":")
			got = append(got, fmt.Sprint(parts[3], " ", parts[8], " ", row.Status, " ", row.Reason))
		}
		w.mustBe("messages", got, []string{
			"x A sent delivered", "x A,B sent delivered", "x B skipped condition_cleared", "x B sent delivered", "y A skipped condition_cleared", "y B sent delivered",
		})
	})
}

// An evaluation runs between two steps of the send of its alert: what it commits before the intent counts, and after that it is too late.
//
// Shows: P5, R18.
func TestADropBetweenTheStepsOfASend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		point, want string
		tries       int
	}{
		{sender.BeforeIntent, "skipped condition_cleared", 0}, {sender.AfterIntent, "sent delivered", 1}, {sender.BeforeResult, "sent delivered", 1},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				var w world
				armed := false
				w = world{enginetest.Setup(t, s, faults("{cooldown: 2h}"), func(config *engine.Config) {
					config.Failpoint = func(point string) error {
						if point == c.point && armed {
							armed = false
							w.put("team/b", `{"a": false, "b": true}`)
							w.evaluateOnly()
						}
						return nil
					}
				})}
				w.Clock.Set(ten)
				w.person("alice", `"persona": "Manager"`)
				w.put("team/a", `{"name": "A", "morale": 1, "owner_id": "alice", "a": true}`)
				w.live("10:30")
				w.put("team/b", `{"name": "B", "morale": 1, "owner_id": "alice", "a": true}`)
				w.live("11:59")
				w.Clock.Set(at("12:00"))
				armed = true
				w.tick()
				if armed {
					t.Fatal("nothing was being sent")
				}
				w.live("14:00")
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{})
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					got, tries := fmt.Sprint(row.Status, " ", row.Reason), len(w.Attempts(row.ID))
					if strings.Contains(row.Key, ":b:") && strings.Contains(row.Key, ":A:") && (got != c.want || tries != c.tries) {
						t.Errorf("%s after %d tries; want %s after %d", got, tries, c.want, c.tries)
					}
				}
				if len(rows) != 3 {
					t.Errorf("%d messages, want the first, the one that is raced for, and that of what is true now", len(rows))
				}
			})
		})
	}
}

// A sender and an evaluator reach the same message at once: it is either sent or withdrawn.
func TestADropRacesASend(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, faults("{cooldown: 2h}"), "alice")
		const n = 20
		put := func(props string) {
			for i := range n {
				w.put(fmt.Sprint("team/", i), fmt.Sprintf(`{"name": "%d", "morale": 1, "owner_id": "alice", %s}`, i, props))
			}
		}
		w.put("team/first", `{"name": "first", "morale": 1, "owner_id": "alice", "a": true}`)
		w.live("10:30")
		put(`"a": true`)
		w.live("11:59")
		w.Provider.Sent()
		w.Clock.Set(at("12:00"))
		put(`"a": false, "b": true`)
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				if _, err := w.Tick(w.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		w.live("12:00")
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		dropped, sent := 0, 0
		for _, row := range rows {
			switch {
			case row.NotBefore.Equal(ten):
			case row.Status == delivery.Skipped && row.Reason == reason.ConditionCleared && row.LastSentAt.IsZero() && strings.Contains(row.Key, ":A:"):
				dropped++
			case row.Status == delivery.Sent && !row.LastSentAt.IsZero():
				sent++
			default:
				t.Errorf("%s is %s, %s", row.Key, row.Status, row.Reason)
			}
		}
		if left := len(w.Provider.Sent()); left != sent || dropped+sent != 2*n {
			t.Errorf("%d left, %d are sent, %d are dropped", left, sent, dropped)
		}
	})
}

// evaluateOnly evaluates records and does nothing else.
func (w world) evaluateOnly() {
	w.Helper()
	c := evaluator.New(w.Store, catalog.New(w.Store, loader.Options{}), nil)
	if r, err := c.Step(w.Context(), w.Clock.Now(), 100); err != nil || r.Evaluated == 0 {
		w.Fatalf("%+v, %v", r, err)
	}
}
