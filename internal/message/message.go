// Package message renders the texts of messages: Liquid templates in several locales.
//
// It sends nothing and knows no channels. It knows texts, the values that they name, and the syntax of email addresses and
// headers.
//
// Invariants (reliability 39):
//   - A template can read the values that it is given and nothing else: no methods, files, hosts, environment or clock. Values
//     are JSON values and times; a value of another type is an error.
//   - In HTML and in Markdown every value is escaped unless it passes through `raw`.
//   - Output, loop turns, nesting and the work of filters are bounded (Limits). Neither Parse nor Render panics.
//   - A variable that is not given is an error. A variable that is null is written as an empty text.
//   - A Template is parsed once and may be rendered by many goroutines at the same time.
package message

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/reason"
)

// Format is how values are written into a text.
type Format int

// The values of Format.
const (
	Plain    Format = iota // unchanged
	HTML                   // escaped for HTML
	Markdown               // escaped for Markdown; the rendered text is converted to HTML
)

// Limits bound one rendering. A zero field means the default.
type Limits struct {
	MaxOutput int // bytes of the result
	MaxTurns  int // turns of all loops together
	MaxDepth  int // levels of lists within lists that are written
}

// The defaults of Limits.
const (
	DefaultMaxOutput = 256 << 10 // four times the longest newsletter that mail programs show whole
	DefaultMaxTurns  = 10_000    // a digest of 100 items in 100 topics
	DefaultMaxDepth  = 32        // the depth up to which the API accepts JSON
)

func (l Limits) withDefaults() Limits {
	if l.MaxOutput <= 0 {
		l.MaxOutput = DefaultMaxOutput
	}
	if l.MaxTurns <= 0 {
		l.MaxTurns = DefaultMaxTurns
	}
	if l.MaxDepth <= 0 {
		l.MaxDepth = DefaultMaxDepth
	}
	return l
}

// Error is the reason why a text is not a template, and its place. Line and Column count from 1, columns in bytes.
type Error struct {
	Message string
	Hint    string
	Line    int
	Column  int
}

func (e *Error) Error() string { return e.Message }

// RenderError is the reason why a template cannot be rendered for some values.
type RenderError struct {
	Reason reason.Reason // cannot_render or output_too_large
	Detail string        // for the log and the author; it never contains a value
	Line   int           // of the template, from 1
}

func (e *RenderError) Error() string { return e.Detail }

// Content is a rendered message.
type Content struct {
	Locale  string // the locale whose texts were used; empty if the texts name no locale
	Subject string
	Text    string
	HTML    string
}

// Text is a template, or one template for each locale. The zero Text has none.
type Text struct {
	one *Template
	by  map[string]*Template
}

// One returns a text without locales.
func One(t *Template) Text { return Text{one: t} }

// Localized returns a text in several locales, such as en, sw or ar-IQ. The map must not be changed afterwards.
func Localized(by map[string]*Template) Text { return Text{by: by} }

// IsZero reports whether there is no text in any locale.
func (t Text) IsZero() bool { return t.one == nil && len(t.by) == 0 }

// As returns the same text in another format.
func (t Text) As(format Format) Text {
	if t.one != nil {
		return One(t.one.as(format))
	}
	by := make(map[string]*Template, len(t.by))
	for l, tpl := range t.by {
		by[l] = tpl.as(format)
	}
	return Text{by: by}
}

// Pick returns the template for the first of the locales that has one: of that locale, else of its language (ar for ar-IQ), else of
// another locale of that language (en-GB for en). If none has one, Pick returns the first locale in alphabetical order. A blank
// text counts as missing. ok is false if every text is blank.
//
// The caller passes the locales in the order recipient, workflow, workspace; empty ones are ignored.
func (t Text) Pick(locales ...string) (picked *Template, locale string, ok bool) {
	if t.one != nil {
		return t.one, "", !t.one.Blank()
	}
	given := make([]string, 0, len(t.by))
	for l, tpl := range t.by {
		if tpl != nil && !tpl.Blank() {
			given = append(given, l)
		}
	}
	slices.Sort(given)
	for _, want := range locales {
		if l, ok := match(given, want); ok {
			return t.by[l], l, true
		}
	}
	if len(given) == 0 {
		return nil, "", false
	}
	return t.by[given[0]], given[0], true
}

// Templates calls yield for every template, in the order of the locales.
func (t Text) Templates(yield func(locale string, tpl *Template)) {
	if t.one != nil {
		yield("", t.one)
	}
	given := make([]string, 0, len(t.by))
	for l := range t.by {
		given = append(given, l)
	}
	slices.Sort(given)
	for _, l := range given {
		yield(l, t.by[l])
	}
}

// match finds the locale for want among the sorted locales in given.
func match(given []string, want string) (string, bool) {
	want = canonical(want)
	if want == "" {
		return "", false
	}
	for prefix := want; prefix != ""; prefix = parent(prefix) {
		for _, l := range given {
			if canonical(l) == prefix {
				return l, true
			}
		}
	}
	for _, l := range given {
		if language(l) == language(want) {
			return l, true
		}
	}
	return "", false
}

// canonical returns a locale in one form, so that en_GB and en-gb are equal.
func canonical(locale string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSpace(locale), "_", "-"))
}

// parent returns a locale without its last part: zh-hant for zh-hant-tw, zh for zh-hant.
func parent(locale string) string {
	i := strings.LastIndexByte(locale, '-')
	return locale[:max(i, 0)]
}

func language(locale string) string {
	lang, _, _ := strings.Cut(canonical(locale), "-")
	return lang
}
