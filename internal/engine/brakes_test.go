package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// braked is a broadcast to an audience, by an event, with its limits.
func braked(audience, limits string) string {
	return strings.Replace(newsTo(audience, twoGroups), "\nchannel:", "\nlimits: {"+limits+"}\nchannel:", 1)
}

// occasion returns the newest instance.
func (w world) occasion() instance.Row {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1})
	if err != nil || len(rows) != 1 {
		w.Fatal(rows, err)
	}
	return rows[0]
}

func (w world) release(id instance.ID) {
	w.Helper()
	if _, err := w.Operator().Release(w.Context(), w.Workspace.ID, id, "ann", w.Clock.Now()); err != nil {
		w.Fatal(err)
	}
}

// run has the engine do all that is due, and returns who got a message.
func (w world) run() (to []string) {
	w.Helper()
	for w.tick() {
	}
	for _, m := range w.Provider.Sent() {
		to = append(to, m.Address)
	}
	slices.Sort(to)
	return to
}

// An occasion takes up as many people as its brake allows, and is held if there are more, with their number. Released or retried it takes up the others: each
// person once, whatever names them.
func TestBrakeOfRecipients(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo("[{everyone: true}]", twoGroups))
		w.person("ann", `"attributes": {"age": 20}, "persona": "Nurse"`)
		w.person("bob", `"attributes": {"age": 40}`)
		w.person("cyd", `"attributes": {"age": 4}, "persona": "Nurse"`)
		w.person("dan", `"name": "Dan"`)
		w.person("eve", `"name": "Eve"`)
		wish := contact.Suppression{Contact: "eve", Suppress: true, Reason: "asked", Actor: "test"}
		if _, err := w.Contacts().Stop(t.Context(), w.Workspace, wish, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		all := []string{"ann", "bob", "cyd", "dan"} // nothing is sent to Eve
		for i, tt := range []struct {
			name, audience string
			who            string // of the event
			most, people   int    // people: whom the audience has
			to             []string
		}{
			{"one fewer than the people", "[{everyone: true}]", "[]", 4, 5, all},
			{"as many", "[{everyone: true}]", "[]", 5, 5, all},
			{"one more", "[{everyone: true}]", "[]", 6, 5, all},
			{"one at all", "[{everyone: true}]", "[]", 1, 5, all},
			{"of a group", "[{group: adults}]", "[]", 1, 2, []string{"ann", "bob"}},
			{"named people", "[{to: event.who}]", `["cyd", "ann", "dan", "bob"]`, 2, 4, all},
			{"named twice", "[{to: event.who}]", `["cyd", "ann", "cyd", "ann"]`, 1, 2, []string{"ann", "cyd"}},
			{"named, of a persona, of a group and everybody", "[{to: event.who}, {persona: Nurse}, {group: board}, {everyone: true}]", `["dan", "cyd"]`, 3, 5, all},
			{"with a condition", "[{to: event.who, where: contact.id != 'dan'}, {persona: Nurse}]", `["dan", "bob", "cyd"]`, 2, 3, []string{"ann", "bob", "cyd"}},
			{"the recipient of the event counts", "[{to: event.recipient}, {everyone: true}]", "[]", 2, 5, all},
			{"as many with the recipient", "[{to: event.recipient}, {group: adults}]", "[]", 2, 2, []string{"ann", "bob"}},
			{"the recipient alone is as many", "[{to: event.recipient}, {group: adults}]", "[]", 1, 2, []string{"ann", "bob"}},
		} {
			w.Apply(braked(tt.audience, fmt.Sprintf("max_recipients_per_run: %d", tt.most)))
			w.run()
			w.Post(fmt.Sprintf(`{"id": "n%d", "kind": "news", "payload": {"who": %s}, "recipient": {"customer_ref": "ann"}}`, i, tt.who))
			first := w.run()
			in := w.occasion()
			switch {
			case in.Recipients != min(tt.most, tt.people):
				t.Errorf("%s: %d people are taken up: %+v", tt.name, in.Recipients, in)
			case tt.people <= tt.most:
				if in.Status != instance.Completed || in.Held() {
					t.Errorf("%s: %+v", tt.name, in)
				}
			case in.Status != instance.Pending || in.Hold != instance.HoldMany || in.Reason != reason.TooManyRecipients || len(first) > tt.most:
				t.Errorf("%s: to %v, %+v", tt.name, first, in)
			case i%2 == 0:
				w.release(in.ID)
			default:
				if _, err := w.Operator().RetryInstance(t.Context(), w.Workspace.ID, in.ID, "ann", w.Clock.Now()); err != nil {
					t.Errorf("%s: %v", tt.name, err)
				}
			}
			rest := w.run()
			if w.mustBe(tt.name, slices.Sorted(slices.Values(append(first, rest...))), tt.to); w.Provider.Repeats > 0 {
				t.Errorf("%s: somebody got it twice", tt.name)
			}
			if now := w.occasion(); now.ID != in.ID || now.Status != instance.Completed || now.Recipients != tt.people || now.UnbrakedAt.IsZero() == in.Held() {
				t.Errorf("%s: in the end %+v", tt.name, now)
			}
		}
	})
}

