package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

type applyFiles struct {
	DryRun bool `query:"dry_run" doc:"Say what would happen, and change nothing."`
	Prune  bool `query:"prune" doc:"Delete the definitions in force that the files do not define."`
	Body   struct {
		Files []client.File `json:"files" minItems:"1" maxItems:"2000" doc:"A whole set of definition files. Definitions that they do not mention stay, unless prune is true."`
	}
}

type definitionsOf struct {
	Set int64 `query:"set" minimum:"1" doc:"The number of a set. Default: the one in force."`
}

type definitionAt struct {
	Kind    string `path:"kind" maxLength:"100" doc:"Such as workflow."`
	Name    string `path:"name" maxLength:"200" doc:"Its name; of a channel email stands for email:default."`
	Version int64  `query:"version" minimum:"1" doc:"Default: the one in force."`
	Set     int64  `query:"set" minimum:"1" doc:"The number of a set, instead of version."`
}

type definitionGone struct {
	Kind   string `path:"kind" maxLength:"100" doc:"Such as workflow."`
	Name   string `path:"name" maxLength:"200" doc:"Its name; of a channel email stands for email:default."`
	DryRun bool   `query:"dry_run" doc:"Say what would happen, and change nothing."`
}

type historyOf struct {
	Kind   string `query:"kind" maxLength:"100" doc:"Of one definition, with name."`
	Name   string `query:"name" maxLength:"200" doc:"Of one definition, with kind."`
	Before int64  `query:"before" minimum:"1" doc:"The number of a set: those before it."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many sets."`
}

type rollbackTo struct{ Body client.Rollback }

// fullName is a name as definitions are stored: email stands for email:default.
func fullName(kind, name string) string {
	if kind == string(definition.KindChannel) && name != "" && !strings.Contains(name, ":") {
		return name + ":default"
	}
	return name
}

func wireDefinition(row store.Definition) client.Definition {
	return client.Definition{Kind: row.Kind, Name: row.Name, Version: row.Version, Hash: row.Hash, Text: row.Text}
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
		return a.editDefinitions(ctx, c, DefinitionEdit{Files: files, Prune: in.Prune, DryRun: in.DryRun})
	})
	route(a, http.MethodGet, "/v1/definitions", ScopeRead, huma.Operation{
		OperationID: "list-definitions", Summary: "The definitions in force, or of an earlier set, with their versions", Tags: tags,
	}, func(ctx context.Context, c Caller, in *definitionsOf) (*body[client.Definitions], error) {
		number, err := a.Store.DefinitionsNumber(ctx, c.Workspace.ID)
		if err != nil {
			return nil, err
		}
		if in.Set > number {
			return nil, notFound("set of definitions")
		}
		if in.Set > 0 {
			number = in.Set
		}
		rows, err := a.Store.DefinitionSet(ctx, c.Workspace.ID, number)
		if err != nil {
			return nil, fmt.Errorf("read the definitions: %w", err)
		}
		out := client.Definitions{Number: number, Definitions: make([]client.Definition, len(rows))}
		for i, row := range rows {
			out.Definitions[i] = wireDefinition(row)
		}
		return &body[client.Definitions]{out}, nil
	})
	a.oneDefinition(tags)
	route(a, http.MethodGet, "/v1/definitions/history", ScopeRead, huma.Operation{
		OperationID: "definition-history", Summary: "The sets that came into force, with what each changed, the newest first", Tags: tags,
		Description: "Each set has the time, the name of the key and what it changed. POST /v1/definitions/rollback puts an earlier version in force again.",
	}, func(ctx context.Context, c Caller, in *historyOf) (*body[client.DefinitionHistory], error) {
		if (in.Kind == "") != (in.Name == "") {
			p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, "kind and name belong together")
			p.Field = "kind"
			return nil, p
		}
		history, err := a.Engine.DefinitionHistory(ctx, c.Workspace, client.HistoryQuery{Kind: in.Kind, Name: fullName(in.Kind, in.Name), Before: in.Before, Limit: in.Limit})
		if err != nil {
			return nil, err
		}
		return &body[client.DefinitionHistory]{history}, nil
	})
	route(a, http.MethodPost, "/v1/definitions/rollback", ScopeDefinitions, huma.Operation{
		OperationID: "rollback-definitions", Summary: "Put an earlier version of one definition, or of the whole set, in force again", Tags: tags,
		Description: "It is an apply of the earlier text, and passes the same checks: a new version comes into force, and what decides where a secret goes needs the scope secrets too.",
	}, func(ctx context.Context, c Caller, in *rollbackTo) (*body[client.Applied], error) {
		r := in.Body
		field := ""
		switch {
		case (r.Kind == "") != (r.Name == ""):
			field = "kind"
		case r.Kind == "" && r.Version > 0, r.Version > 0 && r.Set > 0:
			field = "version"
		}
		if field != "" {
			p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, "kind and name belong together; version is of one definition, and set stands instead of it")
			p.Field = "body." + field
			return nil, p
		}
		r.Name = fullName(r.Kind, r.Name)
		return a.editDefinitions(ctx, c, DefinitionEdit{Rollback: &r, DryRun: r.DryRun})
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

// oneDefinition are the routes of one definition.
func (a *API) oneDefinition(tags []string) {
	const path = "/v1/definitions/{kind}/{name}"
	route(a, http.MethodGet, path, ScopeRead, huma.Operation{
		OperationID: "get-definition", Summary: "One definition as it was written: in force, of a version, or of a set", Tags: tags,
		Description: "Without version and set it is the one in force; of one that was deleted both find what was in force before.",
	}, func(ctx context.Context, c Caller, in *definitionAt) (*body[client.Definition], error) {
		if in.Version > 0 && in.Set > 0 {
			p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, "version and set exclude each other")
			p.Field = "version"
			return nil, p
		}
		d, err := a.definition(ctx, c, store.DefinitionRef{Kind: in.Kind, Name: fullName(in.Kind, in.Name)}, in.Version, in.Set)
		if err != nil {
			return nil, err
		}
		return &body[client.Definition]{wireDefinition(d)}, nil
	})
	route(a, http.MethodDelete, path, ScopeDefinitions, huma.Operation{
		OperationID: "delete-definition", Summary: "Take a definition out of force", Tags: tags,
		Description: "What waits of a workflow is withdrawn, with the reason workflow_inactive; what was sent stays. A definition that others need is refused, and problems names them.",
	}, func(ctx context.Context, c Caller, in *definitionGone) (*body[client.Applied], error) {
		ref := definition.Ref{Kind: definition.Kind(in.Kind), Name: fullName(in.Kind, in.Name)}
		return a.editDefinitions(ctx, c, DefinitionEdit{Delete: []definition.Ref{ref}, DryRun: in.DryRun})
	})
}

