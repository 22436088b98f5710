package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	ownerHint  = `{"contact": "ann"}, {"group": "nurses"}, {"place": "north"}, or null for nobody`
	parentHint = `{"household": {"type": "household", "id": "h1"}}, or a list of such records`
)

// ownerOf reads {contact: ID}, {group: NAME} or {place: NAME}, or the same as a text: contact/ID. null is none.
func ownerOf(value any) (subject.Owner, *upsert.Error) {
	if value == nil {
		return "", nil
	}
	fields, ok := value.(map[string]any)
	if text, isText := value.(string); isText {
		kind, id, named := strings.Cut(text, "/")
		fields, ok = map[string]any{kind: id}, named
	}
	if !ok || len(fields) != 1 {
		return "", invalid("owner", "is not one contact, group or place", ownerHint)
	}
	kind := sorted(fields)[0]
	if !slices.Contains(subject.OwnerKinds(), kind) {
		return "", invalid("owner."+kind, "is not a kind of owner", "an owner is a contact, a group or a place")
	}
	id, err := idOf("owner."+kind, fields[kind])
	if err == nil && kind == subject.OwnerGroup {
		if bad := key.Slug(id); bad != nil {
			err = invalid("owner.group", bad.Error(), "a group is named as its definition names it")
		}
	}
	return subject.Owner(kind + "/" + id), err
}

func idOf(field string, value any) (string, *upsert.Error) {
	id, ok := value.(string)
	if n, isNumber := value.(json.Number); isNumber {
		id, ok = n.String(), true
	}
	if !ok {
		return "", invalid(field, "is not a text", "put it in quotes")
	}
	return id, plain(field, id)
}

// parents reads {NAME: {type, id}}, {NAME: [{type, id}, …]} or {NAME: null}; null in place of it all takes all parents away.
func (i *Item) parents(value any) *upsert.Error {
	if value == nil {
		i.Orphan = true
		return nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return invalid("parents", "is not an object", parentHint)
	}
	i.Parents = map[string][]subject.RecordRef{}
	total := 0
	for _, name := range sorted(fields) {
		if err := CheckParentName(name); err != nil {
			return err
		}
		list, many := fields[name].([]any)
		if !many && fields[name] != nil {
			list = []any{fields[name]}
		}
		if total += len(list); total > subject.MaxParents {
			return tooMany()
		}
		i.Parents[name] = []subject.RecordRef{}
		for _, one := range list {
			ref, err := refOf("parents."+name, one)
			if err != nil {
				return err
			}
			i.Parents[name] = append(i.Parents[name], ref)
		}
	}
	return nil
}

func tooMany() *upsert.Error {
	return invalid("parents", fmt.Sprintf("are more than %d", subject.MaxParents), "let the many records name this one as their parent")
}

// refOf reads {type, id}, or the same as a text: TYPE/ID.
func refOf(field string, value any) (ref subject.RecordRef, err *upsert.Error) {
	fields, ok := value.(map[string]any)
	if text, isText := value.(string); isText {
		var id string
		if ref.Type, id, ok = strings.Cut(text, "/"); ok {
			fields = map[string]any{"type": ref.Type, "id": id}
		}
	}
	if !ok {
		return ref, invalid(field, "is not a record", parentHint)
	}
	for _, name := range sorted(fields) {
		if name != "type" && name != "id" {
			return ref, invalid(field+"."+name, "unknown key", "a parent has a type and an id")
		}
	}
	typ, ok := fields["type"].(string)
	if !ok {
		return ref, invalid(field+".type", "the type of the parent is missing", parentHint)
	}
	if err := CheckType(typ); err != nil {
		return ref, invalid(field+".type", err.Message, err.Hint)
	}
	if fields["id"] == nil {
		return ref, invalid(field+".id", "the id of the parent is missing", parentHint)
	}
	id, err := idOf(field+".id", fields["id"])
	return subject.RecordRef{Type: typ, ExtID: id}, err
}

// CheckParentName checks the name of a parent.
func CheckParentName(name string) *upsert.Error {
	const longest = 100
	switch {
	case !expr.IsName(name) || len(name) > longest:
		return invalid("parents", fmt.Sprintf("%q cannot be the name of a parent", shortened(name)), "a name has letters, digits and _, and does not begin with a digit, such as household")
	case slices.Contains(expr.RecordNames(), name):
		return invalid("parents", fmt.Sprintf("%q is a name that every record has", name), "take another name, such as household")
	}
	return nil
}

func shortened(text string) string {
	if len(text) <= subject.MaxName {
		return text
	}
	return strings.ToValidUTF8(text[:subject.MaxName], "") + "…"
}

// fitsRelations checks the owner and the parents of a record against its declared type: it has no field owner beside the owner, and a name that the type declares as a field has to be one of the type
// record(TYPE), and the parent of that type.
func fitsRelations(t *expr.RecordType, owner *subject.Owner, parents map[string][]subject.RecordRef) *upsert.Error {
	if t == nil {
		return nil
	}
	if _, declared := t.Declared[expr.Owner]; declared && owner != nil && *owner != "" {
		return invalid("owner", "the type "+t.Name+" declares a field owner", "write props.owner, or take the field out of the type")
	}
	for _, name := range sorted(parents) {
		declared, known := t.Declared[name]
		if !known {
			continue
		}
		for _, ref := range parents[name] {
			if declared != "record("+ref.Type+")" {
				return invalid("parents."+name, "is a record of the type "+ref.Type+", and the type "+t.Name+" says "+declared, "take a name that is no field of the type, or declare the field as record("+ref.Type+")")
			}
		}
	}
	return nil
}

// relate returns a record with the owner and the parents after an item.
func (i *Item) relate(r subject.Record) (subject.Record, *upsert.Error) {
	if i.Owner != nil {
		r.Owner = *i.Owner
	}
	if len(i.Parents) == 0 && !i.Orphan {
		return r, nil
	}
	var all []subject.Parent
	for _, p := range r.Parents {
		if _, said := i.Parents[p.Name]; !said && !i.Orphan {
			all = append(all, p)
		}
	}
	for name, refs := range i.Parents {
		for _, ref := range refs {
			all = append(all, subject.Parent{Name: name, RecordRef: ref})
		}
	}
	slices.SortFunc(all, subject.Parent.Compare)
	all = slices.Compact(all)
	if len(all) > subject.MaxParents {
		return r, tooMany()
	}
	known := map[subject.RecordRef]string{}
	for _, p := range all {
		if name, twice := known[p.RecordRef]; twice {
			return r, invalid("parents."+p.Name, "is the parent "+name+" already", "name each record once")
		}
		known[p.RecordRef] = p.Name
	}
	r.Parents = all
	return r, nil
}

// families returns the records of whose children triggers may read something else after a write, given the fields of children that
// the triggers of a type of record read.
func families(read func(typ string) []string, old, next subject.Record) []subject.RecordRef {
	before, after := parentsOf(old), parentsOf(next)
	var all []subject.RecordRef
	for ref := range maps.Keys(before) {
		if fields := read(ref.Type); len(fields) > 0 && (!after[ref] || changed(fields, old, next)) {
			all = append(all, ref)
		}
	}
	for ref := range maps.Keys(after) {
		if !before[ref] && len(read(ref.Type)) > 0 {
			all = append(all, ref)
		}
	}
	return all
}

func parentsOf(r subject.Record) map[subject.RecordRef]bool {
	all := make(map[subject.RecordRef]bool, len(r.Parents))
	for _, p := range r.Parents {
		all[p.RecordRef] = true
	}
	return all
}
