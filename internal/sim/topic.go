package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

type subscribeAction struct {
	contact   string
	topic     string
	frequency string // empty: the subscription ends
	oneClick  bool   // by the link in a mail
	confirms  bool   // they confirm by the link in a message what they have asked for
}

type publishAction struct {
	id   string
	item *portable.Node // nil: it has an id alone
}

// subscribe reads a subscription of a contact that begins.
func (p *parser) subscribe(n *portable.Node, contact string) *subscribeAction {
	fields := p.actionFields(n, "topic", "frequency")
	s := &subscribeAction{contact: contact, topic: p.needed(n, fields, "topic", "the name of a topic")}
	s.frequency = p.needed(n, fields, "frequency", "such as frequency: immediate")
	return s
}

// unsubscribe reads the end of a subscription.
func (p *parser) unsubscribe(n *portable.Node, contact string) *subscribeAction {
	fields := p.actionFields(n, "topic", "via")
	if via := fields["via"]; via != nil {
		p.oneOf(via, "via", "api", viaOneClick)
	}
	s := &subscribeAction{contact: contact, topic: p.needed(n, fields, "topic", "the name of a topic")}
	s.oneClick = fields["via"] != nil && fields["via"].Text == viaOneClick
	return s
}

// confirm reads that a contact confirms a subscription.
func (p *parser) confirm(n *portable.Node, contact string) *subscribeAction {
	return &subscribeAction{contact: contact, topic: p.needed(n, p.actionFields(n, "topic"), "topic", "the name of a topic"), confirms: true}
}

// viaOneClick: by the link in a mail.
const viaOneClick = "one_click"

// publish reads an item.
func (p *parser) publish(n *portable.Node, id string) *publishAction {
	return &publishAction{id: id, item: p.block(p.actionFields(n, "item")["item"], "item")}
}

// needed reads a text that must be written.
func (p *parser) needed(n *portable.Node, fields map[string]*portable.Node, name, hint string) string {
	if fields[name] == nil {
		p.report(n.Pos, definition.CodeMissing, fmt.Sprintf("%s needs %s", n.Fields[0].Key.Text, name), hint)
		return ""
	}
	text, _ := p.optional(fields[name], "a text")
	return text
}

// subscribe begins, changes or ends a subscription, as the API does.
func (w *world) subscribe(ctx context.Context, a *Action) error {
	s := a.Subscribe
	what := a.verb() + " " + s.contact
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	fields := map[string]string{"contact": s.contact, "topic": s.topic}
	if s.frequency != "" {
		fields["frequency"] = s.frequency
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	switch {
	case s.oneClick:
		return w.leave(ctx, a, what)
	case s.confirms:
		return w.confirm(ctx, a, what)
	}
	list, now := []topics.Request{topics.ParseRequest(raw, s.frequency == "")}, w.clock.Now()
	var results []topics.Subscribed
	if s.frequency != "" {
		results, err = w.engine.Topics().Subscribe(ctx, w.workspace, list, topic.SourceAPI, now, nil)
	} else {
		results, err = w.engine.Topics().Unsubscribe(ctx, w.workspace, list, now, nil)
	}
	if err != nil {
		return err
	}
	cells := map[string]cell{"outcome": textCell(string(results[0].Outcome))}
	if e := results[0].Error; e != nil {
		cells["field"], cells["error"] = textCell(e.Field), textCell(e.Error())
	}
	w.answered(a, what, cells)
	return nil
}

// leave ends a subscription, as the link in a mail does.
func (w *world) leave(ctx context.Context, a *Action, what string) error {
	s := a.Subscribe
	contact, _, err := w.store.ContactByExtID(ctx, w.workspace.ID, s.contact)
	if err != nil {
		return err
	}
	var of store.TopicRow
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		found, err := tx.TopicsByName(w.workspace.ID, []string{s.topic})
		of = found[s.topic]
		return err
	})
	if err != nil {
		return err
	}
	left, err := w.engine.Topics().Leave(ctx, w.workspace.ID, topic.Leaving{Contact: contact.ID, Topic: of.ID}, w.clock.Now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("there is no contact " + s.contact)})
		return nil
	case err != nil:
		return err
	}
	outcome := upsert.Unchanged
	if len(left.Ended) > 0 {
		outcome = upsert.Changed
	}
	w.answered(a, what, map[string]cell{"outcome": textCell(string(outcome))})
	return nil
}

