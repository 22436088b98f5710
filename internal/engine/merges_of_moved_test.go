package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

// The tests of this file merge contacts whose subscriptions a run has changed, each way round.

// ending is a run that ends the subscriptions to a topic of all but some.
func ending(except ...string) bulk.Request {
	return bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}, Except: except}}
}

// toTax is a run that moves people from another topic.
var toTax = bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: []string{"visas"}, To: "tax"}}

// merging is a world in which ann and eve are one person: what is done to from is done to the one who is merged.
type merging struct {
	world
	from, into string
}

func (m merging) merge() { m.world.merge(m.from, m.into) }

// eachWay merges eve into ann, and ann into eve, in a workspace of its own.
func eachWay(t *testing.T, definitions string, f func(m merging)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for _, m := range []merging{{from: "eve", into: "ann"}, {from: "ann", into: "eve"}} {
			m.world = newWorld(t, s, "")
			m.Clock.Set(at("10:00"))
			m.Workspace = m.another("into-"+m.into, definitions, "ann", "eve")
			f(m)
		}
	})
}

// What the digest of one of them has brought before a run ended theirs does not come again by that of the other one, who follows the topic or whose subscription
// the run ended as well.
//
// Shows: R20, R22.
func TestMergeOfWhoIsAhead(t *testing.T) {
	t.Parallel()
	for _, run := range []bulk.Request{ending(), ending("ann")} {
		eachWay(t, digestsOfTopics, func(m merging) {
			m.subscribe("ann", "tax", "rare")
			m.subscribe("eve", "tax", "daily")
			m.until(at("19:00"))
			m.publish(tagged("1", "tax"))
			m.until(dayAt(1, "09:00"))
			m.mustBe("by the digest of one", m.told(), []string{"eve daily tax:1,"})
			m.begin(run)
			m.until(dayAt(1, "09:10"))
			m.merge()
			m.until(dayAt(4, "21:00"))
			m.mustBe(fmt.Sprint("all but ", run.Except, " ended, into ", m.into), m.told(), nil)
		})
	}
}

// What somebody got at once counts for the survivor's digest although they have left the topic since.
//
// Shows: R20, R22.
func TestMergeOfWhoGotItAndLeft(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "eve")
		w.subscribe("ann", "tax", "daily")
		w.subscribe("eve", "tax", "immediate")
		w.until(at("11:00"))
		w.publish(tagged("1", "tax"))
		w.mustBe("at once", w.told(), []string{"eve at once 1"})
		w.until(at("11:10"))
		w.subscribe("eve", "tax", "")
		w.merge("eve", "ann")
		w.until(dayAt(4, "21:00"))
		w.mustBe("later", w.told(), nil)
	})
}

// What the survivor got at once, by another topic, counts for what a run has ended of the one who is merged.
//
// Shows: R20, R22.
func TestMergeOfWhoGotItByAnotherTopic(t *testing.T) {
	t.Parallel()
	for _, run := range []bulk.Request{ending(), ending("eve")} {
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			w := newWorld(t, s, digestsOfTopics, "ann", "eve")
			w.subscribe("eve", "tax", "daily")
			w.subscribe("ann", "visas", "immediate")
			w.until(at("11:00"))
			w.publish(tagged("1", "tax", "visas"))
			w.mustBe("at once", w.told(), []string{"ann at once 1"})
			w.until(at("12:00"))
			w.begin(run)
			w.until(at("12:10"))
			w.merge("eve", "ann")
			w.until(dayAt(4, "21:00"))
			w.mustBe(fmt.Sprint("all but ", run.Except, " ended"), w.told(), nil)
		})
	}
}

// What was published after a run ended the subscription of one and before that of the other one began is for neither, although another run has ended that, too.
//
// Shows: R20, R22.
func TestMergeOfTwoWhoWereMoved(t *testing.T) {
	t.Parallel()
	eachWay(t, digestsOfTopics, func(m merging) {
		m.subscribe("ann", "tax", "rare")
		m.until(at("12:00"))
		m.publish(tagged("1", "tax"))
		m.until(at("13:00"))
		m.begin(ending())
		m.until(at("13:15"))
		m.publish(tagged("2", "tax"))
		m.until(at("13:30"))
		m.subscribe("eve", "tax", "rare")
		m.until(at("13:40"))
		m.publish(tagged("3", "tax"))
		m.until(at("14:00"))
		m.begin(ending())
		m.until(at("14:30"))
		m.merge()
		m.until(dayAt(4, "21:00"))
		m.mustBe("into "+m.into, m.told(), []string{m.into + " rare tax:1,3,"})
	})
}

