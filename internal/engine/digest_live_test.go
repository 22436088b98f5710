package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// digestLife is what happens to the digests of a workspace.
type digestLife struct {
	one   world       // by which people act
	tick  func() bool // has every process work once, and reports whether any had something to do
	at    func(now time.Time)
	dies  func(r *rapid.T) // lets some process die soon; nil: none does
	runs  bool             // runs change the subscriptions of all, and are undone
	many  bool             // there are three more people, and any are merged
	keeps func()           // deletes what is over; nil: nothing is. Then nothing says later what may have arrived
	start time.Time
}

// live plays random acts, and compares what people get with what they are owed.
func (l digestLife) live(r *rapid.T) digestModel {
	people, names := []string{"ann", "bob"}, []string{"tax", "visas"}
	m := digestModel{T: r, workspace: l.one.Workspace.Name, deletes: l.keeps != nil, frequency: map[string]string{}, owed: map[string][]string{}, received: map[string]time.Time{}, of: map[string][]string{}, may: map[string][]string{}, had: map[string]bool{}, told: map[string][]string{}}
	m.moved, m.since, m.changed, m.rested, m.begun, m.ended = map[string]string{}, map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}, map[string]int{}, map[string]int{}
	now := l.start
	if l.many {
		people = []string{"ann", "bob", "cid", "dan", "eve"}
	}
	var run job.Row
	pass := func(to time.Time) {
		for {
			l.at(now)
			for l.tick() {
			}
			m.sees(now, l.one.Provider.Sent())
			if l.keeps != nil {
				l.keeps()
			}
			next, err := l.one.NextDue(l.one.Context())
			if err != nil {
				r.Fatal(err)
			}
			if now.Equal(to) {
				return
			}
			if now = next; next.IsZero() || next.After(to) {
				now = to
			}
		}
	}
	for i := range rapid.IntRange(5, 25).Draw(r, "steps") {
		person, name := rapid.SampledFrom(people).Draw(r, "person"), rapid.SampledFrom(names).Draw(r, "topic")
		whats := 7
		switch {
		case l.many:
			whats = 12
		case l.runs:
			whats = 10
		}
		switch rapid.IntRange(0, whats).Draw(r, "what") {
		case 11, 12:
			if len(people) == 1 {
				break
			}
			pass(now.Add(time.Minute))
			other := rapid.SampledFrom(people).Draw(r, "into")
			if other != person {
				if _, err := l.one.Contacts().Merge(l.one.Context(), l.one.Workspace, contact.Merger{Contact: person, Into: other}, now, nil); err != nil {
					r.Fatal(err)
				}
				m.merge(now, person, other)
				people = slices.DeleteFunc(people, func(name string) bool { return name == person })
			}
			pass(now.Add(time.Minute))
		case 8, 9, 10:
			if !l.runs {
				break
			}
			pass(now.Add(time.Minute))
			undo := run.ID != 0 && rapid.Bool().Draw(r, "undo")
			if undo {
				l.one.undo(run)
				run = job.Row{}
			} else {
				of := rapid.SampledFrom([]topic.Bulk{
					{Action: topic.ActMigrate, Topics: []string{"tax"}, To: "visas"},
					{Action: topic.ActMigrate, Topics: []string{"visas"}, To: "tax"},
					{Action: topic.ActUnsubscribe, Topics: []string{"tax"}},
					{Action: topic.ActSubscribe, Topics: []string{"tax"}, To: "visas"},
				}).Draw(r, "run")
				run = l.one.begin(bulk.Request{Bulk: of}).Run
			}
			for l.tick() {
			}
			m.run(now, undo, l.one.followed())
			m.sees(now, l.one.Provider.Sent()) // what waited for a digest, if they follow it immediately now
			pass(now.Add(time.Minute))
		case 0:
			frequency := rapid.SampledFrom([]string{"immediate", "daily", "rare"}).Draw(r, "frequency")
			l.one.subscribe(person, name, frequency)
			m.follow(now, person+" "+name, frequency)
			pass(now)
		case 1:
			if rapid.IntRange(0, 2).Draw(r, "rarely") == 0 {
				l.one.subscribe(person, name, "")
				m.follow(now, person+" "+name, "")
			}
		case 2, 3:
			pass(now.Add(time.Minute)) // an item and a change of a subscription have instants of their own
			id, urgent := fmt.Sprintf("i%d", i), rapid.IntRange(0, 3).Draw(r, "urgent") == 0
			of := rapid.SampledFrom([][]string{{"tax"}, {"visas"}, {"tax", "visas"}, {}}).Draw(r, "of")
			arrived := now
			if l.dies != nil && rapid.Bool().Draw(r, "late") { // it is committed after others that arrived later
				arrived = now.Add(-30 * time.Second)
			}
			l.one.Clock.Set(arrived)
			l.one.publish(fmt.Sprintf(`{"id": %q, "urgent": %v, "tags": {"policy": ["%s"]}}`, id, urgent, strings.Join(of, `", "`)))
			l.one.Clock.Set(now)
			m.publish(id, of, arrived)
			for l.tick() {
			}
			m.sees(now, l.one.Provider.Sent())
			pass(now.Add(time.Second)) // so has what changes after it
		case 4:
			for range 2 {
				refusals := []error{channel.Permanent(errors.New("no")), channel.Temporary(errors.New("not now")), channel.Lost(errors.New("no answer"))}
				if l.keeps != nil {
					refusals = refusals[:2]
				}
				l.one.Provider.Next(rapid.SampledFrom(refusals).Draw(r, "refusal"))
			}
		case 5:
			if l.dies != nil {
				l.dies(r)
			}
		default:
			most := 30
			if l.keeps != nil && rapid.IntRange(0, 3).Draw(r, "long") == 0 {
				most = 30 * 24
			}
			pass(now.Add(time.Duration(rapid.IntRange(1, most).Draw(r, "hours")) * time.Hour))
		}
	}
	l.one.Provider.Recover()
	pass(now.Add(5 * 24 * time.Hour))
	maybe := l.one.maybeTold()
	for who, items := range m.owed {
		person, _, _ := strings.Cut(who, " ")
		items = slices.DeleteFunc(items, func(id string) bool { return maybe[who+" "+id] || maybe[person+" * "+id] })
		if m.frequency[who] != "immediate" && len(items) > 0 {
			r.Fatalf("%s was never told %q", who, items)
		}
	}
	return m
}

