package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
)

type listRuns struct {
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

// runPath begins the routes of one run: to cancel one twice is to cancel it once.
const runPath = "/v1/runs/{id}/"

func (a *API) runs() {
	route(a, http.MethodGet, "/v1/runs", ScopeRead, huma.Operation{
		OperationID: "list-runs", Summary: "Work over many rows, newest first, and how far it is", Tags: []string{"runs"},
	}, func(ctx context.Context, c Caller, in *listRuns) (*body[client.Page[client.Run]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindRun, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		rows, err := a.Store.Jobs(ctx, c.Workspace.ID, page)
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		return &body[client.Page[client.Run]]{pageOf(rows, in.Limit, x.wireRun, func(r job.Row) string { return x.encode(key.KindRun, r.ID) })}, nil
	})
	turn := func(verb, summary string, do func(context.Context, store.Workspace, int64, store.Audit) (job.Row, error)) {
		route(a, http.MethodPost, runPath+verb, ScopeOperate, huma.Operation{
			OperationID: verb + "-run", Summary: summary, Tags: []string{"runs"},
		}, func(ctx context.Context, c Caller, in *byID) (*body[client.Run], error) {
			x := a.idsOf(c.Workspace)
			id, err := x.runID(in.ID)
			if err != nil {
				return nil, err
			}
			run, err := do(ctx, c.Workspace, id, store.Audit{At: a.Clock.Now(), Actor: c.Name, Action: verb + " run", Target: in.ID})
			if refused := (*job.StateError)(nil); errors.As(err, &refused) {
				return nil, cannotTurn(verb, refused)
			}
			if err != nil {
				return nil, fmt.Errorf("%s a run: %w", verb, err)
			}
			return &body[client.Run]{x.wireRun(run)}, nil
		})
	}
	turn("cancel", "End a run where it is, which lets its workflows be edited again",
		func(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error) {
			return a.Engine.CancelRun(ctx, ws, id, audit)
		})
	turn("resume", "Have a run that was cancelled or has failed go on where it was",
		func(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error) {
			return a.Engine.ResumeRun(ctx, ws, id, audit)
		})
	turn("undo", "Take back what a run has done to the subscriptions of many people",
		func(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error) {
			return a.Engine.UndoRun(ctx, ws, id, audit)
		})
}

func cannotTurn(verb string, e *job.StateError) *client.Problem {
	p := newProblem(http.StatusConflict, client.CodeNotPossible, verb+" is not possible: the run is "+string(e.Status))
	p.Hint = "a run that is done stays as it is"
	switch {
	case e.Final:
		p.Detail, p.Hint = verb+" is not possible: the run does not change subscriptions", "only what is done to the subscriptions of many people can be taken back"
	case verb == "undo":
		p.Hint = "cancel it first, or wait until it is done"
	case e.Newer:
		p.Detail, p.Hint = verb+" is not possible: a newer run goes over the same", "GET /v1/runs shows it"
	}
	return p
}

func (x ids) wireRun(r job.Row) client.Run {
	run := client.Run{
		ID: x.encode(key.KindRun, r.ID), Kind: string(r.Kind), Subject: r.Subject, Locks: r.Workflows(), Definitions: r.Definitions, Status: string(r.Status),
		Done: r.Done, Total: max(r.Total, r.Done), Changed: r.Changed, Error: r.Error, StartedAt: r.StartedAt, UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt,
	}
	if r.Kind == job.Reconcile {
		run.Repaired, run.Changed = r.Changed, 0
	}
	return run
}
