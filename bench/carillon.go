package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Every event makes one instance, and that one one delivery: the audience names one person, who is looked up,
// locked and booked when the instance is expanded.
const definitions = `
workflow: invoice-due
type: reminder
triggers:
  - id: due
    event: invoice-due
    dedup: [id]
audience:
  - to: event.person
channel: memory
message:
  sms:
    text: "Invoice {{ event.invoice }} over {{ event.amount }} is due on {{ due_at | date: '%d %B' }}. Questions? {{ workspace.base_url }}"
---
channel: memory:default
provider: memory
---
workspace: default
base_url: https://example.org
timezone: Europe/Berlin
`

// contactsPerRow: most people of a workspace are not concerned by what is due now.
const contactsPerRow = 2

// product is Carillon on one database, with the stages as an engine runs them.
type product struct {
	store     *store.Store
	claims    *claims // the store as the stages see it
	engine    *engine.Engine
	workspace store.Workspace
	fanout    *fanout.Fanout
	sender    *sender.Sender
	clock     *clock.System
	accepted  *atomic.Int64
}

// counting is a channel that accepts every message; sending costs nothing, so that everything around it is seen.
type counting struct {
	memory.Channel
	accepted *atomic.Int64
}

func (c counting) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	if out.Text == "" {
		return channel.Receipt{}, channel.Permanent(errors.New("the message is empty"))
	}
	c.accepted.Add(1)
	return c.Channel.Send(ctx, out)
}

func newProduct(ctx context.Context, url string) (*product, error) {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return nil, err
	}
	p := &product{store: s, claims: newClaims(s), clock: &clock.System{}, accepted: &atomic.Int64{}}
	return p, p.start(ctx)
}

func (p *product) start(ctx context.Context) error {
	if err := p.store.Migrate(ctx); err != nil {
		return err
	}
	provider := memory.Provider()
	provider.Open = func(map[string]string) (channel.Channel, error) { return counting{accepted: p.accepted}, nil }
	options := loader.Options{Providers: []definition.ProviderInfo{{Name: provider.Name}}}
	var err error
	if p.engine, err = engine.New(engine.Config{Store: p.store, Clock: p.clock, Providers: []channel.Provider{provider}, Definitions: options}); err != nil {
		return err
	}
	if p.workspace, err = p.store.EnsureWorkspace(ctx, "default", []byte(strings.Repeat("k", 32)), p.clock.Now()); err != nil {
		return err
	}
	applied, err := p.engine.Apply(ctx, p.workspace, []definition.File{{Name: "bench.yaml", Text: []byte(definitions)}}, "bench")
	if err != nil {
		return err
	}
	if definition.HasErrors(applied.Problems) {
		return fmt.Errorf("definitions: %v", applied.Problems)
	}
	known := catalog.New(p.store, options)
	p.fanout = fanout.New(p.claims, known, nil, nil)
	p.fanout.Found = p.claims.foundInstances
	p.sender = sender.New(sender.Config{
		Store: p.claims, Catalog: known, Clock: p.clock, Failpoint: p.claims.sending(),
		Channels: channelpool.New([]channel.Provider{provider}, plain, sender.DefaultConcurrency, slog.New(slog.DiscardHandler)),
	})
	return nil
}

// fill makes contacts, and takes in as many events as there are rows to be measured.
func (p *product) fill(ctx context.Context, rows int) error {
	contacts := rows * contactsPerRow
	for first := 0; first < contacts; first += ingest.MaxBatch {
		var people []store.RecipientRef
		for i := first; i < min(first+ingest.MaxBatch, contacts); i++ {
			people = append(people, store.RecipientRef{NewExtID: person(i), Address: person(i) + "@example.org", AddressHash: person(i), Create: true})
		}
		err := p.store.Write(ctx, func(tx *store.Tx) error {
			_, err := tx.Recipients(p.workspace.ID, p.clock.Now(), people, nil, false)
			return err
		})
		if err != nil {
			return err
		}
	}
	for first := 0; first < rows; first += ingest.MaxBatch {
		var items []ingest.Item
		for i := first; i < min(first+ingest.MaxBatch, rows); i++ {
			items = append(items, invoice(fmt.Sprintf("event-%d", i), i*stride%contacts, p.clock.Now()))
		}
		if err := p.take(ctx, items); err != nil {
			return err
		}
	}
	return nil
}

