package console

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// recordChips are the lists that records lead to.
func recordChips(at string) []chip {
	out := []chip{{name: "types", href: "/records"}, {name: "throttles", href: "/throttles"}, {name: "runs", href: "/runs"}}
	for i := range out {
		out[i].on = out[i].href == at
	}
	return out
}

// throttleLine is a context that has fired, and from when it may again.
type throttleLine struct {
	id       string
	state    badge
	workflow string
	context  string // it begins with the trigger
	record   string
	href     string // of the record; empty: it has no page
	instance string // address of what fired last
	query    string // that narrows lists to the workflow
	fired    time.Time
	until    time.Time
	held     int // how often it was kept from firing since
}

// times is how often a context was kept from firing, in words.
func (l throttleLine) times() string {
	if l.held == 0 {
		return ""
	}
	return plural(int64(l.held), "time", "times")
}

type throttleList struct {
	scale
	chips    []chip
	workflow string
	rows     []throttleLine
	first    string
	next     string
}

func (c *console) throttles(ctx context.Context, v visit) (view, error) {
	f := store.ThrottleFilter{Workflow: v.query.Get("workflow"), Limit: pageSize + 1}
	f.After.Context, f.After.Workflow = v.query.Get("after"), v.query.Get("of")
	rows, err := c.Definitions.Throttles(ctx, v.workspace.ID, f)
	if err != nil {
		return view{}, err
	}
	list := throttleList{scale: v.scale, chips: recordChips("/throttles"), workflow: f.Workflow}
	paged := f.After.Context != ""
	if paged {
		list.first = v.address("/throttles", nil, "after", "of")
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		last := rows[len(rows)-1]
		list.next = v.address("/throttles", url.Values{"after": {last.Context}, "of": {last.Workflow}})
	}
	for _, r := range rows {
		list.rows = append(list.rows, v.throttleLine(r))
	}
	return view{title: "Throttles", section: "/records", body: throttlesPage(list), live: !paged}, nil
}

func (v visit) throttleLine(r store.ThrottleRow) throttleLine {
	l := throttleLine{
		id: r.Workflow + " " + r.Context, state: badge{wait, "throttled"}, workflow: r.Workflow, context: r.Context,
		query: url.Values{"workflow": {r.Workflow}}.Encode(), fired: r.FiredAt, until: r.Until, held: r.Held,
	}
	switch {
	case r.Until.IsZero():
		l.state = badge{quiet, "defined no more"}
	case !r.Until.After(v.now):
		l.state = badge{good, "free"}
	}
	if r.Type != "" {
		l.record, l.href = r.Type+" "+r.ExtID, recordHref(r.Type, r.ExtID)
	}
	if r.Instance != 0 {
		l.instance = "/instances/" + v.public(key.KindInstance, int64(r.Instance))
	}
	return l
}

// runLine is work over many rows, and how far it is.
type runLine struct {
	id          string
	state       badge
	work        string
	subject     string
	href        string // of the subject
	done, total int64  // total 0 while it is not counted
	repaired    int64
	started     time.Time
	finished    time.Time
	definitions int64
	error       string
	command     string // what a person can do about a failed one
}

// share is how far it is, in words.
func (l runLine) share() string {
	switch {
	case l.total == 0 && l.done == 0 && l.finished.IsZero():
		return "begins"
	case l.total == 0 && l.done == 0:
		return "nothing to do"
	}
	text := number(l.done) + " of " + number(l.total)
	if l.total < l.done {
		text = number(l.done) + " so far"
	}
	if l.repaired > 0 {
		text += ", " + number(l.repaired) + " repaired"
	}
	return text
}

type runList struct {
	scale
	chips  []chip
	rows   []runLine
	newest string
	older  string
}

func (c *console) runs(ctx context.Context, v visit) (view, error) {
	rows, err := c.Store.Jobs(ctx, v.workspace.ID, store.Page{Before: v.before(), Limit: pageSize + 1})
	if err != nil {
		return view{}, err
	}
	list := runList{scale: v.scale, chips: recordChips("/runs"), newest: v.newest("/runs")}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/runs", rows[len(rows)-1].ID)
	}
	for _, r := range rows {
		list.rows = append(list.rows, v.runLine(r))
	}
	return view{title: "Runs", section: "/records", body: runsPage(list), live: v.before() == 0}, nil
}

func (v visit) runLine(r job.Row) runLine {
	l := runLine{
		id: v.public(key.KindRun, r.ID), state: badge{runTone(r.Status), string(r.Status)}, work: "evaluates records of", subject: r.Subject, href: recordHref(r.Subject),
		done: r.Done, total: r.Total, started: r.StartedAt, finished: r.FinishedAt, definitions: r.Definitions, error: r.Error,
	}
	if r.Total > 0 || !r.FinishedAt.IsZero() { // rows may have come since they were counted
		l.total = max(r.Done, r.Total)
	}
	if r.Status == job.Failed {
		l.command = "carillon runs resume " + l.id
	}
	if r.Kind == job.Related {
		l.work, l.href = "evaluates records that depend on", recordHref(strings.SplitN(r.Subject, "/", 2)...)
		if of, id, one := strings.Cut(r.Subject, "/"); of == subject.ContactType {
			l.subject, l.href = "contacts", "/contacts"
			if one {
				l.subject, l.href = "contact "+id, contactPath(id)
			}
		} else if of == subject.ChildrenType {
			l.subject, l.href = "children of records", "/records"
			if one {
				l.subject, l.href = "children of "+id, recordHref(strings.SplitN(id, "/", 2)...)
			}
		}
	}
	if r.Kind == job.Reconcile {
		l.work, l.repaired = "repairs what is planned by", r.Changed
		workflow, _, _ := strings.Cut(r.Subject, "/")
		l.href = "/instances?" + url.Values{"workflow": {workflow}}.Encode()
	}
	if r.Kind == job.Retry || r.Kind == job.Cancel {
		l.work, l.href = map[job.Kind]string{job.Retry: "retries deliveries of", job.Cancel: "cancels deliveries of"}[r.Kind], "/deliveries"
	}
	if of := map[job.Kind]string{
		job.Subscribe: "begins subscriptions:", job.Migrate: "moves subscriptions:", job.Unsubscribe: "ends subscriptions to", job.Undo: "takes back:",
	}[r.Kind]; of != "" {
		l.work, l.href = of, "/contacts"
	}
	if r.Kind == job.Groups {
		l.work, l.subject, l.href = "computes groups of", "everybody", "/groups"
	}
	if r.Kind == job.Limits {
		l.work, l.href = "reschedules messages to", "/contacts?"+url.Values{"persona": {r.Subject}}.Encode()
		if r.Subject == "" {
			l.subject, l.href = "everybody", "/contacts"
		}
	}
	return l
}

func runTone(status job.Status) tone {
	switch status {
	case job.Running:
		return wait
	case job.Done:
		return good
	case job.Failed:
		return bad
	case job.Cancelled:
	}
	return quiet
}
