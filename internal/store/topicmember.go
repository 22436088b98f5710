package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// subscribers reads the ids of the next subscribers to a topic, or to any, in the order of their ids. DISTINCT costs nothing: each index has that order.
func (t *Tx) subscribers(p page) ([]subject.ContactID, error) {
	text, args := `
SELECT DISTINCT s.contact_id FROM subscription AS s
WHERE s.ws = $1 AND s.contact_id > $2 AND s.ended_at = 0`, []any{int64(p.ws), int64(p.after), int64(MemberPage)}
	if p.topic != 0 {
		args = append(args, int64(p.topic))
		text += fmt.Sprintf(` AND s.topic_id = $%d`, len(args))
	}
	if p.frequency != "" {
		args = append(args, p.frequency)
		text += fmt.Sprintf(` AND s.frequency = $%d`, len(args))
	}
	if p.zone != "" {
		args = append(args, p.zone, p.other)
		text += fmt.Sprintf(`
  AND EXISTS (SELECT 1 FROM contact AS p WHERE p.ws = s.ws AND p.id = s.contact_id AND p.timezone || '' IN ($%d, $%d))`, len(args)-1, len(args))
	}
	return t.memberIDs(text+`
ORDER BY s.contact_id
LIMIT $3`, args...)
}

// topicPages returns the pages of those who subscribe to topics.
func topicPages(from page, p topic.People, topics []subject.TopicID) []page {
	from.frequency = p.Frequency
	if p.All {
		from.anyTopic = true
		return []page{from}
	}
	all := make([]page, len(topics))
	for i, id := range topics {
		all[i] = from
		all[i].topic = id
	}
	return all
}

// topicRef names what an audience means by topics.
type topicRef struct {
	ws   subject.WorkspaceID
	name string          // empty: the topics of the item
	item subject.EventID // of a name 0
}

// meantTopics returns the topics that audiences name, and those of items. What is removed has nobody.
func (t *Tx) meantTopics(groups [][]Audience, workspace func(group int) subject.WorkspaceID) (map[topicRef]topic.Meant, error) {
	names, items := map[subject.WorkspaceID][]string{}, []EventRef{}
	for g, group := range groups {
		for _, a := range group {
			for _, p := range a.Topics {
				names[workspace(g)] = append(names[workspace(g)], p.Names...)
				if p.Item != 0 {
					items = append(items, EventRef{workspace(g), p.Item})
				}
			}
		}
	}
	meant := map[topicRef]topic.Meant{}
	for ws, list := range names {
		found, err := t.TopicsByName(ws, slices.Compact(slices.Sorted(slices.Values(list))))
		if err != nil {
			return nil, err
		}
		for name, row := range found {
			if row.RemovedAt.IsZero() {
				meant[topicRef{ws: ws, name: name}] = topic.Meant{Topics: []subject.TopicID{row.ID}}
			}
		}
	}
	of, err := t.TopicsOfItems(items)
	for ref, topics := range of {
		meant[topicRef{ws: ref.Workspace, item: ref.ID}] = topics
	}
	return meant, err
}

// topicsOf returns the topics that are meant by people of an audience: those that they name, or those of an item.
func topicsOf(meant map[topicRef]topic.Meant, ws subject.WorkspaceID, p topic.People) topic.Meant {
	of := meant[topicRef{ws: ws, item: p.Item}]
	for _, name := range p.Names {
		of.Topics = append(slices.Clip(of.Topics), meant[topicRef{ws: ws, name: name}].Topics...)
	}
	of.Topics = slices.Compact(slices.Sorted(slices.Values(of.Topics)))
	return of
}

// readTopics reads the subscriptions of the people of an audience that has topics, and which topics it means.
func (t *Tx) readTopics(ws subject.WorkspaceID, a Audience, meant map[topicRef]topic.Meant, p *People) (err error) {
	if len(a.Topics) == 0 {
		return nil
	}
	ids := make([]subject.ContactID, len(p.Members))
	for i, person := range p.Members {
		ids[i] = person.ID
	}
	p.Topics = make([]topic.Meant, len(a.Topics))
	for i, of := range a.Topics {
		p.Topics[i] = topicsOf(meant, ws, of)
	}
	p.Subscriptions, err = t.ActiveSubscriptions(ws, ids)
	return err
}

// Follows reports for each question whether the contact subscribes to a topic that is meant.
func (t *Tx) Follows(asked []topic.Question) ([]bool, error) {
	questions := make([]ServedQuestion, len(asked))
	for i, q := range asked {
		questions[i] = ServedQuestion{Workspace: q.Workspace, Contact: q.Contact, People: q.People, Topic: q.Topic}
	}
	served, err := t.Served(questions)
	follows := make([]bool, len(served))
	for i, of := range served {
		follows[i] = len(of) > 0
	}
	return follows, err
}

// ServedQuestion asks for the subscriptions of a contact to the topics that an audience means.
type ServedQuestion struct {
	Workspace subject.WorkspaceID
	Contact   subject.ContactID
	Topic     subject.TopicID // to it alone; 0: to any
	People    []topic.People
}

// Served are the subscriptions of a contact to the topics that an audience means.
type Served []topic.Subscription

// Served answers questions, in their order.
func (t *Tx) Served(asked []ServedQuestion) ([]Served, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	groups := make([][]Audience, len(asked))
	contacts := map[subject.WorkspaceID][]subject.ContactID{}
	for i, q := range asked {
		groups[i] = []Audience{{Topics: q.People}}
		contacts[q.Workspace] = append(contacts[q.Workspace], q.Contact)
	}
	meant, err := t.meantTopics(groups, func(i int) subject.WorkspaceID { return asked[i].Workspace })
	if err != nil {
		return nil, err
	}
	subscriptions := map[subject.ContactID][]topic.Subscription{}
	for ws, ids := range contacts {
		found, err := t.ActiveSubscriptions(ws, ids)
		if err != nil {
			return nil, err
		}
		maps.Copy(subscriptions, found)
	}
	served := make([]Served, len(asked))
	for i, q := range asked {
		topics := make([]topic.Meant, len(q.People))
		for n, p := range q.People {
			topics[n] = topicsOf(meant, q.Workspace, p)
		}
		served[i] = topic.Served(subscriptions[q.Contact], q.People, topics, q.Topic)
	}
	return served, nil
}

// TopicsMeant returns the topics that each of some people subscribe to, in the order of their ids.
func (t *Tx) TopicsMeant(ws subject.WorkspaceID, people []topic.People) ([]topic.Meant, error) {
	meant, err := t.meantTopics([][]Audience{{{Topics: people}}}, func(int) subject.WorkspaceID { return ws })
	if err != nil {
		return nil, err
	}
	topics := make([]topic.Meant, len(people))
	for i, p := range people {
		topics[i] = topicsOf(meant, ws, p)
	}
	return topics, nil
}
