package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// recently is how long a topic that somebody has left stays on the page where they manage what they follow, so that they can come back.
const recently = 30 * 24 * time.Hour

// Managed is what a contact follows, as the page shows it where they manage that.
type Managed struct {
	Contact subject.Contact // after a merge the survivor
	Topics  []ManagedTopic  // in the order of their titles
}

// ManagedTopic is a topic that a contact follows, or did until lately.
type ManagedTopic struct {
	Name, Title, Description string
	Frequency                string   // empty: they have left it
	Frequencies              []string // among which they choose, the most frequent one first
}

// Managed returns what a contact follows. It changes nothing. store.ErrNotFound: there is no such contact any more.
func (w *Writer) Managed(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID, now time.Time) (m Managed, err error) {
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		if m.Contact, err = survivor(tx, ws, id); err != nil {
			return err
		}
		m.Topics, err = w.managed(tx, ws, m.Contact, now)
		return err
	})
	if err != nil {
		return Managed{}, fmt.Errorf("read what a contact follows: %w", err)
	}
	return m, nil
}

func (w *Writer) managed(tx *store.Tx, ws subject.WorkspaceID, c subject.Contact, now time.Time) ([]ManagedTopic, error) {
	of, err := tx.SubscriptionsOfContact(ws, c.ID)
	if err != nil {
		return nil, err
	}
	latest := map[subject.TopicID]topic.Subscription{}
	for _, s := range of {
		if s.Active() || s.EndReason == topic.EndUnsubscribed && now.Sub(s.EndedAt) < recently {
			latest[s.Topic] = s.Subscription
		} else {
			delete(latest, s.Topic)
		}
	}
	rows, err := tx.TopicsByID(ws, slices.Sorted(maps.Keys(latest)))
	if err != nil {
		return nil, err
	}
	number, err := tx.DefinitionsNumber(ws)
	if err != nil {
		return nil, err
	}
	set, err := w.catalog.Loaded(ws, number)
	if err != nil {
		return nil, err
	}
	var list []ManagedTopic
	for id, s := range latest {
		row, ok := rows[id]
		if !ok || !row.RemovedAt.IsZero() {
			continue
		}
		of, err := w.topics.Compiled(row)
		if err != nil {
			return nil, err
		}
		m := ManagedTopic{Name: row.Name, Title: w.topics.Title(row, c.Locale, set.Workspace.Locale), Description: of.Description}
		if s.Active() {
			m.Frequency = s.Frequency
		}
		m.Frequencies = choices(set, of, s.Frequency)
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b ManagedTopic) int { return cmp.Or(cmp.Compare(a.Title, b.Title), cmp.Compare(a.Name, b.Name)) })
	return list, nil
}

// choices are the frequencies among which people choose for a topic: those that it offers, else those that a trigger serves; and the one that they have.
func choices(set *definition.Set, of *definition.Topic, has string) []string {
	list := slices.Clone(of.Frequencies)
	if len(list) == 0 {
		list = plan.FrequenciesOf(set, of.Name)
	}
	if !slices.Contains(list, has) {
		list = append(list, has)
	}
	slices.SortStableFunc(list, topic.CompareFrequencies)
	return list
}

// Choose has a contact follow topics as they have chosen by their link: by topic, the frequency; empty: they leave it. What they do not name stays as it is. They
// are the ones who would confirm it. They choose among what Managed offers them; the names of the topics for which it was refused are returned.
// store.ErrNotFound: there is no such contact any more.
func (w *Writer) Choose(ctx context.Context, ws store.Workspace, id subject.ContactID, chosen map[string]string, now time.Time) (refused []string, err error) {
	m, err := w.Managed(ctx, ws.ID, id, now)
	if err != nil {
		return nil, err
	}
	offered := map[string][]string{}
	for _, t := range m.Topics {
		offered[t.Name] = t.Frequencies
	}
	var list []Request
	for _, name := range sortedKeys(chosen) {
		if among, ok := offered[name]; !ok || chosen[name] != "" && !slices.Contains(among, chosen[name]) {
			refused = append(refused, name)
			continue
		}
		list = append(list, Request{Contact: m.Contact.ExtID, Topic: name, Frequency: chosen[name], Confirmed: true})
	}
	for page := range slices.Chunk(list, MaxBatch) {
		results, err := w.manage(ctx, ws, page, now)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			if r.Outcome == upsert.Failed {
				refused = append(refused, r.Topic)
			}
		}
	}
	return refused, nil
}

