package message

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/suggest"
)

// parser reads the expressions inside {{ }} and {% %}.
type parser struct {
	src   string // the template
	body  string
	at    int // offset of body in src
	pos   int
	depth int
	reads func(p *path)
}

const maxExpressionDepth = 32

func (p *parser) fail(message, hint string) *Error { return errorAt(p.src, p.at+p.pos, message, hint) }

func (p *parser) blanks() {
	for p.pos < len(p.body) && strings.IndexByte(blankSigns, p.body[p.pos]) >= 0 {
		p.pos++
	}
}

// take consumes a sign if it comes next, and reports whether it did.
func (p *parser) take(sign string) bool {
	p.blanks()
	if strings.HasPrefix(p.body[p.pos:], sign) {
		p.pos += len(sign)
		return true
	}
	return false
}

// word returns the next name without consuming it.
func (p *parser) word() string {
	p.blanks()
	end := p.pos
	for end < len(p.body) && isWordByte(p.body[end], end > p.pos) {
		end++
	}
	return p.body[p.pos:end]
}

func isWordByte(c byte, inside bool) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80 || inside && (c == '-' || '0' <= c && c <= '9')
}

func (p *parser) takeWord(word string) bool {
	if p.word() == word {
		p.pos += len(word)
		return true
	}
	return false
}

func (p *parser) name(what string) (string, *Error) {
	w := p.word()
	if w == "" {
		return "", p.fail(what+" is missing", "")
	}
	p.pos += len(w)
	return w, nil
}

// end returns an error if any text is left.
func (p *parser) end() *Error {
	p.blanks()
	if p.pos < len(p.body) {
		rest := p.body[p.pos:]
		if strings.HasPrefix(rest, "=") {
			return p.fail("unexpected "+quote(rest), "write == to compare")
		}
		return p.fail("unexpected "+quote(rest), "")
	}
	return nil
}

func quote(s string) string {
	const longest = 20
	s = strings.TrimSpace(s)
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return "\"" + s + "\""
}

// filteredValue reads value | filter: arg, arg | filter.
func (p *parser) filteredValue() (expression, *Error) {
	e, err := p.value()
	if err != nil {
		return nil, err
	}
	for p.take("|") {
		p.blanks()
		start := p.pos
		name, err := p.name("the filter's name")
		if err != nil {
			return nil, err
		}
		apply, ok := filterNamed(name)
		if !ok {
			p.pos = start
			return nil, p.fail("unknown filter "+quote(name), filterMeant(name))
		}
		f := &filtered{input: e, name: name, apply: apply}
		for more := p.take(":"); more; more = p.take(",") {
			if err := p.argument(f); err != nil {
				return nil, err
			}
		}
		if n := len(f.args); n < apply.least || n > apply.most {
			p.pos = start
			return nil, p.fail(fmt.Sprintf("filter %s takes %s, not %d", name, apply.count(), n), "")
		}
		if err := f.pattern(); err != nil {
			p.pos = start
			return nil, p.fail(err.Error(), "the parts of a date are those of strftime: %Y %m %d %H %M")
		}
		e = f
	}
	return e, nil
}

// pattern checks the pattern of a date that the text itself writes.
func (f *filtered) pattern() error {
	if f.name != "date" || len(f.args) == 0 {
		return nil
	}
	known, _ := f.args[0].(literal)
	text, ok := known.value.(string)
	if !ok {
		return nil
	}
	_, err := strftime(time.Time{}, text, "")
	return err
}

// argument reads one argument of a filter, with or without a name (allow_false: true).
func (p *parser) argument(f *filtered) *Error {
	start := p.pos
	if name := p.word(); name != "" {
		p.pos += len(name)
		if p.take(":") {
			if name != f.apply.named {
				p.pos = start
				return p.fail("filter "+f.name+" takes no value named "+quote(name), "")
			}
			var err *Error
			f.named, err = p.value()
			return err
		}
		p.pos = start
	}
	arg, err := p.value()
	f.args = append(f.args, arg)
	return err
}

// remark checks that each line of a comment {% # … %} begins with #.
func (p *parser) remark() *Error {
	for line := range strings.Lines(p.body) {
		line = strings.Trim(line, blankSigns)
		if line != "" && line[0] != '#' {
			return errorAt(p.src, p.at, "each line of a remark begins with #", "or write {% comment %} … {% endcomment %}")
		}
	}
	return nil
}

