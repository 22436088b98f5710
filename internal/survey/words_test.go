package survey

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/carillonhq/carillon/internal/reply"
)

// Replies are folded before they are compared with the words.
func TestWordsAreFolded(t *testing.T) {
	t.Parallel()
	all := slices.Concat(andWords(), multiplierWords())
	for _, a := range yesNoWords() {
		all = slices.Concat(all, a.yes, a.no, a.unclear)
	}
	for _, lists := range []map[string][]string{skipWords(), numberWords(), dayWords()} {
		for _, list := range lists {
			all = append(all, list...)
		}
	}
	for _, names := range monthWords() {
		all = append(all, names[:]...)
	}
	for _, word := range all {
		if folded(word) != word {
			t.Errorf("%s is not found: write %s", word, folded(word))
		}
	}
}

// No word of a language has two meanings, and none is a keyword, which would never be heard as an answer.
func TestWordsHaveOneMeaning(t *testing.T) {
	t.Parallel()
	for tongue, own := range yesNoWords() {
		meanings := map[string]string{}
		is := func(meaning string, words []string) {
			for _, word := range words {
				if was, ok := meanings[word]; ok && was != meaning {
					t.Errorf("%s: %s is %s and %s", tongue, word, was, meaning)
				}
				meanings[word] = meaning
				if k := reply.Find(word, tongue, nil); k != "" {
					t.Errorf("%s: %s is the keyword %s", tongue, word, k)
				}
			}
		}
		en := yesNoWords()["en"]
		others := func(words []string) []string {
			return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(own.unclear, w) })
		}
		is("yes", slices.Concat(own.yes, others(en.yes)))
		is("no", slices.Concat(own.no, others(en.no)))
		is("unclear", own.unclear)
		is("skip", slices.Concat(skipWords()["en"], skipWords()[tongue]))
	}
	for _, word := range multiplierWords() {
		if !unit(word + "x") {
			t.Errorf("%s is no beginning of a unit", word)
		}
		if unit(word) {
			t.Errorf("%s is a unit", word)
		}
	}
}

// The page names the languages that have words.
func TestLanguagesAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "conversations.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(raw)), " ")
	list := func(languages []string) string {
		var names []string
		for _, l := range languages {
			if l != "en" {
				names = append(names, strings.Replace(display.English.Languages().Name(language.Make(l)), " Bokmål", "", 1))
			}
		}
		slices.Sort(names)
		end := len(names) - 1
		return strings.Join(names[:end], ", ") + " and " + names[end]
	}
	all := list(slices.Collect(maps.Keys(skipWords())))
	if want := "yes and no are known in " + list(slices.Collect(maps.Keys(yesNoWords()))) + "; those for numbers up to ten, days, months and `skip` in " + all + "."; !strings.Contains(page, want) {
		t.Errorf("the page does not say:\n%s", want)
	}
	for name, languages := range map[string][]string{
		"numbers": slices.Collect(maps.Keys(numberWords())), "days": slices.Collect(maps.Keys(dayWords())), "months": slices.Collect(maps.Keys(monthWords())),
	} {
		if got := list(languages); got != all {
			t.Errorf("%s have words in %s, and skip in %s", name, got, all)
		}
	}
}
