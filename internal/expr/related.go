package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/common/operators"
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

// The names by which the parents, the children and the owner of a record are read.
const (
	Parent   = "parent"
	Parents  = "parents"
	Children = "children"
	Owner    = "owner"
)

// MaxSteps bounds the relations that a path follows.
const MaxSteps = 3

// Below returns the type of the records to which a step leads; nil: it is not known.
func (t *RecordType) Below(step string) *RecordType {
	if t == nil {
		return nil
	}
	return t.Related[step]
}

// follows reports whether a step may lead to other records: a declared field names one, a parent has the name, or it means parents or
// children. sure is false for a field of an open type, which may also be an object.
func (t *RecordType) follows(step string) (sure, follows bool) {
	if t.RelationOf(step) != "" {
		return true, true
	}
	if t != nil {
		if _, declared := t.Fields[step]; declared {
			return true, false
		}
	}
	switch {
	case step == Parent || step == Parents || step == Children:
		return true, true
	case slices.Contains(recordNames(), step):
		return true, false
	}
	return false, t == nil
}

// Relations returns the steps by which a path follows relations from a record of the type, and the field that it reads of the last
// record; nil if the path follows no relation. The field is empty if the path ends with parents or children themselves. A nil type is open.
func (t *RecordType) Relations(p Path) (steps []string, field string) {
	if len(p) == 0 || p[0] != "record" {
		return nil, ""
	}
	for i := 1; i < len(p); i++ {
		sure, follows := t.follows(p[i])
		last := i+1 == len(p)
		if !follows || !sure && len(steps) == MaxSteps || last && (t.RelationOf(p[i]) != "" || !sure) {
			break
		}
		steps, field = append(steps, p[i]), ""
		if !last {
			field = p[i+1]
		}
		t = t.Below(p[i])
	}
	return steps, field
}

// childrenIn counts the steps of a path that lead to children.
func (t *RecordType) childrenIn(p Path, steps []string) (n int) {
	for i := range steps {
		if p[i+1] == Children && t.RelationOf(Children) == "" {
			n++
		}
		t = t.Below(p[i+1])
	}
	return n
}

