package loader

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// fieldTypes are the types of a record's fields, in addition to record(TYPE).
func fieldTypes() []string {
	return []string{"text", "number", "bool", "date", "datetime", "time", "contact", "place", "list", "object"}
}

// otherTypes are types of other systems, and what they are called here.
func otherTypes() map[string]string {
	return map[string]string{
		"string": "text", "str": "text", "varchar": "text", "integer": "number", "int": "number", "float": "number", "double": "number",
		"decimal": "number", "boolean": "bool", "timestamp": "datetime", "timestamptz": "datetime", "instant": "datetime",
		"array": "list", "json": "object", "map": "object", "person": "contact", "user": "contact",
	}
}

// recordType reads the fields of a type, for expressions and as written. It returns nil, which leaves the fields open, when they could
// not be read.
func (r *reader) recordType(root *portable.Node) *expr.RecordType {
	t := &expr.RecordType{Name: r.name, Fields: map[string]expr.Type{}, Declared: map[string]string{}}
	f, ok := r.fields(root, "record_type")
	if !ok {
		return nil
	}
	r.need(f)
	all := f.get("fields")
	for _, field := range r.named(all, "a field") {
		name := field.Key.Text
		if !isReadable(name) {
			r.invalid(field.Key.Pos, fmt.Sprintf("%q is not a name that an expression can read", name), "it has letters, digits and _, and does not begin with a digit")
			continue
		}
		if slices.Contains(recordFields(&expr.RecordType{}), name) {
			r.warn(definition.CodeLint, field.Key.Pos, fmt.Sprintf("record.%s is every record's own", name), fmt.Sprintf("this field is read as record.props.%s; or give it another name", name))
		}
		t.Fields[name] = expr.Any
		if typ, ok := r.fieldType(field.Value); ok {
			t.Declared[name], t.Fields[name] = typ, valueType(typ)
		}
	}
	if r.name == subject.PlaceType {
		r.fieldsOfPlaces(t, all)
	}
	if !r.stored && (all == nil || all.Kind != portable.Map || all.Partial) {
		return nil
	}
	return t
}

// fieldsOfPlaces declares the fields that make a record a place. A definition may declare them too, as texts.
func (r *reader) fieldsOfPlaces(t *expr.RecordType, declared *portable.Node) {
	for _, name := range []string{"type", "parent"} {
		if typ := t.Declared[name]; typ != "" && typ != "text" {
			r.invalid(declared.Get(name).Pos, fmt.Sprintf("%s of a place is a text, and not %s", name, typ), map[string]string{
				"type": "it is a word such as clinic", "parent": "it is the id of the place above",
			}[name])
		}
		t.Declared[name], t.Fields[name] = "text", expr.Text
	}
}

// dateField refuses a date that names a field which is not a date, or which the type does not have.
func (r *reader) dateField(n *portable.Node, path string, typ *expr.RecordType) bool {
	typ, steps := ownerOf(path, typ)
	if typ == nil {
		return false
	}
	last := len(steps) - 1
	field := steps[last]
	_, known := typ.Fields[field]
	declared := typ.Declared[field]
	message, hint := "", r.datesOf(typ, strings.Join(steps[:max(last, 1)], "."))
	switch {
	case last == 0:
		message = "a record is no date"
	case !known && !slices.Contains(recordFields(&expr.RecordType{}), field):
		message = fmt.Sprintf("records of type %s have no field %q", typ.Name, field)
		if meant := suggest.Nearest(field, slices.Sorted(maps.Keys(typ.Declared))); meant != "" {
			hint = suggest.DidYouMean(field, []string{meant}) + "\n" + hint
		}
	case declared == "text":
		message, hint = fmt.Sprintf("%s is no date: its type is text", path), fmt.Sprintf("declare %s as date if it holds one\n%s", field, hint)
	case known && declared != "" && declared != "date" && declared != "datetime":
		message = fmt.Sprintf("%s is no date: its type is %s", path, declared)
	case !known && field != "created_at" && field != "updated_at":
		message = fmt.Sprintf("%s is no date", path)
	default:
		return false
	}
	r.invalid(n.At(max(strings.LastIndex(path, ".")+1, 0)), message, hint)
	return true
}

