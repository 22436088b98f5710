package portable_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon/internal/definition/portable"
)

func TestValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"plain":                   {"a: x y # no", `{"a":"x y"}`},
		"plain over lines":        {"a: x\n  y\n\n  z\nb: 1", `{"a":"x y\nz","b":1}`},
		"numbers as written":      {"a: 1.10\nb: -0\nc: 1e3", `{"a":1.10,"b":-0,"c":1e3}`},
		"true, false, null":       {"a: true\nb: false\nc: null", `{"a":true,"b":false,"c":null}`},
		"quoted are texts":        {`a: "true"` + "\nb: '1'", `{"a":"true","b":"1"}`},
		"times, dates, offsets":   {"a: 10:00\nb: 2026-01-01\nc: -2d\nd: +3d", `{"a":"10:00","b":"2026-01-01","c":"-2d","d":"+3d"}`},
		"single quotes":           {"a: 'it''s'", `{"a":"it's"}`},
		"escapes":                 {`a: "\t\"\\\/\u00e9\x41\ud83d\ude00\U0001F600"`, `{"a":"\t\"\\/éA😀😀"}`},
		"quoted over lines":       {"a: \"x  \n\n  y \\\n  z\"", `{"a":"x\ny z"}`},
		"escaped blank stays":     {"a: \"x\\ \n  y\"", `{"a":"x  y"}`},
		"list":                    {"- a\n- - b\n  - c\n-\n  d: e\n  f: g", `["a",["b","c"],{"d":"e","f":"g"}]`},
		"list under its key":      {"a:\n- x\n- z\nb: c", `{"a":["x","z"],"b":"c"}`},
		"flow":                    {"a: [x, {b: c, 'd': \"e\"}, [1, true], ]\nf: {}\ng: []", `{"a":["x",{"b":"c","d":"e"},[1,true]],"f":{},"g":[]}`},
		"flow over lines":         {"a: [x, # one\n  z,\n]\nb: {\n  c: d\n}", `{"a":["x","z"],"b":{"c":"d"}}`},
		"JSON":                    {`{"a": [1, "x", null, true], "b": {"c": -1.5e3}}`, `{"a":[1,"x",null,true],"b":{"c":-1.5e3}}`},
		"literal":                 {"a: |\n  x\n    y\n\n  z # kept\n\nb: c", `{"a":"x\n  y\n\nz # kept\n","b":"c"}`},
		"literal, strip and keep": {"a: |-\n  x\n\nb: |+\n  x\n\nc: |2\n   x\n", `{"a":"x","b":"x\n\n","c":" x\n"}`},
		"folded":                  {"a: >\n  x\n  y\n\n  z\n    more\n  end\n", `{"a":"x y\nz\n  more\nend\n"}`},
		"colon without a blank":   {"a: http://x:1/#y", `{"a":"http://x:1/#y"}`},
		"quoted key":              {"\"a: b\" : c", `{"a: b":"c"}`},
		"Windows":                 {"\ufeffa: b\r\nc: |\r\n  d\r\n", `{"a":"b","c":"d\n"}`},
		"Liquid in JSON":          {`{"a": {"b": "{{ c }}"}}`, `{"a":{"b":"{{ c }}"}}`},
		"Liquid in an inline map": {`a: {b: "{{ c }}", d: '{% if e %}f{% endif %}'}`, `{"a":{"b":"{{ c }}","d":"{% if e %}f{% endif %}"}}`},
		"keys of data":            {"payload:\n  n: 1\n  on: {y: [{off: x}], +1: z}\n  0123: a", `{"payload":{"0123":"a","n":1,"on":{"+1":"z","y":[{"off":"x"}]}}}`},
		"keys of data, inline":    {"do: [{event: e, payload: {n: 1}}, {set: {Yes: 2}, replace: {~: 4}}]\nanswers: {no: 3}", `{"answers":{"no":3},"do":[{"event":"e","payload":{"n":1}},{"replace":{"~":4},"set":{"Yes":2}}]}`},
		"comments":                {"# x\na: # y\n  # z\n  b: c\n# end", `{"a":{"b":"c"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, problems := portable.Parse(tc.text)
			if len(problems) > 0 || len(docs) != 1 {
				t.Fatalf("%d documents, problems %v", len(docs), problems)
			}
			if got := asJSON(t, docs[0].Root); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func asJSON(t *testing.T, n *portable.Node) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(n.Value()); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"tag", "a: !b", "1:4 a value beginning with ! is a YAML tag"},
		{"anchor", "a: &b c", "1:4 a value beginning with & is a YAML anchor"},
		{"alias", "a: *b", "1:4 a value beginning with * is a YAML alias"},
		{"merge key", "a:\n  <<: b\n  c: d", "2:3 << is a YAML merge key"},
		{"merge key in braces", "a: {<<: b, c: d}", "1:5 << is a YAML merge key"},
		{"duplicate key", "a: 1\nb: 2\na: 3", `3:1 duplicate key "a"`},
		{"duplicate key in braces", "x: {a: 1, a: 3}", `1:11 duplicate key "a"`},
		{"plus", "a: +1", "1:4 +1 looks like a number but is not one that every reader reads alike"},
		{"octal", "a: 0123", "1:4 0123 looks like a number but is not one that every reader reads alike"},
		{"hexadecimal", "a: 0x1F", "1:4 0x1F looks like a number but is not one that every reader reads alike"},
		{"underscore", "a: 1_000", "1:4 1_000 looks like a number but is not one that every reader reads alike"},
		{"bare point", "a: [.5, 5.]", "1:5 .5 looks like a number but is not one that every reader reads alike; 1:9 5. looks like a number but is not one that every reader reads alike"},
		{"infinity", "a: -.inf", "1:4 -.inf looks like a number but is not one that every reader reads alike"},
		{"yes", "a: yes", "1:4 yes means true or false to some YAML readers"},
		{"Norway", "a: {no: x}", "1:5 no means true or false to some YAML readers"},
		{"on", "on: x\nb: c", "1:1 on means true or false to some YAML readers"},
		{"a value of data", "payload: {n: yes}\nset:\n  on: off", "1:14 yes means true or false to some YAML readers; 3:7 off means true or false to some YAML readers"},
		{"a key beside data", "payload: {n: 1}\nn: x", "2:1 n means true or false to some YAML readers"},
		{"a key beside data, inline", "a: {set: {b: c}, on: d}", "1:18 on means true or false to some YAML readers"},
		{"merge key of data", "payload: {<<: b}", "1:11 << is a YAML merge key"},
		{"True", "a: True", "1:4 True means true or false to some YAML readers"},
		{"tilde", "a: ~", "1:4 ~ means null to some YAML readers"},
		{"empty", "a:\nb: c", `1:1 "a" has no value`},
		{"empty at the end", "b: c\na: # x", `2:1 "a" has no value`},
		{"empty item", "a:\n  -\n  - b", "2:3 this item is empty"},
		{"empty in braces", "a: {b: , c: d}", `1:5 "b" has no value`},
		{"no blank after the colon", "a: {b:1}", `1:5 "b:1" has no value`},
		{"colon in a value", "a: b: c", `1:5 ": " inside a value begins a map`},
		{"Liquid", "a: {{ b }}", "1:4 a text with Liquid stands in quotes or in a | block"},
		{"Liquid tag", "a: {% if b %}", "1:4 a text with Liquid stands in quotes or in a | block"},
		{"bare Liquid in an inline map", `a: {b: {{ c }} }`, "1:8 a text with Liquid stands in quotes or in a | block"},
		{"greater", "a: > 20", "1:4 a value beginning with > is a block of text in the lines below"},
		{"explicit key", "? a\n: b", "1:1 a value beginning with ? is a YAML key"},
		{"reserved", "a: @b\nc: `d\ne: %f", "1:4 a value cannot begin with @; 2:4 a value cannot begin with `; 3:4 a value cannot begin with %"},
		{"text after a quote", `a: "b" == c`, "1:8 a value cannot go on after the closing quote"},
		{"text after a bracket", `a: [b].c`, "1:7 a value cannot go on after the closing bracket"},
		{"open quote", "a: \"b\nc: d", "1:4 this quote is not closed"},
		{"open bracket", "a: [b,\nc: d", "1:4 ] is missing"},
		{"no comma", "a: [b c\n  d]", "2:3 a comma or ] is missing here"},
		{"map in a list", "a: [b: c]", "1:6 a map in a list is written in braces"},
		{"list on the key's line", "a: - b", "1:4 a list begins on a line of its own"},
		{"tab", "a:\n\tb: c", "2:1 a tab cannot indent"},
		{"deeper", "a: b\n  c: d\ne: f", "2:3 this line is indented too far"},
		{"shallower", "  a: b\nc: d", "1:3 this line is indented too far"},
		{"nothing above it", "'a'\nb: c", "2:1 this line belongs to nothing above it"},
		{"a key below items", "a:\n  - b\n  c: d\n  - e\nf: g", "3:3 this line is no item of the list above it"},
		{"a list below its key", "a:\n- b\nc: d\n- e", "4:1 a list item among the keys of a map"},
		{"no blank after a dash", "a:\n  -b: c\n    d: e\nf: g", "2:3 a blank is missing after the dash"},
		{"no colon, first", "a:\n  b\n  c: d", "2:3 a key and a colon are missing here"},
		{"no colon above a list", "a: b\nc\n  - d: e\n  - f\ng: h", "2:1 a key and a colon are missing here"},
		{"no blank", "a: b\nc:d\n", "2:1 a blank is missing after the colon"},
		{"too few dashes", "a: b\n--\nc: d", "2:1 -- does not part two documents"},
		{"too many dashes", "a: b\n-----\nc: d", "2:1 ----- does not part two documents"},
		{"a long dash", "a: b\n—\nc: d", "2:1 — does not part two documents"},
		{"no line of their own", "a: b\n---c: d", "2:1 a document begins on the line after ---"},
		{"indented dashes", "a:\n  b: c\n  ---\nd: e", "3:3 --- parts two documents only in the first column"},
		{"list among keys", "a: b\n- c", "2:1 a list item among the keys of a map"},
		{"no colon", "a: b\nc", "2:1 a key and a colon are missing here"},
		{"escape", `a: "\q"`, `1:5 \q is no escape`},
		{"half a surrogate", `a: "\ud800"`, "1:5 this escape names no character"},
		{"NUL", `a: "\u0000"`, "1:5 this escape names no character"},
		{"control character", "a: b\nc: \x07", "2:4 the control character U+0007 cannot stand in a definition"},
		{"not UTF-8", "a: \xff", "1:4 this is not UTF-8"},
		{"directive", "%YAML 1.2\n---\na: b", "1:1 a value cannot begin with %"},
		{"text after ---", "--- a\nb: c", "1:1 a document begins on the line after ---"},
		{"empty block", "a: |\nb: c", "1:4 this block of text is empty"},
		{"several", "a: !x\nb: yes\nc: [1, +2]\nd: e", "1:4 a value beginning with ! is a YAML tag; 2:4 yes means true or false to some YAML readers; 3:8 +2 looks like a number but is not one that every reader reads alike"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := portable.Parse(tc.text)
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Message))
			}
			if diff := cmp.Diff(strings.Split(tc.want, "; "), got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A line in a wrong column is named itself, with the column to write it in, and read all the same.
func TestIndentation(t *testing.T) {
	t.Parallel()
	const far, little = "this line is indented too far", "this line is indented too little"
	for _, tc := range []struct{ name, text, want, read string }{
		{"a key in the middle", "a:\n  b: 1\n    c: 2\n  d: 3", "3:5 " + far + ` | begin it in column 3, as "b" in line 2 does`, `{"a":{"b":1,"c":2,"d":3}}`},
		{"several", "a: 1\n  b: 2\n  c:\n    - 3\nd: 4", "2:3 " + far + ` | begin it in column 1, as "a" in line 1 does`, `{"a":1,"b":2,"c":[3],"d":4}`},
		{"after a text", "a:\n  b: one two\n    c: 2", "3:5 " + far + ` | begin it in column 3, as "b" in line 2 does; a text of several lines stands in a | block`, `{"a":{"b":"one two","c":2}}`},
		{"the first key", "a:\n    b: 1\n  c: 2\n  d: 3\ne:\n  f: 4", "2:5 " + far + ` | begin it in column 3, as "c" in line 3 does`, `{"a":{"b":1,"c":2,"d":3},"e":{"f":4}}`},
		{"the first two", "a:\n    b: 1\n    c: 2\n  d: 3\ne:\n  f: 4", "2:5 " + far + ` | begin it in column 3, as "d" in line 4 does`, `{"a":{"b":1,"c":2,"d":3},"e":{"f":4}}`},
		{"the first key of all", "   a: 1\nb: 2", "1:4 " + far + ` | begin it in column 1, as "b" in line 2 does`, `{"a":1,"b":2}`},
		{"too little", "a:\n  b: 1\n c: 2\n  d: 3", "3:2 " + little + ` | begin it in column 3, as "b" in line 2 does, or in column 1, as "a" in line 1 does`, `{"a":{"b":1,"c":2,"d":3}}`},
		{"between two levels", "a:\n  b:\n    c: 1\n   d: 2", "4:4 " + little + ` | begin it in column 5, as "c" in line 3 does, or in column 3, as "b" in line 2 does`, `{"a":{"b":{"c":1,"d":2}}}`},
		{"too little after a dash", "a:\n  - b: 1\n   c: 2\n   d: 3", "3:4 " + little + ` | begin it in column 5, as "b" in line 2 does`, `{"a":[{"b":1,"c":2,"d":3}]}`},
		{"too far after a dash", "a:\n  - b: 1\n      c: 2\n    d: 3", "3:7 " + far + ` | begin it in column 5, as "b" in line 2 does`, `{"a":[{"b":1,"c":2,"d":3}]}`},
		{"a dash too far", "a:\n  - b\n    - c\n  - d", "3:5 " + far + ` | begin it in column 3, as the dash in line 2 does`, `{"a":["b","c","d"]}`},
		{"a dash too little", "a:\n  - b\n - c", "3:2 " + little + ` | begin it in column 3, as the dash in line 2 does`, `{"a":["b","c"]}`},
		{"a key in a list", "a:\n  - b\n     c: d", "3:6 " + far + ` | begin it in column 3, as the dash in line 2 does`, `{"a":["b"]}`},
		{"one there already", "a: 1\n  a: 2", "2:3 " + far + ` | begin it in column 1, as "a" in line 1 does`, `{"a":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			docs, problems := portable.Parse(tc.text)
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d %s | %s", p.Line, p.Column, p.Message, p.Hint))
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if len(docs) == 0 {
				t.Fatal("nothing was read")
			}
			if got := asJSON(t, docs[0].Root); got != tc.read {
				t.Errorf("read %s, want %s", got, tc.read)
			}
		})
	}
}

