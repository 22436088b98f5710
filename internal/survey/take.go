package survey

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/civil"
)

// maxNumber is the largest number that JSON readers read alike: 2^53.
const maxNumber = 1 << 53

// take returns the answer to a question in its one form, or why it is not taken.
func (q *Question) take(value any) (any, *Problem) {
	switch q.Type {
	case Choice:
		text, ok := value.(string)
		if !ok {
			return nil, wrong("a text")
		}
		if q.option(text) < 0 {
			return nil, &Problem{Code: NotAnOption}
		}
		return text, nil
	case Multiple:
		return q.several(value)
	case Number, Rating:
		return q.number(value)
	case FreeText:
		return q.text(value)
	case Date:
		text, ok := value.(string)
		if !ok {
			return nil, wrong("a text")
		}
		date, err := civil.ParseDate(strings.TrimSpace(text))
		if err != nil {
			return nil, &Problem{Code: NotADate}
		}
		return date.String(), nil
	case YesNo:
		if _, ok := value.(bool); !ok {
			return nil, wrong("true or false")
		}
		return value, nil
	}
	panic("survey: question of type " + string(q.Type))
}

// several takes a list of options. It puts them into the order of the form.
func (q *Question) several(value any) (any, *Problem) {
	list, ok := value.([]any)
	if !ok {
		return nil, wrong("a list of texts")
	}
	chosen := make([]bool, len(q.Options))
	for _, one := range list {
		text, ok := one.(string)
		if !ok {
			return nil, wrong("a list of texts")
		}
		i := q.option(text)
		if i < 0 {
			return nil, &Problem{Code: NotAnOption}
		}
		chosen[i] = true
	}
	values := make([]any, 0, len(list))
	for i, o := range q.Options {
		if chosen[i] {
			values = append(values, o.Value)
		}
	}
	return values, nil
}

func (q *Question) number(value any) (any, *Problem) {
	var n float64
	switch v := value.(type) {
	case json.Number:
		parsed, err := strconv.ParseFloat(v.String(), 64)
		if err != nil && math.IsInf(parsed, 0) {
			return nil, &Problem{Code: TooLarge, Limit: maxNumber}
		}
		n = parsed
	case float64:
		n = v
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	default:
		return nil, wrong("a number")
	}
	low, high := -float64(maxNumber), float64(maxNumber)
	if q.Min != nil {
		low = *q.Min
	}
	if q.Max != nil {
		high = *q.Max
	}
	switch {
	case math.IsNaN(n):
		return nil, wrong("a number")
	case n < low:
		return nil, &Problem{Code: TooSmall, Limit: low}
	case n > high:
		return nil, &Problem{Code: TooLarge, Limit: high}
	case q.Type == Rating && n != math.Trunc(n):
		return nil, &Problem{Code: NotWhole}
	}
	return n + 0, nil // -0 is 0
}

func (q *Question) text(value any) (any, *Problem) {
	text, ok := value.(string)
	if !ok {
		return nil, wrong("a text")
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unstorable) {
		return nil, &Problem{Code: NotText}
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n") // browsers send \r\n
	if n := utf8.RuneCountInString(text); n > q.Longest() {
		return nil, &Problem{Code: TooLong, Limit: float64(q.Longest())}
	}
	if q.Pattern != nil && !q.Pattern.MatchString(text) {
		return nil, &Problem{Code: NotMatching}
	}
	return text, nil
}

// unstorable reports whether a character is a control character other than a tab or the end of a line.
func unstorable(c rune) bool {
	return c < ' ' && !strings.ContainsRune("\t\r\n", c) || c == 0x7f
}

func blank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(v) == ""
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !blank(one) })
	}
	return false
}

func wrong(want string) *Problem { return &Problem{Code: WrongType, Want: want} }

// clip shortens a text of a caller for a message.
func clip(text string) string {
	const longest = 60
	if utf8.RuneCountInString(text) <= longest {
		return strings.ToValidUTF8(text, "�")
	}
	return strings.ToValidUTF8(string([]rune(text)[:longest]), "�") + "…"
}
