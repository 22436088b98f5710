package survey

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/carillonhq/carillon/internal/civil"
)

// Years that people mean. Those of other calendars, such as 1447 or 2569, are outside.
const (
	firstYear = 1900
	lastYear  = 2199
)

// yearsAhead is how far in the future a year of two digits is at most; the other ones are past. So 62 is a year of birth, and 27 may be a year of an appointment.
const yearsAhead = 10

// date reads a date: 2026-05-14, 14.5.2026, 14/05/26, 14 May 2026, May 14, 2026, ١٤ مايو ٢٠٢٦, today. A text that could be two dates is none, such as 5/6/2026 in English
// without a region.
func date(text string, said Said) (civil.Date, bool) {
	language, word := base(said.Locale), folded(text)
	for _, of := range []string{"en", language} {
		if n := slices.Index(dayWords()[of], word); n >= 0 {
			return said.Today.AddDays(n - 1), true
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, unicode.No, unicode.Nl) }) {
		return civil.Date{}, false
	}
	parts := strings.FieldsFunc(word, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("./-,،", r) })
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "de" || p == "of" })
	if len(parts) != 3 {
		return civil.Date{}, false
	}
	month, named := 0, -1 // the place of a month that has a name
	for i, part := range parts {
		if m := monthNamed(part, language); m > 0 {
			month, named = m, i
		}
	}
	of := func(year, month, day int) (civil.Date, bool) {
		return dateOf(parts[year], wholeNumber(parts[month]), dayNumber(parts[day], language), said.Today)
	}
	switch {
	case named == 0: // May 14 2026
		return dateOf(parts[2], month, dayNumber(parts[1], language), said.Today)
	case named == 1: // 14 May 2026
		return dateOf(parts[2], month, dayNumber(parts[0], language), said.Today)
	case named == 2:
		return civil.Date{}, false
	case len(parts[0]) == 4: // 2026/5/14
		return of(0, 1, 2)
	}
	orders := dateOrders(said.Locale, len(parts[2]) == 2, word)
	var found []civil.Date
	for _, o := range orders {
		if d, ok := of(o[0], o[1], o[2]); ok && !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return civil.Date{}, false
	}
	return found[0], true
}

// order is the places of year, month and day in a date of three numbers.
type order [3]int

var (
	dayFirst   = order{2, 1, 0} //nolint:gochecknoglobals // never changes
	monthFirst = order{2, 0, 1} //nolint:gochecknoglobals // never changes
	yearFirst  = order{0, 1, 2} //nolint:gochecknoglobals // never changes
)

// dateOrders returns the orders in which people of a locale may have written a date of three numbers, of which the first is no year of four digits. The month goes first in
// the United States and the Philippines. English without a region may be of there, and Canada writes both. A point is put between the numbers where the day goes first.
func dateOrders(locale string, shortYear bool, text string) []order {
	language, in := base(locale), region(locale)
	american := slices.Contains([]string{"US", "PH", "AS", "GU", "MH", "MP", "PR", "UM", "VI"}, in)
	var all []order
	switch {
	case american && language == "en", language == "fil":
		all = []order{monthFirst}
	case strings.Contains(text, "."):
		all = []order{dayFirst}
	case american, language == "en" && (in == "" || in == "CA"), language == "", slices.Contains(yearFirstLanguages(), language):
		all = []order{dayFirst, monthFirst}
	default:
		all = []order{dayFirst}
	}
	if shortYear && (strings.Contains(text, "-") || in == "CA" || slices.Contains(yearFirstLanguages(), language)) {
		all = append(all, yearFirst) // 26-05-14
	}
	return all
}

// yearFirstLanguages are those whose dates of numbers begin with the year, so that the order of others is not known.
func yearFirstLanguages() []string { return []string{"hu", "ja", "ko", "lt", "zh"} }

// wholeNumber returns a number of ASCII digits; 0: it is none.
func wholeNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || strings.ContainsFunc(text, notDigit) {
		return 0
	}
	return n
}

// dayNumber returns the day of a month, which may have letters behind it: 14th, 1er, 1º.
func dayNumber(text, language string) int {
	ends := []string{"st", "nd", "rd", "th"}
	switch language {
	case "fr":
		ends = append(ends, "er")
	case "es", "pt", "it":
		ends = append(ends, "o", "a") // º and ª
	}
	for _, end := range ends {
		if number, ok := strings.CutSuffix(text, end); ok {
			return wholeNumber(number)
		}
	}
	return wholeNumber(text)
}

// dateOf returns the date of a year of four or two digits, a month and a day. ok is false if there is none.
func dateOf(year string, month, day int, today civil.Date) (civil.Date, bool) {
	y := wholeNumber(year)
	switch {
	case strings.ContainsFunc(year, notDigit):
		return civil.Date{}, false
	case len(year) == 2:
		last := today.Year + yearsAhead
		y = last - (last-y)%100
	case len(year) != 4:
		return civil.Date{}, false
	}
	if y < firstYear || y > lastYear || month > 12 || day > 31 {
		return civil.Date{}, false
	}
	pad := func(n int) string {
		if n < 10 {
			return "0" + strconv.Itoa(n)
		}
		return strconv.Itoa(n)
	}
	d, err := civil.ParseDate(strconv.Itoa(y) + "-" + pad(month) + "-" + pad(day))
	return d, err == nil
}

// monthNamed returns the month of that name, or of its first three letters or more; 0: none, or more than one, as jui in French.
func monthNamed(word, language string) int {
	word = bare(word)
	short := len([]rune(word)) < 3
	for _, of := range []string{language, "en"} {
		var begun []int
		for i, names := range monthWords()[of] {
			for name := range strings.SplitSeq(names, " ") {
				switch name = bare(name); {
				case name == word:
					return i + 1
				case !short && strings.HasPrefix(name, word) && !slices.Contains(begun, i+1):
					begun = append(begun, i+1)
				}
			}
		}
		switch {
		case len(begun) == 1:
			return begun[0]
		case len(begun) > 1:
			return 0
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
