package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// careless is an HTTP endpoint that drops every second reply; it has accepted every other one of these requests.
type careless struct {
	*httptest.Server
	honours bool // it recognises an idempotency key

	mu       sync.Mutex
	requests int
	asked    int
	accepted map[string]int // by key
	dropped  int            // replies to requests that it had accepted
}

func newCareless(t *testing.T, honours bool) *careless {
	t.Helper()
	c := &careless{honours: honours, accepted: map[string]int{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *careless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodGet {
		c.asked++
		if c.accepted[strings.TrimPrefix(r.URL.Path, "/")] == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
		return
	}
	key := r.Header.Get("Idempotency-Key")
	c.requests++
	drop, accept := c.requests%2 == 0, c.requests%4 != 0
	if accept && (!c.honours || c.accepted[key] == 0) {
		c.accepted[key]++
	}
	if drop {
		if accept {
			c.dropped++
		}
		panic(http.ErrAbortHandler)
	}
}

// asking is the http channel of an endpoint that answers verify requests.
type asking struct {
	channel.Channel
	client *outbound.Client
	url    string
}

// Verify implements channel.Verifier.
func (a asking) Verify(ctx context.Context, out channel.Outgoing) (channel.Receipt, bool, error) {
	answer, err := a.client.Do(ctx, outbound.Request{Method: http.MethodGet, URL: a.url + "/" + out.IdempotencyKey})
	if err != nil {
		return channel.Receipt{}, false, channel.Temporary(err)
	}
	return channel.Receipt{ProviderID: "asked"}, answer.Status == http.StatusOK, nil
}

func (c *careless) provider(t *testing.T) channel.Provider {
	t.Helper()
	client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}})
	t.Cleanup(client.Close)
	p := httpchan.Provider(client)
	open := p.Open
	p.Name, p.Verifies = "careless", []string{}
	p.Open = func(settings map[string]string) (channel.Channel, error) {
		ch, err := open(settings)
		return asking{ch, client, c.URL}, err
	}
	return p
}

// A real endpoint accepts messages and drops every second reply while the sending process dies again and again: the effect of each on_unknown,
// counted by the endpoint's own log.
//
// Shows: P3, P4.
func TestOnUnknown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		channel string
		honours bool
		dies    bool
		// check checks a delivery of which unknown tries had no known outcome and of which the endpoint accepted so many requests.
		check func(row delivery.Row, unknown, accepted int) bool
	}{
		{"resend to one that honours keys", "on_unknown: resend", true, true, func(row delivery.Row, _, accepted int) bool {
			return row.Status == delivery.Sent && accepted == 1
		}},
		{"resend to one that does not", "on_unknown: resend", false, true, func(row delivery.Row, unknown, accepted int) bool {
			return row.Status == delivery.Sent && accepted >= 1 && accepted <= 1+unknown
		}},
		{"resend after the key's life", "on_unknown: resend\nidempotency_ttl: 3m", true, false, func(row delivery.Row, unknown, accepted int) bool {
			return unknown == 0 && row.Status == delivery.Sent && accepted == 1 ||
				unknown == 1 && row.Status == delivery.Unknown && row.Reason == reason.KeyExpired && accepted <= 1
		}},
		{"hold", "on_unknown: hold", false, true, func(row delivery.Row, unknown, accepted int) bool {
			return unknown == 0 && row.Status == delivery.Sent && accepted == 1 || unknown == 1 && row.Status == delivery.Unknown && accepted <= 1
		}},
		{"verify", "on_unknown: verify", false, true, func(row delivery.Row, _, accepted int) bool {
			return row.Status == delivery.Sent && accepted == 1
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				endpoint := newCareless(t, test.honours)
				dying, ticks := errors.New("died"), 0
				b := enginetest.Setup(t, s, "", func(c *engine.Config) {
					c.Providers = []channel.Provider{endpoint.provider(t)}
					c.Definitions = enginetest.Options(c.Providers)
					c.Failpoint = func(point string) error {
						if test.dies && (ticks%5 == 2 && point == sender.AfterIntent || ticks%5 == 4 && point == sender.BeforeResult) {
							return dying
						}
						return nil
					}
				})
				b.Apply(strings.ReplaceAll(alert("a", "up", "retry: {backoff: [5m, 15m], then: forever}\n"), "channel: memory", "channel: sms") +
					fmt.Sprintf("channel: sms\nprovider: careless\nsettings: {url: %q}\n%s\n", endpoint.URL, test.channel))
				const groups, each = 10, 4
				for g := range groups {
					for i := range each {
						b.Post(event("up", fmt.Sprint(g, i), fmt.Sprintf("p%d-%d@x.org", g, i)))
					}
					ticks++
					if _, err := b.Tick(t.Context()); err != nil && !errors.Is(err, dying) {
						t.Fatal(err)
					}
					b.Clock.Set(b.Clock.Now().Add(10 * time.Second))
				}
				for rounds := 0; ; rounds++ {
					due, err := b.NextDue(t.Context())
					if err != nil || rounds > 1000 {
						t.Fatalf("%d rounds: %v", rounds, err)
					}
					if due.IsZero() || due.After(enginetest.Start.Add(20*day)) {
						break
					}
					if due.After(b.Clock.Now()) {
						b.Clock.Set(due)
					}
					ticks++
					if _, err := b.Tick(t.Context()); err != nil && !errors.Is(err, dying) {
						t.Fatal(err)
					}
				}
				judge(t, b, endpoint, groups*each, test.check)
			})
		})
	}
}

func judge(t *testing.T, b *enginetest.Bundle, endpoint *careless, want int, check func(delivery.Row, int, int) bool) {
	t.Helper()
	rows, err := b.Store.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
	if err != nil || len(rows) != want {
		t.Fatalf("%d deliveries: %v", len(rows), err)
	}
	endpoint.mu.Lock()
	defer endpoint.mu.Unlock()
	if endpoint.dropped == 0 {
		t.Error("no reply was lost: nothing is shown")
	}
	extra, unknowns := 0, 0
	for _, row := range rows {
		unknown, key := 0, ""
		for _, a := range b.Attempts(row.ID) {
			if a.Outcome == delivery.AttemptUnknown {
				unknown++
			}
			key = a.IdempotencyKey
		}
		accepted := endpoint.accepted[key]
		extra, unknowns = extra+max(accepted-1, 0), unknowns+unknown
		if !check(row, unknown, accepted) {
			t.Errorf("%s %s: %d tries without an answer, accepted %d times", row.Status, row.Reason, unknown, accepted)
		}
	}
	t.Logf("%d requests, %d replies to accepted ones lost, %d unknown tries, accepted %d times too often, asked %d times",
		endpoint.requests, endpoint.dropped, unknowns, extra, endpoint.asked)
}
