package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

const (
	topicsPath        = "/v1/topics"
	subscriptionsPath = "/v1/subscriptions"
	tagTopics         = "topics"
)

type listTopics struct {
	Source  string `query:"source" enum:"definition,data" doc:"Only those that are definitions, or that programs have made."`
	Removed bool   `query:"removed" doc:"Removed ones, too."`
	Limit   int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor  string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

type byTopic struct {
	Name string `path:"name" minLength:"1" maxLength:"128" doc:"The name of the topic."`
}

type listSubscriptions struct {
	Contact string `query:"contact" maxLength:"256" doc:"Those of this person: your id of them, or one of their addresses."`
	Topic   string `query:"topic" maxLength:"128" doc:"Those to this topic, by its name."`
	Ended   bool   `query:"ended" doc:"Those that have ended, too; not with topic."`
	Pending bool   `query:"pending" doc:"With contact: what they are to confirm, the oldest first, and nothing else. It is one page."`
	Limit   int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor  string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

func (a *API) topics() {
	tags := []string{tagTopics}
	a.plain(http.MethodPost, topicsPath, ScopeIngest, a.postTopic)
	a.plain(http.MethodPost, subscriptionsPath, ScopeIngest, a.postSubscriptions(false))
	a.plain(http.MethodPost, subscriptionsPath+"/end", ScopeIngest, a.postSubscriptions(true))
	route(a, http.MethodGet, topicsPath, ScopeRead, huma.Operation{
		OperationID: "list-topics", Summary: "Topics, newest first, and how many people subscribe to each", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listTopics) (*body[client.Page[client.Topic]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindTopic, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		rows, err := a.Store.Topics(ctx, c.Workspace.ID, store.TopicFilter{
			Source: store.TopicSource(in.Source), Removed: in.Removed, Before: subject.TopicID(page.Before), Limit: page.Limit,
		})
		if err != nil {
			return nil, fmt.Errorf("a page of the list: %w", err)
		}
		wire := func(r store.ListedTopic) client.Topic {
			t := wireTopic(r.TopicRow)
			t.Document, t.Subscriptions = nil, r.Subscriptions
			return t
		}
		return &body[client.Page[client.Topic]]{pageOf(rows, in.Limit, wire, func(r store.ListedTopic) string { return x.encode(key.KindTopic, int64(r.ID)) })}, nil
	})
	route(a, http.MethodGet, topicsPath+"/{name}", ScopeRead, huma.Operation{
		OperationID: "get-topic", Summary: "A topic", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byTopic) (*body[client.Topic], error) {
		row, err := a.Store.Topic(ctx, c.Workspace.ID, in.Name)
		if err != nil {
			return nil, fmt.Errorf("a topic: %w", err)
		}
		t := wireTopic(row.TopicRow)
		t.Subscriptions = row.Subscriptions
		return &body[client.Topic]{t}, nil
	})
	route(a, http.MethodDelete, topicsPath+"/{name}", ScopeIngest, huma.Operation{
		OperationID: "remove-topic", Summary: "Remove a topic that a program has made", Tags: tags,
		Description: "No item belongs to it from then on, and its subscriptions get nothing from it.",
	}, func(ctx context.Context, c Caller, in *byTopic) (*body[client.Topic], error) {
		row, err := a.Engine.RemoveTopic(ctx, c.Workspace, in.Name, once(a, c, wireTopic))
		if err != nil {
			return nil, refusedIn(err)
		}
		return &body[client.Topic]{wireTopic(row)}, nil
	})
	route(a, http.MethodGet, subscriptionsPath, ScopeRead, huma.Operation{
		OperationID: "list-subscriptions", Summary: "Subscriptions, newest first, of all people or of one; or those to a topic, in the order of its people", Tags: tags,
	}, a.listSubscriptions)
}

func (a *API) listSubscriptions(ctx context.Context, c Caller, in *listSubscriptions) (*body[client.Page[client.Subscription]], error) {
	x := a.idsOf(c.Workspace)
	contact, err := a.contactNamed(ctx, c, in.Contact)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Pending && (in.Contact == "" || in.Ended):
		return nil, invalid("query.pending", "it goes with contact alone", "name the person")
	case in.Pending && in.Cursor != "":
		return nil, invalid("query.cursor", "what a person is to confirm is one page", "leave it out")
	case in.Pending && in.Topic == "":
		return a.pendingSubscriptions(ctx, c, contact)
	}
	if in.Topic != "" {
		switch {
		case in.Contact != "":
			return nil, invalid("query.topic", "it cannot be combined with contact", "leave one of them out")
		case in.Ended:
			return nil, invalid("query.ended", "it cannot be combined with topic", "leave it out")
		}
		page, err := x.page(key.KindContact, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		of, err := a.Store.Topic(ctx, c.Workspace.ID, in.Topic)
		if errors.Is(err, store.ErrNotFound) { // nobody subscribes to it
			return &body[client.Page[client.Subscription]]{client.Page[client.Subscription]{Items: []client.Subscription{}}}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("a topic: %w", err)
		}
		rows, err := a.Store.Subscribers(ctx, of.ID, subject.ContactID(page.Before), page.Limit)
		if err != nil {
			return nil, fmt.Errorf("a page of the list: %w", err)
		}
		return &body[client.Page[client.Subscription]]{pageOf(rows, in.Limit, wireSubscription, func(r store.ListedSubscription) string { return x.contact(r.Contact) })}, nil
	}
	page, err := x.page(key.KindSubscription, in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	filter := store.SubscriptionFilter{Ended: in.Ended, Before: topic.SubscriptionID(page.Before), Limit: page.Limit}
	var rows []store.ListedSubscription
	if in.Contact == "" {
		rows, err = a.Store.Subscriptions(ctx, c.Workspace.ID, filter)
	} else {
		of, missing := a.Store.ContactRow(ctx, c.Workspace.ID, contact)
		if errors.Is(missing, store.ErrNotFound) { // subscribes to nothing
			return &body[client.Page[client.Subscription]]{client.Page[client.Subscription]{Items: []client.Subscription{}}}, nil
		}
		if missing != nil {
			return nil, fmt.Errorf("a person: %w", missing)
		}
		filter.Contact = of.ID
		rows, err = a.Store.SubscriptionsOf(ctx, filter)
	}
	if err != nil {
		return nil, fmt.Errorf("a page of the list: %w", err)
	}
	cursor := func(r store.ListedSubscription) string { return x.encode(key.KindSubscription, int64(r.ID)) }
	return &body[client.Page[client.Subscription]]{pageOf(rows, in.Limit, wireSubscription, cursor)}, nil
}

// pendingSubscriptions lists what a person is to confirm.
func (a *API) pendingSubscriptions(ctx context.Context, c Caller, contact string) (*body[client.Page[client.Subscription]], error) {
	page := client.Page[client.Subscription]{Items: []client.Subscription{}}
	of, err := a.Store.ContactRow(ctx, c.Workspace.ID, contact)
	if errors.Is(err, store.ErrNotFound) {
		return &body[client.Page[client.Subscription]]{page}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("a person: %w", err)
	}
	list, err := a.Store.RequestsOfContact(ctx, c.Workspace.ID, of.ID)
	if err != nil {
		return nil, fmt.Errorf("what a person is to confirm: %w", err)
	}
	for _, q := range list {
		page.Items = append(page.Items, client.Subscription{
			Contact: q.ContactExtID, Topic: q.TopicName, Frequency: q.Frequency, Status: "pending", Source: string(q.Source), RequestedAt: q.RequestedAt, ExpiresAt: q.Expires(),
		})
	}
	return &body[client.Page[client.Subscription]]{page}, nil
}

// postTopic answers with the topic that has the rules of the request, and makes it if there is none.
func (a *API) postTopic(w http.ResponseWriter, r *http.Request, c Caller) error {
	raw, err := readBody(w, r, MaxBody)
	if err != nil {
		return err
	}
	wire := func(f topics.Found) client.Topic {
		t := wireTopic(f.Row)
		t.Created = f.Created
		return t
	}
	found, err := a.Engine.FindTopic(r.Context(), c.Workspace, raw, once(a, c, wire))
	if err != nil {
		return refusedIn(err)
	}
	return writeJSON(w, http.StatusOK, "application/json", wire(found))
}

// postSubscriptions begins or ends subscriptions. One bad one fails no other one; the answer says what became of each.
func (a *API) postSubscriptions(ends bool) func(http.ResponseWriter, *http.Request, Caller) error {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		raw, err := readBody(w, r, MaxBatchBody)
		if err != nil {
			return err
		}
		names := []string{"subscriptions", "source"}
		if ends {
			names = names[:1]
		}
		fields, err := object(raw, names...)
		if err != nil {
			return err
		}
		var given []json.RawMessage
		if json.Unmarshal(fields["subscriptions"], &given) != nil || given == nil {
			return invalid("body.subscriptions", "it is not a list", `write {"subscriptions": [{"contact": "…", "topic": "…"}]}`)
		}
		if len(given) > client.MaxSubscriptions {
			return invalid("body.subscriptions", fmt.Sprintf("it holds more than %d subscriptions", client.MaxSubscriptions), "send them in parts")
		}
		list := make([]topics.Request, len(given))
		for i, one := range given {
			list[i] = topics.ParseRequest(one, ends)
		}
		source := topic.SourceAPI
		if text := string(fields["source"]); text != "" {
			if source = topic.Source(strings.Trim(text, `"`)); source != topic.SourceAPI && source != topic.SourceImport {
				return invalid("body.source", "it is neither api nor import", `leave it out, or write "import"`)
			}
		}
		keep := once(a, c, wireSubscribed)
		var results []topics.Subscribed
		if ends {
			results, err = a.Engine.Unsubscribe(r.Context(), c.Workspace, list, keep)
		} else {
			results, err = a.Engine.Subscribe(r.Context(), c.Workspace, list, source, keep)
		}
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, "application/json", wireSubscribed(results))
	}
}

func wireTopic(r store.TopicRow) client.Topic {
	t := client.Topic{Topic: r.Name, Source: string(r.Source), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, RemovedAt: r.RemovedAt}
	if r.Source == store.TopicData {
		t.Document = json.RawMessage(r.Document)
	}
	return t
}

func wireSubscription(s store.ListedSubscription) client.Subscription {
	return subscriptionOf(s.Subscription, s.ContactExtID, s.TopicName)
}

func subscriptionOf(s topic.Subscription, contact, name string) client.Subscription {
	return client.Subscription{
		Contact: contact, Topic: name, Frequency: s.Frequency, Status: string(s.Status()), Source: string(s.Source), Since: s.Since, StartedAt: s.StartedAt,
		EndedAt: s.EndedAt, EndReason: string(s.EndReason),
	}
}

func wireSubscribed(results []topics.Subscribed) client.SubscriptionsAnswer {
	answer := client.SubscriptionsAnswer{Items: make([]client.SubscriptionResult, len(results))}
	for i, r := range results {
		item := client.SubscriptionResult{Contact: r.Contact, Topic: r.Topic, Topics: r.Topics, Outcome: string(r.Outcome)}
		if r.Subscription.ID != 0 {
			now := subscriptionOf(r.Subscription, r.Contact, r.Topic)
			item.Subscription = &now
		}
		if r.Warning != "" {
			item.Warnings = []string{r.Warning}
		}
		switch r.Outcome {
		case upsert.Created:
			answer.Created++
		case upsert.Changed:
			answer.Changed++
		case upsert.Unchanged:
			answer.Unchanged++
		case upsert.Pending:
			answer.Pending++
		case upsert.Failed:
			answer.Failed++
			item.Reason, item.Message, item.Field, item.Hint = string(r.Error.Reason), r.Error.Message, r.Error.Field, r.Error.Hint
		case upsert.Deleted: // subscriptions are not deleted
		}
		answer.Items[i] = item
	}
	return answer
}

// describeTopics describes the routes that read their bodies themselves.
func (a *API) describeTopics(add func(method, path, id, summary string, scope Scope, request, response *huma.Schema) *huma.Operation) {
	schemas := a.huma.OpenAPI().Components.Schemas
	of := func(t reflect.Type) *huma.Schema { return schemas.Schema(t, true, "") }
	said := of(reflect.TypeFor[client.SubscriptionInput]())
	list := batchOf(schemas, "SubscriptionBatch", "subscriptions", "The subscriptions, each for itself: a bad one fails no other one.", said, client.MaxSubscriptions)
	answer := of(reflect.TypeFor[client.SubscriptionsAnswer]())
	item := component(schemas, "ItemInput", &huma.Schema{
		Type: huma.TypeObject, Required: []string{"id"}, Description: "What is published: an id, and fields of your own.", AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"id":           {Type: huma.TypeString, MaxLength: new(256), Description: "Your id of the item."},
			"version":      {Type: huma.TypeString, MaxLength: new(256), Description: "Its version, if it can be published again."},
			"tags":         fields("Values, or lists of them, by name."),
			"links":        fields("Values, or lists of them, by name."),
			"fields":       fields("Values by name that rules compare."),
			"content_id":   {Type: huma.TypeString, MaxLength: new(200), Description: "What it is a version of, for rules that name it."},
			"topics":       {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Description: "Names of topics that it belongs to, whatever their rules."},
			"to":           {Type: huma.TypeObject, AdditionalProperties: true, Description: "Chooses its topics by what their rules name, in place of their rules: {any_of: […]}, {all_of: […]}, {tag, value}, {link, value} or {topic: NAME}, within each other."},
			"except":       {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Description: "Your ids of contacts whom it is not for, whatever they follow."},
			"urgent":       {Type: huma.TypeBoolean, Description: "For conditions of your own. Default: false."},
			"published_at": {Type: huma.TypeString, Format: "date-time", Description: "When it was published. Default: when it came."},
		},
	})
	for _, op := range []*huma.Operation{
		add(http.MethodPost, topicsPath, "find-topic", "The topic with these rules; it is made if there is none", ScopeIngest, of(reflect.TypeFor[client.TopicInput]()), of(reflect.TypeFor[client.Topic]())),
		add(http.MethodPost, subscriptionsPath, "post-subscriptions", "Begin subscriptions, up to 1,000, or change their frequency", ScopeIngest, list, answer),
		add(http.MethodPost, subscriptionsPath+"/end", "end-subscriptions", "End subscriptions, up to 1,000", ScopeIngest, list, answer),
		add(http.MethodPost, itemsPath, "post-items", "Publish items, up to 1,000", ScopeIngest,
			batchOf(schemas, "ItemBatch", "items", "The items, each for itself: a bad one fails no other one.", item, client.MaxItems), of(reflect.TypeFor[client.ItemsAnswer]())),
	} {
		if op.Tags = []string{tagTopics}; op.Path == itemsPath {
			op.Responses["202"] = op.Responses["200"]
			delete(op.Responses, "200")
		}
	}
}
