package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/suggest"
	"github.com/carillonhq/carillon/internal/topic"
)

// MaxBatch is how many subscriptions one call may begin or end.
const MaxBatch = 1000

// Request is a subscription that a caller wants, or wants to end, or the error for which it was refused.
type Request struct {
	Contact   string // the caller's id; empty: the contact of Address
	Address   string // an e-mail address or a telephone number; a contact is made for it if nobody has it
	Locale    string // of a contact that is made
	Topic     string // its name
	Frequency string // empty: the subscription is to end
	Err       *upsert.Error
}

func wrong(field, message, hint string) *upsert.Error {
	return &upsert.Error{Reason: reason.InvalidSubscription, Field: field, Message: message, Hint: hint}
}

// ParseRequest reads {contact or address, locale, topic, frequency}; without a locale and a frequency for a subscription that is to end. The JSON was validated
// before.
func ParseRequest(raw json.RawMessage, ends bool) Request {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil || fields == nil {
		return Request{Err: wrong("", "a subscription is a JSON object", `{"contact": "…", "topic": "…", "frequency": "immediate"}`)}
	}
	var r Request
	to := map[string]*string{"contact": &r.Contact, "address": &r.Address, "topic": &r.Topic}
	if !ends {
		to["frequency"], to["locale"] = &r.Frequency, &r.Locale
	}
	names := slices.Sorted(maps.Keys(to))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := to[name]
		if !ok {
			hint := suggest.DidYouMean(name, names)
			if hint == "" {
				hint = "it has " + strings.Join(names, ", ")
			}
			r.Err = wrong(name, "unknown key", hint)
			return r
		}
		switch value := fields[name].(type) {
		case string:
			*field = value
		case json.Number:
			*field = value.String()
		default:
			r.Err = wrong(name, "is not a text", "put it in quotes")
			return r
		}
	}
	if r.Err = r.checkPerson(); r.Err != nil {
		return r
	}
	for _, name := range names {
		if to[name] == &r.Address || to[name] == &r.Locale || r.Address != "" && to[name] == &r.Contact {
			continue // checked with the person
		}
		if *to[name] == "" {
			r.Err = wrong(name, "is missing", map[string]string{
				"topic": "the name of a topic", "frequency": "immediate, or a frequency that a trigger serves",
			}[name])
			return r
		}
		if problem, hint := subject.CheckName(*to[name]); problem != "" {
			r.Err = wrong(name, problem, hint)
			return r
		}
	}
	if !ends && key.Slug(r.Frequency) != nil {
		r.Err = wrong("frequency", key.Slug(r.Frequency).Error(), "such as immediate or daily")
	}
	return r
}

// Subscribed is the answer to one request.
type Subscribed struct {
	Outcome      upsert.Outcome // created, changed (its frequency, or that it has ended), unchanged or failed
	Error        *upsert.Error
	Subscription topic.Subscription // as it is now; zero: there is none
	Contact      string
	Topic        string
	Warning      string // it was taken, and is probably a mistake; empty: it is none
}

// Subscribe begins subscriptions, or changes their frequency.
func (w *Writer) Subscribe(ctx context.Context, ws store.Workspace, list []Request, source topic.Source, now time.Time, once *store.Idempotent[[]Subscribed]) ([]Subscribed, error) {
	return w.write(ctx, ws, list, now, once, func(known pending, active *topic.Subscription, contact subject.ContactID, of store.TopicRow, r Request) topic.Change {
		return topic.Subscribe(active, topic.Subscription{
			ID: topic.SubscriptionID(w.store.NewID(now)), Contact: contact, Topic: of.ID, Frequency: r.Frequency, Source: source, Covered: known.covered(active),
		}, now)
	}, false)
}

// Unsubscribe ends subscriptions.
func (w *Writer) Unsubscribe(ctx context.Context, ws store.Workspace, list []Request, now time.Time, once *store.Idempotent[[]Subscribed]) ([]Subscribed, error) {
	return w.write(ctx, ws, list, now, once, func(_ pending, active *topic.Subscription, _ subject.ContactID, _ store.TopicRow, _ Request) topic.Change {
		return topic.Unsubscribe(active, topic.EndUnsubscribed, now)
	}, true)
}

type change func(known pending, active *topic.Subscription, contact subject.ContactID, of store.TopicRow, r Request) topic.Change

