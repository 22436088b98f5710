package record

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
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

// Result is the answer to one item. Warnings are about all fields of the record.
type Result struct {
	upsert.Result[store.RecordRow]
	Warnings []Warning
}

// Write writes the items of a call by actor in one transaction. The results are in the order of the items; an item sees the changes of the earlier
// ones. An item that changes nothing is not written. store.ErrNotFound is for Change and Delete alone.
func (k *Writer) Write(
	ctx context.Context, ws store.Workspace, mode upsert.Mode, items []Item, actor string, now time.Time, once *store.Idempotent[[]Result],
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
			item.Err = cmp.Or(fits(set.RecordType(item.Type), item.Props), fitsRelations(set.RecordType(item.Type), item.Owner, item.Parents))
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
		tree, err := readPlaces(tx, ws.ID, mode, items, known)
		if err != nil {
			return err
		}
		w := &writing{set, mode, actor, now, known, tree}
		applied, changed, err := upsert.Apply(w, mode, known, items)
		if err != nil {
			return err
		}
		if err := tx.WriteRecords(ws.ID, now, w.writes(changed)); err != nil {
			return err
		}
		if results, err = w.warn(tx, ws.ID, applied); err != nil {
			return err
		}
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
	mode   upsert.Mode
	actor  string
	now    time.Time
	stored map[subject.RecordRef]store.RecordRow // the records as they are stored
	places *places
}

// Name names an item's record.
func (w *writing) Name(item Item) (subject.RecordRef, *upsert.Error) { return item.Ref(), item.Err }

// Exists reports whether a record is not deleted.
func (w *writing) Exists(row store.RecordRow) bool { return !row.Deleted }

// Same reports whether an item has changed nothing.
func (w *writing) Same(old, next store.RecordRow) bool {
	return old.Unreadable == nil && old.Closed == next.Closed && old.Deleted == next.Deleted && old.Owner == next.Owner &&
		slices.Equal(old.Parents, next.Parents) && reflect.DeepEqual(old.Props, next.Props)
}

// Apply returns the record after an item. Rev counts one write for all items about a record.
func (w *writing) Apply(old store.RecordRow, _ bool, item Item) (store.RecordRow, *upsert.Error) {
	next := old
	next.Type, next.ExtID, next.Deleted = item.Type, item.ID, w.mode == upsert.Delete
	next.Rev, next.UpdatedAt, next.ModifiedBy = w.stored[item.Ref()].Rev+1, w.now, w.actor
	if next.CreatedAt.IsZero() {
		next.CreatedAt = w.now
	}
	props := maps.Clone(old.Props)
	switch {
	case w.mode == upsert.Replace || w.mode == upsert.Delete || old.Deleted:
		props, next.Closed, next.Unreadable, next.Owner, next.Parents = nil, false, nil, "", nil
	case old.Unreadable != nil: // what stays is unknown
		return next, invalid("props", "cannot be changed: what is stored of this record cannot be read", "write it whole (PUT, or records put without --merge), which replaces what is stored")
	}
	if item.Closed != nil {
		next.Closed = *item.Closed
	}
	var wrong *upsert.Error
	if next.Record, wrong = item.relate(next.Record); wrong != nil {
		return next, wrong
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
	if next.Type == subject.PlaceType {
		return next, w.places.keep(next)
	}
	return next, nil
}

// writes returns the records that items have changed, and what has changed of them that triggers of other records read.
func (w *writing) writes(changed map[subject.RecordRef]store.RecordRow) store.RecordWrites {
	all := store.RecordWrites{Moved: map[subject.RecordRef]bool{}}
	for ref, next := range changed {
		old, found := w.stored[ref]
		if found && w.Same(old, next) {
			continue // one item undid what another one did
		}
		next.Rev = old.Rev
		all.Records = append(all.Records, next)
		all.Moved[ref] = !slices.Equal(old.Parents, next.Parents) || old.Unreadable != nil
		if across(w.set.ReadAcross(ref.Type), old.Record, next.Record) {
			all.Across = append(all.Across, ref)
		}
		all.Families = append(all.Families, families(w.set.ReadOfChildren, old.Record, next.Record)...)
	}
	slices.SortFunc(all.Records, func(a, b store.RecordRow) int { return a.Ref().Compare(b.Ref()) })
	return all
}

// across reports whether a field has changed that other records read through their reference to this one.
func across(read []string, old, next subject.Record) bool {
	return len(read) > 0 && (old.Rev == 0 || changed(read, old, next))
}

// changed reports whether one of the fields of a record has changed.
func changed(fields []string, old, next subject.Record) bool {
	if old.Deleted != next.Deleted || old.Closed != next.Closed {
		return true
	}
	return slices.ContainsFunc(fields, func(field string) bool {
		switch field {
		case "id", "type", "created_at", "children":
			return false
		case "updated_at", "last_modified_by", "props", definition.AllFields:
			return true
		case "owner":
			if old.Owner != next.Owner {
				return true
			}
		case "parent", "parents":
			if !slices.Equal(old.Parents, next.Parents) {
				return true
			}
		}
		return !slices.Equal(old.ParentsNamed(field), next.ParentsNamed(field)) || !reflect.DeepEqual(old.Props[field], next.Props[field])
	})
}
