package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// Related are records that others name, and that triggers read across them (model.md §6, relations). Nil is one that does not
// exist.
type Related map[subject.RecordRef]*subject.Record

// Unread are the records that have to be read before a record can be looked at: those that it names, and, once these are
// known, those that they name.
func (k Related) Unread(relations []definition.Relation, rec subject.Record) (refs []subject.RecordRef) {
	k.walk(relations, rec.Props, func(ref subject.RecordRef, read bool) {
		if !read {
			refs = append(refs, ref)
		}
	})
	return refs
}

// Links are the records on which a record depends, in the order of their names, each once: when one of them is written,
// the record has to be looked at.
func (k Related) Links(relations []definition.Relation, rec subject.Record) []subject.RecordRef {
	found := map[subject.RecordRef]bool{}
	k.walk(relations, rec.Props, func(ref subject.RecordRef, _ bool) { found[ref] = true })
	return slices.SortedFunc(maps.Keys(found), subject.RecordRef.Compare)
}

// walk meets every record that is named, from the nearest on.
func (k Related) walk(relations []definition.Relation, props map[string]any, meet func(ref subject.RecordRef, read bool)) {
	for _, r := range relations {
		ref, ok := named(r, props)
		if !ok {
			continue
		}
		other, read := k[ref]
		meet(ref, read)
		if other != nil {
			k.walk(r.Below, other.Props, meet)
		}
	}
}

// named is the record that a field names, by its id or as type/id.
func named(r definition.Relation, props map[string]any) (ref subject.RecordRef, ok bool) {
	id := strings.TrimPrefix(expr.TextOf(props[r.Field]), r.Type+"/")
	return subject.RecordRef{Type: r.Type, ExtID: id}, id != ""
}

// relate lays the records that a record names over the fields that name them.
func (k Related) relate(relations []definition.Relation, fields, props map[string]any) {
	for _, r := range relations {
		ref, ok := named(r, props)
		if !ok {
			continue
		}
		related := expr.Related{ID: ref.ExtID}
		if other := k[ref]; other != nil && !other.Deleted {
			related.Fields = RecordFields(*other)
			k.relate(r.Below, related.Fields, other.Props)
		}
		fields[r.Field] = related
	}
}

// Fields is a record as expressions and texts see it, with those that it names.
func (k Related) Fields(set *definition.Set, rec subject.Record) map[string]any {
	fields := RecordFields(rec)
	k.relate(set.Relations(rec.Type), fields, rec.Props)
	return fields
}

// Across is a record as it is seen by way of some relations.
func (k Related) Across(relations []definition.Relation, rec subject.Record) map[string]any {
	fields := RecordFields(rec)
	k.relate(relations, fields, rec.Props)
	return fields
}

// relatives are the records among fields, as an event keeps them.
func relatives(fields map[string]any) map[string]any {
	kept := map[string]any{}
	for name, value := range fields {
		if r, ok := value.(expr.Related); ok {
			kept[name] = map[string]any{"id": r.ID, "fields": plainFields(r.Fields), "related": relatives(r.Fields)}
		}
	}
	return kept
}

// plainFields are fields without our own props, which hold them once more, and with the ids of records.
func plainFields(fields map[string]any) map[string]any {
	plain := make(map[string]any, len(fields))
	for name, value := range fields {
		if r, ok := value.(expr.Related); ok {
			value = r.ID
		}
		if name != "props" {
			plain[name] = value
		}
	}
	return plain
}

// restore lays kept records over the fields that name them.
func restore(fields map[string]any, kept any) {
	all, _ := kept.(map[string]any)
	for name, value := range all {
		one, _ := value.(map[string]any)
		id, _ := one["id"].(string)
		below, _ := one["fields"].(map[string]any)
		below = maps.Clone(below)
		if below != nil {
			restore(below, one["related"])
		}
		fields[name] = expr.Related{ID: id, Fields: below}
	}
}

// Texts are fields as texts read them: a record that another one names is its fields.
func Texts(fields map[string]any) map[string]any {
	all := make(map[string]any, len(fields))
	for name, value := range fields {
		if r, ok := value.(expr.Related); ok {
			below := Texts(r.Fields)
			if _, given := below["id"]; !given {
				below["id"] = r.ID
			}
			value = below
		}
		all[name] = value
	}
	return all
}
