package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// Retention of subscriptions that have ended, and of what nobody subscribes to or with any more.

const (
	subscriptionsOver = `
SELECT s.id FROM subscription AS s
WHERE s.ws = $1 AND s.ended_at > 0 AND s.ended_at < $2 AND (s.ended_by = 0 OR s.ended_at < $4)
ORDER BY s.ended_at, s.id
LIMIT $3`

	// What is covered ahead goes with the last subscription to the topic.
	deleteAheadOfEnded = `
DELETE FROM covered_ahead
WHERE (ws, contact_id, topic_id, seq) IN (SELECT a.ws, a.contact_id, a.topic_id, a.seq
  FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN subscription AS s CROSS JOIN covered_ahead AS a
  WHERE s.ws = r.ws AND s.id = r.id AND a.ws = s.ws AND a.contact_id = s.contact_id AND a.topic_id = s.topic_id
    AND NOT EXISTS (SELECT 1 FROM subscription AS o WHERE o.ws = s.ws AND o.contact_id = s.contact_id AND o.topic_id = s.topic_id
      AND (o.ended_at = 0 OR o.ended_by > 0 AND o.id <> s.id)))`

	deleteSubscriptions = `
DELETE FROM subscription
WHERE (ws, id) IN (SELECT r.ws, r.id FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r) AND ended_at > 0`
)

// retainSubscriptions deletes subscriptions that ended before the cutoff.
func (t *Tx) retainSubscriptions(ws subject.WorkspaceID, before Cutoffs, limit int, r *Retained) (full bool, err error) {
	if before.Subscriptions.IsZero() {
		return false, nil
	}
	found, err := query(t, scanInt, subscriptionsOver, int64(ws), micros(before.Subscriptions), int64(limit), micros(before.Moved))
	if err != nil || len(found) == 0 {
		return false, err
	}
	slices.Sort(found)
	var rows rowset
	for _, id := range found {
		rows.row().int(int64(ws)).int(id)
	}
	if _, err := t.exec(deleteAheadOfEnded, &rows); err != nil {
		return false, err
	}
	n, err := t.exec(deleteSubscriptions, &rows)
	r.Subscriptions += n
	return len(found) == limit, err
}

// withoutBusiness and haveNone around another cutoff, for subscriptions that a run has ended, hold for a contact p that was made for an address, subscribes to
// nothing since the cutoff ($1), waits for no confirmation and has had no message since.
const withoutBusiness = `p.address <> '' AND p.ext_id LIKE '` + subject.MadePrefix + `%' AND p.created_at < $1
    AND NOT EXISTS (SELECT 1 FROM subscription AS s WHERE s.contact_id = p.id AND (s.ended_at = 0 OR s.ended_at >= $1 OR s.ended_by > 0 AND s.ended_at >= `

const haveNone = `))
    AND NOT EXISTS (SELECT 1 FROM subscription_request AS q WHERE q.ws = p.ws AND q.contact_id = p.id)
    AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.ws = p.ws AND d.contact_id = p.id
      AND (d.send_at > 0 OR d.status = ` + sqlScheduled + ` OR d.created_at >= $1 OR d.last_sent_at >= $1))`

const addressesOver = `
SELECT p.id, p.ext_id, CASE WHEN ` + withoutBusiness + `$5` + haveNone + ` THEN 1 ELSE 0 END
FROM contact AS p
WHERE p.ws = $2 AND p.id > $3 AND p.address <> ''
ORDER BY p.id
LIMIT $4`

const blankAddresses = `
UPDATE contact SET address = '', addresses = '', updated_at = $2
WHERE (ws, id) IN (SELECT p.ws, p.id FROM /*ROWS $4 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p
  WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id AND ` + withoutBusiness + `$3` + haveNone + `)`

// retainAddresses blanks addresses. People are read without a lock, and again under it: who signs up, or is sent a message, meanwhile keeps their address.
func (s *Store) retainAddresses(ctx context.Context, ws subject.WorkspaceID, now time.Time, before Cutoffs, c *RetainCursor, limit int, r *Retained) (full bool, err error) {
	if before.Addresses.IsZero() {
		return false, nil
	}
	var over []string
	last, n := c.after, 0
	err = s.Read(ctx, func(t *Tx) error {
		over, last, n = nil, c.after, 0
		_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
			var name string
			var idle bool
			if err = rows.Scan(&last, &name, boolean{&idle}); idle {
				over = append(over, name)
			}
			n++
			return none, err
		}, addressesOver, micros(before.Addresses), int64(ws), c.after, int64(limit), micros(before.Moved))
		return err
	})
	c.after = last
	if err != nil || len(over) == 0 {
		return n == limit, err
	}
	err = s.Write(ctx, func(t *Tx) error {
		if _, err := t.LockContacts(ws, over); err != nil {
			return err
		}
		r.Addresses, err = t.exec(blankAddresses, micros(before.Addresses), micros(now), micros(before.Moved), contactsNamed(ws, over))
		return err
	})
	return n == limit, err
}

