package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Health is what the state of a workspace is read from.
type Health interface {
	Recent(ctx context.Context, ws subject.WorkspaceID, since time.Time) (store.RecentCounts, error)
	Copied(ctx context.Context) (store.Copied, error)
	WaitingCounts(ctx context.Context, ws subject.WorkspaceID, now time.Time) (store.WaitingCounts, error)
	Pauses(ctx context.Context, ws subject.WorkspaceID) ([]store.Pause, error)
	Stopped(ctx context.Context, ws subject.WorkspaceID, pauses []store.Pause, now time.Time) (map[string]store.Stopped, error)
	Attentions(ctx context.Context, ws subject.WorkspaceID, now time.Time) ([]store.Attention, error)
}

const (
	// failedFor is how far back deliveries that failed are counted.
	failedFor = 24 * time.Hour
	// failedSince is the same as the command line writes it.
	failedSince = "1d"
)

// facts are what is known of a workspace at one moment.
type facts struct {
	copied   store.Copied
	channels []client.Channel
	lines    store.WaitingCounts
	stands   []store.Attention
	recent   store.RecentCounts
	pauses   []store.Pause
	sinks    []client.Sink
	stopped  map[string]store.Stopped // by workflow
}

func (a *API) status() {
	route(a, http.MethodGet, "/v1/status", ScopeRead, huma.Operation{
		OperationID: "get-status", Summary: "How late messages are, and what waits for a person", Tags: []string{"status"},
		Description: "Each channel with its breaker, as the answering process knows it; then only what there is.",
	}, func(ctx context.Context, c Caller, _ *struct{}) (*body[client.Status], error) {
		now := a.Clock.Now()
		channels, err := a.Engine.Channels(ctx, c.Workspace)
		if err != nil {
			return nil, err
		}
		f := facts{channels: channels.Items}
		if f.copied, err = a.Store.Copied(ctx); err != nil {
			return nil, fmt.Errorf("whether the database is a copy: %w", err)
		}
		if f.lines, err = a.Store.WaitingCounts(ctx, c.Workspace.ID, now); err != nil {
			return nil, fmt.Errorf("what waits: %w", err)
		}
		if f.stands, err = a.Store.Attentions(ctx, c.Workspace.ID, now); err != nil {
			return nil, fmt.Errorf("what waits too long: %w", err)
		}
		if f.recent, err = a.Store.Recent(ctx, c.Workspace.ID, now.Add(-failedFor)); err != nil {
			return nil, fmt.Errorf("what has failed: %w", err)
		}
		if f.pauses, err = a.Store.Pauses(ctx, c.Workspace.ID); err != nil {
			return nil, fmt.Errorf("what is paused: %w", err)
		}
		if f.stopped, err = a.Store.Stopped(ctx, c.Workspace.ID, f.pauses, now); err != nil {
			return nil, fmt.Errorf("what pauses stop: %w", err)
		}
		sinks, err := a.listSinks(ctx, c.Workspace)
		if err != nil {
			return nil, fmt.Errorf("how sinks are: %w", err)
		}
		f.sinks = sinks.Items
		return &body[client.Status]{client.Status{At: now, Items: a.idsOf(c.Workspace).statusLines(f)}}, nil
	})
}

