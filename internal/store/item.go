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

// An item is an event with an id and a version of the caller's. It waits until the matcher has found its topics.

// ItemRow is what is known of an item besides its event.
type ItemRow struct {
	Workspace subject.WorkspaceID
	ID        subject.EventID
	ExtID     string
	Version   string    // as the caller names it; may be empty
	Hash      string    // of its fields
	MatchAt   time.Time // since when its topics are to be found; zero: they were found
}

const itemSpec = `ws bigint, id bigint, ext_id text, edition text, hash text, match_at bigint`

func scanItem(rows *sql.Rows) (i ItemRow, err error) {
	return i, rows.Scan(integer(&i.Workspace), integer(&i.ID), &i.ExtID, &i.Version, &i.Hash, instant{&i.MatchAt})
}

// ItemRef names an item as its caller does.
type ItemRef struct{ ExtID, Version string }

const itemsByRef = `
SELECT /*NAMES i (` + itemSpec + `)*/
FROM /*ROWS $1 (ws bigint, ext_id text, edition text)*/ AS r CROSS JOIN item AS i
WHERE i.ws = r.ws AND i.ext_id = r.ext_id AND i.edition = r.edition`

// ItemsByRef returns those of the items that exist.
func (t *Tx) ItemsByRef(ws subject.WorkspaceID, refs []ItemRef) (map[ItemRef]ItemRow, error) {
	var wanted rowset
	seen := map[ItemRef]bool{}
	for _, ref := range refs {
		if !seen[ref] {
			seen[ref] = true
			wanted.row().int(int64(ws)).text(ref.ExtID).text(ref.Version)
		}
	}
	found := map[ItemRef]ItemRow{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		item, err := scanItem(rows)
		found[ItemRef{item.ExtID, item.Version}] = item
		return struct{}{}, err
	}, itemsByRef, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read items: %w", err)
	}
	return found, nil
}

const insertItems = `
INSERT INTO item (/*NAMES (` + itemSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + itemSpec + `)*/ AS r` + unlessThere + ` DO NOTHING`

// WriteItems writes items with their events. If another transaction has written one of them meanwhile, this one runs again.
func (t *Tx) WriteItems(ws subject.WorkspaceID, items []ItemRow, events []EventRow) error {
	var rows rowset
	for _, i := range slices.SortedFunc(slices.Values(items), func(a, b ItemRow) int {
		return cmp.Or(cmp.Compare(a.ExtID, b.ExtID), cmp.Compare(a.Version, b.Version))
	}) {
		rows.row().int(int64(ws)).int(int64(i.ID)).text(i.ExtID).text(i.Version).text(i.Hash).time(i.MatchAt)
		t.due(WorkItems, dueMicros(i.MatchAt))
	}
	if err := t.insertNew("publish items", insertItems, &rows); err != nil {
		return err
	}
	return t.insertEvents(ws, events)
}

const nextToMatch = `
SELECT i.ws FROM item AS i
WHERE i.match_at > 0 AND i.match_at <= $1
ORDER BY i.match_at, i.id
LIMIT 1`

const makeMatcher = `
INSERT INTO matcher (ws, last_seq)
SELECT r.ws, r.last_seq FROM /*ROWS $1 (ws bigint, last_seq bigint)*/ AS r
WHERE true
ON CONFLICT DO NOTHING`

const lockMatcher = `
SELECT m.last_seq FROM matcher AS m
WHERE m.ws = $1
/*LOCK m*/`

const toMatch = `
SELECT /*NAMES i (` + itemSpec + `)*/
FROM item AS i
WHERE i.match_at > 0 AND i.match_at <= $1 AND i.ws = $2
ORDER BY i.match_at, i.id
LIMIT $3`

// Matching is the items of a workspace whose topics a transaction finds. It holds the lock of the workspace's matcher: matches are numbered in the order
// of the commits.
type Matching struct {
	Workspace subject.WorkspaceID
	Items     []ItemRow // in the order of their arrival
	LastSeq   int64     // the last number that a match has
}

// ItemsToMatch returns the oldest items whose topics are to be found, of one workspace, up to a limit. None: there are no such items.
func (t *Tx) ItemsToMatch(now time.Time, limit int) (Matching, error) {
	next, err := query(t, scanInt, nextToMatch, micros(now))
	if err != nil {
		return Matching{}, fmt.Errorf("find items: %w", err)
	}
	if len(next) == 0 {
		return Matching{}, nil
	}
	m := Matching{Workspace: subject.WorkspaceID(next[0])}
	var row rowset
	row.row().int(next[0]).int(0)
	if _, err := t.exec(makeMatcher, &row); err != nil {
		return Matching{}, fmt.Errorf("make the matcher: %w", err)
	}
	last, err := query(t, scanInt, lockMatcher, next[0])
	if err == nil {
		m.LastSeq = last[0]
		m.Items, err = query(t, scanItem, toMatch, micros(now), next[0], int64(limit)) // after the lock: another matcher may have found them
	}
	if err != nil {
		return Matching{}, fmt.Errorf("lock the matcher: %w", err)
	}
	return m, nil
}

