package public

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/survey"
)

// fieldsOf writes kept answers as the fields of a form.
func (v visit) fieldsOf(answers map[string]any) url.Values {
	fields := url.Values{}
	numbers := digitsOf(v.Locale)
	for id, value := range answers {
		q := v.Form.Question(id)
		if q == nil {
			continue
		}
		list, several := value.([]any)
		if !several {
			list = []any{value}
		}
		for _, one := range list {
			if text, ok := fieldOf(q, one, numbers); ok {
				fields.Add(id, text)
			}
		}
	}
	return fields
}

// fieldOf writes one value of an answer. The numbers of a row are values of its fields; others are shown as people write them.
func fieldOf(q *survey.Question, value any, numbers digits) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		n, err := v.Float64()
		if err != nil {
			return v.String(), true
		}
		return fieldOf(q, n, numbers)
	case float64:
		if _, _, chosen := row(q); chosen {
			return strconv.FormatFloat(v, 'f', -1, 64), true
		}
		return numbers.write(v), true
	case int:
		return fieldOf(q, float64(v), numbers)
	case int64:
		return fieldOf(q, float64(v), numbers)
	}
	return "", false
}

// storable returns the answers of a form as every database keeps them: numbers as numbers, and no text that is none.
func storable(given map[string]any) map[string]any {
	out := make(map[string]any, len(given))
	for id, value := range given {
		if kept, ok := storableValue(value); ok {
			out[id] = kept
		}
	}
	return out
}

func storableValue(value any) (any, bool) {
	switch v := value.(type) {
	case string:
		return v, utf8.ValidString(v) && !strings.ContainsRune(v, 0)
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	case []any:
		list := make([]any, 0, len(v))
		for _, one := range v {
			if kept, ok := storableValue(one); ok {
				list = append(list, kept)
			}
		}
		return list, true
	}
	return value, true
}

func isDate(text string) bool {
	_, err := civil.ParseDate(text)
	return err == nil
}

// readDates writes the dates of a form in their one form, 2026-05-14. Browsers send it; where their field for dates is a plain one, people
// type dates as they write them. What cannot be read stays as it was typed.
func readDates(f *survey.Form, fields url.Values, locale string) {
	for i := range f.Questions {
		if q := &f.Questions[i]; q.Type == survey.Date {
			for k, text := range fields[q.ID] {
				fields[q.ID][k] = readDate(text, locale)
			}
		}
	}
}

// readDate reads a date of three numbers: the year, of four digits, is the first or the last. Before a year the day is the first, in the
// United States the month, and in English of no country none unless only one can be.
func readDate(text, locale string) string {
	parts := strings.FieldsFunc(text, func(c rune) bool {
		return strings.ContainsRune("-./,،年月日", c) || unicode.Is(unicode.Bidi_Control, c) || unicode.IsSpace(c)
	})
	if len(parts) != 3 {
		return text
	}
	var n [3]int
	for i, part := range parts {
		plain, ok := survey.Digits(part)
		if !ok || len(plain) > 4 {
			return text
		}
		n[i], _ = strconv.Atoi(plain) // at most four digits
		parts[i] = plain
	}
	year, month, dayOf := n[0], n[1], n[2]
	if len(parts[0]) != 4 {
		if len(parts[2]) != 4 {
			return text
		}
		year, month, dayOf = n[2], n[1], n[0]
		switch first := monthFirst(locale); {
		case first == monthIsFirst, first == monthMayBeFirst && month > 12:
			month, dayOf = n[0], n[1]
		case first == monthMayBeFirst && dayOf <= 12 && month != dayOf:
			return text
		}
	}
	if iso := fmt.Sprintf("%04d-%02d-%02d", year, month, dayOf); isDate(iso) {
		return iso
	}
	return text
}

type order int

const (
	dayIsFirst order = iota
	monthIsFirst
	monthMayBeFirst
)

func monthFirst(locale string) order {
	tag, err := language.Parse(locale)
	if err != nil {
		return monthMayBeFirst
	}
	base, _, region := tag.Raw()
	switch {
	case region.String() == "US":
		return monthIsFirst
	case base.String() == "en" && region.String() == "ZZ":
		return monthMayBeFirst
	}
	return dayIsFirst
}
