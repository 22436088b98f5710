package audience

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Pages of people who are named one by one, by a list that changes between two pages and whatever a page costs, give each name once: all that were
// on the list all the time, and none that never was. Members come when all names are done.
func TestPropertyNamesComeOnce(t *testing.T) {
	t.Parallel()
	addresses := key.NewKeyed([]byte("secret"), key.PurposeAddress)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		list, always, ever := map[string]bool{}, map[string]bool{}, map[string]bool{}
		names := rapid.SliceOfN(rapid.IntRange(1, 30), 0, 25)
		for _, n := range names.Draw(t, "names") {
			list[fmt.Sprint("c-", n)] = true
		}
		maps.Copy(always, list)
		maps.Copy(ever, list)
		var given []string
		for cursor, pages := subject.ContactID(0), 0; ; pages++ {
			if pages > 100 {
				t.Fatal("there is no end to it")
			}
			p := Plan{input: expr.Input{Meter: &expr.Meter{}}}
			p.Personas = []string{"Mother"}
			var all []named
			for _, id := range slices.Sorted(maps.Keys(list)) {
				target := plan.Target{ID: id}
				if rank := rankOf(target); rank > -cursor {
					all = append(all, named{target: target, rank: rank})
				}
			}
			p.name(addresses, all, size)
			var people store.People
			for i, ref := range p.Refs {
				people.Persons = append(people.Persons, delivery.Person{Contact: subject.Contact{ID: subject.ContactID(i + 1), ExtID: ref.ExtID}, Found: true})
			}
			if p.ranked && rapid.Bool().Draw(t, "costly") {
				p.input.Meter.Steps = expr.PageLimit + 1
			}
			recipients, after := p.Recipients(people)
			if len(recipients) > size {
				t.Fatalf("a page of %d, not %d", len(recipients), size)
			}
			for _, r := range recipients {
				given = append(given, r.Person.ExtID)
			}
			if after == 0 {
				if len(p.Personas) == 0 || len(recipients) < len(p.Refs) {
					t.Fatal("the members are left out")
				}
				break
			}
			if after >= cursor {
				t.Fatalf("from %d to %d", cursor, after)
			}
			cursor = after
			for _, n := range rapid.SliceOfN(rapid.IntRange(1, 30), 0, 5).Draw(t, "moves") {
				id := fmt.Sprint("c-", n)
				if list[id] {
					delete(list, id)
					delete(always, id)
				} else {
					list[id], ever[id] = true, true
				}
			}
		}
		slices.Sort(given)
		if len(slices.Compact(slices.Clone(given))) != len(given) {
			t.Fatalf("given %v", given)
		}
		for id := range always {
			if !slices.Contains(given, id) {
				t.Fatalf("%s is passed over: %v", id, given)
			}
		}
		for _, id := range given {
			if !ever[id] {
				t.Fatalf("%s was never named", id)
			}
		}
	})
}
