package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

var at = time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)

func compiled(t *testing.T) *definition.Set {
	t.Helper()
	options := loader.Options{Providers: []definition.ProviderInfo{{Name: "memory"}}}
	bundle, problems := loader.Load([]definition.File{{Name: "test.yaml", Text: []byte(`
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
  sms: {text: "Thank you"}
---
workflow: reply
type: custom
triggers:
  - id: after
    event: order
    dedup: [number]
timing: {offset: 2d}
audience:
  - to: event.recipient
channel: memory
message:
  sms: {text: "How was it?"}
`)}}, options)
	if definition.HasErrors(problems) {
		t.Fatal(problems)
	}
	return bundle.Set
}

// group is a group of requests under test, with what is stored.
type group struct {
	*testing.T
	set     *definition.Set
	stored  map[string]store.KeptAnswer
	batches []*batch
	facts   facts
	id      int64
}

func newGroup(t *testing.T, set *definition.Set) *group {
	g := &group{T: t, set: set, stored: map[string]store.KeptAnswer{}}
	g.facts = facts{zones: &civil.Zones{}, occasions: store.Occasions{Instances: map[string]store.ExistingInstance{}, Forgotten: map[string]int{}}, ids: func(time.Time) int64 {
		g.id++
		return g.id
	}}
	return g
}

// request adds a request of events that are order numbers with totals; 0 is an event that was refused. key may be empty.
func (g *group) request(key string, orders ...[2]int) *batch {
	items := make([]Item, len(orders))
	for i, o := range orders {
		items[i] = Item{Err: &ItemError{Reason: reason.InvalidEvent, Message: "refused"}}
		if o[0] != 0 {
			items[i] = Parse(json.RawMessage(fmt.Sprintf(`{"id":"e%d","kind":"order","payload":{"number":%d,"total":%d},"recipient":{"address":"p%d@example.org"}}`,
				o[0], o[0], o[1], o[0])), at)
		}
	}
	var once *store.Idempotent[[]Result]
	if key != "" {
		once = &store.Idempotent[[]Result]{AnswerKey: store.AnswerKey{Key: key, Request: fmt.Sprint(orders)}, Answer: func(all []Result) (store.Answer, error) {
			return store.Answer{Status: 200, Body: fmt.Sprint(all[0].Outcome)}, nil
		}}
	}
	b := newBatch(store.Workspace{ID: 1, Secret: []byte("secret")}, g.set, items, at, once)
	g.batches = append(g.batches, b)
	return b
}

// decide decides the group and checks what holds of every decision.
func (g *group) decide() (store.OccasionWrites, []store.KeptAnswer) {
	g.Helper()
	repeats(g.batches, g.stored)
	for i, ref := range needsOf(g.batches).people {
		id := subject.ContactID(slices.IndexFunc(needsOf(g.batches).people, func(other store.RecipientRef) bool { return other.AddressHash == ref.AddressHash }))
		g.facts.recipients = append(g.facts.recipients, delivery.Person{Found: true, Locked: ref.Lock, Contact: subject.Contact{ID: 100 + id, ExtID: fmt.Sprint("person ", i)}})
	}
	writes, _, answers, err := decide(g.batches, g.facts)
	if err != nil {
		g.Fatal(err)
	}
	keys := map[string]bool{}
	for _, in := range writes.Instances {
		if keys[in.Key] || in.ID == 0 || in.Workspace != 1 {
			g.Errorf("instance %+v is listed twice, or lacks something", in)
		}
		keys[in.Key] = true
	}
	for _, d := range writes.Deliveries {
		if !slices.ContainsFunc(writes.Instances, func(in instance.Row) bool { return in.ID == d.Instance }) {
			g.Errorf("delivery %s belongs to no instance", d.Key)
		}
	}
	for i, b := range g.batches {
		if b.out() || b.repeat.again {
			if len(b.results)+len(b.entries) > 0 {
				g.Errorf("request %d has results and repeats another one, or is decided later", i)
			}
		} else if len(b.results) != len(b.items) {
			g.Errorf("request %d has %d results", i, len(b.results))
		}
	}
	return writes, answers
}

func outcomes(r Result) []string {
	all := []string{string(r.Outcome)}
	for _, i := range r.Instances {
		all = append(all, fmt.Sprint(i.Workflow, " ", i.Outcome, " ", i.Reason))
	}
	return all
}

