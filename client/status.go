package client

import (
	"context"
	"time"
)

// Status is the state of a workspace: its channels, what is late, and what waits for a person.
type Status struct {
	At    time.Time    `json:"at" doc:"The instant of this state."`
	Items []StatusLine `json:"items" doc:"Channels first, then what is late, the oldest first, then what waits for a person."`
}

// What a StatusLine is about.
const (
	StatusChannel = "channel" // whether messages pass through it
	StatusWaiting = "waiting" // messages of a channel that could have left and have not, for one reason
	StatusDue     = "due"     // instances whose time has come and that have made no message yet
	StatusRecords = "records" // records that wait for evaluation
	StatusHeld    = "held"    // instances that wait for a person
	StatusUnknown = "unknown" // deliveries whose outcome is unknown
	StatusFailed  = "failed"  // deliveries of a channel that were made in the last day and have failed
	StatusPaused  = "paused"  // a workflow that a person has paused
	StatusSink    = "sink"    // a sink whose events wait, because it is paused or disabled, or whose last try failed
	StatusDead    = "dead"    // events of a sink that are not tried again before a person redrives them
)

// StatusLine is one thing to know about a workspace.
type StatusLine struct {
	What    string    `json:"what" enum:"channel,waiting,due,records,held,unknown,failed,paused,sink,dead" doc:"channel: whether messages pass. waiting: messages that could have left and have not, for one reason. due: instances whose time has come. records: records that wait for evaluation. held: instances that wait for a person. unknown: deliveries whose outcome is unknown. failed: deliveries made in the last day that have failed. paused: a workflow. sink: one that is paused or disabled, whose events wait, or one whose last try failed. dead: events of a sink that no try follows for."`
	Name    string    `json:"name,omitempty" doc:"The channel, the paused workflow, or the sink."`
	State   string    `json:"state,omitempty" doc:"Of a channel, its breaker: closed, open or half_open. Of a sink: paused, disabled, or active; an active one is listed because it fails."`
	N       int64     `json:"n" doc:"How many; of a paused workflow, how many instances and deliveries are parked; of a sink, how many events wait. Large numbers are counted up to a limit."`
	Since   time.Time `json:"since,omitzero" doc:"Since when the oldest of them waits. Of a sink: since when it fails."`
	Until   time.Time `json:"until,omitzero" doc:"Of a channel that is not closed: when its provider is tried next. Of a sink that fails: when it is tried next."`
	Reason  string    `json:"reason,omitempty" doc:"Why; see GET /v1/reasons. Of a paused workflow: what the person gave."`
	Message string    `json:"message,omitempty" doc:"The reason in words. Of a channel that is not closed: the last failure."`
	Example string    `json:"example,omitempty" doc:"The id of one of them: the one that was made first."`
	Command string    `json:"command,omitempty" doc:"The command line that acts on it, or shows them."`
}

// Status returns the state of the workspace.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}
