package acceptance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// recipients has a rule send at once, and compares whom the message reached. Users are contacts, whose kind is an attribute. A recipient that
// the rule names, and not the record, stands in a field of a record that is there for the rule.
func (r criteriaRow) recipients(t testing.TB, open func() *store.Store, o *outcome) {
	only(t, r.data, "id", "kind", "source", "note", "recipient", "record", "options", "expect")
	wanted, options := dig(r.data, "recipient"), dig(r.data, "options")
	only(t, wanted, "type", "id")
	only(t, options, "data_filter", "include_below", "place_types")
	of := map[string]any{"id": "rule"}
	if r.data["record"] != nil {
		of = dig(r.data, "record")
	}
	only(t, of, "id", "modified_by", "parent", "properties", "owner", "children", "host_owner")
	kind := text(t, wanted, "type")
	if slices.Contains([]string{"self", "parent", "last_modified_by", "owner", "children", "host_owner_place", "host_owner_place_above"}, kind) && wanted["id"] != nil {
		t.Fatalf("%s has the id %v", kind, wanted["id"])
	}
	fields, props := map[string]string{"push": "text", "who": "contact", "which": "record(case)"}, map[string]any{}
	var relations record.Item
	owner := func(id any) {
		for set, owns := range map[string]string{"people": subject.OwnerContact, "groups": subject.OwnerGroup, "places": subject.OwnerPlace} {
			if name, ok := id.(string); ok && dig(r.directory, set)[name] != nil {
				of := subject.Owner(owns + "/" + name)
				relations.Owner = &of
			}
		}
	}
	own, _ := of["properties"].(map[string]any)
	for name, value := range own {
		fields[name], props[name] = "text", value
	}
	target, entry := "push", map[string]any{}
	user := func(to string) {
		entry["to"] = to
		var where []string
		if kind == "mobile_user" || kind == "web_user" {
			where = append(where, fmt.Sprintf("contact.attributes.kind == %s", inJSON(kind)))
		}
		filter, _ := options["data_filter"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(filter)) {
			where = append(where, fmt.Sprintf("contact.attributes.%s != null && %s.exists(v, v in contact.attributes.%s)", name, inJSON(filter[name]), name))
		}
		if len(where) > 0 {
			entry["where"] = where
		}
	}
	switch kind {
	case "record":
		props["which"] = wanted["id"]
		entry["to"] = "record.which"
	case "mobile_user", "web_user":
		props["who"] = wanted["id"]
		user("record.who")
	case "self":
		entry["to"] = "record"
	case "parent":
		entry["to"] = "record.parent"
	case "children":
		if children, _ := of["children"].([]any); len(children) > 0 {
			t.Fatalf("children %v are not made", children)
		}
		entry["to"] = "record.children"
	case "owner":
		owner(of["owner"])
		user("record.owner")
	case "host_owner_place":
		fields["host"] = "record(case)"
		user("record.host.owner")
	case "host_owner_place_above":
		fields["host"] = "record(case)"
		entry["place_above"] = "record.host.owner"
	case "group":
		group := subject.Owner("group/" + text(t, wanted, "id"))
		relations.Owner = &group
		user("record.owner")
	case "record_group": // as the children of a record that is there for the group
		entry["to"] = "record.children"
	case "last_modified_by":
		user("record.last_modified_by")
	case "username_in_property", "user_id_in_property":
		fields[text(t, wanted, "id")] = "contact"
		user("record." + text(t, wanted, "id"))
	case "place":
		entry["place"] = text(t, wanted, "id")
		if options["include_below"] != nil {
			entry["below"] = truth(t, options, "include_below")
		}
		if options["place_types"] != nil {
			entry["place_types"] = options["place_types"]
		}
	case "email_in_property":
		name := text(t, wanted, "id")
		fields[name], target = "text", "email"
		entry["address"], entry["kind"] = "record."+name, "email"
	default:
		t.Fatalf("unknown recipient %s", kind)
	}
	w := newWorld(t, open(), "")
	w.Apply(fmt.Sprintf(`
workspace: default
cadence: {max_per_day: 0}
---
record_type: case
fields: %s
---
workflow: w
type: reminder
triggers: [{id: t, record: case, when: record.id == %s}]
audience: %s
channel: %s
message: {push: {text: x}, email: {subject: x, text: x}}
---
channel: %s
provider: memory
%s`, inJSON(fields), inJSON(of["id"]), inJSON([]any{entry}), target, target, groupsOf(r.directory)))
	w.directory(r.directory, text(t, of, "id"))
	if above, ok := of["parent"].(string); ok {
		w.caseRecord(above, map[string]any{}, "test", record.Item{})
		relations.Parents = map[string][]subject.RecordRef{"above": {{Type: "case", ExtID: above}}}
	}
	if host, ok := of["host_owner"].(string); ok {
		place := subject.Owner(subject.OwnerPlace + "/" + host)
		w.caseRecord("host", map[string]any{}, "test", record.Item{Owner: &place})
		relations.Parents = map[string][]subject.RecordRef{"host": {{Type: "case", ExtID: "host"}}}
	}
	if kind == "record_group" {
		members, _ := dig(r.directory, "record_groups")[text(t, wanted, "id")].([]any)
		for _, id := range members {
			w.caseRecord(id.(string), map[string]any{}, "test", record.Item{Parents: map[string][]subject.RecordRef{"rule": {{Type: "case", ExtID: text(t, of, "id")}}}})
		}
	}
	author, _ := of["modified_by"].(string)
	w.caseRecord(text(t, of, "id"), props, author, relations)
	w.rest(w.Clock.Now())
	var reached []any
	for _, m := range w.Provider.Sent() {
		reached = append(reached, m.Address)
	}
	slices.SortFunc(reached, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	if reached == nil {
		reached = []any{}
	}
	o.equal("recipients", r.data["expect"], reached, nil)
}

// groupsOf defines the groups that a directory names.
func groupsOf(of map[string]any) string {
	var b strings.Builder
	groups, _ := of["groups"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "---\ngroup: %s\nmembers: %s\n", name, inJSON(groups[name]))
	}
	return b.String()
}