// TestWhatIsReadBesideAMistake shows that one mistake makes one value unreadable.
func TestWhatIsReadBesideAMistake(t *testing.T) {
	t.Parallel()
	docs, problems := portable.Parse("a: !x\n  y: z\nb:\n  - c\n  - yes\nno: d\n---\ne: f\n")
	if len(problems) != 3 || len(docs) != 2 {
		t.Fatalf("%d documents, problems %v", len(docs), problems)
	}
	root := docs[0].Root
	if root.Get("a").Kind != portable.Broken || root.Get("b").Items[1].Kind != portable.Broken || !root.Partial {
		t.Errorf("the broken places are not marked: %+v", root)
	}
	if got := asJSON(t, docs[1].Root); got != `{"e":"f"}` || docs[1].Line != 8 || docs[1].Text != "e: f\n" {
		t.Errorf("second document: %s, line %d, text %q", got, docs[1].Line, docs[1].Text)
	}
}

func TestAt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, find string
		want             portable.Pos
	}{
		{"plain", "a: one two", "two", portable.Pos{Line: 1, Column: 8}},
		{"plain, next line", "a: one\n   two", "two", portable.Pos{Line: 2, Column: 4}},
		{"wide characters", "a: نعم x", "x", portable.Pos{Line: 1, Column: 8}},
		{"quoted", `a: "one two"`, "two", portable.Pos{Line: 1, Column: 9}},
		{"behind an escape", `a: "\u00e9\n two"`, "two", portable.Pos{Line: 1, Column: 14}},
		{"behind a doubled quote", `a: 'it''s two'`, "two", portable.Pos{Line: 1, Column: 11}},
		{"block", "a: |\n\n  one\n  two", "two", portable.Pos{Line: 4, Column: 3}},
		{"folded", "a: >\n  one\n  two", "two", portable.Pos{Line: 3, Column: 3}},
		{"flow", "a: [x, {b: one two}]", "two", portable.Pos{Line: 1, Column: 16}},
		{"second document", "x: z\n---\na: two", "two", portable.Pos{Line: 3, Column: 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			docs, problems := portable.Parse(tc.text)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			n := docs[len(docs)-1].Root.Get("a")
			if n.Kind == portable.List {
				n = n.Items[1].Get("b")
			}
			if got := n.At(strings.Index(n.Text, tc.find)); got != tc.want {
				t.Errorf("%q stands at %v, want %v", tc.find, got, tc.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("- ", portable.MaxDepth)
	for _, tc := range []struct {
		name, text string
		want       string // part of the only problem; empty for none
	}{
		{"size", strings.Repeat("#", portable.MaxSize), ""},
		{"over the size", strings.Repeat("#", portable.MaxSize+1), "larger than"},
		{"depth", deep + "x", ""},
		{"over the depth", deep + "- x", "levels"},
		{"over the depth in brackets", "a: " + strings.Repeat("[", 100_000), "levels"},
		{"over the depth in lines", lines(100, func(i int) string { return strings.Repeat(" ", i) + "a:" }), "levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := portable.Parse(tc.text)
			switch {
			case tc.want == "" && len(problems) > 0:
				t.Errorf("problems %v", problems)
			case tc.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Message, tc.want)):
				t.Errorf("problems %v, want one with %q", problems, tc.want)
			}
		})
	}
	_, problems := portable.Parse(strings.Repeat("- yes\n", 1000))
	if len(problems) != portable.MaxProblems+1 {
		t.Errorf("%d problems, want %d and a last word", len(problems), portable.MaxProblems)
	}
}

func lines(n int, line func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

// FuzzParse holds every reading against a second reader of YAML: what is accepted means the same to both.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../../examples/*.yaml", "../loader/testdata/errors/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	for _, seed := range []string{
		"a: |2-\n   x\n\n  y\n", "a: >+\n  x\n\n   y\n  z\n\n", "a: \"x\n\n  y\\\n  z\"", "- - a: b\n    c: d\n  - e", "a: [x, {b: c}]\nd: 'e\n  f'",
		"a: 1E444", "a: {?: c}", "a: [?m]", "a: <<", "0: >\n 0\n  \n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, problems := portable.Parse(text)
		count := strings.Count(text, "\n") + 1
		inside := func(p portable.Pos) {
			if p.Line < 1 || p.Line > count || p.Column < 1 || p.Column > len(text)+1 {
				t.Fatalf("position %v lies outside of a text of %d lines", p, count)
			}
		}
		for _, p := range problems {
			inside(p.Pos)
		}
		for _, d := range docs {
			walk(d.Root, func(n *portable.Node) {
				inside(n.Pos)
				for i := range min(len(n.Text), 100) {
					inside(n.At(i))
				}
				inside(n.At(len(n.Text)))
			})
		}
		if len(problems) == 0 && len(docs) == 1 && docs[0].Root.Kind == portable.Map {
			second(t, docs[0])
		}
	})
}

