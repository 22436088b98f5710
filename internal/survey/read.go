package survey

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/message"
)

// Said is an answer in somebody's own words.
type Said struct {
	Text   string
	Locale string     // of the person, such as de-AT; empty: not known
	Today  civil.Date // where the person is
	// Vars and Zone are those that the question was rendered with. An option whose text cannot be rendered with them is chosen by its number or its value only.
	Vars map[string]any
	Zone *time.Location
}

// Read returns the answer that a person means. Options are chosen by their numbers, texts or values, several of them parted by commas, blanks or a word such as and.
// Yes and no are understood in the person's language and in English, and as 1 and 2, numbers with the digits and the marks of the language, dates as 2026-05-14 and as
// people write them. The answer is checked like one on a page. A word such as skip is nil without a problem: whether the question may be left out is not decided here.
// A text that says nothing is a problem, and no way to leave a question out.
func (q *Question) Read(said Said) (any, *Problem) {
	if silent(said.Text) {
		return nil, &Problem{Code: Missing}
	}
	text, choices := strings.TrimSpace(visible(said.Text)), q.choices(said)
	if Skips(text, said.Locale) && choices.named(text) < 0 && (q.Type != FreeText || !q.Required) {
		return nil, nil //nolint:nilnil // left out
	}
	switch q.Type {
	case FreeText:
		return q.take(written(said.Text))
	case Choice:
		if i := choices.named(text); i >= 0 {
			return q.take(q.Options[i].Value)
		}
		return nil, &Problem{Code: NotAnOption}
	case Multiple:
		chosen, ok := choices.severalNamed(norm.NFKC.String(text))
		if !ok {
			return nil, &Problem{Code: NotAnOption}
		}
		values := make([]any, len(chosen))
		for k, i := range chosen {
			values[k] = q.Options[i].Value
		}
		return q.take(values)
	case Number, Rating:
		if n, ok := number(text, said.Locale); ok {
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

// Named returns the place of the option that a reply names, by its literal texts in a locale; -1: none.
func (q *Question) Named(text, locale string) int {
	return q.choices(Said{Locale: locale}).named(text)
}

// choice is an option as replies are compared with it; its texts are folded. An empty text is none.
type choice struct {
	shown string   // its text in the language of the person
	texts []string // its texts in all languages
	value string
}

type choices []choice

// choices returns the options of a question, their texts as the person has read them.
func (q *Question) choices(said Said) choices {
	all := make(choices, len(q.Options))
	render := func(locale string, t *message.Template) string {
		text, err := t.RenderFor(message.Reader{Locale: locale, Zone: said.Zone}, said.Vars, message.Limits{})
		if err != nil {
			return "" // it reads a variable that the caller has not
		}
		return folded(text)
	}
	for i, o := range q.Options {
		c := choice{value: folded(o.Value)}
		if t, locale, ok := o.Text.Pick(said.Locale); ok {
			c.shown = render(locale, t)
		}
		o.Text.Templates(func(locale string, t *message.Template) { c.texts = append(c.texts, render(locale, t)) })
		all[i] = c
	}
	return all
}

// asShown is an option with its number, as the message shows it: 1. none.
var asShown = regexp.MustCompile(`^\(?([0-9]{1,4})(\s*[.:)\-–—]+\s*|\s+)(.+)$`)

// named returns the place of the option that a text names; -1: none. The numbers that the message shows go before texts, and texts before values, which nobody has seen.
// A text of two options names neither.
func (c choices) named(text string) int {
	word := folded(text)
	if word == "" {
		return -1
	}
	if i := c.numbered(word); i >= 0 {
		return i
	}
	for _, is := range []func(choice) bool{
		func(o choice) bool { return o.shown == word },
		func(o choice) bool { return slices.Contains(o.texts, word) },
		func(o choice) bool { return o.value == word },
	} {
		if i := slices.IndexFunc(c, is); i >= 0 {
			if slices.ContainsFunc(c[i+1:], is) {
				return -1
			}
			return i
		}
	}
	if m := asShown.FindStringSubmatch(word); m != nil {
		i, rest := c.numbered(m[1]), folded(m[3])
		if i >= 0 && rest != "" && slices.Contains(c[i].texts, rest) && (strings.TrimSpace(m[2]) != "" || c.numbered(rest) < 0) {
			return i
		}
	}
	return -1
}

// numbered returns the place of the option of a number in ASCII digits; -1: none.
func (c choices) numbered(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil || strings.ContainsFunc(word, notDigit) || n < 1 || n > len(c) {
		return -1
	}
	return n - 1
}

// severalNamed returns the places of the options that a text names; ok is false if a part of it names none.
func (c choices) severalNamed(text string) (chosen []int, ok bool) {
	if i := c.named(text); i >= 0 {
		return []int{i}, true
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(",;،؛、+&/\n", r) }) {
		if folded(part) == "" {
			continue
		}
		if i := c.named(part); i >= 0 { // its text may have a word such as and
			chosen = append(chosen, i)
			continue
		}
		words, from := strings.Fields(part), 0
		for at := range len(words) + 1 {
			if at < len(words) && (!joins(words[at]) || c.named(words[at]) >= 0) {
				continue
			}
			some, ok := c.listed(words[from:at], len(chosen) > 0)
			if !ok {
				return nil, false
			}
			chosen, from = append(chosen, some...), at+1
		}
	}
	return chosen, len(chosen) > 0
}

// listed returns the places of the options that words name: one, or several with blanks between them. follows says that other options stand before.
func (c choices) listed(words []string, follows bool) (chosen []int, ok bool) {
	if i := c.named(strings.Join(words, " ")); i >= 0 {
		return []int{i}, true
	}
	for _, word := range words {
		some := []int{c.named(word)}
		if some[0] < 0 {
			if some, ok = c.unspaced(folded(word), follows || len(chosen) > 0); !ok {
				return nil, false
			}
		}
		chosen = append(chosen, some...)
	}
	return chosen, len(chosen) > 0
}

// unspaced returns the options of numbers that have a word such as and between them, but no blanks: 1和2. In Arabic the word is a part of what follows: ١ و٢.
func (c choices) unspaced(word string, follows bool) (chosen []int, ok bool) {
	between := strings.FieldsFunc(word, func(r rune) bool { return !notDigit(r) })
	numbers := strings.FieldsFunc(word, notDigit)
	ends := word != "" && !notDigit(rune(word[len(word)-1]))
	if !ends || len(between) == 0 || notDigit(rune(word[0])) && !follows {
		return nil, false
	}
	for _, n := range numbers {
		chosen = append(chosen, c.numbered(n))
	}
	return chosen, !slices.Contains(chosen, -1) && !slices.ContainsFunc(between, func(b string) bool { return !joins(b) })
}

// joins reports whether a word stands between the last two of several things.
func joins(word string) bool { return slices.Contains(andWords(), folded(word)) }
