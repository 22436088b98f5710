package datasource

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// related reads the records that those of a page reference.
func (r *Reader) related(ctx context.Context, ws subject.WorkspaceID, d *definition.Data, page []store.RecordRow) (plan.Related, error) {
	list := make([]subject.Record, len(page))
	for i, row := range page {
		list[i] = row.Record
	}
	return related.Of(ctx, r.store, ws, d.Relations, list)
}

// query collects the rows of one Data.
type query struct {
	*definition.Data
	in     expr.Input
	groups map[string]*group
	rows   []row
	last   *row // the last row within the limit, as far as is known; nil: not yet
	bytes  int
}

// group is a set of records with the same values of the group keys.
type group struct {
	key   any
	sum   *big.Rat // exact: money is not computed in binary fractions
	count int64
}

// row is a record in the result, with the values that order it.
type row struct {
	id     string
	by     any
	fields map[string]any
	size   int
}

func newQuery(d *definition.Data, in expr.Input) *query {
	q := &query{Data: d, in: in, groups: map[string]*group{}}
	if d.Single() { // the sum of no records is 0
		q.groups[""] = &group{sum: new(big.Rat)}
	}
	return q
}

// take adds one record.
func (q *query) take(rec store.RecordRow, known plan.Related) error {
	in := q.in
	in.Record = known.Across(q.Relations, rec.Record)
	if q.Where != nil && !q.Where.Holds(in) {
		if q.Where.Fails(in) { // it may belong to the report: leaving it out would make the report wrong
			return fmt.Errorf("where could not be evaluated")
		}
		return nil
	}
	if q.GroupBy == nil && q.Sum == nil && !q.Count {
		return q.keep(rec, in)
	}
	g, err := q.group(in)
	if err != nil {
		return err
	}
	g.count++
	if q.Sum == nil {
		return nil
	}
	value, err := q.Sum.Eval(in)
	if err != nil {
		return fmt.Errorf("sum: %w", err)
	}
	number, err := exactly(value)
	if err != nil {
		return fmt.Errorf("sum: %w", err)
	}
	g.sum.Add(g.sum, number)
	return nil
}

// group finds the group of a record.
func (q *query) group(in expr.Input) (*group, error) {
	var value any
	if q.GroupBy != nil {
		var err error
		if value, err = q.GroupBy.Eval(in); err != nil {
			return nil, fmt.Errorf("group_by: %w", err)
		}
	}
	text, err := nameOf(value)
	if err != nil {
		return nil, fmt.Errorf("group_by: %w", err)
	}
	if q.Single() {
		text = ""
	}
	g := q.groups[text]
	if g == nil {
		if len(q.groups) == MaxGroups {
			return nil, fmt.Errorf("group_by: there are more than %d groups", MaxGroups)
		}
		g = &group{key: value, sum: new(big.Rat)}
		q.groups[text] = g
	}
	return g, nil
}

// nameOf is a text that distinguishes values: those of one kind by their text.
func nameOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return "t" + v, nil
	case bool:
		return "b" + strconv.FormatBool(v), nil
	case int64:
		return "n" + strconv.FormatInt(v, 10), nil
	case float64:
		return "n" + strconv.FormatFloat(v, 'f', -1, 64), nil
	case civil.Date:
		return "d" + v.String(), nil
	case time.Time:
		return "i" + v.UTC().Format(time.RFC3339Nano), nil
	case time.Duration:
		return "l" + v.String(), nil
	}
	return "", fmt.Errorf("a list or an object is no group")
}

// exactly returns a number as its decimal text; no value is 0.
func exactly(value any) (*big.Rat, error) {
	switch v := value.(type) {
	case nil:
		return new(big.Rat), nil
	case int64:
		return new(big.Rat).SetInt64(v), nil
	case float64:
		if number, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'f', -1, 64)); ok {
			return number, nil
		}
	}
	return nil, fmt.Errorf("a number was expected")
}

// numberOf returns a sum as texts read it: a whole number if it is one.
func numberOf(sum *big.Rat) any {
	if sum.IsInt() && sum.Num().IsInt64() {
		return sum.Num().Int64()
	}
	f, _ := sum.Float64()
	return f
}

