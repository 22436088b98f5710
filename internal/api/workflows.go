package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/store"
)

type runWorkflow struct {
	Slug string `path:"slug" maxLength:"100" doc:"The workflow's name."`
	Body struct {
		RunID string `json:"run_id" minLength:"1" maxLength:"200" doc:"The caller's id of this run: the same id again answers the same instance."`
	}
}

func (a *API) workflows() {
	route(a, http.MethodPost, "/v1/workflows/{slug}/runs", ScopeOperate, huma.Operation{
		OperationID: "run-workflow", Summary: "Run a workflow by hand, now", Tags: []string{"instances"},
		Description: "Works for workflows whose audience and texts need neither an event nor a record.",
	}, func(ctx context.Context, c Caller, in *runWorkflow) (*body[client.ManualRun], error) {
		wire := a.idsOf(c.Workspace).wireManualRun
		run, err := a.Engine.RunByHand(ctx, c.Workspace, c.Name, in.Slug, in.Body.RunID, once(a, c, wire))
		if err != nil {
			return nil, err
		}
		return &body[client.ManualRun]{wire(run)}, nil
	})
}

func (x ids) wireManualRun(r store.ManualRun) client.ManualRun {
	return client.ManualRun{Created: r.Created, Instance: x.instance(r.Row.ID), Key: r.Row.Key}
}
