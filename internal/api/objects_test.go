package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/api"
)

// Every schema, every property of one and every header of an answer says what it is.
func TestEverythingHasADescription(t *testing.T) {
	t.Parallel()
	_, text := description(t)
	type described struct {
		Ref         string `json:"$ref"`
		Description string
		Properties  map[string]described
		Items       *described
	}
	var doc struct {
		Components struct{ Schemas map[string]described }
		Paths      map[string]map[string]struct {
			OperationID string
			Responses   map[string]struct {
				Description string
				Headers     map[string]described
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	says := func(where, what string) {
		t.Helper()
		if strings.TrimSpace(what) == "" || strings.HasSuffix(strings.TrimSpace(what), ",") {
			t.Errorf("%s has no description: internal/api/objects.go has those of objects, the tag doc those of fields", where)
		}
	}
	var inside func(where string, s described)
	inside = func(where string, s described) {
		for name, p := range s.Properties {
			says(where+"."+name, p.Description)
			inside(where+"."+name, p)
		}
		if s.Items != nil {
			inside(where, *s.Items)
		}
	}
	for name, s := range doc.Components.Schemas {
		says(name, s.Description)
		inside(name, s)
	}
	for name := range api.Objects() {
		if _, ok := doc.Components.Schemas[name]; !ok {
			t.Errorf("internal/api/objects.go describes %s, which the document does not have", name)
		}
	}
	headers := map[string]int{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			for status, res := range op.Responses {
				where := method + " " + path + " " + status
				says(where, res.Description)
				for name, h := range res.Headers {
					says(where+" "+name, h.Description)
					headers[name]++
				}
			}
		}
	}
	for _, name := range []string{"Idempotency-Replayed", "Retry-After", "WWW-Authenticate"} {
		if headers[name] == 0 {
			t.Errorf("no answer is described with the header %s", name)
		}
	}
}
