package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
)

// wire simulates all providers. It behaves as the scenario says, keeps the messages that it accepted, and accepts a message once per
// idempotency key, like a provider that supports such keys (P3).
type wire struct {
	clock clock.Clock

	mu       sync.Mutex
	rules    map[string]*rule  // by channel key, or by the address of a document
	bodies   map[string][]byte // JSON documents by their addresses
	accepted map[string]channel.Receipt
	received []delivered
	bounces  []channel.Outgoing // accepted, and to be reported as bounced
}

// rule is how a channel behaves until it is used up.
type rule struct {
	behave behaviour
	left   int       // messages; -1 = no bound
	until  time.Time // none = no bound
}

// delivered is a message that reached its person.
type delivered struct {
	at time.Time
	channel.Outgoing
}

func newWire(c clock.Clock) *wire {
	return &wire{clock: c, rules: map[string]*rule{}, bodies: map[string][]byte{}, accepted: map[string]channel.Receipt{}}
}

// behave sets how a channel behaves from now on.
func (w *wire) behave(key string, to behaviour, times int, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if times == 0 {
		times = -1
	}
	w.rules[key] = &rule{behave: to, left: times, until: until}
}

// present returns how a channel behaves towards one more message.
func (w *wire) present(key string, now time.Time) behaviour {
	r, ok := w.rules[key]
	switch {
	case !ok:
		return behaveOK
	case !r.until.IsZero() && !now.Before(r.until), r.left == 0:
		delete(w.rules, key)
		return behaveOK
	case r.left > 0:
		r.left--
	}
	return r.behave
}

// Send accepts or refuses a message by the rule of its channel.
func (w *wire) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	switch w.present(out.Channel, now) {
	case behaveTemporary:
		return channel.Receipt{}, channel.Temporary(errors.New("the simulated provider refuses for now"))
	case behavePermanent:
		return channel.Receipt{}, channel.Permanent(errors.New("the simulated provider refuses for good"))
	case behaveDown:
		return channel.Receipt{}, channel.Away(errors.New("the simulated provider cannot be reached"))
	case behaveLoseReply:
		w.accept(out, now)
		return channel.Receipt{}, channel.Lost(errors.New("the simulated provider's answer was lost"))
	case behaveBounce:
		r := w.take(out)
		w.bounces = append(w.bounces, out)
		return r, nil
	case behaveOK, behaveGone: // the second is of sinks
	}
	return w.accept(out, now), nil
}

// bounced returns the messages that are to be reported as bounced, each once.
func (w *wire) bounced() []channel.Outgoing {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.bounces
	w.bounces = nil
	return list
}

// Document returns the document that the scenario has set for an address.
func (w *wire) Document(_ context.Context, url string) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.present(url, w.clock.Now()) {
	case behaveOK:
	case behaveDown:
		return nil, errors.New("the simulated address cannot be reached")
	case behaveTemporary, behavePermanent, behaveLoseReply, behaveGone, behaveBounce:
		return nil, errors.New("the simulated address refuses")
	}
	body, ok := w.bodies[url]
	if !ok {
		return nil, errors.New("the scenario has no http: action with a body for this address")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	err := d.Decode(&value)
	return value, err
}

// Verify says whether the wire has accepted a message, like a provider with a status API.
func (w *wire) Verify(_ context.Context, out channel.Outgoing) (channel.Receipt, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, ok := w.rules[out.Channel]; ok && r.behave == behaveDown && w.present(out.Channel, w.clock.Now()) == behaveDown {
		return channel.Receipt{}, false, channel.Away(errors.New("the simulated provider cannot be reached"))
	}
	receipt, found := w.accepted[out.IdempotencyKey]
	return receipt, found, nil
}

// accept takes a message, which reaches its person.
func (w *wire) accept(out channel.Outgoing, now time.Time) channel.Receipt {
	if _, repeated := w.accepted[out.IdempotencyKey]; !repeated {
		w.received = append(w.received, delivered{at: now, Outgoing: out})
	}
	return w.take(out)
}

// take takes a message, once for its key.
func (w *wire) take(out channel.Outgoing) channel.Receipt {
	r, ok := w.accepted[out.IdempotencyKey]
	if !ok {
		r = channel.Receipt{ProviderID: fmt.Sprintf("sim-%d", len(w.accepted)+1)}
		w.accepted[out.IdempotencyKey] = r
	}
	return r
}

// stand returns the providers, each replaced by the wire: same name, same settings, no real requests.
func (w *wire) stand(providers []channel.Provider) []channel.Provider {
	stands := make([]channel.Provider, len(providers))
	for i, p := range providers {
		p.Open = func(map[string]string) (channel.Channel, error) { return w, nil }
		stands[i] = p
	}
	return stands
}
