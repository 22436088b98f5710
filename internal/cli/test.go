package cli

import (
	"os"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/sim"
)

type testCmd struct {
	Paths  []string `arg:"" optional:"" name:"path" help:"Scenario files, and folders that are searched. Default: the current folder."`
	Only   string   `name:"run" placeholder:"TEXT" help:"Only scenarios whose title contains this."`
	Update bool     `name:"update" help:"Write what happened into the files as what is expected."`
	All    bool     `name:"all" help:"Show every step that differs, not only the first."`
	JSON   bool     `name:"json" help:"Print a report as JSON in place of text."`
	JUnit  string   `name:"junit" placeholder:"FILE" help:"Write a report for CI systems to this file too."`
	DB     string   `name:"db" placeholder:"DB" help:"A PostgreSQL database in which each scenario gets a schema of its own. Default: SQLite in memory."`
}

// Help is the long help.
func (testCmd) Help() string {
	return `Runs scenarios: what comes in, how time passes, what is expected to go out. The engine is the real one on a clock
of its own, so that a year takes seconds; nothing is sent.

  = as expected   - expected and absent   + happened and not expected   ~ the same with other values

Exit status: 0 all held · 1 a difference · 2 a file that cannot be read.`
}

// Run runs scenarios.
func (c *testCmd) Run(s *session) error {
	status := sim.Main(s.ctx, sim.Options{
		Paths: c.Paths, Run: c.Only, Update: c.Update, All: c.All, JSON: c.JSON, JUnit: c.JUnit, DB: c.DB,
		Providers: app.Providers(nil, nil), Sinks: append(app.Sinks(nil, nil, ""), s.program.Sinks...), Functions: s.program.Functions, Audiences: s.program.Audiences, Stdout: s.Out, Stderr: s.Err, Colour: s.colour(),
	})
	if status != ExitOK {
		return exit(status)
	}
	return nil
}

// colour reports whether signs may be repeated by colours: never in a pipe, never against the reader's wish
// (no-color.org).
func (s *session) colour() bool { return s.Terminal && os.Getenv("NO_COLOR") == "" }
