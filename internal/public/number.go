package public

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
	printer "golang.org/x/text/message"
	"golang.org/x/text/number"

	"github.com/carillonhq/carillon/internal/survey"
)

// digits writes and reads numbers as the people of a locale do.
type digits struct{ of *printer.Printer }

func digitsOf(locale string) digits {
	tag, err := language.Parse(locale)
	if err != nil || tag == language.Und {
		tag = language.English
	}
	return digits{printer.NewPrinter(tag)}
}

// write writes a number without separators between its thousands, so that it is read as it was written.
func (d digits) write(n float64) string {
	return strings.Map(plainSign, d.of.Sprint(number.Decimal(n, number.NoSeparator(), number.MaxFractionDigits(15))))
}

// plainSign drops the marks of direction that some locales have at a sign.
func plainSign(c rune) rune {
	if unicode.Is(unicode.Bidi_Control, c) {
		return -1
	}
	return c
}

// readNumbers returns the fields of a form with each number as package survey reads it: without separators between its thousands. The form
// itself stays as it was typed.
func readNumbers(f *survey.Form, fields url.Values, locale string) url.Values {
	out, d := make(url.Values, len(fields)), digitsOf(locale)
	for id, values := range fields {
		out[id] = values
	}
	for i := range f.Questions {
		q := &f.Questions[i]
		if values := out[q.ID]; len(values) > 0 && (q.Type == survey.Number || q.Type == survey.Rating) {
			out[q.ID] = []string{d.ungroup(values[0])}
		}
	}
	return out
}

// separators are what people write before the decimals and between the thousands, by what their locale writes before the decimals. Some
// mean either: in German 1.000 is a thousand, in English it is one. A text that fits neither is left to package survey.
func separators(decimal rune) (decimals, thousands string) {
	const blanks = " \u00a0\u202f'’"
	switch decimal {
	case ',':
		return ",", "." + blanks
	case '٫':
		return "٫.", "٬،," + blanks
	}
	return ".", ",٬" + blanks
}

// ungroup removes the separators between the thousands of a number; every other text is returned as it is. Groups have three digits, except
// the first, which does not begin with a zero: 0,125 is no thousand.
func (d digits) ungroup(text string) string {
	text = strings.Map(plainSign, text)
	decimals, thousands := separators([]rune(d.write(0.5))[1])
	plain := strings.TrimLeft(strings.TrimSpace(text), "+-−")
	sign := strings.TrimSuffix(strings.TrimSpace(text), plain)
	whole, rest := plain, ""
	if i := strings.IndexAny(plain, decimals); i >= 0 {
		whole, rest = plain[:i], plain[i:]
	}
	at := strings.IndexAny(whole, thousands)
	if at < 0 {
		return text
	}
	separator, _ := utf8.DecodeRuneInString(whole[at:])
	groups := strings.Split(whole, string(separator))
	for i, g := range groups {
		g, ok := survey.Digits(g)
		if !ok || len(g) > 3 || i > 0 && len(g) < 3 || i == 0 && g[0] == '0' {
			return text
		}
		groups[i] = g
	}
	return sign + strings.Join(groups, "") + rest
}