// TopicMatch says that an item belongs to a topic.
type TopicMatch struct {
	Topic subject.TopicID
	Seq   int64 // ascending in the order of the commits, over the workspace
	Item  subject.EventID
	// ReceivedAt is when the item arrived.
	ReceivedAt time.Time
}

const insertMatches = `
INSERT INTO topic_match (ws, topic_id, seq, item_id, received_at)
SELECT r.* FROM /*ROWS $1 (ws bigint, topic_id bigint, seq bigint, item_id bigint, received_at bigint)*/ AS r`

const itemsMatched = `
UPDATE item SET match_at = 0
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r
WHERE item.ws = r.ws AND item.id = r.id AND item.match_at > 0`

const matcherAt = `
UPDATE matcher SET last_seq = r.last_seq
FROM /*ROWS $1 (ws bigint, last_seq bigint)*/ AS r
WHERE matcher.ws = r.ws`

const traceEvents = `
UPDATE event SET trace = r.trace
FROM /*ROWS $1 (ws bigint, id bigint, trace text)*/ AS r
WHERE event.ws = r.ws AND event.id = r.id`

// WriteMatches writes the topics of the items of a Matching, and how the triggers evaluated each of them.
func (t *Tx) WriteMatches(m Matching, matches []TopicMatch, traces map[subject.EventID]string) error {
	var rows, done, at, traced rowset
	ws := int64(m.Workspace)
	for _, match := range matches {
		rows.row().int(ws).int(int64(match.Topic)).int(match.Seq).int(int64(match.Item)).time(match.ReceivedAt)
		m.LastSeq = max(m.LastSeq, match.Seq)
	}
	for _, item := range m.Items {
		done.row().int(ws).int(int64(item.ID))
	}
	at.row().int(ws).int(m.LastSeq)
	for _, id := range slices.Sorted(maps.Keys(traces)) {
		traced.row().int(ws).int(int64(id)).text(traces[id])
	}
	if _, err := t.insert("write matches", insertMatches, &rows); err != nil {
		return err
	}
	if err := t.updateAll("write what was matched", itemsMatched, &done); err != nil {
		return err
	}
	if err := t.updateAll("write what was matched", matcherAt, &at); err != nil {
		return err
	}
	return t.updateAll("write what was matched", traceEvents, &traced)
}

// ExceptedMatch is a match that is not for a contact, who may follow its topic.
type ExceptedMatch struct {
	Contact string // their id
	Topic   subject.TopicID
	Seq     int64
}

const coverExcepted = `
INSERT INTO covered_ahead (ws, contact_id, topic_id, seq)
SELECT s.ws, s.contact_id, s.topic_id, r.seq
FROM /*ROWS $1 (ws bigint, ext_id text, topic_id bigint, seq bigint)*/ AS r CROSS JOIN contact AS p CROSS JOIN cadence AS c CROSS JOIN subscription AS s
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id AND c.ws = p.ws AND c.contact_id = p.id
  AND s.ws = p.ws AND s.contact_id = CASE WHEN c.merged_into > 0 THEN c.merged_into ELSE p.id END AND s.topic_id = r.topic_id AND (s.ended_at = 0 OR s.ended_by > 0)
ON CONFLICT DO NOTHING`

// CoverExcepted covers contacts for matches that are not for them.
func (t *Tx) CoverExcepted(ws subject.WorkspaceID, list []ExceptedMatch) error {
	var rows rowset
	for _, m := range list {
		rows.row().int(int64(ws)).text(m.Contact).int(int64(m.Topic)).int(m.Seq)
	}
	if _, err := t.exec(coverExcepted, &rows); err != nil {
		return fmt.Errorf("cover who is left out: %w", err)
	}
	return nil
}

const topicsOfItems = `
SELECT m.item_id, m.topic_id, m.received_at
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN topic_match AS m
WHERE m.ws = r.ws AND m.item_id = r.id
ORDER BY m.item_id, m.topic_id`