// What waits for the digest of one still comes although the other one got each item at once, before a run ended both.
//
// Shows: R20, R22.
func TestMergeOfMovedWithImmediate(t *testing.T) {
	t.Parallel()
	eachWay(t, digestsOfTopics, func(m merging) {
		m.subscribe("ann", "tax", "daily")
		m.until(at("12:00"))
		m.publish(tagged("1", "tax"))
		m.until(at("12:30"))
		m.subscribe("eve", "tax", "immediate")
		m.until(at("13:00"))
		m.begin(ending())
		m.until(at("13:30"))
		m.merge()
		m.until(dayAt(4, "21:00"))
		m.mustBe("into "+m.into, m.told(), []string{m.into + " daily tax:1,"})
	})
}

// A message that waits to be tried again when a run ends the subscription it is for still leaves.
//
// Shows: R20, R22.
func TestMergeWhileAMessageWaits(t *testing.T) {
	t.Parallel()
	for _, follows := range []string{"before", "since"} {
		eachWay(t, strings.Replace(digestsOfTopics, "backoff: [1m]", "backoff: [3h]", 1), func(m merging) {
			m.subscribe("ann", "tax", "immediate")
			m.until(at("12:00"))
			m.Provider.Next(channel.Temporary(errors.New("busy")))
			m.publish(tagged("1", "tax"))
			m.until(at("12:10"))
			m.mustBe("refused", m.told(), nil)
			if follows == "before" {
				m.subscribe("eve", "tax", "immediate")
			}
			m.until(at("12:15"))
			m.begin(ending())
			m.until(at("12:20"))
			if follows == "since" {
				m.subscribe("eve", "tax", "immediate")
			}
			m.until(at("12:30"))
			m.merge()
			m.until(dayAt(1, "12:40"))
			m.mustBe("follows "+follows+", into "+m.into, m.told(), []string{m.into + " at once 1"})
		})
	}
}

// An undo finds of the survivor what it would have found of the one who was merged.
//
// Shows: R20.
func TestUndoForSurvivors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(m merging)
		then   func(m merging)
		want   []string // without the name
	}{
		"changed what it began": {func(m merging) { m.subscribe(m.from, "visas", "daily") }, func(m merging) { m.subscribe(m.from, "tax", "immediate") }, []string{"tax immediate"}},
		"changed what it changed": {func(m merging) {
			m.subscribe(m.from, "visas", "daily")
			m.subscribe(m.from, "tax", "rare")
		}, func(m merging) { m.subscribe(m.from, "tax", "immediate") }, []string{"tax immediate"}},
		"left what another run ended": {func(m merging) { m.subscribe(m.from, "visas", "daily") }, func(m merging) {
			m.begin(ending())
			m.until(at("12:15"))
			m.subscribe(m.from, "tax", "")
		}, nil},
		"both were moved": {func(m merging) {
			m.subscribe("ann", "visas", "daily")
			m.subscribe("eve", "visas", "daily")
		}, func(merging) {}, []string{"visas daily"}},
		"both were moved, and had other frequencies": {func(m merging) {
			m.subscribe("ann", "visas", "rare")
			m.subscribe("eve", "visas", "daily")
		}, func(merging) {}, []string{"visas daily"}},
		"both were moved, and one followed it less often": {func(m merging) {
			m.subscribe("ann", "visas", "daily")
			m.subscribe("eve", "visas", "daily")
			m.subscribe("eve", "tax", "rare")
		}, func(merging) {}, []string{"tax rare", "visas daily"}},
		"both were moved, and followed it less often": {func(m merging) {
			for _, who := range []string{"ann", "eve"} {
				m.subscribe(who, "visas", "daily")
				m.subscribe(who, "tax", "rare")
			}
		}, func(merging) {}, []string{"tax rare", "visas daily"}},
	} {
		eachWay(t, digestsOfTopics, func(m merging) {
			c.before(m)
			m.until(at("12:00"))
			run := m.begin(toTax).Run
			m.until(at("12:10"))
			c.then(m)
			m.until(at("12:20"))
			m.merge()
			m.until(at("12:30"))
			m.undo(run)
			m.until(at("12:40"))
			want := []string(nil)
			for _, w := range c.want {
				want = append(want, m.into+" "+w)
			}
			m.mustBe(name, m.followed(), want)
		})
	}
}

// An undo leaves who has changed what it began alone, also when what they changed is deleted.
//
// Shows: R22.
func TestUndoAfterRetention(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{Subscriptions: 24 * time.Hour}, "ann")
		w.subscribe("ann", "tax", "rare")
		w.subscribe("ann", "visas", "daily")
		w.until(at("12:00"))
		run := w.begin(toTax).Run
		w.until(at("12:10"))
		w.subscribe("ann", "tax", "immediate")
		w.until(dayAt(3, "12:00"))
		w.sweep()
		w.sweep()
		w.undo(run)
		w.until(dayAt(3, "12:10"))
		w.mustBe("undone", w.followed(), []string{"ann tax immediate"})
	})
}