// condition reads comparisons joined by and / or, grouped from the right as Liquid does.
func (p *parser) condition() (expression, *Error) {
	if p.depth++; p.depth > maxExpressionDepth {
		return nil, p.fail("the condition is too long", "")
	}
	defer func() { p.depth-- }()
	left, err := p.compared()
	if err != nil {
		return nil, err
	}
	for _, word := range []string{"and", "or"} {
		if p.takeWord(word) {
			right, err := p.condition()
			return logic{word == "or", left, right}, err
		}
	}
	return left, nil
}

func (p *parser) compared() (expression, *Error) {
	left, err := p.value()
	if err != nil {
		return nil, err
	}
	op := ""
	for _, sign := range []string{"==", "!=", "<>", "<=", ">=", "<", ">"} {
		if p.take(sign) {
			op = sign
			break
		}
	}
	if op == "" {
		if !p.takeWord("contains") {
			return left, nil
		}
		op = "contains"
	}
	right, err := p.value()
	return comparison{op, left, right}, err
}

// value reads a literal, a range or a path.
func (p *parser) value() (expression, *Error) {
	if p.depth++; p.depth > maxExpressionDepth {
		return nil, p.fail("brackets are nested too deeply", "")
	}
	defer func() { p.depth-- }()
	p.blanks()
	if p.pos >= len(p.body) {
		return nil, p.fail("a value is missing", "")
	}
	switch c := p.body[p.pos]; {
	case c == '"' || c == '\'':
		end := strings.IndexByte(p.body[p.pos+1:], c)
		if end < 0 {
			return nil, p.fail("the quote is not closed", "")
		}
		text := p.body[p.pos+1 : p.pos+1+end]
		p.pos += end + 2
		return literal{text}, nil
	case c == '(':
		return p.span()
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	}
	w := p.word()
	if w == "" {
		return nil, p.fail("unexpected "+quote(p.body[p.pos:]), "")
	}
	p.pos += len(w)
	if v, ok := wordValue(w); ok {
		return literal{v}, nil
	}
	return p.path(w)
}

func (p *parser) path(root string) (expression, *Error) {
	out := &path{root: root}
	for p.pos < len(p.body) {
		switch p.body[p.pos] {
		case '.':
			if strings.HasPrefix(p.body[p.pos:], "..") {
				p.reads(out)
				return out, nil
			}
			p.pos++
			w := p.word()
			if w == "" {
				return nil, p.fail("a field's name is missing after the dot", "")
			}
			p.pos += len(w)
			out.steps = append(out.steps, step{name: w})
		case '[':
			p.pos++
			index, err := p.value()
			if err != nil {
				return nil, err
			}
			if !p.take("]") {
				return nil, p.fail("[ is not closed", "")
			}
			if lit, ok := index.(literal); ok {
				if name, ok := lit.value.(string); ok {
					out.steps = append(out.steps, step{name: name})
					continue
				}
			}
			out.steps = append(out.steps, step{index: index})
		default:
			p.reads(out)
			return out, nil
		}
	}
	p.reads(out)
	return out, nil
}

func (p *parser) span() (expression, *Error) {
	p.pos++
	from, err := p.value()
	if err != nil {
		return nil, err
	}
	if !p.take("..") {
		return nil, p.fail("brackets hold a range, such as (1..5)", "conditions are grouped from the right; nest {% if %} instead")
	}
	to, err := p.value()
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, p.fail("( is not closed", "")
	}
	return span{from, to}, nil
}

func (p *parser) number() (expression, *Error) {
	end := p.pos + 1
	for end < len(p.body) {
		c := p.body[end]
		if c == '.' && (end+1 >= len(p.body) || p.body[end+1] < '0' || p.body[end+1] > '9') {
			break
		}
		if c != '.' && (c < '0' || c > '9') {
			break
		}
		end++
	}
	text := p.body[p.pos:end]
	if _, ok := number(json.Number(text)); !ok {
		return nil, p.fail(quote(text)+" is no number", "")
	}
	p.pos = end
	return literal{json.Number(text)}, nil
}

// filterMeant returns a hint for an unknown filter, which may have another name in other systems.
func filterMeant(name string) string {
	switch name {
	case "upper", "uppercase":
		return "did you mean upcase?"
	case "lower", "lowercase":
		return "did you mean downcase?"
	case "length", "count":
		return "did you mean size?"
	}
	return suggest.DidYouMean(name, filterNames())
}
