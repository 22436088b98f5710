package cli

import (
	"encoding/json"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/reason"
)

type listEventsCmd struct {
	Kind string `name:"kind" placeholder:"KIND" help:"Of this kind."`
	span
	paging
	remote
	output
}

// Run lists events.
func (c *listEventsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.ListedEvent], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.ListedEvent], error) {
			return api.Events(s.ctx, client.EventQuery{Kind: c.Kind, Since: c.Since, Until: c.Until, Limit: limit, Cursor: cursor})
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
		var to client.Recipient
		if e.Recipient != nil {
			to = *e.Recipient
		}
		rows[i] = []string{e.ID, c.at(e.ReceivedAt), e.Kind, to.Address, to.CustomerRef, outcomes(e.Trace)}
	}
	s.table([]string{"id", "received_at", "kind", "address", "customer_ref", "outcome"}, rows)
	s.more(page.NextCursor)
	return nil
}

// outcomes are what the triggers made of an event, as its trace says it; an event without one concerned no workflow.
func outcomes(trace json.RawMessage) string {
	var lines []struct {
		Workflow string `json:"workflow"`
		Reason   string `json:"reason"`
	}
	if len(trace) > 0 && json.Unmarshal(trace, &lines) != nil {
		return ""
	}
	if len(lines) == 0 {
		return string(reason.NoWorkflow)
	}
	parts := make([]string, len(lines))
	for i, l := range lines {
		parts[i] = strings.TrimSpace(l.Workflow + " " + l.Reason)
	}
	return strings.Join(parts, ", ")
}

type decisionsCmd struct {
	List listDecisionsCmd `cmd:"" help:"List the occasions that made no instance, and why, the newest first."`
}

type listDecisionsCmd struct {
	Workflow string `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Reason   string `name:"reason" placeholder:"REASON" help:"With this reason; carillon reasons lists them."`
	Event    string `name:"event" placeholder:"ID" help:"Of this event."`
	span
	paging
	remote
	output
}

// Run lists decisions.
func (c *listDecisionsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Decision], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Decision], error) {
			return api.Decisions(s.ctx, client.DecisionQuery{
				Workflow: c.Workflow, Reason: c.Reason, Event: c.Event, Since: c.Since, Until: c.Until, Limit: limit, Cursor: cursor,
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
	for i, d := range page.Items {
		rows[i] = []string{c.at(d.At), d.Workflow, d.Trigger, d.Reason, d.Event, d.Instance}
	}
	s.table([]string{"at", "workflow", "trigger", "reason", "event", "instance"}, rows)
	s.more(page.NextCursor)
	return nil
}
