package message

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/slip"
)

// Template is a parsed text.
type Template struct {
	src     string
	format  Format
	root    []node
	own     map[string]bool // the variables that the template makes itself; null until it does
	paths   []string        // what it reads from outside
	written []string        // of these, what is written out without a filter
}

const (
	// maxSource is the longest template: as much as the longest output.
	maxSource = DefaultMaxOutput
	// maxNesting bounds blocks within blocks.
	maxNesting = 32
)

// Parse reads a template. Its errors are *Error: unknown tags and filters, what is not closed, and where.
func Parse(src string, format Format) (*Template, error) {
	if len(src) > maxSource {
		return nil, errorAt(src, 0, "the text is longer than 256 KiB", "")
	}
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	b := &builder{src: src, tokens: tokens, bound: map[string]int{}, own: map[string]bool{}}
	root, end, err := b.block(0)
	if err != nil {
		return nil, err
	}
	if end != nil {
		return nil, errorAt(src, end.at, "{% "+end.name+" %} has no beginning", "")
	}
	slices.Sort(b.paths)
	return &Template{src: src, format: format, root: root, own: b.own, paths: slices.Compact(b.paths), written: b.written}, nil
}

// Source returns the text as it was written.
func (t *Template) Source() string { return t.src }

func (t *Template) as(format Format) *Template {
	same := *t
	same.format = format
	return &same
}

// Blank reports whether the template is nothing but blanks, which counts as missing.
func (t *Template) Blank() bool { return strings.TrimSpace(t.src) == "" }

// Variables returns the paths that the template reads from outside, such as record.name, sorted. A variable that
// the template makes itself (assign, capture, for) is none of them.
func (t *Template) Variables() []string { return slices.Clone(t.paths) }

// Written returns those paths that are written out as they are, {{ record.name }}, without a filter.
func (t *Template) Written() []string { return slices.Clone(t.written) }

// builder makes nodes of tokens.
type builder struct {
	src    string
	tokens []token
	next   int
	loops  int
	bound  map[string]int // the template's own variables in scope
	own    map[string]bool
	paths  []string

	written []string // those of paths that are the whole of an output
}

// tag is the head of a {% … %}.
type tag struct {
	name string
	at   int
	p    *parser
}

// block reads nodes up to a tag that ends or divides a block, which it returns.
func (b *builder) block(depth int) ([]node, *tag, *Error) {
	if depth > maxNesting {
		return nil, nil, errorAt(b.src, b.tokens[b.next-1].at, "blocks are nested deeper than 32", "")
	}
	var nodes []node
	for b.next < len(b.tokens) {
		tok := b.tokens[b.next]
		b.next++
		switch tok.kind {
		case textToken:
			nodes = append(nodes, textNode(tok.body))
		case outputToken:
			p, read := b.parser(tok), len(b.paths)
			e, err := p.filteredValue()
			if err == nil {
				err = p.end()
			}
			if err != nil {
				return nil, nil, err
			}
			if _, plain := e.(*path); plain {
				b.written = append(b.written, b.paths[read:]...)
			}
			nodes = append(nodes, &outputNode{e, tok.at})
		case tagToken:
			p := b.parser(tok)
			if p.take("#") { // {% # a remark %}
				continue
			}
			at := tok.at + len(tok.body) - len(strings.TrimLeft(tok.body, " \t\r\n"))
			name, err := p.name("the tag's name")
			if err != nil {
				return nil, nil, err
			}
			t := &tag{name, at, p}
			if isDivider(name) {
				return nodes, t, nil
			}
			n, err := b.tag(t, depth)
			if err != nil {
				return nil, nil, err
			}
			if n != nil {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes, nil, nil
}

func isDivider(name string) bool {
	switch name {
	case "else", "elsif", "when":
		return true
	}
	return strings.HasPrefix(name, "end")
}

func (b *builder) parser(tok token) *parser {
	return &parser{src: b.src, body: tok.body, at: tok.at, reads: func(p *path) {
		if b.bound[p.root] > 0 {
			return
		}
		var names strings.Builder
		names.WriteString(p.root)
		for _, st := range p.steps {
			if st.index != nil || isSizeWord(st.name) {
				break
			}
			names.WriteString("." + st.name)
		}
		b.paths = append(b.paths, names.String())
	}}
}

func isSizeWord(name string) bool { return name == "size" || name == "first" || name == "last" }

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
	case "comment":
		return nil, b.comment(t)
	case "cycle":
		return b.cycleTag(t)
	case "break", "continue":
		if b.loops == 0 {
			return nil, errorAt(b.src, t.at, "{% "+t.name+" %} stands outside of a loop", "")
		}
		return jumpNode(t.name), t.p.end()
	}
	return nil, errorAt(b.src, t.at, "unknown tag "+quote(t.name), slip.DidYouMean(t.name, []string{
		"if", "unless", "case", "for", "assign", "capture", "comment", "cycle", "break", "continue", "raw",
		"else", "elsif", "when", "endif", "endunless", "endcase", "endfor", "endcapture", "endcomment", "endraw",
	}))
}

// makes remembers a variable that the template sets.
func (b *builder) makes(name string) {
	b.bound[name]++
	b.own[name] = true
}

// body reads a block that nothing divides.
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
	_, end, err := b.block(depth + 1) // what stands before the first when is nothing
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
	return n, b.ends(t, end)
}

// values reads a list parted by commas or the word or.
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
		switch {
		case t.p.takeWord("reversed"):
			n.reversed = true
			continue
		case t.p.takeWord("limit"):
			n.limit, err = b.option(t.p)
		case t.p.takeWord("offset"):
			n.offset, err = b.option(t.p)
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
	if t.p.take(":") { // a named group
		if n.values, err = b.values(t.p); err != nil {
			return nil, err
		}
		return n, nil
	}
	n.values = []expression{first}
	if t.p.take(",") {
		more, err := b.values(t.p)
		if err != nil {
			return nil, err
		}
		n.values = append(n.values, more...)
		return n, nil
	}
	return n, t.p.end()
}

// comment skips up to {% endcomment %} without reading what stands between.
func (b *builder) comment(t *tag) *Error {
	for b.next < len(b.tokens) {
		tok := b.tokens[b.next]
		b.next++
		if tok.kind == tagToken && strings.TrimSpace(tok.body) == "endcomment" {
			return nil
		}
	}
	return errorAt(b.src, t.at, "{% comment %} is not closed", "end it with {% endcomment %}")
}
