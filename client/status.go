package client

import (
	"context"
	"time"
)

// Status is the state of a workspace: its channels, what is late, and what waits for a person.
type Status struct {
	At    time.Time    `json:"at" doc:"The instant of this state."`
	Items []StatusLine `json:"items" doc:"That the database is a copy, if it is one; channels, then what is late, the oldest first, then what waits for a person."`
}

// What a StatusLine is about.
const (
	StatusChannel = "channel" // whether messages pass through it
	StatusWaiting = "waiting" // messages of a channel that could have left and have not, for one reason
	StatusDue     = "due"     // instances whose time has come and that have made no message yet
	StatusRecords = "records" // records that wait for evaluation
	StatusHeld    = "held"    // instances that wait for a person
	StatusUnknown = "unknown" // deliveries whose outcome is unknown
	StatusRuns    = "runs"    // runs over many rows that have failed
	StatusFailed  = "failed"  // deliveries of a channel that were made in the last day and have failed
	StatusPaused  = "paused"  // a workflow that a person has paused
	StatusSink    = "sink"    // a sink whose events wait, because it is paused or disabled, or whose last try failed
	StatusDead    = "dead"    // events of a sink that are not tried again before a person redrives them
	StatusCopy    = "copy"    // the database is a copy, and nothing is sent from it before a person accepts it
)

// StatusLine is one thing to know about a workspace.
type StatusLine struct {
	What    string    `json:"what" enum:"copy,channel,waiting,due,records,held,unknown,runs,failed,paused,sink,dead" doc:"copy: the database is a restored, cloned or moved copy, and nothing is sent from it before a person accepts it. channel: whether messages pass. waiting: messages that could have left and have not, for one reason. due: instances whose time has come. records: records that wait for evaluation. held: instances that wait for a person. unknown: deliveries whose outcome is unknown. runs: runs over many rows that could not go on. failed: deliveries made in the last day that have failed. paused: a workflow. sink: one that is paused or disabled, whose events wait, or one whose last try failed. dead: events of a sink that no try follows for."`
	Name    string    `json:"name,omitempty" doc:"The channel, the paused workflow, or the sink."`
	State   string    `json:"state,omitempty" doc:"Of a channel, its breaker: closed, open or half_open. Of a sink: paused, disabled, or active; an active one is listed because it fails."`
	N       int64     `json:"n" doc:"How many; of a paused workflow, how many instances and deliveries are parked; of a sink, how many events wait. Large numbers are counted up to a limit: see more."`
	More    bool      `json:"more,omitempty" doc:"True: counting has stopped at a limit, and n is so many or more. Of what waits, is due, is held or is unknown, 10,000 are counted; of what was made in the last day, the newest 50,000; of what is parked, 10,000 instances and as many deliveries; of the events of a sink, 100,000."`
	Since   time.Time `json:"since,omitzero" doc:"Since when the oldest of them waits. Of a sink: since when it fails. Of a copy: when it was found to be one."`
	Until   time.Time `json:"until,omitzero" doc:"Of a channel that is not closed: when its provider is tried next. Of a sink that fails: when it is tried next."`
	Reason  string    `json:"reason,omitempty" doc:"Why; see GET /v1/reasons. Of a paused workflow: what the person gave, or too_fast when its own brake paused it. Of a copy: by what it was found to be one."`
	Message string    `json:"message,omitempty" doc:"The reason in words. Of a channel that is not closed: the last failure. Of a workflow that its own brake paused: how many messages were too many."`
	Example string    `json:"example,omitempty" doc:"The id of one of them: the one that was made first."`
	Command string    `json:"command,omitempty" doc:"The command line that acts on it, or shows them."`
}

// Status returns the state of the workspace.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}