// maybeTold returns the items, by person and topic, of the messages that may have arrived: their process died with the message in flight, and the next try
// was refused for good. A message about one item is of any topic, which is written as an asterisk.
func (w world) maybeTold() map[string]bool {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{Reason: reason.EarlierUnknown}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	items := map[string]bool{}
	if err := w.Store.Read(w.Context(), func(tx *store.Tx) error {
		for _, row := range rows {
			digests, err := tx.Digests([]store.DeliveryRef{{Workspace: w.Workspace.ID, ID: row.ID}})
			if err != nil {
				return err
			}
			told := map[subject.EventID][]string{row.Event: {"*"}} // an item, or the occasion of a digest
			topics, err := tx.TopicsByID(w.Workspace.ID, digests[row.ID].Contents.Topics())
			if err != nil {
				return err
			}
			for _, section := range digests[row.ID].Contents.Sections {
				for _, id := range section.Items {
					told[id] = append(told[id], topics[section.Topic].Name)
				}
			}
			for id, of := range told {
				events, err := tx.EventsByID([]store.EventRef{{Workspace: w.Workspace.ID, ID: id}})
				if err != nil {
					return err
				}
				for _, ev := range events {
					for _, name := range of {
						items[fmt.Sprint(row.Address, " ", name, " ", ev.Payload["id"])] = true
					}
				}
			}
		}
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	return items
}

// A digest that was in flight when its process died may have arrived. If the next try is refused for good, its outcome stays unknown, and its items do not
// come again.
//
// Shows: E17.
func TestDigestThatMayHaveArrived(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one := newWorld(t, s, digestsOfTopics, "ann")
		st := &storm{t: t, s: s, provider: one.Provider}
		st.all = []*mortalProcess{st.begin()}
		st.all[0].Workspace = one.Workspace
		one.subscribe("ann", "tax", "daily")
		one.publish(tagged("1", "tax"))
		until := func(end time.Time) (told []string) {
			for _, now := range []time.Time{end.Add(-time.Minute), end, end.Add(time.Minute)} {
				one.Clock.Set(now)
				st.all[0].Clock.Set(now)
				for st.tick() {
				}
			}
			for _, m := range one.Provider.Sent() {
				told = append(told, m.Text)
			}
			return told
		}
		until(dayAt(1, "08:00"))
		point := sender.AfterIntent
		st.all[0].dies.Store(&point)
		one.Provider.Next(channel.Permanent(errors.New("no")))
		one.mustBe("the first run", until(dayAt(1, "08:30")), nil)
		if maybe := one.maybeTold(); !maybe["ann tax 1"] || st.deaths != 1 {
			t.Errorf("after %d deaths may have arrived: %v", st.deaths, maybe)
		}
		one.publish(tagged("2", "tax"))
		one.mustBe("the next run", until(dayAt(2, "08:30")), []string{"daily tax:2,"})
	})
}

