// Package webhook is the channel that hands messages to a receiver who wants proof of where they come from: requests
// are signed as Standard Webhooks lays down (package signature), with webhook-id = the idempotency key of the step, which is the same in every
// try and also stands in Idempotency-Key.
//
// The body is the same, byte for byte, in every try of a step. While secrets are exchanged the channel signs with the
// new one (secret) and the old one (old_secret), so that receivers may hold either. A look-up is signed as a request
// without a body. What a receiver may answer, and what follows, stands at package endpoint.
package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/callback"
	"github.com/carillonhq/carillon/internal/channel/endpoint"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/signature"
)

const (
	settingSecret    = "secret"
	settingOldSecret = "old_secret"
)

// TypeMessage is the type of every request.
const TypeMessage = "message.send"

// Body is what the receiver gets.
type Body struct {
	Type string `json:"type"` // message.send
	Data Data   `json:"data"`
}

// Data is one message to one person.
type Data struct {
	Delivery string            `json:"delivery"` // its id
	Workflow string            `json:"workflow,omitempty"`
	Channel  string            `json:"channel"`
	To       string            `json:"to"`
	Locale   string            `json:"locale,omitempty"`
	Subject  string            `json:"subject,omitempty"`
	Text     string            `json:"text,omitempty"`
	HTML     string            `json:"html,omitempty"`
	Link     string            `json:"link,omitempty"`
	Step     int               `json:"step"`               // 1 = the message, 2 = its first reminder
	Event    json.RawMessage   `json:"event,omitempty"`    // its payload
	Metadata map[string]string `json:"metadata,omitempty"` // of the definition
}

// Provider returns the provider; all its channels share one client.
func Provider(client *outbound.Client, c clock.Clock) channel.Provider {
	return channel.Provider{
		Name: "webhook",
		Doc:  "Posts every message as JSON, signed as Standard Webhooks lays down, so that the receiver knows where it comes from.",
		Settings: slices.Concat(endpoint.Settings(), []channel.Setting{
			{Name: settingSecret, Required: true, Secret: true, Doc: "What requests are signed with: whsec_ and 24 to 64 bytes in base64."},
			{Name: settingOldSecret, Secret: true, Doc: "A second secret to sign with, while receivers change to the new one."},
		}, callback.Settings()),
		Check:    endpoint.Check,
		Verifies: []string{endpoint.SettingLookup},
		Open: func(settings map[string]string) (channel.Channel, error) {
			var keys []signature.Key
			var hide []string
			for _, name := range []string{settingSecret, settingOldSecret} {
				if name == settingOldSecret && settings[name] == "" {
					continue
				}
				key, err := signature.Parse(settings[name])
				if err != nil {
					return nil, &channel.SettingError{Setting: name, Err: err}
				}
				keys, hide = append(keys, key), append(hide, key.Hidden())
			}
			e, err := endpoint.Open(client, settings, hide...)
			if err != nil {
				return nil, err
			}
			in, err := callback.Open(settings)
			if err != nil {
				return nil, err
			}
			return &Channel{Receiver: in, endpoint: e, now: c.Now, keys: keys}, nil
		},
	}
}

// Channel posts to one receiver.
type Channel struct {
	callback.Receiver

	endpoint *endpoint.Endpoint
	now      func() time.Time
	keys     []signature.Key
}

// Send makes one request.
func (c *Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	body, err := json.Marshal(Body{Type: TypeMessage, Data: Data{
		Delivery: out.DeliveryID, Workflow: out.Workflow, Channel: out.Channel, To: out.Address, Locale: out.Locale,
		Subject: out.Subject, Text: out.Text, HTML: out.HTML, Link: out.Link, Step: out.Step, Event: out.Event, Metadata: out.Metadata,
	}})
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	header, err := c.sign(out.IdempotencyKey, body)
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	header.Set("Content-Type", "application/json")
	hide := append(signature.Of(header), out.Address, out.Link)
	return c.endpoint.Post(ctx, endpoint.Message{Header: header, Body: body, Refused: refused, Hide: hide})
}

// refused classifies an answer other than 2xx. A receiver is the user's own program: its owner repairs a wrong address, an
// expired client certificate or a proxy's login, and then wants all messages of the meantime. So a 4xx is temporary and concerns this
// message only. Only 410 (Standard Webhooks) and a redirect, which is not followed, are permanent.
func refused(answer outbound.Response) *channel.SendError {
	e := endpoint.Refused(answer)
	if answer.Status >= 400 && answer.Status < 500 && answer.Status != http.StatusGone && !e.Retry {
		return channel.Temporary(e.Err)
	}
	return e
}

// Verify looks the message up.
func (c *Channel) Verify(ctx context.Context, out channel.Outgoing) (channel.Receipt, bool, error) {
	header, err := c.sign(out.IdempotencyKey, nil)
	if err != nil {
		return channel.Receipt{}, false, channel.Permanent(err)
	}
	return c.endpoint.Find(ctx, header, out.IdempotencyKey)
}

// sign makes the headers of a request.
func (c *Channel) sign(id string, body []byte) (http.Header, error) {
	header, err := signature.Sign(c.keys, id, c.now(), body)
	if err != nil {
		return nil, err
	}
	header.Set("Idempotency-Key", id)
	return header, nil
}
