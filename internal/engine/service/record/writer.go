package record

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Store is what the package needs of the store.
type Store interface {
	Write(ctx context.Context, work func(*store.Tx) error) error
	KnownContacts(ctx context.Context, ws subject.WorkspaceID, ids []string) (map[string]bool, error)
}

// Definitions returns the set in force; a catalog implements it.
type Definitions interface {
	Current(ctx context.Context, ws subject.WorkspaceID) (*definition.Set, error)
}

// Writer writes records.
type Writer struct {
	store       Store
	definitions Definitions
}

// New makes a Writer.
func New(s Store, d Definitions) *Writer { return &Writer{store: s, definitions: d} }

// Mode is how an item applies to a record that exists, and to one that does not.
type Mode string

// The modes.
const (
	Merge   Mode = "merge"   // change what is mentioned; make the record if there is none
	Replace Mode = "replace" // remove what is not mentioned; make the record if there is none
	Change  Mode = "change"  // change what is mentioned; a record that does not exist is not found
	Delete  Mode = "delete"  // remove the fields and keep the row; a record that does not exist is not found
)

// Outcome is what happened to an item.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Changed   Outcome = "changed"
	Unchanged Outcome = "unchanged"
	Deleted   Outcome = "deleted"
	Failed    Outcome = "failed"
)

// Result is the answer to one item. Record is the record as it is now, and Warnings are about all of its fields.
type Result struct {
	Outcome  Outcome
	Error    *Error
	Record   store.RecordRow
	Warnings []Warning
}

// Write writes the items of a call by actor in one transaction. The results are in the order of the items; an item sees the changes of the earlier
// ones. An item that changes nothing is not written. store.ErrNotFound is for Change and Delete alone.
func (k *Writer) Write(
	ctx context.Context, ws store.Workspace, mode Mode, items []Item, actor string, now time.Time, once *store.Idempotent[[]Result],
) ([]Result, error) {
	if len(items) > MaxBatch {
		return nil, fmt.Errorf("a batch holds at most %d records, not %d", MaxBatch, len(items))
	}
	set, err := k.definitions.Current(ctx, ws.ID)
	if err != nil {
		return nil, fmt.Errorf("read the types of records: %w", err)
	}
	items = slices.Clone(items)
	var refs []subject.RecordRef
	for i := range items {
		item := &items[i]
		if item.Err == nil {
			item.Err = fits(set.RecordType(item.Type), item.Props)
		}
		if item.Err == nil {
			refs = append(refs, item.Ref())
		}
	}
	now = now.Truncate(time.Microsecond) // with the precision of the store
	var results []Result
	err = k.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		known, err := tx.LockRecords(ws.ID, refs)
		if err != nil {
			return err
		}
		w := newWriting(set, mode, actor, now, known)
		if results, err = w.all(items); err != nil {
			return err
		}
		writes, across := w.writes()
		if err := tx.WriteRecords(ws.ID, now, writes, across); err != nil {
			return err
		}
		named, err := tx.KnownContacts(ws.ID, w.contacts(results))
		if err != nil {
			return err
		}
		w.warn(results, named)
		return once.Keep(tx, ws.ID, results)
	})
	if err != nil {
		return nil, fmt.Errorf("write records: %w", err)
	}
	return results, nil
}

// writing is the decision about the items of a call.
type writing struct {
	set    *definition.Set
	mode   Mode
	actor  string
	now    time.Time
	before map[subject.RecordRef]store.RecordRow // as stored
	after  map[subject.RecordRef]store.RecordRow
	named  map[subject.RecordRef]bool
}

func newWriting(set *definition.Set, mode Mode, actor string, now time.Time, known map[subject.RecordRef]store.RecordRow) *writing {
	return &writing{set: set, mode: mode, actor: actor, now: now, before: known, after: maps.Clone(known), named: map[subject.RecordRef]bool{}}
}

