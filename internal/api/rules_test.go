package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// node is a JSON object of the document.
type node map[string]any

func (n node) at(names ...string) node {
	for _, name := range names {
		next, _ := n[name].(map[string]any)
		n = next
	}
	return n
}

func rawDocument(t *testing.T) node {
	t.Helper()
	_, text := description(t)
	var doc node
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// eachObject calls f for every JSON object below v with its place.
func eachObject(v any, place string, f func(place string, n node)) {
	switch v := v.(type) {
	case map[string]any:
		f(place, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			eachObject(v[name], place+"/"+name, f)
		}
	case []any:
		for i, one := range v {
			eachObject(one, fmt.Sprintf("%s/%d", place, i), f)
		}
	}
}

// reached are the names of the schemas that v refers to, directly or through others.
func reached(doc node, v any, seen map[string]bool) map[string]bool {
	eachObject(v, "", func(_ string, n node) {
		ref, _ := n["$ref"].(string)
		if name := strings.TrimPrefix(ref, "#/components/schemas/"); ref != "" && !seen[name] {
			seen[name] = true
			reached(doc, map[string]any(doc.at("components", "schemas", name)), seen)
		}
	})
	return seen
}

// Clients are made from the document, so that it keeps rules of its own: answers are open and requests closed, what is one
// of several has names, no list is null, and everything is described.
func TestDescriptionIsForClients(t *testing.T) {
	t.Parallel()
	doc := rawDocument(t)
	asked, answered, tags := map[string]bool{}, map[string]bool{}, map[string]bool{}
	list, _ := doc["tags"].([]any)
	for _, tag := range list {
		one, _ := tag.(map[string]any)
		name, _ := one["name"].(string)
		if tags[name] = true; one["description"] == nil {
			t.Errorf("tag %s has no description", name)
		}
	}
	if servers, _ := doc["servers"].([]any); len(servers) != 1 {
		t.Errorf("servers: %v", doc["servers"])
	}
	used := map[string]bool{}
	for path, item := range doc.at("paths") {
		for method, op := range node(item.(map[string]any)) {
			op, place := node(op.(map[string]any)), method+" "+path
			if op["description"] == nil || op["summary"] == nil {
				t.Errorf("%s has no description", place)
			}
			for _, tag := range op["tags"].([]any) {
				if used[tag.(string)] = true; !tags[tag.(string)] {
					t.Errorf("%s has the tag %s, which is not described", place, tag)
				}
			}
			parameters, _ := op["parameters"].([]any)
			for _, one := range parameters {
				if p := node(one.(map[string]any)); p["description"] == nil {
					t.Errorf("%s: parameter %s has no description", place, p["name"])
				}
			}
			for kind, content := range op.at("requestBody", "content") {
				if schema := node(content.(map[string]any)).at("schema"); schema["$ref"] == nil {
					t.Errorf("%s: the schema of its body (%s) has no name", place, kind)
				}
			}
			reached(doc, map[string]any(op.at("requestBody")), asked)
			reached(doc, map[string]any(op.at("responses")), answered)
		}
	}
	for tag := range tags {
		if !used[tag] {
			t.Errorf("tag %s has no operation", tag)
		}
	}
	// What ADP Surveys takes is open, as that system passes over keys that it does not know. An item has fields of its caller.
	openRequests := []string{"SurveysRequestItem", "SurveysRecipient", "ItemInput"}
	for name, schema := range doc.at("components", "schemas") {
		s := node(schema.(map[string]any))
		if !asked[name] && !answered[name] {
			t.Errorf("nothing uses the schema %s", name)
		}
		if asked[name] && answered[name] {
			t.Errorf("%s travels both ways: it cannot be closed and open", name)
		}
		if s["type"] == "object" && len(s.at("properties")) > 0 {
			_, said := s["additionalProperties"]
			switch closed := said && s["additionalProperties"] == false; {
			case answered[name] && said:
				t.Errorf("%s is an answer and says additionalProperties", name)
			case asked[name] && !closed && !slices.Contains(openRequests, name):
				t.Errorf("%s is part of a request and is not closed", name)
			}
		}
		for field, p := range s.at("properties") {
			if node(p.(map[string]any))["description"] == nil {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
		eachObject(schema, name, func(place string, n node) {
			if kinds, ok := n["type"].([]any); ok && slices.Contains(kinds, any("null")) {
				t.Errorf("%s may be null", place)
			}
			if n["oneOf"] != nil && place != name {
				t.Errorf("%s is one of several and has no name", place)
			}
		})
	}
	for path, item := range doc.at("paths") {
		eachObject(item, path, func(place string, n node) {
			if n["oneOf"] != nil {
				t.Errorf("%s is one of several and has no name", place)
			}
		})
	}
}

// The names of operations are those of functions in generated clients: they stay. A new operation adds a line.
func TestOperationIDs(t *testing.T) {
	t.Parallel()
	var lines []string
	for path, item := range rawDocument(t).at("paths") {
		for method, op := range node(item.(map[string]any)) {
			lines = append(lines, fmt.Sprintf("%s %s %s\n", node(op.(map[string]any))["operationId"], strings.ToUpper(method), path))
		}
	}
	slices.Sort(lines)
	got, file := strings.Join(lines, ""), filepath.Join("testdata", "operations.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(want)) {
		if !strings.Contains(got, line) {
			t.Errorf("clients know %q, and the document no longer", strings.TrimSpace(line))
		}
	}
	if string(want) != got {
		t.Error("testdata/operations.txt is not current: go test ./internal/api -update")
	}
}
