package expr

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/carillonhq/carillon/internal/civil"
)

// adapter converts JSON values when they are read, so that an evaluation converts only the values that the expression names.
type adapter struct{}

// NativeToValue implements CEL's type adapter.
func (adapter) NativeToValue(value any) ref.Val { return adapt(value) }

func adapt(value any) ref.Val {
	switch v := value.(type) {
	case nil:
		return absent{}
	case ref.Val:
		return v
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case json.Number:
		return number(v)
	case map[string]any:
		return wrap(v)
	case Related:
		return related{types.String(v.ID), v.Fields}
	case Several:
		return severalOf(v)
	case Unread:
		return types.NewErr("%s", string(v))
	case []any:
		return types.NewDynamicList(adapter{}, v)
	case []string:
		return types.NewStringList(adapter{}, v)
	case int:
		return types.Int(v)
	case int64:
		return types.Int(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return types.NewErr("not a finite number")
		}
		return types.Double(v)
	case time.Time:
		return instant(v)
	case time.Duration:
		return types.Duration{Duration: v}
	case civil.Date:
		return dateValue(v)
	}
	return types.NewErr("a value of type %T is no JSON value", value)
}

// TextValue returns a text in the form that evaluations use, so that they need not convert it.
func TextValue(s string) any { return types.String(s) }

// NumberValue returns the number of a JSON text in the form that evaluations use.
func NumberValue(s string) any { return number(json.Number(s)) }

// TextOf returns a value of an input as a text; empty if it is not a text.
func TextOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case types.String:
		return string(v)
	case Related:
		return v.ID
	}
	return ""
}

const (
	// maxDigits bounds the text of a number, because each use of the number parses the text.
	maxDigits = 1000
	// maxFieldName bounds the name of a field that an expression computes, because each use hashes it.
	maxFieldName = 1024
	// maxTimeText is longer than any text that contains a time.
	maxTimeText = 64
)

// number converts a number. Whole numbers of up to 64 bits are exact.
func number(n json.Number) ref.Val {
	if len(n) > maxDigits {
		return types.NewErr("a number of more than %d digits cannot be computed with", maxDigits)
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return types.Int(i)
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return types.NewErr("%q is no number that can be computed with", clip(string(n)))
	}
	return types.Double(f)
}

// object is a JSON object: a map whose missing fields are null.
type object map[string]any

func wrap(m map[string]any) ref.Val {
	if m == nil {
		return absent{}
	}
	return object(m)
}

// wrapRecipient makes customer_ref readable as customerRef, its name in the source (C5).
func wrapRecipient(value any) ref.Val {
	m, ok := value.(map[string]any)
	if !ok {
		return adapt(value)
	}
	if _, given := m["customerRef"]; given {
		return object(m)
	}
	return recipient{object(m)}
}

type recipient struct{ object }

func (r recipient) Find(key ref.Val) (ref.Val, bool) {
	if key.Equal(types.String("customerRef")) == types.True {
		return r.object.Find(types.String("customer_ref"))
	}
	return r.object.Find(key)
}

func (r recipient) Get(key ref.Val) ref.Val { v, _ := r.Find(key); return v }

// Find implements traits.Mapper. Every key is found; a key without a field gives null.
func (o object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.NewErr("a field is named by a text, not by %s", typeName(key)), false
	}
	if len(name) > maxFieldName {
		return types.NewErr("the name of a field is longer than %d bytes", maxFieldName), false
	}
	return adapt(o[string(name)]), true
}

// Get implements traits.Indexer.
func (o object) Get(key ref.Val) ref.Val { v, _ := o.Find(key); return v }

// Contains implements traits.Container; a field that is null is not contained.
func (o object) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	return types.Bool(ok && o[string(name)] != nil)
}

// Size implements traits.Sizer.
func (o object) Size() ref.Val { return types.Int(len(o)) }

// Iterator implements traits.Iterable, over the names in alphabetical order.
func (o object) Iterator() traits.Iterator {
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	return types.NewStringList(adapter{}, names).Iterator()
}

// Equal implements ref.Val.
func (o object) Equal(other ref.Val) ref.Val { return types.Bool(equal(o, other)) }

// Type implements ref.Val.
func (o object) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o object) Value() any { return map[string]any(o) }

// ConvertToNative implements ref.Val. Results are converted by export instead.
func (o object) ConvertToNative(reflect.Type) (any, error) { return map[string]any(o), nil }

// ConvertToType implements ref.Val.
func (o object) ConvertToType(t ref.Type) ref.Val { return noConversion(o, t) }

// absent is null, in the data or because a field is missing. Fields of null are null, and null has no items.
type absent struct{}

// Find implements traits.Mapper.
func (absent) Find(ref.Val) (ref.Val, bool) { return absent{}, true }

// Get implements traits.Indexer.
func (absent) Get(ref.Val) ref.Val { return absent{} }

// Contains implements traits.Container.
func (absent) Contains(ref.Val) ref.Val { return types.False }

// Size implements traits.Sizer.
func (absent) Size() ref.Val { return types.IntZero }

// Iterator implements traits.Iterable.
func (absent) Iterator() traits.Iterator { return types.NewStringList(adapter{}, nil).Iterator() }

// Equal implements ref.Val.
func (absent) Equal(other ref.Val) ref.Val { return types.Bool(isNull(other)) }

