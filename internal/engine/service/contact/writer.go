package contact

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/engine/plumbing/groups"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Store is what the package needs of the store.
type Store interface {
	Read(ctx context.Context, work func(*store.Tx) error) error
	Write(ctx context.Context, work func(*store.Tx) error) error
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
}

// Catalog has the definitions: the personas, the groups, and whether records follow the zones of contacts.
type Catalog interface {
	Current(ctx context.Context, ws subject.WorkspaceID) (*definition.Set, error)
	Loaded(ws subject.WorkspaceID, number int64) (*definition.Set, error)
	Supply(ctx context.Context, limit int, try func(limit int) error) error
}

// Writer writes contacts.
type Writer struct {
	store   Store
	catalog Catalog
	journal journal.Writer
}

// New makes a Writer.
func New(s Store, c Catalog, w journal.Writer) *Writer {
	return &Writer{store: s, catalog: c, journal: w}
}

// Write writes the items of a call in one transaction. The results are in the order of the items; an item sees the changes of the earlier ones.
// store.ErrNotFound is for Change alone.
func (k *Writer) Write(ctx context.Context, ws store.Workspace, mode upsert.Mode, items []Item, now time.Time, once *store.Idempotent[[]upsert.Result[subject.ContactRow]]) ([]upsert.Result[subject.ContactRow], error) {
	if len(items) > MaxBatch {
		return nil, fmt.Errorf("a batch holds at most %d contacts, not %d", MaxBatch, len(items))
	}
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	var ids []string
	var set *definition.Set // only needed for items with a persona, or with limits by kind of channel
	for _, item := range items {
		if item.Err != nil {
			continue
		}
		if p := item.Persona; set == nil && (p != nil && *p != "" || item.Cadence["channels"] != nil) {
			var err error
			if set, err = k.catalog.Current(ctx, ws.ID); err != nil {
				return nil, err
			}
		}
		ids = append(ids, item.ID)
		for _, address := range item.Addresses {
			if address != "" {
				ids = append(ids, subject.MadePrefix+hashes.Hash(address))
			}
		}
	}
	var results []upsert.Result[subject.ContactRow]
	step := func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		inForce, err := groups.InForce(tx, k.catalog, ws.ID)
		if err != nil {
			return err
		}
		known, err := tx.LockContacts(ws.ID, ids)
		if err != nil {
			return err
		}
		w := &writing{hashes: hashes, mode: mode, now: now, set: set, stored: known}
		var changed map[string]subject.ContactRow
		if results, changed, err = upsert.Apply(w, mode, known, items); err != nil {
			return err
		}
		for i := range results {
			if results[i].Error != nil {
				results[i].Row.ExtID = items[i].ID
			}
		}
		writes := w.writes(changed)
		group(inForce, writes)
		merged, missing, err := tx.WriteContacts(ws.ID, now, known, writes)
		ids = append(ids, missing...) // locked when the transaction runs again
		if err != nil {
			return err
		}
		if err := tx.MarkReschedule(now, append(relimited(ws.ID, known, writes), merged.Survivors...)); err != nil {
			return err
		}
		if err := digests.TellRest(tx, k.catalog.Loaded, ws.ID, merged.Subscriptions, func() int64 { return k.store.NewID(now) }, now); err != nil {
			return err
		}
		if err := move(tx, ws.ID, now, inForce, moved(known, writes)); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, results)
	}
	// A definition that comes into force after this write reads what it writes: a group is computed of it, and records follow its zones.
	err := k.catalog.Supply(ctx, 1, func(int) error { return k.store.WriteHoldingDefinitions(ctx, step) })
	if err != nil {
		return nil, fmt.Errorf("write contacts: %w", err)
	}
	return results, nil
}

// group says which groups the contacts belong to after the writes. Without any group there is nothing to keep.
func group(set *definition.Set, writes []store.ContactWrite) {
	if set == nil || !set.HasGroups() {
		return
	}
	for i := range writes {
		writes[i].Groups, writes[i].Grouped = plan.GroupsOf(set, writes[i].Contact, nil), true
	}
}

// relimited returns the contacts whose limits or calendar days change.
func relimited(ws subject.WorkspaceID, known map[string]subject.ContactRow, writes []store.ContactWrite) (refs []delivery.PersonRef) {
	for _, w := range writes {
		old, ok := known[w.ExtID]
		if ok && (old.Persona != w.Persona || old.Cadence != w.Cadence || old.Timezone != w.Timezone) {
			refs = append(refs, delivery.PersonRef{Workspace: ws, ID: old.ID})
		}
	}
	return refs
}

// moved returns the ids of contacts who have another zone.
func moved(known map[string]subject.ContactRow, writes []store.ContactWrite) (ids []string) {
	for _, w := range writes {
		if w.Timezone != known[w.ExtID].Timezone { // no zone, if it is new
			ids = append(ids, w.ExtID)
		}
	}
	return ids
}

