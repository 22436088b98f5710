package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/webhook"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
)

func TestReceiver(t *testing.T) {
	t.Parallel()
	const secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" //nolint:gosec // of this test
	var out strings.Builder
	handler, err := receiver(secret, &out)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	open := func(secret string) *webhook.Channel {
		client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}})
		t.Cleanup(client.Close)
		ch, err := webhook.Provider(client, &clock.System{}).Open(map[string]string{
			"url": server.URL + "/messages", "lookup": server.URL + "/messages/{key}", "secret": secret,
		})
		if err != nil {
			t.Fatal(err)
		}
		return ch.(*webhook.Channel)
	}
	message := channel.Outgoing{IdempotencyKey: "abc", Address: "crm-17", Text: "Hello"}
	ours, theirs := open(secret), open(strings.Replace(secret, "c2Vj", "AAAA", 1))
	if _, found, err := ours.Verify(t.Context(), message); err != nil || found {
		t.Errorf("before: found %v, error %v", found, err)
	}
	for range 2 {
		if got, err := ours.Send(t.Context(), message); err != nil || got.ProviderID != "abc" {
			t.Errorf("got %+v, error %v", got, err)
		}
	}
	if _, err := theirs.Send(t.Context(), message); err == nil {
		t.Error("a stranger's message was taken")
	}
	if got, found, err := ours.Verify(t.Context(), message); err != nil || !found || got.ProviderID != "abc" {
		t.Errorf("after: got %+v, found %v, error %v", got, found, err)
	}
	if got, want := out.String(), "crm-17 Hello\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
