// Package matcher finds the topics of items that were published, and makes the occasions of the triggers that listen to items.
//
//	POST of an item ─▶ event, item ─▶ matcher ─▶ matches, numbered ─▶ instances ─▶ fan-out to those who subscribe to its topics
//
// Invariants:
//   - An item is matched once. The rules of a topic hold for the items that are matched after they were written (R23).
//   - The matches of a workspace are numbered in the order of the commits: one transaction after the other holds the lock of its matcher. So a
//     transaction that sees a number sees all before it.
//   - The matches of an item and its instances are one transaction.
package matcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// page is how many items one transaction matches.
const page = 50

// Store is what the stage needs of the store.
type Store interface {
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
}

// Occasions makes the occasions of stored events in a transaction; package ingest has it.
type Occasions interface {
	Stored(tx *store.Tx, ws store.Workspace, set *definition.Set, events []store.EventRow, now time.Time, calls *expr.Calls) (traces map[subject.EventID]string, entries []journal.Entry, err error)
}

// Matcher is the stage.
type Matcher struct {
	store     Store
	catalog   *catalog.Catalog
	topics    *topics.Topics
	occasions Occasions
	journal   journal.Writer
}

// New makes the stage.
func New(s Store, c *catalog.Catalog, t *topics.Topics, o Occasions, w journal.Writer) *Matcher {
	return &Matcher{s, c, t, o, w}
}

// Step matches the oldest items of a workspace, up to limit, and returns how many.
func (m *Matcher) Step(ctx context.Context, now time.Time, limit int) (n int, more bool, err error) {
	limit = min(limit, page)
	var entries []journal.Entry
	calls := &expr.Calls{}
	err = m.catalog.Supply(ctx, limit, func(limit int) error {
		return m.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) (err error) {
			n, entries, err = m.step(tx, now, limit, calls)
			return err
		})
	})
	if err != nil {
		return 0, false, fmt.Errorf("match items: %w", err)
	}
	for _, entry := range entries {
		m.journal.Write(entry)
	}
	return n, n >= limit, nil
}

func (m *Matcher) step(tx *store.Tx, now time.Time, limit int, calls *expr.Calls) (int, []journal.Entry, error) {
	found, err := tx.ItemsToMatch(now, limit)
	if err != nil || len(found.Items) == 0 {
		return 0, nil, err
	}
	number, err := tx.DefinitionsNumber(found.Workspace)
	if err != nil {
		return 0, nil, err
	}
	ws, err := m.catalog.Workspace(found.Workspace)
	if err != nil {
		return 0, nil, err
	}
	set, err := m.catalog.Loaded(found.Workspace, number)
	if err != nil {
		return 0, nil, err
	}
	refs := make([]store.EventRef, len(found.Items))
	for i, item := range found.Items {
		refs[i] = store.EventRef{Workspace: found.Workspace, ID: item.ID}
	}
	rows, err := tx.EventsByID(refs)
	if err != nil {
		return 0, nil, err
	}
	events := make([]store.EventRow, len(refs))
	for i, ref := range refs {
		events[i] = rows[ref]
	}
	items := read(events)
	known, err := m.candidates(tx, found.Workspace, items)
	if err != nil {
		return 0, nil, err
	}
	meter := &expr.Meter{Calls: calls}
	matches := matchesOf(items, known, plan.Input(set, &definition.Workflow{}, nil, now), meter, found.LastSeq)
	traces, entries, err := m.occasions.Stored(tx, ws.Workspace, set, events, now, calls)
	if err != nil {
		return 0, nil, err
	}
	if err := tx.WriteMatches(found, matches, traces); err != nil {
		return 0, nil, err
	}
	return len(found.Items), entries, tx.CoverExcepted(found.Workspace, exceptedOf(items, matches))
}

// exceptedOf returns the matches that are not for some contacts: no digest tells these.
func exceptedOf(items []published, matches []store.TopicMatch) (list []store.ExceptedMatch) {
	for _, p := range items {
		for _, contact := range p.except {
			for _, m := range matches {
				if m.Item == p.id {
					list = append(list, store.ExceptedMatch{Contact: contact, Topic: m.Topic, Seq: m.Seq})
				}
			}
		}
	}
	return list
}

