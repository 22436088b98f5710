package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
)

func secret(fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

// open makes a channel on the machine's time, which receivers hold timestamps against.
func open(t *testing.T, settings map[string]string) channel.Channel {
	t.Helper()
	client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}})
	t.Cleanup(client.Close)
	ch, err := Provider(client, &clock.System{}).Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func outgoing() channel.Outgoing {
	return channel.Outgoing{
		DeliveryID: "d_1", Workflow: "parcel-ready", Channel: "webhook:crm", IdempotencyKey: "0f6b870a8", Address: "crm-17",
		Locale: "de", Subject: "Hallo", Text: "<Guten Tag>", Link: "https://x.test/s/1", Step: 2, Attempt: 3,
		Event: []byte(`{"order": 17}`), Metadata: map[string]string{"ward": "3", "campaign": "spring"},
	}
}

// seen is what a receiver got.
type seen struct {
	method, path string
	header       http.Header
	body         []byte
}

// receiver keeps requests and answers each with status and body.
func receiver(t *testing.T, status int, body string) (url string, requests *[]seen) {
	t.Helper()
	requests = new([]seen)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		*requests = append(*requests, seen{r.Method, r.URL.RequestURI(), r.Header, raw})
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func verifies(t *testing.T, secret string, r seen) bool {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Verify(r.body, r.header) == nil
}

// A receiver with the standard's own library takes what was signed with its secret, the old one included, and nothing
// else; every try of a step has the same id and the same body.
//
// Shows: C42, P3.
func TestSendIsSigned(t *testing.T) {
	t.Parallel()
	url, requests := receiver(t, http.StatusAccepted, `{"id":"m-1"}`)
	ch := open(t, map[string]string{"url": url + "/hook", "secret": secret(1), "old_secret": secret(2)})
	first, second := outgoing(), outgoing()
	second.Attempt++
	for _, out := range []channel.Outgoing{first, second} {
		if got, err := ch.Send(t.Context(), out); err != nil || got.ProviderID != "m-1" {
			t.Fatalf("got %+v, error %v", got, err)
		}
	}
	for _, r := range *requests {
		if !verifies(t, secret(1), r) || !verifies(t, secret(2), r) || verifies(t, secret(3), r) {
			t.Errorf("the signatures %q do not fit the secrets", r.header.Get("webhook-signature"))
		}
		forged := r
		forged.body = append([]byte(" "), r.body...)
		if verifies(t, secret(1), forged) {
			t.Error("a changed body verifies")
		}
		for name, want := range map[string]string{
			"webhook-id": "0f6b870a8", "Idempotency-Key": "0f6b870a8", "Content-Type": "application/json",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("header %s is %q, want %q", name, got, want)
			}
		}
	}
	want := `{"type":"message.send","data":{"delivery":"d_1","workflow":"parcel-ready","channel":"webhook:crm","to":"crm-17",` +
		`"locale":"de","subject":"Hallo","text":"\u003cGuten Tag\u003e","link":"https://x.test/s/1","step":2,"event":{"order":17},"metadata":{"campaign":"spring","ward":"3"}}}`
	if got := string((*requests)[0].body); got != want {
		t.Errorf("got body\n%s\nwant\n%s", got, want)
	}
	if !bytes.Equal((*requests)[0].body, (*requests)[1].body) {
		t.Error("the second try has another body")
	}
	if err := json.Unmarshal((*requests)[0].body, new(Body)); err != nil {
		t.Error(err)
	}
}

// What a receiver refuses may pass and says nothing of other messages, but for what is gone; a redirect is not followed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct{ retry, away bool }{
		301: {}, 307: {}, 400: {retry: true}, 401: {retry: true}, 403: {retry: true}, 404: {retry: true}, 405: {retry: true}, 408: {retry: true},
		409: {retry: true}, 410: {}, 413: {retry: true}, 422: {retry: true}, 429: {retry: true}, 451: {retry: true},
		500: {retry: true, away: true}, 503: {retry: true, away: true},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			url, _ := receiver(t, status, "")
			_, err := open(t, map[string]string{"url": url, "secret": secret(1)}).Send(t.Context(), outgoing())
			var refused *channel.SendError
			if !errors.As(err, &refused) || refused.Retry != want.retry || refused.Away != want.away || refused.Unknown || refused.RetryAfter != 0 {
				t.Errorf("got %+v, want %+v", refused, want)
			}
		})
	}
}