func (w *writing) all(items []Item) ([]Result, error) {
	results := make([]Result, len(items))
	for i, item := range items {
		if item.Err != nil {
			results[i] = Result{Outcome: Failed, Error: item.Err}
			continue
		}
		old := w.after[item.Ref()]
		there := old.Rev > 0 && !old.Deleted
		if !there && (w.mode == Change || w.mode == Delete) {
			return nil, store.ErrNotFound
		}
		next, err := w.apply(old, item)
		switch {
		case err != nil:
			results[i] = Result{Outcome: Failed, Error: err}
			continue
		case there && old.Unreadable == nil && same(old.Record, next.Record):
			results[i] = Result{Outcome: Unchanged, Record: old}
			continue
		case w.mode == Delete:
			results[i].Outcome = Deleted
		case there:
			results[i].Outcome = Changed
		default:
			results[i].Outcome = Created
		}
		// As the store will count it: one write for all items about a record in a call.
		next.Rev, next.UpdatedAt, next.ModifiedBy = w.before[item.Ref()].Rev+1, w.now, w.actor
		if next.CreatedAt.IsZero() {
			next.CreatedAt = w.now
		}
		w.after[item.Ref()], w.named[item.Ref()] = next, true
		results[i].Record = next
	}
	return results, nil
}

// apply returns the record after the item.
func (w *writing) apply(old store.RecordRow, item Item) (store.RecordRow, *Error) {
	next := old
	next.Type, next.ExtID, next.Deleted = item.Type, item.ID, w.mode == Delete
	props := maps.Clone(old.Props)
	switch {
	case w.mode == Replace || w.mode == Delete || old.Deleted:
		props, next.Closed, next.Unreadable = nil, false, nil
	case old.Unreadable != nil: // what stays is unknown
		return next, invalid("props", "cannot be changed: what is stored of this record cannot be read", "write it whole (PUT, or records put without --merge), which replaces what is stored")
	}
	if item.Closed != nil {
		next.Closed = *item.Closed
	}
	if props == nil {
		props = map[string]any{}
	}
	for name, value := range item.Props {
		if value == nil {
			delete(props, name)
			continue
		}
		props[name] = value
	}
	next.Props = props
	text, err := store.RecordJSON(props)
	if err != nil {
		return next, invalid("props", "cannot be kept", "")
	}
	if len(text) > MaxFields {
		return next, invalid("props", fmt.Sprintf("are larger than %d KiB", MaxFields>>10), "keep large documents elsewhere and send their address")
	}
	return next, nil
}

func same(a, b subject.Record) bool {
	return a.Closed == b.Closed && a.Deleted == b.Deleted && reflect.DeepEqual(a.Props, b.Props)
}

// writes returns the records that have changed, each once, and those of them of which related records read a changed field.
func (w *writing) writes() (writes []store.RecordRow, related []subject.RecordRef) {
	for ref := range w.named {
		old, next := w.before[ref], w.after[ref]
		if old.Rev > 0 && old.Unreadable == nil && same(old.Record, next.Record) {
			continue // one item undid what another one did
		}
		next.Rev = old.Rev
		writes = append(writes, next)
		if across(w.set.ReadAcross(ref.Type), old.Record, next.Record) {
			related = append(related, ref)
		}
	}
	slices.SortFunc(writes, func(a, b store.RecordRow) int { return a.Ref().Compare(b.Ref()) })
	return writes, related
}

// across reports whether a field has changed that other records read through their reference to this one.
func across(read []string, old, next subject.Record) bool {
	if len(read) == 0 {
		return false
	}
	if old.Rev == 0 || old.Deleted != next.Deleted || old.Closed != next.Closed {
		return true
	}
	return slices.ContainsFunc(read, func(field string) bool {
		switch field {
		case "id", "type", "created_at":
			return false
		case "updated_at", "last_modified_by", "props":
			return true
		}
		return !reflect.DeepEqual(old.Props[field], next.Props[field])
	})
}
