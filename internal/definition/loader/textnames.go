package loader

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// subjects says what kind of trigger a text is for. A text outside a workflow may serve triggers of any kind; it is then checked where
// it is used.
type subjects struct {
	event, record bool
	item          bool               // of an event: it is an item
	metric, date  bool               // of a record: it is planned ahead by a metric or a date
	calendar      bool               // a schedule; with it:
	period, count bool               // the schedule has a period, and a first day to count from; or a course, which counts its rounds
	typ           *expr.RecordType   // nil leaves the fields of records open
	data          []*definition.Data // of the message
	anyData       bool               // the text is not in a message
	digest        bool               // the message is a digest
	subscribers   bool               // it goes to those who subscribe to topics
	manage        bool               // to those, or to somebody who asks for the link
	confirm       bool               // to somebody who is to confirm a subscription
}

func anySubject() subjects {
	return subjects{event: true, record: true, item: true, metric: true, date: true, calendar: true, period: true, count: true, anyData: true, digest: true, subscribers: true, manage: true, confirm: true}
}

func subjectsOf(s expr.Scope) subjects {
	if isOfAnything(s) {
		return anySubject()
	}
	if !s.Event && !s.Record {
		return subjects{calendar: true, period: s.Period, count: s.Iteration}
	}
	return subjects{event: s.Event, item: s.Item, record: s.Record, typ: s.RecordType}
}

// textNames returns the names that a text may write, with their fields; nil leaves the fields open.
func textNames(about subjects) map[string][]string {
	names := map[string][]string{
		"vars":      nil,
		"contact":   append([]string{"id", "address", "name", "locale", "timezone", "persona", "place", "groups", "attributes"}, subject.AddressKinds()...),
		"workspace": {"timezone", "locale", "base_url"},
		"survey":    {"link"},
		"trigger":   {"id"},
		"now":       {}, "due_at": {}, "detected_at": {}, "step": {}, "attempt": {},
	}
	if about.event {
		names["event"], names["candidate"] = nil, nil
	}
	if about.item {
		names["item"] = nil
	}
	if about.record {
		names["record"], names["issues"] = recordFields(about.typ), nil
	}
	if about.metric {
		names["metric"] = []string{"name", "value", "threshold"}
	}
	if about.date {
		names["days_left"] = []string{}
	}
	if about.period {
		names["period"] = []string{"start", "end"}
	}
	if about.anyData || len(about.data) > 0 {
		names["data"] = nil
	}
	if about.digest {
		names["digest"] = []string{"sections", "more"}
	}
	if about.subscribers {
		names["unsubscribe_link"] = []string{}
	}
	if about.manage {
		names["manage_link"] = []string{}
	}
	if about.confirm {
		names["confirm_link"] = []string{}
	}
	if about.count {
		names["iteration"] = []string{}
	}
	return names
}

// recordFields returns the fields of a declared type and those that every record has; nil when the type is open.
func recordFields(typ *expr.RecordType) []string {
	if typ == nil {
		return nil
	}
	own := []string{"id", "type", "closed", "created_at", "updated_at", "last_modified_by", "props"}
	for _, name := range relationNames() {
		if _, declared := typ.Fields[name]; !declared && typ.Name != "" {
			own = append(own, name)
		}
	}
	return append(own, slices.Sorted(maps.Keys(typ.Fields))...)
}

// relationNames are the names by which the relations of a record are read. A type may declare fields of these names, which are read where no
// relation is written.
func relationNames() []string {
	return []string{expr.Owner, expr.Parent, expr.Parents, expr.Children}
}

// laterTextNames are names and fields that texts will be able to write.
func laterTextNames() []string {
	return []string{
		"answers",
	}
}

// variable checks a path in a text against the values that exist when it is rendered; a missing one would be an error there.
func (r *reader) variable(at portable.Pos, path string, about subjects) {
	known := textNames(about)
	root, field := rootOf(path)
	fields, ok := known[root]
	switch {
	case slices.Contains(laterTextNames(), root) || slices.Contains(laterTextNames(), root+"."+field):
		r.notYet(at, path, "a text can write "+sentence(slices.Sorted(maps.Keys(known))))
	case !ok && isSubject(root):
		r.report(definition.CodeTemplate, at, noSubject(root, about), "")
	case !ok:
		r.report(definition.CodeTemplate, at, fmt.Sprintf("there is no variable %q", root), elsewhereInTexts(root, path, known))
	case field != "" && len(fields) > 0 && !slices.Contains(fields, field):
		hint := suggest.DidYouMean(field, fields)
		if hint == "" {
			hint = root + " has " + sentence(fields)
		}
		r.report(definition.CodeTemplate, at, fmt.Sprintf("%s has no field %q", root, field), hint)
	case root == "vars":
		r.constant(at, field)
	case root == "data" && !about.anyData:
		r.datumRead(at, path, about.data)
	}
}

