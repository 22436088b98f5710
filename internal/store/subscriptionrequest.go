package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// A subscription to a topic that demands it waits until its contact confirms it. Nothing is sent by it meanwhile. There is one at most of a contact and a topic.

const requestSpec = `ws bigint, id bigint, contact_id bigint, topic_id bigint, frequency text, source text, asked bigint, requested_at bigint, next_at bigint`

func scanRequest(rows *sql.Rows) (r topic.Request, err error) {
	var ws int64
	return r, rows.Scan(&ws, integer(&r.ID), integer(&r.Contact), integer(&r.Topic), &r.Frequency, &r.Source, &r.Asked, instant{&r.RequestedAt}, instant{&r.NextAt})
}

const requestsOf = `
SELECT /*NAMES q (` + requestSpec + `)*/
FROM /*ROWS $1 (ws bigint, contact_id bigint)*/ AS r CROSS JOIN subscription_request AS q
WHERE q.ws = r.ws AND q.contact_id = r.contact_id
ORDER BY q.contact_id, q.topic_id`

// SubscriptionRequests returns the subscriptions of contacts that wait to be confirmed.
func (t *Tx) SubscriptionRequests(ws subject.WorkspaceID, contacts []subject.ContactID) ([]topic.Request, error) {
	var rows rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(contacts))) {
		rows.row().int(int64(ws)).int(int64(id))
	}
	list, err := query(t, scanRequest, requestsOf, &rows)
	if err != nil {
		return nil, fmt.Errorf("read what waits to be confirmed: %w", err)
	}
	return list, nil
}

const dropRequests = `
DELETE FROM subscription_request
WHERE (ws, contact_id, topic_id) IN (SELECT r.ws, r.contact_id, r.topic_id FROM /*ROWS $1 (ws bigint, contact_id bigint, topic_id bigint)*/ AS r)`

const insertRequests = `
INSERT INTO subscription_request (/*NAMES (` + requestSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + requestSpec + `)*/ AS r`

// WriteSubscriptionRequests removes requests of locked contacts, and then writes others.
func (t *Tx) WriteSubscriptionRequests(ws subject.WorkspaceID, removed, written []topic.Request) error {
	order := func(a, b topic.Request) int {
		return cmp.Or(cmp.Compare(a.Contact, b.Contact), cmp.Compare(a.Topic, b.Topic))
	}
	var drop, rows rowset
	for _, q := range slices.SortedFunc(slices.Values(removed), order) {
		drop.row().int(int64(ws)).int(int64(q.Contact)).int(int64(q.Topic))
	}
	for _, q := range slices.SortedFunc(slices.Values(written), order) {
		rows.row().int(int64(ws)).int(int64(q.ID)).int(int64(q.Contact)).int(int64(q.Topic)).text(q.Frequency).text(string(q.Source)).int(int64(q.Asked)).
			time(q.RequestedAt).time(q.NextAt)
		t.due(WorkRequests, dueMicros(q.NextAt))
	}
	if _, err := t.exec(dropRequests, &drop); err != nil {
		return fmt.Errorf("remove what waits to be confirmed: %w", err)
	}
	_, err := t.insert("write what waits to be confirmed", insertRequests, &rows)
	return err
}

const dueRequests = `
SELECT /*NAMES q (` + requestSpec + `)*/
FROM subscription_request AS q
WHERE q.next_at <= $1
ORDER BY q.next_at, q.id
LIMIT $2
/*SKIP LOCKED q*/`

// DueSubscriptionRequests returns the requests, of any workspace, whose contacts are to be asked or whose time is over, up to a limit. They are locked.
func (t *Tx) DueSubscriptionRequests(now time.Time, limit int) (map[subject.WorkspaceID][]topic.Request, error) {
	found := map[subject.WorkspaceID][]topic.Request{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ws int64
		var r topic.Request
		err := rows.Scan(&ws, integer(&r.ID), integer(&r.Contact), integer(&r.Topic), &r.Frequency, &r.Source, &r.Asked, instant{&r.RequestedAt}, instant{&r.NextAt})
		found[subject.WorkspaceID(ws)] = append(found[subject.WorkspaceID(ws)], r)
		return struct{}{}, err
	}, dueRequests, micros(now), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("find what waits to be confirmed: %w", err)
	}
	return found, nil
}

// ListedRequest is a request with the names of its contact and its topic.
type ListedRequest struct {
	topic.Request
	ContactExtID string
	TopicName    string
}

const listRequests = `
SELECT /*NAMES q (` + requestSpec + `)*/, p.ext_id, t.name
FROM subscription_request AS q CROSS JOIN contact AS p CROSS JOIN topic AS t
WHERE q.ws = $1 AND q.contact_id = $2 AND p.ws = q.ws AND p.id = q.contact_id AND t.ws = q.ws AND t.id = q.topic_id
ORDER BY q.id`

// RequestsOfContact returns the subscriptions of a contact that wait to be confirmed, the oldest first.
func (s *Store) RequestsOfContact(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID) (list []ListedRequest, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		list, err = query(t, func(rows *sql.Rows) (l ListedRequest, err error) {
			var ws int64
			return l, rows.Scan(&ws, integer(&l.ID), integer(&l.Contact), integer(&l.Topic), &l.Frequency, &l.Source, &l.Asked, instant{&l.RequestedAt}, instant{&l.NextAt},
				&l.ContactExtID, &l.TopicName)
		}, listRequests, int64(ws), int64(id))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what waits to be confirmed: %w", err)
	}
	return list, nil
}

const mergeRequests = `
UPDATE subscription_request SET contact_id = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE subscription_request.ws = r.ws AND subscription_request.contact_id = r.id
  AND NOT EXISTS (SELECT 1 FROM subscription_request AS x WHERE x.ws = r.ws AND x.contact_id = r.survivor AND x.topic_id = subscription_request.topic_id)`