// ownerOf returns the type of the record whose field a path such as record.centre.name is, and the steps of the path. nil: the path is another expression, or
// the type is not declared.
func ownerOf(path string, typ *expr.RecordType) (*expr.RecordType, []string) {
	steps := strings.Split(path, ".")
	if typ == nil || steps[0] != "record" || slices.ContainsFunc(steps, func(step string) bool { return !isReadable(step) }) {
		return nil, nil
	}
	for _, step := range steps[1:max(len(steps)-1, 1)] {
		if typ = typ.Related[step]; typ == nil {
			return nil, nil
		}
	}
	return typ, steps
}

// clockField refuses a time of day that names a field which is declared as something else.
func (r *reader) clockField(n *portable.Node, path string, typ *expr.RecordType) bool {
	typ, steps := ownerOf(path, typ)
	if typ == nil || len(steps) < 2 || r.stored {
		return false
	}
	field := steps[len(steps)-1]
	declared := typ.Declared[field]
	if declared == "" || declared == "text" || declared == "time" {
		return false
	}
	hint := fmt.Sprintf(`write a time such as "09:00", or declare %s as time if it holds one`, field)
	if declared == "date" || declared == "datetime" {
		hint = fmt.Sprintf(`write anchor: %s for the day, and at: a time such as "09:00", or a field declared as time`, path)
	}
	r.invalid(n.At(strings.LastIndex(path, ".")+1), fmt.Sprintf("%s is no time of day: its type is %s", path, declared), hint)
	return true
}

// datesOf names the dates of a record.
func (r *reader) datesOf(typ *expr.RecordType, record string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(typ.Declared)) {
		if declared := typ.Declared[name]; declared == "date" || declared == "datetime" {
			names = append(names, record+"."+name)
		}
	}
	names = append(names, record+".created_at", record+".updated_at")
	return fmt.Sprintf("the dates of %s are %s", typ.Name, sentence(names))
}

func (r *reader) fieldType(n *portable.Node) (string, bool) {
	text, ok := r.text(n)
	if !ok {
		return "", false
	}
	if target, ok := strings.CutPrefix(text, "record("); ok && strings.HasSuffix(target, ")") {
		target = strings.TrimSuffix(target, ")")
		if types := r.defined(definition.KindRecordType); !slices.Contains(types, target) {
			r.unresolved(reference{definition.KindRecordType, target, target}, n.At(len("record(")), r.undefined(definition.KindRecordType, target), false)
		}
		return text, true
	}
	if slices.Contains(fieldTypes(), text) {
		return text, true
	}
	hint := suggest.DidYouMean(text, fieldTypes())
	if own := otherTypes()[strings.ToLower(text)]; own != "" {
		hint = "did you mean " + own + "?"
	}
	switch {
	case text == "record":
		hint = "write which: record(TYPE)"
	case hint == "":
		hint = "it is " + strings.Join(fieldTypes(), ", ") + " or record(TYPE)"
	}
	r.invalid(n.Pos, fmt.Sprintf("%q is not the type of a field", text), hint)
	return "", false
}

// recordRef reports a type of record that is not declared. Declarations are optional: without any, all types are open.
func (r *reader) recordRef(n *portable.Node, typ string) {
	types := r.defined(definition.KindRecordType)
	switch {
	case r.stored || slices.Contains(types, typ):
	case r.removed[definition.Ref{Kind: definition.KindRecordType, Name: typ}]:
		r.unresolved(reference{definition.KindRecordType, typ, typ}, n.Pos, "", false)
	case len(types) > 0:
		r.unresolved(reference{definition.KindRecordType, typ, typ}, n.Pos, r.undefined(definition.KindRecordType, typ), !r.opts.Whole)
	}
}

// valueType returns the expression type of a declared type.
func valueType(declared string) expr.Type {
	switch declared {
	case "text", "time":
		return expr.Text
	case "number":
		return expr.Number
	case "bool":
		return expr.Bool
	case "date", "datetime":
		return expr.Time
	case "list":
		return expr.List
	}
	return expr.Any
}

func isReadable(name string) bool { return isMadeOf(name, "_") && (name[0] < '0' || name[0] > '9') }
