package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// theirRule is a rule of theirs, written as a trigger of ours.
type theirRule struct {
	testing.TB
	record string // type
	lines  []any  // of when
	vars   map[string]any
	any    bool
}

// criteria holds a rule against records. The rule plans a message for a year later; a record matches at an instant if its message waits then.
// It is asked twice: of a rule that is in force before the record is written, and of one that comes into force at that instant.
func (r criteriaRow) criteria(t testing.TB, open func() *store.Store, o *outcome) {
	only(t, r.data, "id", "kind", "source", "note", "places", "rule", "checks")
	rule := ruleOf(t, dig(r.data, "rule"))
	checks := list(r.data, "checks")
	w := newWorld(t, open(), "")
	types := recordTypes(t, checks)
	type moment struct {
		at time.Time
		do func()
	}
	var moments []moment
	matched := make([][2]bool, len(checks))
	for i, check := range checks {
		check := check.(map[string]any)
		only(t, check, "record", "now", "expect")
		of, now := dig(check, "record"), at(t, check["now"])
		written := now
		if of["modified"] != nil {
			written = at(t, of["modified"])
		}
		id := fmt.Sprintf("r%d", i)
		var row subject.RecordID
		moments = append(moments, moment{written, func() { row = w.theirRecord(of, id, written) }}, moment{now, func() {
			w.rest(now)
			later := fmt.Sprintf("later-%d", i)
			w.Apply(rule.yaml(later, ""))
			w.rest(now)
			matched[i] = [2]bool{w.waiting("rule", row), w.waiting(later, row)}
		}})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	w.Clock.Set(moments[0].at)
	w.Apply("workspace: default\n---\n" + rule.yaml("rule", types))
	w.theirPlaces(r.data["places"])
	for _, m := range moments {
		w.Clock.Set(m.at)
		m.do()
	}
	for i, check := range checks {
		want := check.(map[string]any)["expect"]
		o.equal(fmt.Sprintf("checks[%d]: matches", i), want, matched[i][0], nil)
		o.equal(fmt.Sprintf("checks[%d]: matches a rule that comes later", i), want, matched[i][1], nil)
	}
}

// theirRecord writes a record with those that it names, and evaluates it.
func (w *world) theirRecord(of map[string]any, id string, now time.Time) subject.RecordID {
	w.Helper()
	only(w.TB, of, "type", "closed", "deleted", "properties", "modified", "parent", "host", "owner")
	props := maps.Clone(dig(of, "properties"))
	if of["owner"] != nil {
		props["owner"] = text(w.TB, of, "owner")
	}
	for _, name := range relations() {
		if above, ok := of[name].(map[string]any); ok {
			w.theirRecord(above, id+name, now)
			props[relationField(name)] = id + name
		}
	}
	typ := text(w.TB, of, "type")
	w.must("PUT", "/v1/records/"+typ+"/"+id, map[string]any{"props": props, "closed": truth(w.TB, of, "closed")})
	row, err := w.Store.Record(w.Context(), w.Workspace.ID, subject.RecordRef{Type: typ, ExtID: id})
	if err != nil {
		w.Fatal(err)
	}
	w.rest(now)
	if truth(w.TB, of, "deleted") {
		w.must("DELETE", "/v1/records/"+typ+"/"+id, nil)
		w.rest(now)
	}
	return row.ID
}

// theirPlaces writes places, given by their names: the place above, or an object with it and the type.
func (w *world) theirPlaces(of any) {
	w.Helper()
	all, _ := of.(map[string]any)
	for name, place := range all {
		above, props := place, map[string]any{}
		if fields, ok := place.(map[string]any); ok {
			only(w.TB, fields, "type", "above")
			above, props["type"] = fields["above"], text(w.TB, fields, "type")
		}
		if above != nil {
			props["parent"] = fmt.Sprint(above)
		}
		w.must("PUT", "/v1/records/place/"+name, map[string]any{"props": props})
	}
}

// waiting reports whether a workflow has planned a message of a record, which waits.
func (w *world) waiting(workflow string, of subject.RecordID) bool {
	w.Helper()
	for _, row := range w.occasions() {
		if row.Workflow == workflow && row.Record == of && row.Status == instance.Pending {
			return true
		}
	}
	return false
}

// relations are the ways in which one of their records names another one.
func relations() []string { return []string{"parent", "host"} }

// relationField is our field for such a relation: every record has a parent of its own already.
func relationField(relation string) string { return relation + "_record" }

// recordTypes declares the types of records that name others, so that rules can read across.
func recordTypes(t testing.TB, checks []any) string {
	fields, related := map[string]map[string]string{}, false
	var declare func(of map[string]any)
	declare = func(of map[string]any) {
		typ := text(t, of, "type")
		if fields[typ] == nil {
			fields[typ] = map[string]string{}
		}
		for name := range dig(of, "properties") {
			fields[typ][name] = "text"
		}
		for _, name := range relations() {
			if above, ok := of[name].(map[string]any); ok {
				related = true
				fields[typ][relationField(name)] = "record(" + text(t, above, "type") + ")"
				declare(above)
			}
		}
	}
	for _, check := range checks {
		declare(dig(check, "record"))
	}
	if !related {
		return "" // records of types that are not declared have any fields
	}
	var b strings.Builder
	for _, typ := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&b, "record_type: %s\nfields: %s\n---\n", typ, inJSON(fields[typ]))
	}
	return b.String()
}

