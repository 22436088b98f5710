package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// A transaction that begins or ends a subscription has locked its contact. So has the intent of a message to a topic's people, which reads the
// subscription again: nothing leaves after the end of a subscription was committed (P5).

const subscriptionSpec = `ws bigint, id bigint, contact_id bigint, topic_id bigint, frequency text, source text, since bigint, started_at bigint, ended_at bigint, end_reason text, covered_through bigint, started_by bigint, ended_by bigint`

func scanSubscription(rows *sql.Rows) (s topic.Subscription, err error) {
	var ws int64
	return s, rows.Scan(&ws, integer(&s.ID), integer(&s.Contact), integer(&s.Topic), &s.Frequency, &s.Source, instant{&s.Since}, instant{&s.StartedAt}, instant{&s.EndedAt}, &s.EndReason,
		&s.Covered, &s.StartedBy, &s.EndedBy)
}

const activeOfContacts = `
SELECT /*NAMES s (` + subscriptionSpec + `)*/
FROM /*ROWS $1 (ws bigint, contact_id bigint)*/ AS r CROSS JOIN subscription AS s
WHERE s.ws = r.ws AND s.contact_id = r.contact_id AND s.ended_at = 0
ORDER BY s.contact_id, s.topic_id`

// ActiveSubscriptions returns the subscriptions that go on of some contacts, those of each in the order of topics.
func (t *Tx) ActiveSubscriptions(ws subject.WorkspaceID, contacts []subject.ContactID) (map[subject.ContactID][]topic.Subscription, error) {
	return t.subscriptionsBy(activeOfContacts, contactRows(ws, contacts))
}

// subscriptionsBy reads subscriptions, those of each contact in the order of the statement.
func (t *Tx) subscriptionsBy(text string, args ...any) (map[subject.ContactID][]topic.Subscription, error) {
	found := map[subject.ContactID][]topic.Subscription{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		s, err := scanSubscription(rows)
		found[s.Contact] = append(found[s.Contact], s)
		return struct{}{}, err
	}, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read subscriptions: %w", err)
	}
	return found, nil
}

const insertSubscriptions = `
INSERT INTO subscription (/*NAMES (` + subscriptionSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + subscriptionSpec + `)*/ AS r`

const endSubscriptions = `
UPDATE subscription SET ended_at = r.ended_at, end_reason = r.end_reason, ended_by = r.ended_by
FROM /*ROWS $1 (ws bigint, id bigint, ended_at bigint, end_reason text, ended_by bigint)*/ AS r
WHERE subscription.ws = r.ws AND subscription.id = r.id AND subscription.ended_at = 0`

// WriteSubscriptions ends and begins subscriptions of locked contacts.
func (t *Tx) WriteSubscriptions(ws subject.WorkspaceID, changes []topic.Change) error {
	var ended, started rowset
	var left []topic.Moved
	if t.followed == nil {
		t.followed = map[Followed]int{}
	}
	for _, c := range slices.SortedFunc(slices.Values(changes), bySubscription) {
		if s := c.Ended; s != nil {
			t.followed[Followed{Reason: s.EndReason}]++
			ended.row().int(int64(ws)).int(int64(s.ID)).time(s.EndedAt).text(string(s.EndReason)).int(s.EndedBy)
			left = append(left, s.Forgets()...)
		}
		if s := c.Started; s != nil {
			if c.Resumes {
				left = append(left, topic.Moved{Contact: s.Contact, Topic: s.Topic})
			}
			if s.Active() {
				t.followed[Followed{Source: s.Source}]++
			}
			started.row().int(int64(ws)).int(int64(s.ID)).int(int64(s.Contact)).int(int64(s.Topic)).text(s.Frequency).text(string(s.Source)).time(s.Since).time(s.StartedAt).
				time(s.EndedAt).text(string(s.EndReason)).int(s.Covered).int(s.StartedBy).int(s.EndedBy)
		}
	}
	if err := t.ForgetMoved(ws, left); err != nil { // before a subscription begins that a run has ended
		return err
	}
	if err := t.updateAll("end subscriptions", endSubscriptions, &ended); err != nil {
		return err
	}
	_, err := t.insert("begin subscriptions", insertSubscriptions, &started)
	return err
}

