package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Warning is a field of the type contact, or the owner, whose value is not the id of any contact. The record is still written: the contact may be made later.
type Warning struct {
	Field string // its name, without props; empty: the owner
	Value string // the id that no contact has
}

func (w Warning) String() string {
	value := w.Value
	if len(value) > subject.MaxName { // longer than the id of any contact
		value = strings.ToValidUTF8(value[:subject.MaxName], "") + "…"
	}
	if w.Field == "" {
		return fmt.Sprintf("owner: no contact has the id %s; make the contact, or correct the owner", value)
	}
	return fmt.Sprintf("props.%s: no contact has the id %s; make the contact, or correct the field", w.Field, value)
}

// contacts returns the contact that owns a record, and the fields of the type contact that hold an id, in the order of their names. An empty
// text is no id.
func contacts(t *expr.RecordType, r subject.Record) []Warning {
	var named []Warning
	if kind, id := r.Owner.Split(); kind == subject.OwnerContact {
		named = append(named, Warning{Value: id})
	}
	if t == nil {
		return named
	}
	for _, name := range sorted(r.Props) {
		if id, ok := r.Props[name].(string); ok && id != "" && t.Declared[name] == "contact" {
			named = append(named, Warning{Field: name, Value: id})
		}
	}
	return named
}

// unknown returns the fields whose id no contact has.
func unknown(named []Warning, known map[string]bool) []Warning {
	return slices.DeleteFunc(named, func(w Warning) bool { return known[w.Value] })
}

// ids returns the ids in the fields, each once.
func ids(named []Warning) []string {
	all := map[string]bool{}
	for _, w := range named {
		all[w.Value] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// Warnings returns the fields of a stored record that name a contact that does not exist now.
func (k *Writer) Warnings(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]Warning, error) {
	set, err := k.definitions.Current(ctx, ws)
	if err != nil {
		return nil, fmt.Errorf("read the types of records: %w", err)
	}
	named := contacts(set.RecordType(r.Type), r.Record)
	if len(named) == 0 {
		return nil, nil
	}
	known, err := k.store.KnownContacts(ctx, ws, ids(named))
	return unknown(named, known), err
}

// warn returns the results with the fields of each record that name a contact that does not exist.
func (w *writing) warn(tx *store.Tx, ws subject.WorkspaceID, applied []upsert.Result[store.RecordRow]) ([]Result, error) {
	results, all := make([]Result, len(applied)), []Warning{}
	for i, r := range applied {
		results[i] = Result{r, contacts(w.set.RecordType(r.Row.Type), r.Row.Record)}
		all = append(all, results[i].Warnings...)
	}
	known, err := tx.KnownContacts(ws, ids(all))
	for i := range results {
		results[i].Warnings = unknown(results[i].Warnings, known)
	}
	return results, err
}
