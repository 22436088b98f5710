package api_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/webtest"
)

// What a program that was made from the document prints after its typed calls: the change of definitions, the events created
// and met again, the tries of a delivery twice and their outcome, the items of ADP Surveys, and a problem.
const wantOfClients = "added 1 1 1 1 delivered 1 404 not_found"

// TestGeneratedTypeScript makes a TypeScript client from the served document and has its typed calls answered.
func TestGeneratedTypeScript(t *testing.T) {
	t.Parallel()
	once(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing: no TypeScript client was made from the OpenAPI document")
	}
	modules := webtest.Packages(t, filepath.Join("testdata", "clients", "typescript"), "no TypeScript client was made from the OpenAPI document")
	b := setup(t, "sqlite")
	dir := b.beside("typescript")
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	bin := func(name string) string { return filepath.Join(modules, ".bin", name) }
	run(t, dir, bin("openapi-typescript"), "openapi.json", "-o", "carillon.d.ts")
	run(t, dir, bin("tsc"), "-p", ".")
	if got := run(t, dir, node, filepath.Join("out", "main.js"), b.app.URL(), b.key); got != wantOfClients {
		t.Errorf("got  %s\nwant %s", got, wantOfClients)
	}
}

// TestDocumentLinters has two linters of OpenAPI documents find nothing. Their 240 packages are installed where
// "make openapi" asks for them.
func TestDocumentLinters(t *testing.T) {
	t.Parallel()
	if os.Getenv("CARILLON_LINT_OPENAPI") == "" {
		t.Skip("make openapi runs it")
	}
	modules := webtest.Packages(t, filepath.Join("testdata", "clients", "lint"), "the OpenAPI document was not linted")
	dir := setup(t, "sqlite").beside("lint")
	bin := func(name string) string { return filepath.Join(modules, ".bin", name) }
	for _, linter := range [][]string{
		{bin("redocly"), "lint", "--extends=recommended-strict", "--max-problems=20", "openapi.json"}, // warnings are errors
		{bin("spectral"), "lint", "--fail-severity=hint", "--ruleset=spectral.yaml", "openapi.json"},
	} {
		t.Log(run(t, dir, linter[0], linter[1:]...))
	}
}

// TestGeneratedGo does the same with a Go client that oapi-codegen makes. Its module is its own, so that its libraries are
// none of the product's.
func TestGeneratedGo(t *testing.T) {
	t.Parallel()
	once(t)
	b := setup(t, "sqlite")
	dir := b.beside("go")
	have := exec.CommandContext(t.Context(), "go", "list", "-deps", "tool")
	have.Dir = dir
	if out, err := have.CombinedOutput(); err != nil {
		t.Skipf("no Go client was made from the OpenAPI document: oapi-codegen cannot be had: %s", out)
	}
	run(t, dir, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", "carillon.go", "openapi.json")
	if got := run(t, dir, "go", "run", ".", b.app.URL(), b.key); got != wantOfClients {
		t.Errorf("got  %s\nwant %s", got, wantOfClients)
	}
}

// once leaves the clients to the run that is not about PostgreSQL: to make them takes half a minute, and no database.
func once(t *testing.T) {
	t.Helper()
	if os.Getenv("CARILLON_TEST_DB") == "postgres" {
		t.Skip("the clients are made in the run on SQLite")
	}
}

// beside copies a folder of testdata/clients and puts the served document into it.
func (b *bundle) beside(name string) string {
	b.Helper()
	dir := b.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "clients", name))); err != nil {
		b.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.app.URL()+"/openapi.json", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "openapi.json"), raw, 0o600); err != nil {
		b.Fatal(err)
	}
	return dir
}

// run returns what a program writes to its standard output. The go command reports downloads on the other one.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir, c.Stderr = dir, &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, out, &stderr)
	}
	return strings.TrimSpace(string(out))
}
