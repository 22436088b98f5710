package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// place is a place as tests write it: its name, its type and the place above.
type place struct{ name, kind, parent string }

// places writes places; one of the type "gone" is deleted.
func (f fixture) places(of ...place) {
	f.Helper()
	refs := make([]subject.RecordRef, len(of))
	for i, p := range of {
		refs[i] = subject.RecordRef{Type: subject.PlaceType, ExtID: p.name}
	}
	f.writeRecords(now, refs, func(known map[subject.RecordRef]store.RecordRow) (writes []store.RecordRow) {
		for i, ref := range refs {
			row := known[ref]
			row.Type, row.ExtID, row.Deleted = ref.Type, ref.ExtID, of[i].kind == "gone"
			row.Props = map[string]any{"type": of[i].kind, "parent": of[i].parent}
			writes = append(writes, row)
		}
		return writes
	})
}

// names are the ids of the caller of the members of a page.
func names(people store.People) []string {
	all := []string{}
	for _, p := range people.Members {
		if p.Found {
			all = append(all, p.ExtID)
		}
	}
	return all
}

// The page of an audience with places is the merge of these with personas and groups, each person once, in the order of ids.
//
// Shows: D20.
func TestMembersOfPlaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.places(place{"boston", "city", "ma"}, place{"ma", "state", "usa"}, place{"usa", "country", "nowhere"}, place{"salem", "city", "ma"}, place{"mgh", "clinic", "boston"})
		var refs []store.RecipientRef
		for _, name := range []string{"ann", "bob", "cy", "di", "eve", "flo"} {
			refs = append(refs, person(name, ""))
		}
		f.ingest(ingestRequest{Recipients: refs}, func(ingestState) (w store.OccasionWrites, err error) { return w, nil })
		for name, at := range map[string]string{"ann": "mgh", "bob": "boston", "cy": "salem", "di": "usa", "eve": "atlantis"} {
			f.exec(`UPDATE contact SET place = '` + at + `' WHERE ext_id = '` + name + `'`)
		}
		f.exec(`UPDATE contact SET timezone = 'Asia/Tokyo' WHERE ext_id IN ('ann', 'di')`)
		f.exec(`UPDATE contact SET persona = 'Nurse' WHERE ext_id IN ('ann', 'flo')`)
		below := func(name string, types ...string) store.PlaceRef {
			return store.PlaceRef{Name: name, Below: true, Types: types}
		}
		check := func(want map[string][]string) {
			t.Helper()
			for text, test := range map[string]store.Audience{
				"one":           {Places: []store.PlaceRef{{Name: "boston"}}},
				"below":         {Places: []store.PlaceRef{below("ma")}},
				"all below":     {Places: []store.PlaceRef{below("usa")}},
				"unknown":       {Places: []store.PlaceRef{{Name: "atlantis"}, below("atlantis"), below("nowhere")}},
				"types":         {Places: []store.PlaceRef{below("usa", "clinic", "country", "clinic")}},
				"two":           {Places: []store.PlaceRef{{Name: "usa"}, below("boston"), {Name: "boston"}}},
				"and a persona": {Places: []store.PlaceRef{{Name: "salem"}}, Personas: []string{"Nurse"}},
				"zone":          {Places: []store.PlaceRef{{Name: "usa"}, {Name: "salem"}}, Zone: "Asia/Tokyo"},
				"zone below":    {Places: []store.PlaceRef{below("ma")}, Zone: "Asia/Tokyo"},
				"homeless":      {Places: []store.PlaceRef{below("usa", "city")}, Zone: "Asia/Tokyo", Homeless: true},
				"after":         {Places: []store.PlaceRef{below("usa")}, After: f.contactRow("bob").ID},
				"everybody":     {Places: []store.PlaceRef{{Name: "usa"}}, Everyone: true},
				"above":         {Places: []store.PlaceRef{{Name: "mgh", Above: true}}},
				"above a type":  {Places: []store.PlaceRef{{Name: "mgh", Above: true, Types: []string{"country", "clinic"}}, {Name: "salem"}}},
				"above a home":  {Places: []store.PlaceRef{{Contact: "ann", Above: true, Types: []string{"country"}}, {Contact: "bob", Above: true}}},
				"above nothing": {Places: []store.PlaceRef{{Name: "usa", Above: true}, {Name: "atlantis", Above: true}, {Contact: "eve", Above: true}, {Contact: "flo", Above: true}, {Contact: "x", Above: true}}},
			} {
				if got := names(f.audience(test)); want[text] != nil && !slices.Equal(got, want[text]) {
					t.Errorf("%s: %v, want %v", text, got, want[text])
				}
			}
		}
		check(map[string][]string{
			"one": {"bob"}, "below": {"ann", "bob", "cy"}, "all below": {"ann", "bob", "cy", "di"}, "unknown": {}, "types": {"ann", "di"}, "two": {"ann", "bob", "di"},
			"and a persona": {"ann", "cy", "flo"}, "zone": {"di"}, "zone below": {"ann"}, "homeless": {"bob", "cy"}, "after": {"cy", "di"},
			"everybody": {"ann", "bob", "cy", "di", "eve", "flo"}, "above": {"bob"}, "above a type": {"cy", "di"}, "above a home": {"di"}, "above nothing": {},
		})
		ann := f.audience(store.Audience{Places: []store.PlaceRef{{Name: "mgh"}}}).Members[0]
		if diff := cmp.Diff([]string{"mgh", "boston", "ma", "usa"}, ann.Within); diff != "" || ann.PlaceType != "clinic" {
			t.Errorf("ann is within %v, in a %s", ann.Within, ann.PlaceType)
		}
		f.places(place{"boston", "city", "usa"}) // everything below moves with it
		check(map[string][]string{"below": {"cy"}, "all below": {"ann", "bob", "cy", "di"}, "types": {"ann", "di"}})
		f.places(place{"boston", "gone", ""})
		check(map[string][]string{"one": {}, "all below": {"cy", "di"}, "two": {"di"}})
		f.places(place{"boston", "clinic", "ma"}, place{"atlantis", "", ""})
		check(map[string][]string{"below": {"ann", "bob", "cy"}, "unknown": {"eve"}, "types": {"ann", "bob", "di"}})
	})
}

