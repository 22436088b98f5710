package rowreader

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/suggest"
)

// Type is what becomes of a cell's text.
type Type string

// The types. An empty cell is left out, whatever its type.
const (
	Text    Type = "text"
	Number  Type = "number"
	Bool    Type = "bool"
	Date    Type = "date"
	Instant Type = "datetime"
)

// alsoInstant is the older name of Instant. Fields of records use it for a time of day.
const alsoInstant = "time"

func types() []string {
	return []string{string(Text), string(Number), string(Bool), string(Date), string(Instant)}
}

// typeNamed returns the type of that name.
func typeNamed(name string) (Type, error) {
	switch {
	case slices.Contains(types(), name):
		return Type(name), nil
	case name == alsoInstant:
		return Instant, nil
	}
	return "", fmt.Errorf("%q is not a type; there are %s", name, strings.Join(types(), ", "))
}

const markPrefix = "rejected_"

// Delimiters are the columns that a report of rejected rows adds to a row. A mapping ignores them, so that the corrected
// report can be read as it is.
func Delimiters() []string {
	return []string{markPrefix + "line", markPrefix + "reason", markPrefix + "field", markPrefix + "message", markPrefix + "hint"}
}

// Shape is what objects may hold.
type Shape struct {
	Noun   string   // what one is called
	Fields []string // such as id and recipient.address
	Types  map[string]Type
	Groups []string          // objects with members of any name, such as payload
	Rest   string            // the group for columns that nobody maps
	Short  map[string]string // other names of fields
}

// Objects are the fields that have members.
func (s Shape) Objects() []string {
	objects := slices.Clone(s.Groups)
	for _, path := range s.Fields {
		if group, _, nested := strings.Cut(path, "."); nested && !slices.Contains(objects, group) {
			objects = append(objects, group)
		}
	}
	return objects
}

// field is where a value goes and how it is read.
type field struct {
	group, name string
	as          Type // empty: as it is
}

func (f field) path() string {
	if f.group == "" {
		return f.name
	}
	return f.group + "." + f.name
}

// Mapping says into which fields the columns of a file go.
type Mapping struct {
	shape    Shape
	zone     *time.Location
	constant map[string]string
	by       map[string][]field // by column
	skip     map[string]bool
	taken    map[string]string // field → column
}

// NewMapping reads rules such as recipient.address=phone and payload.age:number=age. A column without a rule goes into
// the field of its own name, and when there is none into the rest. Constants are fields that are the same in every
// object. Local times are read in zone.
func NewMapping(shape Shape, rules, skip []string, constants map[string]string, zone *time.Location) (*Mapping, error) {
	m := &Mapping{shape: shape, zone: zone, constant: constants, by: map[string][]field{}, skip: map[string]bool{}, taken: map[string]string{}}
	for _, column := range append(Delimiters(), skip...) {
		m.skip[column] = true
	}
	for name := range constants {
		m.taken[name] = ""
	}
	for _, rule := range rules {
		target, column, ok := strings.Cut(rule, "=")
		if !ok || target == "" || column == "" {
			return nil, fmt.Errorf("%q is not a rule; write FIELD=COLUMN, such as %s=%s", rule, shape.Fields[0], "number")
		}
		f, err := m.field(target)
		if err != nil {
			return nil, err
		}
		if other, twice := m.taken[f.path()]; twice {
			if other == "" {
				return nil, fmt.Errorf("%s is given for all rows already", f.path())
			}
			return nil, fmt.Errorf("two columns go into %s: %s and %s", f.path(), other, column)
		}
		m.taken[f.path()] = column
		m.by[column] = append(m.by[column], f)
	}
	return m, nil
}

// field reads a target such as payload.age:number.
func (m *Mapping) field(target string) (field, error) {
	path, as, typed := strings.Cut(target, ":")
	f, ok := m.known(path)
	if !ok {
		hint := suggest.DidYouMean(path, slices.Concat(m.shape.Fields, slices.Sorted(maps.Keys(m.shape.Short))))
		if hint == "" {
			hint = "there are " + strings.Join(m.shape.Fields, ", ")
			for _, group := range m.shape.Groups {
				hint += ", " + group + ".NAME"
			}
			if m.shape.Rest != "" && !strings.Contains(path, ".") {
				hint += fmt.Sprintf("; did you mean %s.%s?", m.shape.Rest, path)
			}
		}
		return f, fmt.Errorf("%s has no field %q; %s", m.shape.Noun, path, hint)
	}
	if !typed {
		return f, nil
	}
	given, err := typeNamed(as)
	if err != nil {
		return f, err
	}
	if f.as != "" && f.as != given {
		return f, fmt.Errorf("%s is always read as %s; leave :%s out", f.path(), f.as, as)
	}
	f.as = given
	return f, nil
}

// known finds a field by its path.
func (m *Mapping) known(path string) (field, bool) {
	if long, ok := m.shape.Short[path]; ok {
		path = long
	}
	group, name, nested := strings.Cut(path, ".")
	f := field{name: path, as: m.shape.Types[path]}
	if nested {
		f.group, f.name = group, name
	}
	if slices.Contains(m.shape.Fields, path) {
		if f.as == "" {
			f.as = Text
		}
		return f, true
	}
	return f, nested && name != "" && slices.Contains(m.shape.Groups, group)
}

