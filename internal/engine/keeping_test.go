package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const aDay = 24 * time.Hour

// keeping is a world in which what is over stays for different times.
func keeping(t *testing.T, s *store.Store, definitions string, keep retention.Keep, people ...string) world {
	t.Helper()
	w := world{enginetest.Setup(t, s, "", func(c *engine.Config) { c.Retention = keep })}
	w.Clock.Set(ten)
	w.Apply(definitions)
	for _, p := range people {
		w.person(p, `"addresses": {"inbox": "`+p+`"}`)
	}
	return w
}

// sweep lets a whole pass of retention happen. The first one may be a rest.
func (w world) sweep() {
	w.Helper()
	for range 2 {
		w.Clock.Set(w.Clock.Now().Add(retention.Rest + time.Minute))
		for range 30 { // each tick is one step of a pass
			w.tick()
		}
	}
}

// kept is what is left of topics: the deliveries that were sent, the items, the runs, and the subscriptions.
func (w world) kept() string {
	w.Helper()
	counts, err := w.Store.Counts(w.Context(), w.Workspace.ID)
	if err != nil {
		w.Fatal(err)
	}
	items, err := w.Store.Items(w.Context(), w.Workspace.ID, store.ItemFilter{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	runs, err := w.Store.DigestRuns(w.Context(), w.Workspace.ID, store.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	subscriptions, err := w.Store.Subscriptions(w.Context(), w.Workspace.ID, store.SubscriptionFilter{Ended: true, Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	return fmt.Sprintf("%d sent, %d items, %d runs, %d subscriptions", counts.DeliveriesByStatus[delivery.Sent], len(items), len(runs), len(subscriptions))
}

func (w world) keeps(what, want string) {
	w.Helper()
	if got := w.kept(); got != want {
		w.Errorf("%s: %s are left, want %s", what, got, want)
	}
}

// rarely is digestsOfTopics with a digest of three weeks.
func rarely(more string) string {
	return strings.Replace(digestsOfTopics, `{every: 2d, from: 2026-05-14, at: "20:00", period: 2d,`, `{every: 3w, days: [thu], at: "20:00", period: 3w,`, 1) + more
}

// Messages of digests and items go before their runs and items. What they told stays told, and their places in limits stay taken.
//
// Shows: E18, R22.
func TestMessagesOfDigestsGoFirst(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, rarely("---\nworkspace: default\ncadence: {max_per_month: 3}\n"), retention.Keep{Messages: 7 * aDay}, "ann", "bob", "cyd")
		w.subscribe("ann", "tax", "rare")
		w.subscribe("bob", "tax", "immediate")
		w.subscribe("cyd", "tax", "daily")
		w.until(dayAt(1, "12:00"))
		w.publish(`{"id": "1", "urgent": true, "tags": {"policy": "tax"}}`)
		w.publish(tagged("2", "tax"))
		w.mustBe("at once", w.told(), []string{"ann urgent 1", "bob at once 2", "bob urgent 1", "cyd urgent 1"})
		w.until(dayAt(2, "12:00"))
		w.mustBe("the next day", w.told(), []string{"cyd daily tax:2,"})
		w.sweep()
		w.until(dayAt(8, "11:59"))
		w.keeps("on the day itself", "5 sent, 2 items, 9 runs, 3 subscriptions")
		w.until(dayAt(10, "12:00"))
		w.sweep()
		w.keeps("later", "0 sent, 2 items, 11 runs, 3 subscriptions")
		w.publish(tagged("3", "tax"))
		w.publish(tagged("4", "tax"))
		w.mustBe("the third of a month, no fourth", w.told(), []string{"bob at once 3"})
		w.until(dayAt(17, "23:00")) // the month is May, the fourth one leaves in June
		w.mustBe("before June", w.told(), []string{"cyd daily tax:3,4,"})
		w.until(dayAt(21, "21:00"))
		w.mustBe("then", w.told(), []string{"ann rare tax:2,3,4,", "bob at once 4"})
	})
}

// Items and runs go when no digest looks back to them any more, with all that was made of them. The last run stays.
//
// Shows: E18, P2.
func TestItemsAndRunsGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, rarely(""), retention.Keep{Digests: 10 * aDay, Messages: 10 * aDay}, "ann", "bob")
		w.subscribe("ann", "tax", "rare")
		w.subscribe("bob", "tax", "daily")
		w.until(dayAt(1, "12:00"))
		w.publish(tagged("1", "tax"))
		w.until(dayAt(20, "12:00"))
		w.sweep()
		w.mustBe("so far", w.told(), []string{"bob daily tax:1,"})
		w.keeps("a digest will tell the item", "0 sent, 1 items, 21 runs, 2 subscriptions")
		w.until(dayAt(21, "21:00"))
		w.mustBe("the digest", w.told(), []string{"ann rare tax:1,"})
		w.until(dayAt(80, "12:00"))
		w.told()
		w.sweep()
		if got := w.kept(); !strings.HasPrefix(got, "0 sent, 0 items, ") {
			t.Errorf("in the end %s are left", got)
		}
		runs, err := s.DigestRuns(t.Context(), w.Workspace.ID, store.Page{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]int{}
		for _, run := range runs {
			of[run.Trigger]++
		}
		if of["rare"] == 0 || of["daily"] < 10 || of["daily"] > 50 {
			t.Errorf("runs are left: %v", of)
		}
		w.Apply(strings.Replace(rarely(""), "type: digest", "type: digest\nenabled: false", 1))
		w.until(dayAt(300, "12:00"))
		w.sweep()
		w.keeps("when the digests have been switched off for long", "0 sent, 0 items, 2 runs, 2 subscriptions")
		w.Apply(rarely(""))
		if got := w.publish(tagged("1", "tax")); got != "created" {
			t.Errorf("an item of the id of one that is gone: %s", got)
		}
	})
}

