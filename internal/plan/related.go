package plan

import (
	"cmp"
	"fmt"
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
// timezone alone, and the list of the children of a record as one of subject.ChildrenType.
type Related map[subject.RecordRef]*subject.Record

// Unread returns the records that must be read before a record can be evaluated: those that it names and, once these are known, those
// that they name.
func (k Related) Unread(relations []definition.Relation, rec subject.Record) (refs []subject.RecordRef) {
	w := walk{known: k, children: subject.MaxChildren, meet: func(ref subject.RecordRef, read, _ bool) {
		if !read {
			refs = append(refs, ref)
		}
	}}
	w.of(relations, &rec)
	return refs
}

// Links returns the records and the contacts that a record depends on, and the records on whose children it depends, ordered by name, each
// once. When one of them is written, the record must be evaluated.
func (k Related) Links(relations []definition.Relation, rec subject.Record) []subject.RecordRef {
	found := map[subject.RecordRef]bool{}
	w := walk{known: k, children: subject.MaxChildren, meet: func(ref subject.RecordRef, _, child bool) {
		if !child { // a write of a child asks who depends on the children of its parents
			found[ref] = true
		}
	}}
	w.of(relations, &rec)
	return slices.SortedFunc(maps.Keys(found), subject.RecordRef.Compare)
}

// walk visits the records that a record names.
type walk struct {
	known    Related
	children int // how many more children are visited
	meet     func(ref subject.RecordRef, read, child bool)
}

// of calls meet for every named record, the nearest first.
func (w *walk) of(relations []definition.Relation, rec *subject.Record) {
	for _, r := range relations {
		if r.OfContact() {
			if ref, ok := contactOf(r, rec.ExtID, rec.Props); ok {
				_, read := w.known[ref]
				w.meet(ref, read, false)
			}
			continue
		}
		if r.Path {
			w.climb(strings.TrimPrefix(expr.TextOf(rec.Props[r.Field]), r.Type+"/"))
			continue
		}
		refs, children := named(r, rec)
		if children {
			of := subject.ChildrenOf(rec.Ref())
			list, read := w.known[of]
			w.meet(of, read, false)
			if refs = nil; list != nil && len(list.Children) <= w.children {
				refs = list.Children
				w.children -= len(refs)
			}
		}
		for _, ref := range refs {
			other, read := w.known[ref]
			w.meet(ref, read, children)
			if other != nil {
				w.of(r.Below, other)
			}
		}
	}
}

// climb calls meet for a place and for each place above it, up to the first one that is not read or does not exist.
func (w *walk) climb(name string) {
	for range subject.MaxPlaces + 1 { // it may end with one that does not exist
		if name == "" {
			return
		}
		ref := subject.RecordRef{Type: subject.PlaceType, ExtID: name}
		place, read := w.known[ref]
		w.meet(ref, read, false)
		if place == nil || place.Deleted {
			return
		}
		name = subject.PlaceOf(place.Props).Parent
	}
}

// Path returns the name of a place and those of the places above it, the nearest first; nil if the place does not exist.
func (k Related) Path(name string) (path []string) {
	w := walk{known: k, meet: func(ref subject.RecordRef, _, _ bool) {
		if place := k[ref]; place != nil && !place.Deleted && !slices.Contains(path, ref.ExtID) {
			path = append(path, ref.ExtID)
		}
	}}
	w.climb(name)
	return path
}

// named returns the records to which a relation leads: parents of a name, or the record that a field names by its id or as type/id. children
// reports that it leads to the children, which the record does not name.
func named(r definition.Relation, rec *subject.Record) (refs []subject.RecordRef, children bool) {
	typ := cmp.Or(r.Type, r.Types[rec.Type])
	var parents []subject.Parent
	switch {
	case typ != "":
		parents = rec.ParentsNamed(r.Field)
	case r.Field == expr.Children:
		return nil, true
	case r.Field == expr.Parent || r.Field == expr.Parents:
		parents = rec.Parents
	default:
		parents = rec.ParentsNamed(r.Field)
	}
	for _, p := range parents {
		refs = append(refs, p.RecordRef)
	}
	if len(refs) > 0 || typ == "" {
		return refs, false
	}
	if id := strings.TrimPrefix(expr.TextOf(rec.Props[r.Field]), typ+"/"); id != "" {
		refs = []subject.RecordRef{{Type: typ, ExtID: id}}
	}
	return refs, false
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

// relating replaces the fields of a record that name others.
type relating struct {
	known    Related
	children int // how many more children are read
}

// relate replaces each field that names records with their fields.
func (k Related) relate(relations []definition.Relation, fields map[string]any, rec *subject.Record) {
	r := relating{known: k, children: subject.MaxChildren}
	r.relate(relations, fields, rec)
}

func (k *relating) relate(relations []definition.Relation, fields map[string]any, rec *subject.Record) {
	for _, r := range relations {
		if r.OfContact() || r.Path {
			continue
		}
		refs, children := named(r, rec)
		if children {
			list := k.known[subject.ChildrenOf(rec.Ref())]
			switch {
			case list == nil || len(list.Children) == 0:
				if _, own := rec.Props[expr.Children]; !own {
					fields[expr.Children] = expr.Several{}
				}
				continue
			case len(list.Children) > k.children:
				fields[expr.Children] = expr.Unread(tooManyChildren)
				continue
			}
			refs = list.Children
			k.children -= len(refs)
		}
		all := make(expr.Several, len(refs))
		for i, ref := range refs {
			all[i] = k.one(r.Below, ref)
		}
		switch {
		case len(all) == 0 && r.Field == expr.Parents:
			if _, own := rec.Props[expr.Parents]; !own {
				fields[expr.Parents] = all
			}
		case len(all) == 0: // a field of that name, if there is one, is read as it is
		case len(all) == 1 && !children && r.Field != expr.Parents:
			fields[r.Field] = all[0]
		default:
			fields[r.Field] = all
		}
	}
}

var tooManyChildren = fmt.Sprintf("there are more than %d children, and no more are read at once", subject.MaxChildren)

// one returns a record that another one names.
func (k *relating) one(below []definition.Relation, ref subject.RecordRef) expr.Related {
	related := expr.Related{ID: ref.ExtID}
	if other := k.known[ref]; other != nil && !other.Deleted {
		related.Fields = RecordFields(*other)
		k.relate(below, related.Fields, other)
	}
	return related
}

// Fields returns a record as expressions and texts see it, with the records that it names.
func (k Related) Fields(set *definition.Set, rec subject.Record) map[string]any {
	return k.Across(set.Relations(rec.Type), rec)
}

// Across returns a record as it is seen through some relations.
func (k Related) Across(relations []definition.Relation, rec subject.Record) map[string]any {
	fields := RecordFields(rec)
	k.relate(relations, fields, &rec)
	return fields
}

// relatedAmong returns the related records among fields, as an event keeps them.
func relatedAmong(fields map[string]any) map[string]any {
	kept := map[string]any{}
	for name, value := range fields {
		switch value := value.(type) {
		case expr.Related:
			kept[name] = keep(value)
		case expr.Several:
			all := make([]any, len(value))
			for i, r := range value {
				all[i] = keep(r)
			}
			kept[name] = all
		case expr.Unread:
			kept[name] = map[string]any{"unread": string(value)}
		}
	}
	return kept
}

func keep(r expr.Related) map[string]any {
	return map[string]any{"id": r.ID, "fields": plainFields(r.Fields), "related": relatedAmong(r.Fields)}
}

// plainFields returns the fields without props, which repeats them, and with ids in place of related records.
func plainFields(fields map[string]any) map[string]any {
	plain := make(map[string]any, len(fields))
	for name, value := range fields {
		switch r := value.(type) {
		case expr.Related:
			value = r.ID
		case expr.Several, expr.Unread:
			continue
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
		switch value := value.(type) {
		case []any:
			several := make(expr.Several, len(value))
			for i, one := range value {
				several[i] = restored(one)
			}
			fields[name] = several
		case map[string]any:
			if why, ok := value["unread"].(string); ok {
				fields[name] = expr.Unread(why)
				continue
			}
			fields[name] = restored(value)
		}
	}
}

func restored(value any) expr.Related {
	one, _ := value.(map[string]any)
	id, _ := one["id"].(string)
	below, _ := one["fields"].(map[string]any)
	below = maps.Clone(below)
	if below != nil {
		restore(below, one["related"])
	}
	return expr.Related{ID: id, Fields: below}
}

// mostInTexts bounds the records of a list that a text reads.
const mostInTexts = 100

// Texts returns the fields as texts read them: a related record appears as its fields, parents and children as lists, and of several other
// records the first.
func Texts(fields map[string]any) map[string]any {
	all := make(map[string]any, len(fields))
	for name, value := range fields {
		switch r := value.(type) {
		case expr.Related:
			value = textOf(r)
		case expr.Several:
			if name != expr.Parents && name != expr.Children {
				value = textOf(r[0])
				break
			}
			list := make([]any, min(len(r), mostInTexts))
			for i := range list {
				list[i] = textOf(r[i])
			}
			value = list
		case expr.Unread:
			continue
		}
		all[name] = value
	}
	return all
}

func textOf(r expr.Related) map[string]any {
	below := Texts(r.Fields)
	if _, given := below["id"]; !given {
		below["id"] = r.ID
	}
	return below
}

// ownerFields returns an owner as expressions and texts see it.
func ownerFields(o subject.Owner) map[string]any {
	kind, id := o.Split()
	return map[string]any{"kind": kind, "id": id, kind: id}
}
