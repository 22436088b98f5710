package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// Period are the parameters of a list that is narrowed to a time.
type Period struct {
	Since string `query:"since" maxLength:"40" doc:"Made at this instant or later: RFC 3339, or how long ago, such as 1d or 6h."`
	Until string `query:"until" maxLength:"40" doc:"Made before this instant, written the same way."`
}

func (s Period) read(now time.Time) (store.Span, error) {
	var made store.Span
	for _, end := range []struct {
		name, text string
		into       *time.Time
	}{{"since", s.Since, &made.Since}, {"until", s.Until, &made.Until}} {
		at, err := civil.ParseMoment(end.text, now, time.UTC)
		if refused := (*civil.Error)(nil); errors.As(err, &refused) {
			return made, invalid("query."+end.name, "it is neither an instant nor a duration", refused.Hint)
		}
		*end.into = at
	}
	return made, nil
}

type listEvents struct {
	Kind string `query:"kind" maxLength:"200" doc:"Of this kind."`
	To   string `query:"to" maxLength:"256" doc:"That name this person: any of their addresses, your id of them, or their whole name. The newest 200,000 events are read."`
	Period
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

type listDecisions struct {
	Workflow string `query:"workflow" maxLength:"200" doc:"Of this workflow."`
	Reason   string `query:"reason" maxLength:"100" doc:"With this reason; see GET /v1/reasons."`
	Event    string `query:"event" maxLength:"100" doc:"Of this event."`
	Period
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

// journal has the lists of what came in, and of what left no instance behind.
func (a *API) journal() {
	route(a, http.MethodGet, "/v1/events", ScopeRead, huma.Operation{
		OperationID: "list-events", Summary: "Events that were taken in, newest first, without their payloads", Tags: []string{"events"},
	}, func(ctx context.Context, c Caller, in *listEvents) (*body[client.Page[client.ListedEvent]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindEvent, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		made, err := in.read(a.Clock.Now())
		if err != nil {
			return nil, err
		}
		rows, err := a.Store.Events(ctx, c.Workspace.ID, store.EventFilter{Kind: in.Kind, To: x.whom(in.To), Made: made}, page)
		if err != nil {
			return nil, fmt.Errorf("a page of the list: %w", err)
		}
		return &body[client.Page[client.ListedEvent]]{pageOf(rows, in.Limit, x.listedEvent, func(r store.EventRow) string { return x.event(r.ID) })}, nil
	})
	route(a, http.MethodGet, "/v1/decisions", ScopeRead, huma.Operation{
		OperationID: "list-decisions", Summary: "Occasions that made no instance, and why, newest first", Tags: []string{"events"},
	}, func(ctx context.Context, c Caller, in *listDecisions) (*body[client.Page[client.Decision]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindDecision, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		made, err := in.read(a.Clock.Now())
		if err != nil {
			return nil, err
		}
		filter := store.DecisionFilter{Workflow: in.Workflow, Reason: reason.Reason(in.Reason), Made: made}
		if in.Event != "" {
			if filter.Event, err = x.eventID(in.Event); err != nil {
				return &body[client.Page[client.Decision]]{client.Page[client.Decision]{Items: []client.Decision{}}}, nil
			}
		}
		rows, err := a.Store.Decisions(ctx, c.Workspace.ID, filter, page)
		if err != nil {
			return nil, fmt.Errorf("a page of the list: %w", err)
		}
		return &body[client.Page[client.Decision]]{pageOf(rows, in.Limit, x.wireDecision, func(d store.Decision) string { return x.encode(key.KindDecision, d.ID) })}, nil
	})
}

func (x ids) listedEvent(row store.EventRow) client.ListedEvent {
	e := x.eventDetail(row)
	return client.ListedEvent{
		ID: e.ID, ExtID: e.ExtID, Kind: e.Kind, OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt, Recipient: e.Recipient, Trace: e.Trace,
	}
}

func (x ids) wireDecision(d store.Decision) client.Decision {
	return client.Decision{
		ID: x.encode(key.KindDecision, d.ID), At: d.At, Workflow: d.Workflow, WorkflowVersion: d.WorkflowVersion, Trigger: d.Trigger,
		Reason: string(d.Reason), Message: sentence(d.Reason), Event: x.event(d.Event), Instance: x.instance(d.Instance), Context: d.Context,
	}
}
