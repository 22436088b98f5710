package sim

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition/portable"
)

func TestEditPath(t *testing.T) {
	t.Parallel()
	const before = "workflow: a\ntriggers:\n  - id: one\n    when: event.x == 1\n  - id: two\ntiming:\n  at: \"09:00\"\nempty: {}\nnone: []\ntext: |\n  two: \n  lines\n"
	tests := []struct{ name, path, value, want string }{
		{"a key", "workflow", "b", "workflow: b"},
		{"a nested key", "timing.at", "\"07:00\"", "  at: \"07:00\""},
		{"a new key below new ones", "a.b.c", "1.10", "a:\n  b:\n    c: 1.10"},
		{"an entry of a list by its id", "triggers.two.when", "event.y", "  - id: two\n    when: event.y"},
		{"a whole entry", "triggers.one", "{id: three}", "  - id: three"},
		{"a list", "timing.offset", "[-30d, -7d]", "  offset:\n    - -30d\n    - -7d"},
		{"no such entry", "triggers.three.when", "x", `nothing in the list has the id "three"`},
		{"below a value", "workflow.x", "x", `"x" lies below a value`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root, value := parsed(t, before), parsed(t, "v: "+test.value+"\n").Get("v")
			changed := clone(root)
			var b bytes.Buffer
			if err := setPath(changed, test.path, value); err != nil {
				b.WriteString(err.Error())
			} else {
				writeBlock(&b, changed, 0)
				if diff := cmp.Diff(changed.Value(), parsed(t, b.String()).Value()); diff != "" {
					t.Errorf("read back otherwise (-set +read):\n%s", diff)
				}
			}
			if !strings.Contains("\n"+b.String(), "\n"+test.want) {
				t.Errorf("got\n%s\nwant in it\n%s", &b, test.want)
			}
			if diff := cmp.Diff(parsed(t, before).Value(), root.Value()); diff != "" {
				t.Errorf("the original was changed:\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, text string) *portable.Node {
	t.Helper()
	docs, problems := portable.Parse(text)
	if len(problems) > 0 {
		t.Fatalf("%q: %v", text, problems)
	}
	return docs[0].Root
}

func TestScalarText(t *testing.T) {
	t.Parallel()
	texts := []string{
		"plain", "two words.", "a: b", "a #b", "yes", "none", "null", "", " ", "1", "1.10", "2026-06-01", "10:05", "+49", "a\nb", "a\nb\n",
		"a\n\n", "a \nb", "\ta", "\u200b", "\"", "'", "a\\b", "{x}", "[x]", "- a", "a -b", "%", "@a", "é ü", "كيف كانت", "🎉", "a\r\nb", "#", "a:", "|", "a,b",
	}
	for _, text := range texts {
		for _, flow := range []bool{false, true} {
			written := scalarText(text, flow, 2)
			yaml := "a:\n  b: " + written + "\n"
			if flow {
				yaml = "a: {b: " + written + "}\n"
			}
			if got := parsed(t, yaml).Get("a").Get("b").Text; got != text {
				t.Errorf("%q written as %s reads as %q (in braces: %t)", text, written, got, flow)
			}
		}
	}
}

func FuzzScalarText(f *testing.F) {
	f.Add("a: b\n c", true)
	f.Add("two\nlines\n", false)
	f.Fuzz(func(t *testing.T, text string, flow bool) {
		if strings.ToValidUTF8(text, "") != text || strings.ContainsRune(text, 0) {
			t.Skip()
		}
		yaml := "a:\n  b: " + scalarText(text, false, 2) + "\n"
		if flow {
			yaml = "a: {b: " + scalarText(text, true, 2) + "}\n"
		}
		docs, problems := portable.Parse(yaml)
		if len(problems) > 0 {
			t.Fatalf("%q: %v in\n%s", text, problems, yaml)
		}
		if got := docs[0].Root.Get("a").Get("b").Text; got != text {
			t.Errorf("%q reads as %q in\n%s", text, got, yaml)
		}
	})
}
