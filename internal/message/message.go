// Package message renders the texts that leave: Liquid templates in several locales.
//
// It is not the mailer: it knows no channels, only texts and the values they name, and what may stand in an email
// address or in a header.
//
// Invariants (reliability 39):
//   - A template reaches the values that it is given and nothing else: no methods, files, hosts, environment or
//     clock. Values are JSON values and times; anything else is refused rather than looked into.
//   - In HTML and in Markdown every value is escaped unless it passes through `raw`.
//   - Output, loop turns, nesting and the work of filters are bounded (Limits); neither Parse nor Render panics.
//   - A variable that nobody gave is an error, one that is null renders as nothing.
//   - A Template is parsed once and may be rendered by many goroutines at once.
package message

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/reason"
)

// Format says how values are written into a text.
type Format int

// The formats.
const (
	Plain    Format = iota // as they are
	HTML                   // escaped
	Markdown               // escaped; the text becomes HTML when it is rendered
)

// Limits bound one rendering. A zero field means its default.
type Limits struct {
	MaxOutput int // bytes of the result
	MaxTurns  int // turns of all loops together
	MaxDepth  int // levels of a list within a list that are written out
}

// The defaults.
const (
	DefaultMaxOutput = 256 << 10 // four times the longest newsletter that mail programs show whole
	DefaultMaxTurns  = 10_000    // a digest of 100 items in 100 topics
	DefaultMaxDepth  = 32        // as deep as JSON is accepted at the door
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

// Error says why a text is no template, and where. Line and Column count from 1, columns in bytes.
type Error struct {
	Message string
	Hint    string
	Line    int
	Column  int
}

func (e *Error) Error() string { return e.Message }

// RenderError says why a template has no text for these values.
type RenderError struct {
	Reason reason.Reason // cannot_render or output_too_large
	Detail string        // for the log and the author: never a value
	Line   int           // where in the template, from 1
}

func (e *RenderError) Error() string { return e.Detail }

// Content is a rendered message.
type Content struct {
	Locale  string // the locale whose texts were used; "" when the text has none
	Subject string
	Text    string
	HTML    string
}

// Text is a template, or one for every locale. The zero Text says nothing.
type Text struct {
	one *Template
	by  map[string]*Template
}

// One is a text without locales.
func One(t *Template) Text { return Text{one: t} }

// Localized is a text in several locales, such as en, sw or ar-IQ. The map must not be changed afterwards.
func Localized(by map[string]*Template) Text { return Text{by: by} }

// IsZero reports whether there is no text in any locale.
func (t Text) IsZero() bool { return t.one == nil && len(t.by) == 0 }

// As is the same text in another format.
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

// Pick returns the template for the first of the locales that has one: exactly, else by its language (ar-IQ takes
// ar), else in a sister of that language (en takes en-GB). Without any it is the first locale in alphabetical order.
// A blank text counts as missing. ok is false when every text is blank.
//
// The caller gives the locales in the order recipient, workflow, workspace; empty ones are passed over.
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

// Templates calls yield for every template in the order of the locales.
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

// match finds want among the sorted locales given.
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

// canonical lets en_GB and en-gb be one locale.
func canonical(locale string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSpace(locale), "_", "-"))
}

// parent drops the last part of a locale: zh-hant-tw, zh-hant, zh.
func parent(locale string) string {
	i := strings.LastIndexByte(locale, '-')
	return locale[:max(i, 0)]
}

func language(locale string) string {
	lang, _, _ := strings.Cut(canonical(locale), "-")
	return lang
}