// statusLines puts into lines what is known of a workspace.
func (x ids) statusLines(f facts) []client.StatusLine {
	out := []client.StatusLine{}
	if f.copied.Restored() {
		out = append(out, client.StatusLine{
			What: client.StatusCopy, Since: f.copied.RestoredAt, Reason: f.copied.Why, Message: "nothing is sent before somebody has accepted it", Command: "carillon accept-restore",
		})
	}
	for _, c := range f.channels {
		one := client.StatusLine{What: client.StatusChannel, Name: c.Key, State: c.State.Breaker}
		if c.State.Breaker != client.BreakerClosed {
			one.Until, one.Message, one.Command = c.State.OpenUntil, c.State.LastFailure, "carillon channels list"
		}
		out = append(out, one)
	}
	late := x.waitingLines(f.lines)
	var stuck []client.StatusLine
	for _, s := range f.stands {
		one := client.StatusLine{What: s.What, N: s.N, More: s.More, Since: s.Oldest}
		switch s.What {
		case store.AttentionDue:
			one.Example, one.Command = x.instance(instance.ID(s.Example)), "carillon instances list --status pending"
			late = append(late, one)
		case store.AttentionRecords:
			one.Command = "carillon runs list"
			late = append(late, one)
		case store.AttentionHeld:
			one.Example, one.Command = x.instance(instance.ID(s.Example)), "carillon instances list --held"
			stuck = append(stuck, one)
		case store.AttentionRuns:
			one.Example, one.Command = x.encode(key.KindRun, s.Example), "carillon runs list"
			stuck = append(stuck, one)
		case store.AttentionUnknown:
			one.Example, one.Command = x.delivery(delivery.ID(s.Example)), "carillon deliveries list --status unknown"
			stuck = append(stuck, one)
		}
	}
	slices.SortStableFunc(late, func(a, b client.StatusLine) int { return a.Since.Compare(b.Since) })
	out = append(append(out, late...), stuck...)
	out = append(out, failedLines(f.recent)...)
	for _, p := range f.pauses {
		if p.ResumedAt.IsZero() {
			one := client.StatusLine{
				What: client.StatusPaused, Name: p.Workflow, N: f.stopped[p.Workflow].All(), More: f.stopped[p.Workflow].More, Since: p.PausedAt, Reason: p.Why,
				Command: "carillon workflows resume " + p.Workflow,
			}
			if p.Cause != "" { // its own brake has paused it
				one.Reason, one.Message = string(p.Cause), p.Why
			}
			out = append(out, one)
		}
	}
	return append(out, sinkLines(f.sinks)...)
}

// sinkLines are the sinks that are not active, those that fail, and those that have dead events.
func sinkLines(sinks []client.Sink) (out []client.StatusLine) {
	for _, k := range sinks {
		one := client.StatusLine{
			What: client.StatusSink, Name: k.Name, State: k.State, N: k.Pending, More: k.Pending >= client.MaxSinkCount, Since: k.FailingSince, Until: k.NextAt, Reason: k.Reason, Message: k.Message,
		}
		switch {
		case k.State != client.SinkActive:
			one.Command = "carillon sinks enable " + k.Name
			out = append(out, one)
		case !k.FailingSince.IsZero():
			one.Command = "carillon outbox list --sink " + k.Name
			out = append(out, one)
		}
		if k.Dead > 0 {
			out = append(out, client.StatusLine{
				What: client.StatusDead, Name: k.Name, N: k.Dead, More: k.Dead >= client.MaxSinkCount, Command: "carillon outbox list --status dead --sink " + k.Name,
			})
		}
	}
	return out
}

// waitingLines are the messages that wait, by channel and reason: workflows are put together.
func (x ids) waitingLines(lines store.WaitingCounts) (out []client.StatusLine) {
	for _, l := range lines.Counts { // the oldest first
		same := func(one client.StatusLine) bool { return one.Name == l.Channel && one.Reason == string(l.Reason) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].N += l.N
			continue
		}
		out = append(out, client.StatusLine{
			What: client.StatusWaiting, Name: l.Channel, N: l.N, More: lines.More, Since: l.Oldest, Reason: string(l.Reason), Message: sentence(l.Reason),
			Example: x.delivery(l.Example), Command: waitingCommand(l),
		})
	}
	return out
}

// waitingCommand is what a person can do about messages that wait. A retry does not get past an open breaker, and a message that nothing
// delays needs none.
func waitingCommand(l store.WaitingCount) string {
	verb := "retry"
	if l.Reason == "" || l.Reason == reason.ChannelDown {
		verb = "list"
	}
	parts := []string{"carillon deliveries", verb, "--channel", l.Channel, "--status scheduled"}
	if l.Reason != "" {
		parts = append(parts, "--reason", string(l.Reason))
	}
	return strings.Join(parts, " ")
}

// failedLines are the deliveries of the last day that failed, by channel and reason. What is refused for good is listed, not tried again.
func failedLines(recent store.RecentCounts) (out []client.StatusLine) {
	for _, f := range store.FailuresOf(recent.Counts) {
		verb := "retry"
		if f.Final() {
			verb = "list"
		}
		out = append(out, client.StatusLine{
			What: client.StatusFailed, Name: f.Channel, N: f.N, More: recent.More, Reason: string(f.Reason), Message: sentence(f.Reason),
			Command: "carillon deliveries " + verb + " --status failed --channel " + f.Channel + " --reason " + string(f.Reason) + " --since " + failedSince,
		})
	}
	return out
}
