package client

import (
	"context"
	"net/http"
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