// A refusal is kept in the receiver's own words, without the secrets and the signature.
func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "unknown subscriber: %s, %s, %s", r.Header.Get("webhook-signature"), secret(1), strings.TrimPrefix(secret(2), "whsec_"))
	}))
	t.Cleanup(server.Close)
	_, err := open(t, map[string]string{"url": server.URL, "secret": secret(1), "old_secret": secret(2)}).Send(t.Context(), outgoing())
	if want := "temporary_error: the endpoint answered 400 Bad Request: unknown subscriber: *** ***, ***, ***"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		body   string
		id     string
		found  bool
		fails  bool
	}{
		{name: "it has it", status: 200, body: `{"id":"m-1"}`, id: "m-1", found: true},
		{name: "it has not", status: 404},
		{name: "no id", status: 200, body: `{}`, fails: true},
		{name: "null", status: 200, body: `{"id":null}`, fails: true},
		{name: "a page", status: 200, body: `<html>`, fails: true},
		{name: "gone", status: 410, fails: true},
		{name: "not allowed", status: 401, fails: true},
		{name: "redirect", status: 302, fails: true},
		{name: "away", status: 503, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, requests := receiver(t, tt.status, tt.body)
			ch, ok := open(t, map[string]string{"url": url, "secret": secret(1), "lookup": url + "/messages/{key}?of={key}"}).(channel.Verifier)
			if !ok {
				t.Fatal("the channel does not verify")
			}
			out := outgoing()
			out.IdempotencyKey = "a/b?c&d+e"
			receipt, found, err := ch.Verify(t.Context(), out)
			var refused *channel.SendError
			if receipt.ProviderID != tt.id || found != tt.found || (err != nil) != tt.fails || tt.fails && (!errors.As(err, &refused) || !refused.Retry) {
				t.Errorf("got %+v, found %v, error %v", receipt, found, err)
			}
			r := (*requests)[0]
			if r.method != http.MethodGet || r.path != "/messages/a%2Fb%3Fc%26d%2Be?of=a%2Fb%3Fc%26d%2Be" || len(*requests) != 1 {
				t.Errorf("%d requests, the first %s %s", len(*requests), r.method, r.path)
			}
			if !verifies(t, secret(1), r) {
				t.Error("the look-up is not signed")
			}
		})
	}
}

func TestVerifyWithoutReceiver(t *testing.T) {
	t.Parallel()
	ch := open(t, map[string]string{"url": "https://x.test", "secret": secret(1), "lookup": "http://127.0.0.1:1/{key}"}).(channel.Verifier)
	if _, found, err := ch.Verify(t.Context(), outgoing()); err == nil || found {
		t.Errorf("found %v, error %v", found, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ url, secret, old, lookup, want string }{
		"no secret":    {url: "https://x.test", want: "setting secret: "},
		"no prefix":    {url: "https://x.test", secret: strings.TrimPrefix(secret(1), "whsec_"), want: "setting secret: "},
		"short":        {url: "https://x.test", secret: "whsec_aGVsbG8=", want: "setting secret: "},
		"no base64":    {url: "https://x.test", secret: "whsec_" + strings.Repeat("ü", 20), want: "setting secret: "},
		"old":          {url: "https://x.test", secret: secret(1), old: "whsec_old", want: "setting old_secret: "},
		"url":          {url: "ftp://x.test", secret: secret(1), want: "setting url: "},
		"user":         {url: "https://u:p@x.test", secret: secret(1), want: "setting url: "},
		"no url":       {secret: secret(1), want: "setting url: "},
		"lookup":       {url: "https://x.test", secret: secret(1), lookup: "https://x.test/messages", want: "setting lookup: "},
		"key as host":  {url: "https://x.test", secret: secret(1), lookup: "https://{key}.x.test/", want: "setting lookup: "},
		"key in front": {url: "https://x.test", secret: secret(1), lookup: "https://x.test/#{key}", want: "setting lookup: "},
	} {
		_, err := Provider(nil, &clock.System{}).Open(map[string]string{"url": tt.url, "secret": tt.secret, "old_secret": tt.old, "lookup": tt.lookup})
		var wrong *channel.SettingError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
			continue
		}
		for _, value := range []string{tt.secret, tt.old, tt.url} {
			if len(value) > 1 && strings.Contains(err.Error(), value) {
				t.Errorf("%s: the error repeats a value: %v", name, err)
			}
		}
	}
}

func TestSendRefusesIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a.b", "a\r\nX-Evil: 1", "a b", "ä", "a\x00"} {
		out := outgoing()
		out.IdempotencyKey = id
		url, requests := receiver(t, 200, "")
		_, err := open(t, map[string]string{"url": url, "secret": secret(1)}).Send(t.Context(), out)
		var refused *channel.SendError
		if !errors.As(err, &refused) || refused.Reason != reason.PermanentError || len(*requests) != 0 {
			t.Errorf("%q: got %v and %d requests", id, err, len(*requests))
		}
	}
}
