// Package record stores records: it validates what callers write about their kiosks, invoices and hosts, merges it with what is stored, and marks
// changed records for evaluation.
//
// A record is a JSON document, found by its type and the caller's id. If there is a record_type definition, its fields are checked when they are
// written; otherwise a record may have any fields. Values are stored as given: conditions decide whether a heartbeat of next year makes sense. A
// deleted record keeps its row, because what was counted for it still counts when it is made again (R10). This package evaluates no trigger: a write
// only marks the record, in its own transaction.
package record

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/strictjson"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// Bounds of one record.
const (
	// MaxBatch is how many records one call may hold.
	MaxBatch = 1000
	// MaxFields bounds the fields of a record, in bytes of JSON: every evaluation reads them.
	MaxFields = 64 << 10
	// MaxDepth bounds nested objects and lists; the record itself is the first.
	MaxDepth = 32
)

func invalid(field, message, hint string) *upsert.Error {
	return &upsert.Error{Reason: reason.InvalidRecord, Field: field, Message: message, Hint: hint}
}

// Item is what a caller writes about one record, or the error for which it was refused. Fields that it does not mention are nil.
type Item struct {
	Type   string
	ID     string
	Props  map[string]any // JSON values, numbers with their digits; a nil one removes the field
	Closed *bool
	Owner  *subject.Owner // an empty one takes the owner away
	// Parents are the parents by their names; an empty list takes those of a name away.
	Parents map[string][]subject.RecordRef
	Orphan  bool // all parents are taken away before Parents are added
	Err     *upsert.Error
}

// Ref names the record.
func (i Item) Ref() subject.RecordRef { return subject.RecordRef{Type: i.Type, ExtID: i.ID} }

// keys are the keys of a record, in the order in which they are read, so that the first error is always the same.
func keys() []string { return []string{"type", "id", "props", "closed", "owner", "parents"} }

// Parse reads {type, id, props: {…}, closed, owner, parents}. It refuses duplicate and unknown keys, invalid UTF-8, U+0000 and anything beyond the bounds. A type and
// an id in the URL of the request take precedence.
func Parse(raw json.RawMessage, typ, id string) Item {
	value, wrong := strictjson.Parse(raw, MaxDepth)
	if wrong != nil {
		return Item{Type: typ, ID: id, Err: malformed(wrong)}
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return Item{Type: typ, ID: id, Err: invalid("", "a record is a JSON object", `{"props": {…}}`)}
	}
	item := Item{Type: typ, ID: id}
	for _, name := range keys() {
		value, said := fields[name]
		if !said {
			continue
		}
		delete(fields, name)
		if item.Err = item.read(name, value); item.Err != nil {
			return item
		}
	}
	if unknown := sorted(fields); len(unknown) > 0 {
		name := unknown[0]
		hint := suggest.DidYouMean(name, keys())
		if hint == "" {
			hint = "fields of your own go into props"
		}
		item.Err = invalid(name, "unknown key", hint)
		return item
	}
	item.Err = item.check()
	return item
}

func (i *Item) read(name string, value any) *upsert.Error {
	switch name {
	case "type":
		return named(name, value, &i.Type)
	case "id":
		return named(name, value, &i.ID)
	case "closed":
		closed, ok := value.(bool)
		if !ok {
			return invalid(name, "is neither true nor false", "leave it out, or write true")
		}
		i.Closed = &closed
		return nil
	case "owner":
		owner, err := ownerOf(value)
		i.Owner = &owner
		return err
	case "parents":
		return i.parents(value)
	}
	props, ok := value.(map[string]any)
	if !ok {
		return invalid(name, "is not an object", `{"battery_level": 15}`)
	}
	i.Props = props
	return nil
}

// named reads the type or the id, which may have come with the URL.
func named(field string, value any, into *string) *upsert.Error {
	given := ""
	switch value := value.(type) {
	case string:
		given = value
	case json.Number:
		given = value.String()
	default:
		return invalid(field, "is not a text", "put it in quotes")
	}
	if *into != "" && *into != given {
		return invalid(field, "is not the "+field+" of the address", "leave it out")
	}
	*into = given
	return nil
}

func (i *Item) check() *upsert.Error {
	if err := CheckType(i.Type); err != nil {
		return err
	}
	if i.ID == "" {
		return invalid("id", "the id of the record is missing", "your own id, unique in its type")
	}
	if err := plain("id", i.ID); err != nil {
		return err
	}
	if i.ID == "." || i.ID == ".." { // in the path of a URL they are no names (RFC 3986, 5.2.4)
		return invalid("id", "cannot stand in a URL", "any other id can, such as a number or a name")
	}
	for _, name := range sorted(i.Parents) {
		if slices.Contains(i.Parents[name], i.Ref()) {
			return invalid("parents."+name, "is the record itself", "a parent is another record")
		}
	}
	for _, name := range sorted(i.Props) {
		if err := plain("props", name); err != nil {
			err.Message = "the name of a field " + err.Message
			return err
		}
	}
	return nil
}

// CheckType checks the name of a type.
func CheckType(typ string) *upsert.Error {
	if typ == "" {
		return invalid("type", "the type of the record is missing", "such as kiosk, as triggers name it: record: kiosk")
	}
	if err := key.Slug(typ); err != nil {
		return invalid("type", err.Error(), "a type is a short name such as kiosk")
	}
	return nil
}

func plain(field, value string) *upsert.Error {
	if problem, hint := subject.CheckName(value); problem != "" {
		return invalid(field, problem, hint)
	}
	return nil
}

// malformed describes an error in the JSON. It repeats names, never values.
func malformed(e *strictjson.Error) *upsert.Error {
	switch e.Kind {
	case strictjson.NotUTF8:
		return invalid("", "the text is not valid UTF-8", "")
	case strictjson.Twice:
		return invalid(e.Path, "duplicate key", "")
	case strictjson.Zero, strictjson.ZeroKey:
		return invalid(e.Path, "holds the character U+0000", "")
	case strictjson.Half, strictjson.HalfKey:
		return invalid(e.Path, "holds half of a surrogate pair", "a character beyond U+FFFF is written as two \\u, or as itself")
	case strictjson.TooDeep:
		return invalid("", fmt.Sprintf("it is nested deeper than %d levels", MaxDepth), "keep large documents elsewhere")
	case strictjson.Behind:
		return invalid("", "there is more text after the JSON value", "")
	case strictjson.Syntax:
	}
	return invalid("", "it is not valid JSON", "")
}
