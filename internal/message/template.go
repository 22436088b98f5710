package message

import (
	"slices"
	"strings"
)

// Template is a parsed text.
type Template struct {
	src     string
	format  Format
	root    []node
	own     map[string]bool // the variables that the template sets; null until then
	paths   []string        // the paths that it reads of its values
	written []string        // of these, the paths that are written without a filter
}

const (
	// maxSource bounds a template, in bytes: as the output is bounded.
	maxSource = DefaultMaxOutput
	// maxNesting bounds blocks within blocks.
	maxNesting = 32
)

// Parse parses a template. Its errors are *Error: for example an unknown tag or filter, or a tag that is not closed.
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

// Blank reports whether the template consists of blanks only, which counts as missing.
func (t *Template) Blank() bool { return strings.TrimSpace(t.src) == "" }

// Variables returns the paths that the template reads of its values, such as record.name, sorted. Variables that the template sets
// itself (assign, capture, for) are not included.
func (t *Template) Variables() []string { return slices.Clone(t.paths) }

// Written returns those of the paths that are written without a filter, as {{ record.name }}.
func (t *Template) Written() []string { return slices.Clone(t.written) }

// builder makes nodes from tokens.
type builder struct {
	src    string
	tokens []token
	next   int
	loops  int
	bound  map[string]int // the template's own variables that are in scope
	own    map[string]bool
	paths  []string

	written []string // the paths that are a whole output
}

// tag is the head of a {% … %}.
type tag struct {
	name string
	at   int
	p    *parser
}

// block reads nodes up to a tag that ends or divides the block, and returns that tag too.
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
		case rawToken:
			nodes = append(nodes, rawNode(tok.body))
		case outputToken:
			n, err := b.output(b.parser(tok))
			if err != nil {
				return nil, nil, err
			}
			nodes = append(nodes, n)
		case tagToken:
			p := b.parser(tok)
			if p.take("#") { // {% # a remark %}
				if err := p.remark(); err != nil {
					return nil, nil, err
				}
				continue
			}
			at := tok.at + len(tok.body) - len(strings.TrimLeft(tok.body, blankSigns))
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

// output reads the content of {{ }}.
func (b *builder) output(p *parser) (node, *Error) {
	read := len(b.paths)
	e, err := p.filteredValue()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	if _, plain := e.(*path); plain {
		b.written = append(b.written, b.paths[read:]...)
	}
	return &outputNode{e, p.at}, nil
}