// TopicsOfItems returns the topics that items belong to.
func (t *Tx) TopicsOfItems(items []EventRef) (map[EventRef]topic.Meant, error) {
	var wanted rowset
	of := map[subject.EventID]EventRef{}
	for _, ref := range items {
		if _, known := of[ref.ID]; !known {
			of[ref.ID] = ref
			wanted.row().int(int64(ref.Workspace)).int(int64(ref.ID))
		}
	}
	found := map[EventRef]topic.Meant{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var id subject.EventID
		var belongs subject.TopicID
		var arrived time.Time
		err := rows.Scan(integer(&id), integer(&belongs), instant{&arrived})
		found[of[id]] = topic.Meant{Topics: append(found[of[id]].Topics, belongs), Arrived: arrived}
		return struct{}{}, err
	}, topicsOfItems, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read the topics of items: %w", err)
	}
	return found, nil
}

// ReadItem is an item with its event and the names of its topics.
type ReadItem struct {
	ItemRow
	Event  EventRow
	Topics []string // sorted
	Seq    int64    // of its match with the topic whose items are listed
}

// ItemFilter selects items.
type ItemFilter struct {
	Topic  subject.TopicID // those of this topic, by their matches; 0: all, by their ids
	Before int64           // an id, or with a topic a Seq; 0: from the newest on
	Limit  int
}

const itemsBefore = `
SELECT /*NAMES i (` + itemSpec + `)*/, 0
FROM item AS i
WHERE i.ws = $1 AND i.id < $2
ORDER BY i.id DESC
LIMIT $3`

const itemsOfTopic = `
SELECT /*NAMES i (` + itemSpec + `)*/, m.seq
FROM topic_match AS m CROSS JOIN item AS i
WHERE m.ws = $1 AND m.topic_id = $4 AND m.seq < $2 AND i.ws = m.ws AND i.id = m.item_id
ORDER BY m.seq DESC
LIMIT $3`

// Items lists items, the newest first.
func (s *Store) Items(ctx context.Context, ws subject.WorkspaceID, f ItemFilter) (list []ReadItem, err error) {
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}
	text, args := itemsBefore, []any{int64(ws), f.Before, int64(f.Limit)}
	if f.Topic != 0 {
		text, args = itemsOfTopic, append(args, int64(f.Topic))
	}
	err = s.Read(ctx, func(t *Tx) error {
		list, err = query(t, func(rows *sql.Rows) (i ReadItem, err error) {
			return i, rows.Scan(integer(&i.Workspace), integer(&i.ID), &i.ExtID, &i.Version, &i.Hash, instant{&i.MatchAt}, &i.Seq)
		}, text, args...)
		if err != nil {
			return err
		}
		return t.completeItems(ws, list)
	})
	if err != nil {
		return nil, fmt.Errorf("list items: %w", err)
	}
	return list, nil
}

// completeItems reads the events and the topics of items.
func (t *Tx) completeItems(ws subject.WorkspaceID, list []ReadItem) error {
	refs := make([]EventRef, len(list))
	for i, item := range list {
		refs[i] = EventRef{ws, item.ID}
	}
	events, err := t.EventsByID(refs)
	if err != nil {
		return err
	}
	of, err := t.TopicsOfItems(refs)
	if err != nil {
		return err
	}
	var ids []subject.TopicID
	for _, some := range of {
		ids = append(ids, some.Topics...)
	}
	slices.Sort(ids)
	topics, err := t.TopicsByID(ws, slices.Compact(ids))
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Event = events[refs[i]]
		for _, id := range of[refs[i]].Topics {
			list[i].Topics = append(list[i].Topics, topics[id].Name)
		}
		slices.Sort(list[i].Topics)
	}
	return nil
}

const namesOfTopics = `
SELECT t.name FROM topic_match AS m CROSS JOIN topic AS t
WHERE m.ws = $1 AND m.item_id = $2 AND t.ws = m.ws AND t.id = m.topic_id
ORDER BY t.name`

// Item returns an item. ErrNotFound: there is none of this id and version.
func (s *Store) Item(ctx context.Context, ws subject.WorkspaceID, ref ItemRef) (item ReadItem, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		found, err := t.ItemsByRef(ws, []ItemRef{ref})
		if err != nil {
			return err
		}
		row, ok := found[ref]
		if !ok {
			return ErrNotFound
		}
		of := EventRef{ws, row.ID}
		events, err := t.EventsByID([]EventRef{of})
		if err != nil {
			return err
		}
		item.ItemRow, item.Event = row, events[of]
		item.Topics, err = query(t, func(rows *sql.Rows) (name string, err error) { return name, rows.Scan(&name) }, namesOfTopics, int64(ws), int64(row.ID))
		return err
	})
	if err != nil {
		return item, fmt.Errorf("read an item: %w", err)
	}
	return item, nil
}
