package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/sim"
)

type checkCmd struct {
	Paths []string `arg:"" name:"path" help:"Files, or folders with everything below them."`
	jsonOnly
}

// Help is the long help.
func (checkCmd) Help() string {
	return `Reads every .yaml, .yml and .json file and prints each fault as file:line:column, with the remedy below it.
Nothing is changed and no server is needed. It also says where people meet limits that nobody has set.

Exit status: 0 all can be applied · 1 there is an error (a warning is none).`
}

// Run checks files.
func (c *checkCmd) Run(s *session) error {
	files, err := readDefinitions(c.Paths)
	if err != nil {
		return err
	}
	bundle, problems := definition.Load(files, app.DefinitionOptions(app.Providers(nil, nil)))
	for _, scenario := range bundle.Scenarios {
		problems = append(problems, sim.Check(scenario)...)
	}
	wire := make([]client.DefinitionProblem, len(problems))
	errs := 0
	for i, p := range problems {
		wire[i] = client.DefinitionProblem{File: p.File, Line: p.Line, Column: p.Column, Code: p.Code, Message: p.Message, Hint: p.Hint, Warning: p.Warning}
		if !p.Warning {
			errs++
		}
	}
	var limited, ringing []string
	if errs == 0 && !workspaceBeside(c.Paths, bundle) {
		limited, ringing = bundle.Set.LimitedByDefault(), bundle.Set.RingsByDefault()
	}
	if c.JSON {
		out := map[string]any{"definitions": len(bundle.Documents), "scenarios": len(bundle.Scenarios), "problems": wire}
		if limited != nil {
			out["default_limits"] = limited
		}
		if err := printJSON(s.Out, out); err != nil {
			return err
		}
	} else {
		for _, p := range wire {
			fmt.Fprintln(s.Out, problemText(p))
		}
	}
	if errs > 0 {
		if !c.JSON {
			s.note("%s in %s", count(errs, "error"), count(len(files), "file"))
		}
		return exit(ExitFailed)
	}
	if !c.JSON {
		s.note("%s", summary(bundle, len(problems)))
		if limited != nil {
			p := bundle.Set.Workspace.Cadence
			s.note("default limits (%s): %d a day and %d a week to a person; set cadence: in the workspace", strings.Join(limited, ", "), p.MaxPerDay, p.MaxPerWeek)
			if len(ringing) > 0 {
				s.note("what waits for them comes by %s at 00:00: write resume_at there, or limits: {send_window: \"08:00-20:00\"} in the workflow", strings.Join(ringing, " and "))
			}
		}
	}
	return nil
}

// workspaceBeside reports whether only files were given, and a workspace is defined in another file of their folders: its
// limits are not known here, and those that hold without any are not these files' own.
func workspaceBeside(paths []string, given definition.Bundle) bool {
	isWorkspace := func(d definition.Document) bool { return d.Kind == definition.KindWorkspace }
	if slices.ContainsFunc(given.Documents, isWorkspace) {
		return false
	}
	var beside []string
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return false
		}
		for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
			found, err := filepath.Glob(filepath.Join(filepath.Dir(path), pattern))
			if err != nil { // the folder's name is itself a pattern that cannot be read
				return false
			}
			beside = append(beside, found...)
		}
	}
	files, err := readDefinitions(beside)
	if err != nil {
		return false
	}
	others, _ := definition.Load(files, app.DefinitionOptions(app.Providers(nil, nil)))
	return slices.ContainsFunc(others.Documents, isWorkspace)
}

func summary(b definition.Bundle, warnings int) string {
	text := count(len(b.Documents), "definition")
	if n := len(b.Scenarios); n > 0 {
		text += ", " + count(n, "scenario")
	}
	if warnings > 0 {
		text += ", " + count(warnings, "warning")
	}
	return text + ": no errors"
}

type applyCmd struct {
	Paths []string `arg:"" name:"path" help:"Files, or folders with everything below them."`
	remote
	jsonOnly
}

// Help is the long help.
func (applyCmd) Help() string {
	return `All files together become the next set of definitions, or none of them does. Definitions that they do not
mention stay in force; scenarios are left out.

What decides where a secret goes needs a key with the scope secrets besides: a reference to one, or the provider, the
address or another setting beside one. Each such change is listed.

  = unchanged   + added   ~ changed   ! a warning   * decides where a secret goes

Exit status: 0 done, or nothing to change · 1 there is an error, nothing was changed.`
}

