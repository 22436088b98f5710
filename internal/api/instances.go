package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

const (
	// maxDeliveries bounds the deliveries that are shown with their instance; the list of deliveries has pages.
	maxDeliveries = 100
	// maxCounted bounds those that are counted, unless the caller asks for all of them.
	maxCounted = 100_000
)

type listInstances struct {
	Workflow string `query:"workflow" maxLength:"200" doc:"Of this workflow."`
	Status   string `query:"status" enum:"pending,completed,deactivated,failed,cancelled,skipped" doc:"In this state."`
	Held     bool   `query:"held" doc:"Only those that wait for a person."`
	Event    string `query:"event" maxLength:"100" doc:"Of this event."`
	Record   string `query:"record" maxLength:"400" doc:"Of this record: its type, a slash and its id. A deleted one has none."`
	Key      string `query:"key" maxLength:"2000" doc:"The one with this key."`
	Reason   string `query:"reason" maxLength:"100" doc:"With this reason; see GET /v1/reasons."`
	Zones    bool   `query:"zones" doc:"Each row of an occasion that is due by the zone of each person. Without it such an occasion is one item: the first of its rows that fits, the instance of the occasion before the others."`
	Period
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

type getInstance struct {
	ID       string `path:"id" maxLength:"100" doc:"Its id, as it was answered."`
	CountAll bool   `query:"count_all" doc:"Count all its deliveries, and not the first 100,000 alone. That takes longer."`
	Contact  string `query:"contact" maxLength:"200" doc:"The id of a contact: the deliveries are those to them alone, and of a run of a digest that made none for them, without says why."`
}

type forgetKey struct {
	Body struct {
		Key string `json:"key" minLength:"1" maxLength:"2000" doc:"The key of an instance."`
	}
}

type retriedInstance struct {
	ID   string `path:"id" maxLength:"100" doc:"Its id, as it was answered."`
	Body *client.InstanceRetry
}

func (a *API) instances() {
	tags := []string{"instances"}
	route(a, http.MethodGet, "/v1/instances", ScopeRead, huma.Operation{
		OperationID: "list-instances", Summary: "Instances, newest first", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listInstances) (*body[client.Page[client.Instance]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindInstance, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		filter := store.InstanceFilter{Workflow: in.Workflow, Status: instance.Status(in.Status), Held: in.Held, Key: in.Key, Reason: reason.Reason(in.Reason), Once: !in.Zones}
		if filter.Made, err = in.read(a.Clock.Now()); err != nil {
			return nil, err
		}
		if in.Event != "" {
			if filter.Event, err = x.eventID(in.Event); err != nil {
				return &body[client.Page[client.Instance]]{client.Page[client.Instance]{Items: []client.Instance{}}}, nil
			}
		}
		if in.Record != "" {
			typ, id, _ := strings.Cut(in.Record, "/")
			switch r, err := a.Store.Record(ctx, c.Workspace.ID, subject.RecordRef{Type: typ, ExtID: id}); {
			case errors.Is(err, store.ErrNotFound):
				return &body[client.Page[client.Instance]]{client.Page[client.Instance]{Items: []client.Instance{}}}, nil
			case err != nil:
				return nil, fmt.Errorf("a record: %w", err)
			default:
				filter.Record = r.ID
			}
		}
		rows, err := a.Store.Instances(ctx, c.Workspace.ID, filter, page)
		if err != nil {
			return nil, err
		}
		zones, err := a.zonesOf(ctx, rows...)
		if err != nil {
			return nil, err
		}
		wire := func(r instance.Row) client.Instance { return x.wireOccasion(r, zones) }
		return &body[client.Page[client.Instance]]{pageOf(rows, in.Limit, wire, func(r instance.Row) string { return x.instance(r.ID) })}, nil
	})
	route(a, http.MethodGet, "/v1/instances/{id}", ScopeRead, huma.Operation{
		OperationID: "get-instance", Summary: "An instance with its deliveries", Tags: tags,
	}, func(ctx context.Context, c Caller, in *getInstance) (*body[client.InstanceDetail], error) {
		x := a.idsOf(c.Workspace)
		id, err := x.instanceID(in.ID)
		if err != nil {
			return nil, err
		}
		row, err := a.Store.InstanceByID(ctx, c.Workspace.ID, id)
		if err != nil {
			return nil, fmt.Errorf("read the instance: %w", err)
		}
		filter := store.DeliveryFilter{Instance: cmp.Or(row.Head, id)}
		if in.Contact != "" {
			contact, err := a.Store.ContactRow(ctx, c.Workspace.ID, in.Contact)
			switch {
			case errors.Is(err, store.ErrNotFound):
				return nil, invalid("query.contact", "there is no contact "+in.Contact, "GET /v1/contacts lists them")
			case err != nil:
				return nil, err
			}
			filter.Contact = contact.ID
		}
		rows, err := a.Store.Deliveries(ctx, c.Workspace.ID, filter, store.Page{Limit: maxDeliveries})
		if err != nil {
			return nil, fmt.Errorf("list its deliveries: %w", err)
		}
		zones, err := a.zonesOf(ctx, row)
		if err != nil {
			return nil, err
		}
		detail := client.InstanceDetail{Instance: x.wireOccasion(row, zones), Trace: document(row.Trace), Deliveries: make([]client.Delivery, len(rows))}
		circumstances, err := a.Engine.Circumstances(ctx, c.Workspace.ID)
		if err != nil {
			return nil, err
		}
		limit := maxCounted
		if in.CountAll {
			limit = math.MaxInt32
		}
		tally, err := a.Store.Tally(ctx, row, limit)
		if err != nil {
			return nil, err
		}
		detail.Counts = wireCounts(tally)
		for i, d := range rows {
			detail.Deliveries[i] = a.wireStanding(x, d, circumstances(d))
		}
		for _, f := range trace.Failures(row.Trace) {
			detail.Failures = append(detail.Failures, client.Failure{At: f.At, Error: f.Error})
		}
		if row.Hold == instance.HoldConflict {
			conflict, err := a.Engine.InputConflict(ctx, c.Workspace.ID, row)
			if err != nil {
				return nil, fmt.Errorf("compare its inputs: %w", err)
			}
			detail.Conflict = wireConflict(conflict)
		}
		if row.Record != 0 {
			about, err := a.Store.RecordByID(ctx, c.Workspace.ID, row.Record)
			if err != nil {
				return nil, fmt.Errorf("its record: %w", err)
			}
			detail.Record = about.Type + "/" + about.ExtID
		}
		if err := a.digestRun(ctx, &detail, row, in.Contact, filter.Contact); err != nil {
			return nil, err
		}
		return &body[client.InstanceDetail]{detail}, nil
	})
	act := func(verb Verb, summary string) {
		route(a, http.MethodPost, "/v1/instances/{id}/"+string(verb), ScopeOperate, huma.Operation{
			OperationID: string(verb) + "-instance", Summary: summary, Tags: tags,
		}, func(ctx context.Context, c Caller, in *byID) (*body[client.Operated], error) {
			id, err := a.idsOf(c.Workspace).instanceID(in.ID)
			if err != nil {
				return nil, err
			}
			return a.operate(ctx, c, Action{Verb: verb, Instance: id})
		})
	}
	act(Cancel, "Stop an instance and what has not left of its deliveries")
	route(a, http.MethodPost, "/v1/instances/{id}/retry", ScopeOperate, huma.Operation{
		OperationID: "retry-instance", Summary: "Try an instance at once, or have one that has ended done again under key:retry:n", Tags: tags,
	}, func(ctx context.Context, c Caller, in *retriedInstance) (*body[client.Operated], error) {
		id, err := a.idsOf(c.Workspace).instanceID(in.ID)
		if err != nil {
			return nil, err
		}
		return a.operate(ctx, c, Action{Verb: Retry, Instance: id, All: in.Body != nil && in.Body.Scope == client.RetryAll})
	})
	act(Release, "Let a held instance go on; one that is held with input_conflict by the inputs of now")
	route(a, http.MethodPost, "/v1/instances/forget", ScopeAdmin, huma.Operation{
		OperationID: "forget-instance", Summary: "Free a key, so that the next such event counts as new", Tags: tags,
	}, func(ctx context.Context, c Caller, in *forgetKey) (*body[client.Operated], error) {
		return a.operate(ctx, c, Action{Verb: Forget, Key: in.Body.Key})
	})
}

// namedInstance is the instance that a list is narrowed to, by its id or its key.
func (a *API) namedInstance(ctx context.Context, c Caller, name string) (instance.ID, error) {
	var row instance.Row
	var err error
	if strings.Contains(name, ":") { // a key has colons, and an id has none
		row, err = a.Store.InstanceByKey(ctx, c.Workspace.ID, name)
	} else if row.ID, err = a.idsOf(c.Workspace).instanceID(name); err == nil {
		row, err = a.Store.InstanceByID(ctx, c.Workspace.ID, row.ID)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("instance")
	}
	var refused *client.Problem
	if errors.As(err, &refused) {
		refused.Field, refused.Hint = "query.instance", cmp.Or(refused.Hint, "GET /v1/instances lists them with their ids and keys.")
	}
	return row.ID, err
}

func (a *API) operate(ctx context.Context, c Caller, action Action) (*body[client.Operated], error) {
	wire := a.idsOf(c.Workspace).wireOperated
	done, err := a.Engine.Operate(ctx, c.Workspace, c.Name, action, once(a, c, wire))
	if err != nil {
		return nil, err
	}
	return &body[client.Operated]{wire(done)}, nil
}

func (x ids) wireOperated(done Operated) client.Operated {
	wire := client.Operated{
		BeingSent: x.deliveries(done.BeingSent),
		Changed:   done.Changed, Instance: x.instance(done.Instance), Deliveries: x.deliveries(done.Deliveries),
		NewInstance: x.instance(done.NewInstance), NewKey: done.NewKey, NewDeliveries: x.deliveries(done.NewDeliveries),
	}
	if done.Run != 0 {
		wire.Run = x.encode(key.KindRun, done.Run)
	}
	if !done.Changed && len(done.BeingSent) > 0 {
		wire.Reason, wire.Message = string(reason.BeingSent), sentence(reason.BeingSent)
	}
	return wire
}

func wireCounts(t delivery.Tally) client.InstanceCounts {
	wire := client.InstanceCounts{
		Deliveries: t.Deliveries, TakingUp: t.TakingUp, Sent: t.Sent, Waiting: t.Waiting, Unknown: t.Unknown, Failed: t.Failed, LeftOut: t.LeftOut, More: t.More,
		Reasons: make([]client.ReasonCount, len(t.Reasons)),
	}
	for i, c := range t.Reasons {
		wire.Reasons[i] = client.ReasonCount{Status: string(c.Status), Reason: string(c.Reason), Message: sentence(c.Reason), Count: c.N}
	}
	return wire
}

func wireConflict(c plan.InputConflict) *client.InputConflict {
	wire := &client.InputConflict{
		StoredVersion: c.StoredVersion, NewVersion: c.NewVersion, Known: c.Known, Defined: c.Defined, Agrees: c.Agrees(),
		Fields: make([]client.InputField, len(c.Fields)),
	}
	for i, f := range c.Fields {
		wire.Fields[i] = client.InputField(f)
	}
	return wire
}

func (x ids) wireInstance(r instance.Row) client.Instance {
	wire := client.Instance{
		ID: x.instance(r.ID), Key: r.Key, Workflow: r.Workflow, WorkflowVersion: r.WorkflowVersion, Type: r.Type,
		Trigger: r.Trigger, Event: x.event(r.Event), Status: string(r.Status), Held: r.Held(), HeldSince: r.HeldAt, HeldFor: string(r.Hold.Reason()), Reason: string(r.Reason),
		Message: sentence(r.Reason), DueAt: r.DueAt, NextRetryAt: r.NextRetryAt, Attempts: r.Attempts, Recipients: r.Recipients, UnbrakedAt: r.UnbrakedAt,
		RetryCount: r.RetryCount, Crashes: r.Crashes, InputHash: r.InputHash, CreatedAt: r.CreatedAt, CompletedAt: r.CompletedAt, CancelledAt: r.CancelledAt,
		Round: r.Round,
	}
	if r.Round > 0 {
		wire.RoundMessage, wire.Person = r.Message+1, key.Instance(r.Key).Person()
	}
	return wire
}

// zonesOf are the rows of zones of the occasions of which rows are.
func (a *API) zonesOf(ctx context.Context, rows ...instance.Row) (map[instance.ID][]instance.Row, error) {
	heads := make([]instance.ID, len(rows))
	for i, r := range rows {
		heads[i] = cmp.Or(r.Head, r.ID)
	}
	zones, err := a.Store.ZonesOf(ctx, heads)
	if err != nil {
		return nil, fmt.Errorf("list the zones: %w", err)
	}
	return zones, nil
}

// wireOccasion is an instance with the zones of its occasion.
func (x ids) wireOccasion(r instance.Row, zones map[instance.ID][]instance.Row) client.Instance {
	wire := x.wireInstance(r)
	wire.DueLocal, wire.Occasion = plan.DueLocal(r), x.instance(r.Head)
	for _, z := range zones[cmp.Or(r.Head, r.ID)] {
		wire.Zones = append(wire.Zones, client.Zone{
			Timezone: cmp.Or(key.Instance(z.Key).Zone(), z.Timezone), DueAt: z.DueAt, DueLocal: plan.DueLocal(z), ID: x.instance(z.ID),
			Status: string(z.Status), Held: z.Held(), Reason: string(z.Reason), Recipients: z.Recipients,
		})
	}
	return wire
}

func sentence(r reason.Reason) string {
	if r == "" {
		return ""
	}
	return r.Sentence()
}