// A run that has begun before a merge means the survivor, too: once if both are listed, and not if one of them is excepted.
//
// Shows: R20.
func TestMergeBeforeARunWorks(t *testing.T) {
	t.Parallel()
	both := bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Contacts: []string{"ann", "eve"}, To: "tax", Frequency: "daily"}}
	for name, c := range map[string]struct {
		follow []string
		run    bulk.Request
		want   string
	}{
		"who is merged follows it": {[]string{"ann"}, ending(), ""},
		"one is excepted":          {[]string{"ann", "eve"}, ending("eve"), " tax daily"},
		"both are listed":          {nil, both, " tax daily"},
	} {
		eachWay(t, digestsOfTopics, func(m merging) {
			for _, who := range c.follow {
				m.subscribe(who, "tax", "daily")
			}
			m.until(at("12:00"))
			m.begin(c.run)
			m.Clock.Set(at("12:01"))
			m.merge()
			m.until(at("12:40"))
			want := []string(nil)
			if c.want != "" {
				want = []string{m.into + c.want}
			}
			m.mustBe(name, m.followed(), want)
		})
	}
}

// What is to leave at once for somebody leaves for their survivor, and holds nothing else up.
//
// Shows: R20, R22.
func TestMergeBeforeTheRestLeaves(t *testing.T) {
	t.Parallel()
	eachWay(t, digestsOfTopics, func(m merging) {
		m.subscribe(m.from, "tax", "daily")
		m.until(at("11:00"))
		m.publish(tagged("1", "tax"))
		m.until(at("12:00"))
		m.subscribe(m.from, "tax", "immediate")
		m.merge()
		m.mustBe("the rest", m.told(), []string{m.into + " daily tax:1,"})
	})
}

// Who complains, or whose address takes nothing any more, gets nothing of what a run has ended, either.
//
// Shows: P5.
func TestComplaintAfterARun(t *testing.T) {
	t.Parallel()
	for _, merged := range []bool{false, true} {
		for _, status := range []string{"complained", "bounced"} {
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, digestsOfTopics, "ann", "eve")
				w.subscribe("ann", "tax", "daily")
				w.until(at("11:00"))
				w.publish(tagged("1", "tax"))
				w.until(at("12:00"))
				w.begin(ending())
				w.until(at("12:10"))
				who := "ann"
				if merged {
					w.merge("ann", "eve")
					who = "eve"
				}
				if _, err := w.Receipts().Take(w.Context(), w.Workspace, []receipt.Report{{Status: feedback.Status(status), Address: who + "@example.org"}}, w.Clock.Now(), nil); err != nil {
					t.Fatal(err)
				}
				w.until(dayAt(4, "21:00"))
				w.mustBe(fmt.Sprintf("%s, merged: %t", status, merged), w.told(), nil)
			})
		}
	}
}

// A link in a digest ends what has taken the place of its subscriptions: by a merge or by a run.
//
// Shows: R22.
func TestLinksOfFrequenciesAfterwards(t *testing.T) {
	t.Parallel()
	toVisas := bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: []string{"tax"}, To: "visas", Frequency: "daily"}}
	for name, c := range map[string]struct {
		eve  string        // how often she follows the topic
		run  *bulk.Request // before the merge
		ends int
	}{
		"another one by a merge":          {"daily", nil, 1},
		"another topic by a run":          {"", &toVisas, 1},
		"what a run has ended of the two": {"daily", new(ending()), 0},
	} {
		eachWay(t, digestsOfTopics, func(m merging) {
			m.subscribe("ann", "tax", "rare")
			if c.eve != "" {
				m.subscribe("eve", "tax", c.eve)
			}
			m.until(at("11:00"))
			m.publish(tagged("1", "tax"))
			ann, err := m.Store.ContactRow(m.Context(), m.Workspace.ID, "ann")
			if err != nil {
				t.Fatal(err)
			}
			m.until(at("12:00"))
			if c.run != nil {
				m.begin(*c.run)
			}
			m.until(at("12:10"))
			m.merge()
			m.until(at("12:20"))
			left, err := m.Topics().Leave(m.Context(), m.Workspace.ID, topic.Leaving{Contact: ann.ID, Frequency: "rare"}, m.Clock.Now())
			if err != nil || len(left.Ended) != c.ends {
				t.Errorf("%s, into %s: %d have ended, %v", name, m.into, len(left.Ended), err)
			}
			m.until(dayAt(4, "21:00"))
			m.mustBe(name+", into "+m.into, append(m.followed(), m.told()...), nil)
		})
	}
}
