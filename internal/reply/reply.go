// Package reply decides what a message is that somebody writes back: a keyword by which people stop and start what they get, or a text.
//
//	"Stop."     ─▶ stop
//	"إيقاف"     ─▶ stop
//	"stop it"   ─▶ a text
//
// A keyword stands alone: a message that says more is a text, even if it begins with one.
package reply

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// Keyword is what a person asks for with one word.
type Keyword string

// The keywords.
const (
	Stop  Keyword = "stop"  // nothing more on this kind of channel
	Start Keyword = "start" // messages again
	Help  Keyword = "help"  // what this is, and how to stop it
)

// Keywords returns all keywords.
func Keywords() []Keyword { return []Keyword{Stop, Start, Help} }

// Words are the words for each keyword.
type Words map[Keyword][]string

// words are the words of languages. Those of English are what carriers and vendors ask for (CTIA, Messaging Principles and Best Practices, 5.1.3), without "yes", which
// answers questions.
var words = map[string]Words{ //nolint:gochecknoglobals // never changes
	"en": {
		Stop:  {"stop", "stopall", "stop all", "unsubscribe", "cancel", "end", "quit", "optout", "opt out", "opt-out", "revoke"},
		Start: {"start", "unstop", "subscribe", "optin", "opt in", "opt-in"},
		Help:  {"help", "info"},
	},
	"de": {Stop: {"stopp", "abmelden", "abbestellen", "beenden"}, Start: {"anmelden", "starten"}, Help: {"hilfe"}},
	"ar": {Stop: {"إيقاف", "ايقاف", "توقف", "قف", "إلغاء", "الغاء"}, Start: {"ابدأ", "ابدا", "بدء", "اشتراك"}, Help: {"مساعدة", "مساعده"}},
	"fr": {Stop: {"arret", "arrêt", "arreter", "arrêter", "desabonner", "désabonner"}, Start: {"debut", "début", "commencer"}, Help: {"aide"}},
	"es": {Stop: {"alto", "parar", "baja", "cancelar"}, Start: {"comenzar", "iniciar", "alta"}, Help: {"ayuda"}},
	"pt": {Stop: {"parar", "pare", "sair", "cancelar"}, Start: {"iniciar", "começar", "comecar"}, Help: {"ajuda"}},
	"sw": {Stop: {"acha", "simama", "ondoa"}, Start: {"anza"}, Help: {"msaada"}},
}

// Find returns the keyword that a message is; empty: it is a text. It knows the words of English and those of a language; own replaces these for the keywords
// that it has.
func Find(text, locale string, own Words) Keyword {
	said := plain(text)
	if said == "" {
		return ""
	}
	tag := language.Make(locale)
	base, _ := tag.Base()
	for _, k := range Keywords() {
		list := own[k]
		if len(list) == 0 {
			list = slices.Concat(words["en"][k], words[base.String()][k])
		}
		if slices.ContainsFunc(list, func(word string) bool { return plain(word) == said }) {
			return k
		}
	}
	return ""
}

// Stopped returns what is said to somebody who asked to stop, in the language of their locale, else in English, and which language that is. START works in all of them.
func Stopped(locale string) (text, lang string) {
	base, _ := language.Make(locale).Base()
	lang = base.String()
	if _, ok := stopped[lang]; !ok {
		lang = "en"
	}
	return stopped[lang], lang
}

var stopped = map[string]string{ //nolint:gochecknoglobals // never changes
	"en": "You have asked us to stop. We will not write again. Reply START to get messages again.",
	"ar": "لقد طلبت منا التوقف. لن نراسلك مرة أخرى. أرسل START لتلقي الرسائل من جديد.",
	"de": "Sie haben sich abgemeldet. Wir schreiben Ihnen nicht mehr. Mit START erhalten Sie wieder Nachrichten.",
	"es": "Nos ha pedido que paremos. No volveremos a escribirle. Responda START para recibir mensajes de nuevo.",
	"fr": "Vous nous avez demandé d'arrêter. Nous ne vous écrirons plus. Répondez START pour recevoir à nouveau des messages.",
	"pt": "Pediu-nos para parar. Não voltaremos a escrever-lhe. Responda START para voltar a receber mensagens.",
	"sw": "Umetuomba tuache. Hatutakuandikia tena. Jibu START ili upate ujumbe tena.",
}

// Has reports whether a text is one of the words.
func (w Words) Has(text string) bool {
	for _, list := range w {
		if slices.ContainsFunc(list, func(word string) bool { return plain(word) == plain(text) }) {
			return true
		}
	}
	return false
}

// spelled is a word whose letters have points between them: s.t.o.p.
var spelled = regexp.MustCompile(`^\P{L}*\p{L}(\.\p{L})+\P{L}*$`)

// plain is a text without case, marks around it, emoji and invisible characters, its words parted by one blank. Arabic signs that people
// may leave out are dropped, except those of an ending: ابداً, never, is not ابدا, begin.
func plain(text string) string {
	text = cases.Fold().String(norm.NFKC.String(text))
	if spelled.MatchString(text) {
		text = strings.ReplaceAll(text, ".", "")
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\u0640', r >= '\u064e' && r <= '\u0652', r == '\u0670': // tatweel, which makes a word longer, vowels, and the doubling of a letter
			return -1
		case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsDigit(r), r == '-':
			return r
		case unicode.Is(unicode.Cf, r): // such as the marks of direction that telephones put around a text
			return -1
		}
		return ' '
	}, text)
	return strings.Trim(strings.Join(strings.Fields(text), " "), "-")
}

// Blank reports whether nothing is left of a word, so that no message is it.
func Blank(word string) bool { return plain(word) == "" }
