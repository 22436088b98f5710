package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
)

type applyCmd struct {
	Paths  []string `arg:"" name:"path" help:"Files, folders with everything below them, or - for the standard input."`
	DryRun bool     `name:"dry-run" help:"Print what would change and what would become of what waits; change nothing."`
	Prune  bool     `name:"prune" help:"Delete the definitions in force that the files do not define."`
	remote
	jsonOnly
}

// Help is the long help.
func (applyCmd) Help() string {
	return `All files together become the next set of definitions, or none of them does. Definitions that they do not
mention stay in force, unless --prune deletes them; scenarios are left out.

--dry-run passes the same checks, prints how each definition would change, and what would become of what waits, as far
as that is known before. Nothing is changed.

What waits of a workflow that is deleted is withdrawn, with the reason workflow_inactive; what was sent stays. A
definition that others need is not deleted.

What decides where a secret goes needs a key with the scope secrets besides: a reference to one, or the provider, the
address or another setting beside one. Each such change is listed.

  = unchanged   + added   ~ changed   - deleted   ! a warning   * decides where a secret goes

Exit status: 0 done, or nothing to change · 1 there is an error, nothing was changed · 2 with --dry-run: something would
change.`
}

// Run applies files.
func (c *applyCmd) Run(s *session) error {
	files, err := s.readDefinitions(c.Paths)
	if err != nil {
		return err
	}
	sent := make([]client.File, len(files))
	for i, f := range files {
		sent[i] = client.File{Name: f.Name, Text: string(f.Text)}
	}
	applied, err := call(c.remote, func(api *client.Client) (client.Applied, error) {
		return api.ApplyWith(s.ctx, sent, client.ApplyOptions{Prune: c.Prune, DryRun: c.DryRun})
	})
	if err != nil {
		return err
	}
	return s.applied(applied, c.JSON)
}

// applied prints what a change of the definitions did, or would do.
func (s *session) applied(a client.Applied, asJSON bool) error {
	switch {
	case asJSON:
		if err := printJSON(s.Out, a); err != nil {
			return err
		}
	case a.Preview != nil:
		s.printPreview(a)
	default:
		s.printApplied(a)
	}
	if a.Preview != nil && a.Preview.Changed {
		return exit(ExitChanges)
	}
	return nil
}

// printApplied prints changes with the signs of plans.
func (s *session) printApplied(a client.Applied) {
	s.printNotes(a)
	rows, unchanged := changeRows(a.Changes)
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

// printNotes prints warnings, and what decides where secrets go.
func (s *session) printNotes(a client.Applied) {
	for _, w := range a.Warnings {
		fmt.Fprintln(s.Out, "!", problemText(w))
	}
	for _, c := range a.SecretChanges {
		fmt.Fprintf(s.Out, "* %s %s: %s, beside %s\n", c.Kind, c.Name, strings.Join(c.Fields, ", "), strings.Join(c.Secrets, ", "))
	}
}

// changeRows are the lines of what changes, and how many definitions do not.
func changeRows(changes []client.DefinitionChange) (rows [][]string, unchanged int) {
	signs := map[string]string{"added": "+", "changed": "~", "deleted": "-"}
	for _, change := range changes {
		sign, changed := signs[change.Action]
		if !changed {
			unchanged++
			continue
		}
		rows = append(rows, []string{sign + " " + change.Kind + " " + change.Name, fmt.Sprintf("version %d", change.Version)})
	}
	return rows, unchanged
}

// printPreview prints what a change would do.
func (s *session) printPreview(a client.Applied) {
	s.printNotes(a)
	for _, change := range a.Changes {
		fmt.Fprint(s.Out, change.Diff)
	}
	rows, unchanged := changeRows(a.Changes)
	s.rows(rows)
	if unchanged > 0 {
		fmt.Fprintf(s.Out, "= %s unchanged\n", count(unchanged, "definition"))
	}
	for _, line := range effectLines(*a.Preview) {
		fmt.Fprintln(s.Out, line)
	}
	if a.Preview.MissingScope != "" {
		s.note("The key lacks the scope %s: it may not make these changes.", a.Preview.MissingScope)
	}
	if a.Preview.Changed {
		s.note("Nothing was changed: set %d stays in force.", a.Number)
	} else {
		s.note("Nothing to change: set %d stays in force.", a.Number)
	}
}

// effectLines say what would become of what waits.
func effectLines(p client.DefinitionPreview) []string {
	var lines []string
	for _, w := range p.Workflows {
		var parts []string
		add := func(n int64, noun, what string) {
			if n > 0 {
				parts = append(parts, count(int(n), noun)+" "+what)
			}
		}
		deliveries := func(n int64, what string) {
			switch {
			case n == 1:
				parts = append(parts, "1 delivery "+what)
			case n > 1:
				parts = append(parts, fmt.Sprintf("%d deliveries %s", n, what))
			}
		}
		deliveries(w.DeliveriesWithdrawn, "withdrawn")
		add(w.InstancesWithdrawn, "instance", "withdrawn")
		deliveries(w.DeliveriesFollow, "by the new version")
		deliveries(w.DeliveriesKeep, "by the version of their moment")
		add(w.Instances, "instance", "not begun")
		add(int64(w.CalendarMade), "occasion", "of the calendar made")
		add(int64(w.CalendarMoved), "occasion", "of the calendar moved")
		add(int64(w.CalendarWithdrawn), "occasion", "of the calendar withdrawn")
		if len(parts) == 0 {
			parts = []string{"nothing waits"}
		}
		lines = append(lines, "  workflow "+w.Workflow+": "+strings.Join(parts, ", "))
	}
	if len(p.Evaluated) > 0 {
		lines = append(lines, "  all records of "+strings.Join(p.Evaluated, ", ")+" would be evaluated")
	}
	if p.Limits {
		lines = append(lines, "  what waits for the limits of people would be planned again")
	}
	if p.Groups {
		lines = append(lines, "  the groups of all contacts would be computed")
	}
	return lines
}

// maxDefinitions bounds what is read from disk, in bytes: the most that a server takes.
const maxDefinitions = 16 << 20

// stdinName is what the standard input is called in problems.
const stdinName = "stdin"

// readDefinitions reads files and folders, in the order given, a folder's in the order of their paths. Hidden files
// and folders are passed over. A dash is the standard input.
func (s *session) readDefinitions(paths []string) ([]definition.File, error) {
	var names []string
	for _, path := range paths {
		if path == "-" {
			names = append(names, path)
			continue
		}
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
		text, err := s.readDefinition(name)
		if err != nil {
			return nil, err
		}
		if name == "-" {
			name = stdinName
		}
		if size += len(text); size > maxDefinitions {
			return nil, fmt.Errorf("the files are larger than %d MiB together", maxDefinitions>>20)
		}
		files = append(files, definition.File{Name: filepath.ToSlash(name), Text: text})
	}
	return files, nil
}

func (s *session) readDefinition(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(s.In, maxDefinitions+1))
	}
	return os.ReadFile(name)
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
