package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store"
)

// Secrets keeps the secrets of channels. Nothing that it returns contains a value.
type Secrets interface {
	SetSecret(ctx context.Context, ws store.Workspace, actor, name string, value secret.Value) error
	Secrets(ctx context.Context, ws store.Workspace) (client.Secrets, error)
	RemoveSecret(ctx context.Context, ws store.Workspace, actor, name string) error
}

type secretName struct {
	Name string `path:"name" minLength:"1" maxLength:"100" doc:"What definitions call it: {secret: NAME}."`
}

type setSecret struct {
	Name string `path:"name" minLength:"1" maxLength:"100" doc:"What definitions call it: {secret: NAME}."`
	Body struct {
		Value string `json:"value" minLength:"1" maxLength:"16384" doc:"The secret. It is sealed, and cannot be read again." format:"password" writeOnly:"true"`
	}
}

// secretPath is where a secret is set and removed. Doing it again changes nothing, and what is kept of requests with an
// Idempotency-Key holds no hash of a secret.
const secretPath = "/v1/secrets/{name}"

func (a *API) secrets() {
	tags := []string{"secrets"}
	route(a, http.MethodPut, secretPath, ScopeSecrets, huma.Operation{
		OperationID: "set-secret", Summary: "Set a secret, in place of one of the same name", Tags: tags,
		Description: "Channels that use it take the new value within seconds. It is audited.",
	}, func(ctx context.Context, c Caller, in *setSecret) (*body[client.SecretChanged], error) {
		if err := a.Secrets.SetSecret(ctx, c.Workspace, c.Name, in.Name, secret.New(in.Body.Value)); err != nil {
			return nil, err
		}
		return &body[client.SecretChanged]{client.SecretChanged{Name: in.Name}}, nil
	})
	route(a, http.MethodGet, "/v1/secrets", ScopeDefinitions, huma.Operation{
		OperationID: "list-secrets", Summary: "The names of secrets; never a value", Tags: tags,
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.Secrets], error) {
		list, err := a.Secrets.Secrets(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		return &body[client.Secrets]{list}, nil
	})
	route(a, http.MethodDelete, secretPath, ScopeSecrets, huma.Operation{
		OperationID: "remove-secret", Summary: "Remove a secret", Tags: tags,
		Description: "Messages of channels that use it fail for now, with reason secret_missing. It is audited.",
	}, func(ctx context.Context, c Caller, in *secretName) (*body[client.SecretChanged], error) {
		if err := a.Secrets.RemoveSecret(ctx, c.Workspace, c.Name, in.Name); err != nil {
			return nil, err
		}
		return &body[client.SecretChanged]{client.SecretChanged{Name: in.Name}}, nil
	})
}
