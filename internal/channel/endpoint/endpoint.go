// Package endpoint is what providers share that hand messages to an HTTP endpoint of the user's own: where it may be,
// what its answers mean, and the look-up of a message whose answer never came.
//
//	POST url             2xx                  it has taken the message, and may name it: {"id": "…"}
//	                     408, 429, 5xx        not now; Retry-After is honoured
//	                     anything else        never; redirects are not followed
//	                     no answer            outcome unknown, once the request has left
//	GET lookup {key}     200 with {"id": "…"} it has taken the message
//	                     404                  it surely has not
//	                     anything else        outcome not known yet
//
// It knows nothing of what the body holds and of how requests are signed: providers do. The beginning of what an endpoint says
// of a refusal is part of the error, without control characters, the values of the channel's settings and what the provider
// names as secret (outbound.Words).
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/outbound"
)

const (
	// maxID is how much of an endpoint's id is kept, in bytes.
	maxID = 200
	// keyMark stands in a look-up's address for the idempotency key.
	keyMark = "{key}"
)

// The settings of every such provider.
const (
	SettingURL    = "url"
	SettingLookup = "lookup"
)

// Settings describes them.
func Settings() []channel.Setting {
	return []channel.Setting{
		{Name: SettingURL, Required: true, Doc: "Where messages are posted to: http or https."},
		{Name: SettingLookup, Doc: "Where a message is looked up whose answer never came, with {key} for its idempotency key: https://example.org/messages/{key}. Needed for on_unknown: verify."},
	}
}

// Check looks at those whose value is known.
func Check(settings map[string]string) error {
	if text := settings[SettingURL]; text != "" {
		if _, err := address(SettingURL, text); err != nil {
			return err
		}
	}
	if text := settings[SettingLookup]; text != "" {
		return checkLookup(text)
	}
	return nil
}

// checkLookup: a key that could stand in the host would let it decide where the request goes.
func checkLookup(text string) error {
	u, err := address(SettingLookup, text)
	if err != nil {
		return err
	}
	// Parsed, the marks of the path are decoded and those of the query stand as written.
	if strings.Contains(u.Host, keyMark) || !strings.Contains(u.Path, keyMark) && !strings.Contains(u.RawQuery, keyMark) {
		return &channel.SettingError{Setting: SettingLookup, Err: errors.New("must hold {key} in its path or query, such as https://example.org/messages/{key}")}
	}
	return nil
}

// CheckAddress checks that a setting is an http or https address.
func CheckAddress(setting, text string) error {
	_, err := address(setting, text)
	return err
}

func address(setting, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, &channel.SettingError{Setting: setting, Err: errors.New("must be an http or https address without a user or password")}
	}
	return u, nil
}

// Endpoint is one place that takes messages. It is safe for concurrent use.
type Endpoint struct {
	client *outbound.Client
	url    string
	lookup string
	hide   []string // never in an error
}

// Open makes an endpoint of resolved settings. Their values, and what is to be hidden besides, are never part of an error.
func Open(client *outbound.Client, settings map[string]string, hide ...string) (*Endpoint, error) {
	e := &Endpoint{client: client, url: settings[SettingURL], lookup: settings[SettingLookup], hide: hide}
	for name, value := range settings {
		e.hide = append(e.hide, value)
		if u, err := url.Parse(value); err == nil && (name == SettingURL || name == SettingLookup) {
			e.hide = append(e.hide, u.RequestURI(), u.Path, u.RawQuery)
		}
	}
	if _, err := address(SettingURL, e.url); err != nil {
		return nil, err
	}
	return e, Check(settings)
}

// Message is the request that hands one over.
type Message struct {
	Header http.Header
	Body   []byte
	// Refused says what an answer other than 2xx means; nil: as Refused has it.
	Refused func(outbound.Response) *channel.SendError
	// ID reads the endpoint's id of the message from an answer, empty if there is none; nil: {"id": …}.
	ID   func(body []byte) string
	Hide []string // never in an error
}