// An item stays while a run that is to come looks back to it: here the workflow is paused.
//
// Shows: E18.
func TestItemsOfARunThatWaits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{Digests: 10 * aDay, Messages: 10 * aDay}, "ann")
		w.subscribe("ann", "tax", "daily")
		w.until(dayAt(1, "12:00"))
		w.publish(tagged("1", "tax"))
		for w.tick() {
		}
		if _, err := w.Operator().Pause(t.Context(), w.Workspace.ID, "news", "a mistake", "test", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.until(dayAt(60, "12:00"))
		w.sweep()
		if got := w.kept(); !strings.HasPrefix(got, "0 sent, 1 items, ") {
			t.Errorf("while the workflow is paused %s are left", got)
		}
	})
}

// The address of who signed up by it goes some time after their last subscription, and comes back with them. Topics that nobody subscribes to go, and so do
// subscriptions that have ended.
//
// Shows: E18.
func TestAddressesAndTopicsGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{Subscriptions: 30 * aDay, Addresses: 20 * aDay, Topics: 7 * aDay}, "ann")
		address := func(who string) string {
			c, err := s.ContactRow(t.Context(), w.Workspace.ID, who)
			if err != nil {
				t.Fatal(err)
			}
			return c.Address
		}
		find := func(name string) {
			if _, err := w.Topics().Find(t.Context(), w.Workspace, json.RawMessage(`{"topic": "`+name+`", "match": [{"tags": {"policy": {"any": ["`+name+`"]}}}]}`), w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		there := func(name string) bool {
			_, err := s.Topic(t.Context(), w.Workspace.ID, name)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			return err == nil
		}
		for _, name := range []string{"nobody", "left", "loved"} {
			find(name)
		}
		bob, _ := w.signUp("bob@example.org", "left", "daily")
		cyd, _ := w.signUp("cyd@example.org", "loved", "daily")
		dan, _ := w.signUp("dan@example.org", "tax", "immediate")
		w.until(dayAt(1, "12:00"))
		w.signUp("bob@example.org", "left", "")
		w.signUp("dan@example.org", "tax", "")
		w.until(dayAt(6, "12:00"))
		find("asked") // and asked for again when it is a week old
		w.until(dayAt(12, "12:00"))
		find("asked")
		w.until(dayAt(14, "12:00"))
		w.sweep()
		if there("nobody") || !there("left") || !there("loved") || !there("asked") {
			t.Errorf("topics after two weeks: nobody %t, left %t, loved %t, asked %t", there("nobody"), there("left"), there("loved"), there("asked"))
		}
		w.until(dayAt(21, "08:00"))
		w.sweep()
		if address(bob) == "" || address(dan) == "" {
			t.Error("an address is gone before its time")
		}
		w.until(dayAt(22, "12:00"))
		w.sweep()
		if address(bob) != "" || address(dan) != "" || address(cyd) == "" {
			t.Errorf("addresses: bob %q, dan %q, cyd %q", address(bob), address(dan), address(cyd))
		}
		if got := w.kept(); !strings.HasSuffix(got, " 3 subscriptions") {
			t.Errorf("three weeks after %s are left", got)
		}
		w.until(dayAt(40, "12:00"))
		w.sweep()
		if there("left") || !there("loved") {
			t.Errorf("topics after the ended subscriptions: left %t, loved %t", there("left"), there("loved"))
		}
		if again, _ := w.signUp("Dan@example.org", "tax", "immediate"); again != dan || address(dan) != "Dan@example.org" {
			t.Errorf("dan comes back as %s with %q", again, address(dan))
		}
		w.publish(tagged("1", "tax"))
		for w.tick() {
		}
		if sent := w.Provider.Sent(); len(sent) != 1 || sent[0].Text != "at once 1" {
			t.Errorf("sent: %v", sent)
		}
		w.keeps("in the end", "1 sent, 1 items, 60 runs, 2 subscriptions")
	})
}