// Type implements ref.Val.
func (absent) Type() ref.Type { return types.NullType }

// Value implements ref.Val.
func (absent) Value() any { return nil }

// ConvertToNative implements ref.Val.
func (absent) ConvertToNative(reflect.Type) (any, error) { return nil, nil }

// ConvertToType implements ref.Val.
func (absent) ConvertToType(t ref.Type) ref.Val { return noConversion(absent{}, t) }

func isNull(v ref.Val) bool {
	switch v.(type) {
	case absent, types.Null:
		return true
	}
	return false
}

// local is a date, or a date and time without a zone, stored as if it were in UTC. It is compared with the wall clock of an instant in
// the instant's zone, so that days are calendar days even if the clocks change.
type local struct{ wall time.Time }

func dateValue(d civil.Date) local {
	return local{time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC)}
}

// Equal implements ref.Val.
func (l local) Equal(other ref.Val) ref.Val { return types.Bool(equal(l, other)) }

// Type implements ref.Val.
func (local) Type() ref.Type { return types.TimestampType }

// Value implements ref.Val.
func (l local) Value() any { return l.wall }

// ConvertToNative implements ref.Val.
func (l local) ConvertToNative(reflect.Type) (any, error) { return l.wall, nil }

// ConvertToType implements ref.Val.
func (l local) ConvertToType(t ref.Type) ref.Val { return noConversion(l, t) }

func noConversion(v ref.Val, t ref.Type) ref.Val {
	return types.NewErr("%s cannot be turned into %s", typeName(v), t.TypeName())
}

func instant(t time.Time) ref.Val { return types.Timestamp{Time: t} }

// wallOf returns the wall clock of an instant in its own zone.
func wallOf(t time.Time) time.Time {
	y, m, d := t.Date()
	h, min, s := t.Clock()
	return time.Date(y, m, d, h, min, s, t.Nanosecond(), time.UTC)
}

// asTime reads a time: an instant, a date, or a text that contains one of them.
func asTime(v ref.Val) (ref.Val, bool) {
	switch v := v.(type) {
	case types.Timestamp, local:
		return v, true
	case types.String:
		s := string(v)
		if len(s) < len("2006-01-02") || len(s) > maxTimeText || s[4] != '-' { // most texts are no times, and a parser would allocate
			return nil, false
		}
		if d, err := civil.ParseDate(s); err == nil {
			return dateValue(d), true
		}
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			return instant(t), true
		}
		for _, layout := range [...]string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
			if t, err := time.Parse(layout, s); err == nil {
				return local{t}, true
			}
		}
	}
	return nil, false
}

// get reads one field or item outside an evaluation.
func get(v ref.Val, step string) ref.Val {
	switch v := v.(type) {
	case traits.Mapper:
		out, _ := v.Find(types.String(step))
		return out
	}
	return absent{}
}

// export converts a result to JSON values and times.
func export(v ref.Val) any {
	switch v := v.(type) {
	case absent, types.Null, *types.Err, *types.Unknown:
		return nil
	case types.Bool:
		return bool(v)
	case types.Int:
		return int64(v)
	case types.Double:
		return float64(v)
	case types.String:
		return string(v)
	case related:
		return string(v.String)
	case types.Duration:
		return v.Duration
	case types.Timestamp:
		return v.Time.UTC()
	case local:
		if v.wall.Equal(v.wall.Truncate(24 * time.Hour)) {
			d, _ := civil.DateOf(v.wall, time.UTC)
			return d
		}
		return v.wall.Format("2006-01-02T15:04:05.999999999")
	case object:
		return map[string]any(v)
	case recipient:
		return map[string]any(v.object)
	case traits.Lister:
		out := make([]any, 0, int(v.Size().(types.Int)))
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = append(out, export(it.Next()))
		}
		return out
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			out[fmt.Sprint(key.Value())] = export(v.Get(key))
		}
		return out
	}
	return v.Value()
}

// export checks that a result has the type for which the program was compiled, and converts it.
func (p *Program) export(v ref.Val, in *Input) (any, error) {
	if isNull(v) {
		return nil, nil
	}
	ok := true
	switch p.want {
	case Bool:
		_, ok = v.(types.Bool)
	case Number:
		ok = isNumber(v)
	case Text:
		if isNumber(v) { // sources write telephone numbers and ids as numbers
			return fmt.Sprint(v.Value()), nil
		}
		_, ok = v.(types.String)
	case List:
		_, ok = v.(traits.Lister)
	case Object:
		_, ok = v.(traits.Mapper)
	case Time:
		var t ref.Val
		if t, ok = asTime(v); ok {
			v = t
			if l, isLocal := v.(local); isLocal && !l.wall.Equal(l.wall.Truncate(24*time.Hour)) {
				return in.resolve(l.wall), nil
			}
		}
	case Any:
	}
	if !ok {
		return nil, fmt.Errorf("must be %s, and is %s", article(p.want), typeName(v))
	}
	return export(v), nil
}

// resolve returns the instant of a local date and time in the input's zone (product decision 27).
func (in *Input) resolve(wall time.Time) time.Time {
	zone := in.Zone
	if zone == nil {
		zone = time.UTC
	}
	day, clock := civil.DateOf(wall, time.UTC)
	at, _ := civil.Resolve(day, clock, zone, civil.Rule{})
	return at
}
