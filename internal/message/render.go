package message

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// Reader is the person for whom a text is written.
type Reader struct {
	Locale   string         // the language of dates; empty is English
	Zone     *time.Location // the zone of instants; nil is UTC
	Language string         // the language of a page whose text names no locale; empty: not known
}

// Render renders the text for these values, in English and UTC. vars holds JSON values and times and is not changed. The errors are
// *RenderError; their detail names variables and never their values.
func (t *Template) Render(vars map[string]any, limits Limits) (string, error) {
	return t.RenderFor(Reader{}, vars, limits)
}

// RenderFor is Render with dates and times in the reader's language and zone.
func (t *Template) RenderFor(reader Reader, vars map[string]any, limits Limits) (string, error) {
	s := &state{t: t, vars: vars, limits: limits.withDefaults(), zone: reader.Zone, locale: reader.Locale}
	if s.zone == nil {
		s.zone = time.UTC
	}
	s.out = make([]byte, 0, len(t.src)+len(t.src)/4)
	if _, err := s.nodes(t.root); err != nil {
		return "", s.failure(err)
	}
	if t.format == Markdown {
		made, err := page(string(s.out), cmp.Or(reader.Language, reader.Locale), s.limits)
		if err != nil {
			return "", s.failure(err)
		}
		return made, nil
	}
	return string(s.out), nil
}

// workPerByte bounds the steps of a rendering and the bytes that its filters read and make, for each byte of the longest output. It
// is enough for every byte to pass through a long chain of filters, and too little to keep a processor busy for a second.
const workPerByte = 32

// state is one rendering.
type state struct {
	t      *Template
	vars   map[string]any
	own    []variable // variables that the template has set; the last one of a name counts
	limits Limits
	zone   *time.Location
	locale string

	out   []byte
	turns int
	done  int // work of filters so far
	at    int // the offset of the last node, for errors

	rows     map[string]int   // the position of each cycle
	counters map[string]int64 // the counters of increment and decrement
}

type variable struct {
	name  string
	value any
}

// limitError ends a rendering that would become too large.
type limitError struct{ detail string }

func (e *limitError) Error() string { return e.detail }

func tooLarge(format string, args ...any) error { return &limitError{fmt.Sprintf(format, args...)} }

func (s *state) failure(err error) *RenderError {
	line, _ := position(s.t.src, s.at)
	out := &RenderError{Reason: reason.CannotRender, Detail: err.Error(), Line: line}
	var limit *limitError
	if errors.As(err, &limit) {
		out.Reason = reason.OutputTooLarge
	}
	return out
}

func (s *state) lookup(name string) (any, bool) {
	for i := len(s.own) - 1; i >= 0; i-- {
		if s.own[i].name == name {
			return s.own[i].value, true
		}
	}
	s.done += len(s.own) / 8
	if n, ok := s.counters[name]; ok {
		return n, true
	}
	v, ok := s.vars[name]
	return v, ok || s.t.own[name]
}

// set sets a variable of the template. It remains set after the loop in which it was set.
func (s *state) set(name string, value any) {
	for i := len(s.own) - 1; i >= 0; i-- {
		if s.own[i].name == name {
			s.own[i].value = value
			return
		}
	}
	s.own = append(s.own, variable{name, value})
}

func (s *state) work(n int) error {
	s.done += n
	if s.done > workPerByte*s.limits.MaxOutput {
		return tooLarge("this text takes too much work")
	}
	return nil
}

func (s *state) write(text string) error {
	if len(s.out)+len(text) > s.limits.MaxOutput {
		return tooLarge("the text is longer than %d bytes", s.limits.MaxOutput)
	}
	s.out = append(s.out, text...)
	return nil
}

// show writes a value, escaped as the format requires. A list is written item by item.
func (s *state) show(v any, depth int) error {
	if t, ok := v.(time.Time); ok {
		v = t.In(s.zone)
	}
	if t, ok := text(v); ok {
		if _, isSafe := v.(safe); !isSafe {
			t = s.escape(t)
		}
		return s.write(t)
	}
	items, ok := list(v)
	if !ok {
		return fmt.Errorf("%s cannot be written out", kindOf(v))
	}
	if r, ok := v.(interval); ok && len(r) > 0 {
		return s.write(fmt.Sprintf("%v..%v", r[0], r[len(r)-1]))
	}
	if depth >= s.limits.MaxDepth {
		return tooLarge("lists are nested deeper than %d", s.limits.MaxDepth)
	}
	for _, item := range items {
		if err := s.show(item, depth+1); err != nil {
			return err
		}
	}
	return s.work(len(items))
}

// escape escapes a text as the format requires.
func (s *state) escape(t string) string {
	switch s.t.format {
	case HTML:
		return escapeHTML(t)
	case Markdown:
		return escapeMarkdown(t)
	case Plain:
	}
	return t
}

// jump is how a loop is left early.
type jump int

const (
	goOn jump = iota
	leaveLoop
	nextTurn
)

// node is a part of a template.
type node interface {
	render(s *state) (jump, error)
}

