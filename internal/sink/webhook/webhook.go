// Package webhook is the sink that posts outbox events to an HTTP endpoint, signed as Standard Webhooks lays down (package signature).
//
//	POST url                      2xx                      it has taken the event
//	  webhook-id: message id      408, 425, 429, 5xx       not now; Retry-After is honoured
//	  Content-Type:               410                      it wants no event any more: the sink is disabled
//	    application/              anything else            never; redirects are not followed
//	    cloudevents+json          no answer                tried again, with the same id
//
// The body is the same, byte for byte, in every try. While secrets are exchanged, requests have two signatures. The beginning of what the
// endpoint says of a refusal is part of the error, without the values of the settings and the signatures.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/signature"
	"github.com/carillonhq/carillon/internal/sink"
)

const (
	settingURL       = "url"
	settingSecret    = "secret"
	settingOldSecret = "old_secret"
)

// Provider returns the provider; all its sinks share one client.
func Provider(client *outbound.Client, c clock.Clock) sink.Provider {
	return sink.Provider{
		Name: "webhook",
		Doc:  "Posts every event to an HTTP endpoint, signed as Standard Webhooks lays down.",
		Settings: []sink.Setting{
			{Name: settingURL, Required: true, Doc: "Where events are posted to: http or https."},
			{Name: settingSecret, Required: true, Secret: true, Doc: "What requests are signed with: whsec_ and 24 to 64 bytes in base64."},
			{Name: settingOldSecret, Secret: true, Doc: "A second secret to sign with, while the receiver changes to the new one."},
		},
		Check: check,
		Open: func(settings map[string]string) (sink.Sink, error) {
			if settings[settingURL] == "" {
				return nil, &sink.SettingError{Setting: settingURL, Err: errors.New("is missing")}
			}
			if err := check(settings); err != nil {
				return nil, err
			}
			hook := &Sink{client: client, now: c.Now, url: settings[settingURL], hide: hidden(settings[settingURL])}
			for _, name := range []string{settingSecret, settingOldSecret} {
				if name == settingOldSecret && settings[name] == "" {
					continue
				}
				key, err := signature.Parse(settings[name])
				if err != nil {
					return nil, &sink.SettingError{Setting: name, Err: err}
				}
				hook.keys, hook.hide = append(hook.keys, key), append(hook.hide, settings[name], key.Hidden())
			}
			return hook, nil
		},
	}
}

func check(settings map[string]string) error {
	text := settings[settingURL]
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Contains(text, "#") {
		return &sink.SettingError{Setting: settingURL, Err: errors.New("must be an http or https address without a user, a password and a fragment")}
	}
	return nil
}

// hidden returns the parts of an address that may hold a token: no error repeats them.
func hidden(address string) []string {
	all := []string{address}
	if u, err := url.Parse(address); err == nil {
		all = append(all, u.RequestURI(), u.Path, u.RawQuery)
	}
	return all
}

// Sink posts to one endpoint.
type Sink struct {
	client *outbound.Client
	now    func() time.Time
	url    string
	keys   []signature.Key
	hide   []string // never in an error
}

// Send makes one request.
func (s *Sink) Send(ctx context.Context, m sink.Message) error {
	header, err := signature.Sign(s.keys, m.ID, s.now(), m.Body)
	if err != nil {
		return sink.Refused(err)
	}
	header.Set("Content-Type", sink.ContentType)
	answer, err := s.client.Do(ctx, outbound.Request{Method: http.MethodPost, URL: s.url, Header: header, Body: m.Body})
	if err != nil {
		var failed *outbound.Error
		if errors.As(err, &failed) && failed.Sent {
			return sink.Lost(err)
		}
		return sink.Failed(err)
	}
	failed := refused(answer)
	if failed == nil {
		return nil
	}
	if said := outbound.Words(answer.Body, append(signature.Of(header), s.hide...)); said != "" && answer.Status >= 400 {
		failed.Err = fmt.Errorf("%w: %s", failed.Err, said)
	}
	return failed
}

// refused says what an answer means; nil: it is accepted.
func refused(answer outbound.Response) *sink.Error {
	if answer.Status >= 200 && answer.Status < 300 {
		return nil
	}
	err := fmt.Errorf("the endpoint answered %d %s", answer.Status, http.StatusText(answer.Status))
	switch {
	case answer.Status == http.StatusGone:
		return sink.NotWanted(err)
	case answer.Status == http.StatusRequestTimeout, answer.Status == http.StatusTooEarly, answer.Status == http.StatusTooManyRequests, answer.Status >= 500:
		e := sink.Failed(err)
		e.After = outbound.RetryAfter(answer.Header)
		return e
	case answer.Status >= 300 && answer.Status < 400:
		return sink.Refused(fmt.Errorf("%w: redirects are not followed; write the address that it leads to as url", err))
	}
	return sink.Refused(err)
}

// Close does nothing: the client belongs to the process.
func (s *Sink) Close() error { return nil }
