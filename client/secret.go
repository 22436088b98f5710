package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// States of a secret.
const (
	SecretUsable = "usable"
	SecretOldKey = "old_key" // usable; sealed with a key that is being exchanged: set it again before that key goes
	SecretSealed = "sealed"  // the server's keys do not open it
)

// Secrets lists secrets.
type Secrets struct {
	Items []Secret `json:"items" doc:"Ordered by name."`
}

// Secret describes a secret; its value is never returned.
type Secret struct {
	Name      string    `json:"name" doc:"What definitions call it."`
	UpdatedAt time.Time `json:"updated_at" doc:"When it was last set."`
	State     string    `json:"state" enum:"usable,old_key,sealed" doc:"usable: the server can open it. old_key: it is sealed with a key that is being exchanged; set it again. sealed: the keys of the server do not open it."`
}

// SecretChanged names a secret that was set or removed.
type SecretChanged struct {
	Name string `json:"name" doc:"What definitions call the secret."`
}

// SetSecret sets a secret of channels, in place of one of the same name.
func (c *Client) SetSecret(ctx context.Context, name, value string) (SecretChanged, error) {
	var answer SecretChanged
	err := c.call(ctx, http.MethodPut, "/v1/secrets/"+url.PathEscape(name), map[string]any{"value": value}, &answer)
	return answer, err
}

// Secrets lists the names of secrets.
func (c *Client) Secrets(ctx context.Context) (Secrets, error) {
	return get[Secrets](ctx, c, "/v1/secrets", nil)
}

// RemoveSecret removes a secret.
func (c *Client) RemoveSecret(ctx context.Context, name string) (SecretChanged, error) {
	var answer SecretChanged
	err := c.call(ctx, http.MethodDelete, "/v1/secrets/"+url.PathEscape(name), nil, &answer)
	return answer, err
}
