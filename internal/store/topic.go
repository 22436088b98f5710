package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Topics are rows, whether they are definitions or made by programs: a subscription and a match name a topic by its id. The row of a defined topic is
// written by the transaction that applies the definition. The table topic_term says which topics an item may belong to, so that no item is held
// against all of them.

// TopicRow is a topic as it is stored.
type TopicRow struct {
	Workspace subject.WorkspaceID
	ID        subject.TopicID
	Name      string
	Source    TopicSource
	Hash      string // of its rules and the frequencies on offer
	Document  string // as a definition writes it
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
	RemovedAt time.Time // zero: it is in use
	Terms     []string  // under which it is filed; written, never read
}

// TopicSource says where a topic comes from.
type TopicSource string

// The sources of topics.
const (
	TopicDefined TopicSource = "definition"
	TopicData    TopicSource = "data"
)

const topicSpec = `ws bigint, id bigint, name text, source text, hash text, document text, version bigint, created_at bigint, updated_at bigint, removed_at bigint`

func scanTopic(rows *sql.Rows) (r TopicRow, err error) {
	return r, rows.Scan(integer(&r.Workspace), integer(&r.ID), &r.Name, &r.Source, &r.Hash, &r.Document, &r.Version, instant{&r.CreatedAt}, instant{&r.UpdatedAt}, instant{&r.RemovedAt})
}

const topicsByName = `
SELECT /*NAMES t (` + topicSpec + `)*/
FROM /*ROWS $1 (ws bigint, name text)*/ AS r CROSS JOIN topic AS t
WHERE t.ws = r.ws AND t.name = r.name`

// TopicsByName returns those of the topics that exist, removed ones too.
func (t *Tx) TopicsByName(ws subject.WorkspaceID, names []string) (map[string]TopicRow, error) {
	found := map[string]TopicRow{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		row, err := scanTopic(rows)
		found[row.Name] = row
		return struct{}{}, err
	}, topicsByName, groupRows(ws, names))
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}
	return found, nil
}

const topicsByHash = `
SELECT /*NAMES t (` + topicSpec + `)*/
FROM topic AS t
WHERE t.hash = $1 AND t.ws = $2 AND t.source = 'data' AND t.removed_at = 0
ORDER BY t.id
LIMIT 1`

// TopicByHash returns the oldest topic made by a program that has these rules. ErrNotFound: there is none.
func (t *Tx) TopicByHash(ws subject.WorkspaceID, hash string) (TopicRow, error) {
	found, err := query(t, scanTopic, topicsByHash, hash, int64(ws))
	switch {
	case err != nil:
		return TopicRow{}, fmt.Errorf("find a topic: %w", err)
	case len(found) == 0:
		return TopicRow{}, ErrNotFound
	}
	return found[0], nil
}

const topicsByTerm = `
SELECT DISTINCT m.term, t.id, t.version
FROM /*ROWS $1 (ws bigint, term text)*/ AS r CROSS JOIN topic_term AS m CROSS JOIN topic AS t
WHERE m.term = r.term AND m.ws = r.ws AND t.ws = m.ws AND t.id = m.topic_id AND t.removed_at = 0`

// TopicRef names a version of a topic.
type TopicRef struct {
	ID      subject.TopicID
	Version int64
}

// TopicsFiled returns the topics that are filed under each of some terms.
func (t *Tx) TopicsFiled(ws subject.WorkspaceID, terms []string) (map[string][]TopicRef, error) {
	var wanted rowset
	for _, term := range slices.Compact(slices.Sorted(slices.Values(terms))) {
		wanted.row().int(int64(ws)).text(term)
	}
	found := map[string][]TopicRef{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var term string
		var ref TopicRef
		err := rows.Scan(&term, integer(&ref.ID), &ref.Version)
		found[term] = append(found[term], ref)
		return struct{}{}, err
	}, topicsByTerm, &wanted)
	if err != nil {
		return nil, fmt.Errorf("find topics: %w", err)
	}
	return found, nil
}

