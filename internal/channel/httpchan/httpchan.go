// Package httpchan is the channel that hands messages to an HTTP endpoint: a gateway of one's own, a function, a
// vendor behind a small adapter.
//
// Each try is one POST of a JSON object (Body). The endpoint answers 2xx when it has taken the message, and may
// name it: {"id": "…"}. It recognises a repeated try by the header Idempotency-Key, which is the same in every try
// of one step. What else it may answer, and what follows, stands at classify.
package httpchan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/outbound"
)

const (
	// maxRetryAfter bounds what an endpoint may ask for: a day, the longest that a ladder plausibly waits.
	maxRetryAfter = 24 * time.Hour
	// maxID is how much of an endpoint's id is kept, in bytes.
	maxID = 200
)

// Body is what the endpoint receives.
type Body struct {
	ID             string `json:"id"` // of the delivery
	IdempotencyKey string `json:"idempotency_key"`
	To             string `json:"to"`
	Locale         string `json:"locale,omitempty"`
	Subject        string `json:"subject,omitempty"`
	Text           string `json:"text"`
	Link           string `json:"link,omitempty"`
	Step           int    `json:"step"`    // 1 = the message, 2 = its first reminder
	Attempt        int    `json:"attempt"` // counted over all steps
}

// Provider returns the provider; all its channels share one client.
func Provider(client *outbound.Client) channel.Provider {
	return channel.Provider{
		Name: "http",
		Doc:  "Posts every message as JSON to an HTTP endpoint.",
		Settings: []channel.Setting{
			{Name: "url", Required: true, Doc: "Where messages are posted to: http or https."},
			{Name: "token", Secret: true, Doc: "Sent as a bearer token in the header Authorization."},
		},
		Open: func(settings map[string]string) (channel.Channel, error) {
			u, err := url.Parse(settings["url"])
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
				return nil, errors.New("setting url: must be an http or https address without a user or password")
			}
			return &Channel{client: client, url: settings["url"], token: settings["token"]}, nil
		},
	}
}

// Channel posts to one endpoint.
type Channel struct {
	client *outbound.Client
	url    string
	token  string
}

// Send makes one request.
func (c *Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	body, err := json.Marshal(Body{
		ID: out.DeliveryID, IdempotencyKey: out.IdempotencyKey, To: out.Address, Locale: out.Locale,
		Subject: out.Subject, Text: out.Text, Link: out.Link, Step: out.Step, Attempt: out.Attempt,
	})
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {out.IdempotencyKey}}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.client.Do(ctx, outbound.Request{Method: http.MethodPost, URL: c.url, Header: header, Body: body})
	if err != nil {
		var failed *outbound.Error
		if errors.As(err, &failed) && failed.Sent {
			return channel.Receipt{}, channel.Lost(err)
		}
		return channel.Receipt{}, channel.Temporary(err)
	}
	if answer.Status >= 200 && answer.Status < 300 {
		return channel.Receipt{ProviderID: providerID(answer)}, nil
	}
	return channel.Receipt{}, classify(answer)
}

// classify says what an answer other than 2xx means. 408, 429 and 5xx may pass, and Retry-After is honoured;
// everything else, redirects included, is for good. The endpoint's text is not repeated: it may hold anything.
func classify(answer outbound.Response) *channel.SendError {
	err := fmt.Errorf("the endpoint answered %d %s", answer.Status, http.StatusText(answer.Status))
	switch {
	case answer.Status == http.StatusRequestTimeout, answer.Status == http.StatusTooManyRequests, answer.Status >= 500:
		e := channel.Temporary(err)
		e.RetryAfter = retryAfter(answer.Header)
		return e
	case answer.Status >= 300 && answer.Status < 400:
		return channel.Permanent(fmt.Errorf("%w: redirects are not followed", err))
	}
	return channel.Permanent(err)
}

// retryAfter reads seconds, or a date held against the answer's own date, so that no clock is compared with
// another one. What cannot be read counts as no wish.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	wish := time.Duration(0)
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		wish = time.Duration(seconds) * time.Second
	} else if until, err := http.ParseTime(value); err == nil {
		if sent, err := http.ParseTime(h.Get("Date")); err == nil {
			wish = until.Sub(sent)
		}
	}
	return min(max(wish, 0), maxRetryAfter)
}

// providerID reads {"id": …} from an answer; without one the message is accepted all the same.
func providerID(answer outbound.Response) string {
	var named struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(answer.Body, &named); err != nil {
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
	if len(text) > maxID {
		return ""
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			return ""
		}
	}
	return text
}
