package engine_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
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
			minute := func() { w.until(w.Clock.Now().Add(60e9)) }
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
