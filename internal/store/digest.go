package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// What a digest tells is fixed by the intent of its message and kept in the table digest. The result commit moves the covered_through of the
// subscriptions. covered_ahead has the matches beyond it that are covered, too: few, since it takes an item that arrived before another one and was
// matched after it, or one that another message is about to tell.

// MatchesAfter asks for the matches of a topic after a number, of items that arrived at an instant or later.
type MatchesAfter struct {
	Topic subject.TopicID
	Seq   int64
	Since time.Time // none: whenever they arrived
}

const matchesAfter = `
SELECT m.topic_id, m.seq, m.item_id, m.received_at, i.ext_id
FROM /*ROWS $1 (ws bigint, topic_id bigint, seq bigint, since bigint)*/ AS r CROSS JOIN topic_match AS m CROSS JOIN item AS i
WHERE m.ws = r.ws AND m.topic_id = r.topic_id AND m.seq > r.seq AND m.received_at >= r.since AND i.ws = m.ws AND i.id = m.item_id
ORDER BY m.topic_id, m.seq`

// Matches returns the matches that are asked for, those of each topic ascending.
func (t *Tx) Matches(ws subject.WorkspaceID, asked []MatchesAfter) (map[subject.TopicID][]digest.Match, error) {
	var wanted rowset
	for _, a := range asked {
		wanted.row().int(int64(ws)).int(int64(a.Topic)).int(a.Seq).int(micros(a.Since))
	}
	found := map[subject.TopicID][]digest.Match{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var of subject.TopicID
		var m digest.Match
		err := rows.Scan(integer(&of), &m.Seq, integer(&m.Item), instant{&m.ReceivedAt}, &m.Content)
		found[of] = append(found[of], m)
		return struct{}{}, err
	}, matchesAfter, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read matches: %w", err)
	}
	return found, nil
}

const lastMatch = `SELECT m.last_seq FROM matcher AS m WHERE m.ws = $1`

// LastMatch returns the number of the last match of a workspace; 0: there is none.
func (t *Tx) LastMatch(ws subject.WorkspaceID) (int64, error) {
	found, err := query(t, scanInt, lastMatch, int64(ws))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0], nil
}

const unmatchedBefore = `
SELECT e.received_at FROM item AS i CROSS JOIN event AS e
WHERE i.match_at > 0 AND i.ws = $1 AND e.ws = i.ws AND e.id = i.id AND e.received_at < $2
LIMIT 1`

// Unmatched reports whether an item that arrived before an instant has not been held against the topics yet.
func (t *Tx) Unmatched(ws subject.WorkspaceID, before time.Time) (bool, error) {
	found, err := query(t, scanInt, unmatchedBefore, int64(ws), micros(before))
	if err != nil {
		return false, fmt.Errorf("find items without topics: %w", err)
	}
	return len(found) > 0, nil
}

// ItemInstance is an instance that was made because an item was published.
type ItemInstance struct {
	Item              subject.EventID
	ID                instance.ID
	Workflow, Trigger string
	Waits             bool // it has people whom it has not taken up yet
}

const instancesOfItems = `
SELECT n.event_id, n.id, n.workflow, n.trigger, CASE WHEN n.status = ` + sqlPending + ` THEN 1 ELSE 0 END
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN instance AS n
WHERE n.event_id = r.id AND n.ws = r.ws
ORDER BY n.event_id, n.id`

// InstancesOfItems returns the instances that were made because items were published.
func (t *Tx) InstancesOfItems(ws subject.WorkspaceID, items []subject.EventID) (map[subject.EventID][]ItemInstance, error) {
	var wanted rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(items))) {
		wanted.row().int(int64(ws)).int(int64(id))
	}
	found := map[subject.EventID][]ItemInstance{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var i ItemInstance
		err := rows.Scan(integer(&i.Item), integer(&i.ID), &i.Workflow, &i.Trigger, boolean{&i.Waits})
		found[i.Item] = append(found[i.Item], i)
		return struct{}{}, err
	}, instancesOfItems, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read the instances of items: %w", err)
	}
	return found, nil
}

// Pair is an instance and a contact.
type Pair struct {
	Instance instance.ID
	Contact  subject.ContactID
}

const deliveriesOfPairs = `
SELECT d.instance_id, d.contact_id, d.status, d.last_sent_at, d.unknown_since
FROM /*ROWS $1 (instance_id bigint, contact_id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.instance_id = r.instance_id AND d.contact_id = r.contact_id`

