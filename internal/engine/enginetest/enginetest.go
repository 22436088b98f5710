// Package enginetest sets up an engine for a test: a store, a clock that stands still, and a provider that the test controls. It is for tests only.
package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/stage/reschedule"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
)

// Start is the instant at which every test begins: the arrival of the worked example's event.
var Start = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)

// Bundle is an engine with everything around it.
type Bundle struct {
	testing.TB
	*engine.Engine
	Store     *store.Store
	Clock     *clock.Manual
	Provider  *Provider
	Sinks     *Sinks
	Workspace store.Workspace

	applied bool
	mu      sync.Mutex
	entries []journal.Entry
}

// unlimited is the workspace of tests that define none: they test other things than limits.
const unlimited = "workspace: default\ncadence: {max_per_day: 0}\n---\n"

// Setup makes an engine at Start with these definitions (YAML). change adjusts its configuration; it may be nil.
func Setup(t testing.TB, s *store.Store, definitions string, change func(*engine.Config)) *Bundle {
	t.Helper()
	b := &Bundle{TB: t, Store: s, Clock: clock.NewManual(Start), Provider: &Provider{accepted: map[string]bool{}}, Sinks: &Sinks{}}
	providers := []channel.Provider{}
	for _, name := range []string{"memory", "inbox", "http"} {
		providers = append(providers, channel.Provider{
			Name: name, KeepContent: name == "inbox", Settings: []channel.Setting{{Name: "url"}, {Name: "token", Secret: true}},
			Open: func(map[string]string) (channel.Channel, error) { return b.Provider, nil },
		})
	}
	config := engine.Config{
		Store: s, Clock: b.Clock, Providers: providers, Sinks: []sink.Provider{b.Sinks.SinkProvider()}, Definitions: Options(providers), Concurrency: 1,
		Journal: func(e journal.Entry) { b.mu.Lock(); defer b.mu.Unlock(); b.entries = append(b.entries, e) },
	}
	if change != nil {
		change(&config)
	}
	var err error
	if b.Workspace, err = s.EnsureWorkspace(t.Context(), "default", []byte("0123456789abcdef0123456789abcdef"), Start); err != nil {
		t.Fatal(err)
	}
	if b.Engine, err = engine.New(config); err != nil {
		t.Fatal(err)
	}
	if definitions != "" {
		b.Apply(definitions)
	}
	return b
}

// Options returns the options for validating definitions with these providers.
func Options(providers []channel.Provider) loader.Options {
	return loader.Options{Providers: channelpool.Providers(providers)}
}

// Apply puts definitions in force and fails the test if they are refused. If the first ones define no workspace, Apply adds one without limits.
func (b *Bundle) Apply(definitions string) {
	b.Helper()
	if !b.applied && !strings.Contains("\n"+definitions, "\nworkspace:") {
		definitions = unlimited + definitions
		defer b.settled()
	}
	b.applied = true
	applied, err := b.Engine.Apply(b.ctx(), b.Workspace, []definition.File{{Name: "test.yaml", Text: []byte(definitions)}}, "test")
	if err != nil {
		b.Fatal(err)
	}
	if definition.HasErrors(applied.Problems) {
		b.Fatalf("definitions refused: %v", applied.Problems)
	}
}

// settled ends the jobs that reschedule waiting messages: nothing waits yet.
func (b *Bundle) settled() {
	limits := jobs.New(b.Store, reschedule.Jobs(b.Store))
	for {
		if _, open, err := limits.Step(b.ctx(), b.Clock.Now()); err != nil {
			b.Fatal(err)
		} else if !open {
			return
		}
	}
}

func (b *Bundle) ctx() context.Context { return context.WithoutCancel(b.TB.Context()) }

// Post sends one event to the engine, given as JSON.
func (b *Bundle) Post(event string) ingest.Result {
	b.Helper()
	return b.PostAll(event)[0]
}

// PostAll sends events as one batch.
func (b *Bundle) PostAll(events ...string) []ingest.Result {
	b.Helper()
	items := make([]ingest.Item, len(events))
	for i, e := range events {
		items[i] = ingest.Parse(json.RawMessage(e), b.Clock.Now())
	}
	results, err := b.Ingest(b.ctx(), b.Workspace, items)
	if err != nil {
		b.Fatal(err)
	}
	return results
}

// At sets the clock and runs every stage once.
func (b *Bundle) At(at time.Time) engine.TickResult {
	b.Helper()
	b.Clock.Set(at)
	result, err := b.Tick(b.ctx())
	if err != nil {
		b.Fatal(err)
	}
	return result
}

// Delivery reads a delivery.
func (b *Bundle) Delivery(id delivery.ID) delivery.Row {
	b.Helper()
	row, err := b.Store.DeliveryByID(b.ctx(), b.Workspace.ID, id)
	if err != nil {
		b.Fatal(err)
	}
	return row
}

// Instance reads an instance.
func (b *Bundle) Instance(id instance.ID) instance.Row {
	b.Helper()
	row, err := b.Store.InstanceByID(b.ctx(), b.Workspace.ID, id)
	if err != nil {
		b.Fatal(err)
	}
	return row
}

// Attempts reads a delivery's attempts in order.
func (b *Bundle) Attempts(id delivery.ID) []delivery.Attempt {
	b.Helper()
	attempts, err := b.Store.Attempts(b.ctx(), b.Workspace.ID, id)
	if err != nil {
		b.Fatal(err)
	}
	return attempts
}

// Journal returns the entries since the last call.
func (b *Bundle) Journal() []journal.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := b.entries
	b.entries = nil
	return entries
}

// Provider is a channel that honours idempotency keys and returns the results that the test sets.
type Provider struct {
	mu       sync.Mutex
	behave   []error
	sent     []channel.Outgoing
	accepted map[string]bool
	Repeats  int // requests whose key it had accepted before
}

// ErrThrow makes the channel panic instead of answering.
var ErrThrow = errors.New("the channel threw")

// Next makes the next calls end in these errors, nil being acceptance. A lost reply is accepted first.
func (p *Provider) Next(results ...error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behave = append(p.behave, results...)
}

// Waits returns how many results are set for the next calls.
func (p *Provider) Waits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.behave)
}

// Recover makes all further calls end in acceptance.
func (p *Provider) Recover() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behave = nil
}

// Send implements channel.Channel.
func (p *Provider) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var result error
	if len(p.behave) > 0 {
		result, p.behave = p.behave[0], p.behave[1:]
	}
	if errors.Is(result, ErrThrow) {
		panic(ErrThrow)
	}
	var known *channel.SendError
	if result == nil || errors.As(result, &known) && known.Unknown {
		if p.accepted[out.IdempotencyKey] {
			p.Repeats++
		} else {
			p.accepted[out.IdempotencyKey] = true
			p.sent = append(p.sent, out)
		}
	}
	if result != nil {
		return channel.Receipt{}, result
	}
	return channel.Receipt{ProviderID: fmt.Sprintf("mem-%.8s", out.IdempotencyKey)}, nil
}

// Sent returns the messages accepted since the last call, each once.
func (p *Provider) Sent() []channel.Outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}
