package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

func (w world) merge(id, into string) {
	w.Helper()
	if _, err := w.Contacts().Merge(w.Context(), w.Workspace, contact.Merger{Contact: id, Into: into}, w.Clock.Now(), nil); err != nil {
		w.Fatal(err)
	}
}

// What waits for a digest of one of two people who turn out to be one still comes, although the other one began later and is covered further.
//
// Shows: R20, R22.
func TestMergeWithOneWhoBeganLater(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for _, into := range []string{"ann", "eve"} {
			w := newWorld(t, s, "")
			w.Clock.Set(at("10:00"))
			w.Workspace = w.another("later-"+into, digestsOfTopics, "ann", "eve")
			w.subscribe("ann", "tax", "daily")
			minute := func() { w.until(w.Clock.Now().Add(time.Minute)) }
			minute()
			w.publish(tagged("1", "tax"))
			minute()
			w.subscribe("eve", "tax", "daily")
			minute()
			w.publish(tagged("2", "tax"))
			minute()
			w.merge(map[string]string{"ann": "eve", "eve": "ann"}[into], into)
			w.until(dayAt(2, "20:00"))
			w.mustBe(into, w.texts(), []string{"20:00 daily tax:1,2,"})
		}
	})
}

// What was published for somebody before a run ended their subscription, and waits for a digest, still comes when they turn out to be somebody else, too: who has
// followed the topic since, or whose subscription the run has ended as well. What was published between is for neither.
//
// Shows: R20, R22.
func TestMergeOfWhoWasMoved(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for i, c := range []struct {
			eve, since  string // how often she follows the topic, and since when
			then, later string // what comes when the two are merged, and after that
		}{
			{"daily", "13:30", "", "daily tax:1,3,"},
			{"rare", "13:30", "", "rare tax:1,3,"},
			{"immediate", "13:30", "daily tax:1,", ""},
			{"daily", "12:30", "", "daily tax:1,"},
			{"", "12:30", "", "daily tax:1,"},
		} {
			for _, into := range []string{"ann", "eve"} {
				w := newWorld(t, s, "")
				w.Clock.Set(at("10:00"))
				w.Workspace = w.another(fmt.Sprint("moved-", i, "-", into), digestsOfTopics, "ann", "eve")
				follow := func(now string) {
					w.until(at(now))
					if now == c.since && c.eve != "" {
						w.subscribe("eve", "tax", c.eve)
					}
				}
				w.subscribe("ann", "tax", "daily")
				w.until(at("12:00"))
				w.publish(tagged("1", "tax"))
				follow("12:30")
				w.until(at("13:00"))
				w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}}})
				w.until(at("13:15"))
				w.publish(tagged("2", "tax"))
				follow("13:30")
				w.until(at("14:00"))
				w.publish(tagged("3", "tax"))
				w.until(at("14:30"))
				w.told()
				w.until(at("15:00"))
				w.merge(map[string]string{"ann": "eve", "eve": "ann"}[into], into)
				then := strings.Join(w.told(), "; ")
				w.until(dayAt(2, "20:00"))
				if later := strings.Join(w.told(), "; "); strings.TrimPrefix(then, into+" ") != c.then || strings.TrimPrefix(later, into+" ") != c.later {
					t.Errorf("%q since %s, into %s: %q, and later %q", c.eve, c.since, into, then, later)
				}
			}
		}
	})
}

// What one of two people got at once before a run ended their subscription does not come again by the digest of the other one.
//
// Shows: R20, R22.
func TestMergeOfWhoGotItBeforeARun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for _, only := range []string{"", "eve"} { // who follows the topic again
			for _, into := range []string{"ann", "eve"} {
				w := newWorld(t, s, "")
				w.Clock.Set(at("10:00"))
				w.Workspace = w.another("got-"+only+"-"+into, digestsOfTopics, "ann", "eve")
				w.subscribe("ann", "tax", "immediate")
				w.subscribe("eve", "tax", "rare")
				w.until(at("10:01"))
				w.publish(tagged("1", "tax"))
				w.mustBe("at once", w.told(), []string{"ann at once 1"})
				w.until(at("10:02"))
				w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}}})
				w.until(at("10:03"))
				if only != "" {
					w.subscribe(only, "tax", "rare")
				}
				w.until(at("10:04"))
				w.merge(map[string]string{"ann": "eve", "eve": "ann"}[into], into)
				w.until(dayAt(3, "20:00"))
				w.mustBe(only+" into "+into, w.told(), nil)
			}
		}
	})
}

// The undo of a run gives nothing to who has been merged, but to their survivor, unless these follow the topic themselves.
//
// Shows: R20.
func TestUndoAfterAMerge(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "bob", "cyd", "dan")
		w.subscribe("ann", "tax", "daily")
		w.subscribe("bob", "tax", "daily")
		w.until(at("12:00"))
		run := w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}}}).Run
		w.until(at("12:01"))
		w.subscribe("cyd", "tax", "rare")
		w.until(at("12:02"))
		w.merge("ann", "cyd")
		w.merge("bob", "dan")
		w.until(at("12:03"))
		w.undo(run)
		w.until(at("12:04"))
		w.mustBe("undone", w.followed(), []string{"cyd tax rare", "dan tax daily"})
	})
}

