package plan

import (
	"encoding/json"
	"strings"

	"github.com/carillonhq/carillon/internal/expr"
)

// pick reads the wanted fields of a JSON object into a map, as a decoder with UseNumber would, and skips the others (measured: a
// tenth of the time when a few of many fields are wanted). The text must come from encoding/json; ok is false when it has a shape
// that needs a decoder.
func (f *fieldPicker) pick(text string, into map[string]any) (ok bool) {
	p := picker{text: text}
	if !p.take('{') {
		return false
	}
	if p.take('}') {
		return p.end()
	}
	for n := 0; ; n++ {
		from := p.at
		if !p.pass() || text[from] != '"' || p.escaped {
			return false
		}
		name := text[from+1 : p.at-1]
		if !p.take(':') {
			return false
		}
		from = p.at
		if !p.pass() {
			return false
		}
		if f.wants(n, name) {
			if into[name], ok = value(text[from:p.at], p.escaped); !ok {
				return false
			}
		}
		if p.take('}') {
			return p.end()
		}
		if !p.take(',') {
			return false
		}
	}
}

// fieldPicker picks the wanted fields of many objects. It is fast when an object has the same fields as the one before, in the same order.
type fieldPicker struct {
	wanted map[string]bool
	names  []string // of the previous object
	want   []bool
}

// wants reports whether the n-th field of an object is wanted.
func (f *fieldPicker) wants(n int, name string) bool {
	if n < len(f.names) && f.names[n] == name {
		return f.want[n]
	}
	want := f.wanted[name]
	f.names, f.want = append(f.names[:n], strings.Clone(name)), append(f.want[:n], want)
	return want
}

type picker struct {
	text    string
	at      int
	escaped bool // the last skipped text contains a backslash
}

func (p *picker) end() bool { return p.at == len(p.text) }

func (p *picker) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// pass skips one value.
func (p *picker) pass() bool {
	p.escaped = false
	for depth := 0; p.at < len(p.text); {
		switch c := p.text[p.at]; {
		case c == '"':
			if !p.passText() {
				return false
			}
		case c == '{' || c == '[':
			depth++
			p.at++
			continue
		case c == '}' || c == ']':
			depth--
			p.at++
		case (c == ',' || c == ':') && depth > 0:
			p.at++
			continue
		case c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z':
			for p.at < len(p.text) && p.text[p.at] != ',' && p.text[p.at] != '}' && p.text[p.at] != ']' {
				p.at++
			}
		default: // blanks, which encoding/json does not write
			return false
		}
		if depth <= 0 {
			return depth == 0
		}
	}
	return false
}

func (p *picker) passText() bool {
	for p.at++; ; {
		i := strings.IndexByte(p.text[p.at:], '"')
		if i < 0 {
			return false
		}
		slash := strings.IndexByte(p.text[p.at:p.at+i], '\\')
		if slash < 0 {
			p.at += i + 1
			return true
		}
		p.escaped = true
		if p.at += slash + 2; p.at > len(p.text) {
			return false
		}
	}
}

func value(text string, escaped bool) (v any, ok bool) {
	switch c := text[0]; {
	case c == '"' && !escaped:
		return expr.TextValue(text[1 : len(text)-1]), true
	case c == '-' || '0' <= c && c <= '9':
		return expr.NumberValue(text), true
	case text == "true", text == "false":
		return c == 't', true
	case text == "null":
		return nil, true
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}
