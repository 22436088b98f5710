package definition

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/message"
)

// reader reads the nodes of one document. Every method that finds something wrong reports it and gives back a zero
// value; a Broken node was reported before and is passed over in silence.
type reader struct {
	*loader
	file string
	kind Kind
	name string
}

func (r *reader) report(code string, at portable.Pos, message, hint string) {
	r.problems = append(r.problems, Problem{
		File: r.file, Line: at.Line, Column: at.Column, Message: message, Hint: hint, Code: code,
		Warning: r.stored && code == CodeReference,
	})
}

func (r *reader) invalid(at portable.Pos, message, hint string) {
	r.report(CodeInvalid, at, message, hint)
}

func (r *reader) warn(code string, at portable.Pos, message, hint string) {
	r.report(code, at, message, hint)
	r.problems[len(r.problems)-1].Warning = true
}

func (r *reader) notYet(at portable.Pos, what, hint string) {
	r.report(CodeNotSupportedYet, at, fmt.Sprintf("%q is not supported yet", what), hint)
}

// refuse reports an error of one of the packages that read values.
func (r *reader) refuse(n *portable.Node, err error) {
	var value *civil.Error
	var expression *expr.Error
	var template *message.Error
	switch {
	case errors.As(err, &value):
		r.invalid(n.Pos, value.Message, value.Hint)
	case errors.As(err, &expression):
		r.report(CodeExpression, n.At(expression.Offset), expression.Message, expression.Hint)
	case errors.As(err, &template):
		r.report(CodeTemplate, n.At(offsetOf(n.Text, template.Line, template.Column)), template.Message, template.Hint)
	default:
		r.invalid(n.Pos, err.Error(), "")
	}
}

// offsetOf converts a line and a column in bytes, both from 1.
func offsetOf(text string, line, column int) int {
	start := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(text[start:], '\n')
		if next < 0 {
			break
		}
		start += next + 1
	}
	return min(start+max(column, 1)-1, len(text))
}

// fields are the values of a block that was held against its table.
type fields struct {
	node   *portable.Node
	block  *block
	values map[string]*portable.Node
}

// get returns the value of a key, nil when it is not written.
func (f fields) get(key string) *portable.Node { return f.values[key] }

// fields reads a map by its table. ok is false when it is no map.
func (r *reader) fields(n *portable.Node, table string) (f fields, ok bool) {
	b := r.tables[table]
	f = fields{node: n, block: b, values: map[string]*portable.Node{}}
	if n.Kind != portable.Map {
		r.wrong(n, b.name+" with its keys", "its keys are "+sentence(b.names()))
		return f, false
	}
	for _, field := range n.Fields {
		name := field.Key.Text
		e := b.entry(name)
		switch {
		case e == nil:
			hint := didYouMean(name, b.names())
			if hint == "" {
				hint = r.elsewhere(name, b)
			}
			r.report(CodeUnknownKey, field.Key.Pos, fmt.Sprintf("unknown key %q", name), hint)
			f.node = &portable.Node{Kind: portable.Map, Pos: n.Pos, Fields: n.Fields, Partial: n.Partial}
			if miss := strings.TrimSuffix(strings.TrimPrefix(hint, "did you mean "), "?"); miss != hint {
				f.values[miss] = &portable.Node{Kind: portable.Broken, Pos: field.Key.Pos} // not missing, only misspelt
			}
			continue
		case e.later:
			r.notYet(field.Key.Pos, name, e.hint)
		}
		f.values[name] = field.Value
	}
	return f, true
}

// elsewhere says in which block a key stands that is not one of this block.
func (r *reader) elsewhere(key string, here *block) string {
	var found []string
	for name, b := range r.tables {
		if b != here && b.entry(key) != nil && name != "condition" && name != "sink_retry" {
			found = append(found, b.name)
		}
	}
	if len(found) == 1 {
		return "it is a key of " + found[0]
	}
	return "the keys here are " + sentence(here.names())
}

