package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/topic"
)

// Topic reads the document of one topic, which is data: it stands in no set. stored says that it was accepted before.
func Topic(text string, compiler *expr.Compiler, stored bool) (*definition.Topic, []definition.Problem) {
	l, err := newLoader(Options{Compiler: compiler})
	if err != nil {
		return nil, []definition.Problem{{Message: err.Error(), Code: definition.CodeInvalid}}
	}
	l.stored = stored
	docs, problems := portable.Parse(text)
	for _, p := range problems {
		l.problems = append(l.problems, definition.Problem{Line: p.Line, Column: p.Column, Message: p.Message, Hint: p.Hint, Code: definition.CodeSyntax})
	}
	for _, doc := range docs {
		l.add("", doc, 0)
	}
	var t *definition.Topic
	l.each(definition.KindTopic, func(r *reader, s *source) { t = r.topic(s.root) })
	return t, tidy(l.problems, nil)
}

// topic reads a topic.
func (r *reader) topic(root *portable.Node) *definition.Topic {
	t := &definition.Topic{Name: r.name}
	f, ok := r.fields(root, "topic")
	if !ok {
		return t
	}
	if r.name == definition.TopicsAll || r.name == definition.TopicsMatched {
		r.invalid(f.get("topic").Pos, r.name+" is no name of a topic: in an audience it means others", "take another name")
	}
	t.Title = r.title(f.get("title"))
	t.Description, _ = r.text(f.get("description"))
	t.Confirm = r.bool(f.get("confirm"), false)
	match := f.get("match")
	if match != nil && match.Kind == portable.List && len(match.Items) == 0 {
		r.invalid(match.Pos, "no item fits an empty match", "write an entry, such as - tags: {policy: {any: [tax]}}; without match, only items that name the topic belong to it")
	}
	for _, n := range r.items(match) {
		t.Match = append(t.Match, r.topicRule(n))
	}
	for _, n := range r.items(f.get("frequencies")) {
		name, ok := r.slug(n)
		switch {
		case !ok:
		case slices.Contains(t.Frequencies, name):
			r.invalid(n.Pos, fmt.Sprintf("%s is named twice", name), "remove one of them")
		default:
			t.Frequencies = append(t.Frequencies, name)
		}
	}
	return t
}

// title reads the title of a topic: a text in one or several locales, which no values are put into.
func (r *reader) title(n *portable.Node) message.Text {
	text := r.localized(n, message.Plain)
	text.Templates(func(_ string, t *message.Template) {
		if len(t.Variables()) > 0 {
			r.invalid(n.Pos, "a title is the same for everybody, and this one writes "+t.Variables()[0], "write the values into the message")
		}
	})
	return text
}

// topicRule reads one entry of match.
func (r *reader) topicRule(n *portable.Node) definition.TopicRule {
	var rule definition.TopicRule
	f, ok := r.fields(n, "match")
	if !ok {
		return rule
	}
	rule.Tags, rule.Links = r.topicValues(f.get("tags")), r.topicValues(f.get("links"))
	for _, field := range r.named(f.get("fields"), "a field") {
		if value, ok := r.topicText(field.Key, field.Value); ok {
			if rule.Fields == nil {
				rule.Fields = map[string]string{}
			}
			rule.Fields[field.Key.Text] = value
		}
	}
	if id := f.get("content_id"); id != nil {
		rule.ContentID, _ = r.topicText(f.get("content_id"), id)
	}
	rule.When = r.onItem(f.get("when"))
	return rule
}

// topicValues reads the values of tags or links, by name.
func (r *reader) topicValues(n *portable.Node) map[string]topic.Values {
	var all map[string]topic.Values
	for _, own := range r.named(n, "a name") {
		f, ok := r.fields(own.Value, "match_values")
		if !ok {
			continue
		}
		v := topic.Values{Any: r.topicTexts(own.Key, f.get("any")), All: r.topicTexts(own.Key, f.get("all"))}
		if len(v.Any)+len(v.All) == 0 && !f.node.Partial {
			r.report(definition.CodeMissing, own.Key.Pos, fmt.Sprintf("%s has no values", own.Key.Text), "write any: [VALUE], of which an item needs one, or all: [VALUE], of which it needs each")
		}
		if all == nil {
			all = map[string]topic.Values{}
		}
		all[own.Key.Text] = v
	}
	return all
}

func (r *reader) topicTexts(name, n *portable.Node) []string {
	var values []string
	for _, item := range r.items(n) {
		if value, ok := r.topicText(name, item); ok {
			values = append(values, value)
		}
	}
	return values
}

// topicText reads a value that items are compared with, of a tag, link or field of some name.
func (r *reader) topicText(name, n *portable.Node) (string, bool) {
	value, ok := r.text(n)
	if !ok {
		return "", false
	}
	for _, one := range []*portable.Node{name, n} {
		if problem := topic.CheckText(one.Text); problem != "" {
			r.invalid(one.Pos, fmt.Sprintf("%.20q… %s", one.Text, problem), "")
			return "", false
		}
	}
	return value, true
}

// onItem reads a condition on an item. An item is matched once, so that nothing else may count.
func (r *reader) onItem(n *portable.Node) *expr.Condition {
	before := len(r.problems)
	c := r.condition(n, expr.Scope{Item: true, Now: true, Workspace: true, Vars: true})
	if c == nil || len(r.problems) > before {
		return c
	}
	switch {
	case c.ReadsNow():
		r.invalid(n.Pos, "whether an item belongs to a topic does not change with time", "compare fields of the item")
	case c.CallsOwn():
		r.invalid(n.Pos, "the when of a topic calls no function of your own: it is read whenever an item is published", "put what the function finds into a field of the item")
	default:
		for _, path := range c.Paths() {
			if path[0] != "item" {
				r.invalid(n.Pos, "the when of a topic reads nothing but item, and this reads "+path[0], "write item."+strings.Join(path[1:], "."))
				break
			}
		}
	}
	return c
}

// topicRefs reads the topics of an entry of the audience: all, matched, or names.
func (r *reader) topicRefs(f fields, scope expr.Scope, set *definition.Set, a *definition.Audience) {
	n := f.get("topics")
	items := r.items(n)
	if n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, "this names no topic", "write names of topics, all, or matched")
	}
	if frequency := f.get("frequency"); frequency != nil {
		a.Frequency, _ = r.slug(frequency)
	}
	for _, item := range items {
		name, ok := r.defName(item)
		switch {
		case !ok:
		case (name == definition.TopicsAll || name == definition.TopicsMatched) && len(items) > 1:
			r.invalid(item.Pos, name+" stands alone", "write an entry for the others")
		case name == definition.TopicsMatched && !scope.Item:
			r.invalid(item.Pos, "matched are the topics of an item, and there is no item here", "event: "+definition.ItemPublished+" makes an occasion of each item; else name topics, or write all")
		case name == definition.TopicsAll || name == definition.TopicsMatched:
			a.Topics = name
		case set.Topic(name) == nil:
			r.unresolved(reference{definition.KindTopic, name, name}, item.Pos, r.undefined(definition.KindTopic, name), false)
			fallthrough
		default:
			a.Topics = definition.TopicsNamed
			a.TopicNames = append(a.TopicNames, name)
		}
	}
	if t := a.TopicNames; a.Frequency != "" {
		for _, name := range t {
			if of := set.Topic(name); of != nil && !of.Offers(a.Frequency) {
				r.invalid(f.get("frequency").Pos, fmt.Sprintf("topic %s offers no frequency %s", name, a.Frequency), "it offers "+alternatives(of.Frequencies))
			}
		}
	}
}
