package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
)

//nolint:gochecknoglobals // the flag of go test
var update = flag.Bool("update", false, "write the reference page")

// document is the part of an OpenAPI document that the page shows.
type document struct {
	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Summary     string
	Description string
	Tags        []string
	Scope       string `json:"x-scope"`
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                schema
	}
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema schema }
	}
}

type schema struct {
	Ref         string `json:"$ref"`
	Type        any
	Description string
	Format      string
	Enum        []any
	Default     any
	Items       *schema
	Properties  map[string]schema
	Required    []string
	OneOf       []schema
}

func description(t *testing.T) (document, string) {
	t.Helper()
	raw, err := api.New(api.Deps{Version: "test"}).Description()
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d, string(raw)
}

// The description is complete and true: every route that needs a key stands in it with its scope, and errors are
// problems. Nothing points to another host.
func TestDescription(t *testing.T) {
	t.Parallel()
	d, text := description(t)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %s", d.OpenAPI)
	}
	described := 0
	for _, r := range api.New(api.Deps{}).Routes() {
		if r.Scope == "" && !r.Signed {
			continue
		}
		described++
		op, ok := d.Paths[r.Path][strings.ToLower(r.Method)]
		if !ok || op.Scope != string(r.Scope) || op.Summary == "" {
			t.Errorf("%s %s is described as %+v", r.Method, r.Path, op)
			continue
		}
		for name, res := range op.Responses {
			for kind, content := range res.Content {
				if name == "default" && (kind != client.ProblemType || content.Schema.Ref != "#/components/schemas/Problem") {
					t.Errorf("%s %s: errors are described as %s %+v", r.Method, r.Path, kind, content)
				}
			}
		}
	}
	for _, ops := range d.Paths {
		described -= len(ops)
	}
	if described != 0 {
		t.Error("it describes routes that are not there")
	}
	for _, foreign := range []string{"$schema", "http://", "https://", "ErrorModel"} {
		if strings.Contains(text, foreign) {
			t.Errorf("the description holds %s", foreign)
		}
	}
	for _, name := range []string{"Problem", "Event", "EventsAnswer", "DeliveryDetail"} {
		if _, ok := d.Components.Schemas[name]; !ok {
			t.Errorf("there is no schema %s", name)
		}
	}
}

func TestDescriptionIsServed(t *testing.T) {
	t.Parallel()
	routes := api.New(api.Deps{Log: slog.New(slog.DiscardHandler)})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	if w := get("/openapi.json"); w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
		t.Errorf("got %d %.100s", w.Code, w.Body)
	}
	for _, path := range []string{"/schemas/Problem", "/openapi.yaml"} {
		if w := get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
}

const marker = "<!-- What follows is made from the API's description: go test ./internal/api -update -->\n"

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "docs", "reference", "http-api.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	prose, generated, ok := strings.Cut(string(raw), marker)
	if !ok {
		t.Fatalf("%s has no marker", page)
	}
	d, _ := description(t)
	want := reference(d)
	if *update {
		if err := os.WriteFile(page, []byte(prose+marker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if generated != want {
		t.Error("docs/reference/http-api.md is not current: go test ./internal/api -update")
	}
}

// reference writes the routes, then the objects.
func reference(d document) string {
	var b strings.Builder
	b.WriteString("\n## Routes\n")
	group := ""
	for _, r := range api.New(api.Deps{}).Routes() {
		op, ok := d.Paths[r.Path][strings.ToLower(r.Method)]
		if !ok {
			continue
		}
		if op.Tags[0] != group {
			group = op.Tags[0]
			if group == "adp-surveys" {
				b.WriteString("\n### In the words of ADP Surveys\n")
			} else {
				fmt.Fprintf(&b, "\n### Routes for %s\n", group)
			}
		}
		needs := "Scope `" + op.Scope + "`"
		if r.Signed {
			needs = "It needs no key: it is signed"
		}
		fmt.Fprintf(&b, "\n#### `%s %s`\n\n%s. %s.\n", r.Method, r.Path, op.Summary, needs)
		if op.Description != "" {
			b.WriteString(op.Description + "\n")
		}
		writeParameters(&b, op)
		if body, ok := op.RequestBody.Content["application/json"]; ok {
			fmt.Fprintf(&b, "\nBody: %s\n", typeOf(body.Schema))
		}
		if _, empty := op.Responses["204"]; empty {
			b.WriteString("\nAnswer: 204, without a body\n")
		}
		for kind, content := range op.Responses["200"].Content {
			if kind != "application/json" {
				fmt.Fprintf(&b, "\nAnswer: `%s`\n", kind)
				continue
			}
			fmt.Fprintf(&b, "\nAnswer: %s\n", typeOf(content.Schema))
		}
	}
	b.WriteString("\n## Objects\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		if len(s.OneOf) > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n%s One of: %s.\n", name, s.Description, typeOf(s))
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", name, s.Description)
		if len(s.Properties) > 0 {
			b.WriteString("\n| field | type | |\n|---|---|---|\n")
		}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			always := ""
			if slices.Contains(s.Required, field) {
				always = "always there. "
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field, typeOf(p), strings.TrimSpace(always+p.Description))
		}
	}
	return b.String()
}

func writeParameters(b *strings.Builder, op operation) {
	head := false
	for _, p := range op.Parameters {
		if p.In != "query" {
			continue
		}
		if !head {
			head = true
			b.WriteString("\n| query | type | |\n|---|---|---|\n")
		}
		text := p.Description
		if p.Schema.Default != nil {
			text += fmt.Sprintf(" Default %v.", p.Schema.Default)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, typeOf(p.Schema), strings.TrimSpace(text))
	}
}

func typeOf(s schema) string {
	kinds := []string{}
	switch kind := s.Type.(type) {
	case string:
		kinds = append(kinds, kind)
	case []any:
		for _, k := range kind {
			if k != "null" {
				kinds = append(kinds, fmt.Sprint(k))
			}
		}
	}
	kind := strings.Join(kinds, " or ")
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case len(s.OneOf) > 0:
		var all []string
		for _, one := range s.OneOf {
			all = append(all, typeOf(one))
		}
		return strings.Join(all, ", or ")
	case kind == "array" && s.Items != nil:
		return "list of " + typeOf(*s.Items)
	case len(s.Enum) > 0:
		var all []string
		for _, one := range s.Enum {
			all = append(all, fmt.Sprintf("`%v`", one))
		}
		return strings.Join(all, " ")
	case s.Format == "date-time":
		return "instant"
	case kind == "object" && len(s.Properties) > 0:
		var all []string
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			all = append(all, fmt.Sprintf("`%s`: %s", name, typeOf(s.Properties[name])))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case kind == "":
		return "any"
	case kind == "boolean":
		return "true or false"
	case kind == "string":
		return "text"
	case kind == "integer":
		return "number"
	}
	return kind
}