// Notified says of each pair that has deliveries whether one of them was sent, or may be.
func (t *Tx) Notified(pairs []Pair) (map[Pair]digest.State, error) {
	var wanted rowset
	for _, p := range pairs {
		wanted.row().int(int64(p.Instance)).int(int64(p.Contact))
	}
	found := map[Pair]digest.State{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var p Pair
		var status delivery.Status
		var sent, unknown time.Time
		err := rows.Scan(integer(&p.Instance), integer(&p.Contact), &status, instant{&sent}, instant{&unknown})
		switch {
		case !sent.IsZero(), status == delivery.Unknown, status.Final() && !unknown.IsZero():
			found[p] = digest.Told
		case !status.Final() && found[p] == digest.New:
			found[p] = digest.Open
		}
		return struct{}{}, err
	}, deliveriesOfPairs, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read deliveries of items: %w", err)
	}
	return found, nil
}

const aheadOf = `
SELECT a.contact_id, a.topic_id, a.seq
FROM /*ROWS $1 (ws bigint, contact_id bigint)*/ AS r CROSS JOIN covered_ahead AS a
WHERE a.ws = r.ws AND a.contact_id = r.contact_id`

// Following is a contact and a topic.
type Following struct {
	Contact subject.ContactID
	Topic   subject.TopicID
}

func contactRows(ws subject.WorkspaceID, contacts []subject.ContactID) *rowset {
	var rows rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(contacts))) {
		rows.row().int(int64(ws)).int(int64(id))
	}
	return &rows
}

// CoveredAhead returns the matches beyond their covered_through for which contacts are covered.
func (t *Tx) CoveredAhead(ws subject.WorkspaceID, contacts []subject.ContactID) (map[Following][]int64, error) {
	found := map[Following][]int64{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var f Following
		var seq int64
		err := rows.Scan(integer(&f.Contact), integer(&f.Topic), &seq)
		found[f] = append(found[f], seq)
		return struct{}{}, err
	}, aheadOf, contactRows(ws, contacts))
	if err != nil {
		return nil, fmt.Errorf("read what contacts are covered for: %w", err)
	}
	return found, nil
}

// DigestRow is what the message of a delivery tells.
type DigestRow struct {
	Workspace subject.WorkspaceID
	Delivery  delivery.ID
	Contact   subject.ContactID
	Open      bool // its outcome is not known
	Contents  digest.Contents
}

// DeliveryRef names a delivery.
type DeliveryRef struct {
	Workspace subject.WorkspaceID
	ID        delivery.ID
}

const digestSpec = `ws bigint, delivery_id bigint, contact_id bigint, open bigint, contents text`

func scanDigest(rows *sql.Rows) (d DigestRow, err error) {
	var contents string
	if err := rows.Scan(integer(&d.Workspace), integer(&d.Delivery), integer(&d.Contact), boolean{&d.Open}, &contents); err != nil {
		return d, err
	}
	if err := json.Unmarshal([]byte(contents), &d.Contents); err != nil {
		return d, fmt.Errorf("read the contents of a digest: %w", err)
	}
	return d, nil
}

const openDigests = `
SELECT /*NAMES d (` + digestSpec + `)*/
FROM /*ROWS $1 (ws bigint, contact_id bigint)*/ AS r CROSS JOIN digest AS d CROSS JOIN delivery AS v
WHERE d.ws = r.ws AND d.contact_id = r.contact_id AND d.open = 1 AND v.ws = d.ws AND v.id = d.delivery_id AND v.status = ` + sqlScheduled

// OpenDigests returns the digests of contacts that are being sent, or will be tried again.
func (t *Tx) OpenDigests(ws subject.WorkspaceID, contacts []subject.ContactID) ([]DigestRow, error) {
	found, err := query(t, scanDigest, openDigests, contactRows(ws, contacts))
	if err != nil {
		return nil, fmt.Errorf("read open digests: %w", err)
	}
	return found, nil
}

const digestsByID = `
SELECT /*NAMES d (` + digestSpec + `)*/
FROM /*ROWS $1 (ws bigint, delivery_id bigint)*/ AS r CROSS JOIN digest AS d
WHERE d.ws = r.ws AND d.delivery_id = r.delivery_id`

// Digests returns what the messages of deliveries tell, of those whose contents are fixed.
func (t *Tx) Digests(refs []DeliveryRef) (map[delivery.ID]DigestRow, error) {
	var wanted rowset
	for _, ref := range refs {
		wanted.row().int(int64(ref.Workspace)).int(int64(ref.ID))
	}
	list, err := query(t, scanDigest, digestsByID, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read digests: %w", err)
	}
	found := make(map[delivery.ID]DigestRow, len(list))
	for _, d := range list {
		found[d.Delivery] = d
	}
	return found, nil
}

