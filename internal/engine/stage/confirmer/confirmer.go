// Package confirmer has the contacts asked who are to confirm that they want to follow a topic (double opt-in).
//
//	subscription, to a topic with confirm ─▶ request ─▶ event subscription.requested ─▶ a workflow's message, with confirm_link
//	                                            │  three days later: once more
//	                                            └─ a week later: gone
//
// Invariants:
//   - Nothing is sent by a subscription before it is confirmed: until then there is a request, and no subscription.
//   - A contact is asked at most twice by a request, and each of these events is stored with the request as it is from then on, in one transaction.
package confirmer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// page is how many requests one transaction takes.
const page = 100

// Store is what the stage needs of the store.
type Store interface {
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
}

// Events stores events and makes their occasions in a transaction; package ingest has it.
type Events interface {
	Within(tx *store.Tx, ws store.Workspace, set *definition.Set, events []subject.Event, now time.Time, calls *expr.Calls) ([]journal.Entry, error)
}

// Confirmer is the stage.
type Confirmer struct {
	store   Store
	catalog *catalog.Catalog
	topics  *topics.Topics
	events  Events
	journal journal.Writer
}

// New makes the stage.
func New(s Store, c *catalog.Catalog, t *topics.Topics, e Events, w journal.Writer) *Confirmer {
	return &Confirmer{s, c, t, e, w}
}

// Step takes the requests that are due, up to limit, and returns how many there were.
func (c *Confirmer) Step(ctx context.Context, now time.Time, limit int) (n int, more bool, err error) {
	limit = min(limit, page)
	var entries []journal.Entry
	calls := &expr.Calls{}
	err = c.catalog.Supply(ctx, limit, func(limit int) error {
		return c.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			n, entries = 0, nil
			due, err := tx.DueSubscriptionRequests(now, limit)
			if err != nil {
				return err
			}
			for ws, requests := range due {
				made, err := c.ask(tx, ws, requests, now, calls)
				if err != nil {
					return err
				}
				n, entries = n+len(requests), append(entries, made...)
			}
			return nil
		})
	})
	if err != nil {
		return 0, false, fmt.Errorf("ask to confirm subscriptions: %w", err)
	}
	for _, entry := range entries {
		c.journal.Write(entry)
	}
	return n, n >= limit, nil
}

// ask asks the contacts of the requests of a workspace, and removes those whose time is over.
func (c *Confirmer) ask(tx *store.Tx, id subject.WorkspaceID, requests []topic.Request, now time.Time, calls *expr.Calls) ([]journal.Entry, error) {
	var kept []topic.Request
	var ids []subject.TopicID
	var refs []delivery.PersonRef
	for _, q := range requests {
		if next, asks, gone := q.Ask(now); asks && !gone {
			kept, ids, refs = append(kept, next), append(ids, q.Topic), append(refs, delivery.PersonRef{Workspace: id, ID: q.Contact})
		}
	}
	if len(kept) > 0 {
		rows, err := tx.TopicsByID(id, ids)
		if err != nil {
			return nil, err
		}
		contacts, err := tx.ContactsByID(refs)
		if err != nil {
			return nil, err
		}
		events := make([]subject.Event, len(kept))
		for i, q := range kept {
			events[i] = c.event(q, rows[q.Topic], contacts[refs[i]], now)
		}
		number, err := tx.DefinitionsNumber(id)
		if err != nil {
			return nil, err
		}
		set, err := c.catalog.Loaded(id, number)
		if err != nil {
			return nil, err
		}
		ws, err := c.catalog.Workspace(id)
		if err != nil {
			return nil, err
		}
		entries, err := c.events.Within(tx, ws.Workspace, set, events, now, calls)
		if err != nil {
			return nil, err
		}
		return entries, tx.WriteSubscriptionRequests(id, requests, kept)
	}
	return nil, tx.WriteSubscriptionRequests(id, requests, nil)
}

// event is the event by which a contact is asked.
func (c *Confirmer) event(q topic.Request, of store.TopicRow, contact subject.Contact, now time.Time) subject.Event {
	return subject.Event{
		Kind: definition.SubscriptionRequested, ExtID: "subscription-" + strconv.FormatInt(q.ID, 10) + "-" + strconv.Itoa(q.Asked), OccurredAt: now, OccurredGiven: true,
		Recipient: &subject.Recipient{CustomerRef: contact.ExtID},
		Payload: map[string]any{
			"topic": of.Name, "title": c.topics.Title(of, contact.Locale), "frequency": q.Frequency, "reminder": q.Asked > 1,
			"requested_at": q.RequestedAt.UTC().Format(time.RFC3339), "expires_at": q.Expires().UTC().Format(time.RFC3339),
		},
	}
}
