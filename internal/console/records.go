package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// typeLine is one type of records.
type typeLine struct {
	name   string
	href   string
	fields string // as they are declared; empty: its records are open
	by     []string
}

type typeList struct {
	chips []chip
	rows  []typeLine
}

// recordTypes lists the types: those of which there are records, those that are declared, and those that triggers watch.
func (c *console) recordTypes(ctx context.Context, v visit) (view, error) {
	names, err := c.Store.RecordTypes(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	for _, t := range set.RecordTypes() {
		names = append(names, t.Name)
	}
	names = append(names, set.WatchedTypes()...)
	slices.Sort(names)
	list := typeList{chips: recordChips("/records")}
	for _, name := range slices.Compact(names) {
		l := typeLine{name: name, href: recordHref(name)}
		if t := set.RecordType(name); t != nil {
			var fields []string
			for _, field := range slices.Sorted(maps.Keys(t.Declared)) {
				fields = append(fields, field+" "+t.Declared[field])
			}
			l.fields = strings.Join(fields, ", ")
		}
		for _, m := range set.ByRecord(name) {
			l.by = append(l.by, m.Workflow.Name+" "+m.Trigger.ID)
		}
		list.rows = append(list.rows, l)
	}
	return view{title: "Records", section: "/records", body: recordTypesPage(list), live: true}, nil
}

// recordHref is the address of a type, or of a record.
func recordHref(parts ...string) string {
	href := "/records"
	for _, part := range parts {
		if strings.Trim(part, ".") == "" { // it would be taken for a way up
			part = strings.ReplaceAll(part, ".", "%2E")
		} else {
			part = url.PathEscape(part)
		}
		href += "/" + part
	}
	return href
}

type recordLine struct {
	id      string
	href    string
	closed  bool
	props   string
	updated time.Time
	by      string
}

type recordList struct {
	scale
	typ    string
	rows   []recordLine
	newest string
	older  string
}

func (c *console) records(ctx context.Context, v visit) (view, error) {
	rows, err := c.Store.Records(ctx, v.workspace.ID, v.kind, store.Page{Before: v.before(), Limit: pageSize + 1})
	if err != nil {
		return view{}, err
	}
	list := recordList{scale: v.scale, typ: v.kind, newest: v.newest(recordHref(v.kind))}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older(recordHref(v.kind), int64(rows[len(rows)-1].ID))
	}
	for _, r := range rows {
		props, err := store.RecordJSON(r.Props)
		if err != nil {
			return view{}, err
		}
		if r.Unreadable != nil {
			props = r.Unreadable.Error()
		}
		list.rows = append(list.rows, recordLine{
			id: r.ExtID, href: recordHref(r.Type, r.ExtID), closed: r.Closed, props: props, updated: r.UpdatedAt, by: r.ModifiedBy,
		})
	}
	return view{title: "Records of " + v.kind, section: "/records", body: recordsPage(list), live: v.before() == 0}, nil
}

type recordDetail struct {
	scale
	typ, typeHref string
	id            string
	closed        bool
	facts         []fact
	fields        []fact
	standings     []standing
	coming        comingList
	throttles     []throttleLine
	instances     []instanceLine
	decisions     []decisionLine
}

// standing is how a trigger stands to a record.
type standing struct {
	workflow string
	trigger  string
	state    badge
	why      string
	until    time.Time
	facts    []fact
	parts    []judged
	error    string
}

// judged is one condition of a trigger, line by line.
type judged struct {
	issue   string
	state   badge
	clauses []trace.Clause
}

// decisionLine is something that was not done for a record.
type decisionLine struct {
	id       string
	at       time.Time
	state    badge
	workflow string
	trigger  string
	context  string
	why      string
	until    time.Time // of a cooldown
}

