package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// gateway is a provider that keeps what it is sent.
type gateway struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	keys   []string
	bodies []string
	during func() // while a request is in flight
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{status: http.StatusOK}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		g.mu.Lock()
		g.keys, g.bodies = append(g.keys, r.Header.Get("Idempotency-Key")), append(g.bodies, string(raw))
		status, during := g.status, g.during
		g.mu.Unlock()
		if during != nil {
			during()
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"id":"gw-1"}`)
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *gateway) answer(status int, during func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status, g.during = status, during
}

func (g *gateway) requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.keys)
}

const gatewayChannel = `
channel: sms:gateway
provider: http
settings:
  url: URL/send
  token: {secret: GATEWAY}
rate: 1/h
concurrency: 2
timeout: 10s
idempotency_ttl: 24h
only_to: ["+964*"]
`

func (b *bundle) gateway() *gateway {
	b.Helper()
	g := newGateway(b.T)
	if _, err := b.SetSecret(b.Context(), "GATEWAY", "hunter2"); err != nil {
		b.Fatal(err)
	}
	b.apply(strings.Replace(gatewayChannel, "URL", g.URL, 1))
	return g
}

func (b *bundle) channel(key string) client.Channel {
	b.Helper()
	list, err := b.Channels(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range list.Items {
		if c.Key == key {
			return c
		}
	}
	b.Fatalf("no channel %s in %+v", key, list)
	return client.Channel{}
}

// A test leaves by the channel as every message does, is answered with what became of it, and is seen in the channel's
// state and in the audit log.
func TestChannels(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx, g := t.Context(), b.gateway()
		want := client.Channel{
			Key: "sms:gateway", Kind: "sms", Provider: "http", OnUnknown: "resend", IdempotencyTTL: "24h", Rate: "1/h", Concurrency: 2, Timeout: "10s",
			OnlyTo: []string{"+964*"}, State: client.ChannelState{Breaker: client.BreakerClosed},
		}
		if diff := cmp.Diff(want, b.channel("sms:gateway")); diff != "" {
			t.Errorf("before its use (-want +got):\n%s", diff)
		}
		test := client.ChannelTest{To: "+9647700000001", Subject: "Hello", Text: "Only a test"}
		try := func(to string, want client.ChannelTested, requests int) {
			t.Helper()
			test := test
			test.To = to
			before := g.requests()
			got, err := b.TestChannel(ctx, "sms:gateway", test)
			if err != nil {
				t.Fatal(err)
			}
			want.Message = reason.Reason(want.Reason).Sentence()
			if !strings.Contains(got.Error, want.Error) || want.Error == "" && got.Error != "" {
				t.Errorf("%s: error %q, want %q", to, got.Error, want.Error)
			}
			got.Error = want.Error
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", to, diff)
			}
			if made := g.requests() - before; made != requests {
				t.Errorf("%s: %d requests, want %d", to, made, requests)
			}
		}
		accepted := client.ChannelTested{Accepted: true, Outcome: "delivered", Reason: "delivered", ProviderID: "gw-1"}
		g.answer(http.StatusOK, func() {
			if in := b.channel("sms:gateway").State.InFlight; in != 1 {
				t.Errorf("%d in flight", in)
			}
		})
		try(test.To, accepted, 1)
		g.answer(http.StatusOK, nil)
		try(test.To, accepted, 1) // no place in the rate is taken
		if g.keys[0] == g.keys[1] || !strings.Contains(g.bodies[0], `"text":"Only a test"`) {
			t.Errorf("keys %q, body %s", g.keys, g.bodies[0])
		}
		g.answer(http.StatusBadRequest, nil)
		try(test.To, client.ChannelTested{Outcome: "failed", Reason: "permanent_error", Error: "400"}, 1)
		try("+49170000000", client.ChannelTested{Outcome: "none", Reason: "not_allowed", Error: "only_to"}, 0)

		b.post(b.Client, client.Event{ID: "s", Kind: "signed-up", Payload: map[string]any{"name": "Ada"}, Recipient: &client.Recipient{Address: "+964 770 000 0009", CustomerRef: "ada"}})
		if _, err := b.PutContact(ctx, client.ContactInput{ID: "ada", Addresses: map[string]string{"sms": "+964 770 000 0009"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.SuppressContact(ctx, "ada", "asked"); err != nil {
			t.Fatal(err)
		}
		try("+9647700000009", client.ChannelTested{Outcome: "none", Reason: "suppressed", Error: "suppressed"}, 0)

		g.answer(http.StatusServiceUnavailable, nil)
		for range flow.Threshold {
			try(test.To, client.ChannelTested{Outcome: "failed", Reason: "temporary_error", Error: "503"}, 1)
		}
		try(test.To, client.ChannelTested{Outcome: "none", Reason: "channel_down", Error: "left alone until 2026-05-14T05:12:44Z"}, 0)
		state := b.channel("sms:gateway").State
		if !strings.Contains(state.LastFailure, "503") {
			t.Errorf("last failure %q", state.LastFailure)
		}
		state.LastFailure = ""
		down := client.ChannelState{
			Breaker: client.BreakerOpen, OpenUntil: start.Add(10 * time.Second), Failures: flow.Threshold, LastAcceptedAt: start, LastFailedAt: start,
		}
		if diff := cmp.Diff(down, state); diff != "" {
			t.Errorf("when it is away (-want +got):\n%s", diff)
		}
		b.clock.Set(down.OpenUntil)
		g.answer(http.StatusOK, nil)
		try(test.To, accepted, 1)
		if s := b.channel("sms:gateway").State; s.Breaker != client.BreakerClosed || s.LastAcceptedAt != down.OpenUntil {
			t.Errorf("after the probe: %+v", s)
		}

		if _, err := b.RemoveSecret(ctx, "GATEWAY"); err != nil {
			t.Fatal(err)
		}
		b.clock.Set(start.Add(time.Minute))
		try(test.To, client.ChannelTested{Outcome: "none", Reason: "secret_missing", Error: "no secret named GATEWAY"}, 0)

		_, text := b.ask(http.MethodGet, "/v1/channels", "")
		if strings.Contains(text, "hunter2") || strings.Contains(text, g.URL) {
			t.Errorf("the answer contains a setting: %s", text)
		}
		log, err := b.app.Store().AuditLog(ctx, b.app.Workspace().ID, store.Page{Limit: 1})
		if err != nil || len(log) != 1 {
			t.Fatal(log, err)
		}
		if diff := cmp.Diff(store.Audit{ID: log[0].ID, At: b.clock.Now(), Actor: "admin", Action: "test channel", Target: "sms:gateway"}, log[0]); diff != "" {
			t.Errorf("audit (-want +got):\n%s", diff)
		}
		list, err := b.Deliveries(ctx, client.DeliveryQuery{Channel: "sms:gateway"})
		if err != nil || len(list.Items) != 0 {
			t.Errorf("deliveries: %+v, %v", list, err)
		}
	})
}

// A request that comes again sends nothing: neither after the first was answered, nor while it is in flight.
func TestTestOfAChannelOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		g := b.gateway()
		const path, body = "/v1/channels/sms:gateway/test", `{"to":"+9647700000001"}`
		var meanwhile reply
		g.answer(http.StatusOK, func() { meanwhile = b.once(b.key, "k", http.MethodPost, path, body) })
		first := b.once(b.key, "k", http.MethodPost, path, body)
		g.answer(http.StatusOK, nil)
		again := b.once(b.key, "k", http.MethodPost, path, body)
		if !strings.Contains(first.body, `"accepted":true`) || first.replayed || again != (reply{first.status, first.body, true}) {
			t.Errorf("first %+v, again %+v", first, again)
		}
		if !meanwhile.replayed || !strings.Contains(meanwhile.body, `"accepted":false,"outcome":"unknown","reason":"reply_lost"`) {
			t.Errorf("meanwhile %+v", meanwhile)
		}
		if g.requests() != 1 {
			t.Errorf("%d requests", g.requests())
		}
		var p *client.Problem
		if _, err := b.TestChannel(t.Context(), "sms", client.ChannelTest{To: "x"}); !errors.As(err, &p) || p.Status != http.StatusNotFound {
			t.Errorf("a channel that is not defined: %v", err)
		}
	})
}
