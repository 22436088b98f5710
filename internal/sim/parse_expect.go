package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// maxTimes bounds how many observed rows one row may match; more are counted, not paired.
const maxTimes = 10_000

// laterFields are the row fields of the format that this release does not have.
func laterFields() []string {
	return []string{
		"record", "topic", "frequency",
	}
}

// expectations reads `expect` or `state`, and adds the lists that must be empty when they are not mentioned.
func (p *parser) expectations(n *portable.Node, state bool) []expectation {
	var known []string
	specs := map[string]listSpec{}
	for _, spec := range lists() {
		if spec.state == state {
			specs[spec.name] = spec
			known = append(known, spec.name)
		}
	}
	var read []expectation
	mentioned := map[string]bool{}
	if n != nil && n.Kind != portable.Map && n.Kind != portable.Broken {
		p.problem(n.Pos, "this is a block of lists", "one of: "+strings.Join(known, " "))
	}
	if n != nil {
		for _, f := range n.Fields {
			name, partial := strings.CutSuffix(f.Key.Text, "_at_least")
			spec, ok := specs[name]
			switch {
			case !ok:
				p.unknown(f.Key, "list", known)
				continue
			case mentioned[name]:
				p.problem(f.Key.Pos, name+" is said twice", "a list is either complete or "+name+"_at_least")
				continue
			case partial && spec.lookup:
				p.problem(f.Key.Pos, name+" is looked up by row, so it never was complete", "write "+name)
				continue
			}
			mentioned[name] = true
			if e, ok := p.expectation(spec, partial, f); ok {
				read = append(read, e)
			}
		}
	}
	for _, spec := range lists() {
		if spec.state == state && spec.silent && !mentioned[spec.name] {
			read = append(read, expectation{spec: spec, count: -1})
		}
	}
	return read
}

// expectation reads one list: rows, a count, none or any.
func (p *parser) expectation(spec listSpec, partial bool, f portable.Field) (expectation, bool) {
	e := expectation{spec: spec, pos: f.Key.Pos, partial: partial || spec.lookup, count: -1, key: f.Key, value: f.Value}
	rows := []*portable.Node{f.Value}
	switch f.Value.Kind {
	case portable.Broken:
		return e, false
	case portable.Scalar:
		return e, p.word(&e, f.Value)
	case portable.List:
		rows = f.Value.Items
		if len(rows) == 0 {
			p.problem(f.Value.Pos, "the list is empty", "write none")
			return e, false
		}
	case portable.Map:
	}
	for _, n := range rows {
		if r, ok := p.row(spec, n); ok {
			e.rows = append(e.rows, r)
		}
	}
	return e, true
}

// word reads a word in place of a list.
func (p *parser) word(e *expectation, n *portable.Node) bool {
	switch count, err := strconv.Atoi(n.Text); {
	case n.Text == "none" && !e.partial || n.Text == "none" && e.spec.lookup:
		e.partial = false
		return true
	case n.Text == "any" && !e.partial:
		e.any = true
		return true
	case err == nil && e.spec.ordered:
		p.problem(n.Pos, e.spec.name+" is not counted, because a series may have no end", "write its first rows, or none")
		return false
	case err == nil && count >= 0 && count <= maxNumber && n.Style == portable.Plain:
		if e.spec.lookup {
			e.partial = false
		}
		e.count = count
		return true
	case e.partial && (n.Text == "none" || n.Text == "any"):
		p.problem(n.Pos, n.Text+" says nothing about at least", "write a number or a list of rows")
	default:
		p.problem(n.Pos, fmt.Sprintf("%q is not a list", n.Text), "write rows, a number, none or any")
	}
	return false
}