// missing names the required keys of a block that are not written.
func (r *reader) missing(f fields) []string {
	var names []string
	if f.node.Partial {
		return nil
	}
	for _, e := range f.block.entries {
		if e.required && f.values[e.name] == nil {
			names = append(names, e.name)
		}
	}
	return names
}

// need reports the required keys of a block that are not written, in one problem.
func (r *reader) need(f fields) {
	if names := r.missing(f); len(names) > 0 {
		r.report(CodeMissing, f.node.Pos, f.block.name+" needs "+sentence(names), "")
	}
}

// wrong reports a value of the wrong kind.
func (r *reader) wrong(n *portable.Node, want, hint string) {
	is := "a text"
	switch {
	case n.Kind == portable.Broken:
		return
	case n.Kind == portable.List:
		is = "a list"
	case n.Kind == portable.Map:
		is = "a map"
	case n.IsNull():
		is = "nothing"
	case n.IsNumber():
		is = "a number"
	default:
		if _, ok := n.Bool(); ok {
			is = "true or false"
		}
	}
	r.invalid(n.Pos, "this must be "+want+", and is "+is, hint)
}

// text reads a scalar as it is spelled; numbers keep their spelling.
func (r *reader) text(n *portable.Node) (string, bool) {
	if n == nil || n.Kind == portable.Broken {
		return "", false
	}
	if n.Kind != portable.Scalar || n.IsNull() {
		r.wrong(n, "a text", "")
		return "", false
	}
	if n.Text == "" {
		r.invalid(n.Pos, "this text is empty", "write a value, or remove the line")
		return "", false
	}
	return n.Text, true
}

func (r *reader) bool(n *portable.Node, byDefault bool) bool {
	if n == nil || n.Kind == portable.Broken {
		return byDefault
	}
	value, ok := n.Bool()
	if !ok {
		r.wrong(n, "true or false", "")
		return byDefault
	}
	return value
}

func (r *reader) number(n *portable.Node) *float64 {
	if n == nil || n.Kind == portable.Broken {
		return nil
	}
	if !n.IsNumber() {
		r.wrong(n, "a number", "")
		return nil
	}
	value, err := strconv.ParseFloat(n.Text, 64)
	if err != nil {
		r.invalid(n.Pos, "this number is too large", "")
		return nil
	}
	return &value
}

// count reads a whole number from 1 to a million, 0 when there is none.
func (r *reader) count(n *portable.Node) int {
	const most = 1_000_000
	if n == nil || n.Kind == portable.Broken {
		return 0
	}
	value, err := strconv.Atoi(n.Text)
	if err != nil || !n.IsNumber() || value < 1 || value > most {
		r.wrong(n, fmt.Sprintf("a whole number from 1 to %d", most), "")
		return 0
	}
	return value
}

// word reads one of a fixed set of words.
func (r *reader) word(n *portable.Node, key, byDefault string, words []string) string {
	text, ok := r.text(n)
	switch {
	case !ok:
		return byDefault
	case slices.Contains(words, text):
		return text
	case slices.Contains(laterValues()[key], text):
		r.notYet(n.Pos, text, "for now it is "+alternatives(words))
	default:
		hint := didYouMean(text, words)
		if hint == "" {
			hint = "it is " + alternatives(words)
		}
		r.invalid(n.Pos, fmt.Sprintf("%q is not a value of %s", text, key), hint)
	}
	return byDefault
}

// alternatives joins words for people: a, b or c.
func alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// items returns the entries of a list; a list of one may be written bare.
func (r *reader) items(n *portable.Node) []*portable.Node {
	switch {
	case n == nil || n.Kind == portable.Broken:
		return nil
	case n.Kind == portable.List:
		return n.Items
	}
	return []*portable.Node{n}
}

func isWordChar(c byte, more string) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(more, c) >= 0
}

