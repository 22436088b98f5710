package portable

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Parse reads the documents of a text. The problems are in the order of the text. Documents are returned even when there are problems,
// with Broken nodes in place of the parts that could not be read.
func Parse(text string) ([]Document, []Problem) {
	if len(text) > MaxSize {
		return nil, []Problem{{
			Pos:     Pos{1, 1},
			Message: fmt.Sprintf("the file is larger than %d bytes", MaxSize),
			Hint:    "split it; a folder may hold any number of files",
		}}
	}
	src := strings.TrimPrefix(text, "\ufeff")
	lines, problem := split(src)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	var docs []Document
	var problems []Problem
	for begin := 0; begin < len(lines); {
		end := begin
		for end < len(lines) && !lines[end].separates() {
			end++
		}
		p := parser{lines: lines[begin:end], first: begin + 1, seenLn: -1}
		if root := p.document(); root != nil {
			docs = append(docs, Document{Root: root, Text: join(p.lines), Line: begin + 1})
		}
		if end < len(lines) {
			p.separator(Pos{end + 1, 1}, lines[end].text)
		}
		problems = append(problems, p.problems...)
		begin = end + 1
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	if len(problems) > MaxProblems {
		last := problems[MaxProblems-1].Pos
		problems = append(problems[:MaxProblems], Problem{Pos: last, Message: "further problems of this file are not shown"})
	}
	return docs, problems
}

// line is one line without its end.
type line struct {
	text   string
	indent int  // spaces before the first other character
	skip   bool // nothing but blanks and a comment
	blank  bool // nothing but blanks
}

// separates reports whether the line separates two documents, or is meant to. No line inside a document looks like it.
func (l line) separates() bool {
	return strings.HasPrefix(l.text, "---") || strings.HasPrefix(l.text, "...") && (len(l.text) == 3 || isBlank(l.text[3])) || l.dashes()
}

// dashes reports whether the line is one of dashes in the first column, whatever their kind and number.
func (l line) dashes() bool {
	text := strings.TrimRight(l.text, " \t")
	return len(text) > 1 && strings.Trim(text, "-–—") == ""
}

// separator refuses a separator that other readers do not recognise.
func (p *parser) separator(at Pos, text string) {
	if dashes := strings.TrimRight(text, " \t"); dashes != "---" && (line{text: text}).dashes() {
		p.report(at, dashes+" does not part two documents", "write ---")
		return
	}
	if rest := strings.TrimLeft(text[3:], " \t"); rest != "" && (rest[0] != '#' || !isBlank(text[3])) {
		p.report(at, "a document begins on the line after "+text[:3], "move the rest of this line down")
	}
}

// split cuts the text into lines and refuses characters that no definition needs.
func split(src string) ([]line, *Problem) {
	var lines []line
	for number := 1; src != ""; number++ {
		text, rest, _ := strings.Cut(src, "\n")
		src, text = rest, strings.TrimSuffix(text, "\r")
		column := 1
		for i, r := range text {
			if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
				return nil, &Problem{Pos{number, column}, "this is not UTF-8", "save the file as UTF-8"}
			}
			if r < ' ' && r != '\t' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == '\ufeff' {
				return nil, &Problem{Pos{number, column}, fmt.Sprintf("the control character U+%04X cannot stand in a definition", r), `write it as an escape in double quotes, such as "\t"`}
			}
			column++
		}
		l := line{text: text, indent: len(text) - len(strings.TrimLeft(text, " "))}
		content := strings.TrimLeft(text, " \t")
		l.blank = content == ""
		l.skip = l.blank || content[0] == '#'
		lines = append(lines, l)
	}
	return lines, nil
}

