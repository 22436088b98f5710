package tell_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/outcome"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const definitions = `
workspace: default
---
workflow: visit
type: survey
triggers: [{id: closed, event: visit}]
audience: [{to: event.recipient}]
channel: email
message: {survey: visit}
sinks:
  - {sink: bi, events: [delivery.sent, delivery.expired, instance.held, instance.completed]}
  - {sink: desk, events: [delivery.sent], when: event.urgent == true}
  - {sink: desk, events: [instance.held], when: event.urgent == true}
---
workflow: quiet
type: alert
triggers: [{id: closed, event: visit}]
audience: [{to: event.recipient}]
channel: email
message: {email: {subject: x, text: x}}
---
survey: visit
title: Your visit
invitation: {text: "{{ survey.link }}"}
questions: [{id: rate, type: rating, min: 1, max: 5, text: How?}]
---
channel: email
provider: memory
---
sink: bi
provider: workflow
---
sink: desk
provider: workflow
`

var at = time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC)

// tx is a transaction that knows one contact and two events, and notes what it is asked for.
type tx struct {
	events   []store.EventRef
	contacts []delivery.PersonRef
	written  []store.NewOutboxEvent
	calls    int
	fail     error // of reading events
}

func (x *tx) EventsByID(refs []store.EventRef) (map[store.EventRef]store.EventRow, error) {
	x.calls++
	x.events = append(x.events, refs...)
	found := map[store.EventRef]store.EventRow{}
	for _, ref := range refs {
		found[ref] = store.EventRow{Event: subject.Event{ExtID: "visit-7", Kind: "visit", Payload: map[string]any{"urgent": ref.ID == 2}}}
	}
	return found, x.fail
}

func (x *tx) ContactsByID(refs []delivery.PersonRef) (map[delivery.PersonRef]subject.Contact, error) {
	x.calls++
	x.contacts = append(x.contacts, refs...)
	found := map[delivery.PersonRef]subject.Contact{}
	for _, ref := range refs {
		found[ref] = subject.Contact{ID: ref.ID, ExtID: "ada"}
	}
	return found, nil
}

func (x *tx) AddOutboxEvents(list []store.NewOutboxEvent) error {
	x.calls++
	x.written = append(x.written, list...)
	return nil
}

// went lists the types that were written, with their sinks.
func (x *tx) went() (list []string) {
	for _, w := range x.written {
		text := w.Event.Type
		for _, s := range w.Sinks {
			text += " " + s
		}
		list = append(list, text)
	}
	return list
}

// row is a delivery of a workflow in a status; sent says when its last message was accepted.
func row(workflow string, event subject.EventID, status delivery.Status, sent time.Time) delivery.Row {
	return delivery.Row{
		Workspace: catalogtest.Workspace, ID: 5, Instance: 4, Workflow: workflow, Trigger: "closed", Event: event, Contact: 3, Channel: "email:default",
		CustomerRef: "ada", Address: "ada@example.org", Status: status, LastSentAt: sent,
	}
}

// Of the changes of deliveries those are written that are outcomes which the workflow in force routes, to the sinks whose conditions hold.
//
// Shows: C36, C39.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	var never time.Time
	change := func(workflow string, event subject.EventID, from, to delivery.Status, sent time.Time) tell.Change {
		return tell.Change{Was: row(workflow, event, from, never), Is: row(workflow, event, to, sent)}
	}
	tests := []struct {
		name    string
		changes []tell.Change
		want    []string
		read    int // events, and contacts
	}{
		{"nothing", nil, nil, 0},
		{"no outcome", []tell.Change{change("visit", 1, delivery.Sent, delivery.Opened, never)}, nil, 0},
		{"an outcome that is not routed", []tell.Change{change("visit", 1, delivery.Scheduled, delivery.Failed, never)}, nil, 0},
		{"a workflow without routes", []tell.Change{change("quiet", 1, delivery.Scheduled, delivery.Sent, at)}, nil, 0},
		{"a workflow that is gone", []tell.Change{change("gone", 1, delivery.Scheduled, delivery.Sent, at)}, nil, 0},
		{"one sink", []tell.Change{change("visit", 1, delivery.Scheduled, delivery.Sent, at)}, []string{"delivery.sent bi"}, 1},
		{"a condition that holds", []tell.Change{change("visit", 2, delivery.Scheduled, delivery.Sent, at)}, []string{"delivery.sent bi desk"}, 1},
		{"several at once", []tell.Change{
			change("visit", 1, delivery.Scheduled, delivery.Sent, at), change("quiet", 1, delivery.Scheduled, delivery.Sent, at),
			change("visit", 2, delivery.Sent, delivery.Expired, never),
		}, []string{"delivery.sent bi", "delivery.expired bi"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, x := catalogtest.Of(t, definitions), &tx{}
			if err := tell.Deliveries(c, tell.InForce(c), x, at, tt.changes); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, x.went()); diff != "" {
				t.Error(diff)
			}
			if tt.read == 0 && x.calls != 0 {
				t.Errorf("the transaction was asked %d times for nothing", x.calls)
			}
			if len(x.events) != tt.read || len(x.contacts) != tt.read {
				t.Errorf("%d events and %d contacts were read, want %d", len(x.events), len(x.contacts), tt.read)
			}
		})
	}
}

// The event says what happened, to whom, and why the message was sent.
func TestWhatADeliverySays(t *testing.T) {
	t.Parallel()
	c, x := catalogtest.Of(t, definitions), &tx{}
	changes := []tell.Change{{Was: row("visit", 1, delivery.Scheduled, time.Time{}), Is: row("visit", 1, delivery.Sent, at)}}
	if err := tell.Deliveries(c, tell.InForce(c), x, at, changes); err != nil || len(x.written) != 1 {
		t.Fatalf("%d events, %v", len(x.written), err)
	}
	e := x.written[0].Event
	var body outcome.CloudEvent
	if err := json.Unmarshal([]byte(e.Body), &body); err != nil {
		t.Fatal(err)
	}
	ws, err := c.Workspace(catalogtest.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	if e.Workspace != ws.ID || e.Delivery != 5 || e.Instance != 4 || e.Workflow != "visit" || !e.CreatedAt.Equal(at) || e.MessageID != body.ID {
		t.Errorf("the row is %+v", e)
	}
	d := body.Data
	if body.Subject != d.Delivery || d.CustomerRef != "ada" || d.Address != "ada@example.org" || d.Status != "sent" || d.Event == nil || d.Event.ID != "visit-7" ||
		d.Event.Payload["urgent"] != false || body.Source != "/workspaces/default/workflows/visit" || !body.Time.Equal(at) {
		t.Errorf("the body is %s", e.Body)
	}
}

// Outcomes of instances are about no delivery and no contact.
func TestInstances(t *testing.T) {
	t.Parallel()
	in := func(workflow string, event subject.EventID, status instance.Status, hold instance.Hold) instance.Row {
		return instance.Row{Workspace: catalogtest.Workspace, ID: 4, Workflow: workflow, Trigger: "closed", Event: event, Status: status, Hold: hold}
	}
	c, x := catalogtest.Of(t, definitions), &tx{}
	if err := tell.Instances(c, tell.InForce(c), x, at, []tell.InstanceChange{
		{Is: in("visit", 1, instance.Pending, "")},
		{Was: in("visit", 2, instance.Pending, ""), Is: in("visit", 2, instance.Pending, instance.HoldConflict)},
		{Is: in("visit", 2, instance.Completed, "")},
		{Is: in("quiet", 2, instance.Completed, "")},
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"instance.held bi desk", "instance.completed bi"}, x.went()); diff != "" {
		t.Error(diff)
	}
	if len(x.contacts) != 0 || len(x.events) != 2 {
		t.Errorf("read were the contacts %v and the events %v", x.contacts, x.events)
	}
	for _, w := range x.written {
		if w.Event.Delivery != 0 || w.Event.Instance != 4 {
			t.Errorf("the row is %+v", w.Event)
		}
	}
}

// The routes are those in force, even if the delivery was planned by an older set. Without them nothing is written: the transaction is run again.
func TestRoutesInForce(t *testing.T) {
	t.Parallel()
	sent := []tell.Change{{Was: row("visit", 1, delivery.Scheduled, time.Time{}), Is: row("visit", 1, delivery.Sent, at)}}
	const none = "workspace: default\n---\nworkflow: visit\ntype: alert\ntriggers: [{id: closed, event: visit}]\naudience: [{to: event.recipient}]\n" +
		"channel: email\nmessage: {email: {subject: x, text: x}}\n---\nchannel: email\nprovider: memory\n"
	for name, tt := range map[string]struct {
		sets []string
		want []string
	}{
		"routes were added":   {[]string{none, definitions}, []string{"delivery.sent bi"}},
		"routes were removed": {[]string{definitions, none}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, x := catalogtest.Of(t, tt.sets...), &tx{}
			if err := tell.Deliveries(c, tell.InForce(c), x, at, sent); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, x.went()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("the set is not loaded", func(t *testing.T) {
		t.Parallel()
		c, x := catalogtest.Of(t, definitions), &tx{}
		missing := func(subject.WorkspaceID) (*definition.Set, error) {
			return nil, &catalog.Missing{Workspace: 1, Number: 2}
		}
		var want *catalog.Missing
		if err := tell.Deliveries(c, missing, x, at, sent); !errors.As(err, &want) || len(x.written) != 0 {
			t.Errorf("%v, written %v", err, x.went())
		}
	})
	t.Run("the event cannot be read", func(t *testing.T) {
		t.Parallel()
		c, x := catalogtest.Of(t, definitions), &tx{fail: errors.New("the database is away")}
		if err := tell.Deliveries(c, tell.InForce(c), x, at, sent); !errors.Is(err, x.fail) || len(x.written) != 0 {
			t.Errorf("%v, written %v", err, x.went())
		}
	})
}
