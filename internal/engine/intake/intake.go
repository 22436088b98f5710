// Package intake takes events in: it checks them, holds them against the definitions, and writes what they imply.
//
// One call is one transaction: when it returns without an error, every accepted event, its instances and the
// deliveries for its recipient are durable (P1). A bad event never touches another one of its batch, and the same
// event again is answered with what the first one made, for ever (P2, C11).
package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalog"
	"github.com/carillonhq/carillon/internal/engine/gate"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// MaxBatch is how many events one call may hold.
const MaxBatch = 1000

// rounds is how often a batch is planned again because the definitions changed under it.
const rounds = 5

// Outcome is what became of an event or of one occasion of it.
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

// Store is what intake needs of the store.
type Store interface {
	Ingest(ctx context.Context, ws subject.WorkspaceID, now time.Time, request store.IngestRequest,
		decide func(store.IngestState) (store.IngestWrites, error)) error
	NewID(now time.Time) int64
}

// Intake takes events in.
type Intake struct {
	store   Store
	catalog *catalog.Catalog
	journal journal.Writer
}

// New makes an intake.
func New(s Store, c *catalog.Catalog, w journal.Writer) *Intake {
	return &Intake{store: s, catalog: c, journal: w}
}

// Ingest takes a batch in, at now. The results stand in the order of the items. An error means that nothing of
// the batch was stored.
func (in *Intake) Ingest(ctx context.Context, ws store.Workspace, items []Item, now time.Time) ([]Result, error) {
	if len(items) > MaxBatch {
		return nil, fmt.Errorf("a batch holds at most %d events, not %d", MaxBatch, len(items))
	}
	var err error
	for range rounds {
		var set *definition.Set
		if set, err = in.catalog.Current(ctx, ws.ID); err != nil {
			return nil, err
		}
		b := newBatch(in.store, &in.catalog.Zones, ws, set, items, now)
		err = in.store.Ingest(ctx, ws.ID, now, b.request(), b.decide)
		if err == nil {
			for _, entry := range b.entries {
				in.journal.Write(entry)
			}
			return b.results, nil
		}
		if !errors.Is(err, store.ErrStaleDefinitions) {
			break
		}
	}
	return nil, fmt.Errorf("take events in: %w", err)
}

// batch is the plan of one call: pure until decide, which may run more than once.
type batch struct {
	store     Store
	zones     *civil.Zones
	ws        store.Workspace
	set       *definition.Set
	items     []Item
	now       time.Time
	addresses key.Keyed
	planned   []planned
	people    []store.RecipientRef

	results []Result
	entries []journal.Entry
}

// planned is one event with its occasions.
type planned struct {
	occasions []plan.Occasion
	person    int // index into people; -1 = nobody
}

func newBatch(s Store, zones *civil.Zones, ws store.Workspace, set *definition.Set, items []Item, now time.Time) *batch {
	b := &batch{store: s, zones: zones, ws: ws, set: set, items: items, now: now, addresses: key.NewKeyed(ws.Secret, key.PurposeAddress)}
	b.planned = make([]planned, len(items))
	for i, item := range items {
		b.planned[i].person = -1
		if item.Err != nil {
			continue
		}
		b.planned[i].occasions = plan.Event(set, item.Event)
		if now, any := b.wantsRecipient(b.planned[i].occasions); any && item.Event.Recipient != nil {
			b.planned[i].person = len(b.people)
			ref := Recipient(b.addresses, *item.Event.Recipient)
			ref.Create, ref.Lock = true, now
			b.people = append(b.people, ref)
		}
	}
	return b
}

// wantsRecipient reports whether an occasion goes to the event's recipient, and whether one of them is due.
func (b *batch) wantsRecipient(occasions []plan.Occasion) (due, wanted bool) {
	for _, o := range occasions {
		if o.Matched() && toRecipient(o.Trigger) {
			wanted = true
			due = due || !o.NotBefore.After(b.now)
		}
	}
	return due, wanted
}

func toRecipient(t *definition.Trigger) bool {
	for _, entry := range t.Audience {
		if entry.EventRecipient {
			return true
		}
	}
	return false
}

// Recipient names the person of an event: by the caller's reference, else by the address (R20).
func Recipient(addresses key.Keyed, r subject.Recipient) store.RecipientRef {
	ref := store.RecipientRef{ExtID: r.CustomerRef, Address: r.Address, Locale: r.Locale, NewExtID: r.CustomerRef}
	if r.Address != "" {
		ref.AddressHash = addresses.Hash(subject.NormalizeAddress(r.Address))
		if ref.NewExtID == "" {
			ref.NewExtID = "addr:" + ref.AddressHash
		}
	}
	return ref
}

func (b *batch) request() store.IngestRequest {
	request := store.IngestRequest{Definitions: b.set.Number, Recipients: b.people}
	seen := map[string]bool{}
	for _, p := range b.planned {
		for _, o := range p.occasions {
			if o.Matched() && !seen[string(o.Key)] {
				seen[string(o.Key)] = true
				request.Keys = append(request.Keys, string(o.Key))
			}
		}
	}
	return request
}

// decide turns the plan into rows against what exists. It fills results and entries anew each time.
func (b *batch) decide(state store.IngestState) (store.IngestWrites, error) {
	d := decision{batch: b, state: state, made: map[string]InstanceResult{}, book: gate.NewBook(b.zones)}
	b.results = make([]Result, len(b.items))
	b.entries = nil
	for i, item := range b.items {
		if item.Err != nil {
			b.results[i] = Result{Outcome: Failed, Reason: item.Err.Reason, Error: item.Err}
			b.entries = append(b.entries, journal.Entry{At: b.now, What: journal.Rejected, Workspace: b.ws.ID, Reason: item.Err.Reason, Error: item.Err.Error()})
			continue
		}
		result, err := d.event(item.Event, b.planned[i])
		if err != nil {
			return store.IngestWrites{}, err
		}
		b.results[i] = result
	}
	return d.writes, nil
}

// clause is one judged line of a condition in a trace.
type clause struct {
	Line   string        `json:"line"`
	Met    bool          `json:"met"`
	Reason reason.Reason `json:"reason,omitempty"`
	Field  string        `json:"field,omitempty"`
	Value  any           `json:"value,omitempty"`
}

// trace is what one trigger made of an event, kept with the event so that it can be explained.
type trace struct {
	Workflow string        `json:"workflow"`
	Version  int64         `json:"version"`
	Trigger  string        `json:"trigger"`
	Reason   reason.Reason `json:"reason"`
	Field    string        `json:"field,omitempty"`
	Missing  []string      `json:"missing,omitempty"`
	Clauses  []clause      `json:"clauses,omitempty"`
}

func traceOf(o plan.Occasion) trace {
	t := trace{Workflow: o.Workflow.Name, Version: o.Workflow.Version, Trigger: o.Trigger.ID, Reason: o.Reason, Field: o.Field, Missing: o.Missing}
	for _, c := range o.Clauses {
		t.Clauses = append(t.Clauses, clause{Line: c.Source, Met: c.Met, Reason: c.Reason, Field: c.Field, Value: c.Value})
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
