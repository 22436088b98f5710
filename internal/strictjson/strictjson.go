// Package strictjson reads JSON in one pass and takes nothing that two readers could understand differently: a key
// that is listed twice, bytes that are not UTF-8, half of a surrogate pair. It refuses U+0000, which no database holds, and
// bounds the depth.
//
// Values are those of encoding/json with numbers as written: map[string]any, []any, string, json.Number,
// bool and nil. What is valid JSON is exactly what encoding/json takes for it; only the one pass differs, which costs
// a third (see the benchmark). Errors name the path of what is wrong.
package strictjson

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind says what is wrong.
type Kind string

// What can be wrong.
const (
	Syntax  Kind = "syntax"   // not JSON
	NotUTF8 Kind = "not_utf8" // anywhere; its path is empty
	Twice   Kind = "twice"    // a key
	Zero    Kind = "zero"     // U+0000 in a text
	ZeroKey Kind = "zero_key" // U+0000 in a key; the path is that of the object
	Half    Kind = "half"     // half of a surrogate pair in a text: no character, which encoding/json reads as U+FFFD
	HalfKey Kind = "half_key" // the same in a key; the path is that of the object
	TooDeep Kind = "too_deep"
	Behind  Kind = "behind" // text after the value
)

// Error is the first thing that is wrong.
type Error struct {
	Kind Kind
	Path string // such as payload.list[2].name; empty = the whole
}

func (e *Error) Error() string { return e.Path + ": " + string(e.Kind) }

// under puts the name of a member, or an index in brackets, before the path.
func (e *Error) under(name string) *Error {
	if e.Path != "" && e.Path[0] != '[' {
		e.Path = "." + e.Path
	}
	e.Path = name + e.Path
	return e
}

// MaxDepth is how deep encoding/json goes.
const MaxDepth = 10000

// Reader reads a text from its beginning, value by value.
type Reader struct {
	data   []byte
	at     int
	depth  int // objects and lists that may still be opened
	spaces int // blanks between tokens so far
}

// NewReader begins at the first byte of data, in which objects and lists may be nested to depth. The caller has made
// sure that data is UTF-8, where it matters.
func NewReader(data []byte, depth int) *Reader { return &Reader{data: data, depth: depth} }

// UTF8 makes sure that data is UTF-8.
func UTF8(data []byte) *Error {
	if !utf8.Valid(data) {
		return &Error{Kind: NotUTF8}
	}
	return nil
}

// Parse reads data as one value.
func Parse(data []byte, depth int) (any, *Error) {
	if err := UTF8(data); err != nil {
		return nil, err
	}
	r := NewReader(data, depth)
	v, err := r.Value()
	if err != nil {
		return nil, err
	}
	return v, r.End()
}

// End makes sure that nothing follows.
func (r *Reader) End() *Error {
	if r.Peek(); r.at < len(r.data) {
		return &Error{Kind: Behind}
	}
	return nil
}

// Peek is the first byte of what comes next, 0 at the end.
func (r *Reader) Peek() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n':
			r.spaces++
		default:
			return c
		}
	}
	return 0
}

// Text reads a value and also returns its source text, without blanks between its tokens.
func (r *Reader) Text() (v any, text []byte, err *Error) {
	r.Peek()
	from, spaces := r.at, r.spaces
	v, err = r.Value()
	if err != nil {
		return nil, nil, err
	}
	text = r.data[from:r.at]
	if r.spaces > spaces {
		text = compact(text)
	}
	return v, text, nil
}

// compact leaves out the blanks of valid JSON.
func compact(text []byte) []byte {
	out := make([]byte, 0, len(text))
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			out = append(out, c)
			i++
			c = text[i]
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			continue
		}
		out = append(out, c)
	}
	return out
}

// Value reads a value.
func (r *Reader) Value() (any, *Error) {
	switch c := r.Peek(); c {
	case '{':
		fields := map[string]any{}
		err := r.Object(func(name string) *Error {
			if _, twice := fields[name]; twice {
				return &Error{Kind: Twice}
			}
			v, err := r.Value()
			fields[name] = v
			return err
		})
		if err != nil {
			return nil, err
		}
		return fields, nil
	case '[':
		list := []any{}
		err := r.List(func() *Error {
			v, err := r.Value()
			list = append(list, v)
			return err
		})
		if err != nil {
			return nil, err
		}
		return list, nil
	case '"':
		s, err := r.text()
		if err != nil {
			return nil, err
		}
		return s, nil
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	case 'n':
		return nil, r.word("null")
	}
	from := r.at
	if err := r.number(); err != nil {
		return nil, err
	}
	return json.Number(r.data[from:r.at]), nil
}

// Skip moves over a value and makes sure of nothing but that it is JSON. Its errors name no path.
func (r *Reader) Skip() *Error {
	switch c := r.Peek(); c {
	case '{', '[':
		return r.skipAll(c)
	case '"':
		return r.skipText()
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	}
	return r.number()
}

// skipAll moves over an object or a list.
func (r *Reader) skipAll(c byte) *Error {
	if err := r.open(c); err != nil {
		return err
	}
	end := c + 2 // in ASCII
	for more := r.Peek() != end; more; {
		if c == '{' {
			if r.Peek() != '"' {
				return &Error{Kind: Syntax}
			}
			if err := r.skipText(); err != nil {
				return err
			}
			if r.Peek() != ':' {
				return &Error{Kind: Syntax}
			}
			r.at++
		}
		if err := r.Skip(); err != nil {
			return err
		}
		if more = r.Peek() == ','; more {
			r.at++
		}
	}
	return r.shut(end)
}

