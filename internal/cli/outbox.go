package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
)

type outboxCmd struct {
	List    listOutboxCmd   `cmd:"" help:"List outcomes that go to sinks, the newest first."`
	Show    showOutboxCmd   `cmd:"" help:"Show an outbox event with its body and its tries."`
	Redrive redriveEventCmd `cmd:"" help:"Have an outbox event tried again where it is dead."`
}

type listOutboxCmd struct {
	Type     string `name:"type" values:"outcomes" placeholder:"TYPE" help:"Of this type: ${outcomes}."`
	Workflow string `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Delivery string `name:"delivery" placeholder:"ID" help:"About this delivery."`
	Instance string `name:"instance" placeholder:"ID" help:"About this instance, or one of its deliveries: its id, or its key."`
	Sink     string `name:"sink" placeholder:"NAME" help:"That go to this sink."`
	Status   string `name:"status" values:"outbox_statuses" placeholder:"STATUS" help:"In this state at that sink, or without --sink at one of theirs: ${outbox_statuses}."`
	span
	paging
	remote
	output
}

// Run lists outbox events.
func (c *listOutboxCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.OutboxEvent], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.OutboxEvent], error) {
			return api.OutboxEvents(s.ctx, client.OutboxQuery{
				Type: c.Type, Workflow: c.Workflow, Delivery: c.Delivery, Instance: c.Instance, Sink: c.Sink, Status: c.Status,
				Since: c.Since, Until: c.Until, Limit: limit, Cursor: cursor,
			})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, e := range page.Items {
		at := make([]string, len(e.Sinks))
		var next time.Time
		for j, k := range e.Sinks {
			at[j] = k.Sink + "=" + k.Status
			if next.IsZero() || !k.NextAt.IsZero() && k.NextAt.Before(next) {
				next = k.NextAt
			}
		}
		rows[i] = []string{e.ID, c.at(e.CreatedAt), e.Type, e.Workflow, e.Status, strings.Join(at, " "), c.at(next)}
	}
	s.table([]string{"id", "created_at", "type", "workflow", "status", "sinks", "next_at"}, rows)
	s.more(page.NextCursor)
	return nil
}

// Help is the long help.
func (listOutboxCmd) Help() string {
	return `next_at is the earliest instant at which a sink that has not got the event is tried: the event waits for its own turn, and for a
sink that rests because it fails. There is none while the sinks that it waits for are paused or disabled.`
}

type showOutboxCmd struct {
	IDs []string `arg:"" name:"id" help:"The outbox event's id; several are shown one after the other."`
	remote
	output
}

// Run shows outbox events.
func (c *showOutboxCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.OutboxDetail, error) {
		return api.OutboxEvent(s.ctx, id)
	}, parted(s, c.print))
}

func (c *showOutboxCmd) print(s *session, e client.OutboxDetail) error {
	s.fields("event", e.ID, "type", e.Type, "status", e.Status, "message_id", e.MessageID, "workflow", e.Workflow, "instance", e.Instance,
		"delivery", e.Delivery, "created_at", c.at(e.CreatedAt))
	s.title("sinks")
	rows := make([][]string, len(e.Sinks))
	for i, k := range e.Sinks {
		status := k.Status
		if k.State != "" && k.State != client.SinkActive {
			status += ", sink " + k.State
		}
		rows[i] = []string{k.Sink, status, fmt.Sprint(k.Attempts), c.at(k.NextAt), c.at(k.EndedAt), because(k.Reason, k.Message)}
	}
	s.table([]string{"sink", "status", "attempts", "next_at", "ended_at", "reason"}, rows)
	if len(e.AttemptLog) > 0 {
		s.title("attempts")
		rows = make([][]string, len(e.AttemptLog))
		for i, t := range e.AttemptLog {
			rows[i] = []string{t.Sink, fmt.Sprint(t.Number), c.at(t.BeganAt), t.Outcome, t.Reason, t.Error}
		}
		s.table([]string{"sink", "number", "began_at", "outcome", "reason", "error"}, rows)
	}
	var body bytes.Buffer
	if err := json.Indent(&body, e.Body, "  ", "  "); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	s.title("body")
	for line := range strings.Lines("  " + body.String()) {
		fmt.Fprintln(s.Out, cell(strings.TrimRight(line, "\n")))
	}
	return nil
}

type redriveEventCmd struct {
	IDs  []string `arg:"" name:"id" help:"The outbox event's id; several are done one after the other."`
	Sink string   `name:"sink" placeholder:"NAME" help:"Only at this sink; without it at every sink at which it is dead."`
	remote
	jsonOnly
}

// Help is the long help.
func (redriveEventCmd) Help() string {
	return `The event gets all its tries again, under the same message id: a receiver that has it drops it. Sinks that have accepted it
get nothing. carillon sinks redrive does this for all events of a sink. Needs a key with the scope operate.`
}

// Run redrives outbox events.
func (c *redriveEventCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.RedrivenEvent, error) {
		return api.RedriveEvent(s.ctx, id, c.Sink)
	}, func(e client.RedrivenEvent) error {
		s.rows([][]string{{"~ redriven", e.ID, strings.Join(e.Sinks, ", ")}})
		return nil
	})
}
