package portable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// value reads a scalar or a collection in brackets that begins at the cursor, to the end of its last line.
func (p *parser) value(parent, depth int) *Node {
	at, rest := p.here(), p.rest()
	if broken := p.refused(rest); broken != nil {
		p.abandon(parent)
		return broken
	}
	var n *Node
	var after string
	switch rest[0] {
	case '|', '>':
		return p.blockText(parent)
	case '"', '\'':
		n, after = p.quoted(parent), "the closing quote"
	case '[', '{':
		n, after = p.flow(parent, depth), "the closing bracket"
	default:
		return p.plain(parent)
	}
	if n == nil {
		p.abandon(parent)
		return &Node{Kind: Broken, Pos: at}
	}
	if !p.atEnd() {
		broken := p.report(p.here(), "a value cannot go on after "+after, quoteAll(rest))
		p.abandon(parent)
		return broken
	}
	p.ln++
	return n
}

// refused reports what readers of YAML take for something else than a text.
func (p *parser) refused(rest string) *Node {
	blankAfter := len(rest) == 1 || isBlank(rest[1])
	at := p.here()
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "{%"):
		return p.report(at, "a text with Liquid stands in quotes or in a | block", quoteAll(rest))
	case c == '!':
		return p.report(at, "a value beginning with ! is a YAML tag", "put the whole expression in quotes, or write == false")
	case c == '&':
		return p.report(at, "a value beginning with & is a YAML anchor", "write the value out where it is needed, or put a text in quotes")
	case c == '*':
		return p.report(at, "a value beginning with * is a YAML alias", "write the value out, or put a text in quotes")
	case c == '-' && blankAfter:
		return p.report(at, "a list begins on a line of its own", "")
	case c == '?':
		return p.report(at, "a value beginning with ? is a YAML key", "put the whole value in quotes")
	case c == ':' && blankAfter:
		return p.report(at, "a key is missing before the colon", "")
	case strings.IndexByte("@%`,]}", c) >= 0:
		return p.report(at, fmt.Sprintf("a value cannot begin with %c", c), quoteAll(rest))
	}
	return nil
}

// longestQuoted is the longest text that a hint repeats.
const longestQuoted = 80

// quoteAll is the hint to put a whole value in quotes, with the line to write where it is short.
func quoteAll(value string) string {
	if end := strings.Index(value, " #"); end >= 0 {
		value = value[:end]
	}
	return quoteWhole(value)
}