// skipText moves over a text.
func (r *Reader) skipText() *Error {
	r.at++
	return r.skipRest()
}

func (r *Reader) skipRest() *Error {
	for {
		switch r.plain() {
		case '"':
			r.at++
			return nil
		case '\\':
			if _, err := r.escape(); err != nil {
				return err
			}
		default:
			return &Error{Kind: Syntax}
		}
	}
}

// Offset is how much has been read.
func (r *Reader) Offset() int { return r.at }

// Object reads an object; member reads the value of each name, and makes sure that no name comes twice.
func (r *Reader) Object(member func(name string) *Error) *Error {
	if err := r.open('{'); err != nil {
		return err
	}
	for more := r.Peek() != '}'; more; {
		if r.Peek() != '"' {
			return &Error{Kind: Syntax}
		}
		name, err := r.text()
		if err != nil {
			if err.Kind == Zero {
				err.Kind = ZeroKey
			} else if err.Kind == Half {
				err.Kind = HalfKey
			}
			return err
		}
		if r.Peek() != ':' {
			return &Error{Kind: Syntax}
		}
		r.at++
		if err := member(name); err != nil {
			return err.under(name)
		}
		if more = r.Peek() == ','; more {
			r.at++
		}
	}
	return r.shut('}')
}

// List reads a list; element reads each of its values.
func (r *Reader) List(element func() *Error) *Error {
	if err := r.open('['); err != nil {
		return err
	}
	n := 0
	for more := r.Peek() != ']'; more; n++ {
		if err := element(); err != nil {
			return err.under("[" + strconv.Itoa(n) + "]")
		}
		if more = r.Peek() == ','; more {
			r.at++
		}
	}
	return r.shut(']')
}

func (r *Reader) open(c byte) *Error {
	switch {
	case r.Peek() != c:
		return &Error{Kind: Syntax}
	case r.depth == 0:
		return &Error{Kind: TooDeep}
	}
	r.at++
	r.depth--
	return nil
}

func (r *Reader) shut(c byte) *Error {
	if r.Peek() != c {
		return &Error{Kind: Syntax}
	}
	r.at++
	r.depth++
	return nil
}

func (r *Reader) word(w string) *Error {
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return &Error{Kind: Syntax}
	}
	r.at += len(w)
	return nil
}

func (r *Reader) number() *Error {
	at := r.at
	next := func() byte {
		if at < len(r.data) {
			return r.data[at]
		}
		return 0
	}
	digits := func() bool {
		from := at
		for c := next(); c >= '0' && c <= '9'; c = next() {
			at++
		}
		return at > from
	}
	if next() == '-' {
		at++
	}
	if next() == '0' {
		at++
	} else if !digits() {
		return &Error{Kind: Syntax}
	}
	if next() == '.' {
		if at++; !digits() {
			return &Error{Kind: Syntax}
		}
	}
	if c := next(); c == 'e' || c == 'E' {
		at++
		if c := next(); c == '+' || c == '-' {
			at++
		}
		if !digits() {
			return &Error{Kind: Syntax}
		}
	}
	r.at = at
	return nil
}

// plain moves over the bytes of a text that stand for themselves and returns the one that does not.
func (r *Reader) plain() byte {
	for i, c := range r.data[r.at:] {
		if c == '"' || c == '\\' || c < ' ' {
			r.at += i
			return c
		}
	}
	r.at = len(r.data)
	return 0
}

// text reads a text.
func (r *Reader) text() (string, *Error) {
	r.at++
	from := r.at
	if r.plain() == '"' {
		r.at++
		return string(r.data[from : r.at-1]), nil
	}
	out := append([]byte(nil), r.data[from:r.at]...)
	for {
		from := r.at
		c := r.plain()
		out = append(out, r.data[from:r.at]...)
		switch c {
		case '"':
			r.at++
			return string(out), nil
		case '\\':
			char, err := r.escape()
			if err != nil {
				return "", err
			}
			if char <= 0 {
				if err := r.skipRest(); err != nil { // what is not JSON at all is said to be that
					return "", err
				}
				if char == half {
					return "", &Error{Kind: Half}
				}
				return "", &Error{Kind: Zero}
			}
			out = utf8.AppendRune(out, char)
		default:
			return "", &Error{Kind: Syntax}
		}
	}
}

// half is what escape makes of half of a surrogate pair.
const half = -1

// escape reads what begins with a backslash.
func (r *Reader) escape() (rune, *Error) {
	if r.at+1 >= len(r.data) {
		return 0, &Error{Kind: Syntax}
	}
	c := r.data[r.at+1]
	if c == 'u' {
		char := r.hex()
		if char < 0 {
			return 0, &Error{Kind: Syntax}
		}
		r.at += 6
		if !utf16.IsSurrogate(char) {
			return char, nil
		}
		if pair := utf16.DecodeRune(char, r.hex()); pair != utf8.RuneError {
			r.at += 6
			return pair, nil
		}
		return half, nil
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, &Error{Kind: Syntax}
	}
	r.at += 2
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

// hex is the number of a \uXXXX that stands next, -1 when none does.
func (r *Reader) hex() rune {
	if r.at+6 > len(r.data) || r.data[r.at] != '\\' || r.data[r.at+1] != 'u' {
		return -1
	}
	var char rune
	for _, c := range r.data[r.at+2 : r.at+6] {
		switch {
		case c >= '0' && c <= '9':
			char = char<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			char = char<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			char = char<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return char
}
