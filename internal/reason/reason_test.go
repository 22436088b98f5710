package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
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
			t.Errorf("%s is listed twice", word)
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

// Every reason is given by something: by its constant, or as a word of SQL.
func TestEveryReasonIsGiven(t *testing.T) {
	t.Parallel()
	var product strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/reason/") {
			return err
		}
		text, err := os.ReadFile(path)
		product.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	for _, name := range regexp.MustCompile(`\breason\.[A-Z]\w+`).FindAllString(product.String(), -1) {
		given[name] = true
	}
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		word, ok := spec.Values[0].(*ast.BasicLit)
		if typ, isReason := spec.Type.(*ast.Ident); !ok || !isReason || typ.Name != "Reason" {
			return true
		}
		if sql := "'" + strings.Trim(word.Value, `"`) + "'"; !given["reason."+spec.Names[0].Name] && !strings.Contains(product.String(), sql) {
			t.Errorf("nothing gives the reason %s", word.Value)
		}
		return true
	})
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