// write applies requests in their order; a request sees the changes of the earlier ones. It locks the deliveries of the contacts before the contacts, as a
// suppression does: what is being sent was committed before.
func (w *Writer) write(ctx context.Context, ws store.Workspace, list []Request, now time.Time, once *store.Idempotent[[]Subscribed], decide change, ends bool) ([]Subscribed, error) {
	if len(list) > MaxBatch {
		return nil, fmt.Errorf("a call holds at most %d subscriptions, not %d", MaxBatch, len(list))
	}
	var results []Subscribed
	work := func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		list, err := found(tx, ws, list)
		if err != nil {
			return err
		}
		var contacts, names []string
		for _, r := range list {
			if r.Err == nil {
				contacts, names = append(contacts, r.Contact), append(names, r.Topic)
			}
		}
		names = slices.Compact(slices.Sorted(slices.Values(names)))
		if ends {
			if _, err := tx.LockDeliveriesOf(ws.ID, contacts); err != nil {
				return err
			}
		}
		known, err := tx.LockContacts(ws.ID, contacts)
		if err != nil {
			return err
		}
		for _, r := range list {
			if r.Address != "" && r.Err == nil && known[r.Contact].Claimant != "" {
				return store.ErrAgain // the address was claimed meanwhile
			}
		}
		stored, err := tx.TopicsByName(ws.ID, names)
		if err != nil {
			return err
		}
		ids := make([]subject.ContactID, 0, len(known))
		for _, c := range known {
			ids = append(ids, c.ID)
		}
		active, err := tx.ActiveSubscriptions(ws.ID, ids)
		if err != nil {
			return err
		}
		p := pending{known: known, topics: stored, active: map[subscribed]topic.Subscription{}, offers: w.offers}
		if p.last, err = tx.LastMatch(ws.ID); err != nil {
			return err
		}
		for _, s := range slices.Concat(slices.Collect(maps.Values(active))...) {
			p.active[subscribed{s.Contact, s.Topic}] = s
		}
		if p.waiting, err = tx.WaitingMatches(ws.ID, p.leaveImmediate(list), now.Add(-digest.Horizon)); err != nil {
			return err
		}
		var changes []topic.Change
		results = make([]Subscribed, len(list))
		for i, r := range list {
			var made topic.Change
			results[i], made = p.apply(r, decide)
			if made.Changed() {
				changes = append(changes, made)
			}
		}
		if err := w.warn(tx, ws, list, results); err != nil {
			return err
		}
		changes = p.net(changes)
		if err := tx.WriteSubscriptions(ws.ID, changes); err != nil {
			return err
		}
		if err := digests.TellRest(tx, w.catalog.Loaded, ws.ID, changes, func() int64 { return w.store.NewID(now) }, now); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, results)
	}
	if err := w.makeContacts(ctx, ws, list, now); err != nil {
		return nil, fmt.Errorf("make contacts of addresses: %w", err)
	}
	err := w.catalog.Supply(ctx, len(list), func(int) error { return w.store.WriteHoldingDefinitions(ctx, work) })
	if err != nil {
		return nil, fmt.Errorf("write subscriptions: %w", err)
	}
	return results, nil
}

// warn warns of frequencies that no trigger serves: nothing is sent to those who choose them.
func (w *Writer) warn(tx *store.Tx, ws store.Workspace, list []Request, results []Subscribed) error {
	served := map[[2]string]bool{}
	var set *definition.Set
	for i, r := range list {
		if results[i].Error != nil || r.Frequency == "" {
			continue
		}
		if set == nil {
			number, err := tx.DefinitionsNumber(ws.ID)
			if err != nil {
				return err
			}
			if set, err = w.catalog.Loaded(ws.ID, number); err != nil {
				return err
			}
		}
		at := [2]string{r.Topic, r.Frequency}
		if _, known := served[at]; !known {
			served[at] = plan.ReachesFollowers(set, r.Topic, r.Frequency)
		}
		if !served[at] {
			results[i].Warning = fmt.Sprintf("no trigger serves the frequency %s of topic %s: nothing is sent by it until one does", r.Frequency, r.Topic)
		}
	}
	return nil
}

// subscribed is a contact and a topic.
type subscribed struct {
	contact subject.ContactID
	topic   subject.TopicID
}

