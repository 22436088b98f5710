package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// How much one request may hold.
const (
	MaxItems         = 1000
	MaxSubscriptions = 1000
)

// TopicInput describes a topic by its rules, as a definition writes it.
type TopicInput struct {
	Topic       string      `json:"topic,omitempty" maxLength:"128" doc:"Its name. Default: one that is made of its rules."`
	Title       any         `json:"title,omitempty" doc:"What people read: a text, or texts by locale."`
	Description string      `json:"description,omitempty" doc:"For people."`
	Match       []TopicRule `json:"match,omitempty" doc:"Which items belong to it: those that any of these rules fits."`
	Frequencies []string    `json:"frequencies,omitempty" doc:"The frequencies on offer, such as immediate. Default: any."`
}

// TopicRule is one way in which an item belongs to a topic: all that it names must fit. A rule that names nothing fits every item.
type TopicRule struct {
	Tags      map[string]TopicValues `json:"tags,omitempty" doc:"Tags of the item by name."`
	Links     map[string]TopicValues `json:"links,omitempty" doc:"Links of the item by name."`
	Fields    map[string]string      `json:"fields,omitempty" doc:"Values of its fields by name."`
	ContentID string                 `json:"content_id,omitempty" doc:"Its content id."`
	When      any                    `json:"when,omitempty" doc:"A condition on item."`
}

// TopicValues are values of which an item needs one of Any, and each of All.
type TopicValues struct {
	Any []string `json:"any,omitempty" doc:"The item has one of these."`
	All []string `json:"all,omitempty" doc:"The item has each of these."`
}

// Topic is what people subscribe to.
type Topic struct {
	Topic         string          `json:"topic" doc:"Its name."`
	Source        string          `json:"source" enum:"definition,data" doc:"definition: it is one of the definitions in force; data: a program made it."`
	Title         string          `json:"title,omitempty" doc:"What people read, in the locale of the workspace; absent: its name."`
	Document      json.RawMessage `json:"document,omitempty" doc:"The whole topic as it was written, of a topic that is data."`
	Created       bool            `json:"created,omitempty" doc:"In the answer to a request for a topic: there was none with these rules, and it was made."`
	Subscriptions int64           `json:"subscriptions" doc:"How many people subscribe to it; in lists."`
	CreatedAt     time.Time       `json:"created_at" doc:"When it was made."`
	UpdatedAt     time.Time       `json:"updated_at" doc:"When it was last changed."`
	RemovedAt     time.Time       `json:"removed_at,omitzero" doc:"Since when no item belongs to it."`
}

// TopicQuery selects topics.
type TopicQuery struct {
	Source  string // definition or data; empty: both
	Removed bool   // removed ones too
	Limit   int
	Cursor  string
}

// FindTopic gives the topic with these rules, and makes it if there is none.
func (c *Client) FindTopic(ctx context.Context, in TopicInput) (Topic, error) {
	var answer Topic
	err := c.call(ctx, http.MethodPost, "/v1/topics", in, &answer)
	return answer, err
}

// FindRawTopic is FindTopic for a topic that is JSON already.
func (c *Client) FindRawTopic(ctx context.Context, in json.RawMessage) (Topic, error) {
	var answer Topic
	err := c.call(ctx, http.MethodPost, "/v1/topics", in, &answer)
	return answer, err
}

// Topic gives a topic by its name.
func (c *Client) Topic(ctx context.Context, name string) (Topic, error) {
	return get[Topic](ctx, c, "/v1/topics/"+url.PathEscape(name), nil)
}

// Topics gives a page of topics, the newest first.
func (c *Client) Topics(ctx context.Context, q TopicQuery) (Page[Topic], error) {
	v := values{}
	v.set("source", q.Source)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	if q.Removed {
		v.set("removed", "true")
	}
	return get[Page[Topic]](ctx, c, "/v1/topics", url.Values(v))
}

// RemoveTopic removes a topic that a program has made.
func (c *Client) RemoveTopic(ctx context.Context, name string) (Topic, error) {
	var answer Topic
	err := c.call(ctx, http.MethodDelete, "/v1/topics/"+url.PathEscape(name), nil, &answer)
	return answer, err
}

// SubscriptionInput is a subscription that is to begin. One that is to end has no frequency.
type SubscriptionInput struct {
	Contact   string `json:"contact,omitempty" maxLength:"256" doc:"Your id of the person; absent: address says who it is."`
	Address   string `json:"address,omitempty" maxLength:"254" doc:"The e-mail address or telephone number that they sign up with: the contact who has it, else one that is made for it."`
	Locale    string `json:"locale,omitempty" maxLength:"35" doc:"The language of a contact that is made for the address, such as en or pt-BR."`
	Topic     string `json:"topic,omitempty" maxLength:"128" doc:"The name of the topic; a request with all has none."`
	All       bool   `json:"all,omitempty" doc:"Of what is to end, instead of a topic: all subscriptions of the person, and what they were to confirm."`
	Frequency string `json:"frequency,omitempty" maxLength:"100" doc:"immediate, or a frequency that a trigger serves; absent: the subscription ends."`
	Confirmed bool   `json:"confirmed,omitempty" doc:"The person is known to want it: it begins at once, also to a topic that has confirm."`
}

