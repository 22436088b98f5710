package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// place writes a place, of a type and below another one; "gone" deletes it.
func (w world) place(name, typ, parent string) {
	w.Helper()
	item, mode := record.Item{Type: subject.PlaceType, ID: name, Props: map[string]any{"type": typ}}, upsert.Replace
	if parent != "" {
		item.Props["parent"] = parent
	}
	if typ == "gone" {
		item.Props, mode = nil, upsert.Delete
	}
	results, err := w.Records().Write(w.Context(), w.Workspace, mode, []record.Item{item}, "ann", w.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		w.Fatal(name, err, results)
	}
}

// The people of a place, of those below it and of their types get its messages; a place that moves takes them along.
//
// Shows: D20.
func TestPlaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo(`[{place: north, below: true, place_types: [clinic]}, {place: [hq, south]}, {persona: Nurse, where: 'within(contact.place, "north")'}]`, "---\nworkspace: default\ncadence: {max_per_day: 0}\n"))
		w.place("mill", "clinic", "valley")
		w.place("valley", "district", "north")
		w.place("north", "region", "")
		w.place("south", "region", "")
		w.place("hq", "office", "")
		for who, at := range map[string]string{"amy": "mill", "bea": "valley", "cal": "hq", "dee": "south", "eli": "nowhere", "fay": ""} {
			w.person(who, fmt.Sprintf(`"place": %q`, at))
		}
		w.person("nia", `"place": "valley", "persona": "Nurse"`)
		w.person("ned", `"place": "hq", "persona": "Nurse"`)
		w.person("ona", `"place": "south", "persona": "Nurse"`)
		w.mustBe("at first", w.news("1"), []string{"amy: ", "cal: ", "dee: ", "ned: ", "nia: ", "ona: "})
		w.place("valley", "district", "south")
		w.mustBe("the valley has moved", w.news("2"), []string{"cal: ", "dee: ", "ned: ", "ona: "})
		w.place("valley", "clinic", "north")
		w.mustBe("and is a clinic", w.news("3"), []string{"amy: ", "bea: ", "cal: ", "dee: ", "ned: ", "nia: ", "ona: "})
		w.place("hq", "gone", "")
		w.person("dee", `"place": null`)
		w.mustBe("a place is deleted, and somebody leaves", w.news("4"), []string{"amy: ", "bea: ", "nia: ", "ona: "})
		w.place("nowhere", "clinic", "mill")
		w.mustBe("a place is made", w.news("5"), []string{"amy: ", "bea: ", "eli: ", "nia: ", "ona: "})
	})
}

// The people of the place above that of an owner get its messages: above the owner's place, or above that of a contact who owns the record; the nearest of
// a type where that is said, and nobody where there is none.
//
// Shows: D20.
func TestPlacesAboveOwners(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		text := func(entry string) string {
			return "workflow: visits\ntype: alert\ntriggers: [{id: t, record: visit, when: record.draft != true}]\naudience: [" + entry + `]
channel: inbox
message: {inbox: {text: "{{ record.id }}"}}
---
workspace: default
cadence: {max_per_day: 0}
---
channel: inbox
provider: inbox
---
group: board
members: [amy]
---
record_type: visit
fields: {clinic: place, home: record(visit), draft: bool}
`
		}
		w := newWorld(t, s, text("{place_above: record.owner, where: 'contact.id != \"bev\"'}, {to: '\"ned\"'}"))
		w.place("mill", "clinic", "valley")
		w.place("valley", "district", "north")
		w.place("north", "region", "")
		for who, at := range map[string]string{"amy": "mill", "bea": "valley", "bev": "valley", "cal": "north", "ned": "valley", "eli": ""} {
			w.person(who, fmt.Sprintf(`"place": %q`, at))
		}
		n := 0
		mustReach := func(what string, item record.Item, want ...string) {
			t.Helper()
			n++
			item.Type, item.ID = "visit", fmt.Sprint("v", n)
			results, err := w.Records().Write(w.Context(), w.Workspace, upsert.Replace, []record.Item{item}, "ann", w.Clock.Now(), nil)
			if err != nil || results[0].Error != nil {
				t.Fatal(what, err, results)
			}
			w.live(fmt.Sprintf("10:%02d", n))
			var got []string
			for _, m := range w.Provider.Sent() {
				got = append(got, m.Address)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		owner := func(of string) *subject.Owner { o := subject.Owner(of); return &o }
		mustReach("a clinic", record.Item{Owner: owner("place/mill")}, "bea", "ned")
		mustReach("somebody of it", record.Item{Owner: owner("contact/amy")}, "bea", "ned")
		mustReach("the topmost place", record.Item{Owner: owner("place/north")}, "ned")
		mustReach("a place that does not exist", record.Item{Owner: owner("place/nowhere")}, "ned")
		mustReach("somebody without a place", record.Item{Owner: owner("contact/eli")}, "ned")
		mustReach("a group", record.Item{Owner: owner("group/board")}, "ned")
		mustReach("nobody", record.Item{}, "ned")
		w.Apply(text("{place_above: record.owner, place_types: [region]}"))
		mustReach("the region", record.Item{Owner: owner("place/mill")}, "cal")
		w.Apply(text("{place_above: '[record.clinic, record.home.owner]'}"))
		mustReach("of a field, and of another record", record.Item{
			Props: map[string]any{"clinic": "valley"}, Parents: map[string][]subject.RecordRef{"home": {{Type: "visit", ExtID: "v1"}}},
		}, "bea", "bev", "cal", "ned")
	})
}

