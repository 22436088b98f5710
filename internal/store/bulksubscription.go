package store

import (
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Runs over the subscriptions of many people read them in pages, in the order of their contacts.

// FollowersOf returns the next contacts after one who subscribe to one of some topics, up to MemberPage. last is the last one, if there may be more; else 0.
func (t *Tx) FollowersOf(ws subject.WorkspaceID, topics []subject.TopicID, after subject.ContactID) (ids []subject.ContactID, last subject.ContactID, err error) {
	sources := make([]page, len(topics))
	for i, id := range topics {
		sources[i] = page{ws: ws, topic: id, after: after}
	}
	return t.memberPage(sources, map[page][]subject.ContactID{})
}

const (
	startedBy = `
SELECT DISTINCT s.contact_id FROM subscription AS s
WHERE s.started_by = $1 AND s.started_by > 0 AND +s.ws = $2 AND s.contact_id > $3
ORDER BY s.contact_id
LIMIT $4`

	endedBy = `
SELECT DISTINCT s.contact_id FROM subscription AS s
WHERE s.ended_by = $1 AND s.ended_by > 0 AND +s.ws = $2 AND s.contact_id > $3
ORDER BY s.contact_id
LIMIT $4`
)

// ChangedBy is FollowersOf for those whose subscriptions a run has begun or ended.
func (t *Tx) ChangedBy(ws subject.WorkspaceID, run int64, after subject.ContactID) (ids []subject.ContactID, last subject.ContactID, err error) {
	var pages [][]subject.ContactID
	for _, text := range []string{startedBy, endedBy} {
		found, err := t.memberIDs(text, run, int64(ws), int64(after), int64(MemberPage))
		if err != nil {
			return nil, 0, err
		}
		pages = append(pages, found)
	}
	ids, last = merge(pages, MemberPage)
	return ids, last, nil
}

const everyOfContacts = `
SELECT /*NAMES s (` + subscriptionSpec + `)*/
FROM /*ROWS $1 (ws bigint, contact_id bigint)*/ AS r CROSS JOIN subscription AS s
WHERE s.ws = r.ws AND s.contact_id = r.contact_id
ORDER BY s.contact_id, s.id`

// EverySubscription returns all subscriptions that contacts have or had, those of each in the order in which they began.
func (t *Tx) EverySubscription(ws subject.WorkspaceID, contacts []subject.ContactID) (map[subject.ContactID][]topic.Subscription, error) {
	return t.subscriptionsBy(everyOfContacts, contactRows(ws, contacts))
}