const writeDigests = `
INSERT INTO digest (/*NAMES (` + digestSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + digestSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, delivery_id) DO UPDATE SET open = excluded.open, contents = excluded.contents`

// It names no state, although only open digests are closed: PostgreSQL would go through all that are open, by their index, for each row.
const closeDigests = `
UPDATE digest SET open = 0
FROM /*ROWS $1 (ws bigint, delivery_id bigint)*/ AS r
WHERE digest.ws = r.ws AND digest.delivery_id = r.delivery_id`

// WriteDigests fixes what messages tell, before they leave.
func (t *Tx) WriteDigests(list []DigestRow) error {
	var rows rowset
	for _, d := range slices.SortedFunc(slices.Values(list), func(a, b DigestRow) int {
		return compareDeliveryRef(deliveryRef{a.Workspace, a.Delivery}, deliveryRef{b.Workspace, b.Delivery})
	}) {
		text, err := json.Marshal(d.Contents)
		if err != nil {
			return fmt.Errorf("write the contents of a digest: %w", err)
		}
		rows.row().int(int64(d.Workspace)).int(int64(d.Delivery)).int(int64(d.Contact)).int(flag(d.Open)).text(string(text))
	}
	_, err := t.exec(writeDigests, &rows)
	if err != nil {
		return fmt.Errorf("write digests: %w", err)
	}
	return nil
}

// CloseDigests notes that the outcome of messages is known.
func (t *Tx) CloseDigests(refs []DeliveryRef) error {
	var rows rowset
	for _, ref := range slices.SortedFunc(slices.Values(refs), func(a, b DeliveryRef) int {
		return compareDeliveryRef(deliveryRef{a.Workspace, a.ID}, deliveryRef{b.Workspace, b.ID})
	}) {
		rows.row().int(int64(ref.Workspace)).int(int64(ref.ID))
	}
	if _, err := t.exec(closeDigests, &rows); err != nil {
		return fmt.Errorf("close digests: %w", err)
	}
	return nil
}

// CoveredRow is how far a contact is covered in a topic.
type CoveredRow struct {
	Workspace subject.WorkspaceID
	Contact   subject.ContactID
	digest.Covered
}

const moveCovered = `
UPDATE subscription SET covered_through = r.through
FROM /*ROWS $1 (ws bigint, contact_id bigint, topic_id bigint, through bigint)*/ AS r
WHERE subscription.ws = r.ws AND subscription.contact_id = r.contact_id AND subscription.topic_id = r.topic_id AND subscription.ended_at = 0
  AND subscription.covered_through < r.through`

// Of what a run has ended: digests have what was published before.
const moveCoveredOfMoved = `
UPDATE subscription SET covered_through = r.through
FROM /*ROWS $1 (ws bigint, contact_id bigint, topic_id bigint, through bigint)*/ AS r
WHERE subscription.ws = r.ws AND subscription.contact_id = r.contact_id AND subscription.topic_id = r.topic_id AND subscription.ended_by > 0
  AND subscription.covered_through < r.through`

const insertAhead = `
INSERT INTO covered_ahead (ws, contact_id, topic_id, seq)
SELECT r.* FROM /*ROWS $1 (ws bigint, contact_id bigint, topic_id bigint, seq bigint)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const deletePassedAhead = `
DELETE FROM covered_ahead
WHERE (ws, contact_id, topic_id, seq) IN (
  SELECT a.ws, a.contact_id, a.topic_id, a.seq
  FROM /*ROWS $1 (ws bigint, contact_id bigint, topic_id bigint, through bigint)*/ AS r CROSS JOIN covered_ahead AS a
  WHERE a.ws = r.ws AND a.contact_id = r.contact_id AND a.topic_id = r.topic_id AND a.seq <= r.through)`

// MoveCovered moves the covered_through of contacts ahead, never back.
func (t *Tx) MoveCovered(list []CoveredRow) error {
	if len(list) == 0 {
		return nil
	}
	type ref struct {
		ws subject.WorkspaceID
		Following
	}
	through, ahead := map[ref]int64{}, map[ref][]int64{}
	for _, c := range list {
		at := ref{c.Workspace, Following{c.Contact, c.Topic}}
		through[at] = max(through[at], c.Through)
		ahead[at] = append(ahead[at], c.Ahead...)
	}
	order := slices.SortedFunc(maps.Keys(through), func(a, b ref) int {
		return compareInts(int64(a.ws), int64(b.ws), int64(a.Contact), int64(b.Contact), int64(a.Topic), int64(b.Topic))
	})
	var moved, beyond rowset
	for _, at := range order {
		moved.row().int(int64(at.ws)).int(int64(at.Contact)).int(int64(at.Topic)).int(through[at])
		for _, seq := range slices.Compact(slices.Sorted(slices.Values(ahead[at]))) {
			if seq > through[at] {
				beyond.row().int(int64(at.ws)).int(int64(at.Contact)).int(int64(at.Topic)).int(seq)
			}
		}
	}
	if _, err := t.exec(moveCovered, &moved); err != nil {
		return fmt.Errorf("move covered_through: %w", err)
	}
	if _, err := t.exec(moveCoveredOfMoved, &moved); err != nil {
		return fmt.Errorf("move covered_through: %w", err)
	}
	if _, err := t.exec(insertAhead, &beyond); err != nil {
		return fmt.Errorf("write what is covered ahead: %w", err)
	}
	if _, err := t.exec(deletePassedAhead, &moved); err != nil {
		return fmt.Errorf("forget what is covered: %w", err)
	}
	return nil
}

// compareInts compares pairs of numbers, the first pair that differs.
func compareInts(pairs ...int64) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		switch {
		case pairs[i] < pairs[i+1]:
			return -1
		case pairs[i] > pairs[i+1]:
			return 1
		}
	}
	return 0
}

// Items whose messages are not made, or wait: a contact who gets each item at once has not got them yet. Instances that wait are few, and so are the
// deliveries of one contact that do.
const waitingMatches = `
SELECT r.contact_id, r.topic_id, MIN(m.seq)
FROM /*ROWS $2 (ws bigint, contact_id bigint, topic_id bigint)*/ AS r CROSS JOIN topic_match AS m CROSS JOIN instance AS n
WHERE m.ws = r.ws AND m.topic_id = r.topic_id AND n.event_id = m.item_id AND n.ws = r.ws AND (n.status = ` + sqlPending + ` OR EXISTS (
  SELECT 1 FROM delivery AS d WHERE d.instance_id = n.id AND d.contact_id = r.contact_id AND d.status = ` + sqlScheduled + `))
  AND m.seq > (SELECT s.covered_through FROM subscription AS s
    WHERE s.ws = r.ws AND s.contact_id = r.contact_id AND s.topic_id = r.topic_id AND s.ended_at = 0)
  AND m.received_at >= $1
