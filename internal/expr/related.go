package expr

import (
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Related is a record that a field of another record names. As a value it is the id; its fields can be read below it
// (docs/concepts/reminders.md). If the record does not exist, all its fields are null.
type Related struct {
	ID     string
	Fields map[string]any
}

// MarshalText returns the id.
func (r Related) MarshalText() ([]byte, error) { return []byte(r.ID), nil }

// related is Related in an evaluation.
type related struct {
	types.String
	fields object
}

// Find implements traits.Mapper.
func (r related) Find(key ref.Val) (ref.Val, bool) { return r.fields.Find(key) }

// Get implements traits.Indexer.
func (r related) Get(key ref.Val) ref.Val { return r.fields.Get(key) }

// Contains implements traits.Container.
func (r related) Contains(key ref.Val) ref.Val { return r.fields.Contains(key) }

// Size implements traits.Sizer.
func (r related) Size() ref.Val { return r.fields.Size() }

// Iterator implements traits.Iterable.
func (r related) Iterator() traits.Iterator { return r.fields.Iterator() }

// plain returns the id of a related record and any other value unchanged, because operators do not accept records.
func plain(v ref.Val) ref.Val {
	if r, ok := v.(related); ok {
		return r.String
	}
	return v
}

// RelationOf returns the type of the records that a declared field names, TYPE in record(TYPE); empty: it names none.
func (t *RecordType) RelationOf(field string) string {
	if t == nil {
		return ""
	}
	target, ok := strings.CutPrefix(t.Declared[field], "record(")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(target, ")")
}

// MaxSteps bounds the relations that a path follows.
const MaxSteps = 3

// Relations returns the fields by which a path follows relations from a record of the type, and the field that it reads of the last
// record; nil if the path follows no relation.
func (t *RecordType) Relations(p Path) (steps []string, field string) {
	if len(p) == 0 || p[0] != "record" {
		return nil, ""
	}
	for i := 1; i+1 < len(p); i++ {
		if t.RelationOf(p[i]) == "" {
			break
		}
		steps, field = append(steps, p[i]), p[i+1]
		t = t.Related[p[i]]
	}
	return steps, field
}

// lacksBelow returns the first field of a path across relations that no record of its type has, with that type.
func (t *RecordType) lacksBelow(p Path) (of *RecordType, field string) {
	for i := 1; i+1 < len(p) && t.RelationOf(p[i]) != ""; i++ {
		if t = t.Related[p[i]]; t.lacks(Path{"record", p[i+1]}) {
			return t, p[i+1]
		}
	}
	return nil, ""
}
