package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"time"
)

// ListedEvent is an event of a list, without its payload.
type ListedEvent struct {
	ID         string          `json:"id" doc:"The id of the event."`
	ExtID      string          `json:"ext_id,omitempty" doc:"The caller's id."`
	Kind       string          `json:"kind" doc:"What happened."`
	OccurredAt time.Time       `json:"occurred_at" doc:"When it happened."`
	ReceivedAt time.Time       `json:"received_at" doc:"When it was taken in."`
	Recipient  *Recipient      `json:"recipient,omitempty" doc:"The person whom the event is about."`
	Trace      json.RawMessage `json:"trace,omitempty" doc:"What each trigger made of it."`
}

// Decision is why an occasion made no instance: it was known, throttled, or nothing could be decided.
type Decision struct {
	ID              string    `json:"id" doc:"The id of the decision."`
	At              time.Time `json:"at" doc:"When it was decided."`
	Workflow        string    `json:"workflow,omitempty" doc:"The name of the workflow."`
	WorkflowVersion int64     `json:"workflow_version,omitempty" doc:"The version of the workflow that decided."`
	Trigger         string    `json:"trigger,omitempty" doc:"The id of the trigger."`
	Reason          string    `json:"reason" doc:"Why no instance was made; see GET /v1/reasons."`
	Message         string    `json:"message" doc:"The reason in words."`
	Event           string    `json:"event,omitempty" doc:"The event's id."`
	Instance        string    `json:"instance,omitempty" doc:"The instance that there was already."`
	Context         string    `json:"context,omitempty" doc:"The context of a throttle."`
}

// EventQuery narrows a list of events; zero fields do not.
type EventQuery struct {
	Kind   string
	To     string // the person whom the event names: any address, your id, or the whole name
	Since  string // received at this instant or later: RFC 3339, or how long ago, such as 1d
	Until  string // received before this instant
	Limit  int
	Cursor string
}

func (q EventQuery) values() url.Values {
	v := values{}
	v.set("kind", q.Kind)
	v.set("to", q.To)
	v.set("since", q.Since)
	v.set("until", q.Until)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// DecisionQuery narrows a list of decisions; zero fields do not.
type DecisionQuery struct {
	Workflow string
	Reason   string
	Event    string // id
	Since    string // made at this instant or later: RFC 3339, or how long ago, such as 1d
	Until    string // made before this instant
	Limit    int
	Cursor   string
}

func (q DecisionQuery) values() url.Values {
	v := values{}
	v.set("workflow", q.Workflow)
	v.set("reason", q.Reason)
	v.set("event", q.Event)
	v.set("since", q.Since)
	v.set("until", q.Until)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// Events gives a page of events, newest first.
func (c *Client) Events(ctx context.Context, q EventQuery) (Page[ListedEvent], error) {
	return get[Page[ListedEvent]](ctx, c, "/v1/events", q.values())
}

// AllEvents goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllEvents(ctx context.Context, q EventQuery) iter.Seq2[ListedEvent, error] {
	return pages(func(cursor string) (Page[ListedEvent], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.Events(ctx, q)
	})
}

// Decisions gives a page of decisions, newest first.
func (c *Client) Decisions(ctx context.Context, q DecisionQuery) (Page[Decision], error) {
	return get[Page[Decision]](ctx, c, "/v1/decisions", q.values())
}

// AllDecisions goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllDecisions(ctx context.Context, q DecisionQuery) iter.Seq2[Decision, error] {
	return pages(func(cursor string) (Page[Decision], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.Decisions(ctx, q)
	})
}
