// Package outlook says what a workflow is going to do: the next occurrences, as far as they are known.
package outlook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/joiner"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
)

// Query asks what a workflow is going to do.
type Query struct {
	Workflow string
	Record   subject.RecordRef // for triggers that follow records; zero: none
	Contact  string            // the contact in whose zone it is asked for, and after whose events; empty: none. Not with Record.
	Event    string            // the kind of an event: what it would cause if it arrived now is asked for, and nothing else; empty: none. Not with Record.
	Limit    int               // how many occurrences
}

// Answer is what a workflow is going to do if nothing changes.
type Answer struct {
	plan.Upcoming
	Workflow *definition.Workflow
	At       time.Time // the instant for which it holds
	Zone     string    // of the workspace
	Pause    *store.Pause
	Event    string // that was asked for
	Record   *store.RecordRow
	Contact  *subject.ContactRow
	// Outside is set if the contact is in the audience of no trigger now, as far as personas and `where` say so without a record or an event.
	Outside bool
	// Waiting are the messages to the contact that exist already, by when they leave, as many as Limit.
	Waiting []delivery.Row
}

// Error means that there is no answer to a query, and says what to ask for instead.
type Error struct {
	Missing bool   // what is named does not exist
	Field   string // workflow, record, contact or event
	Message string
	Hint    string
}

func (e *Error) Error() string { return e.Message }

// Outlook is the service.
type Outlook struct {
	store   *store.Store
	catalog *catalog.Catalog
}

// New makes the service.
func New(s *store.Store, c *catalog.Catalog) *Outlook { return &Outlook{store: s, catalog: c} }

// Ask returns the next occurrences of a workflow. It reads everything as of one instant and changes nothing. The error is an *Error if what is asked for
// does not exist, or cannot be told.
func (o *Outlook) Ask(ctx context.Context, ws subject.WorkspaceID, q Query, now time.Time) (a Answer, err error) {
	err = o.catalog.Supply(ctx, 1, func(int) error {
		return o.store.Snapshot(ctx, func(tx *store.Tx) error {
			number, err := tx.DefinitionsNumber(ws)
			if err != nil {
				return err
			}
			set, err := o.catalog.Loaded(ws, number)
			if err != nil {
				return err
			}
			r := reading{Outlook: o, tx: tx, ws: ws, set: set, query: q}
			a = Answer{At: now, Zone: set.Workspace.Timezone}
			return r.read(&a)
		})
	})
	return a, err
}

// reading is one attempt to answer a query.
type reading struct {
	*Outlook
	tx    *store.Tx
	ws    subject.WorkspaceID
	set   *definition.Set
	query Query
}

func (r *reading) read(u *Answer) (err error) {
	if u.Workflow = r.set.Workflow(r.query.Workflow); u.Workflow == nil {
		return r.noWorkflow()
	}
	if err := r.check(u.Workflow); err != nil {
		return err
	}
	if u.Pause, err = r.tx.Pause(r.ws, u.Workflow.Name); err != nil {
		return err
	}
	if u.Pause != nil && !u.Pause.ResumedAt.IsZero() {
		u.Pause = nil
	}
	facts := plan.OutlookFacts{Set: r.set, Workflow: u.Workflow, Now: u.At, Zones: &r.catalog.Zones, Limit: r.query.Limit}
	if facts.Contact, err = r.contact(u); err != nil {
		return err
	}
	if facts.Record, err = r.record(u); err != nil {
		return err
	}
	if facts.Events, err = r.events(u); err != nil {
		return err
	}
	if u.Event = r.query.Event; u.Event != "" {
		facts.IfCame = arriving(u)
	}
	outlook, err := plan.NewOutlook(facts)
	if err != nil {
		return err
	}
	stored, err := r.stored(u, outlook.Needs())
	if err != nil {
		return err
	}
	outlook.Stored(stored)
	for keys := outlook.Keys(); len(keys) > 0; keys = outlook.Keys() {
		found, err := r.tx.Stored(r.ws, keys)
		if err != nil {
			return err
		}
		outlook.Found(found)
	}
	u.Upcoming = outlook.Upcoming()
	if facts.Contact != nil {
		u.Outside = outlook.Outside(u.Upcoming)
	}
	return nil
}

// noWorkflow is the error for a workflow that does not exist.
func (r *reading) noWorkflow() error {
	var names []string
	for _, w := range r.set.Workflows() {
		names = append(names, w.Name)
	}
	hint := cmp.Or(suggest.DidYouMean(r.query.Workflow, names), "GET /v1/workflows lists them")
	return &Error{Missing: true, Field: "workflow", Message: "there is no workflow " + r.query.Workflow, Hint: hint}
}

