// Package sim runs scenarios: files with inputs to the engine and the expected results.
//
// The engine and its store are the real ones; only the clock, the providers behind the channels and the moments at
// which a process dies are simulated. Nothing runs while time stands still: the clock jumps to the next instant at
// which something is due, and the engine makes its passes there until nothing is due any more. So virtual time is
// exact, a year of it takes milliseconds, and the same scenario gives the same journal to the byte.
//
//	Parse ─▶ Run: live up to a step ─▶ do ─▶ settle ─▶ compare ─▶ print, --update, JSON, JUnit
//
// The package decides nothing about messages. It observes the engine through the journal, the store and the simulated providers. An
// expectation that is not met is a result, not an error: an error means that a scenario could not be run.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/sink"
)

// Exit statuses of Main.
const (
	StatusHeld       = 0 // all as expected
	StatusDifference = 1 // a difference
	StatusUnreadable = 2 // a file that cannot be read or carried out
)

// Options are the settings of `carillon test`.
type Options struct {
	Paths  []string // files, and folders that are searched; none = the current folder
	Run    string   // only scenarios whose title contains it
	Update bool     // write what happened into the files
	All    bool     // show every step that differs, not only the first
	JSON   bool     // write a report as JSON in place of text
	JUnit  string   // write a report for CI systems to this file too
	DB     string   // a PostgreSQL database in which each scenario gets a schema of its own; empty = SQLite in memory

	// Providers are the channels that definitions may name. The simulated one stands in for each of them.
	Providers []channel.Provider
	// Sinks are the providers of sinks that definitions may name, likewise simulated; workflow is the engine's own.
	Sinks []sink.Provider
	// Functions and Audiences are functions of a binary of one's own. They are called, within their time of the machine's clock.
	Functions, Audiences []*expr.Function
	Stdout               io.Writer
	Stderr               io.Writer
	Colour               bool
}

// Main runs the scenarios of the options and returns the exit status.
func Main(ctx context.Context, o Options) int {
	elapsed := clock.Monotonic()
	files, err := find(o.Paths)
	if err != nil {
		fmt.Fprintln(o.Stderr, err)
		return StatusUnreadable
	}
	out := printer{w: o.Stdout, colour: o.Colour, all: o.All}
	if o.JSON {
		out.w = io.Discard
	}
	var reports []report
	for _, file := range files {
		for n := 0; ctx.Err() == nil; n++ {
			r, more := runOne(ctx, file.path, n, o)
			if o.Update && r.result != nil && !r.held() {
				r = update(ctx, r, file.name, n, o, out)
			}
			if r.asked() {
				reports = append(reports, r)
				out.report(file.name, r, n > 0 || more)
			}
			if !more {
				break
			}
		}
	}
	return conclude(reports, elapsed(), o, out)
}

// report writes the result of a scenario. If its file holds several, the line is shown too.
func (p printer) report(file string, r report, several bool) {
	name := file
	if several && r.line > 0 {
		name = fmt.Sprintf("%s:%d", file, r.line)
	}
	if r.result == nil {
		fmt.Fprintf(p.w, "%s%s\n\n", p.paint(fmt.Sprintf("%-6s", "ERROR"), red), name)
		fmt.Fprintln(p.w, indented(problemText(r)))
		return
	}
	p.summary(name, *r.result)
	if !r.held() {
		p.failure(file, *r.result)
	}
}

// conclude writes the last line and the reports, and returns the exit status.
func conclude(reports []report, took time.Duration, o Options, out printer) int {
	status, failed, unreadable := StatusHeld, 0, 0
	for _, r := range reports {
		switch {
		case r.result == nil:
			unreadable++
		case !r.held():
			failed++
		}
	}
	seconds := fmt.Sprintf("%.1f s", took.Seconds())
	switch {
	case len(reports) == 0:
		fmt.Fprintln(o.Stderr, "there is no scenario here: a file that begins with scenario: TITLE")
		return StatusUnreadable
	case unreadable > 0:
		status = StatusUnreadable
		fmt.Fprintf(out.w, "%d of %d scenarios failed, %d could not be run, %s\n", failed, len(reports), unreadable, seconds)
	case failed > 0:
		status = StatusDifference
		fmt.Fprintf(out.w, "%d of %d scenarios failed, %s\n", failed, len(reports), seconds)
	default:
		fmt.Fprintf(out.w, "%s held, %s\n", scenarios(len(reports)), seconds)
	}
	var err error
	if o.JSON {
		err = writeReport(o.Stdout, reports)
	}
	if o.JUnit != "" {
		err = errors.Join(err, writeJUnit(o.JUnit, reports))
	}
	if err != nil {
		fmt.Fprintln(o.Stderr, err)
		return StatusUnreadable
	}
	return status
}

