// Package item takes in items: what is published, and told to those who follow its topics.
//
// An item has an id of its caller and, if it is published again, a version. It is stored as an event of the kind item.published, once for each id and
// version, and answered before anything follows from it. The matcher then finds its topics and makes its occasions.
package item

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/strictjson"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Bounds of a call, and of one item.
const (
	MaxBatch = 1000      // items
	MaxItem  = 256 << 10 // bytes of JSON
	MaxDepth = 32        // nested objects and lists
)

// Outcome is what happened to an item.
type Outcome string

// The outcomes.
const (
	Created Outcome = "created"
	Skipped Outcome = "skipped"
	Failed  Outcome = "failed"
)

// Item is one item of a request, or the error for which it was refused.
type Item struct {
	ID      string
	Version string
	Fields  map[string]any
	Err     *upsert.Error
}

func invalid(field, message, hint string) *upsert.Error {
	return &upsert.Error{Reason: reason.InvalidItem, Field: field, Message: message, Hint: hint}
}

// Parse reads one item: an object with an id, and any fields that its texts and rules read. Numbers keep their digits.
func Parse(raw json.RawMessage) Item {
	if len(raw) > MaxItem {
		return Item{Err: &upsert.Error{
			Reason: reason.RequestTooLarge, Message: fmt.Sprintf("the item is larger than %d KiB", MaxItem>>10), Hint: "keep the document elsewhere, and publish its address",
		}}
	}
	value, err := strictjson.Parse(raw, MaxDepth)
	if err != nil {
		return Item{Err: invalid(err.Path, string(err.Kind), "")}
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return Item{Err: invalid("", "an item is a JSON object", `{"id": "…", "title": "…"}`)}
	}
	return Accept(fields)
}

// Accept checks the fields of an item.
func Accept(fields map[string]any) Item {
	item := Item{Fields: fields}
	for _, of := range []struct {
		name string
		to   *string
	}{{topic.FieldID, &item.ID}, {topic.FieldVersion, &item.Version}} {
		switch value := fields[of.name].(type) {
		case nil:
		case string:
			*of.to = value
		case json.Number:
			*of.to = value.String()
		default:
			item.Err = invalid(of.name, "is not a text", "put it in quotes")
			return item
		}
		if *of.to == "" {
			continue
		}
		if problem, hint := subject.CheckName(*of.to); problem != "" {
			item.Err = invalid(of.name, problem, hint)
			return item
		}
	}
	if item.ID == "" {
		item.Err = invalid(topic.FieldID, "the id of the item is missing", "your own id, under which it is published once; give it a version too if it can be published again")
		return item
	}
	if _, _, wrong := topic.ItemOf(fields); wrong != nil {
		item.Err = invalid(wrong.Path, wrong.Message, wrong.Hint)
	}
	return item
}

// Result is the answer to one item.
type Result struct {
	Outcome Outcome
	Reason  reason.Reason
	Error   *upsert.Error
	Event   subject.EventID // the stored item, of this request or of an earlier one; 0: it was refused
}

// Store is what the package needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
}

// Publisher takes in items.
type Publisher struct {
	store   Store
	journal journal.Writer
}

// New makes a Publisher.
func New(s Store, w journal.Writer) *Publisher { return &Publisher{s, w} }

// Publish stores items at now. The results are in the order of the items. An item whose id and version are known is skipped if its fields are the same,
// else refused. An error means that nothing was stored; it is a *store.Replay if once finds that the request was handled before.
func (p *Publisher) Publish(ctx context.Context, ws store.Workspace, items []Item, now time.Time, once *store.Idempotent[[]Result]) ([]Result, error) {
	if len(items) > MaxBatch {
		return nil, fmt.Errorf("a call holds at most %d items, not %d", MaxBatch, len(items))
	}
	var results []Result
	var entries []journal.Entry
	err := p.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		var err error
		if results, entries, err = p.In(tx, ws.ID, items, now); err != nil {
			return err
		}
		if !slices.ContainsFunc(results, func(r Result) bool { return r.Outcome != Failed }) { // refused as a whole: it may be sent again, corrected
			return nil
		}
		return once.Keep(tx, ws.ID, results)
	})
	if err != nil {
		return nil, fmt.Errorf("publish items: %w", err)
	}
	for _, entry := range entries {
		p.journal.Write(entry)
	}
	return results, nil
}

