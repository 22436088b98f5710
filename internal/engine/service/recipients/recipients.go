// Package recipients says who the audience of a workflow is now, before anything leaves (commcare.md §1, B15).
//
// It computes the audience as the fan-out does when a person starts a run, page by page, but without locks, and makes neither an occasion nor a
// contact. Each page is read as of its own instant, so who joins or leaves meanwhile may be counted or not.
package recipients

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Answer is who the audience of a workflow is.
type Answer struct {
	Trigger    string // which a run by hand uses
	Count      int
	New        int         // of these: addresses without a contact, for which a run would make one
	Suppressed int         // of these: contacts to whom nothing is sent
	Most       int         // after so many people a run is held; 0: it takes up any number
	Sample     []Recipient // the first of them, in the order in which they are taken up
}

// Recipient is one person of an audience.
type Recipient struct {
	ID         string // of the contact; empty: there is none yet
	Address    string // at which the definition names them; empty: their own
	Timezone   string
	Suppressed bool // nothing is sent to them
}

// NotManualError means that nobody can say who the audience is without an event or a record, and which of them it needs.
type NotManualError struct{ Workflow, Why string }

func (e *NotManualError) Error() string {
	return fmt.Sprintf("the audience of workflow %s is not known beforehand: %s", e.Workflow, e.Why)
}

// ErrNotFound means that there is no such workflow.
var ErrNotFound = fmt.Errorf("no such workflow: %w", store.ErrNotFound)

// Counter is the service.
type Counter struct {
	store   *store.Store
	catalog *catalog.Catalog
}

// New makes the service.
func New(s *store.Store, c *catalog.Catalog) *Counter { return &Counter{store: s, catalog: c} }

// Count walks the audience of the trigger that a run by hand uses. sample is how many people it names at most. Errors: ErrNotFound, *NotManualError, and what
// an expression of the audience fails with.
func (c *Counter) Count(ctx context.Context, ws subject.WorkspaceID, workflow string, sample int, now time.Time) (Answer, error) {
	known, err := c.catalog.Known(ctx, ws)
	if err != nil {
		return Answer{}, err
	}
	set, err := c.catalog.Current(ctx, ws)
	if err != nil {
		return Answer{}, err
	}
	w := set.Workflow(workflow)
	if w == nil {
		return Answer{}, ErrNotFound
	}
	t, why := set.ByHand(w)
	if t == nil {
		return Answer{}, &NotManualError{Workflow: workflow, Why: why}
	}
	in, err := c.input(set, definition.Match{Workflow: w, Trigger: t}, now)
	if err != nil {
		return Answer{}, err
	}
	walk := walk{Counter: c, ws: ws, addresses: known.Addresses, set: set, trigger: t, input: in, sample: sample, named: map[subject.ContactID]bool{}}
	walk.answer.Trigger, walk.answer.Most = t.ID, t.MaxRecipients
	for cursor, more := subject.ContactID(0), true; more; more = cursor != 0 {
		if cursor, err = walk.page(ctx, cursor); err != nil {
			return Answer{}, fmt.Errorf("count the audience of workflow %s: %w", workflow, err)
		}
	}
	return walk.answer, nil
}

// input is what the expressions of the audience read in a run by hand.
func (c *Counter) input(set *definition.Set, m definition.Match, now time.Time) (expr.Input, error) {
	if m.Trigger.OnSchedule() == nil {
		return plan.Input(set, m.Workflow, nil, now), nil
	}
	series, err := plan.SeriesOf(set, m, &c.catalog.Zones)
	if err != nil {
		return expr.Input{}, err
	}
	return series.Input(series.Payload(series.ByHand(now)), now), nil
}

// walk is one count.
type walk struct {
	*Counter
	ws        subject.WorkspaceID
	addresses key.Keyed
	set       *definition.Set
	trigger   *definition.Trigger
	input     expr.Input
	sample    int
	named     map[subject.ContactID]bool // those whom the audience names one by one: a later page may find them again
	answer    Answer
}

// page counts the next people and returns the cursor after them; 0: there are no more.
func (w *walk) page(ctx context.Context, cursor subject.ContactID) (next subject.ContactID, err error) {
	w.input.Meter = &expr.Meter{}
	p, err := audience.Of(w.trigger, audience.Sets{Own: w.set, InForce: w.set, Stops: w.trigger.MaxRecipients > 0}, w.input, w.addresses, cursor, nil)
	if err != nil {
		return 0, err
	}
	var people store.People
	if err := w.store.Read(ctx, func(tx *store.Tx) (err error) {
		people, err = tx.Audience(w.ws, p.Audience)
		return err
	}); err != nil {
		return 0, err
	}
	list, next := p.Recipients(people)
	for _, r := range list {
		if w.named[r.Person.ID] {
			continue
		}
		if len(p.Refs) > 0 && r.Person.ID > 0 {
			w.named[r.Person.ID] = true
		}
		w.answer.Count++
		one := Recipient{ID: r.Person.ExtID, Address: r.Address, Timezone: r.Person.Timezone, Suppressed: r.Person.Suppressed}
		switch {
		case r.Person.ID < 0:
			w.answer.New++
			one.ID = ""
		case one.Suppressed:
			w.answer.Suppressed++
		}
		if len(w.answer.Sample) < w.sample {
			w.answer.Sample = append(w.answer.Sample, one)
		}
	}
	return next, nil
}
