package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// digestsOfTopics tells items at once, every day, or every second day.
const digestsOfTopics = `
workflow: news
type: digest
triggers:
  - id: urgent
    event: item.published
    when: item.urgent
    audience: {topics: matched}
    message: {inbox: {text: "urgent {{ item.id }}"}}
  - id: immediate
    event: item.published
    audience: {topics: matched, frequency: immediate}
    message: {inbox: {text: "at once {{ item.id }}"}}
  - id: daily
    schedule: {every: 1d, at: "08:30", period: 1d, period_end: "08:00"}
    audience: {topics: all, frequency: daily}
  - id: rare
    schedule: {every: 2d, from: 2026-05-14, at: "20:00", period: 2d, period_end: "18:00"}
    audience: {topics: all, frequency: rare}
digest: {duplicates: each}
channel: inbox
message: {inbox: {text: "{{ trigger.id }}{% for s in digest.sections %} {{ s.topic.name }}:{% for i in s.items %}{{ i.id }},{% endfor %}{% endfor %}"}}
retry: {backoff: [1m], jitter: none}
---
channel: inbox
provider: inbox
---
topic: tax
match: [{tags: {policy: {any: [tax]}}}]
---
topic: visas
match: [{tags: {policy: {any: [visas]}}}]
---
persona: Manager
`

// until lets the engine live up to an instant.
func (w world) until(end time.Time) {
	w.Helper()
	for range 10_000 {
		for w.tick() {
		}
		next, err := w.NextDue(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			w.Clock.Set(end)
			for w.tick() {
			}
			return
		}
		w.Clock.Set(next)
	}
	w.Fatal("there is no end to it")
}

// dayAt is an instant of a day, 0 being that of at.
func dayAt(n int, clock string) time.Time { return at(clock).AddDate(0, 0, n) }

func tagged(id string, tags ...string) string {
	return fmt.Sprintf(`{"id": %q, "tags": {"policy": ["%s"]}}`, id, strings.Join(tags, `", "`))
}

// Shows: E1, E2, E4, E9, E15, E18, R21, R22.
func TestDigests(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "bob", "cyd", "dan")
		for _, of := range []string{"ann tax daily", "ann visas daily", "bob tax immediate", "cyd visas daily", "dan tax rare"} {
			p := strings.Fields(of)
			w.subscribe(p[0], p[1], p[2])
		}
		w.publish(tagged("1", "tax", "visas"))
		w.publish(tagged("2", "tax"))
		w.mustBe("at once", w.told(), []string{"bob at once 1", "bob at once 2"})
		w.until(dayAt(0, "12:00"))
		w.subscribe("cyd", "visas", "")
		w.subscribe("bob", "tax", "daily")
		w.publish(`{"id": "3", "urgent": true, "tags": {"policy": "tax"}}`)
		w.mustBe("urgent", w.told(), []string{"ann urgent 3", "bob urgent 3", "dan urgent 3"})
		w.until(dayAt(0, "20:00"))
		w.mustBe("rare", w.told(), []string{"dan rare tax:1,2,"})
		w.publish(tagged("4", "tax"))
		w.until(dayAt(1, "08:00"))
		w.publish(tagged("5", "tax"))
		w.until(dayAt(1, "08:30"))
		w.mustBe("daily", w.told(), []string{"ann daily tax:1,2,4, visas:1,", "bob daily tax:4,"})
		w.subscribe("ann", "tax", "rare")
		w.until(dayAt(2, "08:30"))
		w.mustBe("the next day", w.told(), []string{"bob daily tax:5,"})
		w.until(dayAt(2, "20:00"))
		w.mustBe("what no daily message had", w.told(), []string{"ann rare tax:5,", "dan rare tax:4,5,"})
		w.until(dayAt(9, "21:00"))
		w.mustBe("nothing is empty", w.told(), nil)
		runs, err := s.DigestRuns(t.Context(), w.Workspace.ID, store.Page{Limit: 100})
		if err != nil || len(runs) != 15 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		for _, r := range runs {
			if r.Status() != store.RunDone || r.OverAt.Before(r.ExpandedAt) {
				t.Errorf("run %+v is %s", r, r.Status())
			}
			if got := r.Window.End.Sub(r.Window.From); got != map[string]time.Duration{"daily": 24 * time.Hour, "rare": 48 * time.Hour}[r.Trigger] {
				t.Errorf("run %+v has a window of %s", r, got)
			}
		}
	})
}