GROUP BY r.contact_id, r.topic_id`

// What a person had not got yet when they began to get each item at once, and has not got by now.
const restMatches = `
SELECT s.contact_id, s.topic_id, MIN(m.seq)
FROM /*ROWS $2 (ws bigint, contact_id bigint, topic_id bigint)*/ AS r CROSS JOIN subscription AS s CROSS JOIN topic_match AS m
WHERE s.ws = r.ws AND s.contact_id = r.contact_id AND s.topic_id = r.topic_id AND s.ended_at = 0
  AND m.ws = s.ws AND m.topic_id = s.topic_id AND m.seq > s.covered_through
  AND m.received_at < s.started_at AND m.received_at >= s.since AND m.received_at >= $1
GROUP BY s.contact_id, s.topic_id`

// WaitingMatches returns, for each of those who get items at once, the first match that they have not got yet. What arrived before an instant is not
// looked at any more.
func (t *Tx) WaitingMatches(ws subject.WorkspaceID, of []Following, since time.Time) (map[Following]int64, error) {
	var wanted rowset
	for _, f := range slices.SortedFunc(slices.Values(of), func(a, b Following) int {
		return compareInts(int64(a.Contact), int64(b.Contact), int64(a.Topic), int64(b.Topic))
	}) {
		wanted.row().int(int64(ws)).int(int64(f.Contact)).int(int64(f.Topic))
	}
	found := map[Following]int64{}
	first := func(rows *sql.Rows) (struct{}, error) {
		var f Following
		var seq int64
		err := rows.Scan(integer(&f.Contact), integer(&f.Topic), &seq)
		if before, ok := found[f]; !ok || seq < before {
			found[f] = seq
		}
		return struct{}{}, err
	}
	for _, text := range []string{waitingMatches, restMatches} {
		if _, err := query(t, first, text, micros(since), &wanted); err != nil {
			return nil, fmt.Errorf("find items that wait: %w", err)
		}
	}
	return found, nil
}

const openRun = `SELECT 1 FROM digest_run AS d WHERE d.expanded_at > 0 AND d.over_at = 0 LIMIT 1`

// HasOpenRuns reports whether there are runs of digests with deliveries that may not be over.
func (s *Store) HasOpenRuns(ctx context.Context) (yes bool, err error) {
	err = s.ReadBatch(ctx, func(t *Tx) error {
		found, err := query(t, scanInt, openRun)
		yes = len(found) > 0
		return err
	})
	return yes, err
}
