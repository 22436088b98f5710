package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/subject"
)

type previewWorkflow struct {
	Slug    string `path:"slug" maxLength:"100" doc:"The workflow's name."`
	Record  string `query:"record" maxLength:"400" doc:"For a workflow that follows records: one of them, as its type, a slash and its id."`
	Contact string `query:"contact" maxLength:"256" doc:"The contact in whose zone, and after whose events, it is asked for. Not together with record."`
	Event   string `query:"event" maxLength:"100" doc:"The kind of an event: the answer is what such an event would cause if it arrived now, without a payload, and nothing else. Not together with record."`
	Limit   int    `query:"limit" default:"20" minimum:"1" maximum:"200" doc:"How many occurrences are listed, at most."`
}

func (a *API) preview() {
	route(a, http.MethodGet, "/v1/workflows/{slug}/preview", ScopeRead, huma.Operation{
		OperationID: "preview-workflow", Summary: "The next occurrences of a workflow", Tags: []string{"workflows"},
		Description: "Starts from what is stored: what waits, is held or is tried again keeps its instant, and what has ended is left out. " +
			"What follows is computed as if nothing changes. It makes and changes nothing.",
	}, func(ctx context.Context, c Caller, in *previewWorkflow) (*body[client.Preview], error) {
		q := outlook.Query{Workflow: in.Slug, Contact: in.Contact, Event: in.Event, Limit: in.Limit}
		if in.Record != "" {
			typ, id, ok := strings.Cut(in.Record, "/")
			if !ok || typ == "" || id == "" {
				return nil, invalid("query.record", "it is not the name of a record", "write its type, a slash and its id, such as kiosk/123")
			}
			q.Record = subject.RecordRef{Type: typ, ExtID: id}
		}
		answer, err := a.Engine.Upcoming(ctx, c.Workspace, q)
		if err != nil {
			return nil, notForeseen(err)
		}
		wire, err := a.wirePreview(ctx, c, answer)
		return &body[client.Preview]{wire}, err
	})
}

// notForeseen is the problem for a query without an answer.
func notForeseen(err error) error {
	var refused *outlook.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("preview a workflow: %w", err)
	}
	p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, refused.Message)
	if refused.Missing {
		p = newProblem(http.StatusNotFound, client.CodeNotFound, refused.Message)
	}
	p.Hint = refused.Hint
	if p.Field = "query." + refused.Field; refused.Field == "workflow" {
		p.Field = "path.slug"
	}
	return p
}

func (a *API) wirePreview(ctx context.Context, c Caller, u outlook.Answer) (client.Preview, error) {
	x := a.idsOf(c.Workspace)
	p := client.Preview{
		Workflow: u.Workflow.Name, Type: u.Workflow.Type, Version: u.Workflow.Version, At: u.At, Enabled: u.Workflow.Enabled, Channels: []string{},
		Outside: u.Outside, Event: u.Event, Upcoming: []client.Occurrence{}, Triggers: []client.PreviewTrigger{},
	}
	if u.Record != nil {
		p.Record = u.Record.Type + "/" + u.Record.ExtID
	}
	if u.Contact != nil {
		p.Contact, p.Suppressed = u.Contact.ExtID, !u.Contact.SuppressedAt.IsZero()
	}
	if u.Pause != nil {
		p.PausedAt = u.Pause.PausedAt
	}
	for t := range u.Workflow.Forms() {
		if t.Channel != "" && !slices.Contains(p.Channels, t.Channel) {
			p.Channels = append(p.Channels, t.Channel)
		}
	}
	for i, o := range u.Occurrences {
		wire, err := x.wireOccurrence(o, u.Zone)
		if err != nil {
			return client.Preview{}, err
		}
		if p.Upcoming = append(p.Upcoming, wire); i == 0 {
			p.Timezone = wire.Timezone
		} else if p.Timezone != wire.Timezone {
			p.Timezone = ""
		}
	}
	for _, t := range u.Triggers {
		p.Triggers = append(p.Triggers, wireOutlook(t))
		if p.Timezone == "" && len(u.Occurrences) == 0 {
			p.Timezone = t.Zone
		}
	}
	for _, d := range u.Waiting {
		p.Waiting = append(p.Waiting, a.wireDelivery(x, d))
	}
	return p, nil
}

// wireOccurrence is an occurrence as it is answered; elsewhere is the zone of one without a zone of its own.
func (x ids) wireOccurrence(o plan.Occurrence, elsewhere string) (client.Occurrence, error) {
	wire := client.Occurrence{
		Trigger: o.Trigger, At: o.At.UTC(), Timezone: o.Zone, Status: string(o.Status), Reason: string(o.Reason), Message: sentence(o.Reason),
		Iteration: o.Iteration, Target: o.Target, Key: string(o.Key), Instance: x.instance(o.Row.ID), Person: o.Key.Person(),
	}
	if o.Row.ID == 0 {
		wire.Instance = ""
	}
	if wire.Contact = o.Recipient; o.Event != 0 {
		wire.Event = x.event(o.Event)
	}
	if wire.Timezone == "" {
		wire.Timezone = elsewhere
	}
	loc, err := civil.LoadZone(wire.Timezone)
	if err != nil {
		return wire, err
	}
	local := o.At.In(loc)
	wire.Local, wire.Abbreviation = local.Format(time.RFC3339), local.Format("MST")
	if due := o.Row.DueAt; o.Row.ID != 0 && !due.Equal(o.At) {
		wire.DueAt = due.UTC()
	}
	if o.Of > 0 {
		wire.RoundMessage, wire.RoundMessages = o.Position.Message+1, o.Of
	} else if o.Target != "" && o.Iteration == 0 {
		if wire.Offset = o.Desired.Offset.String(); o.Desired.Offset.IsZero() {
			wire.Offset = "0d"
		}
	}
	if change := o.Clock; change != nil {
		wire.ClockChange = &client.ClockChange{At: change.At, Date: change.Date.String(), Direction: "back", Minutes: int(change.Length / time.Minute)}
		if change.Forward {
			wire.ClockChange.Direction = "forward"
		}
	}
	return wire, nil
}

func wireOutlook(t plan.TriggerOutlook) client.PreviewTrigger {
	wire := client.PreviewTrigger{
		Trigger: t.Trigger.ID, Kind: "schedule", Event: t.Listens, RecordType: t.Record, Waits: t.Waits, ByContact: t.ByContact, More: t.More,
		LastAt: t.Last, Endless: t.Endless, Ends: string(t.End), Times: t.Times, Reason: string(t.Reason), Message: sentence(t.Reason),
		Field: t.Field, Error: t.Error, Until: t.Until, LeftOut: t.LeftOut, LeftOutReason: string(t.LostWhy),
	}
	switch {
	case t.Record != "":
		wire.Kind = "record"
	case t.Trigger.OnEvent() != nil:
		wire.Kind, wire.Event = "event", t.Trigger.OnEvent().Kind
	}
	return wire
}