// quoteWhole is quoteAll with what looks like a comment.
func quoteWhole(value string) string {
	value = strings.TrimRight(value, " \t")
	switch {
	case len(value) > longestQuoted:
		return "put the whole value in quotes"
	case strings.ContainsAny(value, `"\`):
		return "write '" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return `write "` + value + `"`
}

// plain reads a text without quotes, which may go on in lines that are indented deeper.
func (p *parser) plain(parent int) *Node {
	n := &Node{Kind: Scalar, Style: Plain, Pos: p.here()}
	var text strings.Builder
	for breaks := 0; ; {
		rest := p.rest()
		end := len(rest)
		commented := false
		for i := 1; i < end; i++ {
			if rest[i] == '#' && isBlank(rest[i-1]) {
				end, commented = i, true
			}
		}
		if behind := rest[end:]; commented && (strings.Contains(behind, "{{") || strings.Contains(behind, "{%")) {
			p.col += end
			broken := p.report(p.here(), "a # behind a blank begins a comment, so this text would end before it", quoteWhole(rest))
			p.abandon(parent)
			return broken
		}
		if colon := colonIn(rest[:end]); colon >= 0 {
			p.col += colon
			broken := p.report(p.here(), `": " inside a value begins a map`, quoteAll(rest))
			p.abandon(parent)
			return broken
		}
		if breaks == 1 {
			text.WriteByte(' ')
		} else if breaks > 1 {
			text.WriteString(strings.Repeat("\n", breaks-1))
		}
		n.spans = append(n.spans, span{text.Len(), p.here()})
		text.WriteString(strings.TrimRight(rest[:end], " \t"))
		p.ln++
		if commented {
			break
		}
		ln := p.ln
		for ln < len(p.lines) && p.lines[ln].blank {
			ln++
		}
		if ln == len(p.lines) || p.lines[ln].skip || p.lines[ln].indent <= parent {
			break
		}
		content := p.lines[ln].text[p.lines[ln].indent:]
		if isKey(content) || isDash(content) || content[0] == '\t' {
			break // reported later: the line is indented too far
		}
		breaks = ln - p.ln + 1
		p.ln, p.col = ln, p.lines[ln].indent
	}
	n.Text = text.String()
	return p.plainText(n)
}

// plainText refuses bare words and numbers that readers of YAML take for different values.
func (p *parser) plainText(n *Node) *Node {
	switch text := n.Text; {
	case text == "<<":
		return p.report(n.Pos, "<< is a YAML merge key", "write the keys out")
	case yesOrNo(text):
		return p.report(n.Pos, text+" means true or false to some YAML readers", fmt.Sprintf("write %q in quotes, or true / false", text))
	case text == "~" || text == "Null" || text == "NULL":
		return p.report(n.Pos, text+" means null to some YAML readers", fmt.Sprintf("write %q in quotes, or null", text))
	case looksLikeNumber(text) && !isJSONNumber(text):
		return p.report(n.Pos, text+" looks like a number but is not one that every reader reads alike", fmt.Sprintf("write %q in quotes", text))
	}
	return n
}

// plainKey is plainText for a key. The keys of data are texts, whatever they look like.
func (p *parser) plainKey(n *Node) *Node {
	if p.data > 0 && n.Text != "<<" {
		return n
	}
	return p.plainText(n)
}

func yesOrNo(s string) bool {
	switch s {
	case "true", "false":
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false":
		return true
	}
	return false
}

// looksLikeNumber reports whether YAML 1.1, 1.2 or one of their well-known readers takes s for a number:
// [-+]?(0[xob]HEX | DIGITS[.DIGITS][eN] | .DIGITS[eN] | .inf | .nan), with _ among digits.
func looksLikeNumber(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	if s == "" {
		return false
	}
	switch strings.ToLower(s) {
	case ".inf", ".nan":
		return true
	}
	digits := func(from string) (rest string, any bool) {
		rest = strings.TrimLeft(from, "0123456789_")
		return rest, len(rest) < len(from) && from[0] != '_'
	}
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		return strings.Trim(s[2:], "0123456789abcdefABCDEF_") == ""
	}
	rest, whole := digits(s)
	if strings.HasPrefix(rest, ".") {
		after, fraction := digits(rest[1:])
		if !whole && !fraction {
			return false
		}
		rest, whole = after, true
	}
	if whole && rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = strings.TrimLeft(rest[1:], "+-")
		var exponent bool
		rest, exponent = digits(rest)
		return exponent && rest == ""
	}
	return whole && rest == ""
}

func isJSONNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return false // too large for a number of 64 bits
	}
	return json.Valid([]byte(s))
}

// quoted reads a text in quotes and leaves the cursor behind the closing one. It returns nil after a report.
func (p *parser) quoted(parent int) *Node {
	q, at := p.rest()[0], p.here()
	n := &Node{Kind: Scalar, Style: Quoted, Pos: at}
	var text []byte
	p.col++
	mark := func() { n.spans = append(n.spans, span{len(text), p.here()}) }
	mark()
	for {
		line := p.lines[p.ln].text
		kept := len(text) // an escaped character before it is not a blank at the end of a line
		joined := false
		for p.col < len(line) && !joined {
			rest := line[p.col:]
			end := strings.IndexByte(rest, q)
			if q == '"' {
				end = strings.IndexAny(rest, `"\`)
			}
			switch {
			case end < 0:
				text = append(text, rest...)
				p.col = len(line)
			case rest[end] == '\\' && end+1 == len(rest):
				text = append(text, rest[:end]...)
				kept, joined = len(text), true
			case rest[end] == '\\':
				text = append(text, rest[:end]...)
				p.col += end
				r, ok := p.escape()
				if !ok {
					return nil
				}
				text = utf8.AppendRune(text, r)
				kept = len(text)
				mark()
			case q == '\'' && strings.HasPrefix(rest[end:], "''"):
				text = append(text, rest[:end+1]...)
				p.col += end + 2
				kept = len(text)
				mark()
			default:
				p.col += end + 1
				n.Text = string(append(text, rest[:end]...))
				return n
			}
		}
		ln := p.ln + 1
		for ln < len(p.lines) && p.lines[ln].blank {
			ln++
		}
		if ln == len(p.lines) || p.lines[ln].indent <= parent {
			p.report(at, "this quote is not closed", fmt.Sprintf("write another %c at the end of the text", q))
			return nil
		}
		text = append(text[:kept], bytes.TrimRight(text[kept:], " \t")...)
		switch breaks := ln - p.ln; {
		case breaks > 1:
			text = append(text, strings.Repeat("\n", breaks-1)...)
		case !joined:
			text = append(text, ' ')
		}
		p.ln, p.col = ln, p.lines[ln].indent
		p.skipBlanks()
		mark()
	}
}

