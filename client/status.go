package client

import (
	"context"
	"time"
)

// Status is how a workspace does: its channels, what is late, and what waits for a person.
type Status struct {
	At    time.Time    `json:"at" doc:"When it was so."`
	Items []StatusLine `json:"items" doc:"Channels first, then what is late, the oldest first, then what waits for a person."`
}

// What a StatusLine is about.
const (
	StatusChannel = "channel" // whether messages pass through it
	StatusWaiting = "waiting" // messages of a channel that could have left and have not, for one reason
	StatusDue     = "due"     // instances whose time has come and that have made no message yet
	StatusRecords = "records" // records that wait for evaluation
	StatusHeld    = "held"    // instances that wait for a person
	StatusUnknown = "unknown" // deliveries of which nobody knows whether they arrived
	StatusFailed  = "failed"  // deliveries of a channel that were made in the last day and have failed
	StatusPaused  = "paused"  // a workflow that a person has paused
)

// StatusLine is one thing to know about a workspace.
type StatusLine struct {
	What    string    `json:"what" enum:"channel,waiting,due,records,held,unknown,failed,paused" doc:"channel: whether messages pass. waiting: messages that could have left and have not, for one reason. due: instances whose time has come. records: records that wait for evaluation. held: instances that wait for a person. unknown: deliveries of which nobody knows whether they arrived. failed: deliveries made in the last day that have failed. paused: a workflow."`
	Name    string    `json:"name,omitempty" doc:"The channel, or the paused workflow."`
	State   string    `json:"state,omitempty" doc:"Of a channel, its breaker: closed, open or half_open."`
	N       int64     `json:"n" doc:"How many; of a paused workflow, what is put aside. Large numbers are not counted to their end."`
	Since   time.Time `json:"since,omitzero" doc:"Since when the oldest of them waits."`
	Until   time.Time `json:"until,omitzero" doc:"Of a channel that is not closed: when its provider is tried next."`
	Reason  string    `json:"reason,omitempty" doc:"Why; see GET /v1/reasons. Of a paused workflow: what the person gave."`
	Message string    `json:"message,omitempty" doc:"The reason in words. Of a channel that is not closed: the last failure."`
	Example string    `json:"example,omitempty" doc:"The id of one of them, of the one that was made first."`
	Command string    `json:"command,omitempty" doc:"The command line that acts on it, or shows them."`
}

// Status says how the workspace does.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}
