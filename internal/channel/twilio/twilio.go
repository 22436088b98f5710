// Package twilio is the channel that hands text messages and WhatsApp messages to Twilio, and takes in what Twilio calls back with.
//
//	POST {url}/2010-04-01/Accounts/{account}/Messages.json   To, From or MessagingServiceSid, Body or ContentSid, StatusCallback
//	                     2xx                  it has taken the message, and names it: {"sid": "SM…"}
//	                     401, 403             not now, and no other message either: the account or its token is refused
//	                     408, 429, 5xx        not now
//	                     anything else        never: {"code": 21211, "message": "…"}
//
// Twilio recognises no idempotency key. A message whose answer never came is settled by its first status callback, which names the delivery; so on_unknown
// is hold if nothing else is written.
//
// Callbacks are forms, signed with the account's token over the address that Twilio was given for them (X-Twilio-Signature). They carry no time, so an old
// one is as good as a new one: a reply counts once by its id, and a report never moves a status back.
package twilio

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/endpoint"
	"github.com/carillonhq/carillon/internal/outbound"
)

// The settings.
const (
	settingAccount  = "account_sid"
	settingToken    = "auth_token"
	settingOldToken = "old_auth_token"
	settingFrom     = "from"
	settingCallback = "callback_url"
	settingURL      = "url"
)

// The metadata of a message by which it is one of Twilio's content templates, which WhatsApp asks for.
const (
	metaContent   = "content_sid"
	metaVariables = "content_variables" // JSON
)

const (
	base = "https://api.twilio.com"
	// whatsApp is the kind of channel whose addresses have it as prefix at Twilio.
	whatsApp = "whatsapp"
)

// Provider returns the provider; all its channels share one client.
func Provider(client *outbound.Client) channel.Provider {
	return channel.Provider{
		Name:  "twilio",
		Doc:   "Sends text messages and WhatsApp messages by Twilio, and takes in its status callbacks and what people reply.",
		Kinds: []string{"sms", whatsApp}, Forgetful: true,
		Settings: []channel.Setting{
			{Name: settingAccount, Required: true, Doc: "The account: AC and 32 hexadecimal digits."},
			{Name: settingToken, Required: true, Secret: true, Doc: "The account's auth token. Requests are made with it, and callbacks are signed with it."},
			{Name: settingOldToken, Secret: true, Doc: "A second token with which callbacks may be signed, while the account changes to the new one."},
			{Name: settingFrom, Required: true, Free: true, Doc: "The sender: a number such as +15005550006, a name, or a messaging service (MG and 32 hexadecimal digits)."},
			{Name: settingCallback, Doc: "The public address of /v1/inbound/ and the channel's key, with ?workspace=NAME if that is not default. Twilio reports there, and its console has it for incoming messages. Without it the channel takes no callbacks."},
			{Name: settingURL, Doc: "Where the API is, for another region or a test. Default: " + base + "."},
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
			e, err := endpoint.Open(client, map[string]string{
				endpoint.SettingURL: strings.TrimSuffix(root, "/") + "/2010-04-01/Accounts/" + settings[settingAccount] + "/Messages.json",
			}, settings[settingToken], settings[settingOldToken])
			if err != nil {
				return nil, err
			}
			c := &Channel{endpoint: e, account: settings[settingAccount], token: settings[settingToken], from: settings[settingFrom], callback: settings[settingCallback]}
			for _, token := range []string{settings[settingToken], settings[settingOldToken]} {
				if token != "" {
					c.tokens = append(c.tokens, token)
				}
			}
			return c, nil
		},
	}
}

var (
	account = regexp.MustCompile(`^AC[0-9a-fA-F]{32}$`)
	service = regexp.MustCompile(`^MG[0-9a-fA-F]{32}$`)
	sender  = regexp.MustCompile(`^(\+[1-9][0-9]{4,14}|[0-9]{3,8}|[A-Za-z0-9 &+_-]{1,11})$`)
)

// check looks at the settings whose value is known.
func check(settings map[string]string) error {
	if text := settings[settingAccount]; text != "" && !account.MatchString(text) {
		return &channel.SettingError{Setting: settingAccount, Err: errors.New("must be AC and 32 hexadecimal digits")}
	}
	if text := settings[settingFrom]; text != "" && !sender.MatchString(text) && !service.MatchString(text) {
		return &channel.SettingError{Setting: settingFrom, Err: errors.New("must be a number such as +15005550006, a name of up to 11 letters and digits, or MG and 32 hexadecimal digits")}
	}
	for _, name := range []string{settingURL, settingCallback} {
		if text := settings[name]; text != "" {
			if err := endpoint.CheckAddress(name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Channel sends by one sender of an account.
type Channel struct {
	endpoint *endpoint.Endpoint
	account  string
	token    string
	tokens   []string // with which callbacks may be signed
	from     string
	callback string // empty: it takes none
}

// Send makes one request.
func (c *Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	prefix := ""
	if kind, _, _ := strings.Cut(out.Channel, ":"); kind == whatsApp {
		prefix = whatsApp + ":"
	}
	form := url.Values{"To": {prefix + out.Address}}
	if content := out.Metadata[metaContent]; content != "" && out.Turn == 0 {
		form.Set("ContentSid", content)
		if variables := out.Metadata[metaVariables]; variables != "" {
			form.Set("ContentVariables", variables)
		}
	} else {
		form.Set("Body", out.Text)
	}
	if service.MatchString(c.from) {
		form.Set("MessagingServiceSid", c.from)
	} else {
		form.Set("From", prefix+c.from)
	}
	if c.callback != "" {
		form.Set("StatusCallback", c.reportsTo(out))
	}
	header := http.Header{}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	request := http.Request{Header: header}
	request.SetBasicAuth(c.account, c.token)
	return c.endpoint.Post(ctx, endpoint.Message{
		Header: header, Body: []byte(form.Encode()), Refused: refused, ID: messageID,
		Hide: []string{header.Get("Authorization"), out.Address, out.Link, out.Text},
	})
}

// The parameters that a status callback's address has besides those of the setting.
const (
	paramDelivery = "delivery"
	paramStep     = "step"
)

// reportsTo is the address to which Twilio reports on a message.
func (c *Channel) reportsTo(out channel.Outgoing) string {
	separator := "?"
	if strings.Contains(c.callback, "?") {
		separator = "&"
	}
	return c.callback + separator + url.Values{paramDelivery: {out.DeliveryID}, paramStep: {strconv.Itoa(out.Step)}}.Encode()
}

// messageID reads Twilio's id of a message.
func messageID(body []byte) string {
	var named struct {
		SID string `json:"sid"`
	}
	if err := json.Unmarshal(body, &named); err != nil {
		return ""
	}
	return named.SID
}

// refused says what an answer other than 2xx means.
func refused(answer outbound.Response) *channel.SendError {
	e := endpoint.Refused(answer)
	var said struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(answer.Body, &said) // an answer that is no JSON has no code
	switch {
	case answer.Status == http.StatusUnauthorized, answer.Status == http.StatusForbidden:
		return channel.Away(e.Err) // of all messages, until somebody repairs the account
	case said.Code == codeQueueFull:
		return channel.Temporary(e.Err)
	}
	return e
}

// codeQueueFull: the sender has more messages waiting than Twilio takes. Its status is that of a refusal for good.
const codeQueueFull = 21611
