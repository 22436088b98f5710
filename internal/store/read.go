package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// defaultPage is the size of a page whose Limit is not set.
const defaultPage = 100

// all reads every row of one query.
func all[T any](ctx context.Context, s *Store, action string, scan func(*sql.Rows) (T, error), text string, args ...any) ([]T, error) {
	var out []T
	err := s.Read(ctx, func(t *Tx) (err error) {
		out, err = query(t, scan, text, args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	return out, nil
}

// first reads the first row of one query; ok is false if there is none.
func first[T any](ctx context.Context, s *Store, action string, scan func(*sql.Rows) (T, error), text string, args ...any) (v T, ok bool, err error) {
	rows, err := all(ctx, s, action, scan, text, args...)
	if err != nil || len(rows) == 0 {
		return v, false, err
	}
	return rows[0], true, nil
}

// one reads the first row of one query. The error is ErrNotFound if there is none.
func one[T any](ctx context.Context, s *Store, action string, scan func(*sql.Rows) (T, error), text string, args ...any) (T, error) {
	v, ok, err := first(ctx, s, action, scan, text, args...)
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", action, ErrNotFound)
	}
	return v, err
}

// listing builds the query of one page, the newest rows first. Its text consists of constants; values of callers are bound as parameters.
type listing struct {
	text strings.Builder
	args []any
}

// list begins a listing. The query ends with the alias of the table by whose ws and id the rows are paged.
func list(query, alias string, ws int64, p Page) *listing {
	l := &listing{}
	l.text.WriteString(query)
	l.text.WriteString("\nWHERE ")
	l.bind(alias+".ws = ?", ws)
	if p.Before > 0 {
		l.and(alias+".id < ?", p.Before)
	}
	return l
}

// and adds a condition; every ? in it stands for value.
func (l *listing) and(condition string, value any) {
	l.text.WriteString("\n  AND ")
	l.bind(condition, value)
}

func (l *listing) bind(condition string, value any) {
	l.args = append(l.args, value)
	l.text.WriteString(strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(l.args))))
}

// end closes the query and returns it with its parameters.
func (l *listing) end(alias string, p Page) (string, []any) {
	limit := p.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	l.text.WriteString("\nORDER BY " + alias + ".id DESC\nLIMIT ")
	l.bind("?", int64(limit))
	return l.text.String(), l.args
}