// People change what they follow, items arrive, messages are refused or their answers are lost, and two processes work in turns: each item reaches each
// person of a topic once, by one way, and no digest is empty or has items from after its window.
//
// Shows: E17, R21, R22.
func TestDigestsLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one, two := newWorld(t, s, ""), newWorld(t, s, "")
		two.Provider = one.Provider // it knows the messages of both
		lives, enough := 0, storetest.MoreLives(100)
		rapid.Check(t, func(r *rapid.T) {
			if enough() {
				return
			}
			lives++
			start := at("10:00")
			one.Clock.Set(start)
			one.Workspace = one.another(fmt.Sprintf("digests-%d", lives), digestsOfTopics, "ann", "bob")
			two.Workspace = one.Workspace
			turn := []world{one, two}
			digestLife{
				one: one, start: start, at: func(now time.Time) { one.Clock.Set(now); two.Clock.Set(now) },
				tick: func() bool {
					did := turn[0].tick() || turn[1].tick()
					slices.Reverse(turn)
					return did
				},
			}.live(r)
		})
	})
}

// Runs change the subscriptions of all while people change theirs and items arrive, and are undone: what was published before a run reaches each person
// once, and nothing does twice.
//
// Shows: R22.
func TestRunsOverSubscribersLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one, two := newWorld(t, s, ""), newWorld(t, s, "")
		two.Provider = one.Provider
		lives, enough := 0, storetest.MoreLives(24)
		rapid.Check(t, func(r *rapid.T) {
			if enough() {
				return
			}
			lives++
			start := at("10:00")
			one.Clock.Set(start)
			one.Workspace = one.another(fmt.Sprintf("runs-%d", lives), digestsOfTopics, "ann", "bob")
			two.Workspace = one.Workspace
			turn := []world{one, two}
			digestLife{
				one: one, start: start, runs: true, at: func(now time.Time) { one.Clock.Set(now); two.Clock.Set(now) },
				tick: func() bool {
					did := turn[0].tick() || turn[1].tick()
					slices.Reverse(turn)
					return did
				},
			}.live(r)
		})
	})
}