func (c *console) record(ctx context.Context, v visit) (view, error) {
	r, err := c.Store.Record(ctx, v.workspace.ID, subject.RecordRef{Type: v.kind, ExtID: v.id})
	if err != nil {
		return view{}, err
	}
	instances, err := c.Store.Instances(ctx, v.workspace.ID, store.InstanceFilter{Record: r.ID, Once: true}, store.Page{Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	decisions, err := c.Store.Decisions(ctx, v.workspace.ID, store.DecisionFilter{Record: r.ID}, store.Page{Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	page := recordDetail{
		scale: v.scale, typ: r.Type, typeHref: recordHref(r.Type), id: r.ExtID, closed: r.Closed,
		facts: known([]fact{
			{name: "revision", value: fmt.Sprint(r.Rev)},
			{name: "written by", value: r.ModifiedBy},
			{name: "written", at: r.UpdatedAt},
			{name: "made", at: r.CreatedAt},
			{name: "changed since", at: r.ChangedAt},
			{name: "evaluated", at: r.EvaluatedAt},
			{name: "next evaluation", at: r.EvaluateAt},
		}),
	}
	if r.Type == subject.PlaceType {
		page.facts = append(page.facts, fact{name: "people here", value: "contacts in " + r.ExtID, href: "/contacts?" + url.Values{"place": {r.ExtID}}.Encode()})
	}
	family, err := c.family(ctx, v, r)
	if err != nil {
		return view{}, err
	}
	page.facts = append(page.facts, family...)
	if r.Unreadable != nil {
		page.facts = append(page.facts, fact{name: "unreadable", value: r.Unreadable.Error()})
	}
	warnings, err := c.Definitions.RecordWarnings(ctx, v.workspace.ID, r)
	if err != nil {
		return view{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Props)) {
		value, err := valueOf(r.Props[name])
		if err != nil {
			return view{}, err
		}
		field := fact{name: name, value: value}
		if slices.ContainsFunc(warnings, func(w record.Warning) bool { return w.Field == name }) {
			field.state = badge{bad, "names nobody"}
		}
		page.fields = append(page.fields, field)
	}
	standings, err := c.Definitions.ExplainRecord(ctx, v.workspace.ID, r)
	if err != nil {
		return view{}, err
	}
	for _, s := range standings {
		page.standings = append(page.standings, standingOf(s))
	}
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	ref := subject.RecordRef{Type: r.Type, ExtID: r.ExtID}
	if page.coming, err = c.coming(ctx, v, followers(set, r.Type), outlook.Query{Record: ref}, "--record "+shellWord(r.Type+"/"+r.ExtID)); err != nil {
		return view{}, err
	}
	throttles, err := c.Definitions.Throttles(ctx, v.workspace.ID, store.ThrottleFilter{Record: r.ID, Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	for _, th := range throttles {
		page.throttles = append(page.throttles, v.throttleLine(th))
	}
	if page.instances, err = c.instanceLines(ctx, v, instances); err != nil {
		return view{}, err
	}
	for _, d := range decisions {
		page.decisions = append(page.decisions, decisionLine{
			id: "x" + fmt.Sprint(d.ID), at: d.At, state: badge{reasonTone(d.Reason), words(string(d.Reason))}, workflow: d.Workflow, trigger: d.Trigger,
			context: d.Context, why: d.Reason.Sentence(), until: untilOf(d),
		})
	}
	return view{title: r.Type + " " + r.ExtID, section: "/records", body: recordPage(page), live: true}, nil
}

// family returns the owner, the parents and the first children of a record, with links.
func (c *console) family(ctx context.Context, v visit, r store.RecordRow) ([]fact, error) {
	var facts []fact
	if r.Owner != "" {
		kind, id := r.Owner.Split()
		href := ""
		switch kind {
		case subject.OwnerContact:
			href = contactPath(id)
		case subject.OwnerGroup:
			href = "/groups"
		}
		facts = append(facts, fact{name: "owner", value: kind + " " + id, href: href})
	}
	for _, p := range r.Parents {
		facts = append(facts, fact{name: p.Name, value: p.Type + " " + p.ExtID, href: recordHref(p.Type, p.ExtID)})
	}
	children, err := c.Store.Children(ctx, v.workspace.ID, r.Ref(), 0, pageSize+1)
	if err != nil {
		return nil, err
	}
	for i, child := range children {
		if i == pageSize {
			facts = append(facts, fact{name: "children", value: "and more"})
			break
		}
		facts = append(facts, fact{name: "child", value: child.Type + " " + child.ExtID, href: recordHref(child.Type, child.ExtID)})
	}
	return facts, nil
}

func standingOf(s plan.Explanation) standing {
	out := standing{
		workflow: s.Workflow.Name, trigger: s.Trigger.ID, state: badge{reasonTone(s.Reason), words(string(s.Reason))}, why: s.Reason.Sentence(), until: s.Until,
		facts: known([]fact{
			{name: "met since", at: s.Before.Earliest()},
			{name: "fired", at: s.FiredAt},
			{name: "context", value: s.Context, code: true},
			{name: "episode", value: episode(s.Before)},
		}),
	}
	if s.Reason == reason.Matched {
		out.state, out.why = badge{good, "met"}, ""
	}
	if s.Err != nil {
		out.error = s.Err.Error()
	}
	for _, j := range s.Judged {
		part := judged{issue: j.Issue, state: badge{quiet, "false"}}
		if j.Met {
			part.state = badge{hold, "true"}
		}
		for _, c := range j.Clauses {
			part.clauses = append(part.clauses, trace.Clause{Line: c.Source, Met: c.Met, Reason: c.Reason, Field: c.Field, Value: c.Value, Detail: c.Detail, Also: c.Also})
		}
		out.parts = append(out.parts, part)
	}
	return out
}

// episode numbers the one that goes on, or the last one.
func episode(s condition.State) string {
	switch {
	case s.Episodes == 0:
		return ""
	case s.Open:
		return fmt.Sprintf("%d, going on", s.Episodes)
	}
	return fmt.Sprintf("%d, over", s.Episodes)
}

// untilOf is when a decision ends to hold, where its trace says so.
func untilOf(d store.Decision) time.Time {
	t, _ := trace.Read(d.Trace)
	return t.Until
}

// valueOf is the value of a field: a text as it is, anything else as JSON.
func valueOf(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return strings.TrimSpace(text.String()), err
}