const atPlace = `
workflow: visits
type: alert
triggers: [{id: t, record: visit, when: 'within(record.place, "north") && record.open == true'}]
audience: {to: '"ann"'}
channel: inbox
message: {inbox: {text: "{{ record.id }}"}}
---
workspace: default
cadence: {max_per_day: 0}
---
channel: inbox
provider: inbox
---
persona: Manager
`

// A record is evaluated when a place on the path from its own moves, comes or goes.
//
// Shows: D14.
func TestRecordsWithinPlaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, atPlace, "ann")
		minute := 0
		mustSend := func(what string, want ...string) {
			t.Helper()
			minute++
			w.live(fmt.Sprintf("10:%02d", minute))
			var got []string
			for _, m := range w.Provider.Sent() {
				got = append(got, m.Text)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		w.place("north", "", "")
		w.place("mill", "", "valley")
		w.put("visit/a", `{"place": "mill", "open": true}`)
		w.put("visit/b", `{"place": "north", "open": true}`)
		w.put("visit/c", `{"place": "mill"}`)
		w.put("visit/d", `{"open": true}`)
		mustSend("the path ends below north", "b")
		w.place("valley", "", "north")
		mustSend("the place between is made", "a")
		w.put("visit/e", `{"place": "hill", "open": true}`)
		w.place("hill", "", "coast")
		w.place("coast", "", "south")
		mustSend("another one")
		w.place("coast", "", "valley")
		mustSend("a place above it moves", "e")
		w.place("coast", "gone", "")
		w.put("visit/f", `{"place": "hill", "open": true}`)
		mustSend("a place above it is gone")
		w.place("coast", "", "north")
		mustSend("and comes again", "f")
	})
}

// Any mix of sources gives each person who is in it once, also while people join, leave and move as its pages are taken up: those who are in it all the
// time get its message, and those who are never in it do not.
func TestPagesOfMixedSources(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo(`[{place: north, below: true}, {persona: Nurse}, {group: adults}, {place: [hq, mall]}]`, twoGroups+"---\nworkspace: default\ncadence: {max_per_day: 0}\n"))
		for _, p := range [][2]string{{"north", ""}, {"south", ""}, {"valley", "north"}, {"mill", "valley"}, {"dale", "south"}, {"hq", ""}} {
			w.place(p[0], "", p[1])
		}
		const people = store.MemberPage + 150
		w.many("p", people, func(i int) string {
			return fmt.Sprintf(`"place": %q, "persona": %q, "attributes": {"age": %d}`, []string{"mill", "dale", "", "north"}[i%4], []string{"Nurse", "", ""}[i%3], 10+i%16)
		})
		for round := range 8 {
			r := rand.New(rand.NewPCG(uint64(round), 7))
			w.Post(fmt.Sprintf(`{"id": "r%d", "kind": "news"}`, round))
			x := fanout.New(w.Store, catalog.New(w.Store, loader.Options{}), nil, nil)
			always, ever := w.within(), map[string]bool{}
			maps.Copy(ever, always)
			change := func(most int) {
				for range r.IntN(most + 1) {
					w.change(r)
					now := w.within()
					maps.DeleteFunc(always, func(who string, _ bool) bool { return !now[who] })
					maps.Copy(ever, now)
				}
			}
			change(3)
			for more := true; more; {
				n, err := x.Step(w.Context(), w.Clock.Now(), 10)
				if err != nil {
					t.Fatal(err)
				}
				more = n > 0
				change(3)
			}
			w.live(fmt.Sprintf("11:%02d", round))
			got := map[string]int{}
			for _, m := range w.Provider.Sent() {
				got[m.Address]++
			}
			for who, n := range got {
				if n != 1 || !ever[who] {
					t.Errorf("round %d: %s got %d messages, and is in the audience at some time: %t", round, who, n, ever[who])
				}
			}
			for who := range always {
				if got[who] != 1 {
					t.Errorf("round %d: %s got none, and is in the audience all the time", round, who)
				}
			}
		}
	})
}

