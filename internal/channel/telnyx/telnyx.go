// Package telnyx is the channel that hands text messages to Telnyx, and takes in what Telnyx calls back with.
//
//	POST {url}/v2/messages   {"from", "to", "text", "messaging_profile_id", "webhook_url", "tags"}
//	                     2xx                  it has taken the message, and names it: {"data": {"id": "…"}}
//	                     401, 403             not now, and no other message either: the key is refused
//	                     408, 429, 5xx        not now
//	                     anything else        never: {"errors": [{"code": "40310", "title": "…"}]}
//
// The request has the header Idempotency-Key and the same body in every try. Telnyx does not promise for messages that it honours the key, so on_unknown is hold
// if nothing else is written. A message whose answer never came is settled by its first webhook: the tags of the message name the delivery, and are signed.
package telnyx

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/endpoint"
	"github.com/carillonhq/carillon/internal/outbound"
)

// The settings.
const (
	settingKey      = "api_key"
	settingFrom     = "from"
	settingProfile  = "messaging_profile_id"
	settingPublic   = "public_key"
	settingCallback = "callback_url"
	settingURL      = "url"
)

const base = "https://api.telnyx.com"

// Provider returns the provider; all its channels share one client.
func Provider(client *outbound.Client) channel.Provider {
	return channel.Provider{
		Name:  "telnyx",
		Doc:   "Sends text messages by Telnyx, and takes in its webhooks: what became of messages, and what people reply.",
		Kinds: []string{"sms"}, Forgetful: true,
		Settings: []channel.Setting{
			{Name: settingKey, Required: true, Secret: true, Doc: "The API key."},
			{Name: settingFrom, Required: true, Free: true, Doc: "The sender: a number such as +15005550006, a short code, or a name of up to 11 letters and digits."},
			{Name: settingProfile, Free: true, Doc: "The messaging profile, where the sender is a name."},
			{Name: settingPublic, Doc: "The account's public key, in base64, by which webhooks are known to be Telnyx's. Without it the channel takes none."},
			{Name: settingCallback, Doc: "The public address of /v1/inbound/ and the channel's key, with ?workspace=NAME if that is not default. Webhooks of its messages go there; without it, where the messaging profile says."},
			{Name: settingURL, Doc: "Where the API is, for a test. Default: " + base + "."},
		},
		Check: check,
		Open: func(settings map[string]string) (channel.Channel, error) {
			if err := check(settings); err != nil {
				return nil, err
			}
			root := settings[settingURL]
			if root == "" {
				root = base
			}
			e, err := endpoint.Open(client, map[string]string{endpoint.SettingURL: strings.TrimSuffix(root, "/") + "/v2/messages"}, settings[settingKey])
			if err != nil {
				return nil, err
			}
			public, err := publicKey(settings[settingPublic])
			if err != nil {
				return nil, err
			}
			return &Channel{
				endpoint: e, key: settings[settingKey], from: settings[settingFrom], profile: settings[settingProfile], callback: settings[settingCallback], public: public,
			}, nil
		},
	}
}

var sender = regexp.MustCompile(`^(\+[1-9][0-9]{4,14}|[0-9]{3,8}|[A-Za-z0-9 ]{1,11})$`)

// check looks at the settings whose value is known.
func check(settings map[string]string) error {
	if text := settings[settingFrom]; text != "" && !sender.MatchString(text) {
		return &channel.SettingError{Setting: settingFrom, Err: errors.New("must be a number such as +15005550006, a short code, or a name of up to 11 letters and digits")}
	}
	for _, name := range []string{settingURL, settingCallback} {
		if text := settings[name]; text != "" {
			if err := endpoint.CheckAddress(name, text); err != nil {
				return err
			}
		}
	}
	_, err := publicKey(settings[settingPublic])
	return err
}

// publicKey reads the key of webhooks; empty: there is none.
func publicKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 0 && len(raw) != ed25519.PublicKeySize {
		return nil, &channel.SettingError{Setting: settingPublic, Err: errors.New("must be 32 bytes in base64")}
	}
	return raw, nil
}

// Channel sends by one sender.
type Channel struct {
	endpoint           *endpoint.Endpoint
	key, from, profile string
	callback           string            // empty: where the profile says
	public             ed25519.PublicKey // empty: it takes no webhooks
}

// message is the body of a request.
type message struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Text     string   `json:"text"`
	Profile  string   `json:"messaging_profile_id,omitempty"`
	Callback string   `json:"webhook_url,omitempty"`
	Tags     []string `json:"tags"` // the delivery, and the step
}

// tagStep begins the tag of a step.
const tagStep = "step:"

// Send makes one request.
func (c *Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	body, err := json.Marshal(message{
		From: c.from, To: out.Address, Text: out.Text, Profile: c.profile, Callback: c.callback, Tags: []string{out.DeliveryID, tagStep + strconv.Itoa(out.Step)},
	})
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Authorization", "Bearer "+c.key)
	header.Set("Idempotency-Key", out.IdempotencyKey)
	return c.endpoint.Post(ctx, endpoint.Message{
		Header: header, Body: body, Refused: refused, ID: messageID, Hide: []string{header.Get("Authorization"), out.Address, out.Link, out.Text},
	})
}

// messageID reads Telnyx's id of a message.
func messageID(body []byte) string {
	var named struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &named); err != nil {
		return ""
	}
	return named.Data.ID
}

// refused says what an answer other than 2xx means.
func refused(answer outbound.Response) *channel.SendError {
	e := endpoint.Refused(answer)
	if answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden {
		return channel.Away(e.Err) // of all messages, until somebody repairs the key
	}
	return e
}
