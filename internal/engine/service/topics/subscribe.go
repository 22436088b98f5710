package topics

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
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
	All       bool   // all subscriptions of the contact are to end, and what waits to be confirmed is dropped; it has no topic
	Confirmed bool   // the contact is known to want it: it begins at once, also where the topic demands a confirmation
	Err       *upsert.Error

	confirms bool // the contact confirms what was requested
}

func wrong(field, message, hint string) *upsert.Error {
	return &upsert.Error{Reason: reason.InvalidSubscription, Field: field, Message: message, Hint: hint}
}

// ParseRequest reads {contact or address, locale, topic, frequency, confirmed}; for a subscription that is to end {contact or address, topic or all}. The JSON
// was validated before.
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
	flag, of, means := "confirmed", &r.Confirmed, "true: the person is known to want it"
	if ends {
		flag, of, means = "all", &r.All, "true: all subscriptions of the person end"
	}
	known := append(slices.Clone(names), flag)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if yes, ok := fields[name].(bool); ok && name == flag {
			*of = yes
			continue
		}
		if name == flag {
			r.Err = wrong(name, "is neither true nor false", means)
			return r
		}
		field, ok := to[name]
		if !ok {
			hint := suggest.DidYouMean(name, known)
			if hint == "" {
				hint = "it has " + strings.Join(known, ", ")
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
		switch to[name] {
		case &r.Address, &r.Locale: // checked with the person
			continue
		case &r.Contact:
			if r.Address != "" {
				continue
			}
		case &r.Topic:
			if r.All && r.Topic == "" {
				continue
			}
			if r.All {
				r.Err = wrong("all", "cannot be combined with topic", "leave one of them out")
				return r
			}
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
	Outcome      upsert.Outcome // created, changed (its frequency, or that it has ended), unchanged, pending or failed
	Error        *upsert.Error
	Subscription topic.Subscription // as it is now; zero: there is none
	Contact      string
	Topic        string
	Topics       []string // of a request about all subscriptions: the topics that the contact does not subscribe to any more, by name
	Warning      string   // it was taken, and is probably a mistake; empty: it is none
}

// Subscribe begins subscriptions, or changes their frequency.
func (w *Writer) Subscribe(ctx context.Context, ws store.Workspace, list []Request, source topic.Source, now time.Time, once *store.Idempotent[[]Subscribed]) ([]Subscribed, error) {
	if err := w.makeContacts(ctx, ws, list, now); err != nil {
		return nil, fmt.Errorf("make contacts of addresses: %w", err)
	}
	return w.write(ctx, &call{Writer: w, ws: ws, list: list, now: now, source: source}, once)
}

// Unsubscribe ends subscriptions.
func (w *Writer) Unsubscribe(ctx context.Context, ws store.Workspace, list []Request, now time.Time, once *store.Idempotent[[]Subscribed]) ([]Subscribed, error) {
	return w.write(ctx, &call{Writer: w, ws: ws, list: list, now: now, ends: true}, once)
}

// write applies requests in one transaction.
func (w *Writer) write(ctx context.Context, c *call, once *store.Idempotent[[]Subscribed]) ([]Subscribed, error) {
	if len(c.list) > MaxBatch {
		return nil, fmt.Errorf("a call holds at most %d subscriptions, not %d", MaxBatch, len(c.list))
	}
	var results []Subscribed
	work := func(tx *store.Tx) error {
		if err := once.Begin(tx, c.ws.ID); err != nil {
			return err
		}
		var err error
		if results, err = c.step(tx); err != nil {
			return err
		}
		return once.Keep(tx, c.ws.ID, results)
	}
	err := w.catalog.Supply(ctx, len(c.list), func(int) error { return w.store.WriteHoldingDefinitions(ctx, work) })
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

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always has a form
	}
	return string(b)
}
