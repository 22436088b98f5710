package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestEveryConstantIsListedOnce(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Reason" {
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared[word] = true
		}
		return true
	})
	if len(declared) < 30 {
		t.Fatalf("found only %d constants; the test reads the wrong file", len(declared))
	}
	snake := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	listed := map[string]bool{}
	for _, info := range All() {
		word := string(info.Reason)
		if listed[word] {
			t.Errorf("%s stands twice in the list", word)
		}
		listed[word] = true
		if !declared[word] {
			t.Errorf("%s is listed and has no constant", word)
		}
		if !snake.MatchString(word) {
			t.Errorf("%q is not snake_case", word)
		}
		if !strings.HasSuffix(info.Sentence, ".") {
			t.Errorf("%s: %q is not a sentence", word, info.Sentence)
		}
	}
	for word := range declared {
		if !listed[word] {
			t.Errorf("%s has no sentence", word)
		}
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	if got, want := Reason("stale").Sentence(), "It is later than catch_up allows."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Reason("nonsense").Sentence(), "nonsense"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
