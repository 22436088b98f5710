package topic

import (
	"maps"
	"slices"
	"strings"
)

// Terms of the index. A term begins with its kind, so that a tag is never taken for a link, and its name ends before a byte that no name has.
const (
	termTag     = "t"
	termLink    = "l"
	termField   = "f"
	termContent = "c"
	// TermAny is the term of rules that no term narrows. Every item has it.
	TermAny = "*"
)

const separator = "\x1f"

func term(kind, name, value string) string {
	return kind + name + separator + value
}

// CheckText returns what is wrong with a name or a value of a rule or an item; empty: nothing is.
func CheckText(s string) string {
	const long = 200 // bytes; indexed
	switch {
	case len(s) > long:
		return "is longer than 200 bytes"
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\x7f' }):
		return "holds a control character"
	}
	return ""
}

// Filed returns the terms under which a topic is filed: an item that one of the rules fits has at least one of these terms. A rule is filed under
// as few terms as possible, and under one that fewer items have where that is known: a content id before a link, a link before a tag, a tag before a field.
func Filed(rules []Rule) []string {
	var terms []string
	for _, r := range rules {
		terms = append(terms, r.Normal().filed()...)
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

func (r Rule) filed() []string {
	if r.ContentID != "" {
		return []string{term(termContent, "", r.ContentID)}
	}
	var best []string
	better := func(terms []string) {
		if best == nil || len(terms) < len(best) {
			best = terms
		}
	}
	for _, by := range []struct {
		kind   string
		values map[string]Values
	}{{termLink, r.Links}, {termTag, r.Tags}} {
		for _, name := range slices.Sorted(maps.Keys(by.values)) {
			switch v := by.values[name]; {
			case len(v.All) > 0:
				better([]string{term(by.kind, name, v.All[0])})
			case len(v.Any) > 0:
				terms := make([]string, len(v.Any))
				for i, value := range v.Any {
					terms[i] = term(by.kind, name, value)
				}
				better(terms)
			}
		}
	}
	if best != nil {
		return best
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		return []string{term(termField, name, r.Fields[name])}
	}
	return []string{TermAny}
}

// Terms returns the terms of an item, each once: none, if it chooses its topics itself.
func (i Item) Terms() []string {
	if i.To != nil {
		return nil
	}
	terms := []string{TermAny}
	if i.ContentID != "" {
		terms = append(terms, term(termContent, "", i.ContentID))
	}
	add := func(kind string, by map[string][]string) {
		for name, values := range by {
			for _, value := range values {
				terms = append(terms, term(kind, name, value))
			}
		}
	}
	add(termTag, i.Tags)
	add(termLink, i.Links)
	for name, value := range i.Fields {
		terms = append(terms, term(termField, name, value))
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}
