package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/topic"
)

// ItemPublished is the kind of the events that items are.
const ItemPublished = "item.published"

// Kinds of the events that the engine appends about those who follow topics. Callers cannot send them.
const (
	// SubscriptionRequested: somebody is to confirm that they want to follow a topic. Its messages have confirm_link.
	SubscriptionRequested = "subscription.requested"
	// LinkRequested: somebody who follows topics has asked for a link to the page where they manage that. Its messages have manage_link.
	LinkRequested = "subscription.link_requested"
	// ReplyReceived is the kind of the event by which a trigger hears of what somebody wrote back.
	ReplyReceived = "reply.received"
)

// Immediate is the frequency of subscriptions that get each item when it is published.
const Immediate = topic.Immediate

// Topic is what people subscribe to, and which items belong to it. Topics are definitions, or data that programs make.
type Topic struct {
	Name        string
	Title       message.Text // empty: its name
	Description string
	Match       []TopicRule // an item belongs to it if any of them fits; empty: only items that name it
	Frequencies []string    // those on offer; empty: any
	Confirm     bool        // a subscription begins when its contact confirms it
}

// TopicRule is one entry of a topic's match: it fits if the rule does and the condition holds.
type TopicRule struct {
	topic.Rule
	When *expr.Condition // reads nothing but item; nil: it holds
}

// Rules are the rules of a topic without their conditions.
func (t *Topic) Rules() []topic.Rule {
	rules := make([]topic.Rule, len(t.Match))
	for i, m := range t.Match {
		rules[i] = m.Rule
	}
	return rules
}

// Hash identifies what the topic is: topics with the same rules, conditions, frequencies on offer and need of a confirmation have the same hash, whatever they are called.
func (t *Topic) Hash() string {
	lines := make([]string, 0, len(t.Match)+len(t.Frequencies))
	for _, m := range t.Match {
		line := "match " + m.Text()
		if m.When != nil {
			line += " " + m.When.Source()
		}
		lines = append(lines, line)
	}
	for _, name := range t.Frequencies {
		lines = append(lines, "frequency "+name)
	}
	if t.Confirm {
		lines = append(lines, "confirm")
	}
	return key.Hash(strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "\n"))
}

// Fits reports whether an item belongs to the topic by its rules. in has the fields of the item, as Item.
func (t *Topic) Fits(item topic.Item, in expr.Input) bool {
	return slices.ContainsFunc(t.Match, func(m TopicRule) bool {
		return m.Fits(item) && (m.When == nil || m.When.Holds(in))
	})
}

// Offers reports whether people may subscribe with a frequency.
func (t *Topic) Offers(frequency string) bool {
	return len(t.Frequencies) == 0 || slices.Contains(t.Frequencies, frequency)
}

// AddTopic adds a topic.
func (s *Set) AddTopic(t *Topic) { s.topics[t.Name] = t }

// Topic returns the topic that is defined with that name, nil when there is none.
func (s *Set) Topic(name string) *Topic { return s.topics[name] }

// Topics returns all defined topics in the order of their names.
func (s *Set) Topics() []*Topic {
	return slices.SortedFunc(maps.Values(s.topics), func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
}