// whole refuses a path that ends at a related record, which has no text form.
func (r *reader) whole(at portable.Pos, path string, typ *expr.RecordType) {
	names := strings.Split(path, ".")
	for i := 1; i < len(names) && names[0] == "record"; i++ {
		target := typ.RelationOf(names[i])
		_, declared := fieldOf(typ, names[i])
		relation := typ != nil && !declared && slices.Contains(relationNames(), names[i])
		switch {
		case relation && i == len(names)-1 && names[i] == expr.Owner:
			r.report(definition.CodeTemplate, at, path+" is a contact, a group or a place", "write "+path+".id")
			return
		case relation && i == len(names)-1:
			r.report(definition.CodeTemplate, at, path+" is one or several whole records", "write a field, such as record.parent.name, or {% for child in record.children %}{{ child.name }}{% endfor %}")
			return
		case target == "":
			return
		case i == len(names)-1:
			r.report(definition.CodeTemplate, at, fmt.Sprintf("%s is a whole record, of type %s", path, target), "write one of its fields, such as "+path+".id")
			return
		}
		typ = typ.Related[names[i]]
	}
}

func fieldOf(typ *expr.RecordType, name string) (expr.Type, bool) {
	if typ == nil {
		return expr.Any, false
	}
	t, ok := typ.Fields[name]
	return t, ok
}

// rootOf splits a path into its name and the first field.
func rootOf(path string) (root, field string) {
	root, rest, _ := strings.Cut(path, ".")
	field, _, _ = strings.Cut(rest, ".")
	root, _, _ = strings.Cut(root, "[")
	field, _, _ = strings.Cut(field, "[")
	return root, field
}

// isSubject reports whether a name exists in the texts of one kind of trigger only.
func isSubject(root string) bool {
	return slices.Contains([]string{"event", "candidate", "item", "record", "issues", "metric", "days_left", "period", "iteration", "data", "digest", "unsubscribe_link", "manage_link", "confirm_link"}, root)
}

func noSubject(root string, about subjects) string {
	switch {
	case root == "data":
		return "there is no data here: the message reads none"
	case root == "digest":
		return "there is no digest here: a message has one if its workflow is of type: digest and its trigger has a schedule"
	case root == "unsubscribe_link":
		return "there is no unsubscribe link here: the message is neither a digest nor about an item, to subscribers alone"
	case root == "manage_link":
		return "there is no manage link here: the message goes neither to subscribers alone nor to those who ask for the link, by event: " + definition.LinkRequested
	case root == "confirm_link":
		return "there is no confirm link here: the trigger does not listen to " + definition.SubscriptionRequested
	case root == "period" && about.calendar:
		return "there is no period here: the schedule has none"
	case root == "iteration" && about.calendar:
		return "there is no iteration here: the schedule has no from, the day from which they are counted"
	case root == "item":
		return "there is no item here: the trigger does not listen to " + definition.ItemPublished
	case root == "iteration":
		return "there is no iteration here: the trigger has neither a schedule nor a course"
	case root == "period":
		return "there is no period here: the trigger has no schedule"
	case about.calendar:
		return fmt.Sprintf("there is no %s here: the trigger has a schedule", root)
	}
	switch root {
	case "record":
		return "there is no record here: the trigger listens to an event"
	case "issues":
		return "there are no issues here: the trigger listens to an event"
	case "metric":
		return "there is no metric here: the trigger has none, which is metric: with its name, value and thresholds"
	case "days_left":
		return "there are no days left here: the trigger has no date, which is the anchor of its timing"
	}
	return fmt.Sprintf("there is no %s here: the trigger is on records", root)
}

func elsewhereInTexts(root, path string, known map[string][]string) string {
	names := slices.Sorted(maps.Keys(known))
	if hint := suggest.DidYouMean(root, names); hint != "" {
		return hint
	}
	what := "event"
	if _, ok := known[what]; !ok {
		what = "record"
	}
	if _, ok := known[what]; !ok { // the calendar's
		return "there are " + sentence(names)
	}
	others := slices.DeleteFunc(names, func(name string) bool { return name == what })
	return fmt.Sprintf("a field of the %s is %s.%s; besides %s there are %s", what, what, path, what, sentence(others))
}

// fits checks, where a template or survey is used, whether the constants, the event, the record and the fields that it writes exist.
func (r *reader) fits(at portable.Pos, what string, paths []string, about subjects) {
	if r.stored { // an accepted document is not refused because of another definition
		return
	}
	for _, path := range paths {
		root, field := rootOf(path)
		names, ok := textNames(about)[root]
		switch {
		case isSubject(root) && !ok:
			r.report(definition.CodeTemplate, at, fmt.Sprintf("%s writes %s, and %s", what, path, noSubject(root, about)), "")
		case root == "record" && field != "" && len(names) > 0 && !slices.Contains(names, field):
			r.report(definition.CodeTemplate, at, fmt.Sprintf("%s writes %s, and records of type %s have no field %q", what, path, about.typ.Name, field), suggest.DidYouMean(field, names))
		case root == "vars":
			r.constant(at, field)
		case root == "data" && !about.anyData:
			r.datumRead(at, path, about.data)
		}
	}
}
