package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Whatever names the people of an audience, in whatever order and on however many pages: as many as the brake allows are taken up, and the others
// when it is released. Each person is taken up once, also where a process dies before the commit of a page.
func TestBrakeOverMixedPages(t *testing.T) {
	t.Parallel()
	const people = 2*store.MemberPage + 40
	enough := storetest.Lives(8)
	w := newWorld(t, storetest.Memory(t), newsTo("[{everyone: true}]", "group: adults\nwhere: contact.attributes.n < 700\n---\ngroup: few\nwhere: contact.attributes.n > 980\n"))
	w.many("p", people, func(i int) string {
		if i%3 == 0 {
			return fmt.Sprintf(`"attributes": {"n": %d}, "persona": "Nurse"`, i)
		}
		return fmt.Sprintf(`"attributes": {"n": %d}`, i)
	})
	crash := fanout.New(crashingChunks{w.Store}, catalog.New(w.Store, loader.Options{}), nil, nil)
	life := 0
	rapid.Check(t, func(r *rapid.T) {
		if enough() {
			return
		}
		life++
		named := rapid.SliceOfN(rapid.IntRange(0, people-1), 0, 40).Draw(r, "named")
		sources := rapid.Permutation([]string{"everyone: true", "group: adults", "group: few", "persona: Nurse", "to: event.who"}).Draw(r, "sources")
		sources = sources[:rapid.IntRange(1, len(sources)).Draw(r, "how many sources")]
		var want, who []string
		for i := range people {
			in := map[string]bool{
				"everyone: true": true, "group: adults": i < 700, "group: few": i > 980, "persona: Nurse": i%3 == 0, "to: event.who": slices.Contains(named, i),
			}
			if slices.ContainsFunc(sources, func(s string) bool { return in[s] }) {
				want = append(want, fmt.Sprint("p", i))
			}
		}
		for _, i := range named {
			who = append(who, fmt.Sprintf("%q", fmt.Sprint("p", i)))
		}
		most := rapid.OneOf(
			rapid.SampledFrom([]int{1, len(named), len(want) - 1, len(want), len(want) + 1, store.MemberPage - 1, store.MemberPage, store.MemberPage + 1}), rapid.IntRange(1, people),
		).Draw(r, "most")
		most = max(most, 1)
		w.Apply(strings.Replace(newsTo("[{"+strings.Join(sources, "}, {")+"}]", "group: adults\nwhere: contact.attributes.n < 700\n---\ngroup: few\nwhere: contact.attributes.n > 980\n"),
			"\nchannel:", fmt.Sprintf("\nlimits: {max_recipients_per_run: %d}\nchannel:", most), 1))
		w.run()
		w.Post(fmt.Sprintf(`{"id": "n%d", "kind": "news", "payload": {"who": [%s]}}`, life, strings.Join(who, ", ")))
		die := func() {
			if rapid.Bool().Draw(r, "dies") {
				_, _ = crash.Step(t.Context(), w.Clock.Now(), 10) // there may be nothing to expand
			}
		}
		die()
		first := w.run()
		in := w.occasion()
		if n := min(most, len(want)); len(first) != n || in.Recipients != n || in.Held() != (len(want) > most) || in.Held() && in.Hold != instance.HoldMany {
			r.Fatalf("%v, most %d of %d: %d messages, %+v", sources, most, len(want), len(first), in)
		}
		if in.Held() {
			if w.release(in.ID); w.occasion().Held() {
				r.Fatalf("released: %+v", w.occasion())
			}
			die()
		}
		all := append(first, w.run()...)
		slices.Sort(all)
		slices.Sort(want)
		if diff := cmp.Diff(want, all); diff != "" {
			r.Fatalf("%v, most %d (-want +got):\n%s", sources, most, diff)
		}
		if in := w.occasion(); in.Status != instance.Completed && len(want) > 0 || in.Recipients != len(want) || w.Provider.Repeats > 0 {
			r.Fatalf("%v, most %d: in the end %+v, %d came twice", sources, most, in, w.Provider.Repeats)
		}
	})
}

// Processes that expand the zones of one occasion at the same moment take up no more people than its brake allows, together. Once its rows are released
// each person has the message once.
func TestProcessesShareTheBrakeOfZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const each, most, weeks = 12, 20, 3
		zones := []string{"Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Rome"} // at one instant
		w := newWorld(t, s, "persona: Mother\n")
		w.many("m", each*len(zones), func(i int) string { return fmt.Sprintf(`"persona": "Mother", "timezone": %q`, zones[i%len(zones)]) })
		w.Apply(zonesBroadcast("every: 1w, from: 2026-05-18", fmt.Sprintf("limits: {max_recipients_per_run: %d}\n", most)))
		for week := range weeks {
			due := time.Date(2026, 5, 18+7*week, 8, 0, 0, 0, time.UTC)
			if early := w.follow(due.Add(-time.Minute)); len(early) > 0 {
				t.Fatalf("early: %v", early)
			}
			w.Clock.Set(due)
			var wait sync.WaitGroup
			for range zones {
				wait.Go(func() {
					process := fanout.New(s, catalog.New(s, loader.Options{}), nil, nil)
					for {
						n, err := process.Step(t.Context(), due, 1)
						if err != nil {
							t.Error(err)
						}
						if err != nil || n == 0 {
							return
						}
					}
				})
			}
			wait.Wait()
			held, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{Limit: 100})
			if err != nil || len(held) == 0 {
				t.Fatal(held, err)
			}
			heads := []instance.ID{held[0].Head}
			rows, err := s.ZonesOf(t.Context(), heads)
			taken := 0
			for _, z := range rows[heads[0]] {
				taken += z.Recipients
			}
			if sent := len(w.run()); err != nil || taken != most || sent != most || len(rows[heads[0]]) != len(zones) {
				t.Fatalf("week %d: %d zones, %d people are taken up, %d messages: %v", week, len(rows[heads[0]]), taken, sent, err)
			}
			rest := 0
			for len(held) > 0 {
				for _, row := range held {
					w.release(row.ID)
				}
				rest += len(w.run())
				if held, err = s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{Limit: 100}); err != nil {
					t.Fatal(err)
				}
			}
			if rest != each*len(zones)-most || w.Provider.Repeats > 0 {
				t.Errorf("week %d: %d after the release, %d came twice", week, rest, w.Provider.Repeats)
			}
		}
	})
}

// Zones in which it is the hour at the same instant are taken up in one transaction, and have one brake there too.
func TestBrakeOverZonesOfOneInstant(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		for _, zone := range []string{"Berlin", "Paris", "Rome", "Madrid", "Vienna"} {
			w.mother(strings.ToLower(zone), "Europe/"+zone)
		}
		w.Apply(zonesBroadcast("every: 1w, from: 2026-05-18", "limits: {max_recipients_per_run: 3}\n"))
		sent := w.follow(time.Date(2026, 5, 18, 12, 0, 0, 0, time.UTC))
		held, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{})
		if len(sent) != 3 || err != nil || len(held) != 2 {
			t.Errorf("%q, held %d, %v", sent, len(held), err)
		}
	})
}
