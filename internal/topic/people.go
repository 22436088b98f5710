package topic

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// People are those who subscribe to topics: to some that are named, to those of an item, or to any.
type People struct {
	Names     []string
	Item      subject.EventID // its topics; 0: none
	All       bool            // any topic
	Frequency string          // of the subscriptions; empty: any
	// Since has subscriptions count too that a run over many people has ended since then, for what was published before their end: of people of topics for
	// whom a digest is. Those of an item count since it arrived. Zero: they do not.
	Since time.Time
}

// Meant are topics that people subscribe to.
type Meant struct {
	Topics  []subject.TopicID // in the order of their ids
	Arrived time.Time         // the item that they are those of: it is for those who were following by then; zero: they are not those of an item
	Moved   time.Time         // subscriptions that a run has ended since then count too; zero: there are none
}

// Question asks whether a contact is one of some people.
type Question struct {
	Workspace subject.WorkspaceID
	Contact   subject.ContactID
	People    []People
	Topic     subject.TopicID // of the topics, this one alone; 0: all of them
}

// Served returns those of the subscriptions of a contact that make the contact one of some people. meant are the topics of each of the people, and only the
// topic that alone matters; 0: all of them do.
func Served(of []Subscription, people []People, meant []Meant, only subject.TopicID) []Subscription {
	var served []Subscription
	for _, s := range of {
		for i, p := range people {
			if p.Means(s, meant[i]) && (only == 0 || only == s.Topic) && (s.Active() || !goesOn(of, s.Topic)) {
				served = append(served, s)
				break
			}
		}
	}
	return served
}

// goesOn reports whether one of the subscriptions of a contact to a topic goes on.
func goesOn(of []Subscription, id subject.TopicID) bool {
	return slices.ContainsFunc(of, func(s Subscription) bool { return s.Topic == id && s.Active() })
}

// Before reports whether an item was published before a run has ended the subscription: before the run began, or before it came to this one.
func (s Subscription) Before(item subject.EventID, arrived time.Time) bool {
	return int64(item) < s.EndedBy || arrived.Before(s.EndedAt)
}

// Means reports whether a subscription is one of those that are meant.
func (p People) Means(s Subscription, meant Meant) bool {
	moved := s.Moved() && !meant.Moved.IsZero() && !s.EndedAt.Before(meant.Moved) && (p.Item == 0 || s.Before(p.Item, meant.Arrived))
	return (s.Active() || moved) && (p.Frequency == "" || s.Frequency == p.Frequency) && (p.All || slices.Contains(meant.Topics, s.Topic)) &&
		(meant.Arrived.IsZero() || !s.Since.After(meant.Arrived))
}