func scenarios(n int) string {
	if n == 1 {
		return "1 scenario"
	}
	return fmt.Sprintf("%d scenarios", n)
}

// runOne reads a file and runs the nth of its scenarios, from 0; more: there is another one. The report is empty when the
// scenario's title was not asked for.
func runOne(ctx context.Context, file string, n int, o Options) (r report, more bool) {
	r = report{file: file}
	text, err := os.ReadFile(file)
	if err != nil {
		r.err = err
		return r, false
	}
	list, problems := Parse(file, text)
	if len(problems) > 0 || n >= len(list) {
		r.problems = problems
		if len(list) == 1 {
			r.title = list[0].Title
		}
		if o.Run != "" && !strings.Contains(r.title, o.Run) && len(list) == 1 {
			return report{}, false
		}
		return r, false
	}
	s, more := list[n], n+1 < len(list)
	if o.Run != "" && !strings.Contains(s.Title, o.Run) {
		return report{}, more
	}
	r.title, r.line = s.Title, s.Line
	result, err := Run(ctx, s, o)
	var refused ProblemsError
	switch {
	case errors.As(err, &refused):
		r.problems = refused
	case err != nil:
		r.err = err
	default:
		r.result = &result
	}
	return r, more
}

// update writes what happened into the file and runs its nth scenario again.
func update(ctx context.Context, r report, name string, n int, o Options, out printer) report {
	text, err := Update(*r.result)
	if err == nil {
		if _, problems := Parse(r.file, text); len(problems) > 0 {
			err = fmt.Errorf("%s: the updated text would not be a scenario: %s", r.file, problems[0])
		}
	}
	if err == nil {
		err = os.WriteFile(r.file, text, 0o644)
	}
	if err != nil {
		r.err, r.result = fmt.Errorf("update: %w", err), nil
		return r
	}
	fmt.Fprintf(out.w, "%-6s%s\n", "wrote", name)
	r, _ = runOne(ctx, r.file, n, o)
	return r
}

// found is a file to run and how the output calls it: by its path below the folder that was searched.
type found struct{ path, name string }

// find returns the files to run: those named, and in folders every YAML file that holds a scenario, by name.
func find(paths []string) ([]found, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var files []found
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			name := filepath.Base(path)
			if len(paths) > 1 { // two folders may hold files of one name
				name = path
			}
			files = append(files, found{path, name})
			continue
		}
		err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				if at != path && strings.HasPrefix(entry.Name(), ".") {
					return fs.SkipDir
				}
				return nil
			case !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(at)):
				return nil
			}
			text, err := os.ReadFile(at)
			if err != nil || !isScenario(text) {
				return err
			}
			name, err := filepath.Rel(path, at)
			if len(paths) > 1 {
				name = at
			}
			files = append(files, found{at, name})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// isScenario reports whether the first key of a YAML text is `scenario`.
func isScenario(text []byte) bool {
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		line = strings.TrimRight(line, " \r\n")
		if line == "" || line[0] == '#' || line == "---" {
			continue
		}
		return strings.HasPrefix(line, "scenario:")
	}
	return false
}

// Check reads a scenario file and checks that the files it names exist; it runs nothing. File.Name is the path that their names are
// relative to. It returns how many scenarios the file has.
func Check(file definition.File) (scenarios int, problems []definition.Problem) {
	list, problems := Parse(file.Name, file.Text)
	for i := range list {
		problems = append(problems, list[i].missing()...)
	}
	return len(list), problems
}

// missing finds the files that a scenario names and that are not there.
func (s *Scenario) missing() (problems []definition.Problem) {
	missing := func(at portable.Pos, name string) {
		if _, err := os.Stat(s.path(name)); err != nil {
			problems = append(problems, definition.Problem{
				File: s.File, Line: at.Line, Column: at.Column,
				Message: fmt.Sprintf("there is no file %q", name), Hint: "files are named from the folder of the scenario",
			})
		}
	}
	for i, name := range s.Definitions {
		missing(s.definitionsAt[i], name)
	}
	actions := slices.Clone(s.Given)
	for _, step := range s.Steps {
		actions = append(actions, step.Do...)
	}
	for _, a := range actions {
		switch {
		case a.Apply != nil:
			missing(a.Apply.pos, a.Apply.file)
		case a.Load != nil:
			missing(a.Load.pos, a.Load.file)
		}
	}
	return problems
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