// Run applies files.
func (c *applyCmd) Run(s *session) error {
	files, err := readDefinitions(c.Paths)
	if err != nil {
		return err
	}
	sent := make([]client.File, len(files))
	for i, f := range files {
		sent[i] = client.File{Name: f.Name, Text: string(f.Text)}
	}
	applied, err := call(c.remote, func(api *client.Client) (client.Applied, error) { return api.Apply(s.ctx, sent) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, applied)
	}
	s.printApplied(applied)
	return nil
}

// printApplied prints changes with the signs of plans.
func (s *session) printApplied(a client.Applied) {
	for _, w := range a.Warnings {
		fmt.Fprintln(s.Out, "!", problemText(w))
	}
	for _, c := range a.SecretChanges {
		fmt.Fprintf(s.Out, "* %s %s: %s, beside %s\n", c.Kind, c.Name, strings.Join(c.Fields, ", "), strings.Join(c.Secrets, ", "))
	}
	var rows [][]string
	unchanged := 0
	for _, change := range a.Changes {
		sign := "~"
		switch change.Action {
		case "unchanged":
			unchanged++
			continue
		case "added":
			sign = "+"
		}
		rows = append(rows, []string{sign + " " + change.Kind + " " + change.Name, fmt.Sprintf("version %d", change.Version)})
	}
	s.rows(rows)
	if unchanged > 0 {
		fmt.Fprintf(s.Out, "= %s unchanged\n", count(unchanged, "definition"))
	}
	if len(rows) > 0 {
		s.note("Applied: set %d is in force.", a.Number)
	} else {
		s.note("Nothing to change: set %d stays in force.", a.Number)
	}
}

type definitionsCmd struct {
	List listDefinitionsCmd `cmd:"" help:"List the definitions in force with their versions."`
	Show showDefinitionCmd  `cmd:"" help:"Print a definition in force as it was written."`
}

type listDefinitionsCmd struct {
	remote
	jsonOnly
}

// Run lists definitions.
func (c *listDefinitionsCmd) Run(s *session) error {
	set, err := call(c.remote, func(api *client.Client) (client.Definitions, error) { return api.Definitions(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, set)
	}
	rows := make([][]string, len(set.Definitions))
	for i, d := range set.Definitions {
		rows[i] = []string{d.Kind, d.Name, fmt.Sprint(d.Version)}
	}
	s.table([]string{"kind", "name", "version"}, rows)
	return nil
}

type showDefinitionCmd struct {
	Kind string `arg:"" help:"Its kind, such as workflow."`
	Name string `arg:"" help:"Its name."`
	remote
	jsonOnly
}

// Run prints a definition.
func (c *showDefinitionCmd) Run(s *session) error {
	set, err := call(c.remote, func(api *client.Client) (client.Definitions, error) { return api.Definitions(s.ctx) })
	if err != nil {
		return err
	}
	for _, d := range set.Definitions {
		if d.Kind != c.Kind || d.Name != c.Name {
			continue
		}
		if c.JSON {
			return printJSON(s.Out, d)
		}
		fmt.Fprintln(s.Out, strings.TrimRight(d.Text, "\n"))
		return nil
	}
	return fmt.Errorf("there is no %s %q in force", c.Kind, c.Name)
}

// maxDefinitions bounds what is read from disk, in bytes: the most that a server takes.
const maxDefinitions = 16 << 20

// readDefinitions reads files and folders, in the order given, a folder's in the order of their paths. Hidden files
// and folders are passed over.
func readDefinitions(paths []string) ([]definition.File, error) {
	var names []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		found, err := definitionFiles(path)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s holds no .yaml, .yml or .json file", path)
		}
		names = append(names, found...)
	}
	files := make([]definition.File, 0, len(names))
	size := 0
	for _, name := range names {
		if slices.ContainsFunc(files, func(f definition.File) bool { return f.Name == name }) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if size += len(text); size > maxDefinitions {
			return nil, fmt.Errorf("the files are larger than %d MiB together", maxDefinitions>>20)
		}
		files = append(files, definition.File{Name: filepath.ToSlash(name), Text: text})
	}
	return files, nil
}

func definitionFiles(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return filepath.SkipDir
			}
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			found = append(found, path)
		}
		return nil
	})
	return found, err
}
