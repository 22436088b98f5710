package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/api"
)

// No route has a fixed word where another one has an id: a thing with that id could not be reached.
func TestNoRouteHidesAnID(t *testing.T) {
	t.Parallel()
	routes := api.New(api.Deps{}).Routes()
	for _, r := range routes {
		for _, other := range routes {
			if word := hidden(r, other); word != "" {
				t.Errorf("%s %s hides the id %q of %s", r.Method, r.Path, word, other.Path)
			}
		}
	}
}

// hidden is the id that can be reached by one route only, although the other one is for it.
func hidden(r, other api.Route) (word string) {
	fixed, open := strings.Split(r.Path, "/"), strings.Split(other.Path, "/")
	if r.Method != other.Method || len(fixed) != len(open) {
		return ""
	}
	for i := range fixed {
		switch {
		case fixed[i] == open[i]:
		case strings.HasPrefix(open[i], "{") && !strings.HasPrefix(fixed[i], "{"):
			word = fixed[i]
		case !strings.HasPrefix(fixed[i], "{"):
			return ""
		}
	}
	return word
}

// Any id can be read again, also one that is the name of a list or of an action.
func TestContactsWithNamesOfRoutes(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	for _, id := range []string{"top", "limits", "suppress"} {
		if status, text := b.ask(http.MethodPut, "/v1/contacts/"+id, `{"name":"Ada"}`); status != http.StatusOK {
			t.Fatalf("%s: %d %s", id, status, text)
		}
		if status, text := b.ask(http.MethodGet, "/v1/contacts/"+id, ""); status != http.StatusOK || !strings.Contains(text, `"id":"`+id+`"`) {
			t.Errorf("%s: %d %s", id, status, text)
		}
	}
}