func isMadeOf(s, more string) bool {
	const longest = 128
	if s == "" || len(s) > longest {
		return false
	}
	for i := range len(s) {
		if !isWordChar(s[i], more) {
			return false
		}
	}
	return true
}

// defName reads a name of letters, digits, - _ : and a dot.
func (r *reader) defName(n *portable.Node) (string, bool) {
	text, ok := r.text(n)
	if ok && !isMadeOf(text, "-_:.") {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a name", text), "a name has letters, digits, - _ : and dots")
		return "", false
	}
	return text, ok
}

// slug reads a name that is a part of keys (model.md §4).
func (r *reader) slug(n *portable.Node) (string, bool) {
	text, ok := r.text(n)
	switch {
	case !ok:
		return "", false
	case key.Slug(text) != nil:
		r.invalid(n.Pos, key.Slug(text).Error(), "")
		return "", false
	}
	return text, true
}

// channelKey reads kind:name, or kind for kind:default.
func (r *reader) channelKey(n *portable.Node) (string, bool) {
	text, ok := r.text(n)
	if !ok {
		return "", false
	}
	kind, name, named := strings.Cut(text, ":")
	if !named {
		name = "default"
	}
	if !isMadeOf(kind, "-_.") || !isMadeOf(name, "-_.") {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a channel", text), "a channel is written email or sms:twilio")
		return "", false
	}
	return kind + ":" + name, true
}

// locale reads a language tag such as en or ar-IQ.
func (r *reader) locale(n *portable.Node) string {
	text, ok := r.text(n)
	if ok && !isLocale(text) {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a locale", text), "a locale is written en or ar-IQ")
		return ""
	}
	return text
}

func isLocale(s string) bool {
	for i, part := range strings.FieldsFunc(s, func(c rune) bool { return c == '-' || c == '_' }) {
		if !isMadeOf(part, "") || len(part) > 8 || i == 0 && (len(part) < 2 || strings.ContainsAny(part, "0123456789")) {
			return false
		}
	}
	return s != "" && !strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "_") && !strings.HasSuffix(s, "-") && !strings.HasSuffix(s, "_")
}

// duration reads a length of time that is longer than nothing.
func (r *reader) duration(n *portable.Node) (civil.Duration, bool) {
	text, ok := r.text(n)
	if !ok {
		return civil.Duration{}, false
	}
	d, err := civil.ParseDuration(text)
	if err != nil {
		r.refuse(n, err)
		return d, false
	}
	if d.IsZero() {
		r.invalid(n.Pos, fmt.Sprintf("%q is no time at all", text), "")
		return d, false
	}
	return d, true
}

func (r *reader) durations(n *portable.Node) []civil.Duration {
	var all []civil.Duration
	for _, item := range r.items(n) {
		if d, ok := r.duration(item); ok {
			all = append(all, d)
		}
	}
	return all
}

// localized reads a template, or one for every locale.
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
		if !isLocale(f.Key.Text) {
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
	return t
}

func (r *reader) expression(n *portable.Node, scope expr.Scope, want expr.Type) *expr.Program {
	text, ok := r.text(n)
	if !ok {
		return nil
	}
	p, err := r.compiler.Compile(text, scope, want)
	if err != nil {
		r.refuse(n, err)
		return nil
	}
	return p
}

// condition reads an expression; a list of which all must hold; all or any with a list; or field, op and value.
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
		c, err := r.compiler.Line(text, scope)
		if err != nil {
			r.refuse(n, err)
			return nil
		}
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
		r.report(CodeMissing, f.node.Pos, "a condition on a field needs an op", "such as op: is")
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
	c, err := r.compiler.Simple(field, op, value, scope)
	if err == nil {
		return c
	}
	at := f.get("field")
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

// pattern reads a regular expression.
func (r *reader) pattern(n *portable.Node) string {
	text, ok := r.text(n)
	if !ok {
		return ""
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a regular expression", text), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return ""
	}
	return text
}
