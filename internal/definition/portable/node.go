// Package portable reads the subset of YAML that every YAML reader reads alike (format.md §1, "Portable YAML").
//
// It turns a text into nodes that know where each of their characters stood, and refuses what readers disagree
// about: tags, anchors, aliases, merge keys, duplicate keys, numbers that are not JSON numbers, bare yes and no,
// empty values. Below payload, set, replace and answers, which hold data, bare keys are texts. It is not a decoder: what a key means is the question of packages definition and sim.
//
// It is its own reader because the ones to be had stop at the first mistake, lose the place inside a text, and take
// quadratic time (measured for goccy/go-yaml 1.19.2: 20 s for a map of 1 MiB; a document after one of comments only
// is dropped in silence). A fuzz test holds it against go.yaml.in/yaml/v3 as the second opinion.
//
// Invariants:
//   - Parse ends in time linear in the text and never panics; text, depth and number of problems are bounded.
//   - A scalar keeps its text as written: 1.10 stays 1.10.
//   - Every position lies inside the text. One mistake is one problem: what it spoils becomes a Broken node.
package portable

import (
	"encoding/json"
	"sort"
	"unicode/utf8"
)

const (
	// MaxSize is the largest text in bytes: some 20,000 definitions' worth of lines.
	MaxSize = 1 << 20
	// MaxDepth is how many maps and lists may lie in one another; the format itself needs nine.
	MaxDepth = 32
	// MaxProblems bounds what is reported of one text; nobody reads more at once.
	MaxProblems = 100
)

// Kind says what a node is.
type Kind string

// The kinds of nodes. Broken stands where a problem was reported: whoever meets it says nothing more.
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

	// Partial: a key of this map could not be read and was reported, so what seems to be missing may be there.
	Partial bool
	// Repeated are the fields whose key stands in this map already, which was reported.
	Repeated []Field
	// Astray: this key begins in a wrong column, which was reported; that it belongs to its map is a guess.
	Astray bool

	spans []span
}

// Field is one line of a map, in the order of the text.
type Field struct{ Key, Value *Node }

// span says that Text from offset on stood at pos, character for character, up to the next span.
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

// At returns where the character at a byte offset of a scalar's Text stood.
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

// Value returns the node as JSON has it: nil, bool, json.Number with its spelling, string, []any or map[string]any.
// A broken node is nil.
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