// pending are the subscriptions of a call as its requests leave them.
type pending struct {
	known  map[string]subject.ContactRow
	topics map[string]store.TopicRow
	active map[subscribed]topic.Subscription
	offers func(store.TopicRow, string) (bool, []string, error)
	// last is the last match of the workspace, and waiting the first one of those who get each item at once that they have not got yet.
	last    int64
	waiting map[store.Following]int64
}

// covered returns the match up to which a contact is covered in a topic, once they follow it with another frequency or begin to.
func (p *pending) covered(active *topic.Subscription) int64 {
	if active == nil {
		return p.last
	}
	if first := p.waiting[store.Following{Contact: active.Contact, Topic: active.Topic}]; first > 0 {
		return first - 1
	}
	return p.last
}

// leaveImmediate returns the subscriptions of those who get each item at once, and will not by a call.
func (p *pending) leaveImmediate(list []Request) []store.Following {
	var of []store.Following
	for _, r := range list {
		at := subscribed{p.known[r.Contact].ID, p.topics[r.Topic].ID}
		if s, ok := p.active[at]; r.Err == nil && ok && s.Frequency == topic.Immediate && r.Frequency != "" && r.Frequency != topic.Immediate {
			of = append(of, store.Following{Contact: s.Contact, Topic: s.Topic})
		}
	}
	return slices.Compact(of)
}

// apply applies one request.
func (p *pending) apply(r Request, decide change) (Subscribed, topic.Change) {
	result := Subscribed{Contact: r.Contact, Topic: r.Topic, Outcome: upsert.Failed}
	contact, known := p.known[r.Contact]
	of, exists := p.topics[r.Topic]
	switch {
	case r.Err != nil:
		result.Error = r.Err
	case r.Address != "" && !exists:
		result.Error = noTopic(r.Topic)
	case !known:
		result.Error = wrong("contact", "there is no contact "+r.Contact, "write the contact first, by POST /v1/contacts")
	case contact.Claimant != "":
		result.Error = wrong("contact", "contact "+r.Contact+" was merged into "+contact.Claimant, "name that one")
	case !exists || r.Frequency != "" && !of.RemovedAt.IsZero():
		result.Error = noTopic(r.Topic)
	case r.Frequency != "":
		offers, others, err := p.offers(of, r.Frequency)
		if err != nil {
			result.Error = wrong("topic", err.Error(), "")
		} else if !offers {
			result.Error = wrong("frequency", fmt.Sprintf("topic %s offers no frequency %s", r.Topic, r.Frequency), "it offers "+strings.Join(others, ", "))
		}
	}
	if result.Error != nil {
		return result, topic.Change{}
	}
	at := subscribed{contact.ID, of.ID}
	var active *topic.Subscription
	if s, ok := p.active[at]; ok {
		active, result.Subscription = &s, s
	}
	made := decide(*p, active, contact.ID, of, r)
	switch {
	case !made.Changed():
		result.Outcome = upsert.Unchanged
		return result, made
	case made.Ended == nil:
		result.Outcome = upsert.Created
	default:
		result.Outcome, result.Subscription = upsert.Changed, *made.Ended
		delete(p.active, at)
	}
	if made.Started != nil {
		p.active[at], result.Subscription = *made.Started, *made.Started
	}
	return result, made
}

func noTopic(name string) *upsert.Error {
	return wrong("topic", "there is no topic "+name, "GET /v1/topics lists the topics")
}

// net leaves out what a call both begins and ends.
func (p *pending) net(changes []topic.Change) []topic.Change {
	began := map[topic.SubscriptionID]*topic.Change{}
	var net []*topic.Change
	for _, c := range changes {
		if c.Ended != nil {
			if before := began[c.Ended.ID]; before != nil {
				before.Started, c.Ended = nil, nil
			}
		}
		kept := &c
		if c.Started != nil {
			began[c.Started.ID] = kept
		}
		net = append(net, kept)
	}
	var list []topic.Change
	for _, c := range net {
		if c.Changed() {
			list = append(list, *c)
		}
	}
	return list
}

// offers reports whether a topic offers a frequency, and which ones it offers.
func (w *Writer) offers(row store.TopicRow, frequency string) (bool, []string, error) {
	of, err := w.topics.Compiled(row)
	if err != nil {
		return false, nil, err
	}
	return of.Offers(frequency), of.Frequencies, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always has a form
	}
	return string(b)
}
