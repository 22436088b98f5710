package plan

import (
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Followers returns the people of an entry of an audience that is about topics. item is the item of the occasion; 0: it is about none.
func Followers(a definition.Audience, item subject.EventID) topic.People {
	p := topic.People{Names: a.TopicNames, All: a.Topics == definition.TopicsAll, Frequency: a.Frequency}
	if a.Topics == definition.TopicsMatched {
		p.Item = item
	}
	return p
}

// OnlyFollowers returns the people of a trigger whose audience is about topics alone: who has left all of them gets nothing from it. nil: it has others
// too.
func OnlyFollowers(t *definition.Trigger, item subject.EventID) []topic.People {
	var people []topic.People
	for _, a := range t.Audience {
		if a.Topics == "" {
			return nil
		}
		people = append(people, Followers(a, item))
	}
	return people
}