// directory makes the people and the records that a directory names, but for one that the row writes itself. Each has its id as its address.
func (w *world) directory(of map[string]any, own string) {
	w.Helper()
	people, _ := of["people"].(map[string]any)
	for id, p := range people {
		p := p.(map[string]any)
		only(w.TB, p, "kind", "data", "place")
		attributes := map[string]any{"kind": text(w.TB, p, "kind")}
		data, _ := p["data"].(map[string]any)
		for name, value := range data {
			if _, several := value.([]any); !several {
				value = []any{value}
			}
			attributes[name] = value
		}
		person := map[string]any{"addresses": map[string]any{"push": id}, "attributes": attributes}
		if p["place"] != nil {
			person["place"] = text(w.TB, p, "place")
		}
		w.put("/v1/contacts/"+id, person)
	}
	w.theirPlaces(of["places"])
	sets, _ := of["record_groups"].(map[string]any)
	for _, members := range sets {
		for _, id := range members.([]any) {
			if id != own {
				w.caseRecord(id.(string), map[string]any{}, "test", record.Item{})
			}
		}
	}
}

// caseRecord writes a record with its relations by an author. Its id is its address.
func (w *world) caseRecord(id string, props map[string]any, author string, item record.Item) {
	w.Helper()
	props["push"] = id
	item.Type, item.ID, item.Props = "case", id, props
	results, err := w.Engine.Records().Write(w.Context(), w.Workspace, upsert.Replace, []record.Item{item}, author, w.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		w.Fatal(err, results)
	}
}

