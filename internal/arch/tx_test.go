package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestTransactionsUseNothingElse holds the functions that are given a transaction to it: it carries its own context, the instant was read
// before it began, and a method of the store inside it would wait for itself.
func TestTransactionsUseNothingElse(t *testing.T) {
	t.Parallel()
	checked := 0
	err := filepath.WalkDir(filepath.Join(root, "internal", "engine"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			f, body := inTransaction(n)
			if f == nil {
				return true
			}
			checked++
			for _, p := range f.Params.List {
				if isSelector(p.Type, "context", "Context") {
					t.Errorf("%s: takes a context beside a transaction", files.Position(p.Pos()))
				}
			}
			ast.Inspect(body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if n.Name == "ctx" {
						t.Errorf("%s: a context is used inside a transaction", files.Position(n.Pos()))
					}
				case *ast.CallExpr:
					if what := forbiddenInside(n); what != "" {
						t.Errorf("%s: %s is called inside a transaction", files.Position(n.Pos()), what)
					}
				}
				return true
			})
			return false
		})
		return nil
	})
	if err != nil || checked < 3 {
		t.Errorf("%d functions with a transaction, %v", checked, err)
	}
}

// inTransaction returns a function that is given a *store.Tx.
func inTransaction(n ast.Node) (*ast.FuncType, *ast.BlockStmt) {
	var f *ast.FuncType
	var body *ast.BlockStmt
	switch n := n.(type) {
	case *ast.FuncDecl:
		f, body = n.Type, n.Body
	case *ast.FuncLit:
		f, body = n.Type, n.Body
	default:
		return nil, nil
	}
	for _, p := range f.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok && isSelector(star.X, "store", "Tx") {
			return f, body
		}
	}
	return nil, nil
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// forbiddenInside names a call that a transaction must not make: of a clock, or of the store. A new id is made without the database.
func forbiddenInside(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if sel.Sel.Name == "Now" || sel.Sel.Name == "Sleep" || sel.Sel.Name == "Since" {
		return "the clock (" + sel.Sel.Name + ")"
	}
	of, ok := sel.X.(*ast.SelectorExpr)
	if ok && strings.EqualFold(of.Sel.Name, "store") && sel.Sel.Name != "NewID" {
		return "the store (" + sel.Sel.Name + ")"
	}
	return ""
}
