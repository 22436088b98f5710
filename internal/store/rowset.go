package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// rowset is a table of parameters, by which a statement gets a batch of any size. Its cells are written row by row, in the
// order of the hook's columns.
type rowset struct {
	n, at   int
	columns []column
	err     error // of the first cell that one of the databases cannot hold
}

// column holds one value until a row has another one, because most columns of a batch are constant.
type column struct {
	isText bool
	n      int
	varies bool
	int    int64 // the first value
	text   string
	ints   []int64
	texts  []string
}

// columnSet is a set of columns of a rowset, by their positions.
type columnSet uint64

func (s columnSet) has(i int) bool { return s&(1<<i) != 0 }

// row begins the next row.
func (r *rowset) row() *rowset { r.n, r.at = r.n+1, 0; return r }

func (r *rowset) cell(isText bool) *column {
	if r.at == len(r.columns) {
		r.columns = append(r.columns, column{isText: isText})
	}
	r.at++
	c := &r.columns[r.at-1]
	c.n++
	return c
}

func (r *rowset) int(v int64) *rowset {
	c := r.cell(false)
	if c.n == 1 {
		c.int = v
	} else if !c.varies && v != c.int {
		c.varies, c.ints = true, slices.Repeat([]int64{c.int}, c.n-1)
	}
	if c.varies {
		c.ints = append(c.ints, v)
	}
	return r
}

func (r *rowset) text(v string) *rowset {
	c := r.cell(true)
	switch {
	case c.n > 1 && !c.varies && v == c.text:
		return r
	case c.n == 1:
		c.text = v
	case !c.varies:
		c.varies, c.texts = true, slices.Repeat([]string{c.text}, c.n-1)
	}
	if err := storable(v); err != nil && r.err == nil {
		r.err = fmt.Errorf("row %d, column %d: %w", r.n, r.at, err)
	}
	if c.varies {
		c.texts = append(c.texts, v)
	}
	return r
}

func (r *rowset) flag(v bool) *rowset { return r.int(flag(v)) }

func (r *rowset) time(v time.Time) *rowset { return r.int(micros(v)) }

// check returns an error if a cell cannot be stored or if the rowset does not fit its statement.
func (r *rowset) check(spec []columnSpec) error {
	if r.err != nil {
		return r.err
	}
	if len(spec) != len(r.columns) {
		return fmt.Errorf("rowset has %d columns, its statement %d", len(r.columns), len(spec))
	}
	for i, c := range r.columns {
		if c.n != r.n || c.isText != (spec[i].kind == "text") {
			return fmt.Errorf("rowset column %q is not filled as its statement says", spec[i].name)
		}
	}
	return nil
}

// manyRows is the number of rows from which constant columns are left out. With fewer rows too many columns are constant by
// chance, and each set of constant columns is a statement of its own.
const manyRows = 16

// constant returns the columns that hold the same value in all rows, if there are manyRows. At least one column is left in,
// which determines the number of rows.
func (r *rowset) constant() (s columnSet) {
	if r.n < manyRows {
		return 0
	}
	last := len(r.columns) - 1
	for i, c := range r.columns {
		if !c.varies && (i < last || s != 1<<last-1) {
			s |= 1 << i
		}
	}
	return s
}

// loneRow stands for all columns of a rowset with one row. On PostgreSQL such a rowset is plain parameters, not arrays. The
// planner then sees no join, which it might begin at the wrong table, and it keeps one plan for all values, where it would plan
// a statement with an array each time (measured: 0.6 of 0.8 ms of a lookup).
const loneRow = ^columnSet(0)

// value returns the value of a constant column.
func (c *column) value() any {
	if c.isText {
		return c.text
	}
	return c.int
}

// array returns all values of a column.
func (c *column) array() any {
	switch {
	case c.isText && c.varies:
		return c.texts
	case c.isText:
		return slices.Repeat([]string{c.text}, c.n)
	case c.varies:
		return c.ints
	}
	return slices.Repeat([]int64{c.int}, c.n)
}

// constants returns the values of constant columns.
func (r *rowset) constants(constant columnSet) (out []any) {
	for i := range r.columns {
		if constant.has(i) {
			out = append(out, r.columns[i].value())
		}
	}
	return out
}

// arrays returns the parameters for PostgreSQL: one value or one array for each column.
func (r *rowset) arrays(constant columnSet) []any {
	out := make([]any, len(r.columns))
	for i := range r.columns {
		if constant.has(i) {
			out[i] = r.columns[i].value()
		} else {
			out[i] = r.columns[i].array()
		}
	}
	return out
}

// json returns the parameter for SQLite: an array of arrays, without the constant columns.
func (r *rowset) json(constant columnSet) string {
	b := make([]byte, 0, 2+r.n*len(r.columns)*16)
	b = append(b, '[')
	for i := range r.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		from := len(b)
		for k := range r.columns {
			if constant.has(k) {
				continue
			}
			if len(b) > from {
				b = append(b, ',')
			}
			b = r.columns[k].appendJSON(b, i)
		}
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

func (c *column) appendJSON(b []byte, i int) []byte {
	switch {
	case c.isText && c.varies:
		return appendJSON(b, c.texts[i])
	case c.isText:
		return appendJSON(b, c.text)
	case c.varies:
		return strconv.AppendInt(b, c.ints[i], 10)
	}
	return strconv.AppendInt(b, c.int, 10)
}

func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always has a JSON form
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// storable returns ErrInvalid for a text that one of the databases cannot hold. On that database the whole batch would fail; on
// the other one the text would be stored without an error.
func storable(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: text is not valid UTF-8", ErrInvalid)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%w: text contains U+0000", ErrInvalid)
	}
	return nil
}

// micros returns an instant as it is stored: µs since 1970 UTC, 0 for none. The beginning of 1970 itself is stored as 1.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if µ := t.UnixMicro(); µ != 0 {
		return µ
	}
	return 1
}

// dueMicros is micros for instants at which work is due. The indexes of due rows hold values above 0; an instant before 1970
// becomes 1, so that the work is due immediately instead of never.
func dueMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(micros(t), 1)
}

// instant scans a stored instant.
type instant struct{ t *time.Time }

func (i instant) Scan(value any) error {
	v, ok := value.(int64)
	if !ok {
		return fmt.Errorf("instant is stored as %T", value)
	}
	*i.t = fromMicros(v)
	return nil
}

func fromMicros(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}

func flag(v bool) int64 {
	if v {
		return 1
	}
	return 0
}
