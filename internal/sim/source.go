package sim

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/definition/portable"
)

// Errors of places that --update cannot change.
var (
	errFlow  = errors.New("what is written in braces on one line cannot be added to: write it on lines of its own")
	errPlain = errors.New("a text that goes on over several lines without quotes cannot be replaced: put it in quotes")
)

// source is the text of a file with the places of its lines.
type source struct {
	text  []byte
	lines []int // offset at which each line begins, and the end
}

func newSource(text []byte) source {
	s := source{text: text, lines: []int{0}}
	for i, c := range text {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	if s.lines[len(s.lines)-1] != len(text) {
		s.lines = append(s.lines, len(text))
	}
	return s
}

// line returns the text of a line, counted from 1, without its end.
func (s source) line(n int) []byte {
	return bytes.TrimRight(s.text[s.lines[n-1]:s.lines[n]], "\r\n")
}

// offset returns the place of a position.
func (s source) offset(p portable.Pos) int {
	at := s.lines[p.Line-1]
	if p.Line == 1 && bytes.HasPrefix(s.text, []byte("\ufeff")) {
		at += len("\ufeff")
	}
	for range p.Column - 1 {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	return at
}

// lineOf returns the line, counted from 1, that holds an offset.
func (s source) lineOf(offset int) int {
	return 1 + bytes.Count(s.text[:offset], []byte("\n"))
}

// indent is the number of spaces at the beginning of the node's line, its dashes counted as such.
func (s source) indent(n *portable.Node) int {
	line := s.line(n.Pos.Line)
	return len(line) - len(bytes.TrimLeft(line, " -"))
}

// dash returns the column, from 0, of the dash before an item that begins at p.
func (s source) dash(p portable.Pos) int {
	for n := p.Line; n > 0; n-- {
		line := s.line(n)
		if n == p.Line {
			line = s.text[s.lines[n-1]:s.offset(p)]
		}
		if at := bytes.LastIndexByte(line, '-'); at >= 0 && len(bytes.TrimSpace(line[:at])) == 0 {
			return at
		}
	}
	return p.Column - 1
}

// item returns the lines of a row that is an item of a block list, or of the only row of a list written bare.
func (s source) item(r expectedRow) (from, to int, err error) {
	line := r.pos.Line
	for line > 1 && !bytes.HasPrefix(bytes.TrimLeft(s.line(line), " "), []byte("-")) {
		line--
	}
	to, err = s.endOfLines(r.value)
	return s.lines[line-1], to, err
}

// endOfLines returns the offset behind the last line of a node, its comment at the end of the line included.
func (s source) endOfLines(n *portable.Node) (int, error) {
	_, end, err := s.span(n)
	if err != nil {
		return 0, err
	}
	return s.lines[min(s.lineOf(end), len(s.lines)-1)], nil
}

// span returns where a node is written.
func (s source) span(n *portable.Node) (from, to int, err error) {
	from = s.offset(n.Pos)
	switch {
	case n.Flow:
		return from, s.flowEnd(from), nil
	case n.Kind == portable.Map:
		last := n.Fields[len(n.Fields)-1].Value
		_, to, err = s.span(last)
		return from, to, err
	case n.Kind == portable.List:
		last := n.Items[len(n.Items)-1]
		_, to, err = s.span(last)
		return from, to, err
	case n.Style == portable.Quoted:
		return from, s.quotedEnd(from), nil
	case n.Style == portable.Block:
		return from, s.blockEnd(n), nil
	case bytes.HasPrefix(s.text[from:], []byte(n.Text)):
		return from, from + len(n.Text), nil
	}
	return 0, 0, errPlain
}

// quotedEnd returns the offset behind the quote that closes the text opened at from.
func (s source) quotedEnd(from int) int {
	quote := s.text[from]
	for i := from + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '\\' && quote == '"':
			i++
		case c == quote && quote == '\'' && i+1 < len(s.text) && s.text[i+1] == quote:
			i++
		case c == quote:
			return i + 1
		}
	}
	return len(s.text)
}

// flowEnd returns the offset behind the bracket that closes the one at from.
func (s source) flowEnd(from int) int {
	depth := 0
	for i := from; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		case '"', '\'':
			// A quote opens a text only where a value can begin.
			if before := bytes.TrimRight(s.text[from:i], " \n"); bytes.ContainsAny(before[len(before)-1:], "[{,:") {
				i = s.quotedEnd(i) - 1
			}
		}
	}
	return len(s.text)
}

// blockEnd returns the end of the last line of a block text: the lines after its head that are indented more than the
// key's line, or blank with such a line below.
func (s source) blockEnd(n *portable.Node) int {
	indent := s.indent(n)
	end := n.Pos.Line
	for line := n.Pos.Line + 1; line < len(s.lines); line++ {
		text := s.line(line)
		body := bytes.TrimLeft(text, " ")
		if len(body) == 0 {
			continue
		}
		if len(text)-len(body) <= indent {
			break
		}
		end = line
	}
	return s.lines[end-1] + len(s.line(end))
}

// scalarText writes a text so that it reads back as the same text.
func scalarText(text string, flow bool, indent int) string {
	switch {
	case isPlain(text):
		return text
	case !flow && strings.Contains(text, "\n") && isBlock(text):
		head, body := "|-", text
		if strings.HasSuffix(text, "\n") {
			head, body = "|", strings.TrimSuffix(text, "\n")
		}
		pad := "\n" + strings.Repeat(" ", indent+2)
		lines := strings.Split(body, "\n")
		for i, line := range lines {
			if line != "" {
				lines[i] = pad + line
			} else {
				lines[i] = "\n"
			}
		}
		return head + strings.Join(lines, "")
	}
	return quoted(text)
}

// isBlock reports whether a text may stand in a | block: no line that begins or ends with blanks, one end of line at
// most at its end, and nothing that must be escaped.
func isBlock(text string) bool {
	body := strings.TrimSuffix(text, "\n")
	if body == "" || strings.HasSuffix(body, "\n") || strings.HasPrefix(body, "\n") {
		return false
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.TrimSpace(line) != line || visible(line) != line {
			return false
		}
	}
	return true
}

// isPlain reports whether a text may stand without quotes anywhere: words that begin with a letter, and that no reader
// takes for a truth value, for nothing, or for a word of this format.
func isPlain(text string) bool {
	switch strings.ToLower(text) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "any":
		return false
	}
	for word := range strings.SplitSeq(text, " ") {
		first, _ := utf8.DecodeRuneInString(word)
		if !unicode.IsLetter(first) || strings.HasSuffix(word, ":") {
			return false
		}
		for _, r := range word {
			if !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune("_./:%@|+-!?", r) {
				return false
			}
		}
	}
	return true
}

// quoted writes a text in double quotes, with an escape for every character that cannot be seen.
func quoted(text string) string {
	var b bytes.Buffer
	writeString(&b, text)
	var out strings.Builder
	for _, r := range b.String() {
		if r == ' ' || unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// regexpOf is the expression that matches a text and nothing else.
func regexpOf(text string) string { return "^" + regexp.QuoteMeta(text) + "$" }