// referencesParent asks whether a schedule depends on the record's parent: whether a write of the parent changes what waits. One
// record is the parent in every relation.
func (r criteriaRow) referencesParent(t testing.TB, open func() *store.Store, o *outcome) {
	only(t, r.data, "id", "kind", "source", "note", "given", "expect")
	given := dig(r.data, "given")
	only(t, given, "schedule", "time_property", "stop_date_property")
	message, repeat := `{day: 0, at: "12:00"}`, "{every: 1d, times: 5}"
	if given["schedule"] != nil {
		switch kind := text(t, given, "schedule"); kind {
		case "timed":
		case "random":
			message = `{day: 0, at: "random 12:00-13:00"}`
		case "alert":
			message, repeat = "{after: 25h}", ""
		default:
			t.Fatalf("unknown schedule %s", kind)
		}
	}
	if given["time_property"] != nil {
		message = fmt.Sprintf("{day: 0, at: %s}", propertyPath(text(t, given, "time_property")))
	}
	if given["stop_date_property"] != nil {
		repeat = fmt.Sprintf("{every: 1d, times: 5, until: %s}", propertyPath(text(t, given, "stop_date_property")))
	}
	// Each property of both records has a value that another one follows.
	values := map[string][2]string{}
	for name, changes := range map[string][2]string{"time_property": {"10:00", "11:00"}, "stop_date_property": {"2017-09-01", "2017-01-01"}} {
		if property, ok := given[name].(string); ok {
			values[property[strings.LastIndex(property, "/")+1:]] = changes
		}
	}
	fields, before, after := map[string]string{}, map[string]any{}, map[string]any{}
	for _, name := range relations() {
		fields[relationField(name)] = "record(person)"
	}
	for name, change := range values {
		fields[name], before[name], after[name] = "text", change[0], change[1]
		if change[0] > "2017" {
			fields[name] = "date"
		}
	}
	w := newWorld(t, open(), "")
	w.Clock.Set(time.Date(2017, 8, 1, 9, 0, 0, 0, time.UTC))
	course := "sequence: [" + message + "]"
	if repeat != "" {
		course += ", repeat: " + repeat
	}
	w.Apply(fmt.Sprintf(`
record_type: person
fields: %s
---
workflow: w
type: reminder
triggers: [{id: t, record: person, when: record.id == "child"}]
timing: {%s}
audience: {to: record}
channel: push
message: {push: {text: x}}
---
channel: push
provider: memory
`, inJSON(fields), course))
	w.record("person/parent", before)
	child := maps.Clone(before)
	for _, name := range relations() {
		child[relationField(name)] = "parent"
	}
	w.record("person/child", child)
	w.rest(w.Clock.Now())
	first := w.occasions()
	w.record("person/parent", after)
	w.rest(w.Clock.Now())
	changed := len(first) == 0 || !maps.Equal(first, w.occasions())
	o.equal("depends on the parent", r.data["expect"], changed, nil)
}

// language has a rule send a text to somebody, and compares which one it was. What is meant for any other language is a text without a language
// where it is alone, and otherwise the first by name.
func (r criteriaRow) language(t testing.TB, open func() *store.Store, o *outcome) {
	only(t, r.data, "id", "kind", "source", "note", "messages", "recipient_language", "schedule_language", "project_language", "expect")
	messages := dig(r.data, "messages")
	texts := any(messages["*"])
	if len(messages) > 1 {
		by := maps.Clone(messages)
		if other, ok := by["*"]; ok {
			delete(by, "*")
			by["aa"] = other
		}
		texts = by
	}
	locale := func(name string) string {
		if r.data[name] == nil {
			return ""
		}
		return "locale: " + text(t, r.data, name) + "\n"
	}
	w := newWorld(t, open(), "")
	w.Apply(fmt.Sprintf(`
workspace: default
%scadence: {max_per_day: 0}
---
workflow: w
type: reminder
%striggers: [{id: t, record: case, when: "true"}]
audience: {to: record.who}
channel: push
message: {push: {text: %s}}
---
channel: push
provider: memory
`, locale("project_language"), locale("schedule_language"), inJSON(texts)))
	person := map[string]any{"addresses": map[string]any{"push": "p"}}
	if r.data["recipient_language"] != nil {
		person["locale"] = text(t, r.data, "recipient_language")
	}
	w.put("/v1/contacts/p", person)
	w.record("case/1", map[string]any{"who": "p"})
	w.rest(w.Clock.Now())
	var said any
	if sent := w.Provider.Sent(); len(sent) == 1 {
		said = sent[0].Text
	}
	o.equal("text", r.data["expect"], said, nil)
}