// Messages go in pages of a few, those of one instance with many of them too. None is left, and none is counted twice.
//
// Shows: E18.
func TestMessagesGoInPages(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 3, 50} {
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			people := []string{"ann", "bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ida"}
			w := keeping(t, s, digestsOfTopics, retention.Keep{}, people...)
			for i, p := range people {
				w.subscribe(p, "tax", "immediate")
				w.subscribe(p, "visas", []string{"daily", "immediate"}[i/7])
			}
			w.until(dayAt(1, "12:00"))
			for i := range 5 {
				w.publish(tagged(fmt.Sprint("t", i), "tax"))
				w.publish(tagged(fmt.Sprint("v", i), "visas"))
			}
			w.until(dayAt(3, "12:00"))
			sent := len(w.told())
			if sent != 5*9+5*2+7 {
				t.Fatalf("%d messages", sent)
			}
			before := store.Cutoffs{Messages: w.Clock.Now()}
			var cursor store.RetainCursor
			var gone store.Retained
			for done, steps := false, 0; !done; steps++ {
				if steps > 300 {
					t.Fatalf("the pass has no end: %+v", cursor)
				}
				r, over, err := s.Retain(t.Context(), w.Workspace.ID, w.Clock.Now(), before, &cursor, limit)
				if err != nil {
					t.Fatal(err)
				}
				if r.Deliveries > int64(limit*4) {
					t.Errorf("with limit %d, one transaction deleted %d deliveries", limit, r.Deliveries)
				}
				gone.Add(r)
				done = over
			}
			if gone.Deliveries != int64(sent) {
				t.Errorf("with limit %d, %d of %d messages went", limit, gone.Deliveries, sent)
			}
			w.keeps(fmt.Sprint("with limit ", limit), "0 sent, 10 items, 5 runs, 18 subscriptions")
		})
	}
}