// definition finds a version of a definition, the one of a set, or the one in force.
func (a *API) definition(ctx context.Context, c Caller, ref store.DefinitionRef, version, set int64) (store.Definition, error) {
	if version > 0 {
		d, err := a.Store.DefinitionVersion(ctx, c.Workspace.ID, ref, version)
		if errors.Is(err, store.ErrNotFound) {
			err = notFound("version of the definition")
		}
		return d, err
	}
	number, err := a.Store.DefinitionsNumber(ctx, c.Workspace.ID)
	if err != nil {
		return store.Definition{}, err
	}
	what := "definition in force"
	if set > 0 {
		what = "definition in that set"
	}
	if set <= number {
		if set == 0 {
			set = number
		}
		rows, err := a.Store.DefinitionSet(ctx, c.Workspace.ID, set)
		if err != nil {
			return store.Definition{}, err
		}
		for _, row := range rows {
			if row.Kind == ref.Kind && row.Name == ref.Name {
				return row, nil
			}
		}
	}
	return store.Definition{}, notFound(what)
}

// editDefinitions changes the definitions in force, and says what that did, or what keeps it from being done.
func (a *API) editDefinitions(ctx context.Context, c Caller, edit DefinitionEdit) (*body[client.Applied], error) {
	applied, err := a.Engine.EditDefinitions(ctx, c.Workspace, edit, Applier{c.Name, c.May(ScopeSecrets)}, once(a, c, wireApplied))
	if locked := (*job.LockedError)(nil); errors.As(err, &locked) {
		p := newProblem(http.StatusConflict, client.CodeWorkflowLocked, "workflow "+locked.Workflow+" is locked by a run; nothing was changed")
		p.Hint = "wait until run " + a.idsOf(c.Workspace).encode(key.KindRun, locked.Job) + " is done, or cancel it"
		return nil, p
	}
	if err != nil {
		return nil, fmt.Errorf("apply definitions: %w", err)
	}
	if n := definition.Errors(applied.Problems); n > 0 {
		p := newProblem(http.StatusUnprocessableEntity, client.CodeDefinitions, fmt.Sprintf("the definitions have %s; nothing was changed", count(n, "error")))
		if len(edit.Delete) > 0 {
			p = newProblem(http.StatusConflict, client.CodeNotPossible, "other definitions need it; nothing was changed")
			p.Hint = "change those first, or delete them too"
		}
		p.Problems = wireProblems(applied.Problems)
		return nil, p
	}
	return &body[client.Applied]{wireApplied(applied)}, nil
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
	out := client.Applied{Number: applied.Number, Warnings: wireProblems(applied.Problems), Changes: applied.Changes, Preview: applied.Preview}
	if out.Changes == nil {
		out.Changes = []client.DefinitionChange{}
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
