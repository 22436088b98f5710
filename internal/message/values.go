package message

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// safe is a text that is escaped already.
type safe string

// num is a number. Whole numbers of up to 64 bits are exact.
type num struct {
	whole bool
	i     int64
	f     float64
	text  string // a whole number of more than 64 bits, as it was written; it is not used in computations
}

func wholeNumber(i int64) num { return num{whole: true, i: i, f: float64(i)} }

// number reads a number; ok is false for any other value, also for a text.
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
		if f, err := strconv.ParseFloat(string(v), 64); err == nil && !strings.ContainsAny(string(v), ".eE") {
			return num{f: f, text: string(v)}, true
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

// value returns the number in the form in which filters pass it on.
func (n num) value() any {
	switch {
	case n.whole:
		return n.i
	case n.text != "":
		return json.Number(n.text)
	}
	return n.f
}

// truncated returns the whole part, limited to 64 bits.
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

// String writes the shortest decimal, without an exponent. A decimal keeps its point: 5.0 is not written as 5.
func (n num) String() string {
	switch {
	case n.whole:
		return strconv.FormatInt(n.i, 10)
	case n.text != "":
		return n.text
	case n.f == 0:
		return "0.0"
	}
	if a := math.Abs(n.f); a >= 1e21 || a < 1e-7 {
		return strconv.FormatFloat(n.f, 'g', -1, 64)
	}
	out := strconv.FormatFloat(n.f, 'f', -1, 64)
	if !strings.Contains(out, ".") {
		out += ".0"
	}
	return out
}

// interval is the list of a range. It is written as its ends, such as 1..3.
type interval []any

// Local is an instant that is written in its own zone, not in the reader's.
type Local struct{ time.Time }

// truthy reports whether a value counts as true: all values do except false and null.
func truthy(v any) bool { return v != nil && v != false }

// text writes a plain value as a text; ok is false for lists and objects.
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
	case interval:
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

// kindOf returns the name of a value's kind, for the author.
func kindOf(v any) string {
	switch v := v.(type) {
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
	case emptyWord:
		return "the word " + string(v)
	}
	if _, ok := number(v); ok {
		return "a number"
	}
	if _, ok := list(v); ok {
		return "a list"
	}
	return fmt.Sprintf("a value of type %T", v)
}

// weight estimates the work of a filter with a value, by its bytes or items.
func weight(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)
	case safe:
		return 1 + len(v)
	case []any:
		return 1 + len(v)
	case interval:
		return 1 + len(v)
	case []string:
		return 1 + len(v)
	case []map[string]any:
		return 1 + len(v)
	}
	return 1
}
