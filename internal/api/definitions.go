package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

type applyFiles struct {
	Body struct {
		Files []client.File `json:"files" minItems:"1" maxItems:"2000" doc:"A whole set of definition files. Definitions that they do not mention stay."`
	}
}

func (a *API) definitions() {
	tags := []string{"definitions"}
	route(a, http.MethodPost, "/v1/definitions", ScopeDefinitions, huma.Operation{
		OperationID: "apply-definitions", Summary: "Put definitions in force, all or none", Tags: tags, MaxBodyBytes: MaxBatchBody,
		Description: "What decides where a secret goes, that is a reference to one, or the provider or a setting beside one, needs the scope secrets too; secret_changes names it.",
	}, func(ctx context.Context, c Caller, in *applyFiles) (*body[client.Applied], error) {
		files := make([]definition.File, len(in.Body.Files))
		for i, f := range in.Body.Files {
			files[i] = definition.File{Name: f.Name, Text: []byte(f.Text)}
		}
		applied, err := a.Engine.Apply(ctx, c.Workspace, files, Applier{c.Name, c.May(ScopeSecrets)}, once(a, c, wireApplied))
		if locked := (*store.LockedError)(nil); errors.As(err, &locked) {
			p := newProblem(http.StatusConflict, client.CodeWorkflowLocked, "workflow "+locked.Workflow+" is locked by a run; nothing was changed")
			p.Hint = "wait until run " + a.idsOf(c.Workspace).encode(key.KindRun, locked.Run) + " is done, or cancel it"
			return nil, p
		}
		if err != nil {
			return nil, fmt.Errorf("apply definitions: %w", err)
		}
		if n := definition.Errors(applied.Problems); n > 0 {
			p := newProblem(http.StatusUnprocessableEntity, client.CodeDefinitions, fmt.Sprintf("the definitions have %s; nothing was changed", count(n, "error")))
			p.Problems = wireProblems(applied.Problems)
			return nil, p
		}
		return &body[client.Applied]{wireApplied(applied)}, nil
	})
	route(a, http.MethodGet, "/v1/definitions", ScopeRead, huma.Operation{
		OperationID: "list-definitions", Summary: "The definitions in force, with their versions", Tags: tags,
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.Definitions], error) {
		number, err := a.Store.DefinitionsNumber(ctx, c.Workspace.ID)
		if err != nil {
			return nil, err
		}
		rows, err := a.Store.DefinitionSet(ctx, c.Workspace.ID, number)
		if err != nil {
			return nil, fmt.Errorf("read the definitions: %w", err)
		}
		out := client.Definitions{Number: number, Definitions: make([]client.Definition, len(rows))}
		for i, row := range rows {
			out.Definitions[i] = client.Definition{Kind: row.Kind, Name: row.Name, Version: row.Version, Hash: row.Hash, Text: row.Text}
		}
		return &body[client.Definitions]{out}, nil
	})
	route(a, http.MethodGet, "/v1/reasons", ScopeRead, huma.Operation{
		OperationID: "list-reasons", Summary: "Every named outcome, with its sentence", Tags: []string{"reasons"},
	}, func(context.Context, Caller, *struct{}) (*body[client.Reasons], error) {
		var out client.Reasons
		for _, info := range reason.All() {
			out.Reasons = append(out.Reasons, client.Reason{Reason: string(info.Reason), Class: string(info.Class), Sentence: info.Sentence})
		}
		return &body[client.Reasons]{out}, nil
	})
}

const tickPath = "/v1/tick"

func (a *API) ticks() {
	route(a, http.MethodPost, tickPath, ScopeOperate, huma.Operation{
		OperationID: "tick", Summary: "Run every pass once, now", Tags: []string{"tick"},
		Description: "For tests and for engines that are driven from outside; a running server does all this by itself. Each pass takes a bounded batch: call again while something was done.",
	}, func(ctx context.Context, _ Caller, _ *struct{}) (*body[client.Tick], error) {
		tick, err := a.Engine.Tick(ctx)
		if err != nil {
			return nil, fmt.Errorf("tick: %w", err)
		}
		return &body[client.Tick]{tick}, nil
	})
}

func wireApplied(applied Applied) client.Applied {
	out := client.Applied{Number: applied.Number, Warnings: wireProblems(applied.Problems), Changes: make([]client.DefinitionChange, len(applied.Changes))}
	for i, change := range applied.Changes {
		out.Changes[i] = client.DefinitionChange(change)
	}
	for _, c := range applied.SecretChanges {
		out.SecretChanges = append(out.SecretChanges, client.SecretChange{Kind: string(c.Kind), Name: c.Name, Fields: c.Fields, Secrets: c.Secrets})
	}
	return out
}

func wireProblems(list []definition.Problem) []client.DefinitionProblem {
	var out []client.DefinitionProblem
	for _, p := range list {
		out = append(out, client.DefinitionProblem{
			File: p.File, Line: p.Line, Column: p.Column, Code: p.Code, Message: p.Message, Hint: p.Hint, Warning: p.Warning,
		})
	}
	return out
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