// ruleOf translates a rule.
func ruleOf(t testing.TB, of map[string]any) *theirRule {
	only(t, of, "record_type", "operator", "min_quiet_days", "criteria")
	rule := &theirRule{TB: t, record: text(t, of, "record_type"), vars: map[string]any{}}
	switch operator := text(t, of, "operator"); operator {
	case "ALL":
	case "ANY":
		rule.any = true
	default:
		t.Fatalf("unknown operator %s", operator)
	}
	for _, c := range list(of, "criteria") {
		rule.criterion(c.(map[string]any))
	}
	if days, ok := of["min_quiet_days"].(json.Number); ok {
		rule.lines = append(rule.lines, fmt.Sprintf("quiet(record, days(%s))", days))
	} else if of["min_quiet_days"] != nil {
		t.Fatalf("min_quiet_days is %v", of["min_quiet_days"])
	}
	return rule
}

func (rule *theirRule) criterion(c map[string]any) {
	switch kind := text(rule.TB, c, "type"); kind {
	case "property":
		only(rule.TB, c, "type", "property", "match", "value")
		rule.property(propertyPath(text(rule.TB, c, "property")), text(rule.TB, c, "match"), c["value"])
	case "place": // of the owner; below it, if they say so
		only(rule.TB, c, "type", "place", "include_below")
		line := "record.owner == %s"
		if truth(rule.TB, c, "include_below") {
			line = "within(record.owner, %s)"
		}
		rule.lines = append(rule.lines, fmt.Sprintf(line, inJSON(text(rule.TB, c, "place"))))
	case "closed_parent":
		only(rule.TB, c, "type")
		rule.lines = append(rule.lines, propertyPath("parent/closed")+" == true")
	case "custom":
		only(rule.TB, c, "type", "result")
		rule.lines = append(rule.lines, fmt.Sprintf("custom(record, %t)", truth(rule.TB, c, "result")))
	case "expression":
		only(rule.TB, c, "type", "left", "op", "right")
		op, ok := map[string]string{
			"eq": "is", "not_eq": "is_not", "lt": "less_than", "lte": "at_most", "gt": "more_than", "gte": "at_least", "in": "in",
		}[text(rule.TB, c, "op")]
		if !ok {
			rule.Fatalf("unknown operator %v", c["op"])
		}
		only(rule.TB, dig(c, "left"), "property")
		rule.compare(propertyPath(text(rule.TB, dig(c, "left"), "property")), op, c["right"])
	default:
		rule.Fatalf("unknown criterion %s", kind)
	}
}

