package api

import (
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// ids translates between row ids and the ids that callers see. Those are made with the workspace's secret, so that
// one workspace's ids mean nothing in another.
type ids struct {
	ws        int64
	public    key.PublicIDs
	addresses key.Keyed
}

// whom is a person as callers name them.
func (x ids) whom(text string) store.ContactQuery {
	if text == "" {
		return store.ContactQuery{}
	}
	return store.ContactQuery{Text: text, Hash: x.addresses.Hash(subject.NormalizeAddress(text))}
}

// idsOf makes the key of a workspace's ids once: its secret never changes, and that takes longer than to read an event.
func (a *API) idsOf(ws store.Workspace) ids {
	if known, ok := a.ids.Load(ws.ID); ok {
		return known.(ids)
	}
	made := ids{int64(ws.ID), key.NewPublicIDs(ws.Secret), key.NewKeyed(ws.Secret, key.PurposeAddress)}
	a.ids.Store(ws.ID, made)
	return made
}

func (x ids) encode(kind key.Kind, id int64) string {
	if id == 0 {
		return ""
	}
	return x.public.Encode(kind, x.ws, id)
}

func (x ids) decode(want key.Kind, text string) (int64, bool) {
	kind, ws, id, ok := x.public.Decode(text)
	return id, ok && kind == want && ws == x.ws && id > 0
}

func (x ids) event(id subject.EventID) string     { return x.encode(key.KindEvent, int64(id)) }
func (x ids) instance(id instance.ID) string      { return x.encode(key.KindInstance, int64(id)) }
func (x ids) delivery(id delivery.ID) string      { return x.encode(key.KindDelivery, int64(id)) }
func (x ids) uuid(kind key.Kind, id int64) string { return x.public.UUIDv8(kind, x.ws, id) }

func (x ids) deliveries(list []delivery.ID) []string {
	out := make([]string, len(list))
	for i, id := range list {
		out[i] = x.delivery(id)
	}
	return out
}

func (x ids) eventID(text string) (subject.EventID, error) {
	id, err := x.row(key.KindEvent, text)
	return subject.EventID(id), err
}

func (x ids) instanceID(text string) (instance.ID, error) {
	id, err := x.row(key.KindInstance, text)
	return instance.ID(id), err
}

func (x ids) deliveryID(text string) (delivery.ID, error) {
	id, err := x.row(key.KindDelivery, text)
	return delivery.ID(id), err
}

func (x ids) runID(text string) (int64, error) { return x.row(key.KindRun, text) }

// sessionID is the delivery that names a conversation.
func (x ids) sessionID(text string) (delivery.ID, error) {
	id, err := x.rowOf(key.KindDelivery, text, "conversation")
	return delivery.ID(id), err
}

// row is the row that an id names.
func (x ids) row(want key.Kind, text string) (int64, error) {
	return x.rowOf(want, text, kindName(want))
}

// rowOf is the row that an id names, of a thing that callers know as what. An id of another kind of thing is refused by the name of that kind.
func (x ids) rowOf(want key.Kind, text, what string) (int64, error) {
	if id, ok := x.decode(want, text); ok {
		return id, nil
	}
	refused := notFound(what)
	if kind, ws, _, ok := x.public.Decode(text); ok && kind != want && ws == x.ws {
		refused.Hint = "It is the id of another kind of thing: " + kindName(kind) + "."
	}
	return 0, refused
}

// kindName is what API, CLI and console call a thing of that kind.
func kindName(kind key.Kind) string {
	switch kind {
	case key.KindDelivery:
		return "delivery"
	case key.KindInstance:
		return "instance"
	case key.KindEvent:
		return "event"
	case key.KindContact:
		return "contact"
	case key.KindRecord:
		return "record"
	case key.KindRun:
		return "run"
	case key.KindDecision:
		return "decision"
	case key.KindResponse:
		return "response"
	case key.KindOutbox:
		return "outbox event"
	case key.KindTopic:
		return "topic"
	case key.KindSubscription:
		return "subscription"
	}
	return "thing"
}

// page turns a limit and a cursor, the id of the last item of the page before, into a page of the store. It asks
// for one more, which shows whether another page follows.
func (x ids) page(kind key.Kind, limit int, cursor string) (store.Page, error) {
	p := store.Page{Limit: limit + 1}
	if cursor != "" {
		before, ok := x.decode(kind, cursor)
		if !ok {
			return p, invalid("query.cursor", "it is not a cursor of this list", "give next_cursor as it was answered")
		}
		p.Before = before
	}
	return p, nil
}

// pageOf cuts a page to its limit.
func pageOf[R, T any](rows []R, limit int, wire func(R) T, cursor func(R) string) client.Page[T] {
	page := client.Page[T]{Items: make([]T, 0, len(rows))}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = cursor(rows[limit-1])
	}
	for _, row := range rows {
		page.Items = append(page.Items, wire(row))
	}
	return page
}
