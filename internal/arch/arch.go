// Package arch holds the architecture: which packages there are, what each is for and what it may import.
//
// Table is its single source. The test of this package checks every file of the module against it, and checks that the linter's rules in
// .golangci.yml follow from it. A package without a row fails the test, so a new package begins with a line here.
//
// It only parses source files, so it needs no network, works on code that does not compile yet and sees files behind build tags. It is
// not part of the product.
package arch

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ModulePath is the module that Table describes.
const ModulePath = "github.com/carillonhq/carillon"

// tableFile is named in findings, so that readers know which file to change.
const tableFile = "internal/arch/table.go"

// Check compares the module at root with the table and returns what departs from it, sorted, each finding beginning
// with the file or folder concerned. Modules nested in it are left out.
func Check(root string) ([]string, error) {
	c := verifier{root: root, fset: token.NewFileSet(), rows: Table(), documented: map[string]bool{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && skipped(name, d.Name()):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go"):
			return c.file(name)
		}
		return nil
	})
	for dir, documented := range c.documented {
		if !documented {
			c.report(dir, "no file begins with a package comment: what it is, what it is not, its invariants")
		}
	}
	slices.Sort(c.findings)
	return slices.Compact(c.findings), err
}

// skipped reports whether a folder has no packages of the module: it is a nested module, or the go command ignores it.
func skipped(dir, base string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || base == "testdata" || base == "vendor" || base == "node_modules" ||
		strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
}

type verifier struct {
	root       string
	fset       *token.FileSet
	rows       []Row
	documented map[string]bool // by folder: has a package comment
	findings   []string
}

func (c *verifier) report(where, format string, args ...any) {
	c.findings = append(c.findings, where+": "+fmt.Sprintf(format, args...))
}

func (c *verifier) file(name string) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(c.root, name)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	f, err := parser.ParseFile(c.fset, rel, src, parser.ParseComments|parser.SkipObjectResolution)
	if f == nil {
		return err
	} else if err != nil {
		c.report(rel, "%v", err) // and go on with the part that could be read
	}
	if lines := bytes.Count(src, []byte("\n")); lines > MaxLines && !ast.IsGenerated(f) && LongFiles()[rel] == "" {
		c.report(rel, "%d lines, more than %d: split it by aggregate, or give the reason in %s", lines, MaxLines, tableFile)
	}
	if strings.HasSuffix(rel, "_test.go") {
		return nil
	}
	dir := path.Dir(rel)
	c.documented[dir] = c.documented[dir] || f.Doc != nil
	row, ok := c.rowOf(importPath(dir))
	if !ok {
		c.report(dir, "stands in no row: say in %s what it is for and what it may import", tableFile)
		return nil
	}
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		if why := c.refuse(row, imp); why != "" {
			c.report(rel, "imports %s: %s", imp, why)
		}
	}
	if row.Layer == Pure {
		c.wallTime(rel, f)
	}
	return nil
}

// refuse returns why files of the row may not import imp; empty if they may.
func (c *verifier) refuse(row Row, imp string) string {
	switch {
	case row.Layer == Harness:
		return ""
	case imp == ModulePath || strings.HasPrefix(imp, ModulePath+"/"):
		target, ok := c.rowOf(imp)
		switch {
		case ok && target.Layer == Harness:
			return "it serves tests and is never part of the product"
		case !ok || !c.allows(row, target, imp):
			return "not among the imports of the row " + row.Path + " in " + tableFile
		}
	case isStd(imp):
		switch {
		case row.Layer == Pure && slices.Contains(ImpureStd(), imp):
			return "pure code decides, it does not reach out"
		case slices.Contains(UnwantedStd(), imp):
			return "no part of the product does"
		case row.Layer == Port && imp == "crypto/rand":
			return "chance comes from keyed hashes"
		}
	case below(imp, TestModules()):
		return "it serves tests and is never part of the product"
	case !below(imp, row.Modules):
		return "not among the modules of the row " + row.Path + " in " + tableFile
	}
	return ""
}

// allows reports whether the row lists imp, a package of the row target.
func (c *verifier) allows(row, target Row, imp string) bool {
	index := func(r Row) int { return slices.IndexFunc(c.rows, func(x Row) bool { return x.Path == r.Path }) }
	return slices.ContainsFunc(row.Imports, func(entry string) bool {
		switch entry {
		case "@pure", "@port":
			return entry == "@"+string(target.Layer)
		case "@above":
			return target.Layer == Pure && index(target) < index(row)
		}
		return entry == target.Path || Row{Path: entry}.importPath() == imp
	})
}

// rowOf finds the row of a package of the module; a row with its name goes before one with *.
func (c *verifier) rowOf(imp string) (Row, bool) {
	var found Row
	for _, r := range c.rows {
		rowPath := r.importPath()
		if rowPath == imp {
			return r, true
		}
		if folder, ok := strings.CutSuffix(rowPath, "/*"); ok && folder == path.Dir(imp) {
			found = r
		}
	}
	return found, found.Path != ""
}

func (c *verifier) wallTime(rel string, f *ast.File) {
	name := "" // of package time in this file
	for _, spec := range f.Imports {
		if spec.Path.Value == `"time"` {
			if name = "time"; spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && slices.Contains(WallTime(), sel.Sel.Name) {
			c.report(rel, "uses time.%s: pure code is given the instant and the zone", sel.Sel.Name)
		}
		return true
	})
}

func (r Row) importPath() string {
	if rest, ok := strings.CutPrefix(r.Path, "./"); ok {
		return importPath(rest)
	}
	return importPath("internal/" + r.Path)
}

func importPath(dir string) string { return path.Join(ModulePath, dir) }

// isStd relies on the rule that the first element of every other module's path has a dot.
func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

func below(imp string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") })
}

// validate finds mistakes in the table itself.
func validate(rows []Row) error {
	var errs []error
	c := verifier{rows: rows}
	groups := map[string]Layer{"@pure": Pure, "@port": Port, "@above": Pure}
	for i, r := range rows {
		if slices.ContainsFunc(rows[:i], func(x Row) bool { return x.Path == r.Path }) {
			errs = append(errs, fmt.Errorf("row %s is listed twice", r.Path))
		}
		if r.Purpose == "" {
			errs = append(errs, fmt.Errorf("row %s has no purpose", r.Path))
		}
		for _, entry := range r.Imports {
			layer := groups[entry]
			if layer == "" {
				target, _ := c.rowOf(Row{Path: entry}.importPath())
				layer = target.Layer
			}
			switch {
			case layer == "":
				errs = append(errs, fmt.Errorf("row %s imports %s, which is no row", r.Path, entry))
			case layer == Harness, r.Layer == Pure && layer != Pure, r.Layer == Port && layer == Shell:
				errs = append(errs, fmt.Errorf("row %s is %s and imports %s, which is %s", r.Path, r.Layer, entry, layer))
			}
		}
	}
	return errors.Join(errs...)
}