// change moves a place, or writes a contact.
func (w world) change(r *rand.Rand) {
	if r.IntN(2) == 0 {
		w.place("valley", "", []string{"north", "south", ""}[r.IntN(3)])
		return
	}
	w.person(fmt.Sprintf("p%d", r.IntN(store.MemberPage+150)), fmt.Sprintf(`"place": %q, "persona": %q, "attributes": {"age": %d}`,
		[]string{"mill", "dale", "", "north", "hq"}[r.IntN(5)], []string{"Nurse", ""}[r.IntN(2)], 10+r.IntN(16)))
}

// within returns who is in the audience of TestPagesOfMixedSources now.
func (w world) within() map[string]bool {
	valley, err := w.Store.Record(w.Context(), w.Workspace.ID, subject.RecordRef{Type: subject.PlaceType, ExtID: "valley"})
	if err != nil {
		w.Fatal(err)
	}
	north := subject.PlaceOf(valley.Props).Parent == "north"
	all := map[string]bool{}
	rows, err := w.Store.Contacts(w.Context(), w.Workspace.ID, store.ContactFilter{}, store.Page{Limit: 10_000})
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range rows {
		age, _ := r.Attributes["age"].(json.Number)
		n, _ := age.Int64()
		if r.Persona == "Nurse" || n >= 18 || r.Place == "hq" || r.Place == "north" || north && (r.Place == "valley" || r.Place == "mill") {
			all[r.ExtID] = true
		}
	}
	return all
}

// Contacts and places are written while an occasion is taken up, all at once: nobody gets it twice, and nothing fails.
func TestPlacesUnderConcurrentWrites(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo(`[{place: north, below: true}, {place: south}]`, "---\nworkspace: default\ncadence: {max_per_day: 0}\n"))
		for _, p := range [][2]string{{"north", ""}, {"south", ""}, {"valley", "north"}, {"mill", "valley"}} {
			w.place(p[0], "", p[1])
		}
		w.many("p", store.MemberPage+100, func(i int) string { return fmt.Sprintf(`"place": %q`, []string{"mill", "south", "north"}[i%3]) })
		w.Post(`{"id": "1", "kind": "news"}`)
		var all sync.WaitGroup
		var failed sync.Map
		for n := range 2 {
			all.Go(func() {
				for round := range 10 {
					items := []contact.Item{}
					for i := range 10 {
						items = append(items, contact.Parse(fmt.Appendf(nil, `{"place": %q}`, []string{"mill", "south", "valley", ""}[(round+i)%4]), fmt.Sprint("p", (n*37+round*11+i*53)%600)))
					}
					if _, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Merge, items, w.Clock.Now(), nil); err != nil {
						failed.Store(err.Error(), true)
					}
				}
			})
		}
		all.Go(func() {
			for round := range 20 {
				item := record.Item{Type: subject.PlaceType, ID: "valley", Props: map[string]any{"parent": []string{"north", "south"}[round%2]}}
				if _, err := w.Records().Write(w.Context(), w.Workspace, upsert.Merge, []record.Item{item}, "ann", w.Clock.Now(), nil); err != nil {
					failed.Store(err.Error(), true)
				}
			}
		})
		all.Go(func() {
			x := fanout.New(s, catalog.New(s, loader.Options{}), nil, nil)
			for range 10 {
				if _, err := x.Step(t.Context(), w.Clock.Now(), 10); err != nil {
					failed.Store(err.Error(), true)
				}
			}
		})
		all.Wait()
		failed.Range(func(err, _ any) bool { t.Error(err); return true })
		w.live("10:05")
		seen := map[string]bool{}
		for _, m := range w.Provider.Sent() {
			if seen[m.Address] {
				t.Errorf("%s got it twice", m.Address)
			}
			seen[m.Address] = true
		}
		if len(seen) < 300 {
			t.Errorf("%d people got it", len(seen))
		}
	})
}