// keep adds a record as a row. Rows beyond the limit are dropped as soon as there are many.
func (q *query) keep(rec store.RecordRow, in expr.Input) error {
	one := row{id: rec.ExtID}
	var err error
	if q.Order.By != nil {
		if one.by, err = q.Order.By.Eval(in); err != nil {
			return fmt.Errorf("order_by: %w", err)
		}
	}
	if q.last != nil && q.compare(*q.last, one) < 0 {
		return nil // enough rows precede it
	}
	one.fields = plan.Texts(in.Record)
	text, err := json.Marshal(one.fields)
	if err != nil {
		return err
	}
	one.size = len(text)
	q.rows = append(q.rows, one)
	q.bytes += one.size
	if q.Limit > 0 && len(q.rows) >= 2*q.Limit {
		q.order()
		for _, dropped := range q.rows[q.Limit:] {
			q.bytes -= dropped.size
		}
		q.rows = slices.Delete(q.rows, q.Limit, len(q.rows))
		last := q.rows[q.Limit-1]
		q.last = &last
	}
	switch {
	case q.Limit == 0 && len(q.rows) > definition.MaxDataRows:
		return tooMany()
	case q.bytes > 2*MaxBytes:
		return tooLarge()
	}
	return nil
}

func tooMany() error {
	return fmt.Errorf("there are more than %d rows: a limit says how many are shown", definition.MaxDataRows)
}

func tooLarge() error { return fmt.Errorf("the rows are larger than %d MiB", MaxBytes>>20) }

// order sorts rows that are records; equal ones by their ids.
func (q *query) order() { slices.SortStableFunc(q.rows, q.compare) }

func (q *query) compare(a, b row) int {
	by := compare(a.by, b.by)
	if q.Order.Reverse {
		by = -by
	}
	return cmp.Or(by, strings.Compare(a.id, b.id))
}

// result returns what texts read.
func (q *query) result() (any, error) {
	if q.GroupBy == nil && q.Sum == nil && !q.Count {
		q.order()
		if q.Limit > 0 {
			q.rows = q.rows[:min(q.Limit, len(q.rows))]
		}
		all, size := make([]any, len(q.rows)), 0
		for i, r := range q.rows {
			all[i] = r.fields
			size += r.size
		}
		if size > MaxBytes {
			return nil, tooLarge()
		}
		return all, nil
	}
	if q.Single() {
		return q.columns(q.groups[""]), nil
	}
	groups := make([]*group, 0, len(q.groups))
	for _, g := range q.groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *group) int {
		by := 0
		switch q.Order.Column {
		case definition.DataSum:
			by = a.sum.Cmp(b.sum)
		case definition.DataCount:
			by = cmp.Compare(a.count, b.count)
		case definition.DataGroup:
			by = compare(a.key, b.key)
		}
		if q.Order.Reverse {
			by = -by
		}
		return cmp.Or(by, compare(a.key, b.key))
	})
	switch {
	case q.Limit > 0:
		groups = groups[:min(q.Limit, len(groups))]
	case len(groups) > definition.MaxDataRows:
		return nil, tooMany()
	}
	all := make([]any, len(groups))
	for i, g := range groups {
		all[i] = q.columns(g)
	}
	return all, nil
}

// columns returns a group as texts read it.
func (q *query) columns(g *group) map[string]any {
	all := map[string]any{}
	if q.GroupBy != nil {
		all[definition.DataGroup] = g.key
	}
	if q.Sum != nil {
		all[definition.DataSum] = numberOf(g.sum)
	}
	if q.Count {
		all[definition.DataCount] = g.count
	}
	return all
}

// compare orders values: null first, then by kind, each kind in its own order.
func compare(a, b any) int {
	x, y := kindOf(a), kindOf(b)
	if x != y || x == 0 {
		return cmp.Compare(x, y)
	}
	switch a := a.(type) {
	case bool:
		return cmp.Compare(strconv.FormatBool(a), strconv.FormatBool(b.(bool)))
	case string:
		return strings.Compare(a, b.(string))
	case civil.Date:
		return strings.Compare(a.String(), b.(civil.Date).String())
	case time.Time:
		return a.Compare(b.(time.Time))
	case time.Duration:
		return cmp.Compare(a, b.(time.Duration))
	}
	m, errA := exactly(a)
	n, errB := exactly(b)
	if errA != nil || errB != nil {
		return 0
	}
	return m.Cmp(n)
}

// kindOf numbers the kinds of values in their order; lists and objects are one kind, without an order of their own.
func kindOf(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int64, float64:
		return 2
	case time.Duration:
		return 3
	case civil.Date:
		return 4
	case time.Time:
		return 5
	case string:
		return 6
	}
	return 7
}
