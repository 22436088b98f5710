package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/trace"
)

type listDeliveries struct {
	Workflow string `query:"workflow" maxLength:"200" doc:"Of this workflow."`
	Status   string `query:"status" enum:"scheduled,sent,opened,responded,expired,skipped,failed,superseded,cancelled,unknown" doc:"In this state."`
	Channel  string `query:"channel" maxLength:"200" doc:"Of this channel, as kind:name."`
	Reason   string `query:"reason" maxLength:"100" doc:"With this reason; see GET /v1/reasons."`
	To       string `query:"to" maxLength:"256" doc:"To this person: any of their addresses, your id of them, or their whole name."`
	Instance string `query:"instance" maxLength:"2000" doc:"Of this instance: its id, or its key. One that does not exist is answered with not_found."`
	Period
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

func (a *API) deliveries() {
	tags := []string{"deliveries"}
	route(a, http.MethodGet, "/v1/deliveries", ScopeRead, huma.Operation{
		OperationID: "list-deliveries", Summary: "Deliveries, newest first", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listDeliveries) (*body[client.Page[client.Delivery]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindDelivery, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		filter := store.DeliveryFilter{
			Workflow: in.Workflow, Status: delivery.Status(in.Status), Channel: in.Channel, Reason: reason.Reason(in.Reason), To: x.whom(in.To),
		}
		if filter.Made, err = in.read(a.Clock.Now()); err != nil {
			return nil, err
		}
		if in.Instance != "" {
			if filter.Instance, err = a.namedInstance(ctx, c, in.Instance); err != nil {
				return nil, err
			}
		}
		rows, err := a.Store.Deliveries(ctx, c.Workspace.ID, filter, page)
		if err != nil {
			return nil, err
		}
		circumstances, err := a.Engine.Circumstances(ctx, c.Workspace.ID)
		if err != nil {
			return nil, err
		}
		wire := func(r delivery.Row) client.Delivery { return a.wireStanding(x, r, circumstances(r)) }
		return &body[client.Page[client.Delivery]]{pageOf(rows, in.Limit, wire, func(r delivery.Row) string { return x.delivery(r.ID) })}, nil
	})
	route(a, http.MethodGet, "/v1/deliveries/{id}", ScopeRead, huma.Operation{
		OperationID: "get-delivery", Summary: "A delivery with its attempts and its content", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byID) (*body[client.DeliveryDetail], error) {
		x := a.idsOf(c.Workspace)
		id, err := x.deliveryID(in.ID)
		if err != nil {
			return nil, err
		}
		detail, err := a.deliveryDetail(ctx, c, x, id)
		if err != nil {
			return nil, err
		}
		return &body[client.DeliveryDetail]{detail}, nil
	})
	act := func(verb Verb, summary string) {
		route(a, http.MethodPost, "/v1/deliveries/{id}/"+string(verb), ScopeOperate, huma.Operation{
			OperationID: string(verb) + "-delivery", Summary: summary, Tags: tags,
		}, func(ctx context.Context, c Caller, in *byID) (*body[client.Operated], error) {
			id, err := a.idsOf(c.Workspace).deliveryID(in.ID)
			if err != nil {
				return nil, err
			}
			return a.operate(ctx, c, Action{Verb: verb, Delivery: id})
		})
	}
	act(Cancel, "Stop a delivery")
	act(Retry, "Try a delivery again; one that has ended is sent as a new occasion")
}

func (a *API) deliveryDetail(ctx context.Context, c Caller, x ids, id delivery.ID) (client.DeliveryDetail, error) {
	row, err := a.Store.DeliveryByID(ctx, c.Workspace.ID, id)
	if err != nil {
		return client.DeliveryDetail{}, fmt.Errorf("read the delivery: %w", err)
	}
	attempts, err := a.Store.Attempts(ctx, c.Workspace.ID, id)
	if err != nil {
		return client.DeliveryDetail{}, fmt.Errorf("list its attempts: %w", err)
	}
	contents, err := a.Store.Contents(ctx, c.Workspace.ID, id, store.Page{Limit: maxDeliveries})
	if err != nil {
		return client.DeliveryDetail{}, fmt.Errorf("list its contents: %w", err)
	}
	circumstances, err := a.Engine.Circumstances(ctx, c.Workspace.ID)
	if err != nil {
		return client.DeliveryDetail{}, err
	}
	around := circumstances(row)
	detail := client.DeliveryDetail{Delivery: a.wireStanding(x, row, around), Says: trace.Explain(row), Trace: document(row.Trace), AttemptLog: make([]client.Attempt, len(attempts))}
	if err := a.folded(ctx, c, x, row, &detail); err != nil {
		return detail, err
	}
	if ahead, planned := admission.Ahead(row, around); planned {
		detail.Outlook = &client.Outlook{Reason: string(ahead.Reason), Message: sentence(ahead.Reason), At: ahead.At, Away: ahead.Away}
	}
	for i, t := range attempts {
		detail.AttemptLog[i] = client.Attempt{
			Number: t.Number, Step: t.Step, Channel: t.Channel, IdempotencyKey: t.IdempotencyKey, IntentAt: t.IntentAt,
			SettledAt: t.SettledAt, Outcome: string(t.Outcome), Reason: string(t.Reason), ProviderID: t.ProviderID, Error: t.Error,
		}
	}
	receipts, err := a.Store.Receipts(ctx, c.Workspace.ID, row.ID)
	if err != nil {
		return client.DeliveryDetail{}, fmt.Errorf("what was reported of a delivery: %w", err)
	}
	for _, t := range receipts {
		detail.Receipts = append(detail.Receipts, client.Receipt{At: t.At, Status: t.Status, Soft: t.Soft, Attempt: t.Attempt, ProviderID: t.ProviderID, Detail: t.Detail})
	}
	for _, t := range contents {
		detail.Contents = append(detail.Contents, client.Content{
			Step: t.Step, At: t.At, Channel: t.Channel, Address: t.Address, Locale: t.Locale, Subject: t.Subject, Text: t.Text, HTML: t.HTML,
		})
	}
	return detail, nil
}

// folded fills in what a delivery is one message with.
func (a *API) folded(ctx context.Context, c Caller, x ids, row delivery.Row, detail *client.DeliveryDetail) error {
	wire := func(d delivery.Row) client.Folded {
		return client.Folded{
			ID: x.delivery(d.ID), Workflow: d.Workflow, Trigger: d.Trigger, Status: string(d.Status), Reason: string(d.Reason),
			Message: sentence(d.Reason), SendAt: d.LeavesAt(), LastSentAt: d.LastSentAt,
		}
	}
	if row.Together() {
		head, err := a.Store.DeliveryByID(ctx, c.Workspace.ID, row.FoldedInto)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // it may have been deleted before this one
			return fmt.Errorf("read what it was folded into: %w", err)
		}
		if err == nil {
			found := wire(head)
			detail.FoldHead = &found
		}
	}
	if row.Fold != delivery.FoldHead {
		return nil
	}
	list, err := a.Store.FoldedInto(ctx, c.Workspace.ID, row.ID)
	if err != nil {
		return fmt.Errorf("list what is folded into it: %w", err)
	}
	for _, d := range list {
		detail.Folded = append(detail.Folded, wire(d))
	}
	return nil
}

// wireStanding is a delivery with its circumstances applied: a pause of its workflow counts at once, also before the
// delivery is parked.
func (a *API) wireStanding(x ids, r delivery.Row, around admission.Circumstances) client.Delivery {
	wire := a.wireDelivery(x, r)
	if around.Paused && !wire.Sending {
		if wire = a.wireDelivery(x, r.Paused()); wire.SendAt.IsZero() {
			wire.WaitsFor = ""
		}
	}
	return wire
}

func (a *API) wireDelivery(x ids, r delivery.Row) client.Delivery {
	into := ""
	if r.Together() {
		into = x.delivery(r.FoldedInto)
	}
	return client.Delivery{
		FoldedInto: into,
		ID:         x.delivery(r.ID), Key: r.Key, Instance: x.instance(r.Instance), Event: x.event(r.Event), Workflow: r.Workflow,
		WorkflowVersion: r.WorkflowVersion, Type: r.Type, Trigger: r.Trigger, Channel: r.Channel, Address: r.Address,
		Locale: r.Locale, CustomerRef: r.CustomerRef, Priority: r.Priority.String(), Status: string(r.Status),
		Sending: !r.IntentAt.IsZero() && r.LeaseUntil.After(a.Clock.Now()),
		Reason:  string(r.Reason), Message: sentence(r.Reason), StopReason: string(r.StopReason), NotBefore: r.NotBefore,
		SendAt: r.LeavesAt(), DeferredBy: string(r.DeferredBy), WaitsFor: string(trace.WaitsFor(r)), Step: r.Step, RemindersRemaining: r.RemindersRemaining,
		Attempts: r.AttemptNo, RetryCount: r.RetryCount, LastSentAt: r.LastSentAt, ExpiresAt: r.ExpiresAt,
		CreatedAt: r.CreatedAt, CompletedAt: r.CompletedAt, Conversation: wireTurn(r),
	}
}

// wireTurn is what a delivery is in a conversation; nil: it belongs to none, or its first message has not been sent.
func wireTurn(r delivery.Row) *client.Turn {
	says, ok := r.Spoken()
	if !ok {
		return nil
	}
	return &client.Turn{Turn: r.Turn, Says: string(says), Asks: r.Asks}
}
