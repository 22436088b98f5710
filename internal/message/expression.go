package message

import (
	"encoding/json"
	"fmt"
	"strings"
)

// expression is a value of a template: a literal, a path, a range, a comparison, a chain of filters.
type expression interface {
	// eval computes the value. A field that its parent lacks is an error, unless lenient: then it is null.
	eval(s *state, lenient bool) (any, error)
}

type literal struct{ value any }

func (l literal) eval(*state, bool) (any, error) { return l.value, nil }

// path is a variable and the fields below it. A step is a name or, in brackets, an expression.
type path struct {
	root  string
	steps []step
}

type step struct {
	name  string
	index expression // instead of name
}

func (p *path) eval(s *state, lenient bool) (any, error) {
	value, ok := s.lookup(p.root)
	if !ok {
		return nil, fmt.Errorf("unknown variable %s", p.root)
	}
	s.done += len(p.steps)
	for i, st := range p.steps {
		if t, isText := value.(string); isText {
			s.done += len(t)
		}
		var key any = st.name
		if st.index != nil {
			var err error
			if key, err = st.index.eval(s, lenient); err != nil {
				return nil, err
			}
		}
		next, ok := field(value, key)
		if !ok {
			if lenient {
				return nil, nil
			}
			return nil, fmt.Errorf("unknown variable %s", p.upTo(i+1))
		}
		value = next
	}
	return value, nil
}

// upTo writes the path and its first n steps.
func (p *path) upTo(n int) string {
	var b strings.Builder
	b.WriteString(p.root)
	for _, st := range p.steps[:n] {
		switch lit, isLit := st.index.(literal); {
		case st.index == nil:
			b.WriteString("." + st.name)
		case isLit:
			fmt.Fprintf(&b, "[%v]", lit.value)
		default:
			b.WriteString("[…]")
		}
	}
	return b.String()
}

// field reads a field or an item. What is not there is not ok.
func field(value, key any) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		name, ok := key.(string)
		if !ok {
			return nil, false
		}
		if f, ok := v[name]; ok {
			return f, true
		}
		if name == "size" {
			return int64(len(v)), true
		}
	case []any:
		return item(key, len(v), func(i int) any { return v[i] })
	case []string:
		return item(key, len(v), func(i int) any { return v[i] })
	case []map[string]any:
		return item(key, len(v), func(i int) any { return v[i] })
	case string:
		if key == "size" {
			return int64(len([]rune(v))), true
		}
	case forloop:
		return v.field(key)
	}
	return nil, false
}

// item reads a list: by index, from its end where negative, or by size, first or last.
func item(key any, n int, at func(int) any) (any, bool) {
	switch key {
	case "size":
		return int64(n), true
	case "first":
		key = int64(0)
	case "last":
		key = int64(-1)
	}
	f, ok := number(key)
	if !ok || !f.whole {
		return nil, false
	}
	i := f.i
	if i < 0 {
		i += int64(n)
	}
	if i < 0 || i >= int64(n) {
		return nil, key == int64(0) || key == int64(-1) // the first of nothing is nothing
	}
	return at(int(i)), true
}

// span is (1..5).
type span struct{ from, to expression }

func (r span) eval(s *state, lenient bool) (any, error) {
	var ends [2]int64
	for i, e := range []expression{r.from, r.to} {
		v, err := e.eval(s, lenient)
		if err != nil {
			return nil, err
		}
		n, ok := number(v)
		if !ok {
			return nil, fmt.Errorf("a range needs numbers, not %s", kindOf(v))
		}
		ends[i] = n.truncated()
	}
	if ends[1] < ends[0] {
		return []any{}, nil
	}
	n := ends[1] - ends[0]
	if n < 0 || n >= int64(s.limits.MaxTurns) {
		return nil, tooLarge("a range of more than %d turns", s.limits.MaxTurns)
	}
	items := make([]any, 0, n+1)
	for i := range n + 1 {
		items = append(items, ends[0]+i)
	}
	return items, s.work(len(items))
}

type comparison struct {
	op          string
	left, right expression
}

func (c comparison) eval(s *state, _ bool) (any, error) {
	a, err := c.left.eval(s, true)
	if err != nil {
		return nil, err
	}
	b, err := c.right.eval(s, true)
	if err != nil {
		return nil, err
	}
	if err := s.work(weight(a) + weight(b)); err != nil {
		return nil, err
	}
	switch c.op {
	case "==":
		return same(a, b), nil
	case "!=", "<>":
		return !same(a, b), nil
	case "contains":
		return contains(a, b), nil
	}
	order, ok := order(a, b)
	if !ok {
		return false, nil
	}
	switch c.op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

// logic is `and` and `or`, which Liquid reads from the right without precedence.
type logic struct {
	or          bool
	left, right expression
}

func (l logic) eval(s *state, _ bool) (any, error) {
	a, err := l.left.eval(s, true)
	if err != nil || truthy(a) == l.or {
		return truthy(a), err
	}
	b, err := l.right.eval(s, true)
	return truthy(b), err
}

// filtered passes a value through a filter.
type filtered struct {
	input expression
	name  string
	apply filter
	args  []expression
}

func (f *filtered) eval(s *state, lenient bool) (any, error) {
	input, err := f.input.eval(s, lenient || f.name == "default")
	if err != nil {
		return nil, err
	}
	args := make([]any, len(f.args))
	for i, a := range f.args {
		if args[i], err = a.eval(s, lenient); err != nil {
			return nil, err
		}
	}
	if err := s.work(weight(input)); err != nil {
		return nil, err
	}
	out, err := f.apply.run(s, input, args)
	if err != nil {
		if _, limit := err.(*limitError); limit { //nolint:errorlint // made by this package, never wrapped
			return nil, err
		}
		return nil, fmt.Errorf("filter %s: %w", f.name, err)
	}
	return out, s.work(weight(out))
}

// emptyWord is the word empty or blank in a comparison.
type emptyWord struct{}

// reserved words that are literals.
func wordValue(word string) (any, bool) {
	switch word {
	case "true":
		return true, true
	case "false":
		return false, true
	case "nil", "null":
		return nil, true
	case "empty", "blank":
		return emptyWord{}, true
	}
	return nil, false
}

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
	for p.pos < len(p.body) && strings.IndexByte(" \t\r\n", p.body[p.pos]) >= 0 {
		p.pos++
	}
}

// take consumes a sign when it comes next.
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

// end demands that nothing is left.
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
			return nil, p.fail("unknown filter "+quote(name), didYouMean(name, filterNames()))
		}
		f := &filtered{input: e, name: name, apply: apply}
		for p.take(":") || len(f.args) > 0 && p.take(",") {
			arg, err := p.value()
			if err != nil {
				return nil, err
			}
			f.args = append(f.args, arg)
		}
		if n := len(f.args); n < apply.least || n > apply.most {
			p.pos = start
			return nil, p.fail(fmt.Sprintf("filter %s takes %s, not %d", name, apply.count(), n), "")
		}
		e = f
	}
	return e, nil
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
