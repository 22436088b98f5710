package portable

import (
	"fmt"
	"strings"
)

// rows follows the lines of one map or list, which begin in one column. A line in another column is reported once for each column. If
// it is a key or a dash it still belongs to the node, so that the content below it is not reported as missing.
type rows struct {
	p      *parser
	n      *Node
	col    int
	parent int          // column of the line to which the node belongs; -1 for a document
	inline bool         // the first line stands behind a dash
	first  Pos          // of the first line
	astray map[int]bool // the other columns
}

func (p *parser) rows(n *Node, col, parent int) *rows {
	return &rows{p: p, n: n, col: col, parent: parent, inline: col > p.lines[p.ln].indent, first: n.Pos}
}

// another moves to the next line of the node, if there is one.
func (r *rows) another() bool {
	p := r.p
	for p.next() {
		mine := isKey(p.rest())
		if r.n.Kind == List {
			mine = isDash(p.rest())
		}
		switch {
		case p.col == r.col && !mine && r.n.Kind == List && r.parent < r.col:
			p.report(p.here(), "this line is no item of the list above it", "begin all lines with a dash, or none")
			r.n.Kind = Broken
			p.abandon(r.parent)
			return false
		case p.col == r.col:
			return true
		case p.col <= r.parent || p.col < r.col && !mine:
			return false
		case r.astray[p.col]: // reported
		case p.col > r.col:
			p.report(p.here(), "this line is indented too far", r.inColumn(r.col)+r.going())
		case r.firstIsAstray():
			p.report(r.first, "this line is indented too far", fmt.Sprintf("begin it in column %d, as %s in line %d does", p.col+1, p.named(), p.here().Line))
			r.col, r.n.Partial = p.col, true
			return true
		default:
			p.report(p.here(), "this line is indented too little", r.inColumn(r.col)+r.outside())
		}
		r.n.Partial = true
		if r.astray == nil {
			r.astray = map[int]bool{}
		}
		r.astray[p.col] = true
		if mine {
			return true
		}
		p.abandon(r.col)
	}
	return false
}

// inColumn says where a line belongs, by an earlier line of the node.
func (r *rows) inColumn(col int) string {
	name, line := "the dash", r.first.Line
	if r.n.Kind == Map {
		name = "the first line"
		for i := len(r.n.Fields) - 1; i >= 0; i-- {
			if key := r.n.Fields[i].Key; !key.Astray {
				name, line = fmt.Sprintf("%q", key.Text), key.Pos.Line
				break
			}
		}
	}
	return fmt.Sprintf("begin it in column %d, as %s in line %d does", col+1, name, line)
}

// going returns the other meaning that a line below a text may have.
func (r *rows) going() string {
	if len(r.n.Fields) > 0 {
		if last := r.n.Fields[len(r.n.Fields)-1].Value; last.Style == Plain && strings.Contains(last.Text, " ") {
			return "; a text of several lines stands in a | block"
		}
	}
	return ""
}

// outside returns the other meaning that a line with too little indentation may have: a sibling of the key above the node.
func (r *rows) outside() string {
	if r.n.Kind == List || r.inline || r.parent < 0 || len(r.p.problems) > MaxProblems {
		return ""
	}
	above := r.first.Line - r.p.first - 1
	for above >= 0 && (r.p.lines[above].skip || r.p.lines[above].indent > r.parent) {
		above--
	}
	if above < 0 || !isKey(r.p.lines[above].text[r.p.lines[above].indent:]) {
		return ""
	}
	rest := r.p.lines[above].text[r.parent:]
	return fmt.Sprintf(", or in column %d, as %q in line %d does", r.parent+1, strings.TrimSpace(rest[:max(colonIn(rest), 0)]), r.p.first+above)
}

// firstIsAstray decides whether the lines above or the cursor's line, which is indented less, are wrong: the side with the unusual
// indentation, and a single line rather than several.
func (r *rows) firstIsAstray() bool {
	if r.inline || len(r.astray) > 0 {
		return false
	}
	right := r.parent + r.p.step()
	if r.parent < 0 {
		right = 0
	}
	return r.p.col == right || r.col != right && len(r.n.Fields)+len(r.n.Items) == 1
}

// named returns the key of the cursor's line, or a dash.
func (p *parser) named() string {
	if rest := p.rest(); !isDash(rest) {
		return fmt.Sprintf("%q", strings.TrimSpace(rest[:max(colonIn(rest), 0)]))
	}
	return "the dash"
}

// step returns the most frequent indentation in columns; of equally frequent ones two, else the first.
func (p *parser) step() int {
	if p.usual > 0 {
		return p.usual
	}
	p.usual = 2
	count, most, above := map[int]int{}, 0, 0
	for _, l := range p.lines {
		if l.skip {
			continue
		}
		if step := l.indent - above; step > 0 {
			if count[step]++; count[step] > most || count[step] == most && step == 2 {
				p.usual, most = step, count[step]
			}
		}
		above = l.indent
	}
	return p.usual
}
