package loader

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// localized reads a template, or a map with one for each locale.
func (r *reader) localized(n *portable.Node, format message.Format) message.Text {
	if n == nil || n.Kind == portable.Broken {
		return message.Text{}
	}
	if n.Kind != portable.Map {
		if t := r.template(n, format); t != nil {
			return message.One(t)
		}
		return message.Text{}
	}
	by := make(map[string]*message.Template, len(n.Fields))
	for _, f := range n.Fields {
		if !subject.ValidLocale(f.Key.Text) {
			r.invalid(f.Key.Pos, fmt.Sprintf("%q is not a locale", f.Key.Text), "a text is one text, or a map of locales such as en and ar-IQ")
			continue
		}
		if t := r.template(f.Value, format); t != nil {
			by[f.Key.Text] = t
		}
	}
	if len(by) == 0 {
		return message.Text{}
	}
	return message.Localized(by)
}

func (r *reader) template(n *portable.Node, format message.Format) *message.Template {
	text, ok := r.text(n)
	if !ok {
		return nil
	}
	t, err := message.Parse(text, format)
	if err != nil {
		r.refuse(n, err)
		return nil
	}
	r.placeholders(n)
	for _, path := range t.Variables() {
		root, field := rootOf(path)
		r.readsGroups = r.readsGroups || root == "contact" && (field == "" || field == "groups")
		r.variable(n.At(max(strings.Index(n.Text, path), 0)), path, r.about)
	}
	for _, path := range t.Written() {
		r.whole(n.At(max(strings.Index(n.Text, path), 0)), path, r.about.typ)
	}
	return t
}

// placeholder matches a variable in the syntax of other systems.
var placeholder = regexp.MustCompile(`(^|[^{])(\$?\{ *((?:record|event|candidate|contact|vars|workspace)\.[A-Za-z0-9_.]+) *\})($|[^}])`)

// placeholders warns about variables in another system's syntax, which would be sent as written.
func (r *reader) placeholders(n *portable.Node) {
	if r.stored {
		return
	}
	for _, at := range placeholder.FindAllStringSubmatchIndex(n.Text, -1) {
		r.warn(definition.CodeLint, n.At(at[4]), n.Text[at[4]:at[5]]+" is sent as written", "write {{ "+n.Text[at[6]:at[7]]+" }}")
	}
}

// constant checks that a workflow has the constant that it reads.
func (r *reader) constant(at portable.Pos, name string) {
	if r.kind != definition.KindWorkflow || name == "" || r.anyVar {
		return
	}
	if _, ok := r.vars[name]; !ok {
		hint := suggest.DidYouMean(name, slices.Sorted(maps.Keys(r.vars)))
		if hint == "" {
			hint = "write it below vars:"
		}
		r.report(definition.CodeReference, at, fmt.Sprintf("workflow %s has no constant %q", r.name, name), hint)
	}
}

// constants checks the constants that an expression reads, and notes whether it reads the groups of a contact.
func (r *reader) constants(n *portable.Node, paths []expr.Path) {
	r.readsGroups = r.readsGroups || definition.ReadsGroups(paths)
	for _, p := range paths {
		if len(p) > 1 && p[0] == "vars" {
			r.constant(n.At(max(strings.Index(n.Text, "vars"), 0)), p[1])
		}
	}
}

func (r *reader) expression(n *portable.Node, scope expr.Scope, want expr.Type) *expr.Program {
	text, ok := r.text(n)
	if !ok {
		return nil
	}
	p, err := r.compiler.Compile(strings.TrimRight(text, " \n"), scope, want)
	if err != nil {
		r.refuse(n, err)
		return nil
	}
	r.constants(n, p.Paths())
	return p
}

// condition reads an expression, a list of conditions that must all hold, all or any with a list, or field, op and value.
func (r *reader) condition(n *portable.Node, scope expr.Scope) *expr.Condition {
	switch {
	case n == nil || n.Kind == portable.Broken:
		return nil
	case n.Kind == portable.List:
		return expr.AllOf(r.conditions(n, scope)...)
	case n.Kind == portable.Scalar:
		text, ok := r.text(n)
		if !ok {
			return nil
		}
		c, err := r.compiler.Line(strings.TrimRight(text, " \n"), scope)
		if err != nil {
			r.refuse(n, err)
			return nil
		}
		r.constants(n, c.Paths())
		return c
	}
	f, ok := r.fields(n, "condition")
	if !ok {
		return nil
	}
	all, any, field := f.get("all"), f.get("any"), f.get("field")
	switch {
	case field != nil && all == nil && any == nil:
		return r.simple(f, scope)
	case all != nil && len(f.values) == 1:
		return expr.AllOf(r.conditions(all, scope)...)
	case any != nil && len(f.values) == 1:
		return expr.AnyOf(r.conditions(any, scope)...)
	case !n.Partial:
		r.invalid(n.Pos, "this is no condition", "write an expression, a list of them, all: or any: with a list, or field, op and value")
	}
	return nil
}

func (r *reader) conditions(n *portable.Node, scope expr.Scope) []*expr.Condition {
	items := r.items(n)
	if len(items) == 0 && n.Kind != portable.Broken {
		r.invalid(n.Pos, "this list of conditions is empty", "")
	}
	var all []*expr.Condition
	for _, item := range items {
		if c := r.condition(item, scope); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// simple reads field, op and value.
func (r *reader) simple(f fields, scope expr.Scope) *expr.Condition {
	field, okField := r.text(f.get("field"))
	if f.get("op") == nil && !f.node.Partial {
		r.report(definition.CodeMissing, f.node.Pos, "a condition on a field needs an op", "such as op: is")
		return nil
	}
	op, okOp := r.text(f.get("op"))
	var value any
	if v := f.get("value"); v != nil {
		if v.Kind == portable.Broken {
			return nil
		}
		value = v.Value()
	}
	if !okField || !okOp {
		return nil
	}
	at := f.get("field")
	c, err := r.compiler.Simple(field, op, value, scope)
	if err == nil {
		r.constants(at, c.Paths())
		return c
	}
	var e *expr.Error
	if errors.As(err, &e) {
		switch v := f.get("value"); {
		case strings.HasPrefix(e.Message, "unknown op") || v == nil && strings.HasPrefix(e.Message, op):
			at = f.get("op")
		case v != nil && (strings.HasPrefix(e.Message, op) || strings.HasPrefix(e.Message, "a value must")):
			at = v
		}
		err = &expr.Error{Message: e.Message, Hint: e.Hint}
	}
	r.refuse(at, err)
	return nil
}