// published is an item as rules read it.
type published struct {
	id         subject.EventID
	receivedAt time.Time
	item       topic.Item
	names      []string // topics that it names itself
	fields     map[string]any
	except     []string // contacts whom it is not for
}

// read reads the items of events. Their fields were checked when they were published.
func read(events []store.EventRow) []published {
	items := make([]published, len(events))
	for i, ev := range events {
		item, names, _ := topic.ItemOf(ev.Payload)
		items[i] = published{id: ev.ID, receivedAt: ev.ReceivedAt, item: item, names: names, fields: plan.ItemFields(ev.Event), except: topic.ExceptOf(ev.Payload)}
	}
	return items
}

// candidates are the topics to which some items may belong.
type candidates struct {
	byTerm map[string][]subject.TopicID
	byName map[string]subject.TopicID
	topics map[subject.TopicID]*definition.Topic
}

// candidates reads the topics that are filed under a term of an item, and those that an item names.
func (m *Matcher) candidates(tx *store.Tx, ws subject.WorkspaceID, items []published) (candidates, error) {
	c := candidates{byTerm: map[string][]subject.TopicID{}, byName: map[string]subject.TopicID{}, topics: map[subject.TopicID]*definition.Topic{}}
	var terms, names []string
	chosen := map[string]bool{} // terms by which items choose topics, whatever the rules of these
	for _, p := range items {
		terms, names = append(terms, p.item.Terms()...), append(names, p.names...)
		if p.item.To != nil {
			by, of := p.item.To.Needs()
			terms, names = append(terms, by...), append(names, of...)
			for _, term := range by {
				chosen[term] = true
			}
		}
	}
	filed, err := tx.TopicsFiled(ws, terms)
	if err != nil {
		return c, err
	}
	var unknown []subject.TopicID
	for term, refs := range filed {
		for _, ref := range refs {
			c.byTerm[term] = append(c.byTerm[term], ref.ID)
			if _, seen := c.topics[ref.ID]; seen || chosen[term] {
				continue
			}
			if c.topics[ref.ID] = m.topics.Known(topics.Ref{Workspace: ws, TopicRef: ref}); c.topics[ref.ID] == nil {
				unknown = append(unknown, ref.ID)
			}
		}
	}
	rows, err := tx.TopicsByID(ws, unknown)
	if err != nil {
		return c, err
	}
	for id, row := range rows {
		if c.topics[id], err = m.topics.Compiled(row); err != nil {
			return c, err
		}
	}
	named, err := tx.TopicsByName(ws, slices.Compact(slices.Sorted(slices.Values(names))))
	if err != nil {
		return c, err
	}
	for name, row := range named {
		if row.RemovedAt.IsZero() {
			c.byName[name] = row.ID
		}
	}
	return c, nil
}

// of returns the topics that an item belongs to, in the order of their ids.
func (c candidates) of(p published, in expr.Input) []subject.TopicID {
	var ids []subject.TopicID
	for _, name := range p.names {
		if id, ok := c.byName[name]; ok {
			ids = append(ids, id)
		}
	}
	if p.item.To != nil {
		ids = slices.AppendSeq(ids, maps.Keys(topic.Chosen(*p.item.To, c.byTerm, c.byName)))
	}
	in.Item = p.fields
	tried := map[subject.TopicID]bool{}
	for _, term := range p.item.Terms() {
		for _, id := range c.byTerm[term] {
			if !tried[id] {
				tried[id] = true
				if c.topics[id].Fits(p.item, in) {
					ids = append(ids, id)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// matchesOf numbers the matches of items, after the last number that there is.
func matchesOf(items []published, c candidates, in expr.Input, meter *expr.Meter, last int64) []store.TopicMatch {
	in.Meter = meter
	var matches []store.TopicMatch
	for _, p := range items {
		for _, id := range c.of(p, in) {
			last++
			matches = append(matches, store.TopicMatch{Topic: id, Seq: last, Item: p.id, ReceivedAt: p.receivedAt})
		}
	}
	return matches
}
