package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// nextOf says what the next digests of somebody hold, as the messages of digestsOfTopics say it, by their instants.
func (w world) nextOf(person string) map[string]string {
	w.Helper()
	c, _, err := w.Store.ContactByExtID(w.Context(), w.Workspace.ID, person)
	if err != nil {
		w.Fatal(err)
	}
	list, err := w.NextDigests(w.Context(), w.Workspace.ID, c.ID)
	if err != nil {
		w.Fatal(err)
	}
	texts := map[string]string{}
	for _, next := range list {
		text := person + " " + next.Trigger
		for _, s := range next.Sections {
			text += " " + s.Topic + ":"
			for _, i := range s.Items {
				text += i.ID + ","
			}
		}
		if len(next.Sections) > 0 {
			texts[next.Due.UTC().Format(time.RFC3339)+" "+next.Trigger] = text
		}
	}
	return texts
}

// What is said of the next digest of a person is what they get, if nothing happens until then.
func TestTheNextDigest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w, lives, enough := newWorld(t, s, ""), 0, storetest.MoreLives(60)
		rapid.Check(t, func(r *rapid.T) {
			if enough() {
				return
			}
			lives++
			w.Clock.Set(at("10:00"))
			w.Workspace = w.another(fmt.Sprintf("next-%d", lives), digestsOfTopics, "ann", "bob")
			for i := range rapid.IntRange(2, 15).Draw(r, "steps") {
				switch person, name := rapid.SampledFrom([]string{"ann", "bob"}).Draw(r, "person"), rapid.SampledFrom([]string{"tax", "visas"}).Draw(r, "topic"); rapid.IntRange(0, 3).Draw(r, "what") {
				case 0:
					w.subscribe(person, name, rapid.SampledFrom([]string{"immediate", "daily", "rare", ""}).Draw(r, "frequency"))
				case 1, 2:
					w.publish(tagged(fmt.Sprintf("i%d", i), rapid.SampledFrom([][]string{{"tax"}, {"visas"}, {"tax", "visas"}}).Draw(r, "of")...))
				default:
					w.until(w.Clock.Now().Add(time.Duration(rapid.IntRange(1, 40).Draw(r, "hours")) * time.Hour))
				}
				for w.tick() {
				}
			}
			mine := func() (list []string) {
				for w.tick() {
				}
				for _, out := range w.Provider.Sent() { // workspaces of earlier lives go on
					if out.Workspace == w.Workspace.Name {
						list = append(list, out.Address+" "+out.Text)
					}
				}
				slices.Sort(list)
				return list
			}
			for range 3 {
				mine()
				next := map[string]string{}
				for _, person := range []string{"ann", "bob"} {
					for due, text := range w.nextOf(person) {
						next[due+" "+person] = text
					}
				}
				due, err := w.NextDue(w.Context())
				if err != nil || due.IsZero() {
					r.Fatal(due, err)
				}
				var want []string
				for when, text := range next {
					if strings.HasPrefix(when, due.UTC().Format(time.RFC3339)) {
						want = append(want, text)
					}
				}
				slices.Sort(want)
				said := w.Clock.Now()
				w.Clock.Set(due)
				if got := mine(); !slices.Equal(got, want) {
					r.Fatalf("at %s came %q, and at %s %q was said", due, got, said, next)
				}
			}
		})
	})
}
