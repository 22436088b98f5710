package message

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// safe is a text that is HTML already and is not escaped again.
type safe string

// num is a number: whole ones stay exact as far as 64 bits go.
type num struct {
	whole bool
	i     int64
	f     float64
}

func wholeNumber(i int64) num { return num{whole: true, i: i, f: float64(i)} }

// number reads a number; texts are none.
func number(v any) (num, bool) {
	switch v := v.(type) {
	case int64:
		return wholeNumber(v), true
	case int:
		return wholeNumber(int64(v)), true
	case float64:
		return decimal(v)
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return wholeNumber(i), true
		}
		if f, err := strconv.ParseFloat(string(v), 64); err == nil {
			return decimal(f)
		}
	}
	return num{}, false
}

func decimal(f float64) (num, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return num{}, false
	}
	return num{f: f}, true
}

// value returns the number as filters hand it on.
func (n num) value() any {
	if n.whole {
		return n.i
	}
	return n.f
}

// truncated is the whole part, held within 64 bits.
func (n num) truncated() int64 {
	if n.whole {
		return n.i
	}
	return toInt(n.f)
}

func toInt(f float64) int64 {
	switch {
	case f >= 1<<63:
		return math.MaxInt64
	case f <= -1<<63:
		return math.MinInt64
	}
	return int64(f)
}

// String writes the shortest decimal, never with an exponent that a reader would stumble over.
func (n num) String() string {
	if n.whole {
		return strconv.FormatInt(n.i, 10)
	}
	format := byte('f')
	if a := math.Abs(n.f); a >= 1e21 || a != 0 && a < 1e-7 {
		format = 'g'
	}
	if n.f == 0 {
		return "0"
	}
	return strconv.FormatFloat(n.f, format, -1, 64)
}

// Local is an instant that is meant in its own zone, whoever reads it.
type Local struct{ time.Time }

// truthy: only false and nothing are false.
func truthy(v any) bool { return v != nil && v != false }

// text turns a plain value into text; lists and objects are none.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case safe:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	case time.Time:
		return v.Format("2006-01-02 15:04"), true
	case Local:
		return text(v.Time)
	case civil.Date:
		return v.String(), true
	case time.Duration:
		return v.String(), true
	case emptyWord, forloop:
		return "", true
	}
	if n, ok := number(v); ok {
		return n.String(), true
	}
	return "", false
}

// list reads a list.
func list(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []string:
		return convert(v), true
	case []map[string]any:
		return convert(v), true
	}
	return nil, false
}

func convert[T any](in []T) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = v
	}
	return out
}

// kindOf names a value's kind for the author.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string, safe:
		return "a text"
	case bool:
		return "true or false"
	case time.Time, Local, civil.Date:
		return "a time"
	case time.Duration:
		return "a length of time"
	case map[string]any:
		return "an object"
	}
	if _, ok := number(v); ok {
		return "a number"
	}
	if _, ok := list(v); ok {
		return "a list"
	}
	return fmt.Sprintf("a value of type %T", v)
}

// instant is a local instant as any other.
func instant(v any) any {
	if l, ok := v.(Local); ok {
		return l.Time
	}
	return v
}

// same compares by value: numbers of any spelling, texts, and the words empty and blank.
func same(a, b any) bool {
	a, b = instant(a), instant(b)
	if _, ok := a.(emptyWord); ok {
		a, b = b, a
	}
	if _, ok := b.(emptyWord); ok {
		return empty(a)
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x.compare(y) == 0
	}
	if x, ok := a.(safe); ok {
		a = string(x)
	}
	if y, ok := b.(safe); ok {
		b = string(y)
	}
	switch x := a.(type) {
	case nil, bool, string, civil.Date, time.Duration:
		switch b.(type) {
		case nil, bool, string, civil.Date, time.Duration:
			return a == b
		}
		return false
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y)
	}
	return false // lists and objects are compared with empty only
}

func (n num) compare(m num) int {
	if n.whole && m.whole {
		return cmp.Compare(n.i, m.i)
	}
	return cmp.Compare(n.f, m.f)
}

// empty: nothing, a blank text, a list or an object without content.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(v) == ""
	case safe:
		return strings.TrimSpace(string(v)) == ""
	case map[string]any:
		return len(v) == 0
	}
	items, ok := list(v)
	return ok && len(items) == 0
}

// order compares two values of one kind; other pairs have no order.
func order(a, b any) (int, bool) {
	a, b = instant(a), instant(b)
	if x, ok := number(a); ok {
		y, ok := number(b)
		return x.compare(y), ok
	}
	if x, ok := a.(time.Time); ok {
		y, ok := b.(time.Time)
		return x.Compare(y), ok
	}
	if a == nil || b == nil {
		return 0, false
	}
	_, aBool := a.(bool)
	x, okX := text(a)
	y, okY := text(b)
	if _, isNumber := number(b); isNumber || aBool {
		return 0, false
	}
	return cmp.Compare(x, y), okX && okY
}

func contains(a, b any) bool {
	if items, ok := list(a); ok {
		for _, item := range items {
			if same(item, b) {
				return true
			}
		}
		return false
	}
	if m, ok := a.(map[string]any); ok {
		key, ok := text(b)
		_, has := m[key]
		return ok && has
	}
	x, okX := text(a)
	y, okY := text(b)
	return okX && okY && a != nil && b != nil && strings.Contains(x, y)
}

// weight is about how much work a value is to a filter: its bytes or items.
func weight(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)
	case safe:
		return 1 + len(v)
	case []any:
		return 1 + len(v)
	case []string:
		return 1 + len(v)
	case []map[string]any:
		return 1 + len(v)
	}
	return 1
}
