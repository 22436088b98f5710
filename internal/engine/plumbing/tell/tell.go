// Package tell writes the outbox events of deliveries and instances in the transactions that change them.
//
// Most workflows route nothing but answers, so that a transaction asks first whether a change is an outcome that is routed (outcome.Routed). Only then
// it reads what the event says.
package tell

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/outcome"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Tx is what is needed of a transaction.
type Tx interface {
	EventsByID(refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
	ContactsByID(refs []delivery.PersonRef) (map[delivery.PersonRef]subject.Contact, error)
	AddOutboxEvents(list []store.NewOutboxEvent) error
}

// Sets returns the definition set of a workspace whose routes count: the one in force.
type Sets func(ws subject.WorkspaceID) (*definition.Set, error)

// InForce returns the sets in force at the catalog's last Refresh. An error is a *catalog.Missing: the caller runs the transaction again with what
// is missing.
func InForce(c *catalog.Catalog) Sets {
	return func(ws subject.WorkspaceID) (*definition.Set, error) { return c.Loaded(ws, 0) }
}

// Change is a delivery before and after a transaction changed it.
type Change struct{ Was, Is delivery.Row }

// told is a routed outcome that is to be written.
type told struct {
	outcome  string
	delivery delivery.Row // of an instance: what it has in common with its deliveries
	instance *instance.Row
	workflow *definition.Workflow
	set      *definition.Set
}

// Deliveries writes the outcomes among changes at an instant.
func Deliveries(c *catalog.Catalog, sets Sets, tx Tx, at time.Time, changes []Change) error {
	var list []told
	for _, d := range changes {
		kind, ok := outcome.Of(d.Was, d.Is)
		if !ok {
			continue
		}
		t, routed, err := sets.routed(d.Is.Workspace, d.Is.Workflow, kind)
		if err != nil {
			return err
		}
		if t.delivery = d.Is; routed {
			list = append(list, t)
		}
	}
	return write(c, tx, at, list)
}

// InstanceChange is an instance before and after a transaction changed it; the zero row before one that it made.
type InstanceChange struct{ Was, Is instance.Row }

// Instances writes the outcomes among changes of instances at an instant.
func Instances(c *catalog.Catalog, sets Sets, tx Tx, at time.Time, changes []InstanceChange) error {
	var list []told
	for _, in := range changes {
		kind, ok := outcome.OfInstance(in.Was, in.Is)
		if !ok {
			continue
		}
		t, routed, err := sets.routed(in.Is.Workspace, in.Is.Workflow, kind)
		if err != nil {
			return err
		}
		t.delivery, t.instance = delivery.Row{Workspace: in.Is.Workspace, Event: in.Is.Event}, &in.Is
		if routed {
			list = append(list, t)
		}
	}
	return write(c, tx, at, list)
}

func (s Sets) routed(ws subject.WorkspaceID, workflow, kind string) (told, bool, error) {
	set, err := s(ws)
	if err != nil {
		return told{}, false, err
	}
	t := told{outcome: kind, set: set, workflow: set.Workflow(workflow)}
	return t, outcome.Routed(t.workflow, kind), nil
}

func write(c *catalog.Catalog, tx Tx, at time.Time, list []told) error {
	if len(list) == 0 {
		return nil
	}
	var refs []store.EventRef
	var persons []delivery.PersonRef
	for _, t := range list {
		if d := t.delivery; d.Event != 0 {
			refs = append(refs, store.EventRef{Workspace: d.Workspace, ID: d.Event})
		}
		if d := t.delivery; d.Contact != 0 {
			persons = append(persons, delivery.PersonRef{Workspace: d.Workspace, ID: d.Contact})
		}
	}
	events, err := tx.EventsByID(refs)
	if err != nil {
		return err
	}
	contacts, err := tx.ContactsByID(persons)
	if err != nil {
		return err
	}
	written := make([]store.NewOutboxEvent, 0, len(list))
	for _, t := range list {
		ws, err := c.Workspace(t.delivery.Workspace)
		if err != nil {
			return err
		}
		f := outcome.Facts{Workspace: ws.Name, IDs: ws.IDs, Reading: plan.Reading{
			Set: t.set, Workflow: t.workflow, Delivery: t.delivery, Now: at, Zones: &c.Zones,
			Contact: contacts[delivery.PersonRef{Workspace: t.delivery.Workspace, ID: t.delivery.Contact}],
			Event:   events[store.EventRef{Workspace: t.delivery.Workspace, ID: t.delivery.Event}].Event,
		}}
		event, sinks, err := t.write(f, at)
		if err != nil {
			return fmt.Errorf("write an outcome: %w", err)
		}
		if len(sinks) > 0 {
			written = append(written, store.NewOutboxEvent{Event: event, Sinks: sinks})
		}
	}
	return tx.AddOutboxEvents(written)
}

func (t told) write(f outcome.Facts, at time.Time) (outbox.Event, []string, error) {
	if t.instance != nil {
		return outcome.Instance(f, *t.instance, t.outcome, at)
	}
	return outcome.Delivery(f, t.outcome, at)
}
