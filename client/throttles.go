package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Throttle is a context of a workflow that has fired. It does not fire again before its cooldown has passed.
type Throttle struct {
	Workflow string    `json:"workflow" doc:"The name of the workflow."`
	Trigger  string    `json:"trigger" doc:"The id of the trigger."`
	Context  string    `json:"context" doc:"The trigger and what its cooldown is counted by, as in the keys of instances."`
	Issues   []string  `json:"issues,omitempty" doc:"The issues that fired."`
	Type     string    `json:"type,omitempty" doc:"The type of the record that fired last."`
	ID       string    `json:"id,omitempty" doc:"The id of that record."`
	Instance string    `json:"instance" doc:"The id of the latest instance."`
	FiredAt  time.Time `json:"fired_at" doc:"When it fired last."`
	Until    time.Time `json:"until,omitzero" doc:"When it may fire again; absent when its trigger is no longer defined."`
	HeldBack int       `json:"held_back,omitempty" doc:"How often the cooldown kept that record from firing again."`
}

// ThrottleQuery narrows a list of throttles.
type ThrottleQuery struct {
	Workflow string
	Type, ID string // of a record, both or neither
	Limit    int
	Cursor   string
}

func (q ThrottleQuery) values() url.Values {
	v := values{}
	v.set("workflow", q.Workflow)
	v.set("type", q.Type)
	v.set("id", q.ID)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// Throttles gives a page of the contexts that have fired, in the order of their texts.
func (c *Client) Throttles(ctx context.Context, q ThrottleQuery) (Page[Throttle], error) {
	return get[Page[Throttle]](ctx, c, "/v1/throttles", q.values())
}

// Run is a job over many rows. It goes on after a crash.
type Run struct {
	ID          string    `json:"id" doc:"The id of the run."`
	Kind        string    `json:"kind" doc:"backfill: every record of a type is evaluated. limits: messages that wait for limits of people are rescheduled. groups: it is computed which groups every contact belongs to. related: records that depend on a written record, or on the zone of a contact, are evaluated. reconcile: missing occasions of the records of a trigger are planned again. retry, cancel: many deliveries are retried or cancelled."`
	Subject     string    `json:"subject,omitempty" doc:"backfill: the type of record. limits: the persona; absent for everybody. related: type/id of the record, @contact/id of a contact whose zone has changed, or @contact for all contacts of one write. reconcile: workflow/trigger. retry, cancel: which deliveries."`
	Locks       []string  `json:"locks,omitempty" doc:"The workflows whose edit started it: they cannot be edited again before it ends."`
	Definitions int64     `json:"definitions" doc:"The number of the definition set that started it."`
	Status      string    `json:"status" doc:"running, done, failed, or cancelled: by a person, or because a newer run replaced it."`
	Done        int64     `json:"done" doc:"Rows that it has processed."`
	Total       int64     `json:"total" doc:"Rows counted at the start, and those added since."`
	Repaired    int64     `json:"repaired,omitempty" doc:"reconcile: occasions that were missing, and are planned again."`
	Changed     int64     `json:"changed,omitempty" doc:"retry, cancel: deliveries that it has changed. The state of the others had changed meanwhile."`
	Error       string    `json:"error,omitempty" doc:"Why it failed."`
	StartedAt   time.Time `json:"started_at" doc:"When it began."`
	UpdatedAt   time.Time `json:"updated_at" doc:"When it last made progress."`
	FinishedAt  time.Time `json:"finished_at,omitzero" doc:"When it ended."`
}

// RunQuery narrows a list of runs.
type RunQuery struct {
	Limit  int
	Cursor string
}

func (q RunQuery) values() url.Values {
	v := values{}
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// Runs gives a page of runs, newest first.
func (c *Client) Runs(ctx context.Context, q RunQuery) (Page[Run], error) {
	return get[Page[Run]](ctx, c, "/v1/runs", q.values())
}

// CancelRun cancels a run.
func (c *Client) CancelRun(ctx context.Context, id string) (Run, error) {
	return c.turnRun(ctx, id, "cancel")
}

// ResumeRun continues a run that was cancelled or has failed.
func (c *Client) ResumeRun(ctx context.Context, id string) (Run, error) {
	return c.turnRun(ctx, id, "resume")
}

func (c *Client) turnRun(ctx context.Context, id, verb string) (Run, error) {
	var run Run
	err := c.call(ctx, http.MethodPost, "/v1/runs/"+url.PathEscape(id)+"/"+verb, nil, &run)
	return run, err
}
