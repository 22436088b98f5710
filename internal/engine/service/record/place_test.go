package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// placing writes places in one call, "name parent" each, or "-name" to delete it, and returns what was refused.
type placing struct {
	testing.TB
	w  *Writer
	ws store.Workspace
}

func newPlacing(t testing.TB, s *store.Store) placing {
	t.Helper()
	ws, err := s.EnsureWorkspace(t.Context(), "w", []byte("0123456789abcdef0123456789abcdef"), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return placing{t, New(s, catalog.New(s, loader.Options{})), ws}
}

func (p placing) write(list ...string) (refused []string) {
	p.Helper()
	var items []Item
	mode := upsert.Replace
	for _, text := range list {
		name, parent, _ := strings.Cut(text, " ")
		if strings.HasPrefix(name, "-") {
			name, mode = name[1:], upsert.Delete
		}
		props := map[string]any{}
		if parent != "" {
			props["parent"] = parent
		}
		items = append(items, Item{Type: subject.PlaceType, ID: name, Props: props})
	}
	results, err := p.w.Write(p.Context(), p.ws, mode, items, "ann", time.Unix(1, 0), nil)
	if err != nil {
		p.Error(err)
	}
	for _, r := range results {
		if r.Error != nil {
			refused = append(refused, r.Error.Error())
		}
	}
	return refused
}

// A place above itself is refused, whichever writes lead to that, and so is a path of too many places. A parent that does not exist yet is none.
func TestPlacesStayATree(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		p := newPlacing(t, s)
		const above = "props.parent: puts %s above itself: %s"
		refusal := func(name, path string) string { return fmt.Sprintf(above, name, path) }
		for i, test := range []struct{ write, want []string }{
			{[]string{"boston ma", "ma usa", "usa"}, nil},
			{[]string{"usa usa"}, []string{refusal("usa", "usa is in usa")}},
			{[]string{"usa boston"}, []string{refusal("usa", "usa is in boston is in ma is in usa")}},
			{[]string{"x y", "y z", "z x"}, []string{refusal("z", "z is in x is in y is in z")}},
			{[]string{"z x"}, []string{refusal("z", "z is in x is in y is in z")}},
			{[]string{"x", "z x"}, nil}, // an item sees the changes of the earlier ones
			{[]string{"-ma"}, nil},
			{[]string{"usa boston"}, nil}, // ma is gone, and boston is at the top
			{[]string{"ma usa"}, []string{refusal("ma", "ma is in usa is in boston is in ma")}},
			{[]string{"ma"}, nil},
		} {
			if got := p.write(test.write...); !slices.Equal(got, test.want) {
				t.Errorf("%d: %q, want %q", i, got, test.want)
			}
		}
		var chain []string
		for i := range subject.MaxPlaces {
			chain = append(chain, fmt.Sprintf("c%d c%d", i, i+1))
		}
		long := fmt.Sprintf("props.parent: makes a path of %d places from the lowest one to the top, and there are at most %d", subject.MaxPlaces+1, subject.MaxPlaces)
		if got := p.write(append(chain, fmt.Sprintf("c%d", subject.MaxPlaces))...); !slices.Equal(got, []string{long}) {
			t.Errorf("the place at the top of too many: %q", got)
		}
		for _, below := range []string{"under c0", fmt.Sprintf("c%d more", subject.MaxPlaces-1)} {
			p.write("more")
			if got := p.write(below); !slices.Equal(got, []string{long}) {
				t.Errorf("%s: %q", below, got)
			}
		}
		if got := p.write("d0 d1", "d1 c20"); len(got) != 0 {
			t.Errorf("%q", got)
		}
		for _, wrong := range []string{`{"parent": 7}`, `{"type": ["clinic"]}`} {
			item := Parse(json.RawMessage(`{"id": "odd", "type": "place", "props": `+wrong+`}`), "", "")
			results, err := p.w.Write(t.Context(), p.ws, upsert.Merge, []Item{item}, "ann", time.Unix(1, 0), nil)
			if err != nil || results[0].Error == nil || !strings.Contains(results[0].Error.Error(), "and of a place it is a text") {
				t.Errorf("%s: %v, %v", wrong, results, err)
			}
		}
	})
}

// Two calls that would close a circle together: one of them is refused, in whichever order they come.
func TestConcurrentMovesOfPlaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		p := newPlacing(t, s)
		for round := range 20 {
			a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
			p.write(a, b)
			var refused [2][]string
			var all sync.WaitGroup
			for i, move := range []string{a + " " + b, b + " " + a} {
				all.Go(func() { refused[i] = p.write(move) })
			}
			all.Wait()
			if len(refused[0])+len(refused[1]) != 1 {
				t.Fatalf("round %d: %q", round, refused)
			}
		}
	})
}
