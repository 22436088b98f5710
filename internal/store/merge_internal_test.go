package store

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/subject"
)

// Pages of any mix of sources, which contacts join and leave between two pages, give each contact once and in their order: everybody who was in one of the
// sources all the time, and nobody who was in none.
func TestPropertyPagesGiveEachOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const contacts = 40
		size := rapid.IntRange(1, 6).Draw(t, "size")
		sources := make([]map[subject.ContactID]bool, rapid.IntRange(1, 4).Draw(t, "sources"))
		in := func(id subject.ContactID) bool {
			return slices.ContainsFunc(sources, func(s map[subject.ContactID]bool) bool { return s[id] })
		}
		some := rapid.SliceOfN(rapid.IntRange(1, contacts), 0, 25)
		for i := range sources {
			sources[i] = map[subject.ContactID]bool{}
			for _, id := range some.Draw(t, "members") {
				sources[i][subject.ContactID(id)] = true
			}
		}
		always, ever := map[subject.ContactID]bool{}, map[subject.ContactID]bool{}
		for id := subject.ContactID(1); id <= contacts; id++ {
			always[id], ever[id] = in(id), in(id)
		}
		var given []subject.ContactID
		for after := subject.ContactID(0); ; {
			pages := make([][]subject.ContactID, len(sources))
			for i, s := range sources {
				for id := after + 1; id <= contacts && len(pages[i]) < size; id++ {
					if s[id] {
						pages[i] = append(pages[i], id)
					}
				}
			}
			ids, next := merge(pages, size)
			if len(ids) > size {
				t.Fatalf("a page of %d, not %d", len(ids), size)
			}
			given = append(given, ids...)
			if next == 0 {
				break
			}
			after = next
			for _, id := range rapid.SliceOfN(rapid.IntRange(1, contacts), 0, 6).Draw(t, "moves") {
				s := rapid.SampledFrom(sources).Draw(t, "of")
				s[subject.ContactID(id)] = !s[subject.ContactID(id)]
				if in(subject.ContactID(id)) {
					ever[subject.ContactID(id)] = true
				} else {
					always[subject.ContactID(id)] = false
				}
			}
		}
		if !slices.IsSorted(given) || len(slices.Compact(slices.Clone(given))) != len(given) {
			t.Fatalf("given %v", given)
		}
		for id := subject.ContactID(1); id <= contacts; id++ {
			if got := slices.Contains(given, id); got && !ever[id] || !got && always[id] {
				t.Fatalf("contact %d: given is %t, a member always %t, ever %t", id, got, always[id], ever[id])
			}
		}
	})
}