// customCriteria are the functions of the program that embeds the engine: one that has the result that a row wants of it.
func customCriteria() []*expr.Function {
	return []*expr.Function{{Name: "custom", Takes: []expr.Type{expr.Object, expr.Bool}, Gives: expr.Bool, Call: func(args []any, _ <-chan struct{}) (any, error) {
		return args[1], nil
	}}}
}

func (rule *theirRule) compare(field, op string, value any) {
	rule.lines = append(rule.lines, map[string]any{"field": field, "op": op, "value": value})
}

// property translates a comparison of a field. A blank value counts as none with them.
func (rule *theirRule) property(field, match string, value any) {
	if strings.HasPrefix(match, "HAS_") && value != nil {
		rule.Fatalf("%s has the value %v", match, value)
	}
	switch match {
	case "EQUAL":
		rule.compare(field, "is", value)
	case "NOT_EQUAL":
		rule.compare(field, "is_not", value)
	case "HAS_VALUE":
		rule.lines = append(rule.lines, fmt.Sprintf(`trim(%s) != ""`, field))
	case "HAS_NO_VALUE":
		rule.lines = append(rule.lines, fmt.Sprintf(`%s == null || trim(%s) == ""`, field, field))
	case "REGEX": // anchored at its beginning alone
		name := fmt.Sprintf("pattern%d", len(rule.vars))
		rule.vars[name] = value
		rule.lines = append(rule.lines, fmt.Sprintf(`matches(%s, "^(?:" + vars.%s + ")")`, field, name))
	case "DAYS_AFTER":
		rule.compare(field, "older_than", fmt.Sprintf("%vd", value))
	case "DAYS_BEFORE":
		rule.compare(field, "newer_than", fmt.Sprintf("%vd", value))
	default:
		rule.Fatalf("unknown match %s", match)
	}
}

// propertyPath is where we read a property such as parent/result.
func propertyPath(property string) string {
	steps := strings.Split(property, "/")
	for i, step := range steps[:len(steps)-1] {
		steps[i] = relationField(step)
	}
	return "record." + strings.Join(steps, ".")
}

func (rule *theirRule) yaml(name, types string) string {
	when := any("true") // a rule without criteria matches every record of its type
	if len(rule.lines) > 0 {
		when = map[string]any{map[bool]string{false: "all", true: "any"}[rule.any]: rule.lines}
	}
	vars := ""
	if len(rule.vars) > 0 {
		vars = "vars: " + inJSON(rule.vars) + "\n"
	}
	return types + fmt.Sprintf(`workflow: %s
type: reminder
%striggers:
  - id: t
    record: %s
    when: %s
timing: {offset: 365d}
audience: {to: record}
channel: push
message: {push: {text: x}}
---
channel: push
provider: memory
`, name, vars, rule.record, inJSON(when))
}

func inJSON(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return string(encoded)
}

// list returns a list in an object; nil if there is none.
func list(of any, name string) []any {
	all, _ := of.(map[string]any)[name].([]any)
	return all
}

// text returns a text in an object, and fails for another value.
func text(t testing.TB, of map[string]any, name string) string {
	t.Helper()
	s, ok := of[name].(string)
	if !ok {
		t.Fatalf("%s is %v, and not a text", name, of[name])
	}
	return s
}

// truth returns true or false in an object, and fails for another value; false where there is none.
func truth(t testing.TB, of map[string]any, name string) bool {
	t.Helper()
	b, ok := of[name].(bool)
	if !ok && of[name] != nil {
		t.Fatalf("%s is %v, and neither true nor false", name, of[name])
	}
	return b
}

// only fails for a field that no adapter knows.
func only(t testing.TB, of map[string]any, names ...string) {
	t.Helper()
	for name := range of {
		if !slices.Contains(names, name) {
			t.Fatalf("unknown field %s", name)
		}
	}
}
