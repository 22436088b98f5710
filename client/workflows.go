package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Workflow is a workflow in force, or one that is paused.
type Workflow struct {
	Workflow string         `json:"workflow" doc:"The name of the workflow."`
	Type     string         `json:"type,omitempty" doc:"Absent when it is paused and no longer defined."`
	Version  int64          `json:"version,omitempty" doc:"The version in force; absent when it is no longer defined."`
	Enabled  bool           `json:"enabled" doc:"Whether its definition is switched on."`
	Paused   bool           `json:"paused" doc:"None of its instances is expanded and none of its messages is sent until it is resumed."`
	Pause    *WorkflowPause `json:"pause,omitempty" doc:"Also present for a while after it was resumed, until everything that was parked is claimed."`
}

// WorkflowPause says who paused a workflow, and what waits.
type WorkflowPause struct {
	PausedAt   time.Time `json:"paused_at" doc:"When it was paused."`
	ResumedAt  time.Time `json:"resumed_at,omitzero" doc:"When it was resumed; absent while it is paused."`
	Actor      string    `json:"actor" doc:"The name of the key that paused it; carillon when its own brake did."`
	Reason     string    `json:"reason,omitempty" doc:"Why, as it was given; of its own brake, how many messages were too many."`
	Cause      string    `json:"cause,omitempty" doc:"too_fast: it has sent as many messages in an hour as its max_sends_per_hour allows. Absent when a person paused it."`
	Instances  int64     `json:"instances" doc:"Instances that came due meanwhile and are held; counted up to 10000."`
	Deliveries int64     `json:"deliveries" doc:"Deliveries that came due meanwhile and are held; counted up to 10000."`
	Stopped    int64     `json:"stopped" doc:"Instances and deliveries that the pause stops: these, and those that wait for a later instant or are not claimed yet, counted among the 50000 of each that are due next."`
	Due        int64     `json:"due" doc:"Stopped instances and deliveries that are due."`
	More       bool      `json:"more,omitempty" doc:"True: counting has stopped at a limit, and stopped and due are so many or more."`
}

// Workflows lists the workflows.
type Workflows struct {
	Workflows []Workflow `json:"workflows" doc:"Ordered by name."`
}

// PausedWorkflow says what pausing or resuming a workflow did.
type PausedWorkflow struct {
	Workflow string    `json:"workflow" doc:"The name of the workflow."`
	Changed  bool      `json:"changed" doc:"False: it was in this state already."`
	Paused   bool      `json:"paused" doc:"Whether it is paused now."`
	PausedAt time.Time `json:"paused_at,omitzero" doc:"Since when."`
	Actor    string    `json:"actor,omitempty" doc:"The name of the key that paused it."`
	Reason   string    `json:"reason,omitempty" doc:"Why, as it was given."`
}

// Workflows lists the workflows in force, and those that are paused.
func (c *Client) Workflows(ctx context.Context) (Workflows, error) {
	return get[Workflows](ctx, c, "/v1/workflows", nil)
}

// PauseWorkflow stops a workflow until it is resumed. The reason may be empty.
func (c *Client) PauseWorkflow(ctx context.Context, workflow, reason string) (PausedWorkflow, error) {
	var answer PausedWorkflow
	err := c.call(ctx, http.MethodPost, "/v1/workflows/"+url.PathEscape(workflow)+"/pause", map[string]any{"reason": reason}, &answer)
	return answer, err
}

// ResumeWorkflow resumes a paused workflow and everything that waited in it.
func (c *Client) ResumeWorkflow(ctx context.Context, workflow string) (PausedWorkflow, error) {
	var answer PausedWorkflow
	err := c.call(ctx, http.MethodPost, "/v1/workflows/"+url.PathEscape(workflow)+"/resume", nil, &answer)
	return answer, err
}
