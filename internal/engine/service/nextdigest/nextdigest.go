// Package nextdigest says what the next digests of a person hold, as they would be with what is known now. It changes nothing.
//
//	subscriptions of a person ─▶ triggers that serve them ─▶ next run of each ─▶ digests.Read, as the run reads it
package nextdigest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Digest is the next digest of a person, as it would be with what is known now.
type Digest struct {
	Workflow, Trigger string
	Due               time.Time     // of its run
	Window            digest.Window // the items that it holds
	Sections          []Section     // none: nothing is new so far
	More              int           // items that find no room
}

// Section is what a digest holds of one topic.
type Section struct {
	Topic, Title string
	Items        []Item
	See          []Item // they stand in an earlier section
	More         int
}

// Item is an item of a digest.
type Item struct {
	ID, Version, Title string
	ReceivedAt         time.Time
}

// Service is the service.
type Service struct {
	store   *store.Store
	catalog *catalog.Catalog
	topics  *topics.Topics
}

// New makes the service.
func New(s *store.Store, c *catalog.Catalog, t *topics.Topics) *Service { return &Service{s, c, t} }

// Of returns the next digest of each trigger that serves subscriptions of a contact, in the order in which they are due.
func (s *Service) Of(ctx context.Context, ws subject.WorkspaceID, contact subject.ContactID, now time.Time) ([]Digest, error) {
	set, err := s.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	r := reading{Service: s, ws: ws, set: set, now: now}
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		r.tx, r.list = tx, nil
		return r.read(contact)
	})
	if err != nil {
		return nil, fmt.Errorf("the next digests of a contact: %w", err)
	}
	slices.SortStableFunc(r.list, func(a, b Digest) int { return a.Due.Compare(b.Due) })
	return r.list, nil
}

// reading reads the next digests of one person.
type reading struct {
	*Service
	tx     *store.Tx
	ws     subject.WorkspaceID
	set    *definition.Set
	now    time.Time
	person subject.Contact
	list   []Digest
}

func (r *reading) read(contact subject.ContactID) error {
	ref := delivery.PersonRef{Workspace: r.ws, ID: contact}
	people, err := r.tx.ContactsByID([]delivery.PersonRef{ref})
	if err != nil {
		return err
	}
	active, err := r.tx.ActiveSubscriptions(r.ws, []subject.ContactID{contact})
	if err != nil || len(active[contact]) == 0 {
		return err
	}
	r.person = people[ref]
	for _, w := range r.set.Workflows() {
		for _, t := range w.Trigger {
			if t.Digest == nil || !w.Enabled || !t.Enabled {
				continue
			}
			if err := r.next(w, t, active[contact]); err != nil {
				return err
			}
		}
	}
	return nil
}

// next adds the next digest by a trigger, if it serves a subscription of the person and has a further run.
func (r *reading) next(w *definition.Workflow, t *definition.Trigger, active []topic.Subscription) error {
	people := plan.OnlyFollowers(t, 0)
	meant, err := r.tx.TopicsMeant(r.ws, people)
	if err != nil {
		return err
	}
	served := topic.Served(active, people, meant, 0)
	due, period, ok, err := r.run(t)
	if err != nil || !ok || len(served) == 0 {
		return err
	}
	windows, err := digests.Windows(r.tx, []digests.Asked{{RunTrigger: store.RunTrigger{Workspace: r.ws, Workflow: w.Name, Trigger: t.ID}, Period: period, Rules: *t.Digest}})
	if err != nil {
		return err
	}
	rows, err := r.topicsOf(served)
	if err != nil {
		return err
	}
	// Sections stand in the order that they have in the language of the workspace, as in the message.
	titles := func(id subject.TopicID) (title, name string) {
		return r.topics.Title(rows[id], r.set.Workspace.Locale), rows[id].Name
	}
	asked := []digests.Question{{Contact: r.person.ID, Subscriptions: served, Window: windows[0], Rules: *t.Digest}}
	answers, err := digests.Read(r.tx, r.ws, r.set, asked, titles)
	if err != nil {
		return err
	}
	contents := answers[0].Contents
	items, err := r.items(contents)
	if err != nil {
		return err
	}
	next := Digest{Workflow: w.Name, Trigger: t.ID, Due: due, Window: windows[0], More: contents.More}
	for _, s := range contents.Sections {
		section := Section{Topic: rows[s.Topic].Name, Title: r.topics.Title(rows[s.Topic], r.person.Locale, r.set.Workspace.Locale), More: s.More}
		for _, id := range s.Items {
			section.Items = append(section.Items, items[id])
		}
		for _, id := range s.See {
			section.See = append(section.See, items[id])
		}
		next.Sections = append(next.Sections, section)
	}
	r.list = append(r.list, next)
	return nil
}

// run returns when the next run of a trigger is due for the person, and its window without those that it makes up for.
func (r *reading) run(t *definition.Trigger) (due time.Time, period digest.Window, ok bool, err error) {
	s := t.OnSchedule()
	zone := cmp.Or(s.Timezone, r.set.Workspace.Timezone)
	if s.ByContact {
		zone = cmp.Or(r.person.Timezone, zone)
	}
	loc, err := r.catalog.Zones.Load(zone)
	if err != nil {
		return due, period, false, err
	}
	for o := range s.Calendar.Since(r.now.Add(time.Microsecond), loc) {
		start, end, _ := s.Calendar.PeriodOf(o.Date, loc)
		return o.Due, digest.Window{From: start.UTC(), End: end.UTC()}, true, nil
	}
	return due, period, false, nil
}

// topicsOf reads the topics of subscriptions.
func (r *reading) topicsOf(served []topic.Subscription) (map[subject.TopicID]store.TopicRow, error) {
	ids := make([]subject.TopicID, len(served))
	for i, s := range served {
		ids[i] = s.Topic
	}
	return r.tx.TopicsByID(r.ws, ids)
}

// items reads the items that a digest holds.
func (r *reading) items(contents digest.Contents) (map[subject.EventID]Item, error) {
	var refs []store.EventRef
	for _, s := range contents.Sections {
		for _, id := range slices.Concat(s.Items, s.See) {
			refs = append(refs, store.EventRef{Workspace: r.ws, ID: id})
		}
	}
	events, err := r.tx.EventsByID(refs)
	if err != nil {
		return nil, err
	}
	items := make(map[subject.EventID]Item, len(events))
	for ref, row := range events {
		text := func(field string) string { s, _ := row.Event.Payload[field].(string); return s }
		items[ref.ID] = Item{ID: text("id"), Version: text("version"), Title: text("title"), ReceivedAt: row.Event.ReceivedAt}
	}
	return items, nil
}
