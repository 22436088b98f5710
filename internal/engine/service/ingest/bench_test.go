package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const rules = `
workflow: order
type: custom
triggers:
  - id: placed
    event: order
    when: {field: event.total, op: more_than, value: 10}
    dedup: [number]
audience:
  - to: event.recipient
channel: memory
message:
  sms:
    text: "Thank you for {{ event.number }}"
---
workflow: follow-up
type: custom
triggers:
  - id: later
    event: order
    dedup: [number, recipient.address]
timing: {offset: 2d}
audience:
  - to: event.recipient
channel: memory
message:
  sms:
    text: "How was {{ event.number }}?"
---
channel: memory:default
provider: memory
`

// door is a store whose transactions a test can delay and fail.
type door struct {
	*store.Store
	mu    sync.Mutex
	enter func(n int)                            // called when the n-th transaction has begun
	fail  func(ctx context.Context, n int) error // asked when the n-th transaction has written
	n     int
}

func (d *door) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	d.mu.Lock()
	d.n++
	n := d.n
	d.mu.Unlock()
	return d.Store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
		if d.enter != nil {
			d.enter(n)
		}
		err := work(tx)
		if err == nil && d.fail != nil {
			err = d.fail(ctx, n)
		}
		return err
	})
}

// bench is an Ingester with its store, clock and journal.
type bench struct {
	testing.TB
	*ingest.Ingester
	door  *door
	store *store.Store
	ws    store.Workspace

	mu      sync.Mutex
	entries []journal.Entry
}

func setup(t testing.TB, s *store.Store) *bench {
	t.Helper()
	var options loader.Options
	bundle := enginetest.Setup(t, s, rules, func(c *engine.Config) { options = c.Definitions })
	out := &bench{TB: t, door: &door{Store: s}, store: s, ws: bundle.Workspace}
	out.Ingester = ingest.New(out.door, catalog.New(s, options), func(e journal.Entry) {
		out.mu.Lock()
		defer out.mu.Unlock()
		out.entries = append(out.entries, e)
	})
	return out
}

// reported returns how many occasions are in the journal.
func (b *bench) reported() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.What == journal.Created {
			n++
		}
	}
	return n
}

// call is one request with its answer.
type call struct {
	items   []ingest.Item
	once    *store.Idempotent[[]ingest.Result]
	cancel  context.CancelFunc
	done    chan struct{} // closed when the call has returned
	results []ingest.Result
	err     error
}

// start makes the call on a goroutine of its own and returns when it waits in line, or runs the only transaction.
func (b *bench) start(running *sync.WaitGroup, c *call, waiting int) {
	ctx, cancel := context.WithCancel(b.Context())
	c.cancel, c.done = cancel, make(chan struct{})
	running.Go(func() {
		defer cancel()
		defer close(c.done)
		c.results, c.err = b.Ingest(ctx, b.ws, c.items, enginetest.Start, c.once)
	})
	b.await(waiting)
}

func (b *bench) await(waiting int) {
	for b.Waiting(b.ws.ID) != waiting {
		runtime.Gosched()
	}
}

// together makes the calls share a transaction, in this order. It calls meanwhile, if not nil, while all of them wait.
func (b *bench) together(calls []*call, meanwhile func()) {
	var running sync.WaitGroup
	begun, open := make(chan struct{}), make(chan struct{})
	b.door.mu.Lock()
	first := b.door.n + 1
	b.door.mu.Unlock()
	b.door.enter = func(n int) {
		if n == first {
			close(begun)
			<-open
		}
	}
	for i, c := range calls {
		b.start(&running, c, i)
		if i == 0 {
			<-begun
		}
	}
	if meanwhile != nil {
		meanwhile()
	}
	close(open)
	running.Wait()
}

// apart makes the calls one after another.
func (b *bench) apart(calls []*call) {
	for _, c := range calls {
		c.results, c.err = b.Ingest(b.Context(), b.ws, c.items, enginetest.Start, c.once)
	}
}

func parsed(events ...string) []ingest.Item {
	items := make([]ingest.Item, len(events))
	for i, e := range events {
		items[i] = ingest.Parse(json.RawMessage(e), enginetest.Start)
	}
	return items
}

func order(number, total int, address string) string {
	return fmt.Sprintf(`{"id":"e%d","kind":"order","payload":{"number":%d,"total":%d},"recipient":{"address":%q}}`, number, number, total, address)
}

// once stores the outcomes of a request, without ids.
func once(key, request string) *store.Idempotent[[]ingest.Result] {
	return &store.Idempotent[[]ingest.Result]{
		AnswerKey: store.AnswerKey{Key: key, Request: request}, At: enginetest.Start,
		Answer: func(results []ingest.Result) (store.Answer, error) {
			return store.Answer{Status: 200, Body: said(results)}, nil
		},
	}
}

