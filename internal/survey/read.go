package survey

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/message"
)

// Said is an answer in somebody's own words.
type Said struct {
	Text   string
	Locale string     // of the person, such as de-AT; empty: not known
	Today  civil.Date // where the person is
}

// Read returns the answer that a person means. Options are chosen by their numbers, texts or values, several of them parted by commas or blanks. Yes and no are understood
// in the person's language and in English, and as 1 and 2, numbers with the digits and the decimal mark of the language, dates as 2026-05-14 and as people write
// them. The answer is checked like one on a page. Nothing, or a word such as skip, is nil without a problem: whether the question may be left out is not decided here.
func (q *Question) Read(said Said) (any, *Problem) {
	text := strings.TrimSpace(visible(norm.NFKC.String(said.Text)))
	if q.Type != FreeText && text != "" && skips(text, said.Locale) && q.named(text) < 0 {
		text = ""
	}
	if text == "" {
		return nil, nil //nolint:nilnil // no answer, and no problem
	}
	switch q.Type {
	case FreeText:
		if skips(text, said.Locale) && !q.Required {
			return nil, nil //nolint:nilnil // left out
		}
		return q.take(text)
	case Choice:
		if i := q.named(text); i >= 0 {
			return q.take(q.Options[i].Value)
		}
		return nil, &Problem{Code: NotAnOption}
	case Multiple:
		return q.severalNamed(text)
	case Number, Rating:
		if n, ok := number(text, base(said.Locale)); ok {
			return q.take(n)
		}
		return nil, wrong("a number")
	case Date:
		if d, ok := date(text, said); ok {
			return q.take(d.String())
		}
		return nil, &Problem{Code: NotADate}
	case YesNo:
		if yes, ok := yesNo(text, base(said.Locale)); ok {
			return q.take(yes)
		}
		return nil, wrong("yes or no")
	}
	panic("survey: question of type " + string(q.Type))
}

// named returns the place of the option that a text names; -1: none. A text or a value that is a number goes before the number of an option.
func (q *Question) named(text string) int {
	word := folded(text)
	for i, o := range q.Options {
		if folded(o.Value) == word {
			return i
		}
		is := false
		o.Text.Templates(func(_ string, t *message.Template) { is = is || folded(t.Source()) == word })
		if is {
			return i
		}
	}
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(q.Options) {
		return n - 1
	}
	return -1
}

func (q *Question) severalNamed(text string) (any, *Problem) {
	if i := q.named(text); i >= 0 {
		return q.take([]any{q.Options[i].Value})
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",;،؛+&/\n", r) })
	if len(parts) == 1 {
		parts = strings.Fields(text)
	}
	var values []any
	for _, part := range parts {
		if folded(part) == "" {
			continue
		}
		i := q.named(part)
		if i < 0 {
			return nil, &Problem{Code: NotAnOption}
		}
		values = append(values, q.Options[i].Value)
	}
	if len(values) == 0 {
		return nil, &Problem{Code: NotAnOption}
	}
	return q.take(values)
}

// base returns the language of a locale.
func base(locale string) string {
	language, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(locale), "_", "-"), "-")
	return language
}

// region returns the region of a locale in capital letters; empty: it has none.
func region(locale string) string {
	for _, part := range strings.Split(strings.ReplaceAll(locale, "_", "-"), "-")[1:] {
		if len(part) == 2 {
			return strings.ToUpper(part)
		}
	}
	return ""
}

// folded is a text without case, without marks and emoji around it, and with the digits of ASCII. A text of emoji alone keeps them.
func folded(text string) string {
	text = digits(cases.Fold().String(norm.NFKC.String(visible(text))))
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) && r != '-' })
	if word := strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsPunct(r) && r != '-' || unicode.Is(unicode.So, r)
	}); word != "" {
		return word
	}
	return text
}

// visible is a text without characters that have no sign of their own, such as marks of direction, and without those that choose the look of an emoji.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) && r != '\u200d' || r == 0 || r == '\ufe0f' || r >= '\U0001f3fb' && r <= '\U0001f3ff' {
			return -1
		}
		return r
	}, text)
}

// digits writes the decimal digits of all scripts as those of ASCII. The ten digits of a script follow one another in Unicode.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 || !unicode.Is(unicode.Nd, r) {
			return r
		}
		zero := r
		for unicode.Is(unicode.Nd, zero-1) && r-zero < 9 {
			zero--
		}
		return '0' + (r-zero)%10
	}, text)
}

func yesNo(text, language string) (yes, ok bool) {
	word := folded(text)
	for _, of := range []string{"en", language} {
		for i, list := range yesNoWords()[of] {
			if slices.Contains(list, word) {
				return i == 0, true
			}
		}
	}
	return false, false
}

// skips reports whether a text says that a question is left out.
func skips(text, locale string) bool {
	word := folded(text)
	return word == "-" || slices.Contains(skipWords()["en"], word) || slices.Contains(skipWords()[base(locale)], word)
}

// number reads a number as people write it: 7, 7.5, 7,5, ٧٫٥, 1,234.5, 1.234,5, 1 234, "7 km", "seven". Where one mark could be either, as in 1,234, the language decides.
func number(text, language string) (float64, bool) {
	word := folded(text)
	for _, of := range []string{"en", language} {
		if n := slices.Index(numberWords()[of], word); n >= 0 {
			return float64(n), true
		}
	}
	text = strings.NewReplacer("٫", ".", "٬", "", "’", "", "'", "", "−", "-", "%", " ").Replace(digits(text))
	if language == "ar" {
		text = strings.ReplaceAll(text, "،", ",")
	}
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("+-0123456789., ", r) })
	switch {
	case end == 0:
		return 0, false
	case end > 0:
		if unit := strings.TrimSpace(text[end:]); strings.ContainsFunc(unit, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsDigit(r) }) {
			return 0, false // more than a unit
		}
		text = text[:end]
	}
	text = strings.TrimRight(strings.TrimSpace(text), ".,!")
	n, err := strconv.ParseFloat(plain(text, language), 64)
	return n, err == nil
}

// plain writes a number without marks between thousands, and with a point before its decimals.
func plain(text, language string) string {
	groups := strings.Fields(text)
	if len(groups) > 1 && slices.ContainsFunc(groups[1:], func(g string) bool {
		return len(strings.FieldsFunc(g, notDigit)) == 0 || len(strings.FieldsFunc(g, notDigit)[0]) != 3
	}) {
		return "" // two numbers
	}
	text = strings.Join(groups, "")
	point, comma := strings.LastIndexByte(text, '.'), strings.LastIndexByte(text, ',')
	mark := byte('.') // before the decimals
	switch {
	case point >= 0 && comma >= 0:
		if comma > point {
			mark = ','
		}
	case strings.Count(text, ",") > 1:
	case strings.Count(text, ".") > 1:
		mark = ','
	case comma >= 0:
		if !thousands(text, comma) || slices.Contains(commaBeforeDecimals(), language) {
			mark = ','
		}
	case point >= 0:
		if thousands(text, point) && slices.Contains(commaBeforeDecimals(), language) {
			mark = ','
		}
	}
	between := ","
	if mark == ',' {
		between = "."
	}
	return strings.Replace(strings.ReplaceAll(text, between, ""), string(mark), ".", 1)
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// thousands reports whether the mark at a place could stand between thousands: three digits follow, and one to three stand before it that do not begin with 0.
func thousands(text string, at int) bool {
	before := strings.TrimLeft(text[:at], "+-")
	return len(text)-at == 4 && len(before) >= 1 && len(before) <= 3 && before[0] != '0'
}
