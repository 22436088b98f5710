package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/expr"
)

type countRecipients struct {
	Slug   string `path:"slug" maxLength:"100" doc:"The workflow's name."`
	Sample int    `query:"sample" default:"20" minimum:"0" maximum:"200" doc:"How many of them are named, at most."`
}

func (a *API) recipients() {
	route(a, http.MethodGet, "/v1/workflows/{slug}/recipients", ScopeRead, huma.Operation{
		OperationID: "count-recipients", Summary: "Who the audience of a workflow is now", Tags: []string{"workflows"},
		Description: "Counts the audience that a run by hand would have now, and names the first of them. It makes and changes nothing. Limits, suppression and " +
			"addresses that are missing are found when messages are made, so fewer may be sent.",
	}, func(ctx context.Context, c Caller, in *countRecipients) (*body[client.Recipients], error) {
		answer, err := a.Engine.CountRecipients(ctx, c.Workspace, in.Slug, in.Sample)
		if err != nil {
			return nil, notCounted(err)
		}
		wire := client.Recipients{
			Workflow: in.Slug, Trigger: answer.Trigger, Count: answer.Count, New: answer.New, Suppressed: answer.Suppressed, Most: answer.Most,
			Sample: make([]client.AudienceMember, len(answer.Sample)),
		}
		for i, r := range answer.Sample {
			wire.Sample[i] = client.AudienceMember{Contact: r.ID, Address: r.Address, Timezone: r.Timezone, Suppressed: r.Suppressed}
		}
		return &body[client.Recipients]{wire}, nil
	})
}

// notCounted is the problem for an audience that cannot be counted.
func notCounted(err error) error {
	var manual *recipients.NotManualError
	var failure *expr.Failure
	switch {
	case errors.Is(err, recipients.ErrNotFound):
		p := newProblem(http.StatusNotFound, client.CodeNotFound, "there is no such workflow")
		p.Field, p.Hint = "path.slug", "GET /v1/workflows lists them"
		return p
	case errors.As(err, &manual):
		p := newProblem(http.StatusUnprocessableEntity, client.CodeNotByHand, manual.Error())
		p.Hint = "it is computed when a message is due"
		return p
	case errors.As(err, &failure):
		p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, err.Error())
		p.Hint = "an occasion would be tried again, and then be held"
		return p
	}
	return err
}
