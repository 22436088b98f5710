package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// shownUpcoming is how many occurrences of each workflow are computed at least, and how many are shown where none was expected.
const shownUpcoming = 10

// chosenBy are the fields by which the rows of `upcoming` choose: if all rows name one of them, only occurrences with one of the named values are
// compared.
func chosenBy() []string { return []string{"workflow", "trigger", "record", "to"} }

// upcoming returns what every workflow is going to do: by record for triggers that follow records, and else for each contact who may be in the
// audience. The rows are in the order of their instants.
func (w *world) upcoming(ctx context.Context, asked []expectation) ([]row, error) {
	limit := shownUpcoming
	for _, e := range asked {
		if e.spec.ordered {
			limit = max(limit, len(e.slots()))
		}
	}
	e, err := w.reader()
	if err != nil {
		return nil, err
	}
	workflows, err := e.Workflows(ctx, w.workspace.ID)
	if err != nil {
		return nil, err
	}
	contacts, err := w.contactIDs(ctx)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, info := range workflows {
		if info.Definition == nil {
			continue
		}
		queries, err := w.outlooks(ctx, info.Definition, contacts)
		if err != nil {
			return nil, err
		}
		for _, q := range queries {
			q.Limit = limit
			more, err := w.outlook(ctx, e, q)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		by := a.cells["at"].at.Compare(b.cells["at"].at)
		for _, name := range chosenBy() {
			by = cmp.Or(by, strings.Compare(a.cells[name].text, b.cells[name].text))
		}
		return by
	})
	return rows, nil
}

// outlooks returns what has to be asked about a workflow.
func (w *world) outlooks(ctx context.Context, def *definition.Workflow, contacts []string) (queries []outlook.Query, err error) {
	types, others := map[string]bool{}, false
	for _, t := range def.Trigger {
		typ := t.Watch().Record
		if typ == "" {
			others = others || t.OnSchedule() != nil || t.OnEvent() != nil
			continue
		}
		if types[typ] {
			continue
		}
		types[typ] = true
		records, err := all(pagesOf(
			func(p store.Page) ([]store.RecordRow, error) { return w.store.Records(ctx, w.workspace.ID, typ, p) },
			func(r store.RecordRow) int64 { return int64(r.ID) }))
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			queries = append(queries, outlook.Query{Workflow: def.Name, Record: subject.RecordRef{Type: typ, ExtID: r.ExtID}})
		}
	}
	switch {
	case !others:
	case len(contacts) == 0:
		queries = append(queries, outlook.Query{Workflow: def.Name})
	default:
		for _, c := range contacts {
			queries = append(queries, outlook.Query{Workflow: def.Name, Contact: c})
		}
	}
	return queries, nil
}

func (w *world) contactIDs(ctx context.Context) (ids []string, err error) {
	contacts, err := all(w.contacts(ctx))
	for _, c := range contacts {
		ids = append(ids, c.ExtID)
	}
	return ids, err
}

// outlook returns the occurrences of one query as rows.
func (w *world) outlook(ctx context.Context, e *engine.Engine, q outlook.Query) (rows []row, err error) {
	answer, err := e.Upcoming(ctx, w.workspace.ID, q)
	var refused *outlook.Error
	if errors.As(err, &refused) {
		return nil, nil
	}
	if err != nil || answer.Outside || answer.Contact != nil && !answer.Contact.SuppressedAt.IsZero() {
		return nil, err
	}
	record, to := "", ""
	if answer.Record != nil {
		record = answer.Record.Type + "/" + answer.Record.ExtID
	}
	if answer.Contact != nil {
		to = answer.Contact.ExtID
	}
	for _, o := range answer.Occurrences {
		rows = append(rows, upcomingRow(o, q.Workflow, record, to))
	}
	return rows, nil
}

func upcomingRow(o plan.Occurrence, workflow, record, to string) row {
	to = cmp.Or(o.Key.Person(), to)
	r := row{
		instance: int64(o.Row.ID), alias: []string{to},
		cells: map[string]cell{
			"workflow": textCell(workflow), "trigger": textCell(o.Trigger), "record": textCell(record), "to": textCell(to), "key": textCell(string(o.Key)),
			"at": instantCell(o.At), "due": instantCell(o.At), "iteration": numberCell(o.Iteration), "message": numberCell(0), "of": numberCell(o.Of),
			"status": textCell(string(o.Status)), "reason": textCell(string(o.Reason)),
		},
	}
	if o.Row.ID != 0 {
		r.cells["due"] = instantCell(o.Row.DueAt)
	}
	if o.Of > 0 {
		r.cells["message"] = numberCell(o.Position.Message + 1)
	}
	return r
}

// chosen returns the observed rows that the expected ones are about.
func (e expectation) chosen(actual []row) []row {
	for _, name := range chosenBy() {
		var named []field
		for _, r := range e.rows {
			i := slices.IndexFunc(r.fields, func(f field) bool { return f.name == name })
			if i < 0 {
				named = nil
				break
			}
			named = append(named, r.fields[i])
		}
		if len(named) == 0 {
			continue
		}
		actual = slices.DeleteFunc(slices.Clone(actual), func(a row) bool {
			return !slices.ContainsFunc(named, func(f field) bool { return f.holds(a) })
		})
	}
	return actual
}

// compareOrder compares rows that are expected in an order with the first of those that were observed. What comes after them is not compared.
func compareOrder(e expectation, actual []row) outcome {
	o := outcome{expectation: e, held: true}
	if len(e.rows) == 0 { // none
		o.actual = actual[:min(len(actual), shownUpcoming)]
		for a := range o.actual {
			o.held = false
			o.pairs = append(o.pairs, pair{sign: signExtra, expected: -1, actual: a})
		}
		return o
	}
	o.actual = e.chosen(actual)
	for n, r := range e.slots() {
		p := pair{sign: signKept, expected: r, actual: n}
		if n >= len(o.actual) {
			p.sign, p.actual = signMissing, -1
		} else if p.wrong = e.rows[r].differing(o.actual[n]); len(p.wrong) > 0 {
			p.sign = signChanged
		}
		o.held = o.held && p.sign == signKept
		o.pairs = append(o.pairs, p)
	}
	return o
}
