// Package portable reads the subset of YAML that every YAML reader reads alike.
//
// It turns a text into nodes that know the position of each of their characters. It refuses what YAML readers disagree about: tags,
// anchors, aliases, merge keys, duplicate keys, numbers that are not JSON numbers, bare yes and no, empty values. Under payload, set,
// replace and answers, which hold data, bare keys are texts. It is not a decoder: packages definition and sim interpret the keys.
//
// It has its own parser because the available ones stop at the first mistake and lose positions inside a text; docs/decisions/0022 says what was
// tried and measured. A fuzz test compares it with go.yaml.in/yaml/v3.
//
// Invariants:
//   - Parse ends in time linear in the text and never panics; text, depth and number of problems are bounded.
//   - A scalar keeps its text as written: 1.10 stays 1.10.
//   - Every position lies inside the text. One mistake is one problem: the part that cannot be read becomes a Broken node.
package portable

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	// MaxSize is the largest text in bytes: some 20,000 definitions' worth of lines.
	MaxSize = 1 << 20
	// MaxDepth bounds the nesting of maps and lists; the format itself needs nine.
	MaxDepth = 32
	// MaxProblems bounds the problems that are reported for one text.
	MaxProblems = 100
)

// Kind says what a node is.
type Kind string

// The kinds of nodes. A Broken node marks a reported problem: readers of the node report nothing more about it.
const (
	Scalar Kind = "scalar"
	List   Kind = "list"
	Map    Kind = "map"
	Broken Kind = "broken"
)

// Style says how a scalar was written.
type Style string

// The styles of scalars. Only a plain one can be a number, true, false or null.
const (
	Plain  Style = "plain"
	Quoted Style = "quoted"
	Block  Style = "block"
)

// Pos is a place in a text, counted from 1; columns count characters.
type Pos struct{ Line, Column int }

// Node is a value with its place.
type Node struct {
	Kind   Kind
	Style  Style // of a scalar
	Flow   bool  // written in brackets or braces
	Pos    Pos
	Text   string // of a scalar, without quotes, escapes and folding
	Fields []Field
	Items  []*Node

	// Partial says that a key of this map could not be read and was reported, so a key that seems to be missing may be there.
	Partial bool
	// Repeated are the fields whose key occurs in this map already, which was reported.
	Repeated []Field
	// Astray says that this key begins in a wrong column, which was reported; that it belongs to its map is a guess.
	Astray bool

	spans []span
}

// Field is one line of a map, in the order of the text.
type Field struct{ Key, Value *Node }

// span says that Text from offset on was read at pos, character for character, up to the next span.
type span struct {
	offset int
	pos    Pos
}

// Document is one of the documents of a text.
type Document struct {
	Root *Node
	Text string // between the --- lines, as written
	Line int    // the text's line at which Text begins
}

// Problem is what is wrong and what to write instead.
type Problem struct {
	Pos
	Message, Hint string
}

// At returns the position of the character at a byte offset of a scalar's Text.
func (n *Node) At(offset int) Pos {
	if len(n.spans) == 0 {
		return n.Pos
	}
	offset = max(0, min(offset, len(n.Text)))
	i := sort.Search(len(n.spans), func(i int) bool { return n.spans[i].offset > offset }) - 1
	if i < 0 {
		return n.Pos
	}
	s := n.spans[i]
	s.pos.Column += utf8.RuneCountInString(n.Text[s.offset:offset])
	return s.pos
}

// Get returns the value of a map's key, nil when there is none.
func (n *Node) Get(key string) *Node {
	for _, f := range n.Fields {
		if f.Key.Text == key {
			return f.Value
		}
	}
	return nil
}

// IsNumber reports whether the node is a number by JSON's rules.
func (n *Node) IsNumber() bool {
	return n.Kind == Scalar && n.Style == Plain && isJSONNumber(n.Text)
}

// Bool returns the value of a bare true or false.
func (n *Node) Bool() (value, ok bool) {
	if n.Kind != Scalar || n.Style != Plain {
		return false, false
	}
	return n.Text == "true", n.Text == "true" || n.Text == "false"
}

// IsNull reports whether the node is a bare null.
func (n *Node) IsNull() bool { return n.Kind == Scalar && n.Style == Plain && n.Text == "null" }

// Value returns the node as a JSON value: nil, bool, json.Number as written, string, []any or map[string]any. A broken node is nil.
func (n *Node) Value() any {
	switch n.Kind {
	case Scalar:
		if n.IsNumber() {
			return json.Number(n.Text)
		}
		if b, ok := n.Bool(); ok {
			return b
		}
		if n.IsNull() {
			return nil
		}
		return n.Text
	case List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.Value()
		}
		return list
	case Map:
		fields := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			fields[f.Key.Text] = f.Value.Value()
		}
		return fields
	case Broken:
	}
	return nil
}

// PathTo returns the path of the value at a position, such as match[0].tags.policy: of the last one that begins there or before. Empty: the whole.
func (n *Node) PathTo(at Pos) string {
	before := func(p Pos) bool { return p.Line < at.Line || p.Line == at.Line && p.Column <= at.Column }
	path := ""
	for n != nil {
		var next *Node
		part := ""
		for i, f := range n.Fields {
			if before(f.Key.Pos) {
				next, part = f.Value, f.Key.Text
				if i > 0 || path != "" {
					part = "." + part
				}
			}
		}
		for i, item := range n.Items {
			if before(item.Pos) {
				next, part = item, fmt.Sprintf("[%d]", i)
			}
		}
		n, path = next, path+part
	}
	return strings.TrimPrefix(path, ".")
}
