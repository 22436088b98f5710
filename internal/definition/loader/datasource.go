package loader

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/suggest"
)

// data reads the datasources of a message.
func (r *reader) data(n *portable.Node, set *definition.Set) []*definition.Data {
	var all []*definition.Data
	for _, field := range r.named(n, "a name") {
		name := field.Key.Text
		if !isReadable(name) {
			r.invalid(field.Key.Pos, fmt.Sprintf("%q is not a name that a text can read", name), "it has letters, digits and _, and does not begin with a digit")
			continue
		}
		if f, ok := r.fields(field.Value, "data"); ok {
			all = append(all, r.datum(name, f, set))
		}
	}
	return all
}

func (r *reader) datum(name string, f fields, set *definition.Set) *definition.Data {
	d := &definition.Data{Name: name}
	records, document := f.get("records"), f.get("http")
	switch {
	case records != nil && document != nil:
		r.invalid(document.Pos, "records and http exclude each other", "write data of another name for each")
	case document != nil:
		r.document(d, f)
		return d
	case records == nil && !f.node.Partial:
		r.report(definition.CodeMissing, f.node.Pos, fmt.Sprintf("nothing says what data.%s reads", name), "records: the type of records to read, or http: where a JSON document is")
		return d
	}
	if n := f.get("timeout"); n != nil {
		r.invalid(n.Pos, "timeout is for http", "remove it")
	}
	if typ, ok := r.slug(records); ok {
		d.Records = typ
		r.recordRef(records, typ)
	}
	scope := r.scopeOfData(set.RecordType(d.Records))
	d.Where = r.condition(f.get("where"), scope)
	if n := f.get("group_by"); n != nil {
		d.GroupBy = r.expression(n, scope, expr.Any)
	}
	if n := f.get("sum"); n != nil {
		d.Sum = r.expression(n, scope, expr.Number)
	}
	if n := f.get("count"); n != nil {
		if d.Count = r.bool(n, true); !d.Count {
			r.invalid(n.Pos, "count is true, or it is not written", "remove it")
		}
	}
	d.Limit = r.count(f.get("limit"))
	if d.Limit > definition.MaxDataRows {
		r.invalid(f.get("limit").Pos, fmt.Sprintf("a text is given %d rows at most", definition.MaxDataRows), "")
	}
	r.order(d, f, scope)
	r.shaped(d, f)
	d.Follow(set)
	return d
}

// scopeOfData returns the names that the expressions of data can read: the names of the trigger, the contact, and as record the
// record of the row.
func (r *reader) scopeOfData(typ *expr.RecordType) expr.Scope {
	scope := r.around
	scope.Record, scope.RecordType, scope.Contact, scope.Now, scope.Issues, scope.Metric = true, typ, true, true, false, false
	if r.stored {
		scope.RecordType = nil
	}
	return scope
}

// order reads the order of rows and its direction.
func (r *reader) order(d *definition.Data, f fields, scope expr.Scope) {
	n := f.get("order_by")
	text, ok := r.text(n)
	if !ok {
		return
	}
	by, reversed := strings.CutSuffix(text, " desc")
	d.Order.Reverse = reversed
	columns := d.Columns()
	switch {
	case f.get("group_by") != nil || f.get("sum") != nil || f.get("count") != nil:
		if d.Order.Column = by; !slices.Contains(columns, by) && len(columns) > 0 {
			hint := suggest.DidYouMean(by, columns)
			if hint == "" {
				hint = "it is " + alternatives(columns) + ", and desc behind it turns the order round"
			}
			r.invalid(n.Pos, fmt.Sprintf("%q is not a column of data.%s", by, d.Name), hint)
		}
	default:
		own := *n
		own.Text = by
		d.Order.By = r.expression(&own, scope, expr.Any)
	}
}

// shaped refuses keys that would have no effect.
func (r *reader) shaped(d *definition.Data, f fields) {
	if f.get("group_by") != nil && f.get("sum") == nil && f.get("count") == nil {
		r.report(definition.CodeMissing, f.get("group_by").Pos, "nothing says what is computed for each group", "write count: true, or sum: record.FIELD")
	}
	if f.get("group_by") != nil || f.get("sum") == nil && f.get("count") == nil {
		return
	}
	for _, key := range []string{"order_by", "limit"} {
		if n := f.get(key); n != nil {
			r.invalid(n.Pos, fmt.Sprintf("%s has no effect: data.%s is one row", key, d.Name), "remove it, or write group_by")
		}
	}
}

// document reads the address of a document.
func (r *reader) document(d *definition.Data, f fields) {
	for _, key := range []string{"where", "group_by", "sum", "count", "order_by", "limit"} {
		if n := f.get(key); n != nil {
			r.invalid(n.Pos, key+" is for records", "texts choose of a document what they show")
		}
	}
	n := f.get("http")
	if text, ok := r.text(n); ok {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			r.invalid(n.Pos, "this is no http or https address", "such as https://rates.example.org/today.json")
		case u.User != nil:
			r.invalid(n.Pos, "an address holds no user or password here", "serve the document without, in a network that outbound_allow names")
		default:
			d.URL = text
		}
	}
	d.Timeout = definition.DefaultDataTimeout
	if length, ok := r.duration(f.get("timeout")); ok {
		if d.Timeout = length.Exact(); d.Timeout > definition.MaxDataTimeout {
			r.invalid(f.get("timeout").Pos, "a document is waited for no longer than 1m", "")
		}
	}
}

// datumRead checks a path under data in a text.
func (r *reader) datumRead(at portable.Pos, path string, known []*definition.Data) {
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' })
	if len(parts) < 2 {
		return
	}
	i := slices.IndexFunc(known, func(d *definition.Data) bool { return d.Name == parts[1] })
	if i < 0 {
		names := make([]string, len(known))
		for i, d := range known {
			names[i] = d.Name
		}
		hint := suggest.DidYouMean(parts[1], names)
		if hint == "" {
			hint = "there is " + sentence(names)
		}
		r.report(definition.CodeTemplate, at, fmt.Sprintf("the message has no data named %q", parts[1]), hint)
		return
	}
	d := known[i]
	if len(parts) < 3 || d.Records == "" {
		return
	}
	switch fields := d.Columns(); {
	case d.Single() && !slices.Contains(fields, parts[2]):
		r.report(definition.CodeTemplate, at, fmt.Sprintf("data.%s has no %q", d.Name, parts[2]), "it has "+sentence(fields))
	case !d.Single() && !slices.Contains([]string{"size", "first", "last"}, parts[2]) && strings.Trim(parts[2], "0123456789") != "":
		r.report(definition.CodeTemplate, at, fmt.Sprintf("data.%s is a list of rows", d.Name), fmt.Sprintf("{%% for row in data.%s %%} … {{ row.%s }} … {%% endfor %%}", d.Name, parts[2]))
	}
}
