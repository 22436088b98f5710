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
func (x ids) whom(text string) store.Whom {
	if text == "" {
		return store.Whom{}
	}
	return store.Whom{Text: text, Hash: x.addresses.Hash(subject.NormalizeAddress(text))}
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
	id, ok := x.decode(key.KindEvent, text)
	if !ok {
		return 0, notFound("event")
	}
	return subject.EventID(id), nil
}

func (x ids) instanceID(text string) (instance.ID, error) {
	id, ok := x.decode(key.KindInstance, text)
	if !ok {
		return 0, notFound("instance")
	}
	return instance.ID(id), nil
}

func (x ids) deliveryID(text string) (delivery.ID, error) {
	id, ok := x.decode(key.KindDelivery, text)
	if !ok {
		return 0, notFound("delivery")
	}
	return delivery.ID(id), nil
}

// page turns a limit and a cursor, the id of the last item of the page before, into a page of the store. It asks
// for one more, which tells whether another page follows.
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