func join(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// parser reads one document. Between nodes the cursor is at the first character of a line's content or, after a dash, in the middle of
// a line.
type parser struct {
	lines    []line
	first    int // number of lines[0] in the file
	ln, col  int // cursor: line, byte in the line
	problems []Problem
	data     int // how many enclosing keys hold data

	// column of the byte seenCol of line seenLn, so that counting characters along a line stays linear
	seenLn, seenCol, seenColumn int

	usual int // by how many columns the lines of the document are mostly indented; 0: not counted yet
}

func (p *parser) report(at Pos, message, hint string) *Node {
	if len(p.problems) <= MaxProblems {
		p.problems = append(p.problems, Problem{at, message, hint})
	}
	return &Node{Kind: Broken, Pos: at}
}

// pos returns the place of a byte of a line.
func (p *parser) pos(ln, col int) Pos {
	if ln >= len(p.lines) {
		return Pos{p.first + len(p.lines) - 1, 1}
	}
	if ln != p.seenLn || col < p.seenCol {
		p.seenLn, p.seenCol, p.seenColumn = ln, 0, 1
	}
	p.seenColumn += utf8.RuneCountInString(p.lines[ln].text[p.seenCol:col])
	p.seenCol = col
	return Pos{p.first + ln, p.seenColumn}
}

func (p *parser) here() Pos { return p.pos(p.ln, p.col) }

// rest is the text from the cursor to the end of the line.
func (p *parser) rest() string { return p.lines[p.ln].text[p.col:] }

// next moves to the next line with content, from the cursor's line on.
func (p *parser) next() bool {
	for p.ln < len(p.lines) && p.lines[p.ln].skip {
		p.ln++
	}
	if p.ln == len(p.lines) {
		return false
	}
	p.col = p.lines[p.ln].indent
	return true
}

func (p *parser) skipBlanks() {
	text := p.lines[p.ln].text
	for p.col < len(text) && (text[p.col] == ' ' || text[p.col] == '\t') {
		p.col++
	}
}

// atEnd reports whether nothing but a comment follows on the line.
func (p *parser) atEnd() bool {
	p.skipBlanks()
	rest := p.rest()
	return rest == "" || rest[0] == '#' && (p.col == 0 || isBlank(p.lines[p.ln].text[p.col-1]))
}

// abandon leaves the line and everything that is indented deeper than parent.
func (p *parser) abandon(parent int) {
	p.ln++
	p.leave(parent)
}

// leave skips the lines from the cursor on that are indented deeper than parent.
func (p *parser) leave(parent int) {
	for p.ln < len(p.lines) && (p.lines[p.ln].skip || p.lines[p.ln].indent > parent) {
		p.ln++
	}
}

func (p *parser) document() *Node {
	if !p.next() {
		return nil
	}
	root := p.block(-1, 1)
	if p.next() {
		p.report(p.here(), "this line belongs to nothing above it", "the keys of one map begin in the same column")
	}
	return root
}

// block reads the node at the cursor, which lies deeper than the column parent.
func (p *parser) block(parent, depth int) *Node {
	if broken := p.tabbed(parent); broken != nil {
		return broken
	}
	if broken := p.dashed(parent); broken != nil {
		return broken
	}
	list, mapping := isDash(p.rest()), isKey(p.rest())
	if (list || mapping) && depth > MaxDepth {
		broken := p.tooDeep()
		p.abandon(parent)
		return broken
	}
	switch {
	case list:
		return p.list(p.col, parent, depth)
	case mapping || p.keyBelow():
		return p.mapping(p.col, parent, depth)
	}
	return p.value(parent, depth)
}

// keyBelow reports whether the cursor's line begins like a key without its colon, since a key in the same column follows.
func (p *parser) keyBelow() bool {
	if !isLetter(p.rest()[0]) {
		return false
	}
	ln := p.ln + 1
	for ln < len(p.lines) && p.lines[ln].skip {
		ln++
	}
	return ln < len(p.lines) && p.lines[ln].indent == p.col && isKey(p.lines[ln].text[p.col:])
}

// dashed refuses a key behind a dash without a blank: -to: x.
func (p *parser) dashed(parent int) *Node {
	rest := p.rest()
	if p.data > 0 || len(rest) < 2 || rest[0] != '-' || !isLetter(rest[1]) || !isKey(rest) {
		return nil
	}
	hint := "write a blank behind it"
	if len(rest) <= longestQuoted {
		hint = "write - " + rest[1:]
	}
	broken := p.report(p.here(), "a blank is missing after the dash", hint)
	p.abandon(parent)
	return broken
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// tabbed refuses a line that begins with a tab.
func (p *parser) tabbed(parent int) *Node {
	if p.rest()[0] != '\t' {
		return nil
	}
	broken := p.report(p.here(), "a tab cannot indent", "use spaces")
	p.abandon(parent)
	return broken
}

func (p *parser) tooDeep() *Node {
	return p.report(p.here(), fmt.Sprintf("more than %d levels lie in one another", MaxDepth), "")
}

func (p *parser) list(col, parent, depth int) *Node {
	n := &Node{Kind: List, Pos: p.here()}
	rows := p.rows(n, col, parent)
	for {
		dash, at := p.here(), p.col
		p.col++
		if !p.atEnd() {
			n.Items = append(n.Items, p.block(at, depth+1))
		} else if p.ln++; p.next() && p.col > at {
			n.Items = append(n.Items, p.block(at, depth+1))
		} else {
			n.Items = append(n.Items, p.report(dash, "this item is empty", "write a value, or remove the dash"))
		}
		if !rows.another() || !isDash(p.rest()) {
			return n
		}
	}
}

func (p *parser) mapping(col, parent, depth int) *Node {
	n := &Node{Kind: Map, Pos: p.here()}
	rows := p.rows(n, col, parent)
	seen := map[string]Pos{}
	for {
		at := p.col
		key := p.key(at)
		var value *Node
		if key == nil {
			key = &Node{Kind: Broken, Pos: n.Pos}
			value = key
		} else {
			key.Astray = at != rows.col
			value = p.below(key, func() *Node { return p.valueOf(key, at, depth+1) })
		}
		p.add(n, seen, key, value)
		if !rows.another() {
			return whole(n)
		}
	}
}

// add gives a map one more field; a key that it has already is refused.
func (p *parser) add(n *Node, seen map[string]Pos, key, value *Node) {
	if key.Kind == Broken {
		n.Partial = true
		return
	}
	if before, twice := seen[key.Text]; twice {
		n.Partial = true
		n.Repeated = append(n.Repeated, Field{key, value})
		if key.Astray {
			return
		}
		p.report(key.Pos, fmt.Sprintf("duplicate key %q", key.Text), fmt.Sprintf("it stands in line %d already", before.Line))
		return
	}
	seen[key.Text] = key.Pos
	n.Fields = append(n.Fields, Field{key, value})
}

// whole returns a map that has been read to its end.
func whole(n *Node) *Node {
	if n.Partial && len(n.Fields) == 0 {
		n.Kind = Broken
	}
	return n
}

// key reads a key and its colon; nil means that the line is no key and was reported.
func (p *parser) key(col int) *Node {
	if p.tabbed(col) != nil {
		return nil
	}
	at, rest := p.here(), p.rest()
	if isDash(rest) {
		p.report(at, "a list item among the keys of a map", "indent the list, or give it a key of its own")
		p.abandon(col)
		return nil
	}
	if rest == "---" {
		p.report(at, "--- parts two documents only in the first column", "remove the blanks before it")
		p.abandon(col)
		return nil
	}
	if !isKey(rest) {
		before := len(p.problems)
		p.value(col, 1)
		if len(p.problems) == before {
			p.noKey(at, rest)
		}
		p.leave(col)
		return nil
	}
	if rest[0] == '"' || rest[0] == '\'' {
		end := p.col + closing(rest)
		key := p.quoted(col)
		p.col = end
		p.skipBlanks()
		p.col++
		if key == nil {
			return &Node{Kind: Broken, Pos: at}
		}
		return key
	}
	end := colonIn(rest)
	key := &Node{Kind: Scalar, Style: Plain, Pos: at, Text: strings.TrimRight(rest[:end], " \t")}
	p.col += end + 1
	return p.plainKey(key)
}

// noKey reports a line that should be a key and is none.
func (p *parser) noKey(at Pos, line string) {
	parts := almostKey.FindStringSubmatch(line)
	switch {
	case strings.HasPrefix(line, "//"):
		p.report(at, "a comment begins with #", "write # "+strings.TrimSpace(strings.TrimLeft(line, "/")))
	case parts == nil || len(line) > longestQuoted:
		hint := "write KEY: VALUE, with a space after the colon"
		if len(strings.Fields(line)) >= 3 { // a sentence
			hint += "; a text of several lines stands in a | block"
		}
		p.report(at, "a key and a colon are missing here", hint)
	case parts[2] == ":":
		p.report(at, "a blank is missing after the colon", "write "+parts[1]+": "+parts[3])
	default:
		p.report(at, "a key ends in a colon, not in =", "write "+parts[1]+": "+parts[3])
	}
}

// almostKey matches a line that is almost a key and its value.
var almostKey = regexp.MustCompile(`^([A-Za-z_]+) *([:=]) *([^:= ].*)$`)

// below reads the value of a key. These four hold data, whose names come from other systems.
func (p *parser) below(key *Node, read func() *Node) *Node {
	switch key.Text {
	case "payload", "set", "replace", "answers":
		p.data++
		defer func() { p.data-- }()
	}
	return read()
}

// valueOf reads what follows a key and its colon.
func (p *parser) valueOf(key *Node, col, depth int) *Node {
	if !p.atEnd() {
		return p.value(col, depth)
	}
	p.ln++
	if p.next() {
		if p.col > col {
			return p.block(col, depth)
		}
		if broken := p.tabbed(col); broken != nil {
			return broken
		}
		if p.col == col && isDash(p.rest()) {
			if depth > MaxDepth {
				broken := p.tooDeep()
				p.abandon(col)
				return broken
			}
			return p.list(col, col, depth)
		}
	}
	if key.Kind == Broken {
		return key
	}
	return p.report(key.Pos, fmt.Sprintf("%q has no value", key.Text), "write a value, or remove the line")
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isDash reports whether a list item begins here.
func isDash(s string) bool { return s != "" && s[0] == '-' && (len(s) == 1 || isBlank(s[1])) }

// isKey reports whether a key with its colon begins here.
func isKey(s string) bool {
	if s == "" {
		return false
	}
	switch s[0] {
	case '"', '\'':
		end := closing(s)
		rest := strings.TrimLeft(s[end:], " \t")
		return end > 0 && rest != "" && rest[0] == ':' && (len(rest) == 1 || isBlank(rest[1]))
	case '[', '{', '!', '&', '*', '|', '>', '@', '%', '`', ',', ']', '}', '#', '?':
		return false
	}
	return colonIn(s) > 0
}

// closing returns the byte behind the closing quote of the quoted text that begins s, 0 when it is not on this line.
func closing(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] == '"':
			i++
		case s[i] == s[0] && s[0] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return 0
}

// colonIn returns where in a plain text the colon stands that ends a key, -1 when there is none before a comment.
func colonIn(s string) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == ':' && (i+1 == len(s) || isBlank(s[i+1])):
			return i
		case s[i] == '#' && i > 0 && isBlank(s[i-1]):
			return -1
		}
	}
	return -1
}
