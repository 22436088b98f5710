package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const (
	// nameWithin asks whether a contact or a record is in a place or in one below it: within(contact.place, "north").
	nameWithin = "within"
	// fnWithin is what it becomes: @within(place, name, @input).
	fnWithin = "@within"
)

// within rewrites within(x, name). x is a field of a record, or that of a contact, because the places above it are read with the record or the contact
// before the evaluation.
func (l *lowering) within(e ast.Expr, args []ast.Expr, locals []string) {
	const operands = 2
	if len(args) != operands {
		l.fail(e, "within needs a place and the name of a place", `such as within(contact.place, "north")`)
		return
	}
	of, name := args[0], args[1]
	p, isPath := l.path(of, locals)
	if isPath && len(p) == 1 && (p[0] == "contact" || p[0] == "record") { // their field place
		inner := l.fac.NewUnspecifiedExpr(l.newID(of))
		inner.SetKindCase(of)
		of = l.fac.NewSelect(l.newID(of), inner, "place")
		p = append(slices.Clone(p), "place")
	}
	switch {
	case isPath && p[0] == "contact" && len(p) == 2 && p[1] == "place":
	case isPath && p[0] == "record" && slices.Contains(l.names, "record") && !l.scope.RecordPlaces:
		l.fail(of, "the places above those of a record are known in when, issues and stop_when of triggers on records alone", `ask for the place of the person, within(contact.place, "north"), or compare the names`)
	case isPath && p[0] == "record" && l.ofRecord(p):
		l.places = append(l.places, p)
	default:
		l.fail(of, "within is asked of contact.place, or of a field of a record that names a place", `such as within(contact.place, "north") or within(record.clinic, "north")`)
		return
	}
	l.lower(of, locals)
	l.lower(name, locals)
	l.calls[e.ID()] = []string{l.fieldIn(of, locals), l.fieldIn(name, locals)}
	l.replace(e, fnWithin, of, name, l.fac.NewIdent(l.newID(e), inputName))
}

// ofRecord reports whether a path leads to a field of the record, or of a record that relations lead to.
func (l *lowering) ofRecord(p Path) bool {
	if len(p) == 2 {
		return p[1] != "props"
	}
	steps, _ := l.scope.RecordType.Relations(p)
	return len(steps) == len(p)-2
}

// inPlace is within(place, name). Nothing is within a place that is not named, or does not exist.
func inPlace(operands ...ref.Val) ref.Val {
	x, named := plain(operands[0]), plain(operands[1])
	if isNull(x) {
		return types.False
	}
	if isNull(named) {
		return missing(1)
	}
	place, okPlace := x.(types.String)
	name, okName := named.(types.String)
	if !okPlace || !okName {
		return types.NewErr("%s and %s are not the names of two places", typeName(x), typeName(named))
	}
	in, ok := operands[2].(inputRef)
	if !ok || place == "" {
		return types.False
	}
	path := in.pathOf(string(place))
	in.notedAfter(Reading{"places above " + string(place), pathText(path)})
	return types.Bool(slices.Contains(path, string(name)))
}

// pathOf returns the name of a place and those above it, as they were read for the evaluation.
func (in *Input) pathOf(place string) []string {
	if len(in.Home) > 0 && in.Home[0] == place {
		return in.Home
	}
	if in.Places == nil {
		return nil
	}
	return in.Places(place)
}

// notedAfter keeps what explains a line after its fields.
func (in *Input) notedAfter(r Reading) {
	if in.judged {
		in.after = append(in.after, r)
	}
}

// pathText describes a path for an explanation.
func pathText(path []string) any {
	switch len(path) {
	case 0:
		return "there is no such place"
	case 1:
		return nil
	}
	return strings.Join(path[1:], ", ")
}

// Places returns the fields of records of which the condition asks within.
func (c *Condition) Places() (all []Path) {
	c.each(func(p *Program) { all = append(all, p.places...) })
	return all
}

// AsksWithin reports whether the condition asks in which places something is.
func (c *Condition) AsksWithin() (asks bool) {
	c.each(func(p *Program) { asks = asks || p.within })
	return asks
}

// each calls do for each line.
func (c *Condition) each(do func(*Program)) {
	if c == nil {
		return
	}
	if c.line != nil {
		do(c.line)
	}
	for _, part := range c.group {
		part.each(do)
	}
}
