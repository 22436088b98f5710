package topic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FieldTo chooses the topics of an item by what their rules name, in place of their rules.
const FieldTo = "to"

// The keys of a choice.
const (
	keyAnyOf = "any_of"
	keyAllOf = "all_of"
	keyTag   = "tag"
	keyLink  = "link"
	keyValue = "value"
	keyTopic = "topic"
)

// Terms under which a topic is filed by each value that its rules name. No item has them.
const (
	termNamedTag  = "T"
	termNamedLink = "L"
)

// mostChoices bounds the parts of a choice.
const mostChoices = 200

// Choice chooses topics: those that any of its parts choose, those that all of them choose, those whose rules name a value of a tag or a link, or one by
// its name.
type Choice struct {
	AnyOf, AllOf []Choice
	Term         string
	Topic        string
}

// Named returns the terms under which a topic is filed by each value that its rules name.
func Named(rules []Rule) (terms []string) {
	for _, r := range rules {
		for kind, by := range map[string]map[string]Values{termNamedTag: r.Tags, termNamedLink: r.Links} {
			for name, values := range by {
				for _, value := range slices.Concat(values.Any, values.All) {
					terms = append(terms, term(kind, name, value))
				}
			}
		}
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// choiceOf reads the field to of an item.
func choiceOf(value any) (*Choice, *Field) {
	left := mostChoices
	c, wrong := partOf(FieldTo, value, &left)
	if wrong != nil {
		return nil, wrong
	}
	return &c, nil
}

func partOf(path string, value any, left *int) (c Choice, wrong *Field) {
	const example = `{"any_of": [{"tag": "policy", "value": "tax"}, {"topic": "visas"}]}`
	if *left--; *left < 0 {
		return c, &Field{path, fmt.Sprintf("has more than %d parts", mostChoices), "choose by fewer values"}
	}
	by, ok := value.(map[string]any)
	if !ok {
		return c, &Field{path, "is not an object", example}
	}
	keys := slices.Sorted(maps.Keys(by))
	switch strings.Join(keys, " ") {
	case keyAnyOf:
		c.AnyOf, wrong = partsOf(path+"."+keyAnyOf, by[keyAnyOf], left)
	case keyAllOf:
		c.AllOf, wrong = partsOf(path+"."+keyAllOf, by[keyAllOf], left)
	case keyTopic:
		c.Topic, wrong = textOf(path+"."+keyTopic, by[keyTopic])
	case keyTag + " " + keyValue:
		c.Term, wrong = namedTerm(path, termNamedTag, keyTag, by)
	case keyLink + " " + keyValue:
		c.Term, wrong = namedTerm(path, termNamedLink, keyLink, by)
	default:
		has := "is empty"
		if len(keys) > 0 {
			has = "has " + strings.Join(keys, ", ")
		}
		return c, &Field{path, has + ", and chooses by any_of, all_of, tag and value, link and value, or topic alone", example}
	}
	return c, wrong
}

func partsOf(path string, value any, left *int) ([]Choice, *Field) {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil, &Field{path, "is no list of choices", `[{"tag": "policy", "value": "tax"}]`}
	}
	parts := make([]Choice, len(list))
	for i, one := range list {
		var wrong *Field
		if parts[i], wrong = partOf(fmt.Sprintf("%s[%d]", path, i), one, left); wrong != nil {
			return nil, wrong
		}
	}
	return parts, nil
}

func namedTerm(path, kind, of string, by map[string]any) (string, *Field) {
	name, wrong := textOf(path+"."+of, by[of])
	if wrong != nil {
		return "", wrong
	}
	value, wrong := textOf(path+"."+keyValue, by[keyValue])
	return term(kind, name, value), wrong
}

// Needs returns the terms and the names of topics that the choice is made by.
func (c Choice) Needs() (terms, names []string) {
	if c.Term != "" {
		terms = append(terms, c.Term)
	}
	if c.Topic != "" {
		names = append(names, c.Topic)
	}
	for _, part := range slices.Concat(c.AnyOf, c.AllOf) {
		t, n := part.Needs()
		terms, names = append(terms, t...), append(names, n...)
	}
	return terms, names
}

// Chosen returns the topics that are chosen, each once, from those that are filed under the terms and those of the names.
func Chosen[ID comparable](c Choice, byTerm map[string][]ID, byName map[string]ID) map[ID]bool {
	chosen := map[ID]bool{}
	for _, id := range byTerm[c.Term] {
		chosen[id] = true
	}
	if id, ok := byName[c.Topic]; ok {
		chosen[id] = true
	}
	for _, part := range c.AnyOf {
		maps.Copy(chosen, Chosen(part, byTerm, byName))
	}
	for i, part := range c.AllOf {
		of := Chosen(part, byTerm, byName)
		if i == 0 {
			chosen = of
			continue
		}
		maps.DeleteFunc(chosen, func(id ID, _ bool) bool { return !of[id] })
	}
	return chosen
}
