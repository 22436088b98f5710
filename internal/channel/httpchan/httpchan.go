// Package httpchan is the channel that hands messages to an HTTP endpoint: a gateway of one's own, a function, a
// vendor behind a small adapter.
//
// Each try is one POST of a JSON object (Body). The endpoint recognises a repeated try by the header Idempotency-Key,
// which is the same in every try of one step. What it may answer, and what follows, stands at package endpoint.
package httpchan

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/callback"
	"github.com/carillonhq/carillon/internal/channel/endpoint"
	"github.com/carillonhq/carillon/internal/outbound"
)

// Body is what the endpoint receives.
type Body struct {
	ID             string            `json:"id"` // of the delivery
	IdempotencyKey string            `json:"idempotency_key"`
	To             string            `json:"to"`
	Locale         string            `json:"locale,omitempty"`
	Subject        string            `json:"subject,omitempty"`
	Text           string            `json:"text"`
	Link           string            `json:"link,omitempty"`
	Step           int               `json:"step"`               // 1 = the message, 2 = its first reminder
	Attempt        int               `json:"attempt"`            // counted over all steps
	Metadata       map[string]string `json:"metadata,omitempty"` // of the definition
}

// Provider returns the provider; all its channels share one client.
func Provider(client *outbound.Client) channel.Provider {
	return channel.Provider{
		Name: "http",
		Doc:  "Posts every message as JSON to an HTTP endpoint.",
		Settings: slices.Concat(endpoint.Settings(),
			[]channel.Setting{{Name: "token", Secret: true, Doc: "Sent as a bearer token in the header Authorization."}}, callback.Settings()),
		Check:    endpoint.Check,
		Verifies: []string{endpoint.SettingLookup},
		Open: func(settings map[string]string) (channel.Channel, error) {
			e, err := endpoint.Open(client, settings)
			if err != nil {
				return nil, err
			}
			in, err := callback.Open(settings)
			if err != nil {
				return nil, err
			}
			return &Channel{Receiver: in, endpoint: e, token: settings["token"]}, nil
		},
	}
}

// Channel posts to one endpoint.
type Channel struct {
	callback.Receiver

	endpoint *endpoint.Endpoint
	token    string
}

// Send makes one request.
func (c *Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	body, err := json.Marshal(Body{
		ID: out.DeliveryID, IdempotencyKey: out.IdempotencyKey, To: out.Address, Locale: out.Locale,
		Subject: out.Subject, Text: out.Text, Link: out.Link, Step: out.Step, Attempt: out.Attempt, Metadata: out.Metadata,
	})
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	header := c.header()
	header.Set("Content-Type", "application/json")
	header.Set("Idempotency-Key", out.IdempotencyKey)
	return c.endpoint.Post(ctx, endpoint.Message{Header: header, Body: body, Hide: []string{header.Get("Authorization"), out.Address, out.Link}})
}

// Verify looks the message up.
func (c *Channel) Verify(ctx context.Context, out channel.Outgoing) (channel.Receipt, bool, error) {
	return c.endpoint.Find(ctx, c.header(), out.IdempotencyKey)
}

func (c *Channel) header() http.Header {
	header := http.Header{}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	return header
}
