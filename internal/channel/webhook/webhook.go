// Package webhook is the channel that hands messages to a receiver who wants proof of where they come from: requests
// are signed as Standard Webhooks (https://www.standardwebhooks.com) lays down, with HMAC-SHA256 under a secret that
// both sides hold.
//
//	webhook-id         the idempotency key of the step: the same in every try
//	webhook-timestamp  seconds of the Unix epoch, of this try
//	webhook-signature  v1,BASE64 over "id.timestamp.body", one for each secret, parted by blanks
//	Idempotency-Key    as webhook-id
//
// The body is the same, byte for byte, in every try of a step. While secrets are exchanged the channel signs with the
// new one (secret) and the old one (old_secret), so that receivers may hold either. A look-up is signed as a request
// without a body. What a receiver may answer, and what follows, stands at package endpoint.
package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/endpoint"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
)

const (
	secretPrefix = "whsec_"
	// The standard asks for 24 to 64 bytes.
	minSecret, maxSecret = 24, 64

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
	Delivery string          `json:"delivery"` // its id
	Workflow string          `json:"workflow,omitempty"`
	Channel  string          `json:"channel"`
	To       string          `json:"to"`
	Locale   string          `json:"locale,omitempty"`
	Subject  string          `json:"subject,omitempty"`
	Text     string          `json:"text,omitempty"`
	HTML     string          `json:"html,omitempty"`
	Link     string          `json:"link,omitempty"`
	Step     int             `json:"step"`            // 1 = the message, 2 = its first reminder
	Event    json.RawMessage `json:"event,omitempty"` // its payload
}

// Provider returns the provider; all its channels share one client.
func Provider(client *outbound.Client, c clock.Clock) channel.Provider {
	return channel.Provider{
		Name: "webhook",
		Doc:  "Posts every message as JSON, signed as Standard Webhooks lays down, so that the receiver knows where it comes from.",
		Settings: append(endpoint.Settings(),
			channel.Setting{Name: settingSecret, Required: true, Secret: true, Doc: "What requests are signed with: whsec_ and 24 to 64 bytes in base64."},
			channel.Setting{Name: settingOldSecret, Secret: true, Doc: "A second secret to sign with, while receivers change to the new one."}),
		Check:    endpoint.Check,
		Verifies: []string{endpoint.SettingLookup},
		Open: func(settings map[string]string) (channel.Channel, error) {
			e, err := endpoint.Open(client, settings, strings.TrimPrefix(settings[settingSecret], secretPrefix), strings.TrimPrefix(settings[settingOldSecret], secretPrefix))
			if err != nil {
				return nil, err
			}
			hook := &Channel{endpoint: e, now: c.Now}
			for _, name := range []string{settingSecret, settingOldSecret} {
				if name == settingOldSecret && settings[name] == "" {
					continue
				}
				signer, err := newSigner(settings[name])
				if err != nil {
					return nil, &channel.SettingError{Setting: name, Err: err}
				}
				hook.signers = append(hook.signers, signer)
			}
			return hook, nil
		},
	}
}

// newSigner reads a secret; its error never repeats it.
func newSigner(secret string) (*standardwebhooks.Webhook, error) {
	const form = "must be whsec_ and 24 to 64 bytes in base64"
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, errors.New(form)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) < minSecret || len(raw) > maxSecret {
		return nil, errors.New(form)
	}
	return standardwebhooks.NewWebhookRaw(raw)
}

// Channel posts to one receiver.
type Channel struct {
	endpoint *endpoint.Endpoint
	now      func() time.Time
	signers  []*standardwebhooks.Webhook
}

// Send makes one request.
func (c *Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	body, err := json.Marshal(Body{Type: TypeMessage, Data: Data{
		Delivery: out.DeliveryID, Workflow: out.Workflow, Channel: out.Channel, To: out.Address, Locale: out.Locale,
		Subject: out.Subject, Text: out.Text, HTML: out.HTML, Link: out.Link, Step: out.Step, Event: out.Event,
	}})
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	header, err := sign(c.signers, out.IdempotencyKey, c.now(), body)
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	header.Set("Content-Type", "application/json")
	hide := append(strings.Fields(header.Get(standardwebhooks.HeaderWebhookSignature)), out.Address, out.Link)
	return c.endpoint.Post(ctx, header, body, refused, hide...)
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
	header, err := sign(c.signers, out.IdempotencyKey, c.now(), nil)
	if err != nil {
		return channel.Receipt{}, false, channel.Permanent(err)
	}
	return c.endpoint.Find(ctx, header, out.IdempotencyKey)
}

// sign makes the headers of a request. An id with a full stop, which parts what is signed, or with anything that is
// no plain character of a header, is refused.
func sign(signers []*standardwebhooks.Webhook, id string, now time.Time, body []byte) (http.Header, error) {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '.' }) {
		return nil, errors.New("the idempotency key cannot stand in webhook-id")
	}
	signatures := make([]string, len(signers))
	for i, s := range signers {
		var err error
		if signatures[i], err = s.Sign(id, now, body); err != nil {
			return nil, err
		}
	}
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	header.Set("Idempotency-Key", id)
	return header, nil
}
