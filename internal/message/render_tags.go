package message

import (
	"fmt"
	"strings"
)

type when struct {
	values []expression // nil for else
	body   []node
}

type caseNode struct {
	subject expression
	whens   []when
	at      int
	blank   bool
}

// render writes the body once for every value that matches, as Liquid does. An else writes its body if no value before it has
// matched.
func (n *caseNode) render(s *state) (jump, error) {
	s.at = n.at
	subject, err := n.subject.eval(s, true)
	if err != nil {
		return goOn, err
	}
	matched := false
	for _, w := range n.whens {
		times := 0
		if w.values == nil && !matched {
			times = 1
		}
		for _, e := range w.values {
			s.at = n.at
			v, err := e.eval(s, true)
			if err != nil {
				return goOn, err
			}
			if err := s.work(weight(v)); err != nil {
				return goOn, err
			}
			equal, err := s.same(subject, v)
			if err != nil {
				return goOn, err
			}
			if equal {
				matched = true
				times++
			}
		}
		for range times {
			if j, err := s.nodes(w.body); j != goOn || err != nil {
				return j, err
			}
		}
	}
	return goOn, nil
}

// cycleNode writes the next value of its row. Cycles with the same name share a row, and so do cycles without a name that have
// equal values.
type cycleNode struct {
	name   expression // nil: the row has no name
	row    string     // identifies a row without a name
	values []expression
	at     int
}

func (n *cycleNode) render(s *state) (jump, error) {
	s.at = n.at
	row := n.row
	if n.name != nil {
		v, err := n.name.eval(s, false)
		if err != nil {
			return goOn, err
		}
		t, ok := text(v)
		if !ok {
			return goOn, fmt.Errorf("a cycle is named by a text, not by %s", kindOf(v))
		}
		row = kindOf(v) + ":" + t
	}
	if s.rows == nil {
		s.rows = map[string]int{}
	}
	at := s.rows[row]
	s.rows[row] = at + 1
	if at+1 >= len(n.values) {
		s.rows[row] = 0
	}
	if at >= len(n.values) { // an earlier cycle of this name has more values
		return goOn, s.work(len(row))
	}
	v, err := n.values[at].eval(s, false)
	if err != nil {
		return goOn, err
	}
	if err := s.work(len(row)); err != nil {
		return goOn, err
	}
	return goOn, s.show(v, 0)
}

// rowOf returns a text for the values of a cycle, which is the same for equal values.
func rowOf(values []expression) string {
	var b strings.Builder
	for _, e := range values {
		switch e := e.(type) {
		case literal:
			fmt.Fprintf(&b, "%T %q,", e.value, fmt.Sprint(e.value))
		case *path:
			b.WriteString(e.upTo(len(e.steps)) + ",")
		default:
			fmt.Fprintf(&b, "%v,", e)
		}
	}
	return b.String()
}

// counterNode is {% increment name %} or {% decrement name %}. Counters are kept apart from assigned variables.
type counterNode struct {
	name string
	down bool
	at   int
}

func (n *counterNode) render(s *state) (jump, error) {
	s.at = n.at
	if _, given := s.vars[n.name]; given {
		return goOn, fmt.Errorf("%s is a variable of the message; count in one of another name", n.name)
	}
	if s.counters == nil {
		s.counters = map[string]int64{}
	}
	value := s.counters[n.name]
	if n.down {
		value--
		s.counters[n.name] = value
	} else {
		s.counters[n.name] = value + 1
	}
	return goOn, s.show(value, 0)
}

// rawNode is the text of {% raw %}.
type rawNode string

func (n rawNode) render(s *state) (jump, error) { return goOn, s.write(string(n)) }

// groupNode is the content of a liquid tag.
type groupNode []node

func (n groupNode) render(s *state) (jump, error) { return s.nodes(n) }

// allBlank reports whether nodes write only blanks for any values.
func allBlank(nodes []node) bool {
	for _, n := range nodes {
		switch n := n.(type) {
		case textNode:
			if strings.TrimSpace(string(n)) != "" {
				return false
			}
		case rawNode:
			if n != "" {
				return false
			}
		case groupNode:
			if !allBlank(n) {
				return false
			}
		case *ifNode:
			if !n.blank {
				return false
			}
		case *caseNode:
			if !n.blank {
				return false
			}
		case *forNode:
			if !n.blank {
				return false
			}
		case *assignNode, *captureNode, jumpNode:
		default:
			return false
		}
	}
	return true
}

// withoutText drops the blanks of a block that writes only blanks, so that the block writes nothing.
func withoutText(nodes []node) []node {
	kept := nodes[:0:0]
	for _, n := range nodes {
		if _, isText := n.(textNode); !isText {
			kept = append(kept, n)
		}
	}
	return kept
}

func (n *ifNode) compact() {
	n.blank = true
	for _, b := range n.branches {
		n.blank = n.blank && allBlank(b.body)
	}
	for i, b := range n.branches {
		if n.blank {
			n.branches[i].body = withoutText(b.body)
		}
	}
}

func (n *caseNode) compact() {
	n.blank = true
	for _, w := range n.whens {
		n.blank = n.blank && allBlank(w.body)
	}
	for i, w := range n.whens {
		if n.blank {
			n.whens[i].body = withoutText(w.body)
		}
	}
}

func (n *forNode) compact() {
	if n.blank = allBlank(n.body) && allBlank(n.otherwise); n.blank {
		n.body, n.otherwise = withoutText(n.body), withoutText(n.otherwise)
	}
}
