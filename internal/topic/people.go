package topic

import (
	"slices"

	"github.com/carillonhq/carillon/internal/subject"
)

// People are those who subscribe to topics: to some that are named, to those of an item, or to any.
type People struct {
	Names     []string
	Item      subject.EventID // its topics; 0: none
	All       bool            // any topic
	Frequency string          // of the subscriptions; empty: any
}

// Question asks whether a contact is one of some people.
type Question struct {
	Workspace subject.WorkspaceID
	Contact   subject.ContactID
	People    []People
}

// Follows reports whether one of the subscriptions of a contact makes the contact one of these people. topics are those that are meant.
func (p People) Follows(subscriptions []Subscription, topics []subject.TopicID) bool {
	return slices.ContainsFunc(subscriptions, func(s Subscription) bool { return p.Means(s, topics) })
}

// Means reports whether a subscription is one of those that are meant.
func (p People) Means(s Subscription, topics []subject.TopicID) bool {
	return s.Active() && (p.Frequency == "" || s.Frequency == p.Frequency) && (p.All || slices.Contains(topics, s.Topic))
}