// check refuses what the workflow cannot answer.
func (r *reading) check(w *definition.Workflow) error {
	q := r.query
	var types []string
	others := false
	var kinds []string
	for _, t := range w.Trigger {
		if on := t.OnEvent(); on != nil {
			kinds = append(kinds, on.Kind)
		}
		if typ := t.Watch().Record; typ == "" {
			others = true
		} else if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	follows := strings.Join(types, ", ")
	switch named := q.Record != (subject.RecordRef{}); {
	case named && q.Event != "":
		return &Error{Field: "event", Message: "a record and an event cannot be asked for together", Hint: "name the record, or the kind of event"}
	case q.Event != "" && len(kinds) == 0:
		return &Error{Field: "event", Message: "workflow " + w.Name + " listens to no events", Hint: "leave the event out"}
	case q.Event != "" && !slices.Contains(kinds, q.Event):
		hint := cmp.Or(suggest.DidYouMean(q.Event, kinds), "it listens to events of kind "+strings.Join(kinds, ", "))
		return &Error{Field: "event", Message: fmt.Sprintf("workflow %s listens to no events of kind %s", w.Name, q.Event), Hint: hint}
	case named && q.Contact != "":
		return &Error{Field: "contact", Message: "a record and a contact cannot be asked for together", Hint: "name the record, or the contact"}
	case named && len(types) == 0:
		return &Error{Field: "record", Message: "workflow " + w.Name + " follows no records", Hint: "leave the record out"}
	case named && !slices.Contains(types, q.Record.Type):
		return &Error{
			Field: "record", Message: fmt.Sprintf("workflow %s follows no records of type %s", w.Name, q.Record.Type),
			Hint: "it follows records of type " + follows,
		}
	case !named && !others:
		return &Error{
			Field: "record", Message: fmt.Sprintf("workflow %s follows records of type %s, each on its own", w.Name, follows),
			Hint: fmt.Sprintf("name a record, such as %s/ID", types[0]),
		}
	}
	return nil
}

// contact reads the contact that is asked for, and the messages that wait for it.
func (r *reading) contact(u *Answer) (*subject.Contact, error) {
	if r.query.Contact == "" {
		return nil, nil
	}
	row, err := r.tx.Contact(r.ws, r.query.Contact)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &Error{Missing: true, Field: "contact", Message: "there is no contact " + r.query.Contact, Hint: "GET /v1/contacts lists them"}
	}
	if err != nil {
		return nil, err
	}
	u.Contact = &row
	u.Waiting, err = r.tx.WaitingForContact(r.ws, row.ID, u.Workflow.Name, r.query.Limit)
	return &row.Contact, err
}

// record reads the record that is asked for, with what evaluates it.
func (r *reading) record(u *Answer) (*plan.RecordFacts, error) {
	ref := r.query.Record
	if ref == (subject.RecordRef{}) {
		return nil, nil
	}
	row, err := r.tx.Record(r.ws, ref)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &Error{
			Missing: true, Field: "record", Message: fmt.Sprintf("there is no record %s/%s", ref.Type, ref.ExtID),
			Hint: "GET /v1/records/TYPE lists the records of a type",
		}
	}
	if err != nil {
		return nil, err
	}
	u.Record = &row
	facts := &plan.RecordFacts{
		Record: row.Record, Observation: plan.Observation{Now: u.At, EvaluateAt: row.EvaluateAt, EvaluatedAt: row.EvaluatedAt}, Err: row.Unreadable,
	}
	if facts.Err == nil {
		facts.States, facts.Err = condition.Parse(row.State)
	}
	read, err := related.Read(r.tx, []related.Record{{Workspace: r.ws, Relations: r.set.Relations(ref.Type), Record: row.Record}})
	if err != nil {
		return nil, err
	}
	facts.Related = read.ByWorkspace()[r.ws]
	facts.Waiting, err = r.tx.WaitingOfRecord(r.ws, row.ID, u.Workflow.Name, plan.MostWaiting)
	return facts, err
}

// stored reads what an outlook needs.
func (r *reading) stored(u *Answer, needs []plan.Need) (map[string]plan.StoredRows, error) {
	stored := map[string]plan.StoredRows{}
	for _, n := range needs {
		switch {
		case n.Series:
			ref := store.SeriesRef{Workflow: u.Workflow.Name, Trigger: n.Trigger}
			series, err := r.tx.ReadSeries(r.ws, []store.SeriesRef{ref})
			if err != nil {
				return nil, err
			}
			s := series[ref]
			stored[n.Trigger] = plan.StoredRows{Rows: s.Pending, Last: plan.Place{Due: s.LastDue, Date: s.LastLocal}}
		case n.Plan:
			ref := store.PlanRef{Workspace: r.ws, Record: u.Record.ID, Workflow: u.Workflow.Name, Trigger: n.Trigger, OfCourse: n.Course, Own: n.Own, Resets: n.Resets, Since: n.Since}
			plans, err := r.tx.ReadPlans(map[store.PlanRef][]key.Instance{ref: n.Keys})
			if err != nil {
				return nil, err
			}
			p := plans[ref]
			stored[n.Trigger] = plan.StoredRows{Rows: p.Instances, Freed: p.Freed, Spent: p.Spent, People: joiner.People(p.Own...), Dated: p.Dated}
		case n.Fires:
			ref := store.ThrottleRef{Workspace: r.ws, Workflow: u.Workflow.Name, Context: n.Context}
			fired, err := r.tx.Firings([]store.ThrottleRef{ref})
			if err != nil {
				return nil, err
			}
			th := fired[ref]
			stored[n.Trigger] = plan.StoredRows{Fired: plan.Firing{FiredAt: th.FiredAt, VoidAt: th.VoidAt, InFlight: th.InFlight}}
		}
	}
	return stored, nil
}
