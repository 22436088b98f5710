package store

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// subscribers reads the ids of the next subscribers to a topic, or to any, in the order of their ids. DISTINCT costs nothing: each index has that order.
func (t *Tx) subscribers(p page) ([]subject.ContactID, error) {
	text, args := `
SELECT DISTINCT s.contact_id FROM subscription AS s
WHERE s.ws = $1 AND s.contact_id > $2`, []any{int64(p.ws), int64(p.after), int64(MemberPage)}
	if p.moved != 0 {
		args = append(args, p.moved)
		text += fmt.Sprintf(` AND s.ended_by > 0 AND s.ended_at >= $%d`, len(args))
	} else {
		text += ` AND s.ended_at = 0`
	}
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

// topicPages returns the pages of those who subscribe to topics, and of those whose subscriptions a run has ended since.
func topicPages(from page, p topic.People, meant topic.Meant) (all []page) {
	from.frequency = p.Frequency
	one := func(of page) {
		all = append(all, of)
		if !meant.Moved.IsZero() {
			of.moved = micros(meant.Moved)
			all = append(all, of)
		}
	}
	if p.All {
		from.anyTopic = true
		one(from)
		return all
	}
	for _, id := range meant.Topics {
		of := from
		of.topic = id
		one(of)
	}
	return all
}

// topicRef names what an audience means by topics.
type topicRef struct {
	ws   subject.WorkspaceID
	name string          // empty: the topics of the item
	item subject.EventID // of a name 0
}

// meanings are the topics that audiences name, and those of items.
type meanings struct {
	topics map[topicRef]topic.Meant
	moved  map[subject.WorkspaceID]time.Time // when a run ended a subscription last
}

const lastMoved = `
SELECT s.ended_at FROM subscription AS s
WHERE s.ws = $1 AND s.ended_by > 0
ORDER BY s.ended_at DESC
LIMIT 1`

// meantTopics returns the topics that audiences name, and those of items. What is removed has nobody.
func (t *Tx) meantTopics(groups [][]Audience, workspace func(group int) subject.WorkspaceID) (m meanings, err error) {
	names, items := map[subject.WorkspaceID][]string{}, []EventRef{}
	m.moved = map[subject.WorkspaceID]time.Time{}
	for g, group := range groups {
		for _, a := range group {
			for _, p := range a.Topics {
				names[workspace(g)] = append(names[workspace(g)], p.Names...)
				if p.Item != 0 {
					items = append(items, EventRef{workspace(g), p.Item})
				}
				if p.Item != 0 || !p.Since.IsZero() {
					m.moved[workspace(g)] = time.Time{}
				}
			}
		}
	}
	m.topics = map[topicRef]topic.Meant{}
	for ws, list := range names {
		found, err := t.TopicsByName(ws, slices.Compact(slices.Sorted(slices.Values(list))))
		if err != nil {
			return m, err
		}
		for name, row := range found {
			if row.RemovedAt.IsZero() {
				m.topics[topicRef{ws: ws, name: name}] = topic.Meant{Topics: []subject.TopicID{row.ID}}
			}
		}
	}
	of, err := t.TopicsOfItems(items)
	for ref, topics := range of {
		m.topics[topicRef{ws: ref.Workspace, item: ref.ID}] = topics
	}
	for ws := range m.moved {
		last, err := query(t, func(rows *sql.Rows) (at time.Time, err error) { return at, rows.Scan(instant{&at}) }, lastMoved, int64(ws))
		if err != nil {
			return m, fmt.Errorf("find what runs have ended: %w", err)
		}
		if len(last) > 0 {
			m.moved[ws] = last[0]
		}
	}
	return m, err
}

// of returns the topics that are meant by people of an audience: those that they name, or those of an item.
func (m meanings) of(ws subject.WorkspaceID, p topic.People) topic.Meant {
	of := m.topics[topicRef{ws: ws, item: p.Item}]
	for _, name := range p.Names {
		of.Topics = append(slices.Clip(of.Topics), m.topics[topicRef{ws: ws, name: name}].Topics...)
	}
	of.Topics = slices.Compact(slices.Sorted(slices.Values(of.Topics)))
	since := of.Arrived
	if since.IsZero() {
		since = p.Since
	}
	if !since.IsZero() && !m.moved[ws].Before(since) {
		of.Moved = since
	}
	return of
}

const movedOfContacts = `
SELECT /*NAMES s (` + subscriptionSpec + `)*/
FROM /*ROWS $2 (ws bigint, contact_id bigint)*/ AS r CROSS JOIN subscription AS s
WHERE s.ws = r.ws AND s.contact_id = r.contact_id AND s.ended_by > 0 AND s.ended_at >= $1
ORDER BY s.contact_id, s.topic_id, s.id`

// subscriptionsFor returns the subscriptions of contacts that go on, and those that a run has ended since the earliest instant since when these count.
func (t *Tx) subscriptionsFor(ws subject.WorkspaceID, contacts []subject.ContactID, meant []topic.Meant) (map[subject.ContactID][]topic.Subscription, error) {
	found, err := t.ActiveSubscriptions(ws, contacts)
	if err != nil {
		return nil, err
	}
	var since time.Time
	for _, m := range meant {
		if !m.Moved.IsZero() && (since.IsZero() || m.Moved.Before(since)) {
			since = m.Moved
		}
	}
	if since.IsZero() {
		return found, nil
	}
	moved, err := t.MovedOfContacts(ws, contacts, since)
	for id, list := range moved {
		found[id] = append(found[id], list...)
	}
	return found, err
}

// MovedOfContacts returns what runs have ended of contacts, since an instant.
func (t *Tx) MovedOfContacts(ws subject.WorkspaceID, contacts []subject.ContactID, since time.Time) (map[subject.ContactID][]topic.Subscription, error) {
	return t.subscriptionsBy(movedOfContacts, micros(since), contactRows(ws, contacts))
}

const forgetMoved = `
UPDATE subscription SET ended_by = 0
FROM /*ROWS $1 (ws bigint, contact_id bigint, run bigint, topic_id bigint)*/ AS r
WHERE subscription.ws = r.ws AND subscription.contact_id = r.contact_id AND subscription.ended_by > 0 AND (r.run = 0 OR subscription.ended_by = r.run)
  AND (r.topic_id = 0 OR subscription.topic_id = r.topic_id)`

// ForgetMoved has what runs have ended of locked contacts count for nothing any more.
func (t *Tx) ForgetMoved(ws subject.WorkspaceID, list []topic.Moved) error {
	var rows rowset
	for _, m := range slices.Compact(slices.SortedFunc(slices.Values(list), func(a, b topic.Moved) int {
		return compareInts(int64(a.Contact), int64(b.Contact), a.Run, b.Run, int64(a.Topic), int64(b.Topic))
	})) {
		rows.row().int(int64(ws)).int(int64(m.Contact)).int(m.Run).int(int64(m.Topic))
	}
	if _, err := t.exec(forgetMoved, &rows); err != nil {
		return fmt.Errorf("forget what runs have ended: %w", err)
	}
	return nil
}

// readTopics reads the subscriptions of the people of an audience that has topics, and which topics it means.
func (t *Tx) readTopics(ws subject.WorkspaceID, a Audience, meant meanings, p *People) (err error) {
	if len(a.Topics) == 0 {
		return nil
	}
	ids := make([]subject.ContactID, len(p.Members))
	for i, person := range p.Members {
		ids[i] = person.ID
	}
	p.Topics = make([]topic.Meant, len(a.Topics))
	for i, of := range a.Topics {
		p.Topics[i] = meant.of(ws, of)
	}
	p.Subscriptions, err = t.subscriptionsFor(ws, ids, p.Topics)
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
	for i, q := range asked {
		groups[i] = []Audience{{Topics: q.People}}
	}
	meant, err := t.meantTopics(groups, func(i int) subject.WorkspaceID { return asked[i].Workspace })
	if err != nil {
		return nil, err
	}
	contacts, since := map[subject.WorkspaceID][]subject.ContactID{}, map[subject.WorkspaceID][]topic.Meant{}
	topics := make([][]topic.Meant, len(asked))
	for i, q := range asked {
		topics[i] = make([]topic.Meant, len(q.People))
		for n, p := range q.People {
			topics[i][n] = meant.of(q.Workspace, p)
		}
		contacts[q.Workspace], since[q.Workspace] = append(contacts[q.Workspace], q.Contact), append(since[q.Workspace], topics[i]...)
	}
	subscriptions := map[subject.ContactID][]topic.Subscription{}
	for ws, ids := range contacts {
		found, err := t.subscriptionsFor(ws, ids, since[ws])
		if err != nil {
			return nil, err
		}
		maps.Copy(subscriptions, found)
	}
	served := make([]Served, len(asked))
	for i, q := range asked {
		served[i] = topic.Served(subscriptions[q.Contact], q.People, topics[i], q.Topic)
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
		topics[i] = meant.of(ws, p)
	}
	return topics, nil
}
