package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
)

// A statement takes statuses and reasons from the constants of literals.go, so that none is misspelled and each use is found.
func TestStatementsSpellNoStatus(t *testing.T) {
	t.Parallel()
	var words []string
	for _, s := range delivery.Statuses() {
		words = append(words, string(s))
	}
	for _, s := range instance.Statuses() {
		words = append(words, string(s))
	}
	for _, r := range reason.All() {
		words = append(words, string(r.Reason))
	}
	quoted := regexp.MustCompile(`'([a-z_]+)'`)
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, m := range quoted.FindAllStringSubmatch(lit.Value, -1) {
				if slices.Contains(words, m[1]) {
					t.Errorf("%s: a statement spells %s: use the constant of literals.go", files.Position(lit.Pos()), m[0])
				}
			}
			return true
		})
	}
}
