package message

import (
	"strings"

	"github.com/carillonhq/carillon/internal/suggest"
)

func (b *builder) tag(t *tag, depth int) (node, *Error) {
	switch t.name {
	case "if", "unless":
		return b.ifTag(t, depth)
	case "case":
		return b.caseTag(t, depth)
	case "for":
		return b.forTag(t, depth)
	case "assign":
		return b.assignTag(t)
	case "capture":
		return b.captureTag(t, depth)
	case "comment":
		return nil, b.comment(t)
	case "cycle":
		return b.cycleTag(t)
	case "echo":
		return b.output(t.p)
	case "increment", "decrement":
		return b.counterTag(t)
	case "liquid":
		return b.liquidTag(t, depth)
	case "break", "continue":
		if b.loops == 0 {
			return nil, errorAt(b.src, t.at, "{% "+t.name+" %} stands outside of a loop", "")
		}
		return jumpNode(t.name), t.p.end()
	}
	return nil, b.unknown(t)
}

// unknown returns the error for an unknown tag. It names tags that other tools have.
func (b *builder) unknown(t *tag) *Error {
	refused := func(hint string) *Error {
		return errorAt(b.src, t.at, "the tag "+t.name+" of Liquid is not supported", hint)
	}
	switch t.name {
	case "include", "render", "layout", "section":
		return refused("a text reaches no other file; write it here, or use vars")
	case "tablerow":
		return refused("write the table with {% for %}")
	case "ifchanged":
		return refused("keep the last value with {% assign %} and compare with it")
	case "doc":
		return refused("write {% comment %}")
	}
	return errorAt(b.src, t.at, "unknown tag "+quote(t.name), suggest.DidYouMean(t.name, tagNames()))
}

// tagNames are the tags of the language.
func tagNames() []string {
	return []string{
		"if", "unless", "case", "for", "assign", "capture", "comment", "cycle", "break", "continue", "raw", "echo", "liquid",
		"increment", "decrement",
		"else", "elsif", "when", "endif", "endunless", "endcase", "endfor", "endcapture", "endcomment", "endraw",
	}
}

// makes records that the template sets a variable.
func (b *builder) makes(name string) {
	b.bound[name]++
	b.own[name] = true
}

// body reads a block without else or when.
func (b *builder) body(t *tag, depth int) ([]node, *Error) {
	nodes, end, err := b.block(depth + 1)
	if err != nil {
		return nil, err
	}
	return nodes, b.ends(t, end)
}

// ends checks that a block ends with its own end tag.
func (b *builder) ends(t, end *tag) *Error {
	switch {
	case end == nil:
		return errorAt(b.src, t.at, "{% "+t.name+" %} is not closed", "end it with {% end"+t.name+" %}")
	case end.name != "end"+t.name:
		return errorAt(b.src, end.at, "{% "+end.name+" %} does not belong into {% "+t.name+" %}", "end it with {% end"+t.name+" %}")
	}
	return end.p.end()
}

func (b *builder) ifTag(t *tag, depth int) (node, *Error) {
	n := &ifNode{}
	cond, err := b.conditionOf(t.p)
	if err != nil {
		return nil, err
	}
	for {
		body, end, err := b.block(depth + 1)
		if err != nil {
			return nil, err
		}
		n.branches = append(n.branches, branch{cond: cond, negated: t.name == "unless" && len(n.branches) == 0, body: body, at: t.at})
		switch {
		case end != nil && end.name == "elsif" && cond != nil:
			if cond, err = b.conditionOf(end.p); err != nil {
				return nil, err
			}
		case end != nil && end.name == "else" && cond != nil:
			if err := end.p.end(); err != nil {
				return nil, err
			}
			cond = nil
		default:
			n.compact()
			return n, b.ends(t, end)
		}
	}
}

func (b *builder) conditionOf(p *parser) (expression, *Error) {
	cond, err := p.condition()
	if err == nil {
		err = p.end()
	}
	return cond, err
}

func (b *builder) caseTag(t *tag, depth int) (node, *Error) {
	subject, err := t.p.value()
	if err == nil {
		err = t.p.end()
	}
	if err != nil {
		return nil, err
	}
	n := &caseNode{subject: subject, at: t.at}
	_, end, err := b.block(depth + 1) // the text before the first when is dropped
	for err == nil && end != nil && (end.name == "when" || end.name == "else") {
		var values []expression
		if end.name == "when" {
			if values, err = b.values(end.p); err != nil {
				return nil, err
			}
		} else if err = end.p.end(); err != nil {
			return nil, err
		}
		var body []node
		body, end, err = b.block(depth + 1)
		n.whens = append(n.whens, when{values, body})
	}
	if err != nil {
		return nil, err
	}
	n.compact()
	return n, b.ends(t, end)
}

// values reads a list that is separated by commas or by the word or.
func (b *builder) values(p *parser) ([]expression, *Error) {
	var out []expression
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if !p.take(",") && !p.takeWord("or") {
			return out, p.end()
		}
	}
}