// The brake acts within a page, at its end and on a later one, and after a crash before the commit. The definition in force says how many are too many,
// and an edit releases nothing.
func TestBrakeOfALargeAudience(t *testing.T) {
	t.Parallel()
	const people = store.MemberPage + 30
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo("[{everyone: true}]", twoGroups))
		w.many("p", people, func(int) string { return `"name": "P"` })
		crash := fanout.New(crashingChunks{s}, catalog.New(s, loader.Options{}), nil, nil)
		step := fanout.New(s, catalog.New(s, loader.Options{}), nil, nil)
		post := func(id string, most int) instance.Row {
			w.Apply(braked("[{everyone: true}]", fmt.Sprintf("max_recipients_per_run: %d", most)))
			w.run()
			w.Post(fmt.Sprintf(`{"id": %q, "kind": "news"}`, id))
			return w.occasion()
		}
		expand := func() {
			if _, err := step.Step(t.Context(), w.Clock.Now(), 10); err != nil {
				t.Fatal(err)
			}
		}
		for i, most := range []int{store.MemberPage - 1, store.MemberPage, store.MemberPage + 1, people - 1, people} {
			id := post(fmt.Sprint("n", i), most).ID
			if _, err := crash.Step(t.Context(), w.Clock.Now(), 10); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if in := w.occasion(); in.Held() || in.Recipients != 0 || in.ExpandCursor != 0 {
				t.Errorf("%d: after the crash %+v", most, in)
			}
			first := w.run()
			if in := w.occasion(); len(first) != most || in.Recipients != most || in.Held() != (most < people) {
				t.Errorf("%d: %d messages, %+v", most, len(first), in)
			}
			if most == people {
				continue
			}
			w.release(id)
			if in := w.occasion(); len(w.run()) != people-most || in.ID != id || w.occasion().Recipients != people {
				t.Errorf("%d: released, %+v", most, w.occasion())
			}
		}

		id := post("lowered", 10*people).ID
		expand()
		w.Apply(braked("[{everyone: true}]", fmt.Sprintf("max_recipients_per_run: %d", store.MemberPage+3)))
		w.run()
		if in := w.occasion(); in.ID != id || !in.Held() || in.Recipients != store.MemberPage+3 {
			t.Errorf("lowered between two pages: %+v", in)
		}
		w.Apply(braked("[{everyone: true}]", fmt.Sprintf("max_recipients_per_run: %d", people)))
		w.run()
		if in := w.occasion(); !in.Held() {
			t.Errorf("an edit has released it: %+v", in)
		}
		w.Apply(newsTo("[{everyone: true}]", twoGroups))
		w.run()
		if in := w.occasion(); !in.Held() {
			t.Errorf("an edit without a brake has released it: %+v", in)
		}
		w.release(id)
		w.run()
		if in := w.occasion(); in.Held() || in.Recipients != people || w.Provider.Repeats > 0 {
			t.Errorf("released: %+v", in)
		}

		id = post("lowered below", 10*people).ID
		expand()
		w.Apply(braked("[{everyone: true}]", "max_recipients_per_run: 10"))
		w.run()
		if in := w.occasion(); in.ID != id || !in.Held() || in.Recipients != store.MemberPage {
			t.Errorf("lowered below what it has taken up: %+v", in)
		}
	})
}

