package cli

import (
	"github.com/carillonhq/carillon/client"
)

type listEventsCmd struct {
	Kind string `name:"kind" placeholder:"KIND" help:"Of this kind."`
	To   string `name:"to" placeholder:"PERSON" help:"That name this person: any of their addresses, your id of them, or their whole name."`
	span
	paging
	remote
	output
}

// Help is the long help.
func (listEventsCmd) Help() string {
	return `The outcome says what each trigger made of the event, with the value that decided: door condition_false (event.minutes
is 2). events show has the whole. --to finds the events that name a person, among them those that made no message; of
the list it reads the newest 200,000 events.`
}

// Run lists events.
func (c *listEventsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.ListedEvent], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.ListedEvent], error) {
			return api.Events(s.ctx, client.EventQuery{Kind: c.Kind, To: c.To, Since: c.Since, Until: c.Until, Limit: limit, Cursor: cursor})
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

type decisionsCmd struct {
	List listDecisionsCmd `cmd:"" help:"List the occasions that made no instance, and why, the newest first."`
}

type listDecisionsCmd struct {
	Workflow string `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Reason   string `name:"reason" values:"reasons" placeholder:"REASON" help:"With this reason; carillon reasons lists them."`
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
