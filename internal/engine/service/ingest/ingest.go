// Package ingest accepts events: it validates them, matches them against the definitions, and writes the instances and deliveries that they cause.
//
// When a call returns without an error, every accepted event, its instances and the deliveries for its recipient are durable (P1). A bad event
// affects no other event of its batch. A repeated event is answered with what the first one made, for ever (P2, C11). A bad request affects no other
// request either: concurrent calls share a transaction (see gathering), and the answers do not show it.
package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/optout"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// MaxBatch is how many events one call may hold.
const MaxBatch = 1000

// rounds is how often a request is planned again because the definitions changed meanwhile.
const rounds = 20

// Outcome is what happened to an event or to one occasion of it.
type Outcome string

// The outcomes (C12, C13). An event is created when any of its occasions is.
const (
	Created Outcome = "created"
	Skipped Outcome = "skipped"
	NoMatch Outcome = "no_match"
	Failed  Outcome = "failed"
)

// Result is the answer to one event.
type Result struct {
	Outcome   Outcome
	Reason    reason.Reason
	Error     *ItemError
	Event     subject.EventID // 0 when nothing new was stored
	Instances []InstanceResult
	Warnings  []string
}

// InstanceResult is one occasion of an event.
type InstanceResult struct {
	Workflow      string
	WorkflowExtID string
	Trigger       string
	Outcome       Outcome
	Reason        reason.Reason
	ID            instance.ID
	Key           string
	Deliveries    []DeliveryResult
}

// DeliveryResult is a delivery that exists for an occasion.
type DeliveryResult struct {
	ID      delivery.ID
	Channel string
	Status  delivery.Status
}

// Store is what ingest needs of the store.
type Store interface {
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
	Writers() int
}

// Ingester accepts events.
type Ingester struct {
	store   Store
	catalog *catalog.Catalog
	journal journal.Writer

	mu         sync.Mutex
	gatherings map[subject.WorkspaceID]*gathering
}

// New makes an Ingester.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Ingester {
	return &Ingester{store: s, catalog: c, journal: w, gatherings: map[subject.WorkspaceID]*gathering{}}
}

// Ingest accepts a batch at now. The results are in the order of the items. An error means that nothing of the batch was stored; it is a
// *store.Replay if once, which may be nil, finds that the request was handled before. A batch whose items are all refused changes nothing and may be
// sent again: its answer is not stored.
func (in *Ingester) Ingest(ctx context.Context, ws store.Workspace, items []Item, now time.Time, once *store.Idempotent[[]Result]) ([]Result, error) {
	if len(items) > MaxBatch {
		return nil, fmt.Errorf("a batch holds at most %d events, not %d", MaxBatch, len(items))
	}
	set, err := in.catalog.Latest(ctx, ws.ID)
	for round := 1; err == nil; round++ {
		b := newBatch(ws, set, items, now, once)
		err = in.gathering(ws.ID).commit(ctx, b)
		if err == nil {
			return b.results, nil
		}
		if !errors.Is(err, store.ErrStaleDefinitions) || round == rounds {
			return nil, err
		}
		set, err = in.catalog.Current(ctx, ws.ID)
	}
	return nil, err
}

func (in *Ingester) gathering(ws subject.WorkspaceID) *gathering {
	in.mu.Lock()
	defer in.mu.Unlock()
	g := in.gatherings[ws]
	if g == nil {
		g = &gathering{ingester: in, ws: ws, lanes: in.store.Writers()}
		in.gatherings[ws] = g
	}
	return g
}

// write writes a group: one request, or several that share a transaction. It reads the members of the group when the transaction has begun, and again
// when the transaction is repeated.
func (in *Ingester) write(ctx context.Context, ws subject.WorkspaceID, members func() []*batch) error {
	var group []*batch
	calls := &expr.Calls{}
	err := in.catalog.Supply(ctx, 1, func(int) error {
		return in.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			group = members()
			return in.step(tx, ws, group, calls)
		})
	})
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	for _, b := range group {
		for _, entry := range b.entries {
			in.journal.Write(entry)
		}
	}
	return nil
}

// step writes a group in one transaction. Nothing is locked or made for a request that was answered before.
func (in *Ingester) step(tx *store.Tx, ws subject.WorkspaceID, group []*batch, calls *expr.Calls) error {
	return in.stepWith(tx, ws, group, calls, func(*store.OccasionWrites) {})
}

// stepWith is step with a last change of what is written.
func (in *Ingester) stepWith(tx *store.Tx, ws subject.WorkspaceID, group []*batch, calls *expr.Calls, last func(*store.OccasionWrites)) error {
	at := latest(group)
	answers, err := tx.Answered(ws, at, requests(group))
	if err != nil {
		return err
	}
	repeats(group, answers)
	needs := needsOf(group)
	f := facts{zones: &in.catalog.Zones, ids: in.store.NewID, calls: calls}
	// Before the people are locked: if another transaction writes one of the keys meanwhile, the insert fails and this one runs again.
	if f.occasions, err = tx.Occasions(ws, group[0].set.Number, needs.keys); err != nil {
		return err
	}
	floors := admission.NewFloors(f.zones, at, needs.types)
	floor := func(_ subject.WorkspaceID, c subject.Contact) time.Time { return floors.Of(group[0].set, c) }
	tx.GroupBy(func(_ subject.WorkspaceID, c subject.Contact) []string { return plan.GroupsOf(group[0].set, c, nil) })
	if f.recipients, err = tx.Recipients(ws, at, needs.people, floor, needs.fold); err != nil {
		return err
	}
	if f.stops, err = optout.Stops(tx, addressesOf(group), f.addresses(group)); err != nil {
		return err
	}
	writes, following, kept, err := decide(group, f)
	if err != nil {
		return err
	}
	if err := calls.Wanted(); err != nil {
		return err
	}
	last(&writes)
	if err := tx.WriteOccasions(ws, writes); err != nil {
		return err
	}
	if err := ensure(tx, following); err != nil {
		return err
	}
	made := make([]tell.InstanceChange, len(writes.Instances))
	for i, row := range writes.Instances {
		made[i].Is = row
	}
	sets := func(subject.WorkspaceID) (*definition.Set, error) { return group[0].set, nil }
	if err := tell.Instances(in.catalog, sets, tx, at, made); err != nil {
		return err
	}
	return tx.KeepAnswers(ws, at, kept)
}

func traceOf(o plan.Occasion) trace.Trace {
	t := trace.Trace{Workflow: o.Workflow.Name, Version: o.Workflow.Version, Trigger: o.Trigger.ID, Reason: o.Reason, Field: o.Field, Missing: o.Missing}
	for _, c := range o.Clauses {
		t.Clauses = append(t.Clauses, trace.Clause{Line: c.Source, Met: c.Met, Reason: c.Reason, Field: c.Field, Value: c.Value, Detail: c.Detail})
	}
	return t
}

func warnings(o plan.Occasion) []string {
	if len(o.Missing) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: dedup without a value: %s; it counts as empty", o.Workflow.Name, strings.Join(o.Missing, ", "))}
}

func encode(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}