// LeaveAll ends all that a contact follows, and what waits for them to confirm it, by their link. store.ErrNotFound: there is no such contact any more.
func (w *Writer) LeaveAll(ctx context.Context, ws store.Workspace, id subject.ContactID, now time.Time) error {
	contact, err := w.survivor(ctx, ws.ID, id)
	if err != nil {
		return fmt.Errorf("leave all topics: %w", err)
	}
	_, err = w.manage(ctx, ws, []Request{{Contact: contact.ExtID, All: true}}, now)
	return err
}

// manage writes what a contact wants by their link.
func (w *Writer) manage(ctx context.Context, ws store.Workspace, list []Request, now time.Time) ([]Subscribed, error) {
	return w.write(ctx, &call{Writer: w, ws: ws, list: list, now: now, source: topic.SourceManage, ends: true, actor: manageActor, action: "manage subscriptions"}, nil)
}

// ErrNothingRequested: there is nothing to confirm any more.
var ErrNothingRequested = errors.New("nothing waits to be confirmed")

// Confirm begins the subscription that a contact confirms. It may be confirmed again, which changes nothing. ErrNothingRequested: its time is over, or another
// one took its place. store.ErrNotFound: there is no such contact any more.
func (w *Writer) Confirm(ctx context.Context, ws store.Workspace, c topic.Confirming, now time.Time) error {
	contact, err := w.survivor(ctx, ws.ID, c.Contact)
	if err != nil {
		return fmt.Errorf("confirm a subscription: %w", err)
	}
	list := []Request{{Contact: contact.ExtID, Topic: c.Topic, confirms: true}}
	results, err := w.write(ctx, &call{Writer: w, ws: ws, list: list, now: now, ends: true, actor: confirmActor, action: "confirm subscription"}, nil)
	switch {
	case err != nil:
		return err
	case results[0].Subscription.ID == 0:
		return ErrNothingRequested
	}
	return nil
}

// Requested is a subscription that somebody is to confirm.
type Requested struct {
	Contact   subject.Contact
	Title     string
	Frequency string
	Confirmed bool // it goes on already
}

// Requested returns what a contact is to confirm. It changes nothing. The errors are those of Confirm.
func (w *Writer) Requested(ctx context.Context, ws subject.WorkspaceID, c topic.Confirming, now time.Time) (r Requested, err error) {
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		if r.Contact, err = survivor(tx, ws, c.Contact); err != nil {
			return err
		}
		rows, err := tx.TopicsByName(ws, []string{c.Topic})
		if err != nil {
			return err
		}
		row := rows[c.Topic]
		r.Title = w.topics.Title(row, r.Contact.Locale)
		waiting, err := tx.SubscriptionRequests(ws, []subject.ContactID{r.Contact.ID})
		if err != nil {
			return err
		}
		for _, q := range waiting {
			if q.Topic == row.ID && now.Before(q.Expires()) {
				r.Frequency = q.Frequency
				return nil
			}
		}
		active, err := tx.ActiveSubscriptions(ws, []subject.ContactID{r.Contact.ID})
		if err != nil {
			return err
		}
		for _, s := range active[r.Contact.ID] {
			if s.Topic == row.ID {
				r.Frequency, r.Confirmed = s.Frequency, true
				return nil
			}
		}
		return ErrNothingRequested
	})
	if err != nil {
		return Requested{}, fmt.Errorf("read what waits to be confirmed: %w", err)
	}
	return r, nil
}

// Who did it in the audit.
const (
	manageActor  = "manage link"
	confirmActor = "confirm link"
)

func (w *Writer) survivor(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID) (c subject.Contact, err error) {
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		c, err = survivor(tx, ws, id)
		return err
	})
	return c, err
}

// survivor returns a contact, after merges the one that is left. store.ErrNotFound: there is no such contact any more.
func survivor(tx *store.Tx, ws subject.WorkspaceID, id subject.ContactID) (c subject.Contact, err error) {
	for range mergers {
		ref := delivery.PersonRef{Workspace: ws, ID: id}
		found, err := tx.ContactsByID([]delivery.PersonRef{ref})
		if err != nil {
			return c, err
		}
		contact, ok := found[ref]
		if !ok {
			return c, store.ErrNotFound
		}
		if c = contact; contact.MergedInto == 0 {
			break
		}
		id = contact.MergedInto
	}
	return c, nil
}
