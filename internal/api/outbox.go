package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/store"
)

type listOutbox struct {
	Type     string `query:"type" enum:"response.completed,delivery.sent,delivery.failed,delivery.unknown,delivery.expired,instance.completed,instance.held" doc:"Of this type."`
	Workflow string `query:"workflow" maxLength:"200" doc:"Of this workflow."`
	Delivery string `query:"delivery" maxLength:"100" doc:"About this delivery."`
	Instance string `query:"instance" maxLength:"2000" doc:"About this instance, or one of its deliveries: its id, or its key. One that does not exist is answered with not_found."`
	Sink     string `query:"sink" maxLength:"200" doc:"That go to this sink."`
	Status   string `query:"status" enum:"pending,dispatched,dead" doc:"In this state at that sink; without a sink, at one of theirs."`
	Period
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

type redriveEvent struct {
	ID   string `path:"id" maxLength:"100" doc:"Its id, as it was answered."`
	Body struct {
		Sink string `json:"sink,omitempty" maxLength:"200" doc:"Only at this sink; absent: at every sink at which it is dead."`
	}
}

func (a *API) outbox() {
	tags := []string{"outbox"}
	route(a, http.MethodGet, "/v1/outbox", ScopeRead, huma.Operation{
		OperationID: "list-outbox", Summary: "Outcomes that go to sinks, newest first", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listOutbox) (*body[client.Page[client.OutboxEvent]], error) {
		page, err := a.listOutbox(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return &body[client.Page[client.OutboxEvent]]{page}, nil
	})
	route(a, http.MethodGet, "/v1/outbox/{id}", ScopeRead, huma.Operation{
		OperationID: "get-outbox-event", Summary: "An outbox event with its body and its tries", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byID) (*body[client.OutboxDetail], error) {
		x := a.idsOf(c.Workspace)
		id, err := x.row(key.KindOutbox, in.ID)
		if err != nil {
			return nil, err
		}
		detail, err := a.outboxDetail(ctx, c, x, id)
		if err != nil {
			return nil, err
		}
		return &body[client.OutboxDetail]{detail}, nil
	})
	route(a, http.MethodPost, "/v1/outbox/{id}/redrive", ScopeOperate, huma.Operation{
		OperationID: "redrive-outbox-event", Summary: "Have an outbox event tried again where it is dead", Tags: tags,
	}, func(ctx context.Context, c Caller, in *redriveEvent) (*body[client.RedrivenEvent], error) {
		id, err := a.idsOf(c.Workspace).row(key.KindOutbox, in.ID)
		if err != nil {
			return nil, err
		}
		wire := func(at []string) client.RedrivenEvent { return client.RedrivenEvent{ID: in.ID, Sinks: at} }
		at, err := a.Engine.RedriveEvent(ctx, c.Workspace, c.Name, id, in.Body.Sink, once(a, c, wire))
		if err != nil {
			return nil, err
		}
		return &body[client.RedrivenEvent]{wire(at)}, nil
	})
}

func (a *API) listOutbox(ctx context.Context, c Caller, in *listOutbox) (none client.Page[client.OutboxEvent], err error) {
	x := a.idsOf(c.Workspace)
	none.Items = []client.OutboxEvent{}
	page, err := x.page(key.KindOutbox, in.Limit, in.Cursor)
	if err != nil {
		return none, err
	}
	filter := store.OutboxFilter{Type: in.Type, Workflow: in.Workflow, Sink: in.Sink, Status: outbox.Status(in.Status)}
	if filter.Made, err = in.read(a.Clock.Now()); err != nil {
		return none, err
	}
	var unknown error // what no id names has no event
	if in.Delivery != "" {
		filter.Delivery, unknown = x.deliveryID(in.Delivery)
	}
	if unknown != nil {
		return none, nil
	}
	if in.Instance != "" {
		if filter.Instance, err = a.namedInstance(ctx, c, in.Instance); err != nil {
			return none, err
		}
	}
	rows, err := a.Store.OutboxEvents(ctx, c.Workspace.ID, filter, page)
	if err != nil {
		return none, err
	}
	events := make([]int64, len(rows))
	for i, r := range rows {
		events[i] = r.ID
	}
	at, err := a.Store.Dispatches(ctx, c.Workspace.ID, events)
	if err != nil {
		return none, err
	}
	sinks, err := a.Store.SinkHealth(ctx, c.Workspace.ID)
	if err != nil {
		return none, err
	}
	wire := func(e outbox.Event) client.OutboxEvent { return x.wireOutbox(e, at[e.ID], sinks) }
	return pageOf(rows, in.Limit, wire, func(e outbox.Event) string { return x.encode(key.KindOutbox, e.ID) }), nil
}

func (a *API) outboxDetail(ctx context.Context, c Caller, x ids, id int64) (detail client.OutboxDetail, err error) {
	event, err := a.Store.OutboxEvent(ctx, c.Workspace.ID, id)
	if err != nil {
		return detail, fmt.Errorf("read the outbox event: %w", err)
	}
	at, err := a.Store.Dispatches(ctx, c.Workspace.ID, []int64{id})
	if err != nil {
		return detail, err
	}
	tries, err := a.Store.DispatchAttempts(ctx, c.Workspace.ID, id)
	if err != nil {
		return detail, err
	}
	sinks, err := a.Store.SinkHealth(ctx, c.Workspace.ID)
	if err != nil {
		return detail, err
	}
	detail = client.OutboxDetail{OutboxEvent: x.wireOutbox(event, at[id], sinks), Body: document(event.Body), AttemptLog: make([]client.OutboxAttempt, len(tries))}
	for i, t := range tries {
		detail.AttemptLog[i] = client.OutboxAttempt{
			Sink: t.Sink, Number: t.Number, BeganAt: t.BeganAt, EndedAt: t.EndedAt, Outcome: string(t.Outcome), Reason: string(t.Reason), Error: t.Error,
		}
	}
	return detail, nil
}

func (x ids) wireOutbox(e outbox.Event, at []outbox.Row, sinks map[string]outbox.Health) client.OutboxEvent {
	wire := client.OutboxEvent{
		ID: x.encode(key.KindOutbox, e.ID), Type: e.Type, MessageID: e.MessageID, Workflow: e.Workflow, Instance: x.instance(e.Instance),
		Delivery: x.delivery(e.Delivery), Sinks: make([]client.OutboxSink, len(at)), CreatedAt: e.CreatedAt,
	}
	states := make([]outbox.Status, len(at))
	for i, r := range at {
		states[i] = r.Status
		wire.Sinks[i] = client.OutboxSink{
			Sink: r.Sink, Status: string(r.Status), Attempts: r.Attempts, Reason: string(r.Reason), Message: sentence(r.Reason), EndedAt: r.EndedAt,
		}
		if r.Status == outbox.Pending {
			wire.Sinks[i].NextAt, wire.Sinks[i].State = sinks[r.Sink].NextTry(r.NextAt), string(sinks[r.Sink].State)
		}
	}
	wire.Status = string(outbox.Whole(states))
	return wire
}
