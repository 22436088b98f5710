package survey

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/carillonhq/carillon/internal/civil"
)

// date reads a date: 2026-05-14, 14.5.2026, 14/05/26, 14 May 2026, May 14, 2026, ١٤ مايو ٢٠٢٦, today. The month goes before the day in the United States. In English without a
// region, 5/6/2026 could be two dates, and is none.
func date(text string, said Said) (civil.Date, bool) {
	language, word := base(said.Locale), folded(text)
	for _, of := range []string{"en", language} {
		if n := slices.Index(dayWords()[of], word); n >= 0 {
			return said.Today.AddDays(n - 1), true
		}
	}
	if d, err := civil.ParseDate(word); err == nil {
		return d, true
	}
	parts := strings.FieldsFunc(word, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("./-,،", r) })
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "de" || p == "of" })
	if len(parts) != 3 {
		return civil.Date{}, false
	}
	var number [3]int
	month := -1 // the place of a month that has a name
	for i, part := range parts {
		if m := monthNamed(part, language); m > 0 && month < 0 {
			number[i], month = m, i
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimRight(part, "ºª"), ordinal(part)))
		if err != nil || n < 0 {
			return civil.Date{}, false
		}
		number[i] = n
	}
	switch {
	case month == 0: // May 14 2026
		return dateOf(number[2], number[0], number[1])
	case month == 1: // 14 May 2026
		return dateOf(number[2], number[1], number[0])
	case month == 2:
		return civil.Date{}, false
	case len(parts[0]) == 4: // 2026/5/14
		return dateOf(number[0], number[1], number[2])
	}
	first, second := number[0], number[1]
	switch {
	case region(said.Locale) == "US", language == "en" && region(said.Locale) == "" && first <= 12 && second > 12:
		return dateOf(number[2], first, second)
	case (language == "en" || language == "") && region(said.Locale) == "" && first <= 12 && second <= 12 && first != second && !strings.Contains(word, "."):
		return civil.Date{}, false
	}
	return dateOf(number[2], second, first)
}

// ordinal returns the letters after the number of a day in English.
func ordinal(part string) string {
	for _, end := range []string{"st", "nd", "rd", "th"} {
		if strings.HasSuffix(part, end) {
			return end
		}
	}
	return ""
}

// dateOf returns the date of a year, which may have two digits, a month and a day. ok is false if there is none.
func dateOf(year, month, day int) (civil.Date, bool) {
	switch {
	case year < 70:
		year += 2000
	case year < 100:
		year += 1900
	}
	pad := func(n, width int) string {
		s := strconv.Itoa(n)
		return strings.Repeat("0", max(width-len(s), 0)) + s
	}
	d, err := civil.ParseDate(pad(year, 4) + "-" + pad(month, 2) + "-" + pad(day, 2))
	return d, err == nil
}

// monthNamed returns the month of that name, or of its first three letters or more; 0: none.
func monthNamed(word, language string) int {
	word = bare(word)
	if len([]rune(word)) < 3 {
		return 0
	}
	for _, of := range []string{language, "en"} {
		for i, names := range monthWords()[of] {
			for name := range strings.SplitSeq(names, " ") {
				if strings.HasPrefix(bare(name), word) {
					return i + 1
				}
			}
		}
	}
	return 0
}

// bare is a word without marks on its letters.
func bare(word string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(word))
}
