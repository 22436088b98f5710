package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A run that is retried reaches those who have not got its items; one that is retried for all tells its window to everybody again, and no other digest changes by
// that.
//
// Shows: E8, R21.
func TestDigestsThatAreRetried(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "bob", "cyd", "dan")
		retry := func(id instance.ID, all bool) (operator.Result, error) {
			do := w.Operator().RetryInstance
			if all {
				do = w.Operator().RetryForAll
			}
			return do(t.Context(), w.Workspace.ID, id, "eve", w.Clock.Now())
		}
		done := func(id instance.ID, all bool) operator.Result {
			t.Helper()
			result, err := retry(id, all)
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		for _, of := range []string{"ann tax daily", "bob tax daily", "bob visas daily", "cyd tax immediate"} {
			p := strings.Fields(of)
			w.subscribe(p[0], p[1], p[2])
		}
		w.publish(tagged("1", "tax"))
		w.publish(tagged("2", "visas"))
		w.publish(tagged("0", "tax"))
		w.publish(`{"id": "9", "urgent": true, "tags": {"policy": "tax"}}`)
		w.until(dayAt(1, "08:29"))
		w.told()
		w.subscribe("dan", "tax", "daily")
		w.Provider.Next(nil, channel.Permanent(errors.New("no")))
		w.until(dayAt(1, "09:00"))
		first := w.told()
		w.mustBe("who got it", first, first[:1])
		who, _, _ := strings.Cut(first[0], " ")
		other := map[string]string{"ann": "bob daily tax:1,0, visas:2,", "bob": "ann daily tax:1,0,"}[who]
		w.publish(tagged("3", "tax"))
		w.told() // by those who hear of it at once

		run := w.keyed("digest:news:daily:2026-05-15")
		again := done(run, false)
		w.mustBe("for those who have got nothing", w.told(), []string{other})
		var refused *operator.StateError
		if _, err := retry(run, true); !errors.As(err, &refused) {
			t.Errorf("one that was retried already: %v", err)
		}
		all := done(again.NewInstance, true)
		w.mustBe("key", []string{all.NewKey}, []string{"digest:news:daily:2026-05-15:retry:2"})
		w.mustBe("for all", w.told(), []string{"ann daily tax:1,0,", "bob daily tax:1,0, visas:2,"})
		if same := done(again.NewInstance, true); same.NewInstance != all.NewInstance || same.Changed {
			t.Errorf("asked for twice: %+v", same)
		}
		w.mustBe("once", w.told(), nil)
		if none := done(all.NewInstance, false); none.NewInstance == 0 {
			t.Error("it is not retried")
		}
		w.mustBe("all of them have it", w.told(), nil)
		w.until(dayAt(2, "08:30"))
		w.mustBe("the next run", w.told(), []string{"ann daily tax:3,", "bob daily tax:3,", "dan daily tax:3,"})
	})
}

// Who has got a message about an item alone, who follows a topic since then, and what another digest is about to tell are left out also of a run for all.
func TestDigestsForAllLeaveOut(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "bob")
		w.subscribe("ann", "tax", "daily")
		w.publish(tagged("1", "tax"))
		w.until(dayAt(1, "09:00"))
		w.mustBe("the run", w.told(), []string{"ann daily tax:1,"})
		w.publish(tagged("2", "tax"))
		w.until(dayAt(2, "08:29"))
		w.Provider.Next(channel.Temporary(errors.New("not now")))
		w.until(dayAt(2, "08:30"))
		w.subscribe("bob", "tax", "daily")
		var refused *operator.StateError
		if _, err := w.Operator().RetryForAll(t.Context(), w.Workspace.ID, w.keyed("digest:news:daily:2026-05-16"), "eve", w.Clock.Now()); !errors.As(err, &refused) {
			t.Errorf("while its messages have not ended: %v", err)
		}
		if _, err := w.Operator().RetryForAll(t.Context(), w.Workspace.ID, w.keyed("digest:news:daily:2026-05-15"), "eve", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.mustBe("its own window alone", w.told(), []string{"ann daily tax:1,"})
		w.until(dayAt(2, "08:40"))
		w.mustBe("the other one", w.told(), []string{"ann daily tax:2,"})

		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Workflow: "news"}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(rows, func(r instance.Row) bool { return r.Trigger == "immediate" })
		if _, err := w.Operator().RetryForAll(t.Context(), w.Workspace.ID, rows[at].ID, "eve", w.Clock.Now()); !errors.As(err, &refused) {
			t.Errorf("no run of a digest: %v", err)
		}
	})
}

// keyed returns the instance with a key.
func (w world) keyed(k string) instance.ID {
	w.Helper()
	row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, k)
	if err != nil {
		w.Fatal(k, err)
	}
	return row.ID
}

// The sections of the next digest have the order of the message, that of titles in the language of the workspace, and the titles that the person reads.
func TestTheNextDigestInTheirLanguage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := strings.NewReplacer("topic: tax\n", "topic: tax\ntitle: {en: Money, de: Zoll}\n", "topic: visas\n", "topic: visas\ntitle: {en: Visas, de: Aufenthalt}\n").Replace(digestsOfTopics)
		w := newWorld(t, s, "workspace: default\nlocale: en\ncadence: {max_per_day: 0}\n---\n"+definitions)
		w.person("ann", `"locale": "de", "persona": ""`)
		w.subscribe("ann", "tax", "daily")
		w.subscribe("ann", "visas", "daily")
		w.publish(tagged("1", "tax"))
		w.publish(tagged("2", "visas"))
		w.told()
		c, _, err := s.ContactByExtID(t.Context(), w.Workspace.ID, "ann")
		if err != nil {
			t.Fatal(err)
		}
		list, err := w.NextDigests(t.Context(), w.Workspace.ID, c.ID)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		var said []string
		for _, section := range list[0].Sections {
			said = append(said, section.Topic+" "+section.Title)
		}
		w.mustBe("said", said, []string{"tax Zoll", "visas Aufenthalt"})
		w.until(dayAt(1, "08:30"))
		w.mustBe("sent", w.told(), []string{"ann daily tax:1, visas:2,"})
	})
}

// A run that was missed is retried for all, as one that was made.
func TestMissedRunsThatAreRetriedForAll(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(digestsOfTopics, "digest: {", "digest: {catch_up: skip, ", 1), "ann")
		w.subscribe("ann", "tax", "daily")
		w.publish(tagged("1", "tax"))
		w.Clock.Set(dayAt(2, "08:30")) // nothing has run on the 15th
		w.mustBe("skipped", w.told(), nil)
		if _, err := w.Operator().RetryForAll(t.Context(), w.Workspace.ID, w.keyed("digest:news:daily:2026-05-15"), "eve", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.mustBe("for all", w.told(), []string{"ann daily tax:1,"})
	})
}
