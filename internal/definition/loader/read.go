package loader

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/suggest"
)

// reader reads the nodes of one document. A method that finds a mistake reports it and returns a zero value. A Broken node was
// reported before and is skipped.
type reader struct {
	*loader
	file string
	kind definition.Kind
	name string
	vars map[string]any // of the workflow
	// anyVar says that some variables could not be read.
	anyVar bool
	// about is what the texts at the current position may refer to; texts outside workflows may refer to anything.
	about subjects
	// around are the names of the trigger whose message is being read.
	around expr.Scope
	// questions are the ids whose answers the condition that is being read may read.
	questions []string
}

func (r *reader) report(code string, at portable.Pos, message, hint string) {
	r.problems = append(r.problems, definition.Problem{
		File: r.file, Line: at.Line, Column: at.Column, Message: message, Hint: hint, Code: code,
		Warning: r.stored && code == definition.CodeReference,
	})
}

func (r *reader) invalid(at portable.Pos, message, hint string) {
	r.report(definition.CodeInvalid, at, message, hint)
}

func (r *reader) warn(code string, at portable.Pos, message, hint string) {
	r.report(code, at, message, hint)
	r.problems[len(r.problems)-1].Warning = true
}

func (r *reader) notYet(at portable.Pos, what, hint string) {
	r.report(definition.CodeNotSupportedYet, at, fmt.Sprintf("%q is not supported yet", what), hint)
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
		hint := expression.Hint
		if id := suggest.Nearest(expression.Name, r.questions); id != "" {
			hint = "did you mean answers." + id + "?"
		}
		r.report(definition.CodeExpression, n.At(expression.Offset), expression.Message, hint)
	case errors.As(err, &template):
		r.report(definition.CodeTemplate, n.At(offsetOf(n.Text, template.Line, template.Column)), template.Message, template.Hint)
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

// fields are the values of a block that was checked against its table.
type fields struct {
	node   *portable.Node
	block  *block
	values map[string]*portable.Node
}

// get returns the value of a key, nil when it is not written.
func (f fields) get(key string) *portable.Node { return f.values[key] }

// fields reads a map by its table. ok is false when the node is not a map.
func (r *reader) fields(n *portable.Node, table string) (f fields, ok bool) {
	b := r.tables[table]
	f = fields{node: n, block: b, values: map[string]*portable.Node{}}
	if n.Kind != portable.Map {
		r.wrong(n, b.name+" with its keys", bare(n, b, table))
		return f, false
	}
	for _, field := range n.Fields {
		name := field.Key.Text
		e := b.entry(name)
		switch {
		case e == nil && field.Key.Astray:
			continue // it may belong to another block
		case e == nil:
			r.unknown(&f, field.Key)
			continue
		case e.later:
			r.notYet(field.Key.Pos, name, e.hint)
		}
		f.values[name] = field.Value
	}
	return f, true
}

// bare returns the hint for a text in place of a block: the key that was probably meant.
func bare(n *portable.Node, b *block, table string) string {
	if table == "audience" && n.Text == "everyone" {
		return "write everyone: true"
	}
	key := map[string]string{"audience": "to: %s", "message": "sms: {text: %s}", "schedule": "cron: %s", "repeat": "every: %s"}[table]
	if key == "" && b.entry("text") != nil {
		key = "text: %s"
	}
	if n.Kind == portable.Scalar && key != "" && len(n.Text) <= 40 && !strings.ContainsAny(n.Text, "\n{") {
		return "write " + fmt.Sprintf(key, n.Text)
	}
	return "its keys are " + sentence(b.supported())
}

// unknown reports a key that its block does not have. The key that was probably meant is then not reported as missing.
func (r *reader) unknown(f *fields, key *portable.Node) {
	names := f.block.names()
	meant := otherWords()[strings.ToLower(key.Text)]
	if !slices.Contains(names, meant) {
		meant = suggest.Nearest(key.Text, names)
	}
	hint, below, blocks := "", r.below(key.Text, f.block), r.elsewhere(key.Text, f.block)
	switch {
	case meant != "":
		hint = "did you mean " + meant + "?"
		f.values[meant] = &portable.Node{Kind: portable.Broken, Pos: key.Pos}
	case len(below) > 0:
		hint = "write it below " + alternatives(below)
	case len(blocks) > 0 && len(blocks) <= mostElsewhere:
		hint = "it is a key of " + alternatives(blocks)
	default:
		hint = "the keys here are " + sentence(f.block.supported())
	}
	if meant == "" {
		n := *f.node
		n.Partial = true
		f.node = &n
	}
	r.report(definition.CodeUnknownKey, key.Pos, fmt.Sprintf("unknown key %q", key.Text), hint)
}

// otherWords are keys of other systems, and what they are called here.
func otherWords() map[string]string {
	return map[string]string{
		"recipient": "audience", "recipients": "audience", "receivers": "audience", "to": "audience", "who": "audience",
		"if": "when", "condition": "when", "conditions": "when", "filter": "when",
		"delay": "offset", "wait": "offset", "after": "offset", "before": "offset",
		"date": "anchor", "field": "anchor", "time": "at", "tz": "timezone", "time_zone": "timezone", "zone": "timezone",
		"body": "text", "content": "text", "title": "subject", "active": "enabled", "name": "id", "kind": "type",
		"on": "event", "event_type": "event", "record_type": "record", "trigger": "triggers", "variables": "vars",
	}
}

// mostElsewhere bounds the blocks that a hint names as the place of a key.
const mostElsewhere = 2

// below names the keys of a block below which a key may stand.
func (r *reader) below(key string, here *block) []string {
	var names []string
	for _, e := range here.entries {
		if b := r.tables[e.name]; b != nil && b != here && !e.later && b.entry(key) != nil {
			names = append(names, e.name)
		}
	}
	return names
}

// elsewhere names the other blocks that have a key.
func (r *reader) elsewhere(key string, here *block) []string {
	var found []string
	for name, b := range r.tables {
		if b != here && name != key && b.entry(key) != nil && name != "condition" && name != "sink_retry" && name != "channel_cadence" {
			found = append(found, b.name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
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
		doc := strings.TrimSuffix(f.block.entry(names[0]).doc, ".")
		r.report(definition.CodeMissing, f.node.Pos, f.block.name+" needs "+sentence(names), names[0]+": "+strings.ToLower(doc[:min(1, len(doc))])+doc[min(1, len(doc)):])
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