// Who begins to get each item at once gets the rest at once, as one digest of that topic, and nothing of it again.
//
// Shows: R22.
func TestTheRestOfADigest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "bob")
		for _, of := range []string{"ann tax rare", "ann visas rare", "bob tax rare"} {
			p := strings.Fields(of)
			w.subscribe(p[0], p[1], p[2])
		}
		w.mustBe("nothing to tell", []string{w.subscribe("ann", "tax", "daily"), w.subscribe("ann", "tax", "immediate"), w.subscribe("ann", "tax", "rare")}, []string{"changed", "changed", "changed"})
		w.publish(tagged("1", "tax"))
		w.publish(tagged("2", "visas"))
		w.publish(tagged("3", "tax", "visas"))
		w.told()
		w.until(dayAt(0, "12:00"))
		w.subscribe("ann", "tax", "immediate")
		w.mustBe("the rest", w.told(), []string{"ann rare tax:1,3,"})
		w.publish(tagged("4", "tax"))
		w.mustBe("from then on", w.told(), []string{"ann at once 4"})
		w.until(dayAt(0, "13:00"))
		w.subscribe("ann", "tax", "rare")
		w.until(dayAt(0, "21:00"))
		w.mustBe("nothing twice", w.told(), []string{"ann rare visas:2,3,", "bob rare tax:1,3,4,"})

		w.publish(tagged("5", "tax"))
		w.told()
		w.Provider.Next(channel.Permanent(errors.New("no")))
		w.until(dayAt(1, "10:00"))
		w.subscribe("ann", "tax", "immediate")
		w.mustBe("the rest fails", w.told(), nil)
		w.until(dayAt(1, "11:00"))
		w.subscribe("ann", "tax", "rare")
		w.until(dayAt(2, "21:00"))
		w.mustBe("and comes with the next digest", w.told(), []string{"ann rare tax:5,", "bob rare tax:5,"})

		w.publish(tagged("6", "tax"))
		w.told()
		w.until(dayAt(3, "10:00"))
		w.subscribe("ann", "tax", "immediate")
		w.subscribe("ann", "tax", "")
		w.mustBe("who has left meanwhile gets no rest", w.told(), nil)
	})
}

// A message that is not sent is covered by nothing: the next digest has its items. One that may have arrived is.
//
// Shows: R21.
func TestDigestsThatFail(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann")
		w.subscribe("ann", "tax", "daily")
		w.publish(tagged("1", "tax"))
		w.until(dayAt(1, "08:29"))
		w.Provider.Next(channel.Permanent(errors.New("no")))
		w.until(dayAt(1, "09:00"))
		w.mustBe("refused", w.told(), nil)
		w.publish(tagged("2", "tax"))
		w.until(dayAt(2, "08:29"))
		w.Provider.Next(channel.Temporary(errors.New("not now")))
		w.until(dayAt(2, "08:30"))
		w.mustBe("refused for now", w.told(), nil)
		w.publish(tagged("3", "tax"))
		w.until(dayAt(2, "09:00"))
		w.mustBe("the next try has the same items", w.told(), []string{"ann daily tax:1,2,"})
		w.until(dayAt(3, "08:29"))
		w.Provider.Next(channel.Temporary(errors.New("not now")))
		w.until(dayAt(3, "08:30"))
		w.subscribe("ann", "tax", "")
		w.until(dayAt(3, "09:00"))
		w.mustBe("unsubscribed before the next try", w.told(), nil)
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1})
		if err != nil || len(rows) != 1 || rows[0].Reason != reason.Unsubscribed {
			t.Errorf("%+v %v", rows, err)
		}
		w.subscribe("ann", "tax", "daily")
		w.until(dayAt(4, "09:00"))
		w.mustBe("what came before the new subscription", w.told(), nil)
		w.publish(tagged("4", "tax"))
		w.until(dayAt(5, "08:29"))
		w.Provider.Next(channel.Temporary(errors.New("not now")))
		w.until(dayAt(5, "08:30"))
		w.subscribe("ann", "tax", "")
		w.subscribe("ann", "tax", "daily")
		w.until(dayAt(5, "09:00"))
		w.mustBe("who leaves and comes back before the next try", w.told(), nil)
	})
}

// A run that was missed: the next one has its items (merge), nobody gets them (skip), or it comes late (send).
//
// Shows: R21.
func TestMissedRunsOfDigests(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for how, want := range map[string][]string{
			"merge": {"ann daily tax:1,2,3,"},
			"skip":  {"ann daily tax:3,"},
			"send":  {"ann daily tax:1,", "ann daily tax:2,", "ann daily tax:3,"},
		} {
			w := newWorld(t, s, "")
			w.Workspace = w.another("missed-"+how, strings.Replace(digestsOfTopics, "digest: {", "digest: {catch_up: "+how+", ", 1), "ann")
			w.subscribe("ann", "tax", "daily")
			for i := range 3 {
				w.Clock.Set(dayAt(i, "12:00"))
				w.publish(tagged(fmt.Sprint(i+1), "tax"))
			}
			w.Clock.Set(dayAt(3, "08:30")) // nothing has run since the first item
			w.mustBe(how, w.told(), want)
			if _, err := w.Operator().RetryForAll(t.Context(), w.Workspace.ID, w.keyed("digest:news:daily:2026-05-17"), "eve", w.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			w.mustBe(how+", again", w.told(), want[len(want)-1:])
		}
	})
}

