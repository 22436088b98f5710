package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/suggest"
)

// Parse reads the scenarios of a file, one in each document. It reports all problems at once; the scenarios are usable only when there
// is none. It does not read the files that they name; see Check.
func Parse(file string, text []byte) ([]Scenario, []definition.Problem) {
	documents, found := portable.Parse(string(text))
	var problems []definition.Problem
	for _, problem := range found {
		problems = append(problems, definition.Problem{
			File: file, Line: problem.Pos.Line, Column: problem.Pos.Column, Message: problem.Message, Hint: problem.Hint, Code: definition.CodeSyntax,
		})
	}
	if len(documents) == 0 && len(found) == 0 {
		p := &parser{file: file}
		p.problem(portable.Pos{Line: 1, Column: 1}, "the file is empty", "a scenario begins with scenario: TITLE")
		problems = p.problems
	}
	scenarios := make([]Scenario, len(documents))
	for i, d := range documents {
		p := &parser{file: file, text: string(text), loc: time.UTC}
		scenarios[i] = Scenario{File: file, Line: d.Root.Pos.Line, Zone: time.UTC, text: text}
		p.scenario(&scenarios[i], d.Root)
		problems = append(problems, p.problems...)
	}
	slices.SortStableFunc(problems, func(a, b definition.Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return scenarios, problems
}

// parser holds the state for reading one file.
type parser struct {
	file     string
	text     string
	loc      *time.Location
	base     time.Time // what times of day and offsets count from
	problems []definition.Problem
}

// problem reports a value of the wrong kind or shape.
func (p *parser) problem(at portable.Pos, message, hint string) {
	p.report(at, definition.CodeInvalid, message, hint)
}

func (p *parser) report(at portable.Pos, code, message, hint string) {
	p.problems = append(p.problems, definition.Problem{
		File: p.file, Line: at.Line, Column: at.Column, Message: message, Hint: hint, Code: code,
	})
}

func (p *parser) refuse(n *portable.Node, err error) {
	var known *civil.Error
	if errors.As(err, &known) {
		p.problem(n.Pos, known.Message, known.Hint)
		return
	}
	p.problem(n.Pos, err.Error(), "")
}

func (p *parser) scenario(s *Scenario, n *portable.Node) {
	fields, ok := p.fields(n, "a scenario", "scenario", "covers", "definitions", "define", "timezone", "start", "ticks", "given", "steps")
	if !ok {
		return
	}
	if first := n.Fields[0]; first.Key.Text != "scenario" {
		p.problem(first.Key.Pos, "a scenario begins with its title", "write scenario: TITLE as the first key")
	}
	s.Title, _ = p.scalar(fields["scenario"], "the title")
	s.Covers = p.texts(fields["covers"], "a requirement id")
	s.Definitions = p.texts(fields["definitions"], "a file")
	s.definitionsAt = positions(fields["definitions"])
	s.Define = p.define(fields["define"])
	if zone := fields["timezone"]; zone != nil {
		if name, ok := p.scalar(zone, "a zone"); ok {
			loc, err := civil.LoadZone(name)
			if err != nil {
				p.refuse(zone, err)
				return
			}
			p.loc, s.Zone = loc, loc
		}
	}
	if ticks := fields["ticks"]; ticks != nil {
		mode, _ := p.oneOf(ticks, "ticks", "auto", "manual")
		s.Manual = mode == "manual"
	}
	p.base = time.Unix(0, 0) // when start is wrong, the rest is still read, from a day long ago
	if start := fields["start"]; start == nil {
		p.report(n.Pos, definition.CodeMissing, "start is missing", "start: 2026-05-14 09:00 is the instant at which the scenario begins")
	} else if at, ok := p.start(start); ok {
		s.Start, p.base = at, at
	}
	s.Given = p.actions(fields["given"])
	p.steps(s, fields["steps"], n)
}

// start reads the first instant. It cannot be an offset or a time of day, because no earlier instant exists.
func (p *parser) start(n *portable.Node) (time.Time, bool) {
	text, ok := p.scalar(n, "an instant")
	if !ok {
		return time.Time{}, false
	}
	if !strings.HasPrefix(text, "+") && strings.Contains(text, "-") {
		at, err := parseInstant(text, time.Time{}, p.loc)
		if err == nil {
			return at, true
		}
		p.refuse(n, err)
		return time.Time{}, false
	}
	p.problem(n.Pos, strconv.Quote(text)+" is not an instant with its date", "write start: 2026-05-14 09:00")
	return time.Time{}, false
}

func (p *parser) steps(s *Scenario, list, root *portable.Node) {
	if list == nil {
		p.report(root.Pos, definition.CodeMissing, "steps are missing", "a scenario expects something at an instant: steps: with a list of at, do, expect")
		return
	}
	for i, n := range p.items(list, "steps") {
		step := Step{pos: n.Pos, node: n, number: i + 1}
		fields, ok := p.fields(n, "a step", "at", "note", "tick", "do", "expect", "state")
		if !ok {
			continue
		}
		at := fields["at"]
		if at == nil {
			p.report(n.Pos, definition.CodeMissing, "a step needs its instant", "add at: "+strconv.Quote("10:05"))
			continue
		}
		t, ok := p.instant(at)
		if !ok {
			continue
		}
		if t.Before(p.base) && !s.Start.IsZero() {
			p.problem(at.Pos, "steps ascend, and this one is before "+p.base.In(p.loc).Format("2006-01-02 15:04:05"),
				"a time of day is on the day of the step above: write the date too where the day is another one")
			continue
		}
		step.At, p.base = t, t
		step.Note, _ = p.optional(fields["note"], "a note")
		if tick := fields["tick"]; tick != nil {
			step.Tick = p.bool(tick)
			if !s.Manual {
				p.problem(tick.Pos, "tick has no effect: passes run by themselves", "add ticks: manual at the top, or leave tick out")
			}
		}
		step.Do = p.actions(fields["do"])
		step.expect = p.expectations(fields["expect"], false)
		step.state = p.expectations(fields["state"], true)
		s.Steps = append(s.Steps, step)
	}
}

// define turns the documents written in place into files of their own, padded so that lines and columns agree.
func (p *parser) define(list *portable.Node) []definition.File {
	if list == nil {
		return nil
	}
	if list.Flow {
		p.problem(list.Pos, "definitions stand below one another", "write one - per definition, on lines of its own")
		return nil
	}
	lines := strings.SplitAfter(p.text, "\n")
	var files []definition.File
	items := p.items(list, "define")
	for _, n := range items {
		if n.Kind != portable.Map || n.Flow {
			if n.Kind != portable.Broken {
				hint := "its first key is its kind: workflow: NAME"
				if n.Flow {
					hint = "write it in block style, without { }: each key on a line of its own"
				}
				p.problem(n.Pos, "a definition is a block of keys", hint)
			}
			continue
		}
		files = append(files, definition.File{Name: p.file, Text: cutItem(lines, n)})
	}
	return files
}

// cutItem returns the lines of a list's item that is a block map, its dash and everything before it blanked.
func cutItem(lines []string, n *portable.Node) []byte {
	first, indent := n.Pos.Line-1, n.Pos.Column-1
	var b strings.Builder
	for range first {
		b.WriteByte('\n')
	}
	b.WriteString(strings.Repeat(" ", indent))
	b.WriteString(string([]rune(lines[first])[indent:]))
	for _, line := range lines[first+1:] {
		if body := strings.TrimLeft(line, " "); strings.TrimRight(body, "\r\n") != "" && len(line)-len(body) < indent {
			if !strings.HasPrefix(body, "#") {
				break
			}
			line = "\n"
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}

// fields checks that n is a map with known keys only, and returns its values by key.
func (p *parser) fields(n *portable.Node, what string, known ...string) (map[string]*portable.Node, bool) {
	if n.Kind == portable.Broken {
		return nil, false
	}
	if n.Kind != portable.Map || len(n.Fields) == 0 {
		p.problem(n.Pos, what+" is a block of keys", "its keys: "+strings.Join(known, " "))
		return nil, false
	}
	fields := make(map[string]*portable.Node, len(n.Fields))
	for _, f := range n.Fields {
		if !slices.Contains(known, f.Key.Text) {
			p.unknown(f.Key, "key", known)
			continue
		}
		fields[f.Key.Text] = f.Value
	}
	return fields, true
}

// unknown reports a word that is not on the list, with the nearest one that is.
func (p *parser) unknown(n *portable.Node, what string, known []string) {
	hint := "one of: " + strings.Join(known, " ")
	if near := suggest.Nearest(n.Text, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	p.report(n.Pos, definition.CodeUnknownKey, fmt.Sprintf("unknown %s %q", what, n.Text), hint)
}

func (p *parser) notYet(n *portable.Node, what string) {
	p.report(n.Pos, definition.CodeNotSupportedYet, fmt.Sprintf("%s %q is not supported yet", what, n.Text), "this release does not have it; leave it out")
}

// items returns the items of a list; one written bare is a list of one.
func (p *parser) items(n *portable.Node, what string) []*portable.Node {
	switch {
	case n == nil || n.Kind == portable.Broken:
		return nil
	case n.Kind != portable.List:
		p.problem(n.Pos, what+" is a list", "write - before each entry")
		return nil
	}
	return n.Items
}

// texts returns a list of texts; one written bare is a list of one.
func (p *parser) texts(n *portable.Node, what string) []string {
	if n == nil {
		return nil
	}
	items := []*portable.Node{n}
	if n.Kind == portable.List {
		items = n.Items
	}
	var texts []string
	for _, item := range items {
		if text, ok := p.scalar(item, what); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// positions returns where the texts of such a list stand.
func positions(n *portable.Node) []portable.Pos {
	var at []portable.Pos
	switch {
	case n == nil:
	case n.Kind == portable.List:
		for _, item := range n.Items {
			if item.Kind == portable.Scalar {
				at = append(at, item.Pos)
			}
		}
	case n.Kind == portable.Scalar:
		at = append(at, n.Pos)
	}
	return at
}

// scalar returns the text of a scalar; anything else is a problem.
func (p *parser) scalar(n *portable.Node, what string) (string, bool) {
	switch {
	case n == nil || n.Kind == portable.Broken:
		return "", false
	case n.Kind != portable.Scalar:
		p.problem(n.Pos, fmt.Sprintf("this must be %s, and is a %s", what, n.Kind), "")
		return "", false
	}
	return n.Text, true
}

func (p *parser) optional(n *portable.Node, what string) (string, bool) {
	if n == nil {
		return "", false
	}
	return p.scalar(n, what)
}

func (p *parser) oneOf(n *portable.Node, what string, known ...string) (string, bool) {
	text, ok := p.scalar(n, "one of "+strings.Join(known, ", "))
	if ok && !slices.Contains(known, text) {
		p.unknown(n, what, known)
		return "", false
	}
	return text, ok
}

func (p *parser) bool(n *portable.Node) bool {
	value, ok := n.Bool()
	if !ok && n.Kind != portable.Broken {
		p.problem(n.Pos, "this must be true or false", "")
	}
	return value
}

// number reads a whole number that is at least low.
func (p *parser) number(n *portable.Node, low int) (int, bool) {
	text, ok := p.scalar(n, "a whole number")
	if !ok {
		return 0, false
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < low || value > maxNumber || n.Style != portable.Plain {
		p.problem(n.Pos, fmt.Sprintf("%q is not a whole number from %d to %d", text, low, maxNumber), "")
		return 0, false
	}
	return value, true
}

// maxNumber bounds `times` and counts, so that a comparison ends.
const maxNumber = 1_000_000

func (p *parser) duration(n *portable.Node) (civil.Duration, bool) {
	text, ok := p.scalar(n, "a duration")
	if !ok {
		return civil.Duration{}, false
	}
	d, err := civil.ParseDuration(text)
	if err != nil {
		p.refuse(n, err)
		return civil.Duration{}, false
	}
	return d, true
}

// instant reads an instant relative to the present base.
func (p *parser) instant(n *portable.Node) (time.Time, bool) {
	text, ok := p.scalar(n, "an instant")
	if !ok {
		return time.Time{}, false
	}
	at, err := parseInstant(text, p.base, p.loc)
	if err != nil {
		p.refuse(n, err)
		return time.Time{}, false
	}
	return at, true
}
