package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/nextdigest"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
)

const itemsPath = "/v1/items"

type byItem struct {
	ID      string `path:"id" minLength:"1" maxLength:"256" doc:"Your id of the item."`
	Version string `query:"version" maxLength:"256" doc:"The version that you gave it; without one, the item that has none."`
}

type listItems struct {
	Topic  string `query:"topic" maxLength:"128" doc:"Those of this topic, by its name."`
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

func (a *API) items() {
	a.plain(http.MethodPost, itemsPath, ScopeIngest, a.postItems)
	route(a, http.MethodGet, itemsPath, ScopeRead, huma.Operation{
		OperationID: "list-items", Summary: "Items, newest first, and the topics that they belong to", Tags: []string{tagTopics},
	}, func(ctx context.Context, c Caller, in *listItems) (*body[client.Page[client.Item]], error) {
		x := a.idsOf(c.Workspace)
		kind := key.KindEvent
		if in.Topic != "" {
			kind = key.KindTopic // the cursor is the place of an item in its topic
		}
		page, err := x.page(kind, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		filter := store.ItemFilter{Before: page.Before, Limit: page.Limit}
		if in.Topic != "" {
			row, err := a.Store.Topic(ctx, c.Workspace.ID, in.Topic)
			if errors.Is(err, store.ErrNotFound) {
				p := notFound("topic")
				p.Field, p.Hint = "query.topic", "GET /v1/topics lists them."
				return nil, p
			}
			if err != nil {
				return nil, fmt.Errorf("a topic: %w", err)
			}
			filter.Topic = row.ID
		}
		rows, err := a.Store.Items(ctx, c.Workspace.ID, filter)
		if err != nil {
			return nil, fmt.Errorf("a page of the list: %w", err)
		}
		cursor := func(r store.ReadItem) string {
			if filter.Topic != 0 {
				return x.encode(kind, r.Seq)
			}
			return x.encode(kind, int64(r.ID))
		}
		return &body[client.Page[client.Item]]{pageOf(rows, in.Limit, x.item, cursor)}, nil
	})
	route(a, http.MethodGet, itemsPath+"/{id}", ScopeRead, huma.Operation{
		OperationID: "get-item", Summary: "An item, and the topics that it belongs to", Tags: []string{tagTopics},
	}, func(ctx context.Context, c Caller, in *byItem) (*body[client.Item], error) {
		read, err := a.Store.Item(ctx, c.Workspace.ID, store.ItemRef{ExtID: in.ID, Version: in.Version})
		if err != nil {
			return nil, fmt.Errorf("an item: %w", err)
		}
		return &body[client.Item]{a.idsOf(c.Workspace).item(read)}, nil
	})
	route(a, http.MethodGet, "/v1/contacts/{id}/digests", ScopeRead, huma.Operation{
		OperationID: "list-next-digests", Summary: "The next digests of a contact, as they would be now", Tags: []string{tagTopics},
	}, func(ctx context.Context, c Caller, in *byContact) (*body[client.NextDigests], error) {
		row, err := a.Store.ContactRow(ctx, c.Workspace.ID, in.ID)
		if err != nil {
			return nil, fmt.Errorf("a contact: %w", err)
		}
		list, err := a.Engine.NextDigests(ctx, c.Workspace.ID, row.ID)
		if err != nil {
			return nil, err
		}
		answer := client.NextDigests{Digests: make([]client.NextDigest, len(list))}
		for i, next := range list {
			answer.Digests[i] = wireNextDigest(next)
		}
		return &body[client.NextDigests]{answer}, nil
	})
}

func (x ids) item(read store.ReadItem) client.Item {
	if read.Topics == nil {
		read.Topics = []string{}
	}
	return client.Item{
		ID: read.ExtID, Version: read.Version, Fields: read.Event.Payload, Topics: read.Topics, Matched: read.MatchAt.IsZero(),
		Event: x.event(read.ID), ReceivedAt: read.Event.ReceivedAt,
	}
}

func wireNextDigest(next nextdigest.Digest) client.NextDigest {
	wire := client.NextDigest{
		Workflow: next.Workflow, Trigger: next.Trigger, DueAt: next.Due, WindowStart: next.Window.From, WindowEnd: next.Window.End, More: next.More,
		Sections: make([]client.NextDigestSection, len(next.Sections)),
	}
	items := func(list []nextdigest.Item) []client.NextDigestItem {
		all := make([]client.NextDigestItem, len(list))
		for i, one := range list {
			all[i] = client.NextDigestItem{ID: one.ID, Version: one.Version, Title: one.Title, ReceivedAt: one.ReceivedAt}
		}
		return all
	}
	for i, s := range next.Sections {
		wire.Sections[i] = client.NextDigestSection{Topic: s.Topic, Title: s.Title, Items: items(s.Items), See: items(s.See), More: s.More}
	}
	return wire
}

// postItems takes items in. Their topics are found, and messages made, after the answer. One bad item fails no other one.
func (a *API) postItems(w http.ResponseWriter, r *http.Request, c Caller) error {
	raw, err := readBody(w, r, MaxBatchBody)
	if err != nil {
		return err
	}
	fields, err := object(raw, "items")
	if err != nil {
		return err
	}
	var given []json.RawMessage
	if json.Unmarshal(fields["items"], &given) != nil || given == nil {
		return invalid("body.items", "it is not a list", `write {"items": [{"id": "…", "title": "…"}]}`)
	}
	if len(given) > client.MaxItems {
		return invalid("body.items", fmt.Sprintf("it holds more than %d items", client.MaxItems), "send them in parts")
	}
	list := make([]item.Item, len(given))
	for i, one := range given {
		list[i] = item.Parse(one)
	}
	wire := func(results []item.Result) client.ItemsAnswer { return a.idsOf(c.Workspace).itemsAnswer(list, results) }
	results, err := a.Engine.Publish(r.Context(), c.Workspace, list, answeredWith(http.StatusAccepted, once(a, c, wire)))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, "application/json", wire(results))
}

func (x ids) itemsAnswer(list []item.Item, results []item.Result) client.ItemsAnswer {
	answer := client.ItemsAnswer{Items: make([]client.ItemResult, len(results))}
	for i, r := range results {
		one := client.ItemResult{ID: list[i].ID, Version: list[i].Version, Outcome: string(r.Outcome), Reason: string(r.Reason), Event: x.event(r.Event)}
		if r.Reason != "" {
			one.Message = r.Reason.Sentence()
		}
		switch r.Outcome {
		case item.Created:
			answer.Created++
		case item.Skipped:
			answer.Skipped++
		case item.Failed:
			answer.Failed++
			one.Message, one.Field, one.Hint = r.Error.Message, r.Error.Field, r.Error.Hint
		}
		answer.Items[i] = one
	}
	return answer
}
