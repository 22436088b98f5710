package loader

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// text reads a scalar as it is written; numbers keep their digits.
func (r *reader) text(n *portable.Node) (string, bool) {
	if n == nil || n.Kind == portable.Broken {
		return "", false
	}
	if n.Kind != portable.Scalar || n.IsNull() {
		hint := ""
		if n.Kind == portable.List {
			hint = "write one value"
		}
		r.wrong(n, "a text", hint)
		return "", false
	}
	if n.Text == "" {
		r.invalid(n.Pos, "this text is empty", "write a value, or remove the line")
		return "", false
	}
	return n.Text, true
}

func (r *reader) bool(n *portable.Node, byDefault bool) bool {
	if n == nil || n.Kind == portable.Broken {
		return byDefault
	}
	value, ok := n.Bool()
	if !ok {
		r.wrong(n, "true or false", withoutQuotes(n, n.Text == "true" || n.Text == "false"))
		return byDefault
	}
	return value
}

func (r *reader) number(n *portable.Node) *float64 {
	if n == nil || n.Kind == portable.Broken {
		return nil
	}
	if !n.IsNumber() {
		_, err := strconv.ParseFloat(n.Text, 64)
		r.wrong(n, "a number", withoutQuotes(n, err == nil))
		return nil
	}
	value, err := strconv.ParseFloat(n.Text, 64)
	if err != nil {
		r.invalid(n.Pos, "this number is too large", "")
		return nil
	}
	return &value
}

// withoutQuotes returns the hint for a value that would be right without its quotes.
func withoutQuotes(n *portable.Node, right bool) string {
	if right && n.Style == portable.Quoted {
		return "write " + n.Text + " without quotes"
	}
	return ""
}

// count reads a whole number from 1 to a million; 0 when it is missing or wrong.
func (r *reader) count(n *portable.Node) int { return r.countTo(n, 1_000_000) }

// countTo reads a whole number from 1 to most; 0 when it is missing or wrong.
func (r *reader) countTo(n *portable.Node, most int) int {
	const shown = 20 // digits of a number that a problem repeats
	if n == nil || n.Kind == portable.Broken {
		return 0
	}
	value, err := strconv.Atoi(n.Text)
	if err != nil || !n.IsNumber() || value < 1 || value > most {
		want := fmt.Sprintf("a whole number from 1 to %d", most)
		if n.IsNumber() && len(n.Text) <= shown {
			r.invalid(n.Pos, "this must be "+want+", and is "+n.Text, "")
		} else {
			r.wrong(n, want, withoutQuotes(n, err == nil))
		}
		return 0
	}
	return value
}

// word reads one of a fixed set of words.
func (r *reader) word(n *portable.Node, key, byDefault string, words []string) string {
	text, ok := r.text(n)
	switch {
	case !ok:
		return byDefault
	case slices.Contains(words, text):
		return text
	default:
		hint := suggest.DidYouMean(text, words)
		if hint == "" {
			hint = "it is " + alternatives(words)
		}
		r.invalid(n.Pos, fmt.Sprintf("%q is not a value of %s", text, key), hint)
	}
	return byDefault
}

// alternatives joins words for people: a, b or c.
func alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// items returns the entries of a list; a list of one may be written bare.
func (r *reader) items(n *portable.Node) []*portable.Node {
	switch {
	case n == nil || n.Kind == portable.Broken:
		return nil
	case n.Kind == portable.List:
		return n.Items
	}
	return []*portable.Node{n}
}

func isWordChar(c byte, more string) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(more, c) >= 0
}

func isMadeOf(s, more string) bool {
	const longest = 128
	if s == "" || len(s) > longest {
		return false
	}
	for i := range len(s) {
		if !isWordChar(s[i], more) {
			return false
		}
	}
	return true
}

// defName reads a name of letters, digits, - _ : and a dot.
func (r *reader) defName(n *portable.Node) (string, bool) {
	text, ok := r.text(n)
	if ok && !isMadeOf(text, "-_:.") {
		hint := "a name has letters, digits, - _ : and dots"
		if joined := strings.Join(strings.Fields(text), "-"); isMadeOf(joined, "-_:.") {
			hint = "write " + joined
		}
		r.invalid(n.Pos, fmt.Sprintf("%q is not a name", text), hint)
		return "", false
	}
	return text, ok
}

// slug reads a name that becomes part of keys (docs/concepts/keys-and-dedup.md).
func (r *reader) slug(n *portable.Node) (string, bool) {
	text, ok := r.text(n)
	switch {
	case !ok:
		return "", false
	case key.Slug(text) != nil:
		hint := ""
		if joined := strings.Join(strings.Fields(text), "-"); key.Slug(joined) == nil {
			hint = "write " + joined
		}
		r.invalid(n.Pos, key.Slug(text).Error(), hint)
		return "", false
	}
	return text, true
}

// channelKey reads kind:name, or kind for kind:default.
func (r *reader) channelKey(n *portable.Node) (string, bool) {
	text, ok := r.text(n)
	if !ok {
		return "", false
	}
	kind, name, named := strings.Cut(text, ":")
	if !named {
		name = "default"
	}
	if !isMadeOf(kind, "-_.") || !isMadeOf(name, "-_.") {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a channel", text), "a channel is written email or sms:twilio")
		return "", false
	}
	return kind + ":" + name, true
}

// locale reads a language tag such as en or ar-IQ.
func (r *reader) locale(n *portable.Node) string {
	text, ok := r.text(n)
	if ok && !subject.ValidLocale(text) {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a locale", text), "a locale is written en or ar-IQ")
		return ""
	}
	return text
}

// duration reads a positive length of time.
func (r *reader) duration(n *portable.Node) (civil.Duration, bool) {
	text, ok := r.text(n)
	if !ok {
		return civil.Duration{}, false
	}
	d, err := civil.ParseDuration(text)
	if err != nil {
		r.refuse(n, err)
		return d, false
	}
	if d.IsZero() {
		r.invalid(n.Pos, fmt.Sprintf("%q is no time at all", text), "write one such as 5m")
		return d, false
	}
	return d, true
}

func (r *reader) durations(n *portable.Node) []civil.Duration {
	var all []civil.Duration
	for _, item := range r.items(n) {
		if d, ok := r.duration(item); ok {
			all = append(all, d)
		}
	}
	return all
}

// zone checks the name of a zone. It warns about abbreviations: some are in the tz database, but they differ from local clocks.
func (r *reader) zone(n *portable.Node) bool {
	place := civil.AbbreviatedZone(n.Text)
	switch _, err := civil.LoadZone(n.Text); {
	case err != nil:
		r.invalid(n.Pos, err.Error(), civil.ZoneHint(n.Text))
		return false
	case place != "" && !r.stored:
		r.warn(definition.CodeLint, n.Pos, n.Text+" is an abbreviation, and some of these never change their clocks", "write the zone of a place, such as "+place)
	}
	return true
}

// zoneName matches names of zones and common mistakes for them. An expression that gives a zone contains a dot.
var zoneName = regexp.MustCompile(`^[-+A-Za-z][-+:/ \w]*$`)

func isZoneName(text string) bool { return zoneName.MatchString(text) }

// pattern reads a regular expression.
func (r *reader) pattern(n *portable.Node) *regexp.Regexp {
	text, ok := r.text(n)
	if !ok {
		return nil
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		r.invalid(n.Pos, fmt.Sprintf("%q is not a regular expression", text), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return nil
	}
	return compiled
}

// sentence joins names for people: a, b and c.
func sentence(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
