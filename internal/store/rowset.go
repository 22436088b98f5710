package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// rowset is a table of parameters: the one way in which a batch of any size reaches a statement. Its cells are
// written row by row, in the order of the hook's columns.
type rowset struct {
	n, at   int
	columns []column
	err     error // the first cell that no database may hold
}

type column struct {
	isText bool
	ints   []int64
	texts  []string
}

// row begins the next row.
func (r *rowset) row() *rowset { r.n, r.at = r.n+1, 0; return r }

func (r *rowset) cell(isText bool) *column {
	if r.at == len(r.columns) {
		r.columns = append(r.columns, column{isText: isText})
	}
	r.at++
	return &r.columns[r.at-1]
}

func (r *rowset) int(v int64) *rowset {
	c := r.cell(false)
	c.ints = append(c.ints, v)
	return r
}

func (r *rowset) text(v string) *rowset {
	c := r.cell(true)
	if err := storable(v); err != nil && r.err == nil {
		r.err = fmt.Errorf("row %d, column %d: %w", r.n, r.at, err)
	}
	c.texts = append(c.texts, v)
	return r
}

func (r *rowset) flag(v bool) *rowset { return r.int(flag(v)) }

func (r *rowset) time(v time.Time) *rowset { return r.int(micros(v)) }

// check reports a cell that cannot be stored, and a rowset that does not fit its statement.
func (r *rowset) check(spec []columnSpec) error {
	if r.err != nil {
		return r.err
	}
	if len(spec) != len(r.columns) {
		return fmt.Errorf("rowset has %d columns, its statement %d", len(r.columns), len(spec))
	}
	for i, c := range r.columns {
		if len(c.ints)+len(c.texts) != r.n || c.isText != (spec[i].kind == "text") {
			return fmt.Errorf("rowset column %q is not filled as its statement says", spec[i].name)
		}
	}
	return nil
}

// arrays are the parameters of PostgreSQL: one array a column.
func (r *rowset) arrays() []any {
	out := make([]any, len(r.columns))
	for i, c := range r.columns {
		if c.isText {
			out[i] = c.texts
		} else {
			out[i] = c.ints
		}
	}
	return out
}

// json is the parameter of SQLite: an array of arrays.
func (r *rowset) json() string {
	b := make([]byte, 0, 2+r.n*len(r.columns)*16)
	b = append(b, '[')
	for i := range r.n {
		if i > 0 {
			b = append(b, ',')
		}
		for k, c := range r.columns {
			b = append(b, "[,"[min(k, 1)])
			if c.isText {
				b = appendJSON(b, c.texts[i])
			} else {
				b = strconv.AppendInt(b, c.ints[i], 10)
			}
		}
		b = append(b, ']')
	}
	return string(append(b, ']'))
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

// storable refuses what one of the databases cannot hold: one such cell would fail a whole batch, and on the
// other database it would lie there silently.
func storable(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: text is not valid UTF-8", ErrInvalid)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%w: text contains U+0000", ErrInvalid)
	}
	return nil
}

// micros is an instant as stored: µs since 1970 UTC, 0 for none. The one instant that would read as none becomes
// the next.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if µ := t.UnixMicro(); µ != 0 {
		return µ
	}
	return 1
}

// dueMicros is micros for instants at which work is due: their indexes hold what is above 0, so that an instant
// before 1970 is due at once instead of never.
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
