package api_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/reason"
)

// sources calls f for every Go file below dir that is not a test.
func sources(t *testing.T, dir string, f func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		f(path, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// selected is the name behind a package's name and a dot.
func selected(e ast.Expr, pkg string) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); !ok || x.Name != pkg {
		return ""
	}
	return s.Sel.Name
}

// The list of codes is complete, nothing stands in it that is never answered, and every problem has the status that
// the list says.
func TestEveryCodeIsListed(t *testing.T) {
	t.Parallel()
	declared := map[string]string{} // constant → code
	sources(t, filepath.Join("..", "..", "client"), func(_ string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				code, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				declared[spec.Names[0].Name] = code
			}
			return true
		})
	})
	if len(declared) < 15 {
		t.Fatalf("found only %d constants", len(declared))
	}
	listed := map[string]client.Code{}
	for i, c := range client.Codes() {
		if _, twice := listed[c.Code]; twice {
			t.Errorf("%s is listed twice", c.Code)
		}
		listed[c.Code] = c
		if c.Meaning == "" || c.Remedy == "" || http.StatusText(c.Status) == "" {
			t.Errorf("%+v is not complete", c)
		}
		if i > 0 && c.Status < client.Codes()[i-1].Status {
			t.Errorf("%s does not stand in the order of status", c.Code)
		}
	}
	used := map[string]bool{}
	statuses := statusNames()
	sources(t, "..", func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if name := selected(e, "client"); strings.HasPrefix(name, "Code") {
					used[name] = true
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			status := statuses[selected(call.Args[0], "http")]
			for _, arg := range call.Args[1:3] {
				if name := selected(arg, "client"); status != 0 && strings.HasPrefix(name, "Code") && listed[declared[name]].Status != status {
					t.Errorf("%s: %s is answered with %d, the list says %d", path, name, status, listed[declared[name]].Status)
				}
			}
			return true
		})
	})
	for name, code := range declared {
		if _, ok := listed[code]; !ok {
			t.Errorf("%s is not in the list", name)
		}
		_, isReason := reason.Lookup(reason.Reason(code))
		if !used[name] && !isReason {
			t.Errorf("%s is never answered", name)
		}
		delete(listed, code)
	}
	for code := range listed {
		t.Errorf("%s has no constant", code)
	}
}

// statusNames finds the number of http.StatusBadRequest and its like.
func statusNames() map[string]int {
	names := map[string]int{}
	for status := 400; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			names["Status"+strings.NewReplacer(" ", "", "-", "", "'", "").Replace(text)] = status
		}
	}
	names["StatusInternalServerError"] = http.StatusInternalServerError
	return names
}

// The reasons for which an event that comes alone is refused are codes.
func TestRefusalsAreCodes(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{}
	for _, c := range client.Codes() {
		codes[c.Code] = true
	}
	found := 0
	sources(t, filepath.Join("..", "engine", "service", "ingest"), func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			constant := selected(e, "reason")
			for _, info := range reason.All() {
				if constant == camel(string(info.Reason)) && (info.Class == reason.Rejected || info.Reason == reason.NoRecipient) {
					found++
					if !codes[string(info.Reason)] {
						t.Errorf("%s: %s refuses events and is no code", path, info.Reason)
					}
				}
			}
			return true
		})
	})
	if found < 4 {
		t.Errorf("found %d reasons; the test looks in the wrong place", found)
	}
}

// camel is the constant of a reason.
func camel(word string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(word, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

func TestReferenceOfErrors(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`# Errors

<!-- Made from client/codes.go: go test ./internal/api -update -->

An error is a problem (RFC 9457) of the type ` + "`application/problem+json`" + `. Programs branch on ` + "`code`" + `; ` + "`detail`" + `
and ` + "`hint`" + ` are for people and may change. ` + "`field`" + ` says where: ` + "`body.events`, `query.limit`, `header.…`" + `. A problem never
repeats values of the request, and what it is about was not done, not even in part.

` + "```json" + `
{"type": "urn:carillon:problem:invalid_event", "title": "Unprocessable Entity", "status": 422, "code": "invalid_event",
 "detail": "the kind of the event is missing", "field": "body.kind", "hint": "such as \"service-visit-closed\""}
` + "```" + `

| status | code | meaning | what to do |
|---|---|---|---|
`)
	for _, c := range client.Codes() {
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", c.Status, c.Code, c.Meaning, c.Remedy)
	}
	b.WriteString(`
Headers beyond 64 KiB, or that take longer than ten seconds, end the connection before anybody could answer in JSON.
Answers that do not come from Carillon (a proxy's page) have no ` + "`code`" + `; the Go client calls them ` + "`unexpected_answer`" + `.
`)
	path := filepath.Join("..", "..", "docs", "reference", "errors.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Error("docs/reference/errors.md is not current: go test ./internal/api -update")
	}
}
