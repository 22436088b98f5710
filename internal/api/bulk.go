package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/reason"
)

type bulkDeliveries struct{ Body client.Selection }

// Bulk is a wish to retry or cancel many deliveries.
type Bulk struct {
	Verb      Verb
	Selection delivery.Selection
	DryRun    bool
}

// Bulked says what such a wish concerns.
type Bulked struct {
	Matched  int
	More     bool // at least so many
	ByStatus map[delivery.Status]int
	ByReason map[reason.Reason]int
	Samples  []delivery.Row
	Run      job.Row // none in a dry run, and where nothing matched
}

func (a *API) bulk() {
	act := func(verb Verb, summary, description string) {
		route(a, http.MethodPost, "/v1/deliveries/"+string(verb), ScopeOperate, huma.Operation{
			OperationID: string(verb) + "-deliveries", Summary: summary, Description: description, Tags: []string{"deliveries"},
		}, func(ctx context.Context, c Caller, in *bulkDeliveries) (*body[client.BulkAnswer], error) {
			b := Bulk{Verb: verb, DryRun: in.Body.DryRun, Selection: selection(in.Body)}
			if field, message := b.Selection.Check(); message != "" {
				p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, message)
				if p.Field = "body"; field != "" {
					p.Field += "." + field
				}
				return nil, p
			}
			x := a.idsOf(c.Workspace)
			wire := func(done Bulked) client.BulkAnswer { return a.wireBulk(x, b, done) }
			done, err := a.Engine.Bulk(ctx, c.Workspace, c.Name, b, once(a, c, wire))
			if err != nil {
				return nil, err
			}
			return &body[client.BulkAnswer]{wire(done)}, nil
		})
	}
	act(Retry, "Try many deliveries again",
		"A run does with each of them what POST /v1/deliveries/{id}/retry does. What was sent, or may have been, is left alone unless its status is named.")
	act(Cancel, "Stop many deliveries", "A run does with each of them what POST /v1/deliveries/{id}/cancel does.")
}

func selection(in client.Selection) delivery.Selection {
	s := delivery.Selection{
		Workflow: in.Workflow, Channel: in.Channel, Reason: reason.Reason(in.Reason), Since: in.Since.UTC(), Until: in.Until.UTC(),
	}
	for _, status := range in.Status {
		s.Statuses = append(s.Statuses, delivery.Status(status))
	}
	return s
}

func (a *API) wireBulk(x ids, b Bulk, done Bulked) client.BulkAnswer {
	answer := client.BulkAnswer{DryRun: b.DryRun, Matched: done.Matched, More: done.More, ByStatus: map[string]int{}, ByReason: map[string]int{}}
	for status, n := range done.ByStatus {
		answer.ByStatus[string(status)] = n
	}
	for why, n := range done.ByReason {
		answer.ByReason[string(why)] = n
	}
	if b.DryRun {
		for _, row := range done.Samples {
			answer.Samples = append(answer.Samples, a.wireDelivery(x, row))
		}
		return answer
	}
	if done.Run.ID != 0 {
		run := x.wireRun(done.Run)
		answer.Run = &run
	}
	return answer
}
