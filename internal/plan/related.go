package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// Related are the records that other records name, and that triggers read across them (docs/concepts/reminders.md). A nil value means that
// the record does not exist. A contact of which records follow the zone is among them as a record of subject.ContactType that has the field
// timezone alone.
type Related map[subject.RecordRef]*subject.Record

// Unread returns the records that must be read before a record can be evaluated: those that it names and, once these are known, those
// that they name.
func (k Related) Unread(relations []definition.Relation, rec subject.Record) (refs []subject.RecordRef) {
	k.walk(relations, rec, func(ref subject.RecordRef, read bool) {
		if !read {
			refs = append(refs, ref)
		}
	})
	return refs
}

// Links returns the records and the contacts that a record depends on, ordered by name, each once. When one of them is written, the record
// must be evaluated.
func (k Related) Links(relations []definition.Relation, rec subject.Record) []subject.RecordRef {
	found := map[subject.RecordRef]bool{}
	k.walk(relations, rec, func(ref subject.RecordRef, _ bool) { found[ref] = true })
	return slices.SortedFunc(maps.Keys(found), subject.RecordRef.Compare)
}

// walk calls meet for every named record, the nearest first.
func (k Related) walk(relations []definition.Relation, rec subject.Record, meet func(ref subject.RecordRef, read bool)) {
	for _, r := range relations {
		ref, ok := named(r, rec.Props)
		if r.OfContact() {
			ref, ok = contactOf(r, rec.ExtID, rec.Props)
		}
		if !ok {
			continue
		}
		if r.Path {
			k.climb(ref.ExtID, meet)
			continue
		}
		other, read := k[ref]
		meet(ref, read)
		if other != nil {
			k.walk(r.Below, *other, meet)
		}
	}
}

// climb calls meet for a place and for each place above it, up to the first one that is not read or does not exist.
func (k Related) climb(name string, meet func(ref subject.RecordRef, read bool)) {
	for range subject.MaxPlaces + 1 { // it may end with one that does not exist
		ref := subject.RecordRef{Type: subject.PlaceType, ExtID: name}
		place, read := k[ref]
		meet(ref, read)
		if place == nil || place.Deleted {
			return
		}
		if name = subject.PlaceOf(place.Props).Parent; name == "" {
			return
		}
	}
}

// Path returns the name of a place and those of the places above it, the nearest first; nil if the place does not exist.
func (k Related) Path(name string) (path []string) {
	k.climb(name, func(ref subject.RecordRef, _ bool) {
		if place := k[ref]; place != nil && !place.Deleted && !slices.Contains(path, ref.ExtID) {
			path = append(path, ref.ExtID)
		}
	})
	return path
}

// named returns the record that a field names, by its id or as type/id.
func named(r definition.Relation, props map[string]any) (ref subject.RecordRef, ok bool) {
	id := strings.TrimPrefix(expr.TextOf(props[r.Field]), r.Type+"/")
	return subject.RecordRef{Type: r.Type, ExtID: id}, id != ""
}

// contactOf returns the contact whose zone a record follows. A contact that was made for an address is known by that address alone, so that
// no record follows it.
func contactOf(r definition.Relation, id string, props map[string]any) (ref subject.RecordRef, ok bool) {
	if r.Field != "" {
		id = expr.TextOf(props[r.Field])
	}
	return subject.RecordRef{Type: r.Type, ExtID: id}, id != "" && !strings.HasPrefix(id, subject.MadePrefix)
}

// zoneOf returns the zone of the contact whom a record follows, or "" when there is no such contact, or the contact has no zone. A record
// that is reached itself is the person: its own zone is that of a contact without one.
func (k Related) zoneOf(r *definition.Relation, id, own string, props map[string]any, zones *civil.Zones) string {
	if r == nil {
		return ""
	}
	known := func(name string) bool {
		_, err := zones.Load(name)
		return name != "" && err == nil
	}
	if ref, ok := contactOf(*r, id, props); ok && k[ref] != nil {
		if zone := expr.TextOf(k[ref].Props["timezone"]); known(zone) {
			return zone
		}
	}
	if r.Field == "" && known(own) {
		return own
	}
	return ""
}

// relate replaces each field that names a record with that record's fields.
func (k Related) relate(relations []definition.Relation, fields, props map[string]any) {
	for _, r := range relations {
		ref, ok := named(r, props)
		if !ok || r.OfContact() || r.Path {
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

// Fields returns a record as expressions and texts see it, with the records that it names.
func (k Related) Fields(set *definition.Set, rec subject.Record) map[string]any {
	fields := RecordFields(rec)
	k.relate(set.Relations(rec.Type), fields, rec.Props)
	return fields
}

// Across returns a record as it is seen through some relations.
func (k Related) Across(relations []definition.Relation, rec subject.Record) map[string]any {
	fields := RecordFields(rec)
	k.relate(relations, fields, rec.Props)
	return fields
}

// relatedAmong returns the related records among fields, as an event keeps them.
func relatedAmong(fields map[string]any) map[string]any {
	kept := map[string]any{}
	for name, value := range fields {
		if r, ok := value.(expr.Related); ok {
			kept[name] = map[string]any{"id": r.ID, "fields": plainFields(r.Fields), "related": relatedAmong(r.Fields)}
		}
	}
	return kept
}

// plainFields returns the fields without props, which repeats them, and with ids in place of related records.
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

// restore puts the records that an event kept back in place of the fields that name them.
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

// Texts returns the fields as texts read them: a related record appears as its fields.
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
