// Package docs holds the pages of docs/ against the program, so that they cannot rot.
//
//   - A block of YAML is a definition without mistakes. One that begins with a comment naming a file is that file, and so is
//     a block of CSV, without the comment.
//   - A console is run, command by command, in a folder with the files of the page; what comes out must be what the page
//     shows, ids and instants aside. "…" stands for the rest of a line. A console that names examples has them beside it.
//   - A block of Go that begins with a comment naming a file is a program: it is built under the name that the page's "go build -o" gives it.
//   - An output names the test's file that holds it, where a page cannot bring it about.
//   - Lines of expressions and templates give the results behind their arrows.
//
// It knows nothing of what the pages say in prose.
package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/cli"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/subject"
)

const root = "../.."

var update = flag.Bool("update", false, "write what came out of the commands into the pages")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"carillon": func() {
			ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			context.AfterFunc(ctx, release)
			os.Exit(cli.Run(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		},
		"curl": curl,
	})
}

// TestPages runs what the pages show.
func TestPages(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			page(t, path)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func page(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := blocksOf(t, string(text))
	s := newShell(t, slices.ContainsFunc(blocks, func(b block) bool { return b.lang == "console" && b.lines[0] == "$ carillon serve" }))
	if slices.ContainsFunc(blocks, func(b block) bool { return b.lang == "console" && strings.Contains(b.text(), " examples") }) {
		if err := os.CopyFS(filepath.Join(s.dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
			t.Fatal(err)
		}
	}
	var ev subject.Event
	for _, b := range blocks {
		switch b.lang {
		case "yaml":
			if name := b.name(); name != "" {
				s.write(name, b.text())
			} else {
				loads(t, b)
			}
		case "go":
			if path, ok := strings.CutPrefix(b.lines[0], "// "); ok && strings.HasSuffix(path, ".go") {
				s.write(path, b.text())
				s.build(path, string(text))
			}
		case "csv":
			s.write(strings.TrimPrefix(b.lines[0], "# "), strings.Join(b.lines[1:], "\n")+"\n")
		case "json":
			if item := ingest.Parse(json.RawMessage(b.text()), pageNow()); item.Err == nil {
				ev = item.Event
			}
		case "expressions":
			for _, e := range examplesOf(t, b) {
				if got := evaluate(t, e.what, ev); got != e.result {
					t.Errorf("line %d: %s gives %s, not %s", e.line, e.what, got, e.result)
				}
			}
		case "liquid":
			for _, e := range examplesOf(t, b) {
				if got := render(t, e.what, ev); strings.TrimSpace(got) != e.result {
					t.Errorf("line %d: %s gives %q, not %q", e.line, e.what, got, e.result)
				}
			}
		case "console":
			for _, c := range commandsOf(b) {
				s.run(c)
			}
		}
	}
	if *update {
		s.update(path, string(text))
	}
}

// pageNow is when the event of a page came in.
func pageNow() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

// loads demands that a block is what it should be: settings are another test's business, scenarios too.
func loads(t *testing.T, b block) {
	t.Helper()
	docs, _ := portable.Parse(b.text())
	if len(docs) == 0 || docs[0].Root.Kind != portable.Map || strings.HasPrefix(b.lines[0], "# carillon.yaml") {
		return
	}
	_, problems := loader.Load(
		[]definition.File{{Name: fmt.Sprintf("line %d", b.first), Text: []byte(b.text())}}, app.DefinitionOptions(app.Providers(nil, nil)))
	for _, p := range problems {
		if p.Code != definition.CodeReference { // what a block names may be defined elsewhere
			t.Error(p)
		}
	}
}

func input(ev subject.Event) expr.Input {
	set := &definition.Set{Workspace: definition.Workspace{Timezone: "UTC", Locale: "en"}}
	return plan.Input(set, &definition.Workflow{ExtID: "w"}, plan.EventFields(ev), ev.ReceivedAt)
}

// evaluate writes a condition's verdict with its reason, or an expression's value.
func evaluate(t *testing.T, what string, ev subject.Event) string {
	t.Helper()
	c, err := expr.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	scope := expr.Scope{Event: true, Vars: true, Workspace: true, Now: true}
	var condition *expr.Condition
	if strings.HasPrefix(what, "{field:") {
		docs, _ := portable.Parse("when: " + what + "\n")
		when := docs[0].Root.Get("when")
		var value any
		if v := when.Get("value"); v != nil {
			value = v.Value()
		}
		condition, err = c.Simple(when.Get("field").Text, when.Get("op").Text, value, scope)
	} else if condition, err = c.Line(what, scope); err != nil {
		var p *expr.Program
		if p, err = c.Compile(what, scope, expr.Any); err == nil {
			return value(t, p, ev)
		}
	} else if p, err := c.Compile(what, scope, expr.Any); err == nil {
		if v, err := p.Eval(input(ev)); err == nil && v != nil && v != true && v != false {
			return value(t, p, ev)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	verdict := condition.Judge(input(ev))
	out := strconv.FormatBool(verdict.Met)
	if verdict.Reason != "" && verdict.Reason != "condition_false" {
		out += ", " + string(verdict.Reason)
	}
	return out
}

func value(t *testing.T, p *expr.Program, ev subject.Event) string {
	t.Helper()
	v, err := p.Eval(input(ev))
	if err != nil {
		t.Fatalf("%s: %v", p.Source(), err)
	}
	if items, ok := v.([]any); ok {
		texts := make([]string, len(items))
		for i, item := range items {
			texts[i] = fmt.Sprint(item)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

func render(t *testing.T, what string, ev subject.Event) string {
	t.Helper()
	tpl, err := message.Parse(what, message.Plain)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	out, err := tpl.Render(map[string]any{"event": plan.EventFields(ev)}, message.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return out
}

// TestReferenceNamesEverything holds the lists of the page against those by which the program guesses what was meant.
func TestReferenceNamesEverything(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "definitions.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, name := range namesIn(t, "../expr/errors.go", "functionNames") {
		if !strings.Contains(page, name+"(") {
			t.Errorf("the function %s is not on the page", name)
		}
	}
	for _, name := range namesIn(t, "../message/filters.go", "filterNames") {
		if !strings.Contains(page, "| "+name) && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the filter %s is not on the page", name)
		}
	}
	for _, name := range namesIn(t, "../message/tags.go", "tagNames") {
		divides := name == "else" || name == "elsif" || name == "when" || strings.HasPrefix(name, "end")
		if !divides && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the tag %s is not on the page", name)
		}
	}
	c, err := expr.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	var wrong *expr.Error
	if _, err := c.Simple("event.a", "~", nil, expr.Scope{Event: true}); !errors.As(err, &wrong) {
		t.Fatalf("an op that does not exist: %v", err)
	}
	for op := range strings.SplitSeq(strings.TrimPrefix(wrong.Hint, "ops are "), ", ") {
		if !strings.Contains(page, "op: "+op) {
			t.Errorf("the op %s is not on the page", op)
		}
	}
	for _, provider := range app.DefinitionOptions(app.Providers(nil, nil)).Providers {
		if !strings.Contains(page, "| `"+provider.Name+"` |") {
			t.Errorf("the provider %s is not on the page", provider.Name)
		}
		for _, setting := range provider.Settings {
			if !strings.Contains(page, "`"+setting.Name+"` (") {
				t.Errorf("the setting %s is not on the page", setting.Name)
			}
		}
	}
}

// namesIn returns the texts of a function's body.
func namesIn(t *testing.T, file, function string) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == function {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					name, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, name)
				}
				return true
			})
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s has no %s", file, function)
	}
	return names
}

// TestExamplesAreClean shows that a newcomer may check, test and apply the whole folder.
func TestExamplesAreClean(t *testing.T) {
	t.Parallel()
	s := newShell(t, true)
	if err := os.CopyFS(filepath.Join(s.dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	s.run(command{line: "export CARILLON_KEY=$(carillon keys create --name a --scopes admin)"})
	for _, c := range []struct{ line, out string }{
		{"carillon check examples", ": no errors"},
		{"carillon records put place north", ""}, // places are data, and an example names one
		{"carillon apply examples", "set 1 is in force."},
	} {
		if out := s.exec(c.line); !strings.Contains(out, c.out) || strings.Contains(out, ": warning: ") || strings.Contains(out, "!") {
			t.Errorf("%s:\n%s", c.line, out)
		}
	}
}