// escape reads one escape of a text in double quotes: JSON's, and those of YAML that name a character by its number.
func (p *parser) escape() (rune, bool) {
	rest := p.rest()
	simple := map[byte]rune{'"': '"', '\\': '\\', '/': '/', ' ': ' ', 'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f'}
	if r, ok := simple[rest[1]]; ok {
		p.col += 2
		return r, true
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[1]]
	if digits == 0 {
		r, _ := utf8.DecodeRuneInString(rest[1:])
		p.report(p.here(), fmt.Sprintf(`\%c is no escape`, r), `write \\ for a backslash; in single quotes a backslash stands for itself`)
		return 0, false
	}
	r, ok := hex(rest[2:], digits)
	size := 2 + digits
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if strings.HasPrefix(rest[size:], `\u`) {
			low, _ = hex(rest[size+2:], 4)
		}
		r = utf16.DecodeRune(r, low)
		ok = r != utf8.RuneError
		size += 6
	}
	if !ok || !utf8.ValidRune(r) || r == 0 {
		p.report(p.here(), "this escape names no character", `write four hexadecimal digits, such as \u00e9, or \\ for a backslash`)
		return 0, false
	}
	p.col += size
	return r, true
}

func hex(s string, digits int) (rune, bool) {
	if len(s) < digits {
		return 0, false
	}
	v, err := strconv.ParseUint(s[:digits], 16, 32)
	return rune(v), err == nil && v <= utf8.MaxRune
}

// blockText reads a | or > block.
func (p *parser) blockText(parent int) *Node {
	n := &Node{Kind: Scalar, Style: Block, Pos: p.here()}
	header := p.rest()
	folded := header[0] == '>'
	chomp, explicit := byte(0), 0
	p.col++
	for p.col < len(p.lines[p.ln].text) {
		c := p.rest()[0]
		if (c == '+' || c == '-') && chomp == 0 {
			chomp = c
		} else if c >= '1' && c <= '9' && explicit == 0 {
			explicit = int(c - '0')
		} else {
			break
		}
		p.col++
	}
	if !p.atEnd() {
		broken := p.report(n.Pos, fmt.Sprintf("a value beginning with %c is a block of text in the lines below", header[0]), quoteAll(header))
		p.abandon(parent)
		return broken
	}
	p.ln++
	first := p.ln
	for first < len(p.lines) && p.lines[first].blank {
		first++
	}
	if first == len(p.lines) || p.lines[first].indent <= parent {
		for p.ln = first; p.ln < len(p.lines) && p.textBeside(parent); p.ln++ {
		}
		return p.report(n.Pos, "this block of text is empty", "indent its lines deeper than the key")
	}
	indent := p.lines[first].indent
	if explicit > 0 {
		indent = max(parent, 0) + explicit
	}
	end := p.ln // behind the last line of content
	for ln := p.ln; ln < len(p.lines); ln++ {
		l := p.lines[ln]
		if !l.blank && l.indent < indent {
			break
		}
		if !l.blank || l.indent >= indent && len(l.text) > indent { // blanks beyond the indentation are text
			end = ln + 1
		}
	}
	var text strings.Builder
	p.foldInto(&text, n, p.ln, end, indent, folded)
	p.ln = end
	if chomp != '-' && end > first {
		text.WriteByte('\n')
	}
	for p.ln < len(p.lines) && p.lines[p.ln].blank {
		if chomp == '+' {
			text.WriteByte('\n')
		}
		p.ln++
	}
	n.Text = text.String()
	if strings.TrimSpace(n.Text) == "" {
		return p.report(n.Pos, "this block of text is empty", "indent its lines deeper than the key")
	}
	return n
}

// textBeside reports whether the cursor's line is text in the column of the key above it, and no key of its own.
func (p *parser) textBeside(col int) bool {
	l := p.lines[p.ln]
	return l.blank || l.indent == col && !l.skip && !isKey(l.text[col:]) && !isDash(l.text[col:])
}

// foldInto writes the lines [begin, end) of a block, without the last line's end.
func (p *parser) foldInto(text *strings.Builder, n *Node, begin, end, indent int, folded bool) {
	started, wasMore, breaks := false, false, 0
	for ln := begin; ln < end; ln++ {
		l := p.lines[ln].text
		content := ""
		if len(l) > indent {
			content = l[indent:]
		}
		if content == "" {
			breaks++
			continue
		}
		more := isBlank(content[0])
		switch {
		case !started:
			text.WriteString(strings.Repeat("\n", breaks))
		case folded && !more && !wasMore && breaks == 0:
			text.WriteByte(' ')
		case folded && !more && !wasMore:
			text.WriteString(strings.Repeat("\n", breaks))
		default:
			text.WriteString(strings.Repeat("\n", breaks+1))
		}
		n.spans = append(n.spans, span{text.Len(), p.pos(ln, indent)})
		text.WriteString(content)
		started, wasMore, breaks = true, more, 0
	}
}
