package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// States of a sink.
const (
	SinkActive   = "active"   // events leave
	SinkPaused   = "paused"   // a person has stopped it
	SinkDisabled = "disabled" // it failed for days, or wants no event any more; a person enables it
)

// Sinks lists sinks.
type Sinks struct {
	Items []Sink `json:"items" doc:"Ordered by name."`
}

// MaxSinkCount is how far the pending and the dead events of a sink are counted.
const MaxSinkCount = 100_000

// Sink is a sink that is defined, or that has events. Its settings are never returned.
type Sink struct {
	Name         string    `json:"name" doc:"The name of the sink."`
	Provider     string    `json:"provider,omitempty" doc:"What takes the events, such as webhook or file; absent when the sink is no longer defined."`
	State        string    `json:"state" enum:"active,paused,disabled" doc:"active: events leave. paused: a person has stopped it. disabled: it failed for days, or wants no event any more. Events of a sink that is not active wait."`
	Pending      int64     `json:"pending" doc:"Events that it has not got yet; counted up to 100000, which means so many or more."`
	Dead         int64     `json:"dead" doc:"Events that no try follows for, until they are redriven; counted up to 100000, which means so many or more."`
	OldestAt     time.Time `json:"oldest_at,omitzero" doc:"When the pending event that is due first could have been tried, or will be."`
	NextAt       time.Time `json:"next_at,omitzero" doc:"When the sink is tried next, at the earliest: it may rest because it fails. Absent when nothing is pending, and when it is paused or disabled."`
	FailingSince time.Time `json:"failing_since,omitzero" doc:"The first failure after the last success; absent when its last try succeeded."`
	FailedAt     time.Time `json:"failed_at,omitzero" doc:"The last failure."`
	RestUntil    time.Time `json:"rest_until,omitzero" doc:"No try begins before, because the last one failed."`
	Reason       string    `json:"reason,omitempty" doc:"Of the last failure; of a disabled sink, why. See GET /v1/reasons."`
	Message      string    `json:"message,omitempty" doc:"The reason in words."`
}

// ChangedSink says what pausing or enabling a sink did.
type ChangedSink struct {
	Name    string `json:"name" doc:"The name of the sink."`
	Changed bool   `json:"changed" doc:"False: nothing had to change."`
	State   string `json:"state" enum:"active,paused,disabled" doc:"Its state now. A disabled sink that is paused stays disabled."`
}

// RedrivenSink says how many events of a sink are tried again.
type RedrivenSink struct {
	Name   string `json:"name" doc:"The name of the sink."`
	Events int    `json:"events" doc:"How many were dead, and are pending now."`
}

// Sinks lists the sinks that are defined, and those that have events.
func (c *Client) Sinks(ctx context.Context) (Sinks, error) {
	return get[Sinks](ctx, c, "/v1/sinks", nil)
}

// Sink gives one sink.
func (c *Client) Sink(ctx context.Context, name string) (Sink, error) {
	return get[Sink](ctx, c, "/v1/sinks/"+url.PathEscape(name), nil)
}

// PauseSink stops the events of a sink until it is enabled. They wait, and use up no tries.
func (c *Client) PauseSink(ctx context.Context, name string) (answer ChangedSink, err error) {
	return answer, c.call(ctx, http.MethodPost, "/v1/sinks/"+url.PathEscape(name)+"/pause", nil, &answer)
}

// EnableSink lets the events of a sink leave again, whether it was paused or disabled.
func (c *Client) EnableSink(ctx context.Context, name string) (answer ChangedSink, err error) {
	return answer, c.call(ctx, http.MethodPost, "/v1/sinks/"+url.PathEscape(name)+"/enable", nil, &answer)
}

// RedriveSink has all events tried again that are dead at a sink.
func (c *Client) RedriveSink(ctx context.Context, name string) (answer RedrivenSink, err error) {
	return answer, c.call(ctx, http.MethodPost, "/v1/sinks/"+url.PathEscape(name)+"/redrive", nil, &answer)
}
