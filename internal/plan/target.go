package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Target is a recipient that an audience entry names: a contact by its id, or the contact with an address. A record is reached as the
// contact with the record's id, else by an address among the record's fields (docs/reference/definitions.md, audience).
type Target struct {
	ID      string // id of a contact or a record; empty: only the address is known
	Address string // empty: only the id is known
	Kind    string // of the address, if the entry does not say it
	Later   bool   // the address is for a channel of the fallback, not for the first one
	// Group or Place is set in place of all others: its people are meant.
	Group, Place string
	// From the record, for a contact that is reached by the record's address and has no values of its own.
	Locale, Timezone string
}

// Targets evaluates one audience entry. It returns each target once, in the order of the expression. A value of `address` that is no address of
// its kind, such as none, names nobody. The trigger's channels choose the
// address of a record: the one for the first channel for which the record has an address.
func Targets(entry definition.Audience, channels []string, in expr.Input) ([]Target, error) {
	program := entry.To
	switch {
	case entry.Address != nil:
		program = entry.Address
	case entry.Function != nil:
		return byFunction(entry.Function, in)
	}
	value, err := program.EvalRelated(in)
	if err != nil {
		return nil, fmt.Errorf("audience %s: %w", program.Source(), err)
	}
	all, err := targets(value, channels)
	if err != nil {
		return nil, fmt.Errorf("audience %s: %w", program.Source(), err)
	}
	if entry.Address == nil {
		return all, nil
	}
	var addresses []Target
	for _, t := range all {
		if address := strings.TrimSpace(t.ID); subject.CheckAddress(entry.AddressKind, address) == nil {
			addresses = append(addresses, Target{Address: address})
		}
	}
	return addresses, nil
}

// byFunction returns whom an audience function names, each once.
func byFunction(function *expr.Program, in expr.Input) ([]Target, error) {
	value, err := function.EvalRelated(in)
	if err != nil {
		return nil, fmt.Errorf("audience function %s: %w", function.Source(), err)
	}
	found, _ := value.([]any)
	all, seen := make([]Target, 0, len(found)), make(map[Target]bool, len(found))
	for _, one := range found {
		r, _ := one.(expr.Recipient)
		if t := (Target{ID: r.ID, Address: r.Address, Kind: r.Kind}); !seen[t] {
			seen[t] = true
			all = append(all, t)
		}
	}
	return all, nil
}

func targets(value any, channels []string) ([]Target, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		if _, isRecord := value["closed"].(bool); isRecord {
			return ofRecord(expr.TextOf(value["id"]), value, channels), nil
		}
		if t, owns := ofOwner(value); owns {
			return []Target{t}, nil
		}
		return nil, errors.New("a name or an address was expected, not an object")
	case expr.Related:
		return ofRecord(value.ID, value.Fields, channels), nil
	case string:
		return ofRecord(value, nil, nil), nil
	case []any:
		var all []Target
		known := make(map[Target]bool, len(value))
		for _, one := range value {
			some, err := targets(one, channels)
			if err != nil {
				return nil, err
			}
			for _, t := range some {
				if one := (Target{ID: t.ID, Group: t.Group, Place: t.Place}); !known[one] {
					known[one] = true
					all = append(all, t)
				}
			}
		}
		return all, nil
	case fmt.Stringer:
		return []Target{{ID: value.String()}}, nil
	case int64, float64:
		canonical, err := key.CanonicalJSON(value)
		return []Target{{ID: string(canonical)}}, err
	}
	return nil, fmt.Errorf("a name or an address was expected, not %s", expr.KindOf(value))
}

// PlacesOf evaluates an audience entry for the people of a place above. It returns the places from which it goes up, each once: by its name (Place), or as
// that of a contact (ID). A group is at no place.
func PlacesOf(entry definition.Audience, in expr.Input) ([]Target, error) {
	value, err := entry.To.EvalRelated(in)
	if err == nil {
		var all []Target
		if all, err = placesOf(value); err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("audience place_above %s: %w", entry.To.Source(), err)
}

func placesOf(value any) (all []Target, err error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		t, owns := ofOwner(value)
		switch {
		case !owns:
			return nil, errors.New("a place or an owner was expected, not an object")
		case t.Group != "":
			return nil, nil
		}
		return []Target{t}, nil
	case expr.Related:
		return placesOf(value.ID)
	case string:
		if value != "" {
			all = []Target{{Place: value}}
		}
		return all, nil
	case []any:
		for _, one := range value {
			some, err := placesOf(one)
			if err != nil {
				return nil, err
			}
			for _, t := range some {
				if !slices.Contains(all, t) {
					all = append(all, t)
				}
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("a place or an owner was expected, not %s", expr.KindOf(value))
}

// ofOwner returns the target for the owner of a record.
func ofOwner(fields map[string]any) (Target, bool) {
	id := expr.TextOf(fields["id"])
	switch kind := expr.TextOf(fields["kind"]); {
	case id == "" || expr.TextOf(fields[kind]) != id:
		return Target{}, false
	case kind == subject.OwnerContact:
		return Target{ID: id}, true
	case kind == subject.OwnerGroup:
		return Target{Group: id}, true
	case kind == subject.OwnerPlace:
		return Target{Place: id}, true
	}
	return Target{}, false
}

// NamesOwners reports whether an audience entry may name the owner of a record, who may be a group.
func NamesOwners(entry definition.Audience) bool {
	return entry.To != nil && slices.ContainsFunc(entry.To.Paths(), func(p expr.Path) bool { return slices.Contains(p, expr.Owner) || len(p) == 1 })
}

// ofRecord returns the target for a record, or none when it has neither an id nor an address.
func ofRecord(id string, fields map[string]any, channels []string) []Target {
	if id == "" {
		return nil
	}
	t := Target{ID: id}
	for i, channel := range channels {
		kind, _, _ := strings.Cut(channel, ":")
		if t.Address, t.Later = ownAddress(fields, kind), i > 0; t.Address != "" {
			break
		}
	}
	if t.Address == "" {
		return []Target{t}
	}
	if locale := expr.TextOf(fields["locale"]); subject.ValidLocale(locale) {
		t.Locale = locale
	}
	zone := expr.TextOf(fields["timezone"])
	if _, err := civil.LoadZone(zone); err == nil && zone != "" {
		t.Timezone = zone
	}
	return []Target{t}
}

// ownAddress returns a record's address for a kind of channel, or "". A kind without outside addresses, such as inbox, takes the first
// address of the record.
func ownAddress(fields map[string]any, kind string) string {
	for _, field := range subject.AddressFields(kind) {
		value := fields[field]
		text := expr.TextOf(value)
		if n, isNumber := value.(json.Number); isNumber { // a telephone number that its source writes as a JSON number
			text = string(n)
		}
		if text = strings.TrimSpace(text); text != "" && subject.CheckAddress(shapeOf(field), text) == nil {
			return text
		}
	}
	return ""
}

// shapeOf returns the kind of address that a field holds.
func shapeOf(field string) string {
	if field == "phone" {
		return "sms"
	}
	return field
}