// What an event makes, by what is stored of its occasions.
func TestDecideEvent(t *testing.T) {
	t.Parallel()
	set := compiled(t)
	both := newGroup(t, set).request("", [2]int{1, 50}).keys
	for _, test := range []struct {
		name      string
		total     int
		stored    func(*store.Occasions)
		anonymous bool
		want      []string
		instances []string
	}{
		{"new", 50, nil, false, []string{"created", "order created ", "reply created "}, both},
		{"a condition is not met", 5, nil, false, []string{"created", "reply created "}, both[1:]},
		{
			"one exists", 50, func(o *store.Occasions) { o.Instances[both[0]] = store.ExistingInstance{ID: 7, Key: both[0]} }, false,
			[]string{"created", "order skipped duplicate", "reply created "},
			both[1:],
		},
		{"all exist", 50, func(o *store.Occasions) {
			o.Instances[both[0]], o.Instances[both[1]] = store.ExistingInstance{ID: 7, Key: both[0]}, store.ExistingInstance{ID: 8, Key: both[1]}
		}, false, []string{"skipped", "order skipped duplicate", "reply skipped duplicate"}, nil},
		{
			"a key was freed", 50, func(o *store.Occasions) { o.Forgotten[both[0]] = 2 }, false,
			[]string{"created", "order created ", "reply created "},
			[]string{both[0] + ":retry:2", both[1]},
		},
		{"no recipient", 50, nil, true, []string{"failed", "order failed no_recipient", "reply failed no_recipient"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, set)
			b := g.request("", [2]int{1, test.total})
			if test.stored != nil {
				test.stored(&g.facts.occasions)
			}
			if test.anonymous {
				b.people, b.planned[0].person = nil, -1
			}
			writes, _ := g.decide()
			if got := outcomes(b.results[0]); !slices.Equal(got, test.want) {
				t.Errorf("outcomes %q, want %q", got, test.want)
			}
			var keys []string
			for _, in := range writes.Instances {
				keys = append(keys, in.Key)
			}
			if !slices.Equal(keys, test.instances) {
				t.Errorf("instances %q, want %q", keys, test.instances)
			}
			if stored := len(writes.Events) == 1; stored != (b.results[0].Outcome == Created) || stored != (b.results[0].Event != 0) {
				t.Errorf("%d events of the outcome %s, id %d", len(writes.Events), b.results[0].Outcome, b.results[0].Event)
			}
		})
	}
}

// A message is made at once, and waits for the time of its trigger. An event of the same key later in the group finds it.
func TestDecideDeliveries(t *testing.T) {
	t.Parallel()
	g := newGroup(t, compiled(t))
	first, second := g.request("", [2]int{1, 50}), g.request("", [2]int{2, 50}, [2]int{1, 50})
	writes, _ := g.decide()
	due := map[string]time.Time{}
	for _, d := range writes.Deliveries {
		if d.Status != delivery.Scheduled {
			t.Errorf("delivery %+v", d)
		}
		due[d.Workflow] = d.SendAt
	}
	if want := at.Add(48 * time.Hour); len(writes.Deliveries) != 4 || !due["order"].Equal(at) || !due["reply"].Equal(want) {
		t.Errorf("%d deliveries, due %v", len(writes.Deliveries), due)
	}
	again := second.results[1]
	if again.Outcome != Skipped || again.Instances[0].ID != first.results[0].Instances[0].ID || len(again.Instances[0].Deliveries) != 1 || len(writes.Decisions) != 2 {
		t.Errorf("the same order again: %+v, %d decisions", again, len(writes.Decisions))
	}
	if n := slices.IndexFunc(second.entries, func(e journal.Entry) bool { return e.What == journal.Skipped && e.Reason == reason.Duplicate }); n < 0 {
		t.Error("the journal has no duplicate")
	}
}

// A request with a key is answered once: by the stored answer, or by that of an earlier request of the group.
func TestDecideRepeats(t *testing.T) {
	t.Parallel()
	set := compiled(t)
	one, two, refused := [2]int{1, 50}, [2]int{2, 50}, [2]int{}
	type request struct {
		key    string
		orders [2]int
	}
	for _, test := range []struct {
		name     string
		stored   map[string]string // request by key
		requests []request
		want     []string
		kept     int
	}{
		{"new", nil, []request{{"a", one}, {"b", two}}, []string{"created", "created"}, 2},
		{"no key", nil, []request{{"", one}, {"", two}}, []string{"created", "created"}, 0},
		{"stored", map[string]string{"a": fmt.Sprint([][2]int{one})}, []request{{"a", one}, {"b", two}}, []string{"replay", "created"}, 1},
		{"stored of another request", map[string]string{"a": "other"}, []request{{"a", one}}, []string{"reused"}, 0},
		{"twice", nil, []request{{"a", one}, {"a", one}}, []string{"created", "replay"}, 1},
		{"another request under the same key", nil, []request{{"a", one}, {"a", two}}, []string{"created", "reused"}, 1},
		{"the first is refused", nil, []request{{"a", refused}, {"a", two}}, []string{"failed", "again"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, set)
			for key, of := range test.stored {
				g.stored[key] = store.KeptAnswer{AnswerKey: store.AnswerKey{Key: key, Request: of}}
			}
			for _, r := range test.requests {
				g.request(r.key, r.orders)
			}
			_, kept := g.decide()
			for i, b := range g.batches {
				got := ""
				var replay *store.Replay
				switch err := b.repeat.answer; {
				case b.repeat.again:
					got = "again"
				case errors.As(err, &replay):
					got = "replay"
				case errors.Is(err, store.ErrKeyReused):
					got = "reused"
				default:
					got = string(b.results[0].Outcome)
				}
				if got != test.want[i] {
					t.Errorf("request %d: %s, want %s", i, got, test.want[i])
				}
			}
			if len(kept) != test.kept {
				t.Errorf("%d answers are kept, want %d", len(kept), test.kept)
			}
		})
	}
}