// SubscriptionFilter selects subscriptions.
type SubscriptionFilter struct {
	Contact subject.ContactID
	Topic   subject.TopicID // 0: to any
	Ended   bool            // those that have ended, too
	Before  topic.SubscriptionID
	Limit   int
}

// ListedSubscription is a subscription with the names of its contact and its topic.
type ListedSubscription struct {
	topic.Subscription
	ContactExtID string
	TopicName    string
}

const subscriptionsOfContact = `
SELECT /*NAMES s (` + subscriptionSpec + `)*/, p.ext_id, t.name
FROM subscription AS s CROSS JOIN contact AS p CROSS JOIN topic AS t
WHERE s.contact_id = $1 AND s.id < $2 AND ($3 = 0 OR s.topic_id = $3) AND (s.ended_at = 0 OR $4 = 1)
  AND p.ws = s.ws AND p.id = s.contact_id AND t.ws = s.ws AND t.id = s.topic_id
ORDER BY s.id DESC
LIMIT $5`

const subscriptionsOfAll = `
SELECT /*NAMES s (` + subscriptionSpec + `)*/, p.ext_id, t.name
FROM subscription AS s CROSS JOIN contact AS p CROSS JOIN topic AS t
WHERE s.ws = $1 AND s.id < $2 AND (s.ended_at = 0 OR $3 = 1) AND p.ws = s.ws AND p.id = s.contact_id AND t.ws = s.ws AND t.id = s.topic_id
ORDER BY s.id DESC
LIMIT $4`

const subscriptionsOfTopic = `
SELECT /*NAMES s (` + subscriptionSpec + `)*/, p.ext_id, t.name
FROM subscription AS s CROSS JOIN contact AS p CROSS JOIN topic AS t
WHERE s.topic_id = $1 AND s.ended_at = 0 AND s.contact_id > $2 AND p.ws = s.ws AND p.id = s.contact_id AND t.ws = s.ws AND t.id = s.topic_id
ORDER BY s.contact_id
LIMIT $3`

func scanListedSubscription(rows *sql.Rows) (l ListedSubscription, err error) {
	s := &l.Subscription
	var ws int64
	return l, rows.Scan(&ws, integer(&s.ID), integer(&s.Contact), integer(&s.Topic), &s.Frequency, &s.Source, instant{&s.Since}, instant{&s.StartedAt}, instant{&s.EndedAt}, &s.EndReason,
		&s.Covered, &s.StartedBy, &s.EndedBy, &l.ContactExtID, &l.TopicName)
}

// SubscriptionsOf lists the subscriptions of a contact, the newest first.
func (s *Store) SubscriptionsOf(ctx context.Context, f SubscriptionFilter) ([]ListedSubscription, error) {
	before := int64(f.Before)
	if before == 0 {
		before = math.MaxInt64
	}
	return s.subscriptions(ctx, subscriptionsOfContact, int64(f.Contact), before, int64(f.Topic), flag(f.Ended), int64(f.Limit))
}

// Subscriptions lists the subscriptions of a workspace, the newest first. The filter's Contact and Topic are not read.
func (s *Store) Subscriptions(ctx context.Context, ws subject.WorkspaceID, f SubscriptionFilter) ([]ListedSubscription, error) {
	before := int64(f.Before)
	if before == 0 {
		before = math.MaxInt64
	}
	return s.subscriptions(ctx, subscriptionsOfAll, int64(ws), before, flag(f.Ended), int64(f.Limit))
}

// Subscribers lists the subscriptions to a topic that go on, in the order of their contacts, after one.
func (s *Store) Subscribers(ctx context.Context, id subject.TopicID, after subject.ContactID, limit int) ([]ListedSubscription, error) {
	return s.subscriptions(ctx, subscriptionsOfTopic, int64(id), int64(after), int64(limit))
}