func (s *state) nodes(nodes []node) (jump, error) {
	for _, n := range nodes {
		if err := s.work(1); err != nil {
			return goOn, err
		}
		if j, err := n.render(s); j != goOn || err != nil {
			return j, err
		}
	}
	return goOn, nil
}

type textNode string

func (n textNode) render(s *state) (jump, error) { return goOn, s.write(string(n)) }

type outputNode struct {
	e  expression
	at int
}

func (n *outputNode) render(s *state) (jump, error) {
	s.at = n.at
	v, err := n.e.eval(s, false)
	if err != nil {
		return goOn, err
	}
	return goOn, s.show(v, 0)
}

type branch struct {
	cond    expression // nil for else
	negated bool
	body    []node
	at      int
}

type ifNode struct {
	branches []branch
	blank    bool
}

func (n *ifNode) render(s *state) (jump, error) {
	for _, b := range n.branches {
		if b.cond != nil {
			s.at = b.at
			v, err := b.cond.eval(s, true)
			if err != nil {
				return goOn, err
			}
			if truthy(v) == b.negated {
				continue
			}
		}
		return s.nodes(b.body)
	}
	return goOn, nil
}

type forNode struct {
	name            string
	items           expression
	limit, offset   expression
	reversed        bool
	body, otherwise []node
	at              int
	blank           bool
}

// forloop is the variable forloop in a loop's body: the state of the turn.
type forloop struct {
	index, length int
	parent        *forloop // the loop around this one
}

func (f forloop) field(key any) (any, bool) {
	switch key {
	case "index":
		return int64(f.index + 1), true
	case "index0":
		return int64(f.index), true
	case "rindex":
		return int64(f.length - f.index), true
	case "rindex0":
		return int64(f.length - f.index - 1), true
	case "first":
		return f.index == 0, true
	case "last":
		return f.index == f.length-1, true
	case "length":
		return int64(f.length), true
	case "parentloop":
		if f.parent != nil {
			return *f.parent, true
		}
	}
	return nil, false
}

func (n *forNode) render(s *state) (jump, error) {
	s.at = n.at
	v, err := n.items.eval(s, false)
	if err != nil {
		return goOn, err
	}
	items, ok := list(v)
	if !ok && v != nil {
		return goOn, fmt.Errorf("for needs a list, not %s", kindOf(v))
	}
	if items, err = n.window(s, items); err != nil {
		return goOn, err
	}
	if len(items) == 0 {
		return s.nodes(n.otherwise)
	}
	var parent *forloop
	if around, ok := s.lookup("forloop"); ok {
		if loop, ok := around.(forloop); ok {
			parent = &loop
		}
	}
	base := len(s.own)
	s.own = append(s.own, variable{"forloop", nil}, variable{n.name, nil})
	defer func() { s.own = append(s.own[:base], s.own[base+2:]...) }() // variables that the body has set stay
	for i := range items {
		if s.turns++; s.turns > s.limits.MaxTurns {
			return goOn, tooLarge("the loops of this text take more than %d turns", s.limits.MaxTurns)
		}
		item := items[i]
		if n.reversed {
			item = items[len(items)-1-i]
		}
		s.own[base].value, s.own[base+1].value = forloop{i, len(items), parent}, item
		switch j, err := s.nodes(n.body); {
		case err != nil:
			return goOn, err
		case j == leaveLoop:
			return goOn, nil
		}
	}
	return goOn, nil
}

// window applies offset and limit to a list.
func (n *forNode) window(s *state, items []any) ([]any, error) {
	for _, o := range []struct {
		e   expression
		cut func(k int)
	}{
		{n.offset, func(k int) { items = items[min(k, len(items)):] }},
		{n.limit, func(k int) { items = items[:min(k, len(items))] }},
	} {
		if o.e == nil {
			continue
		}
		v, err := o.e.eval(s, false)
		if err != nil {
			return nil, err
		}
		k, err := numberOf(v)
		if err != nil || k.truncated() < 0 {
			return nil, errors.New("limit and offset need a number")
		}
		o.cut(int(min(k.truncated(), int64(len(items)))))
	}
	return items, nil
}

type assignNode struct {
	name string
	e    expression
	at   int
}

func (n *assignNode) render(s *state) (jump, error) {
	s.at = n.at
	v, err := n.e.eval(s, false)
	if err == nil {
		s.set(n.name, v)
	}
	return goOn, err
}

type captureNode struct {
	name string
	body []node
}

// render stores the output of the body in a variable. In HTML and Markdown that output is already escaped.
func (n *captureNode) render(s *state) (jump, error) {
	start := len(s.out)
	j, err := s.nodes(n.body)
	written := string(s.out[start:])
	s.out = s.out[:start]
	if err != nil {
		return goOn, err
	}
	if s.t.format != Plain {
		s.set(n.name, safe(written))
	} else {
		s.set(n.name, written)
	}
	return j, s.work(len(written))
}

type jumpNode string

func (n jumpNode) render(*state) (jump, error) {
	if n == "break" {
		return leaveLoop, nil
	}
	return nextTurn, nil
}