// A digest whose channel is missing expires, and its run is over in the same pass: runs are read again after an expiry, not a minute later.
//
// Shows: R21.
func TestARunIsOverWhenItsMessagesExpire(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(strings.Replace(digestsOfTopics, "channel: inbox\nmessage", "channel: inbox:none\nmessage", 1), "every: 1d,", "every: 90d, from: 2026-05-15,", 1), "ann")
		w.subscribe("ann", "tax", "daily")
		w.publish(tagged("1", "tax"))
		w.until(dayAt(1, "09:00"))
		row := w.rows()[0]
		if row.Reason != reason.NoChannel || row.ExpiresAt.IsZero() {
			t.Fatalf("%+v", row)
		}
		end := row.ExpiresAt.Add(time.Microsecond)
		w.until(end.Add(-30 * time.Second)) // the last time that the runs are read before
		w.until(end)
		run, err := s.DigestRun(t.Context(), w.Workspace.ID, row.Instance)
		if err != nil || !run.OverAt.Equal(end) {
			t.Errorf("the run is over at %s, want %s: %v", run.OverAt, end, err)
		}
	})
}

// One message for each topic of a person, each with its own key; a message about a topic that they have left does not leave.
//
// Shows: E1, E11, E13.
func TestDigestsOfOneTopic(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(digestsOfTopics, "digest: {duplicates: each}", "digest: {bundle: subscription}", 1), "ann")
		w.subscribe("ann", "tax", "daily")
		w.subscribe("ann", "visas", "daily")
		w.publish(tagged("1", "tax", "visas"))
		w.publish(tagged("2", "visas"))
		w.until(dayAt(1, "08:30"))
		w.mustBe("one each", w.told(), []string{"ann daily tax:1,", "ann daily visas:1,2,"})
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, d := range rows {
			keys = append(keys, d.Key)
		}
		slices.Sort(keys)
		w.mustBe("keys", keys, []string{"digest:news:daily:2026-05-15|ann|tax|inbox:default", "digest:news:daily:2026-05-15|ann|visas|inbox:default"})

		w.publish(tagged("3", "tax", "visas"))
		w.until(dayAt(2, "08:29"))
		w.Provider.Next(channel.Temporary(errors.New("not now")), channel.Temporary(errors.New("not now")))
		w.until(dayAt(2, "08:30"))
		w.subscribe("ann", "tax", "")
		w.until(dayAt(2, "09:00"))
		w.mustBe("of the other topic", w.told(), []string{"ann daily visas:3,"})
	})
}

// A run waits until each item that arrived before its window's end was held against the topics. Two processes that begin a run together make one.
//
// Shows: E10, R21.
func TestRunsOfDigestsWaitForTopics(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann")
		w.subscribe("ann", "tax", "daily")
		w.until(dayAt(1, "07:59"))
		w.publish(tagged("1", "tax"))
		w.Clock.Set(dayAt(1, "08:30"))
		// Before the topics of the item are found.
		if n, err := fanout.New(s, catalog.New(s, loader.Options{}), nil, nil).Step(t.Context(), w.Clock.Now(), 10); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if runs, err := s.DigestRuns(t.Context(), w.Workspace.ID, store.Page{Limit: 9}); err != nil || len(runs) != 2 { // those of the day before
			t.Fatalf("%+v %v", runs, err)
		}
		w.until(dayAt(1, "08:31"))
		w.mustBe("with the item", w.told(), []string{"ann daily tax:1,"})
	})
}

// A digest that waits for its next try keeps its items: a later one of the same person does not have them. If it is given up, the next one has.
//
// Shows: R21.
func TestDigestsThatOverlap(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(digestsOfTopics, "backoff: [1m]", "backoff: [25h]", 1), "ann")
		w.subscribe("ann", "tax", "daily")
		w.publish(tagged("1", "tax"))
		w.until(dayAt(1, "08:29"))
		w.Provider.Next(channel.Temporary(errors.New("not now")))
		w.until(dayAt(1, "12:00"))
		w.mustBe("refused", w.told(), nil)
		w.publish(tagged("2", "tax"))
		w.until(dayAt(2, "08:30"))
		w.mustBe("meanwhile", w.told(), []string{"ann daily tax:2,"})
		w.Provider.Next(channel.Permanent(errors.New("no")))
		w.until(dayAt(2, "12:00"))
		w.mustBe("given up", w.told(), nil)
		w.publish(tagged("3", "tax"))
		w.until(dayAt(3, "08:30"))
		w.mustBe("with what was given up", w.told(), []string{"ann daily tax:1,3,"})
	})
}