// row reads one expected row.
func (p *parser) row(spec listSpec, n *portable.Node) (expectedRow, bool) {
	r := expectedRow{pos: n.Pos, times: 1, value: n}
	if n.Kind == portable.Broken {
		return r, false
	}
	if n.Kind != portable.Map || len(n.Fields) == 0 {
		p.problem(n.Pos, "a row names its fields", "such as "+spec.show[0]+": VALUE")
		return r, false
	}
	known := []string{"times"}
	for _, f := range spec.fields {
		known = append(known, f.name)
	}
	for _, f := range n.Fields {
		i := slices.IndexFunc(spec.fields, func(s fieldSpec) bool { return s.name == f.Key.Text })
		switch {
		case f.Key.Text == "times":
			if times, ok := p.number(f.Value, 1); ok {
				if times > maxTimes {
					p.problem(f.Value.Pos, fmt.Sprintf("times is at most %d", maxTimes), "write the number in place of the list")
					continue
				}
				r.times, r.timesN = times, f.Value
			}
		case i >= 0:
			if words := wordsOf(spec, f.Key.Text); len(words) > 0 && f.Value.Kind == portable.Scalar && f.Value.Text != "none" && !slices.Contains(words, f.Value.Text) {
				p.unknown(f.Value, f.Key.Text, words)
				continue
			}
			if value, ok := p.field(spec.fields[i], f.Value); ok {
				r.fields = append(r.fields, value)
			}
		case slices.Contains(laterFields(), f.Key.Text):
			p.notYet(f.Key, "field")
		default:
			p.unknown(f.Key, "field of "+spec.name, known)
		}
	}
	if len(r.fields) == 0 && len(n.Fields) == 1 && r.timesN != nil {
		p.problem(n.Pos, "a row of nothing but times says nothing", "write the number in place of the list")
	}
	return r, len(r.fields) > 0
}

// field reads one expected value.
func (p *parser) field(spec fieldSpec, n *portable.Node) (field, bool) {
	f := field{fieldSpec: spec, pos: n.Pos, value: n}
	if spec.kind == fieldHas {
		f.parts = p.texts(n, "a text")
		f.text = strings.Join(f.parts, ", ")
		return f, len(f.parts) > 0
	}
	if spec.kind == fieldSections || spec.kind == fieldHeaders || spec.kind == fieldAnswers {
		return p.named(f, n)
	}
	text, ok := p.scalar(n, "a value")
	if !ok {
		return f, false
	}
	f.text = text
	switch spec.kind {
	case fieldNumber:
		_, ok = p.number(n, 0)
	case fieldInstant:
		if text != "none" {
			f.at, ok = p.instant(n)
		}
	case fieldLength:
		if text == "none" {
			break
		}
		var d civil.Duration
		if d, ok = p.duration(n); ok {
			f.wait = lengthCell(d.Exact()).text
		}
	case fieldMatches:
		re, err := regexp.Compile(text)
		if err != nil {
			p.problem(n.Pos, err.Error(), "a regular expression of Go (RE2)")
			return f, false
		}
		f.re = re
	case fieldPerson, fieldChannel, fieldText, fieldName:
		if text == "" {
			p.problem(n.Pos, spec.name+" is empty", "leave it out, or write none where there may be none")
			return f, false
		}
	case fieldHas, fieldSections, fieldHeaders, fieldAnswers:
	}
	return f, ok
}

// named reads a value that has parts with names: the items of a digest by their topics, headers, or answers.
func (p *parser) named(f field, n *portable.Node) (field, bool) {
	if n.Kind != portable.Map || len(n.Fields) == 0 {
		p.problem(n.Pos, f.name+" has names", map[fieldKind]string{
			fieldSections: "such as {tax: [c1, c2]}: topics, and the ids of their items", fieldHeaders: "such as {List-Unsubscribe-Post: List-Unsubscribe=One-Click}",
			fieldAnswers: "such as {fever: \"yes\", pain: 7}: questions, and their answers as people read them",
		}[f.kind])
		return f, false
	}
	for _, one := range n.Fields {
		switch {
		case f.kind == fieldHeaders, f.kind == fieldAnswers:
			text, ok := p.scalar(one.Value, "a value")
			if !ok {
				return f, false
			}
			f.parts = append(f.parts, one.Key.Text+": "+text)
		case one.Value.Kind == portable.List && len(one.Value.Items) == 0:
			f.parts = append(f.parts, one.Key.Text+":")
		default:
			f.parts = append(f.parts, one.Key.Text+": "+strings.Join(p.texts(one.Value, "the id of an item"), " "))
		}
	}
	f.text = strings.Join(f.parts, "\n")
	return f, true
}
