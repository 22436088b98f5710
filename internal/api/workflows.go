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

type bySlug struct {
	Slug string `path:"slug" maxLength:"100" doc:"The workflow's name."`
}

type pauseWorkflow struct {
	Slug string `path:"slug" maxLength:"100" doc:"The workflow's name."`
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"For those who wonder later."`
	}
}

// pausePath and resumePath are repeatable: to pause a workflow twice is to pause it once.
const (
	pausePath  = "/v1/workflows/{slug}/pause"
	resumePath = "/v1/workflows/{slug}/resume"
)

func (a *API) workflows() {
	route(a, http.MethodGet, "/v1/workflows", ScopeRead, huma.Operation{
		OperationID: "list-workflows", Summary: "Workflows in force, and which of them are paused", Tags: []string{"workflows"},
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.Workflows], error) {
		list, err := a.Engine.Workflows(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		return &body[client.Workflows]{list}, nil
	})
	route(a, http.MethodPost, pausePath, ScopeOperate, huma.Operation{
		OperationID: "pause-workflow", Summary: "Stop a workflow until it is resumed", Tags: []string{"workflows"},
		Description: "Nothing of it is expanded or sent. New occasions go on being planned; what comes due is held with the reason workflow_paused. " +
			"What is on its way to a provider is not called back.",
	}, func(ctx context.Context, c Caller, in *pauseWorkflow) (*body[client.PausedWorkflow], error) {
		why := ""
		if in.Body != nil { // a reason is no duty
			why = in.Body.Reason
		}
		paused, err := a.Engine.PauseWorkflow(ctx, c.Workspace, c.Name, in.Slug, why)
		if err != nil {
			return nil, err
		}
		return &body[client.PausedWorkflow]{paused}, nil
	})
	route(a, http.MethodPost, resumePath, ScopeOperate, huma.Operation{
		OperationID: "resume-workflow", Summary: "Have a paused workflow go on, with what waited", Tags: []string{"workflows"},
		Description: "To wait for this is no lateness. Of a series of the calendar, backlog decides which of the occasions that came due meanwhile are sent.",
	}, func(ctx context.Context, c Caller, in *bySlug) (*body[client.PausedWorkflow], error) {
		resumed, err := a.Engine.ResumeWorkflow(ctx, c.Workspace, c.Name, in.Slug)
		if err != nil {
			return nil, err
		}
		return &body[client.PausedWorkflow]{resumed}, nil
	})
	route(a, http.MethodPost, "/v1/workflows/{slug}/runs", ScopeOperate, huma.Operation{
		OperationID: "run-workflow", Summary: "Run a workflow by hand, now", Tags: []string{"workflows"},
		Description: "Works for workflows whose audience and texts need neither an event nor a record.",
	}, func(ctx context.Context, c Caller, in *runWorkflow) (*body[client.ManualRun], error) {
		wire := a.idsOf(c.Workspace).wireManualRun
		run, err := a.Engine.RunManually(ctx, c.Workspace, c.Name, in.Slug, in.Body.RunID, once(a, c, wire))
		if err != nil {
			return nil, err
		}
		return &body[client.ManualRun]{wire(run)}, nil
	})
}

func (x ids) wireManualRun(r store.ManualRun) client.ManualRun {
	return client.ManualRun{Created: r.Created, Instance: x.instance(r.Row.ID), Key: r.Row.Key}
}
