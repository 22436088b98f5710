package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/store"
)

const itemsPath = "/v1/items"

type byItem struct {
	ID      string `path:"id" minLength:"1" maxLength:"256" doc:"Your id of the item."`
	Version string `query:"version" maxLength:"256" doc:"The version that you gave it; without one, the item that has none."`
}

func (a *API) items() {
	a.plain(http.MethodPost, itemsPath, ScopeIngest, a.postItems)
	route(a, http.MethodGet, itemsPath+"/{id}", ScopeRead, huma.Operation{
		OperationID: "get-item", Summary: "An item, and the topics that it belongs to", Tags: []string{tagTopics},
	}, func(ctx context.Context, c Caller, in *byItem) (*body[client.Item], error) {
		read, err := a.Store.Item(ctx, c.Workspace.ID, store.ItemRef{ExtID: in.ID, Version: in.Version})
		if err != nil {
			return nil, fmt.Errorf("an item: %w", err)
		}
		if read.Topics == nil {
			read.Topics = []string{}
		}
		return &body[client.Item]{client.Item{
			ID: read.ExtID, Version: read.Version, Fields: read.Event.Payload, Topics: read.Topics, Matched: read.MatchAt.IsZero(),
			Event: a.idsOf(c.Workspace).event(read.ID), ReceivedAt: read.Event.ReceivedAt,
		}}, nil
	})
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