// confirm confirms a subscription, as the link in a message does.
func (w *world) confirm(ctx context.Context, a *Action, what string) error {
	s := a.Subscribe
	contact, _, err := w.store.ContactByExtID(ctx, w.workspace.ID, s.contact)
	if err == nil {
		err = w.engine.Topics().Confirm(ctx, w.workspace, topic.Confirming{Contact: contact.ID, Topic: s.topic}, w.clock.Now())
	}
	outcome := string(upsert.Changed)
	cells := map[string]cell{}
	switch {
	case errors.Is(err, topics.ErrNothingRequested), errors.Is(err, store.ErrNotFound):
		outcome = string(upsert.Failed)
		cells["error"] = textCell(topics.ErrNothingRequested.Error())
	case err != nil:
		return err
	}
	cells["outcome"] = textCell(outcome)
	w.answered(a, what, cells)
	return nil
}

// publish publishes an item, as the API does.
func (w *world) publish(ctx context.Context, a *Action) error {
	i, what := a.Publish, "publish "+a.Publish.id
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	var b bytes.Buffer
	b.WriteString(`{"id":`)
	writeString(&b, i.id)
	if i.item != nil {
		for _, f := range i.item.Fields {
			b.WriteByte(',')
			writeString(&b, f.Key.Text)
			b.WriteByte(':')
			writeJSON(&b, f.Value, w.now())
		}
	}
	b.WriteByte('}')
	results, err := w.engine.PublishOnce(ctx, w.workspace, []item.Item{item.Parse(b.Bytes())}, nil)
	if err != nil {
		return err
	}
	cells := map[string]cell{"outcome": textCell(string(results[0].Outcome)), "reason": textCell(string(results[0].Reason))}
	if e := results[0].Error; e != nil {
		cells["field"], cells["error"] = textCell(e.Field), textCell(e.Error())
	}
	w.answered(a, what, cells)
	return nil
}

// subscriptions returns the subscriptions of every contact, also those that have ended or wait to be confirmed.
func (w *world) subscriptions(ctx context.Context) (rows []row, err error) {
	for contacts, err := range w.contacts(ctx) {
		if err != nil {
			return nil, err
		}
		for _, c := range contacts {
			list, err := w.store.SubscriptionsOf(ctx, store.SubscriptionFilter{Contact: c.ID, Ended: true, Limit: pageSize})
			if err != nil {
				return nil, err
			}
			waiting, err := w.store.RequestsOfContact(ctx, w.workspace.ID, c.ID)
			if err != nil {
				return nil, err
			}
			for _, q := range waiting {
				rows = append(rows, row{alias: []string{c.ExtID}, cells: map[string]cell{
					"to": textCell(c.ExtID), "topic": textCell(q.TopicName), "frequency": textCell(q.Frequency), "at": instantCell(q.RequestedAt),
					"status": textCell(string(topic.StatusPending)), "until": instantCell(q.Expires()),
				}})
			}
			for _, s := range list {
				rows = append(rows, row{alias: []string{c.ExtID}, cells: map[string]cell{
					"to": textCell(c.ExtID), "topic": textCell(s.TopicName), "frequency": textCell(s.Frequency), "at": instantCell(s.StartedAt),
					"status": textCell(string(s.Status())), "reason": textCell(string(s.EndReason)), "until": instantCell(s.EndedAt),
				}})
			}
		}
	}
	return rows, nil
}
