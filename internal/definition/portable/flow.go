package portable

import (
	"fmt"
	"strings"
)

// flow reads a list in brackets or a map in braces and leaves the cursor behind it. It returns nil after a report
// that leaves no way to go on.
func (p *parser) flow(parent, depth int) *Node {
	at := p.here()
	if depth > MaxDepth {
		p.tooDeep()
		return nil
	}
	n := &Node{Kind: List, Flow: true, Pos: at}
	closer := byte(']')
	if p.rest()[0] == '{' {
		n.Kind, closer = Map, '}'
	}
	p.col++
	seen := map[string]Pos{}
	for {
		if !p.flowNext(parent, closer) {
			p.report(at, fmt.Sprintf("%c is missing", closer), "write it behind the last value")
			return nil
		}
		if p.rest()[0] == closer {
			p.col++
			return whole(n)
		}
		if p.rest()[0] == ',' {
			p.report(p.here(), "a value is missing before the comma", "")
			return nil
		}
		ok := false
		if n.Kind == List {
			var item *Node
			if item = p.flowValue(parent, depth); item != nil {
				n.Items = append(n.Items, item)
				ok = true
			}
		} else {
			ok = p.flowField(n, seen, parent, depth)
		}
		if !ok {
			return nil
		}
		if !p.flowNext(parent, closer) {
			p.report(at, fmt.Sprintf("%c is missing", closer), "write it behind the last value")
			return nil
		}
		switch c := p.rest()[0]; {
		case c == ',':
			p.col++
		case c == closer:
		case c == ':' && n.Kind == List:
			p.report(p.here(), "a map in a list is written in braces", "{key: value}")
			return nil
		default:
			p.report(p.here(), fmt.Sprintf("a comma or %c is missing here", closer), "put a value with , [ ] { } in it in quotes")
			return nil
		}
	}
}

// flowField reads one key and its value.
func (p *parser) flowField(n *Node, seen map[string]Pos, parent, depth int) bool {
	key := p.flowScalar(parent, p.plainKey)
	if key == nil {
		return false
	}
	at := key.Pos
	p.skipBlanks()
	noValue := func() bool {
		if key.Kind == Broken {
			return false
		}
		hint := "write {key: value}"
		if strings.Contains(key.Text, ":") {
			hint = "write a space after the colon"
		}
		p.report(at, fmt.Sprintf("%q has no value", key.Text), hint)
		return false
	}
	if !strings.HasPrefix(p.rest(), ":") {
		return noValue()
	}
	p.col++
	if !p.flowNext(parent, '}') || p.rest()[0] == ',' || p.rest()[0] == '}' {
		return noValue()
	}
	value := p.below(key, func() *Node { return p.flowValue(parent, depth) })
	if value == nil {
		return false
	}
	p.add(n, seen, key, value)
	return true
}

func (p *parser) flowValue(parent, depth int) *Node {
	if rest := p.rest(); (rest[0] == '[' || rest[0] == '{') && !strings.HasPrefix(rest, "{{") && !strings.HasPrefix(rest, "{%") {
		return p.flow(parent, depth+1)
	}
	return p.flowScalar(parent, p.plainText)
}

// flowScalar reads a text between brackets: in quotes, or up to a comma, a bracket or a colon. A plain one passes check.
func (p *parser) flowScalar(parent int, check func(*Node) *Node) *Node {
	rest := p.rest()
	switch {
	case rest[0] == '"' || rest[0] == '\'':
		return p.quoted(parent)
	case rest[0] == '[' || rest[0] == '{' && !strings.HasPrefix(rest, "{{") && !strings.HasPrefix(rest, "{%"):
		p.report(p.here(), "a key cannot be a list or a map", "")
		return nil
	case rest[0] == '|' || rest[0] == '>':
		p.report(p.here(), fmt.Sprintf("a value cannot begin with %c", rest[0]), "put it in quotes")
		return nil
	}
	if p.refused(rest) != nil {
		return nil
	}
	n := &Node{Kind: Scalar, Style: Plain, Pos: p.here()}
	end := 0
scan:
	for ; end < len(rest); end++ {
		switch c := rest[end]; c {
		case ',', '[', ']', '{', '}':
			break scan
		case ':':
			if end+1 == len(rest) || isBlank(rest[end+1]) || strings.IndexByte(",[]{}", rest[end+1]) >= 0 {
				break scan
			}
		case '#':
			if end > 0 && isBlank(rest[end-1]) {
				break scan
			}
		}
	}
	n.Text = strings.TrimRight(rest[:end], " \t")
	n.spans = []span{{0, n.Pos}}
	p.col += end
	return check(n)
}

// flowNext moves to the next character that counts. It returns false when the lines that belong to the node end.
func (p *parser) flowNext(parent int, closer byte) bool {
	for p.atEnd() {
		p.ln++
		if !p.next() {
			p.ln, p.col = len(p.lines)-1, 0
			return false
		}
		if p.col <= parent && p.rest()[0] != closer {
			p.ln--
			return false
		}
	}
	return true
}