// visitWindow plans a message for the beginning, the day or the end of a visit's window, and compares the date on which it is due.
func (r criteriaRow) visitWindow(t testing.TB, open func() *store.Store, o *outcome) {
	only(t, r.data, "id", "kind", "source", "note", "visit", "due_date", "position", "expect")
	visit := dig(r.data, "visit")
	only(t, visit, "due_days", "starts", "expires")
	whole(t, visit, "due_days")               // from the anchor to the day of the visit, which the row gives
	days, bound := 0, func(name string) int { // a window may be open
		if visit[name] == nil {
			return 0
		}
		return whole(t, visit, name)
	}
	first, last := bound("starts"), bound("expires")
	switch position := text(t, r.data, "position"); position {
	case "start":
		days = first
	case "due":
	case "end":
		days = last
	default:
		t.Fatalf("unknown position %s", position)
	}
	w := newWorld(t, open(), "")
	w.Clock.Set(time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC))
	w.Apply(fmt.Sprintf(`
workflow: w
type: reminder
triggers: [{id: t, record: visit}]
timing: {anchor: record.due_on, offset: %dd}
audience: {to: record}
channel: push
message: {push: {text: x}}
---
channel: push
provider: memory
`, days))
	w.record("visit/1", map[string]any{"due_on": text(t, r.data, "due_date")})
	w.rest(w.Clock.Now())
	o.equal("date", r.data["expect"], w.only().LocalDate, nil)
}

// smsQueue has a provider refuse and take a message, and compares when it is tried again and what becomes of it.
func (r criteriaRow) smsQueue(t testing.TB, open func() *store.Store, o *outcome) {
	only(t, r.data, "id", "kind", "source", "note", "settings", "first_due", "results", "expect_due_after", "expect_final")
	settings := dig(r.data, "settings")
	only(t, settings, "max_attempts", "retry_minutes")
	var waits []string
	for n := range whole(t, settings, "max_attempts") {
		if n > 0 {
			waits = append(waits, fmt.Sprintf("%dm", whole(t, settings, "retry_minutes")))
		}
	}
	w := newWorld(t, open(), "")
	w.Clock.Set(at(t, r.data["first_due"]))
	w.Apply(fmt.Sprintf(`
workflow: w
type: notice
triggers: [{id: t, event: asked}]
audience: {to: event.recipient}
channel: sms
message: {sms: {text: x}}
retry: {backoff: %s, jitter: none}
---
channel: sms
provider: memory
`, inJSON(waits)))
	w.Post(`{"id": "1", "kind": "asked", "recipient": {"address": "+4930000001"}}`)
	due := []any{}
	for _, result := range list(r.data, "results") {
		switch result {
		case "ok":
			w.Provider.Next(nil)
		case "fail":
			w.Provider.Next(channel.Temporary(errors.New("busy")))
		default:
			t.Fatalf("unknown result %v", result)
		}
		w.rest(w.rows()[0].SendAt)
		row := w.rows()[0]
		if row.Status != delivery.Scheduled { // nothing follows, but for the time in which an answer could come
			due = append(due, nil)
			continue
		}
		due = append(due, instant(row.SendAt))
	}
	row := w.rows()[0]
	o.equal("due after", r.data["expect_due_after"], due, nil)
	o.equal("final", r.data["expect_final"], map[string]any{
		"processed": row.Status == delivery.Sent, "error": row.Status == delivery.Failed, "attempts": count(row.AttemptNo),
	}, nil)
}

// whole returns a whole number in an object, and fails for another value.
func whole(t testing.TB, of map[string]any, name string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(fmt.Sprint(of[name]), "%d", &n); err != nil {
		t.Fatalf("%s is %v, and not a number", name, of[name])
	}
	return n
}
