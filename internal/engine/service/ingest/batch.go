package ingest

import (
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// batch is one request with its plan. The caller computes the plan, which has no side effects, before the batch waits; the goroutine that runs the
// transaction writes the results.
type batch struct {
	ws         store.Workspace
	set        *definition.Set
	items      []Item
	now        time.Time
	idempotent *store.Idempotent[[]Result]
	planned    []planned
	people     []store.RecipientRef
	keys       []string
	types      []string // of the messages that it may make
	fold       bool     // a message may be folded

	results []Result
	entries []journal.Entry
	repeat  repeat

	// The remaining fields belong to the gathering.
	alone bool          // its transaction holds nothing else
	first bool          // it is the caller's turn to write
	gone  bool          // the caller has gone while others wrote the batch
	err   error         // the result of the transaction
	turn  chan struct{} // signalled when first or err is set; capacity 1
}

// repeat describes another request with the same Idempotency-Key. It is found in each transaction: the transaction does not write a batch whose key
// has an answer in the database or belongs to an earlier batch of the group.
type repeat struct {
	of     *batch // the earlier batch of the group
	answer error  // a *store.Replay or store.ErrKeyReused
	// again: the batch is decided after the group, because the earlier batch was refused as a whole and has no answer, or because the evaluations of
	// the group took too long for one transaction.
	again bool
}

// out reports whether the transaction writes nothing for the batch.
func (b *batch) out() bool { return b.repeat.of != nil || b.repeat.answer != nil }

// repeats finds the batches of a group that repeat an answered request or an earlier batch.
func repeats(group []*batch, stored map[string]store.KeptAnswer) {
	first := map[string]*batch{}
	for _, b := range group {
		b.repeat = repeat{}
		if b.idempotent == nil {
			continue
		}
		if known, ok := stored[b.idempotent.Key]; ok {
			b.repeat.answer = known.Again(b.idempotent.AnswerKey)
		} else if of, ok := first[b.idempotent.Key]; ok {
			b.repeat.of = of
		} else {
			first[b.idempotent.Key] = b
		}
	}
}

// needs are what has to be read before a group can be decided, of the batches that are not out.
type needs struct {
	keys   []string
	people []store.RecipientRef
	types  []string
	fold   bool
}

func needsOf(group []*batch) needs {
	n := needs{types: []string{}} // nil would be all types
	for _, b := range group {
		if b.out() {
			continue
		}
		n.keys = append(n.keys, b.keys...)
		n.people = append(n.people, b.people...)
		n.types = append(n.types, b.types...)
		n.fold = n.fold || b.fold
	}
	return n
}

// requests names the requests of a group that take effect once.
func requests(group []*batch) (keys []store.AnswerKey) {
	for _, b := range group {
		if b.idempotent != nil {
			keys = append(keys, b.idempotent.AnswerKey)
		}
	}
	return keys
}

// planned is one event with its occasions.
type planned struct {
	occasions []plan.Occasion
	person    int // index into people; -1 = no recipient
}

func newBatch(ws store.Workspace, set *definition.Set, items []Item, now time.Time, once *store.Idempotent[[]Result]) *batch {
	b := &batch{ws: ws, set: set, items: items, now: now, idempotent: once, planned: make([]planned, len(items)), turn: make(chan struct{}, 1)}
	addresses := sync.OnceValue(func() key.Keyed { return key.NewKeyed(ws.Secret, key.PurposeAddress) }) // few events name a recipient
	for i, item := range items {
		b.planned[i].person = -1
		if item.Err != nil {
			continue
		}
		occasions := plan.Event(set, item.Event)
		b.planned[i].occasions = occasions
		if due, wanted := b.wantsRecipient(occasions); wanted && item.Event.Recipient != nil {
			b.planned[i].person = len(b.people)
			ref := audience.Recipient(addresses(), *item.Event.Recipient)
			ref.Create, ref.Lock = true, due
			b.people = append(b.people, ref)
		}
		for _, o := range occasions {
			if o.Matched() {
				b.keys = append(b.keys, string(o.Key))
				if !slices.Contains(b.types, o.Workflow.Type) {
					b.types = append(b.types, o.Workflow.Type)
				}
				b.fold = b.fold || slices.ContainsFunc(o.Trigger.Forms(), func(t *definition.Trigger) bool { return admission.Folds(t.Limits) })
			}
		}
	}
	return b
}

// addresses are those to which the messages of a group could go.
func (f facts) addresses(group []*batch) (list []admission.Address) {
	people := f.recipients
	for _, b := range group {
		if b.out() {
			continue
		}
		of := people[:len(b.people)]
		people = people[len(b.people):]
		for i, p := range b.planned {
			for _, o := range p.occasions {
				if p.person >= 0 && o.Matched() && toRecipient(o) {
					list = append(list, audience.OfRecipient(of[p.person], *b.items[i].Event.Recipient).Addresses(b.ws.ID, o.Trigger)...)
				}
			}
		}
	}
	return list
}

// addressesOf returns the hashes of the addresses of a group's workspace.
func addressesOf(group []*batch) func(subject.WorkspaceID) (key.Keyed, error) {
	keyed := sync.OnceValue(func() key.Keyed { return key.NewKeyed(group[0].ws.Secret, key.PurposeAddress) })
	return func(subject.WorkspaceID) (key.Keyed, error) { return keyed(), nil }
}

// wantsRecipient reports whether an occasion goes to the event's recipient, and whether one of these occasions is due.
func (b *batch) wantsRecipient(occasions []plan.Occasion) (due, wanted bool) {
	for _, o := range occasions {
		if o.Matched() && toRecipient(o) {
			wanted = true
			due = due || !o.NotBefore.After(b.now) // also when a course is not placed yet
		}
	}
	return due, wanted
}

// toRecipient reports whether a message of an occasion goes to the event's recipient.
func toRecipient(o plan.Occasion) bool {
	if o.Trigger.Course() == nil {
		return audience.OfEvent(o.Trigger)
	}
	return slices.ContainsFunc(o.Workflow.TriggerByID(o.Trigger.ID).Forms(), audience.OfEvent)
}

// changed reports whether the batch stored anything.
func (b *batch) changed() bool {
	for _, r := range b.results {
		if r.Outcome != Failed {
			return true
		}
	}
	return false
}
