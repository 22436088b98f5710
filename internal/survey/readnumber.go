package survey

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	cldr "golang.org/x/text/number"
)

// number reads a number as people write it: 7, 7.5, 7,5, ٧٫٥, 1,234.5, 1.234,5, 12,34,567, 1'234, "7 km", "seven". Where one mark could be either, as in 1,234, the language
// decides. What could be a date, two numbers or a multiple of a number is none: 14.5.2026, 140 100, "3 million".
func number(text, locale string) (float64, bool) {
	word := folded(text)
	for _, of := range []string{"en", base(locale)} {
		if n := slices.Index(numberWords()[of], word); n >= 0 {
			return float64(n), true
		}
	}
	text = strings.TrimLeftFunc(digits(ascii(text)), func(r rune) bool { return around(r) || strings.ContainsRune(`([{"'«“„%`, r) })
	text = strings.TrimRightFunc(text, func(r rune) bool { return around(r) || strings.ContainsRune(`.,!?;:)]}"'»”…%`, r) })
	sign := ""
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		sign, text = text[:1], text[1:]
	}
	groups, marks, rest := numerals(text)
	if len(groups) == 0 || !unit(strings.TrimSpace(rest)) {
		return 0, false
	}
	plain, ok := plainNumber(groups, marks, locale)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(sign+plain, 64)
	return n, err == nil
}

func around(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.So, r) }

// ascii writes the marks of numbers in one way. Digits that are raised or in a circle stay what they are.
func ascii(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～': // the wide forms of East Asia
			return r - '！' + '!'
		case strings.ContainsRune("’‘ʼ′", r):
			return '\''
		case r == '−':
			return '-'
		case r == '،':
			return ','
		case r != '\n' && unicode.IsSpace(r):
			return ' '
		}
		return r
	}, text)
}

// The marks of Arabic, which have one meaning each.
const (
	arabicDecimals  = '٫'
	arabicThousands = '٬'
)

// numerals splits a text into the digits at its beginning, the marks between these, and the rest. The first digits are empty in .5.
func numerals(text string) (groups []string, marks []rune, rest string) {
	runes := []rune(text)
	at := 0
	for {
		from := at
		for at < len(runes) && !notDigit(runes[at]) {
			at++
		}
		groups = append(groups, string(runes[from:at]))
		if at+1 >= len(runes) || !strings.ContainsRune(".,' ٫٬", runes[at]) || notDigit(runes[at+1]) {
			break
		}
		marks = append(marks, runes[at])
		at++
	}
	if len(groups) == 1 && groups[0] == "" {
		return nil, nil, text
	}
	return groups, marks, string(runes[at:])
}

func isDecimal(mark rune) bool { return mark == '.' || mark == ',' || mark == arabicDecimals }

// plainNumber writes digits with marks between them without marks between thousands, and with a point before the decimals.
func plainNumber(groups []string, marks []rune, locale string) (string, bool) {
	if len(marks) == 0 {
		return groups[0], true
	}
	end := len(marks) - 1
	last := marks[end]
	decimals := isDecimal(last) && !slices.Contains(marks[:end], last)
	if decimals && end == 0 && last != arabicDecimals && inThousands(groups, ' ') {
		decimal, thousands := numberMarks(locale)
		if last != decimal && last != thousands {
			return "", false
		}
		decimals = last == decimal
	}
	whole, fraction := groups, ""
	if decimals {
		whole, fraction, marks = groups[:len(groups)-1], "."+groups[len(groups)-1], marks[:end]
	}
	if len(marks) > 0 {
		mark := marks[0]
		if mark == arabicDecimals || slices.ContainsFunc(marks, func(m rune) bool { return m != mark }) || !inThousands(whole, mark) {
			return "", false
		}
		if _, thousands := numberMarks(locale); mark == ' ' && thousands != ' ' {
			return "", false // two numbers, such as a blood pressure
		}
	}
	return strings.Join(whole, "") + fraction, true
}

// inThousands reports whether groups of digits are those of one number: three digits each, except in the first. With commas they may be those of India: 12,34,567.
func inThousands(groups []string, mark rune) bool {
	first, end := groups[0], len(groups)-1
	if first == "" || first[0] == '0' || len(first) > 3 || len(groups[end]) != 3 {
		return false
	}
	between := func(size int) bool {
		return !slices.ContainsFunc(groups[1:end], func(g string) bool { return len(g) != size })
	}
	return between(3) || mark == ',' && len(first) < 3 && between(2)
}

// numberMarks returns the marks before decimals and between thousands of a language, as the Unicode locale data has them. Those of Arabic script are written with their
// own signs, so that a point and a comma mean what they mean in English.
func numberMarks(locale string) (decimal, thousands rune) {
	if base(locale) == "nb" {
		locale = "nb"
	}
	shown := message.NewPrinter(language.Make(locale)).Sprint(cldr.Decimal(1234567.5))
	for _, r := range ascii(digits(shown)) {
		switch {
		case !notDigit(r):
		case thousands == 0:
			thousands = r
		default:
			decimal = r
		}
	}
	if decimal == arabicDecimals {
		return '.', ','
	}
	return decimal, thousands
}

// unit reports whether a text behind a number is what is counted or measured, such as km, €, °C or days: one word without digits that multiplies nothing.
func unit(text string) bool {
	if text == "" {
		return true
	}
	first := []rune(text)[0]
	if !unicode.IsLetter(first) && !unicode.In(first, unicode.Sc, unicode.So) && first != '%' && first != '‰' {
		return false
	}
	if strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsNumber(r) && r != '²' && r != '³'
	}) {
		return false
	}
	word := folded(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Sc, r) { // k€
			return -1
		}
		return r
	}, text))
	return !slices.Contains(multiplierWords(), word) && !slices.ContainsFunc(multiplierBeginnings(), func(b string) bool { return strings.HasPrefix(text, b) })
}