// People turn out to be others of them while they change what they follow and items arrive: the more frequent subscription goes on, and what was published
// before reaches each person once.
//
// Shows: R20, R22.
func TestMergesOfSubscribersLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one, two := newWorld(t, s, ""), newWorld(t, s, "")
		two.Provider = one.Provider
		lives, enough := 0, storetest.MoreLives(24)
		rapid.Check(t, func(r *rapid.T) {
			if enough() {
				return
			}
			lives++
			runs := rapid.Bool().Draw(r, "runs")
			start := at("10:00")
			one.Clock.Set(start)
			one.Workspace = one.another(fmt.Sprintf("merges-%d", lives), digestsOfTopics, "ann", "bob", "cid", "dan", "eve")
			two.Workspace = one.Workspace
			turn := []world{one, two}
			digestLife{
				one: one, start: start, many: true, runs: runs, at: func(now time.Time) { one.Clock.Set(now); two.Clock.Set(now) },
				tick: func() bool {
					did := turn[0].tick() || turn[1].tick()
					slices.Reverse(turn)
					return did
				},
			}.live(r)
		})
	})
}

// storm is several processes that work at once. People act by the first one; the others may die, and each is followed by another one.
type storm struct {
	t        *testing.T
	s        *store.Store
	provider *enginetest.Provider
	all      []*mortalProcess
	deaths   int
}

type mortalProcess struct {
	world
	dies atomic.Pointer[string] // at this failpoint; nil: it lives
}

func (st *storm) begin() *mortalProcess {
	p := &mortalProcess{}
	p.world = world{enginetest.Setup(st.t, st.s, "", func(c *engine.Config) {
		c.Concurrency = 0
		c.Failpoint = func(point string) error {
			if at := p.dies.Load(); at != nil && *at == point {
				return errDied
			}
			return nil
		}
		for i := range c.Providers {
			c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return st.provider, nil }
		}
	})}
	p.Provider = st.provider
	return p
}

// tick has all processes work at once.
func (st *storm) tick() bool {
	var did atomic.Bool
	var wait sync.WaitGroup
	failed := make([]error, len(st.all))
	for i, p := range st.all {
		wait.Go(func() {
			var result engine.TickResult
			if result, failed[i] = p.Tick(p.Context()); failed[i] != nil || result.Any() {
				did.Store(true)
			}
		})
	}
	wait.Wait()
	for i, err := range failed {
		switch p := st.all[i]; {
		case errors.Is(err, errDied):
			next := st.begin()
			next.Workspace = p.Workspace
			next.Clock.Set(p.Clock.Now())
			st.all[i] = next
			st.deaths++
		case err != nil:
			st.t.Fatal(err)
		}
	}
	return did.Load()
}

// The same with eight processes that begin the runs at the same time, some of which die in the middle, and with items that are committed late.
//
// Shows: E10, E17, R21.
func TestDigestsInAStorm(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one := newWorld(t, s, "")
		st := &storm{t: t, s: s, provider: one.Provider, all: []*mortalProcess{{world: one}}}
		for range 7 {
			st.all = append(st.all, st.begin())
		}
		lives, enough := 0, storetest.MoreLives(24)
		rapid.Check(t, func(r *rapid.T) {
			if enough() && st.deaths > 0 { // a few lives more where chance withheld one
				return
			}
			lives++
			start := at("10:00")
			one.Clock.Set(start)
			one.Workspace = one.another(fmt.Sprintf("storm-%d", lives), digestsOfTopics, "ann", "bob")
			st.all[0].world = one
			for _, p := range st.all {
				p.Workspace = one.Workspace
				p.dies.Store(nil)
			}
			digestLife{
				one: one, start: start, tick: st.tick,
				at: func(now time.Time) {
					for _, p := range st.all {
						p.Clock.Set(now)
					}
				},
				dies: func(r *rapid.T) {
					point := rapid.SampledFrom([]string{
						fanout.BeforeCommit, fanout.AfterChunk, sender.BeforeIntent, sender.Claimed, sender.AfterIntent, sender.BeforeResult,
					}).Draw(r, "where")
					st.all[rapid.IntRange(1, len(st.all)-1).Draw(r, "who")].dies.Store(&point)
				},
			}.live(r)
		})
		t.Logf("%d lives, %d deaths", lives, st.deaths)
		if st.deaths == 0 {
			t.Error("no process died")
		}
	})
}