const writeAddresses = `
UPDATE contact SET address = r.address
FROM /*ROWS $1 (ws bigint, id bigint, address text)*/ AS r
WHERE contact.ws = r.ws AND contact.id = r.id AND contact.address = ''`

// RestoreAddresses gives people who come back the addresses that were blanked. Their contacts are locked.
func (t *Tx) RestoreAddresses(blank map[delivery.PersonRef]string) error {
	var rows rowset
	for _, ref := range slices.SortedFunc(maps.Keys(blank), comparePersonRef) {
		rows.row().int(int64(ref.Workspace)).int(int64(ref.ID)).text(blank[ref])
	}
	if _, err := t.exec(writeAddresses, &rows); err != nil {
		return fmt.Errorf("restore addresses: %w", err)
	}
	return nil
}

// restoreAddresses is RestoreAddresses for recipients that were found by their address.
func (t *Tx) restoreAddresses(refs []recipient, persons []delivery.Person) error {
	blank := map[delivery.PersonRef]string{}
	for i, r := range refs {
		if p := persons[i]; p.Found && p.Address == "" && r.Create && r.Address != "" && p.ExtID == subject.MadePrefix+r.AddressHash {
			persons[i].Address = r.Address
			blank[delivery.PersonRef{Workspace: r.ws, ID: p.ID}] = r.Address
		}
	}
	return t.RestoreAddresses(blank)
}

// withoutSubscribers holds for a topic t that a program made before the cutoff ($1), and to which nobody subscribes or has subscribed, as far as is known.
const withoutSubscribers = `t.source = 'data' AND t.removed_at = 0 AND t.created_at < $1 AND t.updated_at < $1
    AND NOT EXISTS (SELECT 1 FROM subscription AS s WHERE s.topic_id = t.id AND s.ended_at = 0)
    AND NOT EXISTS (SELECT 1 FROM subscription AS e WHERE e.topic_id = t.id AND e.ended_at > 0)
    AND NOT EXISTS (SELECT 1 FROM subscription_request AS q WHERE q.topic_id = t.id)`

const topicsOver = `
SELECT t.id, CASE WHEN ` + withoutSubscribers + ` THEN 1 ELSE 0 END
FROM topic AS t
WHERE t.ws = $2 AND t.id > $3
ORDER BY t.id
LIMIT $4`

const (
	deleteTopics = `
DELETE FROM topic
WHERE (ws, id) IN (SELECT t.ws, t.id FROM /*ROWS $2 (ws bigint, topic_id bigint)*/ AS r CROSS JOIN topic AS t
  WHERE t.ws = r.ws AND t.id = r.topic_id AND ` + withoutSubscribers + `)
RETURNING id`

	deleteMatchesOfTopics = `
DELETE FROM topic_match
WHERE (ws, topic_id, seq) IN (SELECT m.ws, m.topic_id, m.seq FROM /*ROWS $1 (ws bigint, topic_id bigint)*/ AS r CROSS JOIN topic_match AS m
  WHERE m.ws = r.ws AND m.topic_id = r.topic_id)`
)

// retainTopics deletes topics. It holds the definitions in force as an edit does: nobody subscribes to a topic, and no item is matched with it, meanwhile.
func (s *Store) retainTopics(ctx context.Context, ws subject.WorkspaceID, cutoff time.Time, c *RetainCursor, limit int, r *Retained) (full bool, err error) {
	if cutoff.IsZero() {
		return false, nil
	}
	var over []subject.TopicID
	last, n := c.after, 0
	err = s.Read(ctx, func(t *Tx) error {
		over, last, n = nil, c.after, 0
		_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
			var idle bool
			if err = rows.Scan(&last, boolean{&idle}); idle {
				over = append(over, subject.TopicID(last))
			}
			n++
			return none, err
		}, topicsOver, micros(cutoff), int64(ws), c.after, int64(limit))
		return err
	})
	c.after = last
	if err != nil || len(over) == 0 {
		return n == limit, err
	}
	err = s.Write(ctx, func(t *Tx) error {
		if _, err := t.LockDefinitions(ws); err != nil {
			return err
		}
		gone, err := query(t, scanInt, deleteTopics, micros(cutoff), topicRows(ws, over))
		if err != nil {
			return err
		}
		r.Topics = int64(len(gone))
		deleted := make([]subject.TopicID, len(gone))
		for i, id := range gone {
			deleted[i] = subject.TopicID(id)
		}
		for _, text := range []string{deleteTerms, deleteMatchesOfTopics} {
			if _, err := t.exec(text, topicRows(ws, deleted)); err != nil {
				return err
			}
		}
		return nil
	})
	return n == limit, err
}

func topicRows(ws subject.WorkspaceID, ids []subject.TopicID) *rowset {
	var rows rowset
	for _, id := range slices.Sorted(slices.Values(ids)) {
		rows.row().int(int64(ws)).int(int64(id))
	}
	return &rows
}