func (b *builder) forTag(t *tag, depth int) (node, *Error) {
	n := &forNode{at: t.at}
	var err *Error
	if n.name, err = t.p.name("the loop's variable"); err != nil {
		return nil, err
	}
	if !t.p.takeWord("in") {
		return nil, t.p.fail("the word in is missing", "write {% for item in items %}")
	}
	if n.items, err = t.p.value(); err != nil {
		return nil, err
	}
	for {
		t.p.take(",") // some authors write commas between the options
		switch {
		case t.p.takeWord("reversed"):
			n.reversed = true
			continue
		case t.p.takeWord("limit"):
			n.limit, err = b.option(t.p)
		case t.p.takeWord("offset"):
			n.offset, err = b.option(t.p)
			if p, ok := n.offset.(*path); ok && p.root == "continue" {
				return nil, errorAt(b.src, t.at, "offset: continue is not supported", "give the offset as a number")
			}
		default:
			if err := t.p.end(); err != nil {
				return nil, err
			}
			return b.forBody(t, n, depth)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (b *builder) option(p *parser) (expression, *Error) {
	if !p.take(":") {
		return nil, p.fail("a colon is missing", "write limit: 5")
	}
	return p.value()
}

func (b *builder) forBody(t *tag, n *forNode, depth int) (node, *Error) {
	b.bound[n.name]++
	b.bound["forloop"]++
	b.loops++
	body, end, err := b.block(depth + 1)
	b.loops--
	b.bound[n.name]--
	b.bound["forloop"]--
	n.body = body
	if err == nil && end != nil && end.name == "else" {
		if err = end.p.end(); err == nil {
			n.otherwise, end, err = b.block(depth + 1)
		}
	}
	if err != nil {
		return nil, err
	}
	n.compact()
	return n, b.ends(t, end)
}

func (b *builder) assignTag(t *tag) (node, *Error) {
	name, err := t.p.name("a name")
	if err != nil {
		return nil, err
	}
	if !t.p.take("=") {
		return nil, t.p.fail("= is missing", "write {% assign name = value %}")
	}
	e, err := t.p.filteredValue()
	if err == nil {
		err = t.p.end()
	}
	if err != nil {
		return nil, err
	}
	b.makes(name)
	return &assignNode{name, e, t.at}, nil
}

func (b *builder) cycleTag(t *tag) (node, *Error) {
	n := &cycleNode{at: t.at}
	first, err := t.p.value()
	if err != nil {
		return nil, err
	}
	if t.p.take(":") { // a row with a name
		n.name = first
		n.values, err = b.values(t.p)
		return n, err
	}
	n.values = []expression{first}
	if t.p.take(",") {
		more, err := b.values(t.p)
		if err != nil {
			return nil, err
		}
		n.values = append(n.values, more...)
	} else if err := t.p.end(); err != nil {
		return nil, err
	}
	n.row = rowOf(n.values)
	return n, nil
}

// captureTag reads a block whose output becomes a variable.
func (b *builder) captureTag(t *tag, depth int) (node, *Error) {
	name, err := t.p.name("a name")
	if err == nil {
		err = t.p.end()
	}
	if err != nil {
		return nil, err
	}
	body, err := b.body(t, depth)
	b.makes(name)
	return &captureNode{name, body}, err
}

// counterTag reads {% increment name %} and {% decrement name %}.
func (b *builder) counterTag(t *tag) (node, *Error) {
	name, err := t.p.name("a name")
	if err == nil {
		err = t.p.end()
	}
	if err != nil {
		return nil, err
	}
	b.makes(name)
	return &counterNode{name: name, down: t.name == "decrement", at: t.at}, nil
}

// liquidTag reads a tag whose lines are tags. Its blocks end within it.
func (b *builder) liquidTag(t *tag, depth int) (node, *Error) {
	outer, next := b.tokens, b.next
	defer func() { b.tokens, b.next = outer, next }()
	b.tokens, b.next = nil, 0
	at := t.p.at + t.p.pos
	for line := range strings.Lines(t.p.body[t.p.pos:]) {
		if strings.Trim(line, blankSigns) != "" {
			b.tokens = append(b.tokens, token{tagToken, line, at})
		}
		at += len(line)
	}
	if depth >= maxNesting {
		return nil, errorAt(b.src, t.at, "blocks are nested deeper than 32", "")
	}
	nodes, end, err := b.block(depth + 1)
	if err == nil && end != nil {
		err = errorAt(b.src, end.at, "{% "+end.name+" %} has no beginning", "")
	}
	return groupNode(nodes), err
}

// comment skips to its {% endcomment %} without parsing the text between; comments nest.
func (b *builder) comment(t *tag) *Error {
	open := 1
	for b.next < len(b.tokens) {
		tok := b.tokens[b.next]
		b.next++
		if tok.kind != tagToken {
			continue
		}
		switch b.parser(tok).word() {
		case "comment":
			open++
		case "endcomment":
			open--
		}
		if open == 0 {
			return nil
		}
	}
	return errorAt(b.src, t.at, "{% comment %} is not closed", "end it with {% endcomment %}")
}