// Subscription says that a person follows a topic.
type Subscription struct {
	Contact     string    `json:"contact" doc:"Your id of the person."`
	Topic       string    `json:"topic" doc:"The name of the topic."`
	Frequency   string    `json:"frequency" doc:"How often they want to hear of it."`
	Status      string    `json:"status" enum:"active,ended,pending" doc:"Whether it goes on; pending: it begins when the person confirms it."`
	Source      string    `json:"source" enum:"api,import,frequency_changed,merged,manage_link,bulk,bulk_undone" doc:"How it began."`
	Since       time.Time `json:"since,omitzero" doc:"When they began to follow the topic, with any frequency; absent: they are to confirm it."`
	StartedAt   time.Time `json:"started_at,omitzero" doc:"When it began; absent: they are to confirm it."`
	RequestedAt time.Time `json:"requested_at,omitzero" doc:"Of one that is to be confirmed: when it was requested."`
	ExpiresAt   time.Time `json:"expires_at,omitzero" doc:"Of one that is to be confirmed: when that is too late."`
	EndedAt     time.Time `json:"ended_at,omitzero" doc:"When it ended."`
	EndReason   string    `json:"end_reason,omitempty" enum:"unsubscribed,frequency_changed,merged,bounced,complained,bulk_unsubscribed,bulk_migrated,bulk_undone" doc:"Why it ended."`
}

// SubscriptionsAnswer says what became of each subscription of a request, in the same order.
type SubscriptionsAnswer struct {
	Created   int                  `json:"created" doc:"Subscriptions that began."`
	Changed   int                  `json:"changed" doc:"Subscriptions with another frequency, or that have ended."`
	Unchanged int                  `json:"unchanged" doc:"Those that were so already."`
	Pending   int                  `json:"pending" doc:"Those that begin when the person confirms them."`
	Failed    int                  `json:"failed" doc:"Those that were refused."`
	Items     []SubscriptionResult `json:"items" doc:"One for each of the request, in its order."`
}

// SubscriptionResult is what became of one subscription.
type SubscriptionResult struct {
	Contact      string        `json:"contact,omitempty" doc:"Your id of the person."`
	Topic        string        `json:"topic,omitempty" doc:"The name of the topic."`
	Outcome      string        `json:"outcome" enum:"created,changed,unchanged,pending,failed" doc:"What became of it; pending: it begins when the person confirms it."`
	Reason       string        `json:"reason,omitempty" doc:"Why it was refused; see GET /v1/reasons."`
	Message      string        `json:"message,omitempty" doc:"The reason in words."`
	Field        string        `json:"field,omitempty" doc:"The field that is wrong."`
	Hint         string        `json:"hint,omitempty" doc:"What to do."`
	Topics       []string      `json:"topics,omitempty" doc:"Of a request about all subscriptions: the topics that the person does not subscribe to any more, by name."`
	Subscription *Subscription `json:"subscription,omitempty" doc:"As it is now; absent: there is none."`
	Warnings     []string      `json:"warnings,omitempty" doc:"Accepted, but probably a mistake, such as a frequency that no trigger serves."`
}

// SubscriptionQuery selects subscriptions: those of a person, or to a topic.
type SubscriptionQuery struct {
	Contact string
	Topic   string
	Ended   bool // those of a person that have ended, too
	Pending bool // of a person: what they are to confirm, and nothing else
	Limit   int
	Cursor  string
}

// Subscribe begins subscriptions, at most MaxSubscriptions, or changes their frequency. One that is refused stops no other one; the answer's Err names it.
func (c *Client) Subscribe(ctx context.Context, list ...SubscriptionInput) (SubscriptionsAnswer, error) {
	var answer SubscriptionsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/subscriptions", map[string]any{"subscriptions": list}, &answer)
	return answer, err
}

// ImportRawSubscriptions is Subscribe with subscriptions as JSON objects, whose source is import.
func (c *Client) ImportRawSubscriptions(ctx context.Context, list []json.RawMessage) (SubscriptionsAnswer, error) {
	var answer SubscriptionsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/subscriptions", map[string]any{"subscriptions": list, "source": "import"}, &answer)
	return answer, err
}

// Unsubscribe ends subscriptions, at most MaxSubscriptions.
func (c *Client) Unsubscribe(ctx context.Context, list ...SubscriptionInput) (SubscriptionsAnswer, error) {
	var answer SubscriptionsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/subscriptions/end", map[string]any{"subscriptions": list}, &answer)
	return answer, err
}

// Subscriptions gives a page of the subscriptions of a person, the newest first, or of those to a topic, in the order of the people.
func (c *Client) Subscriptions(ctx context.Context, q SubscriptionQuery) (Page[Subscription], error) {
	v := values{}
	v.set("contact", q.Contact)
	v.set("topic", q.Topic)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	if q.Ended {
		v.set("ended", "true")
	}
	if q.Pending {
		v.set("pending", "true")
	}
	return get[Page[Subscription]](ctx, c, "/v1/subscriptions", url.Values(v))
}

