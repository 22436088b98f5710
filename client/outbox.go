package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// OutboxEvent is an outcome that goes to sinks.
type OutboxEvent struct {
	ID        string       `json:"id" doc:"The id of the outbox event."`
	Type      string       `json:"type" doc:"What it tells, such as response.completed."`
	MessageID string       `json:"message_id" doc:"The id that sinks get. A receiver drops a second message with the same one."`
	Workflow  string       `json:"workflow" doc:"The name of the workflow."`
	Instance  string       `json:"instance" doc:"The id of the instance that it is about."`
	Delivery  string       `json:"delivery,omitempty" doc:"The id of the delivery that it is about; absent: it is about the instance."`
	Status    string       `json:"status" enum:"pending,dispatched,dead" doc:"pending: a sink has not got it yet. dead: no sink waits for it, and one has not got it. dispatched: every sink has accepted it."`
	Sinks     []OutboxSink `json:"sinks" doc:"What became of it at each sink, ordered by name."`
	CreatedAt time.Time    `json:"created_at" doc:"When it happened."`
}

// OutboxSink is what became of an outbox event at one sink.
type OutboxSink struct {
	Sink     string    `json:"sink" doc:"The name of the sink."`
	Status   string    `json:"status" enum:"pending,dispatched,dead" doc:"pending: it waits for its first or its next try. dispatched: the sink has accepted it. dead: no try follows until it is redriven."`
	Attempts int       `json:"attempts" doc:"Tries that have begun since it was made or last redriven."`
	State    string    `json:"sink_state,omitempty" enum:"active,paused,disabled" doc:"How the sink is; present while the event is pending there. It waits until a sink that is paused or disabled is enabled."`
	NextAt   time.Time `json:"next_at,omitzero" doc:"No try begins before: it waits after a failed one, for an earlier event about the same, or while the sink rests because it fails. Absent where it is not pending, and where the sink is paused or disabled."`
	Reason   string    `json:"reason,omitempty" doc:"Of the last try, or why none follows; see GET /v1/reasons."`
	Message  string    `json:"message,omitempty" doc:"The reason in words."`
	EndedAt  time.Time `json:"ended_at,omitzero" doc:"When it was dispatched or given up."`
}

// OutboxDetail is an outbox event with its body and its tries.
type OutboxDetail struct {
	OutboxEvent
	Body       json.RawMessage `json:"body" doc:"What sinks get: a CloudEvent."`
	AttemptLog []OutboxAttempt `json:"attempt_log" doc:"Every try that has ended, the oldest first."`
}

// OutboxAttempt is one try of an outbox event at one sink.
type OutboxAttempt struct {
	Sink    string    `json:"sink" doc:"The name of the sink."`
	Number  int       `json:"number" doc:"From 1, also over what was redriven."`
	BeganAt time.Time `json:"began_at" doc:"When the request left."`
	EndedAt time.Time `json:"ended_at" doc:"When the outcome was known."`
	Outcome string    `json:"outcome" enum:"accepted,temporary,permanent,gone" doc:"accepted: the sink has it. temporary: it may be tried again. permanent: the sink refuses this event. gone: the sink wants no event any more."`
	Reason  string    `json:"reason,omitempty" doc:"Why; see GET /v1/reasons."`
	Error   string    `json:"error,omitempty" doc:"What the sink said."`
}

// RedrivenEvent says where an outbox event is tried again.
type RedrivenEvent struct {
	ID    string   `json:"id" doc:"The id of the outbox event."`
	Sinks []string `json:"sinks" doc:"The sinks at which it was dead, and is pending now."`
}

// OutboxQuery narrows a list of outbox events.
type OutboxQuery struct {
	Type     string
	Workflow string
	Delivery string
	Instance string
	Sink     string
	Status   string // at that sink; without a sink, at one of its sinks
	Since    string // an instant, or how long ago, such as 7d
	Until    string
	Limit    int
	Cursor   string
}

func (q OutboxQuery) values() url.Values {
	v := values{}
	v.set("type", q.Type)
	v.set("workflow", q.Workflow)
	v.set("delivery", q.Delivery)
	v.set("instance", q.Instance)
	v.set("sink", q.Sink)
	v.set("status", q.Status)
	v.set("since", q.Since)
	v.set("until", q.Until)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// OutboxEvents gives a page of outbox events, the newest first.
func (c *Client) OutboxEvents(ctx context.Context, q OutboxQuery) (Page[OutboxEvent], error) {
	return get[Page[OutboxEvent]](ctx, c, "/v1/outbox", q.values())
}

// AllOutboxEvents goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllOutboxEvents(ctx context.Context, q OutboxQuery) iter.Seq2[OutboxEvent, error] {
	return pages(func(cursor string) (Page[OutboxEvent], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.OutboxEvents(ctx, q)
	})
}

// OutboxEvent gives an outbox event with its body and its tries.
func (c *Client) OutboxEvent(ctx context.Context, id string) (OutboxDetail, error) {
	return get[OutboxDetail](ctx, c, "/v1/outbox/"+url.PathEscape(id), nil)
}

// RedriveEvent has an outbox event tried again, with all its tries, at every sink at which it is dead; with a sink, at that one alone. The
// error is a *Problem of code CodeNotPossible if it is dead at none.
func (c *Client) RedriveEvent(ctx context.Context, id, sink string) (RedrivenEvent, error) {
	in := map[string]any{}
	if sink != "" {
		in["sink"] = sink
	}
	var answer RedrivenEvent
	err := c.call(ctx, http.MethodPost, "/v1/outbox/"+url.PathEscape(id)+"/redrive", in, &answer)
	return answer, err
}
