package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Selection says which deliveries are retried or cancelled together. At least one field is set.
type Selection struct {
	Workflow string    `json:"workflow,omitempty" maxLength:"200" doc:"Of this workflow."`
	Channel  string    `json:"channel,omitempty" maxLength:"200" doc:"Of this channel, as kind:name."`
	Reason   string    `json:"reason,omitempty" maxLength:"100" doc:"With this reason; see GET /v1/reasons."`
	Status   []string  `json:"status,omitempty" maxItems:"10" doc:"In one of these states. Without it a retry takes what has failed and what waits for a retry, its channel or a missing channel; a cancel takes what still has something to send."`
	Since    time.Time `json:"since,omitzero" doc:"First planned for this instant or later."`
	Until    time.Time `json:"until,omitzero" doc:"First planned for before this instant."`
	DryRun   bool      `json:"dry_run,omitempty" doc:"Count and show what would be done, without doing it."`
}

// BulkAnswer says which deliveries a retry or a cancel selects, and which run does the work.
type BulkAnswer struct {
	DryRun   bool           `json:"dry_run,omitempty" doc:"Nothing was done."`
	Matched  int            `json:"matched" doc:"Deliveries that the selection finds now."`
	More     bool           `json:"more,omitempty" doc:"There are so many deliveries that not all were counted: matched is a lower bound, and the run has no total."`
	ByStatus map[string]int `json:"by_status" doc:"The same by status."`
	ByReason map[string]int `json:"by_reason" doc:"The same by reason, of those that have one."`
	Samples  []Delivery     `json:"samples,omitempty" doc:"Of a dry run: the oldest ten."`
	Run      *Run           `json:"run,omitempty" doc:"The run that does it, in pages. A run that is going on for the same selection is returned instead of a second one. Absent in a dry run, and when nothing matched."`
}

// RetryDeliveries tries the selected deliveries again.
func (c *Client) RetryDeliveries(ctx context.Context, s Selection) (BulkAnswer, error) {
	return c.bulk(ctx, "retry", s)
}

// CancelDeliveries cancels the selected deliveries.
func (c *Client) CancelDeliveries(ctx context.Context, s Selection) (BulkAnswer, error) {
	return c.bulk(ctx, "cancel", s)
}

func (c *Client) bulk(ctx context.Context, verb string, s Selection) (BulkAnswer, error) {
	var answer BulkAnswer
	err := c.call(ctx, http.MethodPost, "/v1/deliveries/"+verb, s, &answer)
	return answer, err
}

// BulkSubscriptions is a change of the subscriptions of many people, by one run.
type BulkSubscriptions struct {
	Action    string          `json:"action" enum:"subscribe,migrate,unsubscribe,message" doc:"subscribe: they follow to as well; migrate: they follow to instead of topics; unsubscribe: they follow topics no more; message: they get the item, and nothing changes."`
	Topics    []string        `json:"topics,omitempty" maxItems:"100" doc:"The names of the topics of the people who are meant."`
	Contacts  []string        `json:"contacts,omitempty" maxItems:"10000" doc:"Of subscribe, instead of topics: your ids of the people, or addresses that contacts have."`
	To        string          `json:"to,omitempty" maxLength:"128" doc:"Of subscribe and migrate: the name of the topic that they follow then."`
	Frequency string          `json:"frequency,omitempty" maxLength:"100" doc:"How often they hear of to; absent: as often as of their topic, the most frequent one of several."`
	Except    []string        `json:"except,omitempty" maxItems:"10000" doc:"People who are left as they are, and get no message: your ids of them, or addresses."`
	Confirmed bool            `json:"confirmed,omitempty" doc:"Of subscribe: the people are known to want it. A topic that has confirm demands it."`
	Item      json.RawMessage `json:"item,omitempty" doc:"An item, with an id of its own, that is published first, to these topics."`
	DryRun    bool            `json:"dry_run,omitempty" doc:"Count and show what would be done, without doing it."`
}

// BulkSubscriptionsAnswer says whom such a change is about, and which run does it.
type BulkSubscriptionsAnswer struct {
	DryRun      bool                 `json:"dry_run,omitempty" doc:"Nothing was done."`
	People      int                  `json:"people" doc:"Who were found."`
	More        bool                 `json:"more,omitempty" doc:"There are so many people that not all were counted: the numbers are lower bounds, and the run has no total."`
	ByOutcome   map[string]int       `json:"by_outcome" doc:"The same by what becomes of them: changed (of message: they get it); already: nothing would change; left_before: they have left the topic themselves, and are not made to follow it again; not_offered: the topic does not offer the frequency that they have; excepted; unknown: there is no such contact."`
	ByFrequency map[string]int       `json:"by_frequency" doc:"Of those who are changed, or get the item: how often they hear of what they follow."`
	Samples     []SubscriptionChange `json:"samples,omitempty" doc:"Of a dry run: the first ten who are changed."`
	Item        string               `json:"item,omitempty" doc:"The id of the event that the item is stored as."`
	Run         *Run                 `json:"run,omitempty" doc:"The run that does it, in pages. A run that is going on for the same request is returned instead of a second one. Absent in a dry run, of message, and when nothing would change."`
}

// SubscriptionChange is what a run makes of the subscriptions of a person.
type SubscriptionChange struct {
	Contact string          `json:"contact" doc:"Your id of the person."`
	Ends    []FollowedTopic `json:"ends,omitempty" doc:"What ends."`
	Begins  []FollowedTopic `json:"begins,omitempty" doc:"What begins."`
}

// FollowedTopic is a topic, and how often a person hears of it.
type FollowedTopic struct {
	Topic     string `json:"topic" doc:"The name of the topic."`
	Frequency string `json:"frequency" doc:"How often they hear of it."`
}

// ChangeSubscriptions changes the subscriptions of many people.
func (c *Client) ChangeSubscriptions(ctx context.Context, b BulkSubscriptions) (BulkSubscriptionsAnswer, error) {
	var answer BulkSubscriptionsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/subscriptions/bulk", b, &answer)
	return answer, err
}

// UndoRun starts a run that takes back what another one has done to subscriptions, as far as nothing newer stands against it.
func (c *Client) UndoRun(ctx context.Context, id string) (Run, error) {
	var answer Run
	err := c.call(ctx, http.MethodPost, "/v1/runs/"+url.PathEscape(id)+"/undo", nil, &answer)
	return answer, err
}
