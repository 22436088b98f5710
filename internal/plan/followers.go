package plan

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/digest"
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

// DigestReach is how long before its due instant a run of a digest looks at most.
func DigestReach(t *definition.Trigger) time.Duration {
	if on := t.OnSchedule(); on != nil {
		return digest.Reach(on.Calendar.Period.Length)
	}
	return digest.Reach(civil.Duration{})
}

// ReachesFollowers reports whether a trigger of a set of definitions reaches those who follow a topic with a frequency. One that has a condition and names no
// frequency, such as for urgent items, reaches them with few items, and does not count.
func ReachesFollowers(set *definition.Set, name, frequency string) bool {
	for _, w := range set.Workflows() {
		for _, t := range w.Trigger {
			if w.Enabled && t.Enabled && slices.ContainsFunc(t.Audience, func(a definition.Audience) bool {
				about := a.Topics != "" && (a.Topics != definition.TopicsNamed || slices.Contains(a.TopicNames, name))
				return about && (a.Frequency == frequency || a.Frequency == "" && t.When == nil)
			}) {
				return true
			}
		}
	}
	return false
}

// FrequenciesOf returns the frequencies with which triggers of a set of definitions serve those who follow a topic, in the order of their names.
func FrequenciesOf(set *definition.Set, name string) []string {
	var served []string
	for _, w := range set.Workflows() {
		for _, t := range w.Trigger {
			for _, a := range t.Audience {
				about := a.Topics != "" && (a.Topics != definition.TopicsNamed || slices.Contains(a.TopicNames, name))
				if about && a.Frequency != "" && w.Enabled && t.Enabled {
					served = append(served, a.Frequency)
				}
			}
		}
	}
	slices.Sort(served)
	return slices.Compact(served)
}
