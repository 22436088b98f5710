// Package topic decides which items belong to a topic.
//
// A topic has rules, and an item belongs to it if any of them fits. A rule fits if all of its lines do: every tag and every link that it names, every
// field, and the content id. An item may also name its topics itself. Which topics could have an item at all is found by an index: each rule is filed
// under terms, of which an item that it fits has at least one.
package topic

import (
	"encoding/json"
	"maps"
	"slices"
)

// Rule is one way in which an item belongs to a topic. A rule without lines fits every item.
type Rule struct {
	Tags      map[string]Values `json:"tags,omitempty"`
	Links     map[string]Values `json:"links,omitempty"`
	Fields    map[string]string `json:"fields,omitempty"` // by name, the value that an item has
	ContentID string            `json:"content_id,omitempty"`
}

// Values are what a rule demands of the values of one tag or link: one of Any, if there are any, and each of All.
type Values struct {
	Any []string `json:"any,omitempty"`
	All []string `json:"all,omitempty"`
}

// Item is what the rules read of an item.
type Item struct {
	Tags      map[string][]string
	Links     map[string][]string
	Fields    map[string]string
	ContentID string
	To        *Choice `json:",omitempty"` // what chooses its topics in place of their rules; nil: their rules do
}

// Fits reports whether the rule fits an item. What the item has beyond the rule does not matter.
func (r Rule) Fits(item Item) bool {
	for name, want := range r.Tags {
		if !want.fit(item.Tags[name]) {
			return false
		}
	}
	for name, want := range r.Links {
		if !want.fit(item.Links[name]) {
			return false
		}
	}
	for name, want := range r.Fields {
		if has, ok := item.Fields[name]; !ok || has != want {
			return false
		}
	}
	return r.ContentID == "" || r.ContentID == item.ContentID
}

func (v Values) fit(has []string) bool {
	in := func(value string) bool { return slices.Contains(has, value) }
	all := !slices.ContainsFunc(v.All, func(value string) bool { return !in(value) })
	return all && (len(v.Any) == 0 || slices.ContainsFunc(v.Any, in))
}

// Normal returns the rule in the one spelling of its meaning: values sorted and each once, and tags and links that demand nothing left out.
func (r Rule) Normal() Rule {
	return Rule{Tags: normalValues(r.Tags), Links: normalValues(r.Links), Fields: nonEmpty(maps.Clone(r.Fields)), ContentID: r.ContentID}
}

// Text returns the rule as one text. Rules that differ in the order of keys and values alone have the same text, other rules have another.
func (r Rule) Text() string {
	text, err := json.Marshal(r.Normal()) // sorts keys
	if err != nil {
		panic(err) // a rule holds nothing but texts
	}
	return string(text)
}

func normalValues(by map[string]Values) map[string]Values {
	normal := make(map[string]Values, len(by))
	for name, v := range by {
		if len(v.Any)+len(v.All) > 0 {
			normal[name] = Values{Any: sorted(v.Any), All: sorted(v.All)}
		}
	}
	return nonEmpty(normal)
}

func sorted(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

func nonEmpty[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}