func walk(n *portable.Node, visit func(*portable.Node)) {
	visit(n)
	for _, item := range n.Items {
		walk(item, visit)
	}
	for _, f := range n.Fields {
		walk(f.Key, visit)
		walk(f.Value, visit)
	}
}

// second holds a document against another reader, where that accepts it: the same texts in the same places, and what
// is a text to us is no number, truth value or null to it.
func second(t *testing.T, d portable.Document) {
	t.Helper()
	var theirs yaml.Node
	if err := yaml.Unmarshal([]byte(d.Text), &theirs); err != nil || len(theirs.Content) == 0 {
		return
	}
	if diff := cmp.Diff(fromTheirs(theirs.Content[0]), fromOurs(d.Root)); diff != "" {
		t.Fatalf("%q reads differently (-theirs +ours):\n%s", d.Text, diff)
	}
}

type scalar struct{ Text, Kind string }

func fromOurs(n *portable.Node) any {
	switch n.Kind {
	case portable.List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = fromOurs(item)
		}
		return list
	case portable.Map:
		m := map[string]any{}
		for _, f := range n.Fields {
			m[f.Key.Text] = fromOurs(f.Value)
		}
		return m
	case portable.Scalar, portable.Broken:
	}
	kind := "text"
	if _, ok := n.Value().(string); !ok {
		kind = "other"
	}
	return scalar{n.Text, kind}
}

func fromTheirs(n *yaml.Node) any {
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = fromTheirs(item)
		}
		return list
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = fromTheirs(n.Content[i+1])
		}
		return m
	}
	kind := "other"
	if n.Tag == "!!str" || n.Tag == "!!timestamp" { // dates are texts to us, written as dates (docs/reference/definitions.md, Values)
		kind = "text"
	}
	return scalar{n.Value, kind}
}