// move requests the evaluation of the records that follow the zones of contacts who have moved, if the definitions in force have such triggers.
func move(tx *store.Tx, ws subject.WorkspaceID, now time.Time, set *definition.Set, ids []string) error {
	if len(ids) == 0 || set == nil || len(set.ReadAcross(subject.ContactType)) == 0 {
		return nil
	}
	merged, err := tx.Merged(ws, ids) // a record may still name one of these
	if err != nil {
		return err
	}
	return tx.MoveContacts(ws, now, set.Number, append(merged, ids...))
}

// writing is the decision about the items of a call.
type writing struct {
	hashes key.Keyed
	mode   upsert.Mode
	now    time.Time
	set    *definition.Set               // nil: no item needs it
	stored map[string]subject.ContactRow // the contacts as they are stored
}

// Name returns the caller's id of an item's contact.
func (w *writing) Name(item Item) (string, *upsert.Error) { return item.ID, item.Err }

// Exists is true: contacts are not deleted.
func (w *writing) Exists(subject.ContactRow) bool { return true }

// Apply returns the contact after an item.
func (w *writing) Apply(old subject.ContactRow, exists bool, item Item) (subject.ContactRow, *upsert.Error) {
	next := old
	if exists && old.MergedInto != 0 {
		return old, refuseMerged(old)
	}
	if exists {
		next.UpdatedAt = w.now
	} else {
		next.CreatedAt = w.now
	}
	next.ExtID = item.ID
	next.Addresses, next.Attributes = maps.Clone(old.Addresses), maps.Clone(old.Attributes)
	if w.mode == upsert.Replace {
		next.Name, next.Locale, next.Timezone, next.Addresses, next.Attributes = "", "", "", nil, nil
		next.Persona, next.Place, next.Cadence = "", "", ""
	}
	for _, one := range []struct {
		said *string
		into *string
	}{{item.Name, &next.Name}, {item.Locale, &next.Locale}, {item.Timezone, &next.Timezone}, {item.Persona, &next.Persona}, {item.Place, &next.Place}} {
		if one.said != nil {
			*one.into = *one.said
		}
	}
	if err := w.known(old.Persona, next.Persona); err != nil {
		return next, err
	}
	var refused *upsert.Error
	if next.Cadence, refused = w.merged(old.Cadence, next.Cadence, item); refused != nil {
		return next, refused
	}
	for kind, address := range item.Addresses {
		if address == "" {
			delete(next.Addresses, kind)
			continue
		}
		if next.Addresses == nil {
			next.Addresses = map[string]string{}
		}
		next.Addresses[kind] = address
	}
	for _, kind := range subject.AddressKinds() {
		address := next.Addresses[kind]
		if address == "" {
			continue
		}
		// A contact who is suppressed under this address must not be messaged under another name.
		if twin := w.stored[subject.MadePrefix+w.hashes.Hash(address)]; twin.Suppressed && !next.Suppressed {
			next.Suppressed, next.SuppressReason, next.SuppressedAt = true, twin.SuppressReason, twin.SuppressedAt
		}
	}
	for name, value := range item.Attributes {
		if value == nil {
			delete(next.Attributes, name)
			continue
		}
		if next.Attributes == nil {
			next.Attributes = map[string]any{}
		}
		next.Attributes[name] = value
	}
	raw, err := json.Marshal(next.Attributes)
	if err != nil {
		return next, invalid("attributes", "cannot be kept", "")
	}
	if len(raw) > MaxAttributes {
		return next, invalid("attributes", fmt.Sprintf("are larger than %d KiB", MaxAttributes>>10), "keep large documents elsewhere")
	}
	return next, nil
}

// Same reports whether an item has changed nothing.
func (w *writing) Same(a, b subject.ContactRow) bool {
	return a.Name == b.Name && a.Locale == b.Locale && a.Timezone == b.Timezone && a.Suppressed == b.Suppressed &&
		a.Persona == b.Persona && a.Place == b.Place && a.Cadence == b.Cadence &&
		maps.Equal(a.Addresses, b.Addresses) && (len(a.Attributes) == 0 && len(b.Attributes) == 0 || reflect.DeepEqual(a.Attributes, b.Attributes))
}

// writes returns the contacts that items have changed, with their new values.
func (w *writing) writes(changed map[string]subject.ContactRow) []store.ContactWrite {
	var writes []store.ContactWrite
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		old, next := w.stored[id], changed[id]
		write := store.ContactWrite{ContactRow: next}
		kept := map[string]bool{subject.NormalizeAddress(next.Address): true}
		for _, kind := range subject.AddressKinds() {
			if address := next.Addresses[kind]; address != "" && !kept[address] {
				kept[address] = true
				write.Hashes = append(write.Hashes, w.hashes.Hash(address))
			}
		}
		for _, kind := range subject.AddressKinds() {
			if address := old.Addresses[kind]; address != "" && !kept[address] {
				write.Dropped = append(write.Dropped, w.hashes.Hash(address))
			}
		}
		writes = append(writes, write)
	}
	return writes
}
