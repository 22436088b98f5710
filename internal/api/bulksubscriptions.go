package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/strictjson"
	"github.com/carillonhq/carillon/internal/topic"
)

type bulkSubscriptions struct{ Body client.BulkSubscriptions }

func (a *API) bulkSubscriptions() {
	route(a, http.MethodPost, subscriptionsPath+"/bulk", ScopeOperate, huma.Operation{
		OperationID: "change-subscriptions", Summary: "Change the subscriptions of many people, or send them a message", Tags: []string{tagTopics},
		Description: "A run goes over the people in pages: GET /v1/runs shows how far it is, POST /v1/runs/{id}/cancel ends it where it is, and " +
			"POST /v1/runs/{id}/undo takes it back. What was published to a topic before a run ended a subscription to it still reaches them.",
	}, func(ctx context.Context, c Caller, in *bulkSubscriptions) (*body[client.BulkSubscriptionsAnswer], error) {
		x, b := a.idsOf(c.Workspace), in.Body
		q := bulk.Request{Confirmed: b.Confirmed, Bulk: topic.Bulk{
			Action: topic.Action(b.Action), Topics: sorted(b.Topics), Contacts: sorted(b.Contacts), To: b.To, Frequency: b.Frequency, Except: sorted(b.Except),
		}}
		if len(b.Item) > 0 {
			fields, err := itemFields(b.Item)
			if err != nil {
				return nil, err
			}
			q.Item = fields
		}
		wire := func(found bulk.Found) client.BulkSubscriptionsAnswer {
			return wireBulkSubscriptions(x, b.DryRun, found)
		}
		var found bulk.Found
		var err error
		if b.DryRun {
			found, err = a.Engine.PreviewSubscriptions(ctx, c.Workspace, q)
		} else {
			found, err = a.Engine.ChangeSubscriptions(ctx, c.Workspace, c.Name, q, once(a, c, wire))
		}
		if err != nil {
			return nil, refusedRun(err)
		}
		return &body[client.BulkSubscriptionsAnswer]{wire(found)}, nil
	})
}

func sorted(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// itemFields reads the item of a run as strictly as one that is published.
func itemFields(raw []byte) (map[string]any, error) {
	value, wrong := strictjson.Parse(raw, strictjson.MaxDepth)
	if wrong != nil {
		return nil, invalid("body.item", string(wrong.Kind), "")
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("body.item", "it is not an object", `write {"id": "…", "title": "…"}`)
	}
	return fields, nil
}

// refusedRun answers a request for a run that was refused.
func refusedRun(err error) error {
	var wrong *upsert.Error
	var missing *bulk.ErrNoTopic
	switch {
	case errors.As(err, &wrong):
		p := newProblem(http.StatusUnprocessableEntity, client.CodeInvalidRequest, wrong.Message)
		p.Field, p.Hint = "body."+wrong.Field, wrong.Hint
		return p
	case errors.As(err, &missing):
		p := newProblem(http.StatusNotFound, client.CodeNotFound, missing.Error())
		p.Hint = "GET /v1/topics lists the topics"
		return p
	case errors.Is(err, bulk.ErrPublished):
		p := newProblem(http.StatusConflict, client.CodeNotPossible, "an item of this id was published before; nothing was done")
		p.Field, p.Hint = "body.item.id", "give the item an id of its own, or a version"
		return p
	}
	return err
}

func wireBulkSubscriptions(x ids, dryRun bool, found bulk.Found) client.BulkSubscriptionsAnswer {
	answer := client.BulkSubscriptionsAnswer{
		DryRun: dryRun, People: found.People, More: found.More, ByOutcome: map[string]int{}, ByFrequency: map[string]int{},
	}
	for verdict, n := range found.ByVerdict {
		answer.ByOutcome[string(verdict)] = n
	}
	for frequency, n := range found.ByFrequency {
		answer.ByFrequency[frequency] = n
	}
	if dryRun {
		for _, s := range found.Samples {
			answer.Samples = append(answer.Samples, client.SubscriptionChange{Contact: s.Contact, Ends: wireFollowed(s.Ended), Begins: wireFollowed(s.Begins)})
		}
		return answer
	}
	if found.Item != 0 {
		answer.Item = x.encode(key.KindEvent, int64(found.Item))
	}
	if found.Run.ID != 0 {
		run := x.wireRun(found.Run)
		answer.Run = &run
	}
	return answer
}

func wireFollowed(list []bulk.Followed) (wire []client.FollowedTopic) {
	for _, f := range list {
		wire = append(wire, client.FollowedTopic{Topic: f.Topic, Frequency: f.Frequency})
	}
	return wire
}
