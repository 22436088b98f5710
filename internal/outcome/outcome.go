// Package outcome writes outcomes as outbox events (C36), and says which sinks they go to (C39).
//
// An outcome is a fact about a delivery or an instance, such as that a survey was answered. A workflow's routes say which of its outcomes go to
// which sink; a sink narrows that for all workflows. Both are those of the definitions in force when it happens, as channels are.
//
// The body is a CloudEvent 1.0 in JSON that needs no second request: what happened, to whom, and the event that caused the message.
//
// The functions are pure: the caller reads the facts, and writes the events in the transaction in which it happened (C34).
package outcome

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// MaxChain is how many workflows may follow one from another by the provider workflow.
const MaxChain = 8

// CloudEvent is the body of an outbox event: a CloudEvent 1.0 in structured mode.
type CloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"` // /workspaces/NAME/workflows/NAME
	Type            string    `json:"type"`
	Subject         string    `json:"subject"` // the public id of the delivery or instance
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            Data      `json:"data"`
}

// Data is what an outcome says.
type Data struct {
	Workflow    string         `json:"workflow"`
	ExtID       string         `json:"ext_id"` // of the workflow, in another system
	Trigger     string         `json:"trigger"`
	Instance    string         `json:"instance"`           // public id
	Delivery    string         `json:"delivery,omitempty"` // public id
	CustomerRef string         `json:"customer_ref,omitempty"`
	Address     string         `json:"address,omitempty"`
	Locale      string         `json:"locale,omitempty"`
	Channel     string         `json:"channel,omitempty"`
	Status      string         `json:"status"`
	Reason      reason.Reason  `json:"reason,omitempty"`
	Step        *int           `json:"step,omitempty"` // of the message: 0 the first one, 1 the first reminder
	Survey      string         `json:"survey,omitempty"`
	Definitions int64          `json:"definitions,omitempty"` // the number of the set whose questions were answered
	Answers     map[string]any `json:"answers,omitempty"`     // by question
	AgentID     string         `json:"agent_id,omitempty"`    // who answered on the person's behalf
	CompletedAt time.Time      `json:"completed_at,omitzero"` // when the survey was answered
	Event       *Cause         `json:"event,omitempty"`
	Record      map[string]any `json:"record,omitempty"`
	Chain       int            `json:"chain,omitempty"` // how many outcomes led to this one
}

// Cause is the event that caused a message.
type Cause struct {
	ID         string         `json:"id,omitempty"`
	Kind       string         `json:"kind"`
	OccurredAt time.Time      `json:"occurred_at"`
	Payload    map[string]any `json:"payload,omitempty"`
}

// Facts are what an outcome is written from. Reading is of the workflow in force; of an instance it has no delivery and no contact.
type Facts struct {
	plan.Reading
	Workspace string // name
	IDs       key.PublicIDs
}

// Of returns the type of the outcome that a change of a delivery is; ok is false if it is none. Sent is each message that its provider
// has accepted, also a reminder.
func Of(was, is delivery.Row) (outcome string, ok bool) {
	switch {
	case is.LastSentAt.After(was.LastSentAt):
		return definition.OutcomeDeliverySent, true
	case was.Status == is.Status:
		return "", false
	}
	switch is.Status {
	case delivery.Sent:
		return definition.OutcomeDeliverySent, true
	case delivery.Failed:
		return definition.OutcomeDeliveryFailed, true
	case delivery.Unknown:
		return definition.OutcomeDeliveryUnknown, true
	case delivery.Expired:
		return definition.OutcomeDeliveryExpired, true
	case delivery.Scheduled, delivery.Opened, delivery.Responded, delivery.Skipped, delivery.Superseded, delivery.Cancelled:
	}
	return "", false
}

// OfInstance returns the type of the outcome that a change of an instance is; ok is false if it is none.
func OfInstance(was, is instance.Row) (outcome string, ok bool) {
	switch {
	case is.Status == instance.Completed && was.Status != instance.Completed:
		return definition.OutcomeInstanceCompleted, true
	case is.Held() && !is.Parked() && (!was.Held() || was.Parked()):
		return definition.OutcomeInstanceHeld, true
	}
	return "", false
}

// Routed reports whether a workflow routes outcomes of that type anywhere. If not, nothing needs to be read or written for them.
func Routed(w *definition.Workflow, outcome string) bool {
	return w != nil && slices.ContainsFunc(w.Sinks, func(r definition.SinkRef) bool { return slices.Contains(r.Events, outcome) })
}

// Sinks returns the names of the sinks that an outcome goes to, each once. A route to a sink that is not defined leads nowhere.
func Sinks(set *definition.Set, w *definition.Workflow, outcome string, in expr.Input) []string {
	var names []string
	for _, r := range w.Sinks {
		sink := set.Sink(r.Sink)
		if sink == nil || slices.Contains(names, r.Sink) || !slices.Contains(r.Events, outcome) || !sink.Takes(outcome) {
			continue
		}
		if holds(r.When, in) && holds(sink.When, in) {
			names = append(names, r.Sink)
		}
	}
	return names
}

