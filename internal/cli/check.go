package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/sim"
)

type checkCmd struct {
	Paths  []string `arg:"" name:"path" help:"Files, folders with everything below them, or - for the standard input."`
	Server string   `name:"server" placeholder:"URL" help:"A server: what is in force there may be referred to."`
	Key    string   `name:"key" env:"CARILLON_KEY" placeholder:"KEY" help:"An API key of that server, with the scope read."`
	Strict bool     `name:"strict" help:"Warnings are errors."`
	jsonOnly
}

// Help is the long help.
func (checkCmd) Help() string {
	return `Reads every .yaml, .yml and .json file and prints each fault as file:line:column, with the remedy below it.
Nothing is changed, and no server is needed for a folder that holds all its definitions. A part of them may name what
the others define: --server finds that among the definitions in force there.

It also says where people meet limits that nobody has set.

Exit status: 0 all can be applied · 1 there is an error (a warning is one with --strict only).`
}

// Run checks files.
func (c *checkCmd) Run(s *session) error {
	files, err := s.readDefinitions(c.Paths)
	if err != nil {
		return err
	}
	options := s.program.definitions()
	options.Whole = true
	if c.Server != "" {
		if options.Known, err = c.inForce(s); err != nil {
			return err
		}
	}
	bundle, problems := loader.Load(files, options)
	scenarios := 0
	for _, file := range bundle.Scenarios {
		n, found := sim.Check(file)
		scenarios, problems = scenarios+n, append(problems, found...)
	}
	wire := make([]client.DefinitionProblem, len(problems))
	errs := 0
	for i, p := range problems {
		p.Warning = p.Warning && !c.Strict
		wire[i] = client.DefinitionProblem{File: p.File, Line: p.Line, Column: p.Column, Code: p.Code, Message: p.Message, Hint: p.Hint, Warning: p.Warning}
		if !p.Warning {
			errs++
		}
	}
	var limited, ringing []string
	if errs == 0 && c.Server == "" && !workspaceBeside(c.Paths, bundle) {
		limited, ringing = bundle.Set.LimitedByDefault(), bundle.Set.RingsByDefault()
	}
	if c.JSON {
		out := map[string]any{"definitions": len(bundle.Documents), "scenarios": scenarios, "problems": wire}
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
		s.note("%s", summary(bundle, scenarios, len(problems)))
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

// inForce asks the server for the definitions in force.
func (c *checkCmd) inForce(s *session) ([]definition.Stored, error) {
	set, err := call(remote{Server: c.Server, Key: c.Key}, func(api *client.Client) (client.Definitions, error) { return api.Definitions(s.ctx) })
	if err != nil {
		return nil, err
	}
	known := make([]definition.Stored, len(set.Definitions))
	for i, d := range set.Definitions {
		known[i] = definition.Stored{
			Document: definition.Document{Kind: definition.Kind(d.Kind), Name: d.Name, Text: d.Text, Hash: d.Hash}, Version: d.Version,
		}
	}
	return known, nil
}

// workspaceBeside reports whether only files were given, and a workspace is defined in another file of their folders: its
// limits are not known here, and those that hold without any are not these files' own.
func workspaceBeside(paths []string, given loader.Bundle) bool {
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
	files, err := (*session)(nil).readDefinitions(beside)
	if err != nil {
		return false
	}
	others, _ := loader.Load(files, loader.Options{})
	return slices.ContainsFunc(others.Documents, isWorkspace)
}

func summary(b loader.Bundle, scenarios, warnings int) string {
	text := count(len(b.Documents), "definition")
	if scenarios > 0 {
		text += ", " + count(scenarios, "scenario")
	}
	if warnings > 0 {
		text += ", " + count(warnings, "warning")
	}
	return text + ": no errors"
}