// Post hands a message over by one request. The errors are *channel.SendError, with what the endpoint says of a refusal.
func (e *Endpoint) Post(ctx context.Context, m Message) (channel.Receipt, error) {
	answer, err := e.client.Do(ctx, outbound.Request{Method: http.MethodPost, URL: e.url, Header: m.Header, Body: m.Body})
	if err != nil {
		var failed *outbound.Error
		if errors.As(err, &failed) && failed.Sent {
			return channel.Receipt{}, channel.Lost(err)
		}
		return channel.Receipt{}, channel.Away(err)
	}
	if answer.Status >= 200 && answer.Status < 300 {
		id := providerID
		if m.ID != nil {
			id = m.ID
		}
		return channel.Receipt{ProviderID: Plain(id(answer.Body))}, nil
	}
	refused := Refused
	if m.Refused != nil {
		refused = m.Refused
	}
	failed := refused(answer)
	if said := outbound.Words(answer.Body, slices.Concat(e.hide, m.Hide)); said != "" && answer.Status >= 400 {
		failed.Err = fmt.Errorf("%w: %s", failed.Err, said)
	}
	return channel.Receipt{}, failed
}

// Find looks a message up by its idempotency key, as channel.Verifier asks. A look-up changes nothing, so each of its
// errors may pass.
func (e *Endpoint) Find(ctx context.Context, header http.Header, key string) (channel.Receipt, bool, error) {
	if e.lookup == "" {
		return channel.Receipt{}, false, channel.Temporary(errors.New("the channel has no setting lookup"))
	}
	answer, err := e.client.Do(ctx, outbound.Request{
		Method: http.MethodGet, URL: strings.ReplaceAll(e.lookup, keyMark, escape(key)), Header: header,
	})
	if err != nil {
		return channel.Receipt{}, false, channel.Away(fmt.Errorf("look-up: %w", err))
	}
	if answer.Status == http.StatusNotFound {
		return channel.Receipt{}, false, nil
	}
	refused := channel.Temporary(fmt.Errorf("the look-up answered %d %s", answer.Status, http.StatusText(answer.Status)))
	if answer.Status == http.StatusOK {
		if id := Plain(providerID(answer.Body)); id != "" {
			return channel.Receipt{ProviderID: id}, true, nil
		}
		refused.Err = errors.New("the look-up answered 200 without an id")
	}
	refused.RetryAfter, refused.Away = outbound.RetryAfter(answer.Header), answer.Status >= 500
	return channel.Receipt{}, false, refused
}

// escape writes everything as %XX that is not unreserved (RFC 3986, 2.3): it serves in a path and in a query.
func escape(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "+", "%20") }

// Refused says what an answer other than 2xx of a provider means, which knows what it refuses.
func Refused(answer outbound.Response) *channel.SendError {
	err := fmt.Errorf("the endpoint answered %d %s", answer.Status, http.StatusText(answer.Status))
	switch {
	case answer.Status == http.StatusRequestTimeout, answer.Status == http.StatusTooManyRequests, answer.Status >= 500:
		e := channel.Temporary(err)
		e.RetryAfter, e.Away = outbound.RetryAfter(answer.Header), answer.Status >= 500
		return e
	case answer.Status >= 300 && answer.Status < 400:
		return channel.Permanent(fmt.Errorf("%w: redirects are not followed", err))
	}
	return channel.Permanent(err)
}

// providerID reads {"id": …}, a text or a number, from an answer; without one the message is accepted all the same.
func providerID(body []byte) string {
	var named struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(body, &named); err != nil || bytes.Equal(named.ID, []byte("null")) {
		return ""
	}
	var text string
	if err := json.Unmarshal(named.ID, &text); err != nil {
		var number json.Number
		if err := json.Unmarshal(named.ID, &number); err != nil {
			return ""
		}
		text = number.String()
	}
	return text
}

// maxAddress bounds the address of a person, in bytes.
const maxAddress = 254

// Address returns the address of a person as a provider writes it, without blanks around it; empty if it is none.
func Address(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxAddress || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return ""
	}
	return text
}

// Plain returns the id that a provider has given to a message; empty if it is too long, or holds what no id does.
func Plain(id string) string {
	if len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		return ""
	}
	return id
}