// Check holds the mapping against the head of a file: rules about columns that are not there are mistakes.
func (m *Mapping) Check(head []string) error {
	for _, named := range []map[string]string{m.columns(), m.skipped()} {
		for column := range named {
			if !slices.Contains(head, column) {
				hint := suggest.DidYouMean(column, head)
				if hint == "" {
					hint = "the columns are " + strings.Join(head, ", ")
				}
				return fmt.Errorf("the file has no column %q; %s", column, hint)
			}
		}
	}
	for _, column := range head {
		for _, f := range m.fieldsOf(column) {
			if f.group == "" && m.shape.Rest == "" && !slices.Contains(m.shape.Fields, f.name) {
				return fmt.Errorf("%s has no place for the column %q; leave it out with --skip %s", m.shape.Noun, column, column)
			}
			if other, twice := m.taken[f.path()]; twice && other != column {
				return fmt.Errorf("two columns go into %s: %s and %s; leave one out with --skip", f.path(), other, column)
			}
		}
	}
	return nil
}

// Fields are the paths of the fields into which the columns of a head go.
func (m *Mapping) Fields(head []string) []string {
	var paths []string
	for _, column := range head {
		for _, f := range m.fieldsOf(column) {
			paths = append(paths, f.path())
		}
	}
	return paths
}

func (m *Mapping) columns() map[string]string {
	named := map[string]string{}
	for f, column := range m.taken {
		if column != "" {
			named[column] = f
		}
	}
	return named
}

func (m *Mapping) skipped() map[string]string {
	named := map[string]string{}
	for column := range m.skip {
		if !slices.Contains(Delimiters(), column) {
			named[column] = ""
		}
	}
	return named
}

// fieldsOf is where a column goes.
func (m *Mapping) fieldsOf(column string) []field {
	if m.skip[column] {
		return nil
	}
	if fields := m.by[column]; fields != nil {
		return fields
	}
	f, ok := m.known(column)
	if other, taken := m.taken[f.path()]; ok && taken && other == "" {
		ok = false // it is given for all rows; the column is one of the caller's own
	}
	if !ok {
		f = field{group: m.shape.Rest, name: column}
	}
	return []field{f}
}

// Object makes the object of a row.
func (m *Mapping) Object(row Row) (map[string]any, *Fault) {
	out := make(map[string]any, 4)
	for name, value := range m.constant {
		out[name] = value
	}
	for _, cell := range row.Cells {
		if !cell.JSON && cell.Text == "" || cell.JSON && cell.Text == "null" {
			continue
		}
		for _, f := range m.fieldsOf(cell.Column) {
			value, err := m.value(cell, f.as)
			if err != nil {
				wrong := fault(row.Line, f.path(), err.Error(), "")
				var hinted *hintedError
				if errors.As(err, &hinted) {
					wrong.Hint = hinted.hint
				}
				return nil, wrong
			}
			at := out
			if f.group != "" {
				inner, ok := out[f.group].(map[string]any)
				if !ok {
					inner = map[string]any{}
					out[f.group] = inner
				}
				at = inner
			}
			if _, twice := at[f.name]; twice {
				return nil, fault(row.Line, f.path(), "two columns go into this field", "map one of them elsewhere, or leave it out with --skip")
			}
			at[f.name] = value
		}
	}
	return out, nil
}

// Value reads a text as a type: without one it stays a text. Local times are read in zone.
func Value(text string, as Type, zone *time.Location) (any, error) {
	if as != "" {
		var err error
		if as, err = typeNamed(string(as)); err != nil {
			return nil, err
		}
	}
	value, err := (&Mapping{zone: zone}).value(Cell{Text: text}, as)
	var hinted *hintedError
	if errors.As(err, &hinted) && hinted.hint != "" {
		return nil, fmt.Errorf("%w; %s", err, hinted.hint)
	}
	return value, err
}

type hintedError struct{ message, hint string }

func (e *hintedError) Error() string { return e.message }

// value reads a cell as a type.
func (m *Mapping) value(cell Cell, as Type) (any, error) {
	text := cell.Text
	if cell.JSON {
		if as == "" {
			return json.RawMessage(text), nil
		}
		switch text[0] {
		case '{', '[':
			return nil, &hintedError{"is not a single value", "map it into a field without a type"}
		case '"':
			if err := json.Unmarshal([]byte(cell.Text), &text); err != nil {
				return nil, &hintedError{"is not valid JSON", ""}
			}
		}
	}
	trimmed := strings.TrimSpace(text)
	switch as {
	case Number:
		if c := (trimmed + " ")[0]; c != '-' && (c < '0' || c > '9') || !json.Valid([]byte(trimmed)) {
			return nil, &hintedError{"is not a number", "write it like 1234.5; digits that are no number, such as 007, are a text"}
		}
		return json.Number(trimmed), nil
	case Bool:
		switch strings.ToLower(trimmed) {
		case "true", "yes", "y", "1":
			return true, nil
		case "false", "no", "n", "0":
			return false, nil
		}
		return nil, &hintedError{"is neither true nor false", "write true or false, yes or no, 1 or 0"}
	case Date:
		d, err := civil.ParseDate(trimmed)
		if err != nil {
			return nil, &hintedError{"is not a date", "write it like 2026-05-14"}
		}
		return d.String(), nil
	case Instant:
		return m.instant(trimmed)
	case Text, "":
	}
	return text, nil
}

// instant reads an instant with its offset, or a local time of the mapping's zone.
func (m *Mapping) instant(text string) (any, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.Format(time.RFC3339Nano), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		wall, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		date, clock := civil.DateOf(wall, time.UTC)
		at, _ := civil.Resolve(date, clock, m.zone, civil.Rule{})
		return at.In(m.zone).Format(time.RFC3339Nano), nil
	}
	return nil, &hintedError{"is not an instant", "write it like 2026-05-14T08:12:34+03:00, or 2026-05-14 08:12 with --timezone"}
}