func (s *Store) subscriptions(ctx context.Context, text string, args ...any) (list []ListedSubscription, err error) {
	err = s.Read(ctx, func(t *Tx) (err error) {
		list, err = query(t, scanListedSubscription, text, args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	return list, nil
}

// bySubscription orders changes by the rows that they touch.
func bySubscription(a, b topic.Change) int {
	id := func(c topic.Change) topic.SubscriptionID {
		if c.Ended != nil {
			return c.Ended.ID
		}
		return c.Started.ID
	}
	return cmp.Compare(id(a), id(b))
}

// mergeSubscriptions gives the survivors the subscriptions of the contacts that are merged into them, and returns what has changed.
func (t *Tx) mergeSubscriptions(ws subject.WorkspaceID, now time.Time, merged map[subject.ContactID]subject.ContactID) ([]topic.Change, error) {
	if len(merged) == 0 {
		return nil, nil
	}
	contacts := slices.Concat(slices.Collect(maps.Keys(merged)), slices.Collect(maps.Values(merged)))
	of, err := t.EverySubscription(ws, contacts)
	if err != nil {
		return nil, err
	}
	var all, changes []topic.Change
	written := map[subject.ContactID]bool{} // survivors of changes
	write := func() error {
		err := t.writeMerged(ws, changes)
		all, changes = append(all, changes...), nil
		clear(written)
		return err
	}
	newID := func() topic.SubscriptionID { return topic.SubscriptionID(t.s.NewID(now)) }
	for _, id := range slices.Sorted(maps.Keys(merged)) {
		survivor := merged[id]
		if written[survivor] { // what ends now may have begun then
			if err := write(); err != nil {
				return nil, err
			}
		}
		made := topic.Merge(of[id], survivor, of[survivor], newID, now)
		of[survivor] = topic.After(of[survivor], made)
		changes, written[survivor] = append(changes, made...), true
	}
	if err := write(); err != nil {
		return nil, err
	}
	var left []topic.Moved // their survivors have it
	for id := range merged {
		left = append(left, topic.Moved{Contact: id})
	}
	return all, t.ForgetMoved(ws, left)
}

// writeMerged is WriteSubscriptions for survivors.
func (t *Tx) writeMerged(ws subject.WorkspaceID, changes []topic.Change) error {
	if err := t.WriteSubscriptions(ws, changes); err != nil {
		return err
	}
	var beyond rowset
	for _, c := range changes {
		for _, b := range c.Beyond {
			beyond.row().int(int64(ws)).int(int64(c.Started.Contact)).int(int64(c.Started.Topic)).int(c.Started.Covered).int(b.Through).time(b.Since).time(b.Until)
		}
	}
	if _, err := t.exec(coverBeyond, &beyond); err != nil {
		return fmt.Errorf("cover a survivor: %w", err)
	}
	return nil
}

const coverBeyond = `
INSERT INTO covered_ahead (ws, contact_id, topic_id, seq)
SELECT m.ws, r.contact_id, m.topic_id, m.seq
FROM /*ROWS $1 (ws bigint, contact_id bigint, topic_id bigint, seq bigint, through bigint, since bigint, until bigint)*/ AS r CROSS JOIN topic_match AS m
WHERE m.ws = r.ws AND m.topic_id = r.topic_id AND m.seq > r.seq AND m.seq <= r.through AND m.received_at > r.since AND (r.until = 0 OR m.received_at < r.until)
ON CONFLICT DO NOTHING`

const everyOfContact = `
SELECT /*NAMES s (` + subscriptionSpec + `)*/, p.ext_id, t.name
FROM subscription AS s CROSS JOIN contact AS p CROSS JOIN topic AS t
WHERE s.ws = $1 AND s.contact_id = $2 AND p.ws = s.ws AND p.id = s.contact_id AND t.ws = s.ws AND t.id = s.topic_id
ORDER BY s.id`

// SubscriptionsOfContact returns all subscriptions that a contact has or had, the oldest first.
func (t *Tx) SubscriptionsOfContact(ws subject.WorkspaceID, id subject.ContactID) ([]ListedSubscription, error) {
	list, err := query(t, scanListedSubscription, everyOfContact, int64(ws), int64(id))
	if err != nil {
		return nil, fmt.Errorf("read the subscriptions of a contact: %w", err)
	}
	return list, nil
}
