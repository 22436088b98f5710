package sender

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// The contents of a digest are fixed by the first intent that lets it leave, and are the same in each further try. Topics that its person has left since
// are left out. The result moves what the person is covered for; if the message is given up, the next digest has its items.

// digestTx is what the intents of digests need of a store.Tx.
type digestTx interface {
	digests.Tx
	EventsByID(refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
	digests.WindowsTx
	TopicsByID(ws subject.WorkspaceID, ids []subject.TopicID) (map[subject.TopicID]store.TopicRow, error)
	Served(asked []store.ServedQuestion) ([]store.Served, error)
	Digests(refs []store.DeliveryRef) (map[delivery.ID]store.DigestRow, error)
	WriteDigests(list []store.DigestRow) error
	MoveCovered(list []store.CoveredRow) error
}

// readDigests finds what the digests among claims tell. One that has nothing new any more is covered.
func (r *admitting) readDigests(tx intentTx, claims []admission.Claimed) error {
	var of []int
	for i := range claims {
		if t := claims[i].Rules.Trigger; t != nil && t.Digest != nil && !claims[i].Unsubscribed {
			of = append(of, i)
		}
	}
	if len(of) == 0 {
		return nil
	}
	served, err := r.served(tx, claims, of)
	if err != nil {
		return err
	}
	windows, again, err := r.windows(tx, claims, of)
	if err != nil {
		return err
	}
	refs := make([]store.DeliveryRef, len(of))
	for k, i := range of {
		refs[k] = store.DeliveryRef{Workspace: claims[i].Workspace, ID: claims[i].ID}
	}
	fixed, err := tx.Digests(refs)
	if err != nil {
		return err
	}
	asked := map[subject.WorkspaceID][]int{}
	for k, i := range of {
		c := &claims[i]
		if known, ok := fixed[c.ID]; ok {
			var topics []subject.TopicID
			for _, s := range served[k] {
				if s.Since.Before(windows[k].End) { // else they left the topic and came back: its items are not for them any more
					topics = append(topics, s.Topic)
				}
			}
			r.keep(c, known.Contents.Only(topics))
			continue
		}
		asked[c.Workspace] = append(asked[c.Workspace], k)
	}
	for _, ws := range slices.Sorted(maps.Keys(asked)) {
		var questions []digests.Question
		var topics []subject.TopicID
		for _, k := range asked[ws] {
			c := claims[of[k]]
			questions = append(questions, digests.Question{
				Contact: c.Contact, Delivery: c.ID, Subscriptions: served[k], Window: windows[k], Rules: *c.Rules.Trigger.Digest, Again: again[k],
			})
			for _, s := range served[k] {
				topics = append(topics, s.Topic)
			}
		}
		titles, err := r.titles(tx, ws, topics)
		if err != nil {
			return err
		}
		answers, err := digests.Read(tx, ws, r.live[ws], questions, titles)
		if err != nil {
			return err
		}
		for n, k := range asked[ws] {
			r.keep(&claims[of[k]], answers[n].Contents)
		}
	}
	return nil
}

// keep notes what the digest of a claim tells.
func (r *admitting) keep(c *admission.Claimed, contents digest.Contents) {
	if c.Covered = contents.Empty(); !c.Covered {
		r.digests[c.ID] = contents
	}
}

// served returns the subscriptions that the digest of each claim serves.
func (r *admitting) served(tx intentTx, claims []admission.Claimed, of []int) ([]store.Served, error) {
	asked := make([]store.ServedQuestion, len(of))
	for k, i := range of {
		c := claims[i]
		asked[k] = store.ServedQuestion{Workspace: c.Workspace, Contact: c.Contact, Topic: c.Topic, People: followers(c.Row, c.Rules.Trigger)}
	}
	return tx.Served(asked)
}

// followers are those of whom the person of a message has to be one, if it is about topics alone; nil: it is not. A message about one topic leaves
// whatever the frequency of the subscription is by then.
func followers(row delivery.Row, t *definition.Trigger) []topic.People {
	people := []topic.People{{All: true}}
	if row.Topic == 0 {
		people = plan.OnlyFollowers(t, row.Event)
	}
	if t.Digest != nil {
		for i := range people {
			people[i].Since = row.CreatedAt.Add(-plan.DigestReach(t))
		}
	}
	return people
}

// windows returns the window of each digest, and whether its run is for all again.
func (r *admitting) windows(tx intentTx, claims []admission.Claimed, of []int) (windows []digest.Window, again []bool, err error) {
	refs := make([]store.EventRef, len(of))
	for k, i := range of {
		refs[k] = store.EventRef{Workspace: claims[i].Workspace, ID: claims[i].Event}
	}
	events, err := tx.EventsByID(refs)
	if err != nil {
		return nil, nil, err
	}
	asked := make([]digests.Asked, len(of))
	again = make([]bool, len(of))
	for k, i := range of {
		c, ev := claims[i], events[refs[k]].Event
		fields, _, _ := plan.CalendarFields(ev)
		period, ok := digests.PeriodOf(fields)
		if !ok { // of a definition that had no period, from before an edit
			period = digest.Window{From: c.NotBefore, End: c.NotBefore}
		}
		again[k] = digests.ForAll(ev)
		asked[k] = digests.Asked{
			RunTrigger: store.RunTrigger{Workspace: c.Workspace, Workflow: c.Workflow, Trigger: c.Trigger}, Period: period, ForAll: again[k], Rules: *c.Rules.Trigger.Digest,
		}
	}
	windows, err = digests.Windows(tx, asked)
	return windows, again, err
}

// titles returns the titles by which sections are ordered: those in the language of the workspace.
func (r *admitting) titles(tx intentTx, ws subject.WorkspaceID, ids []subject.TopicID) (digests.Titles, error) {
	rows, err := tx.TopicsByID(ws, ids)
	if err != nil {
		return nil, err
	}
	return func(id subject.TopicID) (title, name string) {
		return r.Topics.Title(rows[id], r.live[ws].Workspace.Locale), rows[id].Name
	}, nil
}

// saveDigests fixes what the digests that leave tell. One that may have arrived is never sent again, so its person is covered.
func (r *admitting) saveDigests(tx intentTx, d admission.Decision) error {
	var rows []store.DigestRow
	for _, c := range d.Sent {
		if contents, ok := r.digests[c.ID]; ok {
			rows = append(rows, store.DigestRow{Workspace: c.Workspace, Delivery: c.ID, Contact: c.Contact, Open: true, Contents: contents})
		}
	}
	var covered []store.CoveredRow
	for _, v := range d.Verdicts {
		if contents, ok := r.digests[v.Row.ID]; ok && v.Changed && v.Row.Status == delivery.Unknown {
			covered = append(covered, coveredBy(v.Row, contents)...)
		}
	}
	if err := tx.MoveCovered(covered); err != nil || len(rows) == 0 {
		return err
	}
	return tx.WriteDigests(rows)
}

// coveredBy is what a person is covered for once a digest has left.
func coveredBy(row delivery.Row, contents digest.Contents) []store.CoveredRow {
	list := make([]store.CoveredRow, len(contents.Covered))
	for i, c := range contents.Covered {
		list[i] = store.CoveredRow{Workspace: row.Workspace, Contact: row.Contact, Covered: c}
	}
	return list
}

// settleDigests writes what people are covered for by results: the message was accepted, or may have been.
func settleDigests(tx *store.Tx, list []settled) error {
	var closed []store.DeliveryRef
	var covered []store.CoveredRow
	for _, s := range list {
		covers := s.accepted || s.row.Status == delivery.Unknown
		if covers || s.row.Status.Final() {
			closed = append(closed, store.DeliveryRef{Workspace: s.row.Workspace, ID: s.row.ID})
		}
		if covers {
			covered = append(covered, coveredBy(s.row, *s.digest)...)
		}
	}
	if len(closed) == 0 {
		return nil
	}
	if err := tx.MoveCovered(covered); err != nil {
		return err
	}
	return tx.CloseDigests(closed)
}

// settled is a result that was written.
type settled struct {
	row      delivery.Row
	accepted bool
	digest   *digest.Contents
}

// shown is what the texts of the digests of a step read, besides what each of them tells.
type shown struct {
	contents map[delivery.ID]digest.Contents
	items    map[store.EventRef]store.EventRow
	topics   map[topicOf]store.TopicRow
}

type topicOf struct {
	ws subject.WorkspaceID
	id subject.TopicID
}

// readShown reads the items and topics of the digests of a step.
func (s *Sender) readShown(ctx context.Context, claims []delivery.Claim, contents map[delivery.ID]digest.Contents) (shown, error) {
	d := shown{contents: contents, topics: map[topicOf]store.TopicRow{}}
	if len(contents) == 0 {
		return d, nil
	}
	items, topics := map[store.EventRef]bool{}, map[subject.WorkspaceID]map[subject.TopicID]bool{}
	for _, c := range claims {
		for _, section := range contents[c.ID].Sections {
			for _, id := range slices.Concat(section.Items, section.See) {
				items[store.EventRef{Workspace: c.Workspace, ID: id}] = true
			}
			if topics[c.Workspace] == nil {
				topics[c.Workspace] = map[subject.TopicID]bool{}
			}
			topics[c.Workspace][section.Topic] = true
		}
	}
	var err error
	if d.items, err = s.Store.EventsByID(ctx, slices.Collect(maps.Keys(items))); err != nil {
		return d, fmt.Errorf("read the items of digests: %w", err)
	}
	for ws, ids := range topics {
		rows, err := s.Store.TopicsByID(ctx, ws, slices.Sorted(maps.Keys(ids)))
		if err != nil {
			return d, fmt.Errorf("read the topics of digests: %w", err)
		}
		for id, row := range rows {
			d.topics[topicOf{ws, id}] = row
		}
	}
	return d, nil
}

// sections returns what the digest of a claim tells, in the words of its topics and items.
func (d shown) sections(c delivery.Claim) []journal.Section {
	names := func(items []subject.EventID) []string {
		list := make([]string, len(items))
		for i, id := range items {
			list[i], _ = d.items[store.EventRef{Workspace: c.Workspace, ID: id}].Payload[topic.FieldID].(string)
		}
		return list
	}
	var sections []journal.Section
	for _, of := range d.contents[c.ID].Sections {
		sections = append(sections, journal.Section{Topic: d.topics[topicOf{c.Workspace, of.Topic}].Name, Items: names(of.Items), See: names(of.See)})
	}
	return sections
}

// variable returns what the texts of a digest read as digest.
func (s *Sender) variable(d shown, c delivery.Claim, r admission.Rules, locales []string, now time.Time) (map[string]any, error) {
	contents, ok := d.contents[c.ID]
	if !ok {
		return nil, nil
	}
	item := func(id subject.EventID) map[string]any {
		return plan.ItemFields(d.items[store.EventRef{Workspace: c.Workspace, ID: id}].Event)
	}
	sections := make([]any, len(contents.Sections))
	for i, of := range contents.Sections {
		row := d.topics[topicOf{c.Workspace, of.Topic}]
		title := s.Topics.Title(row, locales...)
		link, err := s.unsubscribeLink(r.Set.Workspace.BaseURL, c, topic.Leaving{Contact: c.Contact, Topic: of.Topic}, now)
		if err != nil {
			return nil, err
		}
		items, see := make([]any, len(of.Items)), make([]any, len(of.See))
		for k, id := range of.Items {
			items[k] = item(id)
		}
		for k, id := range of.See {
			see[k] = item(id)
		}
		sections[i] = map[string]any{
			"topic": map[string]any{"name": row.Name, "title": title}, "items": items, "see": see, "more": of.More, "unsubscribe_link": link,
		}
	}
	return map[string]any{"sections": sections, "more": contents.More}, nil
}

// subscriberVariables adds what the texts of messages to subscribers read, and returns the link by which the reader unsubscribes; empty: there is none.
func (s *Sender) subscriberVariables(
	vars map[string]any, c delivery.Claim, r admission.Rules, ev store.EventRow, now time.Time, d shown, locales []string,
) (link string, err error) {
	what, ok := leaving(c, r, ev)
	if asks := ev.Kind == definition.LinkRequested || ev.Kind == definition.SubscriptionRequested; ok || asks {
		if vars["manage_link"], err = s.manageLink(r.Set.Workspace.BaseURL, c, now); err != nil {
			return "", err
		}
	}
	if ev.Kind == definition.SubscriptionRequested {
		if vars["confirm_link"], err = s.confirmLink(r.Set.Workspace.BaseURL, c, ev); err != nil {
			return "", err
		}
	}
	if !ok {
		return "", nil
	}
	if link, err = s.unsubscribeLink(r.Set.Workspace.BaseURL, c, what, now); err != nil {
		return "", err
	}
	vars["unsubscribe_link"] = link
	if r.Trigger.Digest != nil {
		vars["digest"], err = s.variable(d, c, r, locales, now)
	}
	return link, err
}
