package survey

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// base returns the language of a locale. Norwegian and Filipino have two codes each.
func base(locale string) string {
	language, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(locale), "_", "-"), "-")
	switch language {
	case "no", "nn":
		return "nb"
	case "tl":
		return "fil"
	}
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

// silent reports whether a text has nothing that says something: it is empty, or consists of blanks, marks of direction, or signs that only change the one before them.
func silent(text string) bool {
	return !strings.ContainsFunc(visible(text), func(r rune) bool { return !unicode.In(r, unicode.White_Space, unicode.Cc, unicode.Cf, unicode.M) })
}

// written is a text as somebody wrote it, without the blanks and the unpaired marks of direction around it, and without U+0000, which databases do not take.
func written(text string) string {
	return strings.TrimFunc(strings.ReplaceAll(text, "\x00", ""), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\u200b\u200e\u200f\u061c\ufeff", r)
	})
}

// visible is a text without characters that have no sign of their own, such as marks of direction, and without those that choose the look of an emoji.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r) && r != '\u200d', r == 0, unicode.Is(unicode.Variation_Selector, r), r >= '\U0001f3fb' && r <= '\U0001f3ff':
			return -1
		case strings.ContainsRune("\u20e3\u034f\u2800\u3164\u115f\u1160\uffa0", r): // the frame of a key, and letters without a sign
			return -1
		}
		return r
	}, text)
}

// folded is a text without case, without marks and emoji around it, and with the digits of ASCII. A text of emoji alone keeps them. Apostrophes are those of ASCII.
// Arabic letters have no vowels, and one form where people write several.
func folded(text string) string {
	text = cases.Fold().String(norm.NFKC.String(visible(text)))
	text = digits(letters(text))
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) && r != '-' })
	if word := strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsPunct(r) && r != '-' || unicode.Is(unicode.So, r)
	}); word != "" {
		return word
	}
	return text
}

// letters writes letters in one way that people write in several.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '’', '‘', 'ʼ', 'ʻ', '′', '`', '´':
			return '\''
		case 'أ', 'إ', 'آ', 'ٱ':
			return 'ا'
		case 'ى', 'ی':
			return 'ي'
		case 'ک':
			return 'ك'
		case 'ہ', 'ۀ':
			return 'ه'
		case 'ـ': // it makes a word longer
			return -1
		}
		if r >= 'ً' && r <= 'ٟ' || r == 'ٰ' { // vowels, and other marks above and below letters
			return -1
		}
		return r
	}, text)
}

// digits writes the decimal digits of all scripts as those of ASCII.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		if d, ok := digit(r); ok {
			return d
		}
		return r
	}, text)
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// yesNo returns the answer of a word in a language or in English. A word that a language has for something else is none, as no in Polish.
func yesNo(text, language string) (yes, ok bool) {
	word := folded(text)
	own, english := yesNoWords()[language], yesNoWords()["en"]
	switch {
	case slices.Contains(own.unclear, word):
		return false, false
	case slices.Contains(own.yes, word):
		return true, true
	case slices.Contains(own.no, word):
		return false, true
	}
	yes = slices.Contains(english.yes, word)
	return yes, yes || slices.Contains(english.no, word)
}

// Skips reports whether a reply says that a question is left out.
func Skips(text, locale string) bool {
	word := folded(text)
	return word == "-" || slices.Contains(skipWords()["en"], word) || slices.Contains(skipWords()[base(locale)], word)
}