// ownersField reports whether a path reads a field of the owner that owners do not have, in a type that declares no field of that name.
func (t *RecordType) ownersField(p Path) bool {
	const below = 3
	if t == nil || len(p) < below || p[0] != "record" || p[1] != Owner {
		return false
	}
	_, declared := t.Fields[Owner]
	return !declared && !slices.Contains([]string{"id", "kind", "contact", "group", "place"}, p[2])
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

// Several are the records that one name stands for: the parents or the children of a record, in their order. A field of them is the list of
// its values, and a comparison holds if it holds for any of them.
type Several []Related

// Unread stands for a value that could not be read. An expression that reads it fails with the text.
type Unread string

// several is Several, or a field of them, in an evaluation.
type several struct {
	traits.Lister
	all     []ref.Val
	names   []string // of the records, TYPE/ID; nil for a field
	records bool
}

func severalOf(v Several) several {
	all, names := make([]ref.Val, len(v)), make([]string, len(v))
	for i, r := range v {
		all[i], names[i] = related{types.String(r.ID), r.Fields}, r.ID
		if typ := TextOf(r.Fields["type"]); typ != "" {
			names[i] = typ + "/" + r.ID
		}
	}
	return several{types.NewRefValList(adapter{}, all), all, names, true}
}

// Find implements traits.Mapper.
func (s several) Find(key ref.Val) (ref.Val, bool) {
	if _, index := key.(types.String); !index {
		return s.Lister.Get(key), true
	}
	var out several
	for i, v := range s.all {
		switch field := fieldOf(v, key).(type) {
		case several:
			out.all = append(out.all, field.all...)
			for _, name := range field.names {
				out.names = append(out.names, s.names[i]+" "+name)
			}
			out.records = field.records
		case *types.Err:
			return field, false
		default:
			_, out.records = field.(related)
			out.all, out.names = append(out.all, field), append(out.names, s.names[i])
		}
	}
	out.Lister = types.NewRefValList(adapter{}, out.all)
	return out, true
}

func fieldOf(v, key ref.Val) ref.Val {
	if m, ok := v.(traits.Mapper); ok {
		field, _ := m.Find(key)
		return field
	}
	return absent{}
}

// Get implements traits.Indexer.
func (s several) Get(key ref.Val) ref.Val { v, _ := s.Find(key); return v }

// each applies an operator to every value, and returns the list of the results.
func (s several) each(op unary) ref.Val {
	out := several{names: s.names, all: make([]ref.Val, len(s.all))}
	for i, v := range s.all {
		if out.all[i] = v; !types.IsError(v) {
			out.all[i] = op(plain(v))
		}
	}
	out.Lister = types.NewRefValList(adapter{}, out.all)
	return out
}

// anyOf reports whether an operator holds for any value. If it holds for none, an error of one of them is the result, but a missing value is
// only if all are missing.
func (s several) anyOf(op unary) ref.Val {
	is, missed := ref.Val(types.False), 0
	for _, v := range s.all {
		var missing *missingError
		r := v
		if !types.IsError(v) {
			r = op(plain(v))
		}
		switch r := r.(type) {
		case types.Bool:
			if r {
				return types.True
			}
		case *types.Err:
			if errors.As(r, &missing) {
				if missed++; missed == len(s.all) {
					return r
				}
			} else {
				is = r
			}
		default:
			return r
		}
	}
	return is
}

// shown returns the values with the records that have them, as a clause is explained; up to mostReadings of them.
func (s several) shown() any {
	if s.records {
		return slices.Clone(s.names[:min(len(s.names), mostReadings)])
	}
	all := map[string]any{}
	for i, v := range s.all {
		if i == mostReadings {
			all["…"] = fmt.Sprintf("and %d more", len(s.all)-i)
			break
		}
		all[s.names[i]] = export(v)
	}
	return all
}

// liftUnary makes an operator accept several values: one that is true or false holds if it holds for any of them, any other is applied to
// each.
func liftUnary(name string, op unary) unary {
	return func(x ref.Val) ref.Val {
		s, ok := x.(several)
		switch {
		case !ok:
			return op(plain(x))
		case name == "size":
			return s.Size()
		case name == fnTruth, name == fnFound:
			return s.anyOf(op)
		case name == operators.LogicalNot:
			return op(s.anyOf(truth))
		}
		return s.each(op)
	}
}

// liftBinary is liftUnary for two operands.
func liftBinary(name string, op binary) binary {
	return func(x, y ref.Val) ref.Val {
		a, left := x.(several)
		b, right := y.(several)
		if left && right && (name == fnEqual || name == fnDiffer || name == operators.In || isOrder(name)) || left && isBool(name) {
			if name == fnEqual && isNull(y) && a.records {
				return types.Bool(len(a.all) == 0)
			}
			return a.anyOf(func(v ref.Val) ref.Val { return liftBinary(name, op)(v, y) })
		}
		switch {
		case left:
			return a.each(func(v ref.Val) ref.Val { return liftBinary(name, op)(v, y) })
		case right && name == operators.In:
			return b.anyOf(func(v ref.Val) ref.Val {
				if _, list := v.(traits.Lister); list {
					return op(plain(x), v)
				}
				return compared(plain(x), v, equals)
			})
		case right && name == fnEqual && isNull(x) && b.records:
			return types.Bool(len(b.all) == 0)
		case right && isBool(name):
			return b.anyOf(func(v ref.Val) ref.Val { return op(plain(x), v) })
		case right:
			return b.each(func(v ref.Val) ref.Val { return op(plain(x), v) })
		}
		return op(plain(x), plain(y))
	}
}

func isOrder(name string) bool {
	return name == operators.Less || name == operators.LessEquals || name == operators.Greater || name == operators.GreaterEquals
}

// isBool reports whether an operator of two operands is true or false.
func isBool(name string) bool {
	switch name {
	case fnEqual, fnDiffer, operators.In, "contains", "startsWith", "endsWith":
		return true
	}
	return isOrder(name)
}