// In is Publish in a transaction. It returns what is to be logged once it is committed.
func (p *Publisher) In(tx *store.Tx, ws subject.WorkspaceID, items []Item, now time.Time) ([]Result, []journal.Entry, error) {
	var refs []store.ItemRef
	hashes := make([]string, len(items))
	for i, item := range items {
		if item.Err != nil {
			continue
		}
		text, err := json.Marshal(item.Fields) // sorts keys
		if err != nil {
			return nil, nil, fmt.Errorf("encode an item: %w", err)
		}
		hashes[i] = key.Hash(string(text))
		refs = append(refs, store.ItemRef{ExtID: item.ID, Version: item.Version})
	}
	known, err := tx.ItemsByRef(ws, refs)
	if err != nil {
		return nil, nil, err
	}
	var rows []store.ItemRow
	var events []store.EventRow
	var entries []journal.Entry
	results := make([]Result, len(items))
	for i, item := range items {
		if item.Err != nil {
			results[i] = Result{Outcome: Failed, Reason: item.Err.Reason, Error: item.Err}
			entries = append(entries, journal.Entry{At: now, What: journal.Rejected, Workspace: ws, Reason: item.Err.Reason, Error: item.Err.Error()})
			continue
		}
		ref := store.ItemRef{ExtID: item.ID, Version: item.Version}
		if old, ok := known[ref]; ok {
			results[i] = again(old, hashes[i])
			continue
		}
		row := store.ItemRow{Workspace: ws, ID: subject.EventID(p.store.NewID(now)), ExtID: item.ID, Version: item.Version, Hash: hashes[i], MatchAt: now}
		event, err := eventOf(item, row.ID, now)
		if err != nil {
			return nil, nil, err
		}
		known[ref] = row
		rows, events = append(rows, row), append(events, event)
		results[i] = Result{Outcome: Created, Event: row.ID}
	}
	return results, entries, tx.WriteItems(ws, rows, events)
}

// again answers an item whose id and version are known.
func again(old store.ItemRow, hash string) Result {
	if old.Hash == hash {
		return Result{Outcome: Skipped, Reason: reason.Duplicate, Event: old.ID}
	}
	what := "this id"
	if old.Version != "" {
		what = "this id and version"
	}
	return Result{Outcome: Failed, Reason: reason.ItemChanged, Event: old.ID, Error: &upsert.Error{
		Reason: reason.ItemChanged, Field: topic.FieldVersion, Message: "an item with " + what + " has been published with other fields", Hint: "give what has changed a version of its own",
	}}
}

// eventOf returns the event that an item is stored as.
func eventOf(item Item, id subject.EventID, now time.Time) (store.EventRow, error) {
	payload, err := json.Marshal(item.Fields)
	if err != nil {
		return store.EventRow{}, fmt.Errorf("encode the item: %w", err)
	}
	ev := subject.Event{ID: id, ExtID: item.ID, Kind: definition.ItemPublished, OccurredAt: now, ReceivedAt: now}
	if item.Version != "" {
		ev.ExtID += "@" + item.Version
	}
	if text, ok := item.Fields[topic.FieldPublishedAt].(string); ok {
		if ev.OccurredAt, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return store.EventRow{}, fmt.Errorf("read the instant of publication: %w", err)
		}
		ev.OccurredAt, ev.OccurredGiven = ev.OccurredAt.UTC().Truncate(time.Microsecond), true
	}
	return store.EventRow{Event: ev, PayloadJSON: string(payload)}, nil
}