// What is held can be cancelled: nobody else gets it. Released during a pause it waits for that, and keeps its release. A repetition has its brake again.
func TestHeldByItsBrake(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, braked("[{everyone: true}]", "max_recipients_per_run: 2"), "ann", "bob", "cyd", "dan")
		w.Post(`{"id": "1", "kind": "news"}`)
		w.mustBe("two of four", w.run(), []string{"ann", "bob"})
		first := w.occasion()
		w.mustBe("the journal", w.happened(journal.Held), []string{"10:00 held too_many_recipients"})
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, first.ID, "ann", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.live("11:00")
		if in := w.occasion(); in.Status != instance.Cancelled || in.Held() || len(w.run()) > 0 {
			t.Errorf("cancelled: %+v", in)
		}

		w.Post(`{"id": "2", "kind": "news"}`)
		w.run()
		id := w.occasion().ID
		pause(w.Bundle, "news")
		w.release(id)
		w.run()
		if in := w.occasion(); in.Hold != instance.HoldPaused || in.UnbrakedAt.IsZero() {
			t.Errorf("released during a pause: %+v", in)
		}
		resume(w.Bundle, "news")
		w.mustBe("after the pause", w.run(), []string{"cyd", "dan"})

		again, err := w.Operator().RetryInstance(t.Context(), w.Workspace.ID, id, "ann", w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		w.mustBe("done again", w.run(), []string{"ann", "bob"})
		if in := w.Instance(again.NewInstance); in.Hold != instance.HoldMany || in.Recipients != 2 {
			t.Errorf("the repetition: %+v", in)
		}
	})
}

// An alert whose audience is too large is held as an occasion is. The message that it is over goes to all who got the alert.
func TestBrakeOfAnAlert(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, `
workflow: pump
type: alert
triggers: [{id: t, record: pump, when: record.running == false, cooldown: {length: 1h}}]
audience: [{everyone: true}]
channel: inbox
message: {inbox: {text: stopped}}
resolved: {inbox: {text: runs}}
limits: {max_recipients_per_run: 2}
---
channel: inbox
provider: inbox
---
persona: Manager
`, "ann", "bob", "cyd")
		w.put("pump/1", `{"running": false}`)
		w.mustBe("two of three", w.run(), []string{"ann", "bob"})
		in := w.occasion()
		if in.Hold != instance.HoldMany || in.Recipients != 2 {
			t.Fatalf("%+v", in)
		}
		w.release(in.ID)
		w.mustBe("the third", w.run(), []string{"cyd"})
		w.put("pump/1", `{"running": true}`)
		w.mustBe("it is over", w.run(), []string{"ann", "bob", "cyd"})
		if in := w.occasion(); in.Status != instance.Completed || in.Recipients != 3 {
			t.Errorf("%+v", in)
		}
	})
}