func holds(c *expr.Condition, in expr.Input) bool { return c == nil || c.Holds(in) }

// Response writes that a survey was answered. Its message id is the delivery's public id (C37).
func Response(f Facts, r delivery.Response) (outbox.Event, []string, error) {
	in := f.Input()
	in.Answers = r.Answers
	d := f.data(string(f.Delivery.Status), f.Delivery.Reason)
	d.Survey, d.Definitions, d.Answers, d.AgentID, d.CompletedAt = r.Survey, r.Definitions, r.Answers, r.AgentID, r.CreatedAt.UTC()
	return f.event(definition.OutcomeResponseCompleted, d.Delivery, d, r.CreatedAt, in)
}

// Delivery writes an outcome of a delivery, whose row after it is f.Delivery. Its message id is the public id with type and step.
func Delivery(f Facts, outcome string, at time.Time) (outbox.Event, []string, error) {
	step := f.Delivery.Step
	if outcome == definition.OutcomeDeliverySent && step > 0 {
		step-- // Step counts the messages that are over
	}
	d := f.data(string(f.Delivery.Status), f.Delivery.Reason)
	d.Step = &step
	return f.event(outcome, messageID(d.Delivery, outcome, step), d, at, f.Input())
}

// Instance writes an outcome of an instance. An instance may be held several times; the message id has the number of its tries.
func Instance(f Facts, row instance.Row, outcome string, at time.Time) (outbox.Event, []string, error) {
	f.Reading.Delivery = delivery.Row{Workspace: row.Workspace, Instance: row.ID, Workflow: row.Workflow, Trigger: row.Trigger, Event: row.Event}
	d := f.data(string(row.Status), row.Reason)
	return f.event(outcome, messageID(d.Instance, outcome, row.Attempts), d, at, f.Input())
}

// messageID has neither a full stop nor a blank: a webhook's signature is over "id.timestamp.body".
func messageID(id, outcome string, n int) string {
	return id + "-" + strings.ReplaceAll(outcome, ".", "_") + "-" + strconv.Itoa(n)
}

func (f Facts) event(outcome, id string, d Data, at time.Time, in expr.Input) (outbox.Event, []string, error) {
	row := f.Delivery
	body, err := json.Marshal(CloudEvent{
		SpecVersion: "1.0", ID: id, Source: "/workspaces/" + f.Workspace + "/workflows/" + row.Workflow, Type: outcome, Subject: subjectOf(d),
		Time: at.UTC(), DataContentType: "application/json", Data: d,
	})
	if err != nil {
		return outbox.Event{}, nil, fmt.Errorf("write %s of %s: %w", outcome, subjectOf(d), err)
	}
	return outbox.Event{
		Workspace: row.Workspace, Type: outcome, MessageID: id, Workflow: row.Workflow, Delivery: row.ID, Instance: row.Instance,
		Body: string(body), CreatedAt: at,
	}, Sinks(f.Set, f.Workflow, outcome, in), nil
}

func subjectOf(d Data) string {
	if d.Delivery != "" {
		return d.Delivery
	}
	return d.Instance
}

func (f Facts) data(status string, why reason.Reason) Data {
	row := f.Delivery
	d := Data{
		Workflow: row.Workflow, ExtID: f.Workflow.ExtID, Trigger: row.Trigger, CustomerRef: row.CustomerRef, Address: row.Address,
		Locale: row.Locale, Channel: row.Channel, Status: status, Reason: why,
		Instance: f.IDs.Encode(key.KindInstance, int64(row.Workspace), int64(row.Instance)),
	}
	if row.ID != 0 {
		d.Delivery = f.IDs.Encode(key.KindDelivery, int64(row.Workspace), int64(row.ID))
	}
	if row.Event == 0 {
		return d
	}
	if record, _, _, ok := plan.AlertFields(f.Event); ok {
		d.Record = plan.Texts(record)
	} else if !subject.OwnEvent(f.Event.Kind) {
		d.Event = &Cause{ID: f.Event.ExtID, Kind: f.Event.Kind, OccurredAt: f.Event.OccurredAt.UTC(), Payload: f.Event.Payload}
		d.Chain = Chain(f.Event)
	}
	return d
}

// Chain returns how many outcomes led to an event: 0 unless the provider workflow made it.
func Chain(ev subject.Event) int {
	if !slices.Contains(definition.Outcomes(), ev.Kind) {
		return 0
	}
	n, ok := ev.Payload["chain"].(json.Number)
	if !ok {
		return 0
	}
	links, err := n.Int64()
	if err != nil || links < 0 || links > MaxChain {
		return MaxChain // no number that this package wrote
	}
	return int(links)
}
