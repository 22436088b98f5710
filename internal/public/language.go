package public

import (
	"strings"

	"golang.org/x/text/language"

	"github.com/carillonhq/carillon/internal/message"
)

// longestAccept bounds how much of a browser's list of languages is read, in bytes.
const longestAccept = 512

// languages are those of the page's own texts.
type languages struct {
	words   []*words // the first is English
	matcher language.Matcher
}

func newLanguages() languages {
	l := languages{words: table()}
	var tags []language.Tag
	for _, w := range l.words {
		tags = append(tags, language.MustParse(w.Locale))
	}
	l.matcher = language.NewMatcher(tags)
	return l
}

// choose returns the page's own texts: in the person's language, else in the first of the browser's that there is, else in English.
func (l languages) choose(locale, accept string) *words {
	var wanted []language.Tag
	if tag, err := language.Parse(locale); err == nil && tag != language.Und {
		wanted = append(wanted, tag)
	}
	if len(accept) > longestAccept {
		accept = accept[:strings.LastIndexByte(accept[:longestAccept], ',')+1]
	}
	if browser, _, err := language.ParseAcceptLanguage(strings.TrimSuffix(accept, ",")); err == nil {
		wanted = append(wanted, browser...)
	}
	for _, tag := range wanted {
		if _, i, sure := l.matcher.Match(tag); sure >= language.High {
			return l.words[i]
		}
	}
	return l.words[0]
}

// spoken is the language of a locale as HTML names it, and the direction of its script. A locale that names none has no language.
func spoken(locale string) (lang, dir string) { return message.Spoken(locale) }

func sameLanguage(a, b string) bool {
	base := func(tag string) string { first, _, _ := strings.Cut(tag, "-"); return first }
	return base(a) == base(b)
}