// ItemsAnswer says what became of each item of a request, in the same order.
type ItemsAnswer struct {
	Created int          `json:"created" doc:"Items that were stored, and whose topics are found next."`
	Skipped int          `json:"skipped" doc:"Items whose id and version were published before."`
	Failed  int          `json:"failed" doc:"Items that were refused; nothing of them is kept."`
	Items   []ItemResult `json:"items" doc:"One for each item, in the order of the request."`
}

// ItemResult is what became of one item.
type ItemResult struct {
	ID      string `json:"id,omitempty" doc:"Your id of the item."`
	Version string `json:"version,omitempty" doc:"Its version, if you gave one."`
	Outcome string `json:"outcome" enum:"created,skipped,failed" doc:"What became of the item."`
	Reason  string `json:"reason,omitempty" doc:"Why; see GET /v1/reasons."`
	Message string `json:"message,omitempty" doc:"The reason in words."`
	Field   string `json:"field,omitempty" doc:"The field of the item that is wrong."`
	Hint    string `json:"hint,omitempty" doc:"What to do."`
	Event   string `json:"event,omitempty" doc:"The id of the event that the item is stored as."`
}

// Item is what was published.
type Item struct {
	ID         string         `json:"id" doc:"Your id of the item."`
	Version    string         `json:"version,omitempty" doc:"Its version, if you gave one."`
	Fields     map[string]any `json:"fields" doc:"The item as it was published."`
	Topics     []string       `json:"topics" doc:"The topics that it belongs to, by name."`
	Matched    bool           `json:"matched" doc:"Whether its topics were found already."`
	Event      string         `json:"event" doc:"The id of the event that it is stored as."`
	ReceivedAt time.Time      `json:"received_at" doc:"When it came."`
}

// Publish publishes items, at most MaxItems: each a map or a struct with an id. One that is refused stops no other one; the answer's Err names it.
func (c *Client) Publish(ctx context.Context, items ...any) (ItemsAnswer, error) {
	var answer ItemsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/items", map[string]any{"items": items}, &answer)
	return answer, err
}

// Item gives an item by your id and the version that you gave it.
func (c *Client) Item(ctx context.Context, id, version string) (Item, error) {
	v := values{}
	v.set("version", version)
	return get[Item](ctx, c, "/v1/items/"+url.PathEscape(id), url.Values(v))
}

// ItemQuery selects items.
type ItemQuery struct {
	Topic  string // those of this topic; empty: all
	Limit  int
	Cursor string
}

// Items gives a page of items, the newest first.
func (c *Client) Items(ctx context.Context, q ItemQuery) (Page[Item], error) {
	v := values{}
	v.set("topic", q.Topic)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return get[Page[Item]](ctx, c, "/v1/items", url.Values(v))
}

// NextDigests are the next digests of a person, in the order in which they are due.
type NextDigests struct {
	Digests []NextDigest `json:"digests" doc:"One for each trigger that serves a subscription of theirs."`
}

// NextDigest is the next digest of a person by a trigger, as it would be now.
type NextDigest struct {
	Workflow    string              `json:"workflow" doc:"The name of the workflow."`
	Trigger     string              `json:"trigger" doc:"The id of the trigger."`
	DueAt       time.Time           `json:"due_at" doc:"When its run is due."`
	WindowStart time.Time           `json:"window_start" doc:"It holds items that came at this instant or later."`
	WindowEnd   time.Time           `json:"window_end" doc:"It holds items that came before this instant."`
	Sections    []NextDigestSection `json:"sections" doc:"Its topics; none: nothing is new so far, and then no message is sent."`
	More        int                 `json:"more,omitempty" doc:"How many items find no room."`
}

// NextDigestSection is what a digest holds of one topic.
type NextDigestSection struct {
	Topic string           `json:"topic" doc:"The name of the topic."`
	Title string           `json:"title" doc:"Its title in the language of the person."`
	Items []NextDigestItem `json:"items" doc:"In the order in which they came."`
	See   []NextDigestItem `json:"see,omitempty" doc:"Those that have their place in an earlier section."`
	More  int              `json:"more,omitempty" doc:"How many find no room."`
}

// NextDigestItem is an item of a digest.
type NextDigestItem struct {
	ID         string    `json:"id" doc:"Your id of the item."`
	Version    string    `json:"version,omitempty" doc:"Its version, if you gave one."`
	Title      string    `json:"title,omitempty" doc:"Its title."`
	ReceivedAt time.Time `json:"received_at" doc:"When it came."`
}

// NextDigests gives the next digests of a contact, as they would be now.
func (c *Client) NextDigests(ctx context.Context, contact string) ([]NextDigest, error) {
	answer, err := get[NextDigests](ctx, c, "/v1/contacts/"+url.PathEscape(contact)+"/digests", nil)
	return answer.Digests, err
}
