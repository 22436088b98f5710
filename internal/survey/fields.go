package survey

import (
	"encoding/json"
	"strings"
	"unicode"
)

// ReadFields reads the answers of a page's form, whose fields are named by the questions. What cannot be read stays a text, so that
// Check names the problem at its question and the page shows the text again.
func (f *Form) ReadFields(fields map[string][]string) map[string]any {
	given := map[string]any{}
	for i := range f.Questions {
		q := &f.Questions[i]
		values, ok := fields[q.ID]
		if !ok || len(values) == 0 {
			continue
		}
		switch q.Type {
		case Multiple:
			list := make([]any, len(values))
			for k, v := range values {
				list[k] = v
			}
			given[q.ID] = list
		case Number, Rating:
			given[q.ID] = readNumber(values[0])
		case YesNo:
			switch values[0] {
			case "true", "false":
				given[q.ID] = values[0] == "true"
			default:
				given[q.ID] = values[0]
			}
		case Choice, FreeText, Date:
			given[q.ID] = values[0]
		}
	}
	return given
}

// readNumber reads a number as people type it: with digits of any script, and a comma or a point before the decimals. Another text
// is returned as it is.
func readNumber(text string) any {
	plain := strings.Map(func(c rune) rune {
		switch {
		case c < unicode.MaxASCII && c != ',':
			return c
		case c == ',' || c == '٫':
			return '.'
		case c == '−':
			return '-'
		}
		if d, ok := digit(c); ok {
			return d
		}
		return c
	}, strings.TrimSpace(text))
	plain = strings.TrimPrefix(plain, "+")
	if strings.Trim(plain, "-.0123456789") != "" {
		return text
	}
	n := json.Number(plain)
	if _, err := n.Float64(); err != nil {
		return text
	}
	return n
}

// digit returns the ASCII digit of a decimal digit of any script. Unicode has the ten digits of a script in a row.
func digit(c rune) (rune, bool) {
	for _, r := range unicode.Nd.R16 {
		if lo := rune(r.Lo); lo <= c && c <= rune(r.Hi) {
			return '0' + (c-lo)%10, true
		}
	}
	for _, r := range unicode.Nd.R32 {
		if lo := rune(r.Lo); lo <= c && c <= rune(r.Hi) {
			return '0' + (c-lo)%10, true
		}
	}
	return 0, false
}

// Digits returns a whole number that is written in the digits of any script in ASCII digits. ok is false for every other text.
func Digits(text string) (plain string, ok bool) {
	var b strings.Builder
	for _, c := range text {
		d, ok := digit(c)
		if !ok {
			return "", false
		}
		b.WriteRune(d)
	}
	return b.String(), text != ""
}