// invoice is an event that concerns one person.
func invoice(id string, whom int, now time.Time) ingest.Item {
	return ingest.Accept(subject.Event{
		ExtID: id, Kind: "invoice-due",
		Payload: map[string]any{
			"person": person(whom), "invoice": "R-" + id, "amount": "120.50",
			"status": "open", "owner": "u-1042", "site": "district-7", "note": note,
		},
	}, now)
}

// take has events taken in, each of them for the first time.
func (p *product) take(ctx context.Context, items []ingest.Item) error {
	results, err := p.engine.Ingest(ctx, p.workspace, items)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Outcome != ingest.Created {
			return fmt.Errorf("event was %s: %s", r.Outcome, r.Reason)
		}
	}
	return nil
}

// stride spreads the people concerned over the table; it has no factor in common with any round number.
const stride = 7919

func person(i int) string { return fmt.Sprintf("person-%07d", i) }

// measure fills the database and measures both stages, one after the other.
func (p *product) measure(ctx context.Context, s settings, r *round, url string, rows int, expand, send string) error {
	if err := p.fill(ctx, rows); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	for _, stage := range []struct {
		name string
		run  func(context.Context, int) (time.Duration, error)
	}{{expand, p.expand}, {send, p.send}} {
		if url != "" {
			if err := r.calm(ctx, url); err != nil {
				return err
			}
		}
		m, err := r.meter()
		if err != nil {
			return err
		}
		took, err := profiled(s.profile, stage.name, func() (time.Duration, error) { return stage.run(ctx, rows) })
		if err != nil {
			return fmt.Errorf("%s: %w", stage.name, err)
		}
		if err := m.rate(stage.name, rows, took); err != nil {
			return err
		}
	}
	return nil
}

// expand has all due instances expanded and counts what was made.
func (p *product) expand(ctx context.Context, rows int) (time.Duration, error) {
	took, err := inParallel(ctx, func(ctx context.Context) (int, error) { return p.fanout.Step(ctx, p.clock.Now(), batch) })
	if err != nil {
		return 0, err
	}
	counts, err := p.store.Counts(ctx, p.workspace.ID)
	if n := counts.DeliveriesByStatus["scheduled"]; err == nil && n != int64(rows) {
		err = fmt.Errorf("%d deliveries of %d instances", n, rows)
	}
	return took, err
}

// send has all due deliveries sent and counts what came of them.
func (p *product) send(ctx context.Context, rows int) (time.Duration, error) {
	took, err := inParallel(ctx, func(ctx context.Context) (int, error) {
		counts, err := p.sender.Step(ctx, p.clock.Now(), batch)
		return counts.Claimed, err
	})
	if err != nil {
		return 0, err
	}
	counts, err := p.store.Counts(ctx, p.workspace.ID)
	if n, m := counts.DeliveriesByStatus["sent"], p.accepted.Load(); err == nil && (n != int64(rows) || m != int64(rows)) {
		err = fmt.Errorf("%d deliveries sent and %d accepted of %d", n, m, rows)
	}
	return took, err
}

// inParallel repeats a step on every worker until it finds nothing.
func inParallel(ctx context.Context, step func(context.Context) (int, error)) (time.Duration, error) {
	var running sync.WaitGroup
	errs := make([]error, workers)
	elapsed := clock.Monotonic()
	for w := range workers {
		running.Go(func() {
			for {
				n, err := step(ctx)
				if err != nil || n == 0 {
					errs[w] = err
					return
				}
			}
		})
	}
	running.Wait()
	return elapsed(), errors.Join(errs...)
}

// profiled has measure write a CPU profile when a folder for it is given; a later round replaces it.
func profiled(folder, name string, measure func() (time.Duration, error)) (time.Duration, error) {
	if folder == "" {
		return measure()
	}
	f, err := os.Create(filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".pprof"))
	if err != nil {
		return 0, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	took, err := measure()
	pprof.StopCPUProfile()
	return took, errors.Join(err, f.Close())
}

// plain is a setting as it is written: these channels have no secrets.
func plain(_ subject.WorkspaceID, s definition.Setting) (string, error) { return s.Value, nil }
