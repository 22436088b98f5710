package message

import (
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

// path is a variable and fields below it. A step is a name or, in brackets, an expression.
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

// upTo writes the variable and its first n steps.
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

// field reads a field or an item; ok is false if there is none.
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
	case interval:
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

// item reads an item of a list by its index, which counts from the end if it is negative, or the list's size, first or last.
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
		return nil, key == int64(0) || key == int64(-1) // the first item of an empty list is null
	}
	return at(int(i)), true
}

// span is a range, such as (1..5).
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
		return interval{}, nil
	}
	n := ends[1] - ends[0]
	if n < 0 || n >= int64(s.limits.MaxTurns) {
		return nil, tooLarge("a range of more than %d turns", s.limits.MaxTurns)
	}
	items := make(interval, 0, n+1)
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
		return s.same(a, b)
	case "!=", "<>":
		equal, err := s.same(a, b)
		return !equal, err
	case "contains":
		return s.contains(a, b)
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
	named expression // the value of the filter's named argument, or nil
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
	if f.named != nil {
		v, err := f.named.eval(s, lenient)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
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

// emptyWord is the word empty or blank, which comparisons treat in their own way.
type emptyWord string

const (
	emptyName emptyWord = "empty" // a text, a list or an object without content
	blankName emptyWord = "blank" // an empty value, a text of blanks, false, or null
)

// wordValue returns the value of a reserved word that is a literal.
func wordValue(word string) (any, bool) {
	switch word {
	case "true":
		return true, true
	case "false":
		return false, true
	case "nil", "null":
		return nil, true
	case "empty", "blank":
		return emptyWord(word), true
	}
	return nil, false
}