// The people of a place with those below are the same whichever way they are found: few are sorted, and many are met in the order of contacts.
func TestPagesOfManyBelow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.places(place{"top", "", ""}, place{"a", "x", "top"}, place{"b", "y", "a"}, place{"other", "", ""})
		many := store.FewBelow + 700
		var refs []store.RecipientRef
		for i := range many {
			refs = append(refs, person(fmt.Sprintf("c%05d", i), ""))
		}
		for chunk := range slices.Chunk(refs, 1000) {
			f.ingest(ingestRequest{Recipients: chunk}, func(ingestState) (w store.OccasionWrites, err error) { return w, nil })
		}
		f.exec(`UPDATE contact SET place = CASE WHEN id % 3 = 0 THEN 'a' ELSE 'b' END, timezone = CASE WHEN id % 2 = 0 THEN 'UTC' ELSE 'Asia/Tokyo' END`)
		f.exec(`UPDATE contact SET place = 'other' WHERE ext_id = 'c00007'`)
		everybody, err := s.Contacts(t.Context(), f.ws, store.ContactFilter{}, store.Page{Limit: 2 * many})
		f.must(err)
		for name, test := range map[string]struct {
			audience store.Audience
			has      func(subject.ContactRow) bool
		}{
			"all":     {store.Audience{Places: []store.PlaceRef{{Name: "top", Below: true}}}, func(c subject.ContactRow) bool { return c.Place != "other" }},
			"types":   {store.Audience{Places: []store.PlaceRef{{Name: "top", Below: true, Types: []string{"x"}}}}, func(c subject.ContactRow) bool { return c.Place == "a" }},
			"in zone": {store.Audience{Places: []store.PlaceRef{{Name: "top", Below: true}, {Name: "other"}}, Zone: "UTC"}, func(c subject.ContactRow) bool { return c.Timezone == "UTC" }},
		} {
			want := 0
			for _, c := range everybody {
				if test.has(c) {
					want++
				}
			}
			seen, pages := map[string]bool{}, 0
			for a := test.audience; ; pages++ {
				people := f.audience(a)
				for _, p := range people.Members {
					if seen[p.ExtID] {
						t.Fatalf("%s: %s twice", name, p.ExtID)
					}
					seen[p.ExtID] = true
				}
				if a.After = people.After; a.After == 0 {
					break
				}
			}
			if len(seen) != want || seen["c00007"] != (name == "in zone" && f.contactRow("c00007").Timezone == "UTC") {
				t.Errorf("%s: %d people in %d pages, want %d", name, len(seen), pages+1, want)
			}
		}
	})
}

// The paths and heights of places are those of the tree, after any writes, also with circles of an older program.
func TestPlacesAreATree(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		n := 0
		check := func(seed uint64) bool {
			r := rand.New(rand.NewPCG(seed, 1))
			n++
			tree := subject.Places{}
			name := func(i int) string { return fmt.Sprint("p", n, "-", i) }
			for i := range 12 {
				if r.IntN(5) > 0 {
					p := place{name(i), strconv.Itoa(r.IntN(3)), ""}
					if r.IntN(4) > 0 {
						p.parent = name(r.IntN(12))
					}
					f.places(p)
					tree[p.name] = subject.Place{Type: p.kind, Parent: p.parent}
				}
			}
			if gone := name(r.IntN(12)); tree[gone] != (subject.Place{}) {
				f.places(place{gone, "gone", ""})
				delete(tree, gone)
			}
			for i := range 12 {
				f.must(s.Read(t.Context(), func(tx *store.Tx) error {
					places, err := tx.PlacesAbove(f.ws, []string{name(i)})
					if diff := cmp.Diff(tree.Path(name(i)), places.Path(name(i))); diff != "" {
						t.Errorf("seed %d: the path of %s (-want +got):\n%s", seed, name(i), diff)
					}
					return err
				}))
			}
			return !t.Failed()
		}
		if err := quick.Check(check, &quick.Config{MaxCount: 20}); err != nil {
			t.Error(err)
		}
		f.places(place{"a", "", ""}, place{"b", "", "a"}, place{"c", "", "b"}, place{"d", "", "a"}, place{"x", "", "y"}, place{"y", "", "x"})
		f.must(s.Read(t.Context(), func(tx *store.Tx) error {
			got, err := tx.HeightsOfPlaces(f.ws, []string{"a", "b", "c", "none", "x"})
			if diff := cmp.Diff(map[string]int{"a": 2, "b": 1, "x": subject.MaxPlaces}, got); diff != "" {
				t.Errorf("heights (-want +got):\n%s", diff)
			}
			return err
		}))
	})
}