// The rows of zones of one occasion have one brake: what comes due later is held before its first person, and goes on once one row is released.
func TestBrakeOverZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.mother("nia", "Africa/Nairobi")
		w.mother("noa", "Africa/Nairobi")
		w.mother("ben", "Europe/Berlin")
		w.mother("bea", "Europe/Berlin")
		w.mother("yan", "America/New_York")
		w.Apply(zonesBroadcast("every: 1w, from: 2026-05-18", "limits: {max_recipients_per_run: 3}\n"))
		day := func(clock string) time.Time {
			at, err := time.Parse("2006-01-02 15:04", "2026-05-"+clock)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		held := func() (list []instance.Row) {
			rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(rows, func(a, b instance.Row) int { return a.HeldAt.Compare(b.HeldAt) })
			return rows
		}
		w.mustBe("two and one", w.follow(day("18 12:00")), []string{"18 07:00 nia", "18 07:00 noa", "18 08:00 ben"})
		rows := held()
		if len(rows) != 1 || rows[0].Hold != instance.HoldMany || rows[0].Recipients != 1 {
			t.Fatalf("held %+v", rows)
		}
		w.mustBe("New York is held, too", w.follow(day("18 15:00")), nil)
		rows = held()
		if len(rows) != 2 || rows[1].Hold != instance.HoldMany || rows[1].Recipients != 0 || rows[1].Event != 0 || rows[1].ExpandCursor != 0 {
			t.Fatalf("held %+v", rows)
		}
		refused := &operator.StateError{}
		if _, err := w.Operator().Release(t.Context(), w.Workspace.ID, rows[0].Head, "ann", w.Clock.Now()); !errors.As(err, &refused) || !strings.Contains(refused.Hint, rows[0].Key) || !strings.Contains(refused.Hint, rows[1].Key) {
			t.Errorf("the occasion is released: %v, %+v", err, refused)
		}
		w.release(rows[0].ID)
		w.mustBe("one row is released", w.follow(day("18 15:30")), []string{"18 15:00 bea"})
		w.release(rows[1].ID)
		w.mustBe("the other one", w.follow(day("18 16:00")), []string{"18 15:30 yan"})

		w.mustBe("the next occasion has its brake again", w.follow(day("25 12:00")), []string{"25 07:00 nia", "25 07:00 noa", "25 08:00 ben"})
		w.release(held()[0].ID)
		w.mustBe("released in time", w.follow(day("25 20:00")), []string{"25 12:00 bea", "25 14:00 yan"})
		if rows := held(); len(rows) > 0 {
			t.Errorf("held %+v", rows)
		}
	})
}

// An occasion of which a part has left is cancelled once; a second cancel changes nothing, and is no error.
func TestSmallOccasionCancelledTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(newsTo("[{everyone: true}]", twoGroups), "provider: inbox\n", "provider: inbox\nrate: 1/h\n", 1), "ann", "bob")
		w.Post(`{"id": "1", "kind": "news"}`)
		if got := w.run(); len(got) != 1 {
			t.Fatal(got)
		}
		id := w.occasion().ID
		for i, changed := range []bool{true, false, false} {
			r, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, id, "ann", w.Clock.Now())
			if err != nil || r.Changed != changed {
				t.Errorf("cancel %d: %+v, %v", i, r, err)
			}
		}
	})
}

// doorAlarm is a workflow that sends at most most messages in an hour.
func doorAlarm(most int) string {
	return fmt.Sprintf("workflow: alarm\ntype: notice\ntriggers: {id: t, event: alarm}\naudience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: x}}\n"+
		"retry: {backoff: [1m, 1m], jitter: none}\nlimits: {max_sends_per_hour: %d}\n---\nchannel: inbox\nprovider: inbox\n", most)
}

func (w world) alarms(from, to int) {
	w.Helper()
	var events []string
	for i := from; i <= to; i++ {
		events = append(events, fmt.Sprintf(`{"id": "a%d", "kind": "alarm", "recipient": {"address": "p%02d"}}`, i, i))
	}
	w.PostAll(events...)
}