// said is an answer without its ids.
func said(results []ingest.Result) string {
	for i := range results {
		r := results[i]
		stored := r.Event != 0
		r.Event = 0
		r.Instances = slices.Clone(r.Instances)
		for j := range r.Instances {
			r.Instances[j].ID = 0
			r.Instances[j].Deliveries = slices.Clone(r.Instances[j].Deliveries)
			for k := range r.Instances[j].Deliveries {
				r.Instances[j].Deliveries[k].ID = 0
			}
		}
		results = slices.Clone(results)
		results[i] = r
		if stored {
			results[i].Warnings = append(slices.Clone(r.Warnings), "stored")
		}
	}
	text, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// answers returns the answers of the calls, without ids and without the database's own words.
func answers(calls []*call) []string {
	var out []string
	for i, c := range calls {
		var again *store.Replay
		switch {
		case errors.As(c.err, &again):
			out = append(out, fmt.Sprintf("%d: again %s", i, again.Body))
		case errors.Is(c.err, store.ErrKeyReused), errors.Is(c.err, store.ErrInvalid):
			out = append(out, fmt.Sprintf("%d: %v", i, errors.Unwrap(errors.Unwrap(c.err)) != nil))
		case c.err != nil:
			out = append(out, fmt.Sprintf("%d: failed", i))
		default:
			out = append(out, fmt.Sprintf("%d: %s", i, said(c.results)))
		}
	}
	return out
}

// rows returns all stored rows, without ids, sorted.
func (b *bench) rows(calls []*call) []string {
	b.Helper()
	ctx, ws := b.Context(), b.ws.ID
	var out []string
	add := func(kind string, row any) {
		text, err := json.Marshal(row)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, kind+" "+string(text))
	}
	var refs []store.EventRef
	for _, c := range calls {
		for _, r := range c.results {
			if r.Event != 0 {
				refs = append(refs, store.EventRef{Workspace: ws, ID: r.Event})
			}
		}
	}
	events, err := b.store.EventsByID(ctx, refs)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range events {
		e.ID = 0
		add("event", e)
	}
	byInstance := map[instance.ID]string{}
	instances, err := b.store.Instances(ctx, ws, store.InstanceFilter{}, store.Page{Limit: 10000})
	if err != nil {
		b.Fatal(err)
	}
	name := func(e subject.EventID) string { return events[store.EventRef{Workspace: ws, ID: e}].ExtID }
	for _, in := range instances {
		byInstance[in.ID] = in.Key
		of := name(in.Event)
		in.ID, in.Event = 0, 0
		add("instance "+of, in)
	}
	deliveries, err := b.store.Deliveries(ctx, ws, store.DeliveryFilter{}, store.Page{Limit: 10000})
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range deliveries {
		person, ok, err := b.store.ContactByID(ctx, ws, d.Contact)
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
		person.ID = 0
		of := fmt.Sprintf("%s %s %+v", byInstance[d.Instance], name(d.Event), person)
		d.ID, d.Instance, d.Event, d.Contact = 0, 0, 0, 0
		add("delivery "+of, d)
	}
	decisions, err := b.store.Decisions(ctx, ws, store.DecisionFilter{}, store.Page{Limit: 10000})
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range decisions {
		of := byInstance[d.Instance]
		d.ID, d.Instance = 0, 0
		add("decision "+of, d)
	}
	counts, err := b.store.Counts(ctx, ws)
	if err != nil {
		b.Fatal(err)
	}
	add("counts", counts)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		e.Event, e.Instance, e.Delivery = 0, 0, 0
		add("journal", e)
	}
	slices.Sort(out)
	return out
}

// random makes requests that overlap in every way: the same occasion, the same contact, the same key.
func random(r *rand.Rand) []*call {
	calls := make([]*call, 2+r.IntN(6))
	for i := range calls {
		var items []string
		for range 1 + r.IntN(3) {
			switch r.IntN(10) {
			case 0:
				items = append(items, `{"knd": "order"}`)
			case 1:
				items = append(items, fmt.Sprintf(`{"id": "n%d", "kind": "other", "payload": {"a": [1, {"b": "<c>"}]}}`, r.IntN(1000)))
			case 2:
				items = append(items, fmt.Sprintf(`{"kind": "order", "payload": {"number": %d, "total": 99}}`, r.IntN(6)))
			default:
				items = append(items, order(r.IntN(8), 5+r.IntN(20), fmt.Sprintf("p%d@example.org", r.IntN(3))))
			}
		}
		calls[i] = &call{items: parsed(items...)}
		if r.IntN(2) == 0 {
			calls[i].once = once(fmt.Sprintf("%064x", r.IntN(3)), fmt.Sprint(r.IntN(2)))
		}
	}
	switch r.IntN(6) {
	case 0: // text that no database stores, past the validation
		calls[r.IntN(len(calls))].items[0] = ingest.Item{Event: subject.Event{Kind: "a\x00b", OccurredAt: enginetest.Start, ReceivedAt: enginetest.Start}}
	case 1: // text that is too long for the index of one database
		var long strings.Builder
		for range 1000 {
			fmt.Fprintf(&long, "%x", r.Uint64())
		}
		ev := subject.Event{
			ExtID: "long", Kind: "order", OccurredAt: enginetest.Start, ReceivedAt: enginetest.Start, Payload: map[string]any{"number": "1", "total": json.Number("50")},
			Recipient: &subject.Recipient{Address: "x@example.org", CustomerRef: long.String()},
		}
		calls[r.IntN(len(calls))].items[0] = ingest.Item{Event: ev}
	}
	return calls
}
