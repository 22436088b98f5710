package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/store"
)

// EditDefinitions does what the API is asked for: an apply, a deletion or a rollback.
func (o operations) EditDefinitions(ctx context.Context, ws store.Workspace, edit api.DefinitionEdit, by api.Applier, once *store.Idempotent[api.Applied]) (api.Applied, error) {
	var result engine.Applied
	var err error
	switch kept := store.From(once, applied); {
	case edit.Rollback != nil:
		r := edit.Rollback
		result, err = o.engine.Rollback(ctx, ws, engine.Rollback{
			Ref: definition.Ref{Kind: definition.Kind(r.Kind), Name: r.Name}, Version: r.Version, Set: r.Set, DryRun: edit.DryRun,
		}, engine.Applier(by), kept)
	case len(edit.Delete) == 1 && len(edit.Files) == 0:
		result, err = o.engine.DeleteDefinition(ctx, ws, edit.Delete[0], edit.DryRun, engine.Applier(by), kept)
	default:
		result, err = o.engine.EditDefinitions(ctx, ws, engine.Edit{Files: edit.Files, Prune: edit.Prune, Delete: edit.Delete, DryRun: edit.DryRun}, engine.Applier(by), kept)
	}
	return applied(result), refusedEdit(err)
}

// refusedEdit puts what keeps definitions from being changed into the words of the API.
func refusedEdit(err error) error {
	var refused *engine.SecretsError
	var absent *engine.NotInForceError
	var version *engine.NoVersionError
	switch {
	case errors.As(err, &refused):
		p := client.NewProblem(http.StatusForbidden, http.StatusText(http.StatusForbidden), client.CodeForbidden,
			"the API key lacks the scope "+string(api.ScopeSecrets)+"; "+refused.Error()+"; nothing was changed")
		p.Hint = "apply them with a key that has both scopes (carillon keys create --name NAME --scopes definitions,secrets), or take them back to what is in force"
		return p
	case errors.As(err, &absent):
		return noSuch("definition in force")
	case errors.As(err, &version):
		return noSuch("version of the definition, or set of definitions")
	}
	return err
}

func noSuch(what string) *client.Problem {
	return client.NewProblem(http.StatusNotFound, http.StatusText(http.StatusNotFound), client.CodeNotFound, "there is no such "+what)
}

func applied(r engine.Applied) api.Applied {
	a := api.Applied{Problems: r.Problems, Number: r.Number, Changes: make([]client.DefinitionChange, len(r.Changes)), SecretChanges: r.SecretChanges}
	for i, c := range r.Changes {
		a.Changes[i] = client.DefinitionChange{Kind: c.Kind, Name: c.Name, Version: c.Version, Action: c.Action, Diff: c.Diff}
	}
	if p := r.Preview; p != nil {
		a.Preview = &client.DefinitionPreview{Workflows: []client.WorkflowEffect{}, Evaluated: append([]string{}, p.Evaluated...), Limits: p.Limits, Groups: p.Groups}
		for _, c := range r.Changes {
			a.Preview.Changed = a.Preview.Changed || c.Action != store.Unchanged
		}
		if p.Refused {
			a.Preview.MissingScope = string(api.ScopeSecrets)
		}
		for _, e := range p.Effects {
			a.Preview.Workflows = append(a.Preview.Workflows, client.WorkflowEffect{
				Workflow: e.Workflow, Action: e.Action, DeliveriesFollow: e.Follow, DeliveriesKeep: e.Keep, DeliveriesWithdrawn: e.Withdrawn,
				Instances: e.Instances, InstancesWithdrawn: e.InstancesWithdrawn, CalendarMade: e.Made, CalendarMoved: e.Moved, CalendarWithdrawn: e.Ended,
			})
		}
	}
	return a
}

// DefinitionHistory lists the sets that came into force.
func (o operations) DefinitionHistory(ctx context.Context, ws store.Workspace, q client.HistoryQuery) (client.DefinitionHistory, error) {
	sets, err := o.engine.History(ctx, ws.ID, definition.Ref{Kind: definition.Kind(q.Kind), Name: q.Name}, q.Before, q.Limit)
	out := client.DefinitionHistory{Sets: make([]client.DefinitionSet, len(sets))}
	for i, s := range sets {
		one := client.DefinitionSet{Number: s.Number, At: s.At, Actor: s.Actor, Action: s.Action, Changes: make([]client.DefinitionChange, len(s.Changes))}
		for j, c := range s.Changes {
			one.Changes[j] = client.DefinitionChange{Kind: c.Kind, Name: c.Name, Version: c.Version, Action: c.Action}
		}
		out.Sets[i] = one
	}
	return out, refusedEdit(err)
}
