// Package topics makes topics that are data, and the subscriptions of contacts to topics.
//
// A topic is found by its rules or made: two programs that ask for the same rules get one topic. A subscription ends and never begins again; another
// frequency is another one. Who ends a subscription waits for messages in flight, and nothing of the topic leaves after the answer (P5).
package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// nameLength is how much of the hash of its rules names a topic for which its caller gives no name.
const nameLength = 16

// Store is what the package needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	Read(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
}

// Writer makes topics and subscriptions.
type Writer struct {
	store   Store
	topics  *topics.Topics
	catalog *catalog.Catalog
}

// New makes a Writer.
func New(s Store, t *topics.Topics, c *catalog.Catalog) *Writer { return &Writer{s, t, c} }

func invalid(field, message, hint string) *upsert.Error {
	return &upsert.Error{Reason: reason.InvalidTopic, Field: field, Message: message, Hint: hint}
}

// Found is the answer to a request for a topic.
type Found struct {
	Row     store.TopicRow
	Topic   *definition.Topic
	Created bool // false: a topic with these rules existed
}

// Find returns the topic that a program describes, and makes it if there is none: {topic, title, description, match, frequencies}, as a definition writes
// it, and all of it but match optional. The JSON was validated before. A topic is found by its rules, whatever it is called; a name that it is given
// must be free. The error may be an *upsert.Error.
func (w *Writer) Find(ctx context.Context, ws store.Workspace, raw json.RawMessage, now time.Time, once *store.Idempotent[Found]) (Found, error) {
	document, compiled, named, refused := w.read(raw)
	if refused != nil {
		return Found{}, refused
	}
	var found Found
	err := w.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		var err error
		if found, err = w.find(tx, ws.ID, document, compiled, named, now); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, found)
	})
	if err != nil {
		return Found{}, fmt.Errorf("find a topic: %w", err)
	}
	return found, nil
}

// read compiles what a program wrote. A topic without a name is named by its rules.
func (w *Writer) read(raw json.RawMessage) (document string, compiled *definition.Topic, named bool, refused *upsert.Error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var fields map[string]json.RawMessage
	if err := d.Decode(&fields); err != nil || fields == nil {
		return "", nil, false, invalid("", "a topic is a JSON object", `{"title": "…", "match": [{"tags": {"policy": {"any": ["tax"]}}}]}`)
	}
	const head = "topic"
	name := json.RawMessage(`"unnamed"`)
	if given, ok := fields[head]; ok {
		name, named = given, true
	}
	if _, ok := fields["match"]; !ok && !named {
		return "", nil, false, invalid("match", "the topic has no rules", "write match, or a name in topic: items then name the topic")
	}
	write := func(name json.RawMessage) string { // the kind comes first
		var text strings.Builder
		text.WriteString(`{"` + head + `":` + string(name))
		for _, key := range sortedKeys(fields) {
			if key != head {
				text.WriteString("," + quoted(key) + ":" + string(fields[key]))
			}
		}
		return text.String() + "}"
	}
	document = write(name)
	compiled, problems, path := w.topics.Read(document)
	for _, p := range problems {
		if !p.Warning {
			return "", nil, false, invalid(path(p), p.Message, p.Hint)
		}
	}
	if !named {
		compiled.Name = "t-" + compiled.Hash()[:nameLength]
		document = write(json.RawMessage(quoted(compiled.Name)))
	}
	return document, compiled, named, nil
}

func (w *Writer) find(tx *store.Tx, ws subject.WorkspaceID, document string, compiled *definition.Topic, named bool, now time.Time) (Found, error) {
	same, err := tx.TopicByHash(ws, compiled.Hash())
	switch {
	case err == nil && (len(compiled.Match) > 0 || same.Name == compiled.Name):
		return Found{Row: same, Topic: compiled}, w.renew(tx, same, now)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Found{}, err
	}
	stored, err := tx.TopicsByName(ws, []string{compiled.Name})
	if err != nil {
		return Found{}, err
	}
	old, taken := stored[compiled.Name]
	if taken && old.RemovedAt.IsZero() {
		if !named {
			return Found{Row: old, Topic: compiled}, w.renew(tx, old, now)
		}
		return Found{}, invalid("topic", "there is a topic of this name with other rules", "give it another name, or none")
	}
	row := topics.Row(compiled, document, store.TopicData, old, ws, subject.TopicID(w.store.NewID(now)), now)
	return Found{Row: row, Topic: compiled, Created: true}, tx.WriteTopics([]store.TopicRow{row})
}

// renewal is how often the row of a topic is written because a program asks for it.
const renewal = 24 * time.Hour

// renew keeps a topic without subscribers from retention when a program asks for it: somebody is about to subscribe.
func (w *Writer) renew(tx *store.Tx, row store.TopicRow, now time.Time) error {
	if row.Source != store.TopicData || now.Sub(row.UpdatedAt) < renewal {
		return nil
	}
	compiled, problems, _ := w.topics.Read(row.Document)
	if compiled == nil {
		return fmt.Errorf("read topic %q as it is stored: %v", row.Name, problems)
	}
	return tx.WriteTopics([]store.TopicRow{topics.Row(compiled, row.Document, row.Source, row, row.Workspace, row.ID, now)})
}

// Remove removes a topic that a program has made. Items no longer belong to it, and its subscriptions get nothing. store.ErrNotFound: there is none.
func (w *Writer) Remove(ctx context.Context, ws store.Workspace, name string, now time.Time, once *store.Idempotent[store.TopicRow]) (row store.TopicRow, err error) {
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		stored, err := tx.TopicsByName(ws.ID, []string{name})
		if err != nil {
			return err
		}
		old, ok := stored[name]
		switch {
		case !ok || !old.RemovedAt.IsZero():
			return store.ErrNotFound
		case old.Source == store.TopicDefined:
			return invalid("topic", "this topic is a definition", "remove its definition")
		}
		row = old
		row.Version, row.UpdatedAt, row.RemovedAt = old.Version+1, now, now
		if err := tx.WriteTopics([]store.TopicRow{row}); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, row)
	})
	if err != nil {
		return row, fmt.Errorf("remove a topic: %w", err)
	}
	return row, nil
}
