// Package contact stores contacts: it validates what callers write about people, merges it with what is stored, and stops messages to contacts who
// are suppressed.
//
// A contact is found by the caller's id (R20). Its addresses are stored normalised; an event that names only an address reaches the contact that had
// the address first. A contact that was made for such an event has no caller's id. It is merged into the first contact that claims its address, the
// survivor: messages that it got count in the survivor's limits, waiting messages go to the survivor, and a suppression applies to the survivor too
// (P5).
package contact

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// Bounds of one contact.
const (
	// MaxBatch is how many contacts one call may hold.
	MaxBatch = 1000
	// MaxAttributes bounds the attributes of a contact, in bytes of JSON: they are read for every message to it.
	MaxAttributes = 16 << 10
)

// Malformed is the error of JSON that cannot be read.
func Malformed(err error) *upsert.Error { return invalid("", err.Error(), "") }

func invalid(field, message, hint string) *upsert.Error {
	return &upsert.Error{Reason: reason.InvalidContact, Field: field, Message: message, Hint: hint}
}

// Item is what a caller writes about one contact, or the error for which it was refused. Fields that it does not mention are nil.
type Item struct {
	ID         string
	Name       *string
	Locale     *string
	Timezone   *string
	Persona    *string
	Place      *string
	Addresses  map[string]string // by kind, normalised; an empty one is removed
	Attributes map[string]any    // nil ones are removed
	Cadence    map[string]any    // the contact's own limits (A42); nil ones are removed, and all of them if NoCadence is set
	NoCadence  bool
	Err        *upsert.Error
}

// keys returns what a contact may hold.
func keys() []string {
	return []string{"id", "name", "locale", "timezone", "persona", "place", "cadence", "addresses", "attributes"}
}

// Parse reads {id, name, locale, timezone, persona, place, cadence: {…}, addresses: {email, sms, …}, attributes: {…}}. The JSON was validated before, and no
// key is duplicate. null and "" remove a value. An id in the URL of the request takes precedence.
func Parse(raw json.RawMessage, id string) Item {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // a number keeps its digits
	var fields map[string]any
	if err := d.Decode(&fields); err != nil || fields == nil {
		return Item{Err: invalid("", "a contact is a JSON object", `{"id": "…", "addresses": {"email": "…"}}`)}
	}
	item := Item{ID: id}
	names := slices.Sorted(maps.Keys(fields))
	if _, given := fields["id"]; given { // first, so that a refusal names the contact
		names = slices.Insert(slices.DeleteFunc(names, func(name string) bool { return name == "id" }), 0, "id")
	}
	for _, name := range names {
		value := fields[name]
		var err *upsert.Error
		switch name {
		case "id":
			err = item.identify(value, id)
		case "name":
			item.Name, err = text(name, value)
		case "locale":
			item.Locale, err = text(name, value)
		case "timezone":
			item.Timezone, err = text(name, value)
		case "persona":
			item.Persona, err = text(name, value)
		case "place":
			item.Place, err = text(name, value)
		case "cadence":
			item.NoCadence = value == nil
			if !item.NoCadence {
				item.Cadence, err = limits(value)
			}
		case "addresses":
			item.Addresses, err = addresses(value)
		case "attributes":
			item.Attributes, err = attributes(value)
		case "groups":
			err = invalid(name, "is not written: a group says by members or where who belongs to it", "name the contact in members of the group, or write what its where reads")
		default:
			hint := suggest.DidYouMean(name, keys())
			if hint == "" {
				hint = "a contact has " + strings.Join(keys(), ", ") + "; fields of your own go into attributes"
			}
			err = invalid(name, "unknown key", hint)
		}
		if err != nil {
			return Item{ID: item.ID, Err: err}
		}
	}
	if err := item.check(); err != nil {
		return Item{ID: item.ID, Err: err}
	}
	return item
}

func (i *Item) identify(value any, id string) *upsert.Error {
	given := ""
	switch value := value.(type) {
	case string:
		given = value
	case json.Number:
		given = value.String()
	default:
		return invalid("id", "is not a text", "put it in quotes")
	}
	if id != "" && id != given {
		return invalid("id", "is not the id of the address", "leave it out")
	}
	i.ID = given
	return nil
}

func (i *Item) check() *upsert.Error {
	if i.ID == "" {
		return invalid("id", "the id of the contact is missing", "your own id of the person, as events name them by customer_ref")
	}
	for _, one := range []struct {
		field string
		value *string
	}{{"id", &i.ID}, {"name", i.Name}, {"locale", i.Locale}, {"timezone", i.Timezone}, {"persona", i.Persona}, {"place", i.Place}} {
		if one.value == nil || *one.value == "" {
			continue
		}
		if err := plain(one.field, *one.value); err != nil {
			return err
		}
	}
	if strings.HasPrefix(i.ID, subject.MadePrefix) {
		return invalid("id", "begins with "+subject.MadePrefix, "such ids are made for addresses; give the person an id of your own")
	}
	if l := i.Locale; l != nil && *l != "" && !subject.ValidLocale(*l) {
		return invalid("locale", "is not a locale", "a locale is written en or ar-IQ")
	}
	if z := i.Timezone; z != nil && *z != "" {
		if _, err := civil.LoadZone(*z); err != nil {
			return invalid("timezone", "is not a zone", "use a name of the tz database, such as Europe/Berlin")
		}
	}
	return nil
}

func plain(field, value string) *upsert.Error {
	if problem, hint := subject.CheckName(value); problem != "" {
		return invalid(field, problem, hint)
	}
	return nil
}

func text(field string, value any) (*string, *upsert.Error) {
	switch value := value.(type) {
	case nil:
		return new(string), nil
	case string:
		return &value, nil
	}
	return nil, invalid(field, "is not a text", "put it in quotes")
}

func addresses(value any) (map[string]string, *upsert.Error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("addresses", "is not an object", `{"email": "…", "sms": "…"}`)
	}
	all := make(map[string]string, len(fields))
	for kind, value := range fields {
		field := "addresses." + kind
		if !slices.Contains(subject.AddressKinds(), kind) {
			hint := suggest.DidYouMean(kind, subject.AddressKinds())
			if hint == "" {
				hint = "there are " + strings.Join(subject.AddressKinds(), ", ")
			}
			return nil, invalid(field, "unknown kind of address", hint)
		}
		address, err := text(field, value)
		if err != nil {
			return nil, err
		}
		if *address == "" {
			all[kind] = ""
			continue
		}
		if err := plain(field, *address); err != nil {
			return nil, err
		}
		if err := subject.CheckAddress(kind, *address); err != nil {
			return nil, invalid(field, err.Error(), "")
		}
		all[kind] = subject.NormalizeAddress(*address)
	}
	return all, nil
}

func attributes(value any) (map[string]any, *upsert.Error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("attributes", "is not an object", `{"vip": true}`)
	}
	return fields, nil
}
