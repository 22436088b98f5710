package store

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
)

// columnsOf is the one table of the columns of an aggregate: it names each column beside the field of the row type that the
// column holds. The names in a SELECT, the targets of a scan and the cells of a rowset are all made from it.
type columnsOf[R any] []columnOf[R]

// columnOf is one column: its name, and the field of a row that it holds.
type columnOf[R any] struct {
	name  string
	field func(*R) field
}

// field is a field of a row, as its column holds it.
type field interface {
	kind() string // bigint or text
	target() any  // for a scan
	put(*rowset)  // as the next cell
	isZero() bool // holds what the column holds by default
}

// columnSets are the named sets of columns that the hooks ROWS and NAMES of a statement may use instead of a list.
var columnSets = map[string][]columnSpec{}

// named makes a set of columns known to statements by its name.
func named[R any](name string, columns columnsOf[R]) columnsOf[R] {
	var zero R
	for _, c := range columns {
		columnSets[name] = append(columnSets[name], columnSpec{c.name, c.field(&zero).kind()})
	}
	return columns
}

// only returns the columns of the given names, in the order of the table.
func (l columnsOf[R]) only(names ...string) columnsOf[R] {
	out := make(columnsOf[R], 0, len(names))
	for _, c := range l {
		if slices.Contains(names, c.name) {
			out = append(out, c)
		}
	}
	if len(out) != len(names) {
		panic("store: unknown column among " + strings.Join(names, ", "))
	}
	return out
}

// without returns the columns of other names.
func (l columnsOf[R]) without(names ...string) columnsOf[R] {
	l.only(names...)
	return slices.DeleteFunc(slices.Clone(l), func(c columnOf[R]) bool { return slices.Contains(names, c.name) })
}

// ofPart returns columns of a part of a row as columns of the row.
func ofPart[R, P any](columns columnsOf[P], part func(*R) *P) columnsOf[R] {
	out := make(columnsOf[R], len(columns))
	for i, c := range columns {
		out[i] = columnOf[R]{c.name, func(r *R) field { return c.field(part(r)) }}
	}
	return out
}

// put writes numbers and then a row's fields as the next row of a rowset.
func (l columnsOf[R]) put(rows *rowset, r *R, before ...int64) {
	rows.row()
	for _, v := range before {
		rows.int(v)
	}
	for _, c := range l {
		c.field(r).put(rows)
	}
}

// scan reads a row, and then what follows it.
func (l columnsOf[R]) scan(rows *sql.Rows, after ...any) (r R, err error) {
	err = l.scanInto(&r, rows, after...)
	return r, err
}

// scanInto is scan into a part of a larger row.
func (l columnsOf[R]) scanInto(r *R, rows *sql.Rows, after ...any) error {
	targets := make([]any, 0, len(l)+len(after))
	for _, c := range l {
		targets = append(targets, c.field(r).target())
	}
	return rows.Scan(append(targets, after...)...)
}

// isZero reports whether a row holds in these columns what the schema has by default.
func (l columnsOf[R]) isZero(r *R) bool {
	return !slices.ContainsFunc(l, func(c columnOf[R]) bool { return !c.field(r).isZero() })
}

type number[T ~int | ~int64] struct{ p *T }

func integer[T ~int | ~int64](p *T) field { return number[T]{p} }
func (f number[T]) kind() string          { return "bigint" }
func (f number[T]) target() any           { return f }
func (f number[T]) put(r *rowset)         { r.int(int64(*f.p)) }
func (f number[T]) isZero() bool          { return *f.p == 0 }

// Scan implements sql.Scanner. For the address of a type of its own, database/sql writes a number as a text and reads it again.
func (f number[T]) Scan(value any) error {
	v, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a number is stored as %T", value)
	}
	*f.p = T(v)
	return nil
}

type characters[T ~string] struct{ p *T }

func text[T ~string](p *T) field      { return characters[T]{p} }
func (f characters[T]) kind() string  { return "text" }
func (f characters[T]) target() any   { return f }
func (f characters[T]) put(r *rowset) { r.text(string(*f.p)) }
func (f characters[T]) isZero() bool  { return *f.p == "" }

// Scan implements sql.Scanner, as number does.
func (f characters[T]) Scan(value any) error {
	v, ok := value.(string)
	if !ok {
		return fmt.Errorf("a text is stored as %T", value)
	}
	*f.p = T(v)
	return nil
}

// boolean is stored as 0 or 1.
type boolean struct{ p *bool }

func (f boolean) kind() string  { return "bigint" }
func (f boolean) target() any   { return f }
func (f boolean) put(r *rowset) { r.flag(*f.p) }
func (f boolean) isZero() bool  { return !*f.p }

// Scan implements sql.Scanner.
func (f boolean) Scan(value any) error {
	v, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a flag is stored as %T", value)
	}
	*f.p = v != 0
	return nil
}

// moment is an instant in microseconds; 0 is none.
type moment struct{ p *time.Time }

func (f moment) kind() string  { return "bigint" }
func (f moment) target() any   { return instant{f.p} }
func (f moment) put(r *rowset) { r.time(*f.p) }
func (f moment) isZero() bool  { return f.p.IsZero() }

// dueMoment is an instant from which work is due (see dueMicros).
type dueMoment struct{ moment }

func (f dueMoment) put(r *rowset) { r.int(dueMicros(*f.p)) }

// document is an object that is stored as JSON; empty is the text of one without keys. The numbers that it reads keep the text
// they were written with. If unreadable is set, it gets the error of a text that is no object, and the row is read without it.
type document[V any] struct {
	p          *map[string]V
	empty      string
	unreadable *error
}

func (f document[V]) kind() string { return "text" }
func (f document[V]) target() any  { return f }
func (f document[V]) isZero() bool { return len(*f.p) == 0 }

func (f document[V]) put(r *rowset) {
	text := f.empty
	if len(*f.p) > 0 {
		var err error
		if text, err = objectJSON(*f.p); err != nil && r.err == nil {
			r.err = err
		}
	}
	r.text(text)
}

// Scan implements sql.Scanner.
func (f document[V]) Scan(value any) error {
	var text sql.NullString
	if err := text.Scan(value); err != nil || text.String == "" && f.empty == "" {
		return err
	}
	d := json.NewDecoder(strings.NewReader(text.String))
	d.UseNumber()
	err := d.Decode(f.p)
	if err != nil && f.unreadable != nil {
		*f.p, *f.unreadable = nil, err
		return nil
	}
	return err
}

// objectJSON returns the stored form of an object.
func objectJSON[V any](object map[string]V) (string, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return string(bytes.TrimSpace(text.Bytes())), nil
}

// eligible is the column eligible_at. The backlog is counted from its index, so it is 0 for a row that nothing delays, and for one
// whose send_at is the same instant.
type eligible struct{ d *delivery.Row }

func (f eligible) kind() string  { return "bigint" }
func (f eligible) target() any   { return instant{&f.d.EligibleAt} }
func (f eligible) put(r *rowset) { r.int(eligibleMicros(*f.d)) }
func (f eligible) isZero() bool  { return f.d.EligibleAt.IsZero() }

// computed is a column that the program writes and does not read.
type computed struct{ field }

func (computed) target() any { return new(any) }