// What waited for a digest of both, and left at once when one of them chose to get each item at once, does not come again.
//
// Shows: R20, R22.
func TestMergeWithOneWhoGotTheRest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for i, into := range []string{"ann", "eve", "ann", "eve"} {
			w := newWorld(t, s, "")
			w.Clock.Set(at("10:00"))
			w.Workspace = w.another(fmt.Sprint("rest-", i), digestsOfTopics, "ann", "eve")
			w.subscribe("ann", "tax", "daily")
			w.until(at("10:01"))
			w.publish(tagged("1", "tax"))
			w.until(at("10:02"))
			w.subscribe("eve", "tax", "daily")
			w.until(at("10:03"))
			w.publish(tagged("2", "tax"))
			w.until(at("10:04"))
			w.subscribe("eve", "tax", "immediate")
			w.mustBe("chosen", w.told(), []string{"eve daily tax:2,"})
			w.until(at("10:05"))
			if i > 1 { // a run ends both
				w.begin(ending())
				w.until(at("10:06"))
			}
			w.merge(map[string]string{"ann": "eve", "eve": "ann"}[into], into)
			got := w.told()
			w.until(dayAt(2, "20:00"))
			w.mustBe("merged, and later", append(got, w.told()...), []string{into + " daily tax:1,"})
		}
	})
}

// A message that one of two people got counts for the survivor, also if theirs of the same occasion was refused.
//
// Shows: R20, R22.
func TestMergeOfWhoGotIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "dan", "cid")
		w.subscribe("dan", "tax", "immediate")
		w.subscribe("cid", "visas", "rare")
		w.until(w.Clock.Now().Add(time.Minute))
		w.Provider.Next(channel.Permanent(errors.New("no"))) // for dan, who was written first
		w.publish(`{"id": "1", "urgent": true, "tags": {"policy": ["tax", "visas"]}}`)
		w.mustBe("at once", w.told(), []string{"cid urgent 1"})
		w.until(w.Clock.Now().Add(time.Minute))
		w.merge("cid", "dan")
		w.until(dayAt(3, "21:00"))
		w.mustBe("afterwards", w.told(), nil)
	})
}

// A digest that waits to be tried again when its person turns out to be somebody else reaches the survivor, once.
//
// Shows: R20, R22.
func TestMergeWhileADigestWaits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(digestsOfTopics, "backoff: [1m]", "backoff: [30h]", 1), "ann", "eve")
		w.subscribe("ann", "tax", "daily")
		w.subscribe("eve", "tax", "rare")
		w.until(dayAt(0, "19:00"))
		w.publish(tagged("1", "tax"))
		w.until(dayAt(1, "08:29"))
		w.Provider.Next(channel.Temporary(errors.New("busy")))
		w.until(dayAt(1, "08:30"))
		w.mustBe("refused", w.told(), nil)
		w.merge("ann", "eve")
		w.until(dayAt(2, "09:00"))
		w.mustBe("the next digest, before it is tried again", w.told(), nil)
		w.until(dayAt(4, "21:00"))
		w.mustBe("afterwards", w.told(), []string{"eve daily tax:1,"})
	})
}

// An item that is not for a contact is not for the contact into which it is merged either, nor is one that names the merged id later.
//
// Shows: R20.
func TestMergeOfWhoIsExcepted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "eve", "fay")
		w.subscribe("ann", "tax", "daily")
		w.subscribe("fay", "tax", "immediate")
		w.until(w.Clock.Now().Add(time.Minute))
		w.publish(`{"id": "1", "tags": {"policy": "tax"}, "except": ["ann", "fay"]}`)
		w.until(w.Clock.Now().Add(time.Minute))
		w.merge("ann", "eve")
		w.until(w.Clock.Now().Add(time.Minute))
		w.publish(`{"id": "2", "tags": {"policy": "tax"}, "except": ["ann", "fay"]}`)
		w.until(dayAt(2, "21:00"))
		w.mustBe("a digest", w.told(), nil)
		w.subscribe("eve", "tax", "immediate")
		w.until(w.Clock.Now().Add(time.Minute))
		w.publish(`{"id": "3", "tags": {"policy": "tax"}, "except": ["ann", "fay"]}`)
		w.until(dayAt(3, "21:00"))
		w.mustBe("at once", w.told(), nil)
	})
}

// A record that names a merged contact follows the survivor's zone, and its messages go to the survivor.
//
// Shows: R15, R20.
func TestMergeMovesRecords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, ofPatients("[contact.timezone, Asia/Tokyo]"))
		w.Clock.Set(on(14, 0, 0))
		w.mother("amina", "Africa/Nairobi")
		w.mother("berta", "Europe/Berlin")
		w.put("paper/1", `{"date": "2026-05-16", "wanted": true, "patient": "amina"}`)
		w.follow(on(14, 1, 0))
		w.mustBe("before", w.zonesOf(), []string{"1 Africa/Nairobi"})
		w.merge("amina", "berta")
		w.follow(on(14, 2, 0))
		w.mustBe("merged", w.zonesOf(), []string{"1 Europe/Berlin"})
		w.mother("berta", "America/New_York")
		w.follow(on(14, 3, 0))
		w.mustBe("the survivor moves", w.zonesOf(), []string{"1 America/New_York"})
		w.mustBe("what leaves", w.follow(on(17, 0, 0)), []string{"16 13:00 berta"})
	})
}
