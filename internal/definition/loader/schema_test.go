package loader_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := loader.Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("definition.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("definition.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func valid(t *testing.T, schema *jsonschema.Schema, n *portable.Node) error {
	t.Helper()
	text, err := json.Marshal(n.Value())
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

// TestSchemaAgreesWithTheLoader shows that editors and the loader accept and refuse the same keys.
func TestSchemaAgreesWithTheLoader(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	for _, file := range append(examples(t), read(t, "testdata/everything.yaml")...) {
		docs, _ := portable.Parse(string(file.Text))
		for _, d := range docs {
			if err := valid(t, schema, d.Root); err != nil {
				t.Errorf("%s:%d: %v", file.Name, d.Line, err)
			}
		}
	}
	docs, _ := portable.Parse(string(read(t, "testdata/everything.yaml")[0].Text))
	for _, d := range docs {
		maps := 0
		everyMap(d.Root, true, func(n *portable.Node) {
			maps++
			n.Fields = append(n.Fields, portable.Field{Key: scalar("q!"), Value: scalar("x")})
			if valid(t, schema, d.Root) == nil {
				t.Errorf("line %d: the schema accepts a key that the loader refuses", n.Pos.Line)
			}
			n.Fields = n.Fields[:len(n.Fields)-1]
		})
		if maps == 0 || valid(t, schema, d.Root) != nil {
			t.Errorf("line %d: %d maps tried", d.Line, maps)
		}
	}
}

func scalar(text string) *portable.Node {
	return &portable.Node{Kind: portable.Scalar, Style: portable.Quoted, Text: text}
}

// everyMap visits the maps whose keys are fixed.
func everyMap(n *portable.Node, fixed bool, visit func(*portable.Node)) {
	if n.Kind == portable.Map && fixed {
		visit(n)
	}
	for _, item := range n.Items {
		everyMap(item, true, visit)
	}
	for _, f := range n.Fields {
		switch name := f.Key.Text; {
		case name == "vars" || name == "settings":
		case slices.Contains([]string{"issues", "type_limits", "channels", "fields"}, name) && fixed:
			everyMap(f.Value, false, visit) // the author's names
		default:
			everyMap(f.Value, true, visit)
		}
	}
}