const topicsByID = `
SELECT /*NAMES t (` + topicSpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN topic AS t
WHERE t.ws = r.ws AND t.id = r.id`

// TopicsByID returns those of the topics that exist, removed ones too.
func (t *Tx) TopicsByID(ws subject.WorkspaceID, ids []subject.TopicID) (map[subject.TopicID]TopicRow, error) {
	var wanted rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		wanted.row().int(int64(ws)).int(int64(id))
	}
	found := map[subject.TopicID]TopicRow{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		row, err := scanTopic(rows)
		found[row.ID] = row
		return struct{}{}, err
	}, topicsByID, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}
	return found, nil
}

// The name is the key: another transaction that makes a topic of this name meanwhile makes this one run again.
const insertTopics = `
INSERT INTO topic (/*NAMES (` + topicSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + topicSpec + `)*/ AS r` + unlessThere + ` DO NOTHING`

const updateTopics = `
UPDATE topic SET source = r.source, hash = r.hash, document = r.document, version = r.version, updated_at = r.updated_at, removed_at = r.removed_at
FROM /*ROWS $1 (ws bigint, id bigint, source text, hash text, document text, version bigint, before bigint, updated_at bigint, removed_at bigint)*/ AS r
WHERE topic.ws = r.ws AND topic.id = r.id AND topic.version = r.before`

const deleteTerms = `
DELETE FROM topic_term
WHERE (ws, topic_id) IN (SELECT r.ws, r.topic_id FROM /*ROWS $1 (ws bigint, topic_id bigint)*/ AS r)`

const insertTerms = `
INSERT INTO topic_term (ws, term, topic_id)
SELECT r.* FROM /*ROWS $1 (ws bigint, term text, topic_id bigint)*/ AS r` + unlessThere + ` DO NOTHING`

// WriteTopics writes topics: new ones with version 1, and others as they are after a change that has counted their version up. Their terms are written
// again; a removed topic has none. If a topic was changed or made by another transaction meanwhile, this one runs again.
func (t *Tx) WriteTopics(topics []TopicRow) error {
	topics = slices.SortedFunc(slices.Values(topics), func(a, b TopicRow) int { return cmp.Compare(a.ID, b.ID) })
	var made, changed, refiled, terms rowset
	for _, r := range topics {
		ws, id := int64(r.Workspace), int64(r.ID)
		if r.Version == 1 {
			made.row().int(ws).int(id).text(r.Name).text(string(r.Source)).text(r.Hash).text(r.Document).int(r.Version).time(r.CreatedAt).time(r.UpdatedAt).time(r.RemovedAt)
		} else {
			changed.row().int(ws).int(id).text(string(r.Source)).text(r.Hash).text(r.Document).int(r.Version).int(r.Version - 1).time(r.UpdatedAt).time(r.RemovedAt)
			refiled.row().int(ws).int(id)
		}
		if r.RemovedAt.IsZero() {
			for _, term := range r.Terms {
				terms.row().int(ws).text(term).int(id)
			}
		}
	}
	if err := t.insertNew("make topics", insertTopics, &made); err != nil {
		return err
	}
	n, err := t.exec(updateTopics, &changed)
	if err == nil && n < int64(changed.n) {
		err = ErrAgain
	}
	if err == nil {
		_, err = t.exec(deleteTerms, &refiled)
	}
	if err != nil {
		return fmt.Errorf("change topics: %w", err)
	}
	if _, err := t.insert("file topics", insertTerms, &terms); err != nil {
		return err
	}
	return nil
}

// TopicFilter selects topics.
type TopicFilter struct {
	Source  TopicSource // empty: any
	Removed bool        // removed ones too
	Before  subject.TopicID
	Limit   int
}

const listedTopic = `
SELECT /*NAMES t (` + topicSpec + `)*/, (SELECT COUNT(*) FROM subscription AS s WHERE s.topic_id = t.id AND s.ended_at = 0)
FROM topic AS t
WHERE`

const topicNamed = listedTopic + ` t.name = $1 AND t.ws = $2`

const topicsBefore = listedTopic + ` t.ws = $1 AND t.id < $2 AND ($3 = '' OR t.source = $3) AND (t.removed_at = 0 OR $4 = 1)
ORDER BY t.id DESC
LIMIT $5`

// ListedTopic is a topic with how many people subscribe to it.
type ListedTopic struct {
	TopicRow
	Subscriptions int64
}

func scanListedTopic(rows *sql.Rows) (r ListedTopic, err error) {
	return r, rows.Scan(integer(&r.Workspace), integer(&r.ID), &r.Name, &r.Source, &r.Hash, &r.Document, &r.Version, instant{&r.CreatedAt}, instant{&r.UpdatedAt},
		instant{&r.RemovedAt}, &r.Subscriptions)
}

// Topics lists topics, the newest first.
func (s *Store) Topics(ctx context.Context, ws subject.WorkspaceID, f TopicFilter) ([]ListedTopic, error) {
	before := int64(f.Before)
	if before == 0 {
		before = math.MaxInt64
	}
	var list []ListedTopic
	err := s.Read(ctx, func(t *Tx) (err error) {
		list, err = query(t, scanListedTopic, topicsBefore, int64(ws), before, string(f.Source), flag(f.Removed), int64(f.Limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	return list, nil
}

// Topic returns a topic by its name, a removed one too. ErrNotFound: there is none.
func (s *Store) Topic(ctx context.Context, ws subject.WorkspaceID, name string) (ListedTopic, error) {
	var found []ListedTopic
	err := s.Read(ctx, func(t *Tx) (err error) {
		found, err = query(t, scanListedTopic, topicNamed, name, int64(ws))
		return err
	})
	switch {
	case err != nil:
		return ListedTopic{}, fmt.Errorf("read a topic: %w", err)
	case len(found) == 0:
		return ListedTopic{}, ErrNotFound
	}
	return found[0], nil
}

// TopicsByID returns those of the topics that exist, removed ones too.
func (s *Store) TopicsByID(ctx context.Context, ws subject.WorkspaceID, ids []subject.TopicID) (rows map[subject.TopicID]TopicRow, err error) {
	err = s.ReadBatch(ctx, func(t *Tx) error {
		rows, err = t.TopicsByID(ws, ids)
		return err
	})
	return rows, err
}