// A workflow that would send more messages in an hour than it may is paused by itself, with the cause and the number. It stays so until a person resumes
// it, and then its count begins again.
func TestBrakeOfSends(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, doorAlarm(3))
		paused := func() store.Pause {
			t.Helper()
			pauses, err := s.Pauses(t.Context(), w.Workspace.ID)
			if err != nil || len(pauses) > 1 {
				t.Fatal(pauses, err)
			}
			if len(pauses) == 0 {
				return store.Pause{}
			}
			return pauses[0]
		}
		w.alarms(1, 2)
		w.mustBe("two", w.run(), []string{"p01", "p02"})
		w.live("10:30")
		w.alarms(3, 3)
		w.mustBe("as many as it may", w.run(), []string{"p03"})
		if p := paused(); p.Workflow != "" {
			t.Errorf("paused %+v", p)
		}
		w.Journal()
		w.alarms(4, 5)
		w.mustBe("one more", w.run(), nil)
		p := paused()
		if p.Workflow != "alarm" || p.Cause != reason.TooFast || p.Actor != store.Program || p.Why != "3 messages in the last hour, and max_sends_per_hour is 3" || p.Deliveries != 2 || !p.ResumedAt.IsZero() {
			t.Errorf("paused %+v", p)
		}
		if list := w.happened(journal.Held); len(list) != 3 || list[2] != "10:30 held too_fast" {
			t.Errorf("the journal: %q", list)
		}
		log, err := s.AuditLog(t.Context(), w.Workspace.ID, store.Page{Limit: 1})
		if err != nil || len(log) != 1 || log[0].Actor != "carillon" || log[0].Action != "pause" || log[0].Target != "alarm" || string(log[0].Detail) != `{"max_sends_per_hour":3,"reason":"too_fast","sends":3}` {
			t.Errorf("audit %+v, %v", log, err)
		}
		w.Apply(doorAlarm(100))
		w.live("13:00")
		w.mustBe("neither time nor an edit ends it", w.run(), nil)
		w.Apply(doorAlarm(3))

		resume(w.Bundle, "alarm")
		w.mustBe("resumed", w.run(), []string{"p04", "p05"})
		if p := paused(); p.Workflow != "" {
			t.Errorf("paused %+v", p)
		}
		w.alarms(6, 7)
		w.mustBe("the count has begun again", w.run(), []string{"p06"})
		if p := paused(); p.Cause != reason.TooFast {
			t.Errorf("paused %+v", p)
		}
		resume(w.Bundle, "alarm")
		w.mustBe("resumed again", w.run(), []string{"p07"})
		w.live("14:30")
		w.alarms(8, 10)
		w.mustBe("what is older does not count", w.run(), []string{"p08", "p09", "p10"})
		w.Clock.Set(at("13:30"))
		w.alarms(11, 11)
		w.mustBe("the clock is set back", w.run(), nil)
		if p := paused(); p.Cause != reason.TooFast {
			t.Errorf("paused %+v", p)
		}
		resume(w.Bundle, "alarm")
		w.live("14:40")
		w.run()

		w.live("17:00")
		pause(w.Bundle, "alarm")
		w.alarms(12, 12)
		w.run()
		if p := paused(); p.Cause != "" || p.Actor != "ann" {
			t.Errorf("paused by a person: %+v", p)
		}
		resume(w.Bundle, "alarm")
		w.run()
		w.live("19:00")
		w.Provider.Next(channel.Temporary(errors.New("busy")), channel.Temporary(errors.New("busy")))
		w.alarms(13, 13)
		w.live("19:05")
		w.mustBe("the third try of the first", w.run(), []string{"p13"})
		w.alarms(14, 14)
		if w.mustBe("each try counts", w.run(), nil); paused().Cause != reason.TooFast {
			t.Errorf("paused %+v", paused())
		}
	})
}

// Two processes together send no more than a workflow may, and pause it once.
func TestTwoProcessesShareTheBrake(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const most, all = 20, 60
		var config engine.Config
		w := world{enginetest.Setup(t, s, doorAlarm(most), func(c *engine.Config) {
			c.Concurrency = 4
			config = *c
		})}
		w.alarms(1, all)
		processes := []*engine.Engine{w.Engine}
		for range 2 {
			e, err := engine.New(config)
			if err != nil {
				t.Fatal(err)
			}
			processes = append(processes, e)
		}
		var wait sync.WaitGroup
		for _, e := range processes {
			wait.Go(func() {
				for {
					r, err := e.Tick(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if !r.Any() {
						return
					}
				}
			})
		}
		wait.Wait()
		if sent := w.run(); len(sent) != most {
			t.Errorf("%d messages", len(sent))
		}
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		parked := 0
		for _, d := range rows {
			if d.Parked() && d.Status == delivery.Scheduled && d.AttemptNo == 0 {
				parked++
			}
		}
		log, err := s.AuditLog(t.Context(), w.Workspace.ID, store.Page{})
		pauses := 0
		for _, a := range log {
			if a.Action == "pause" {
				pauses++
			}
		}
		if err != nil || parked != all-most || pauses != 1 {
			t.Errorf("%d are parked, %d audit entries: %v", parked, pauses, err)
		}
	})
}
