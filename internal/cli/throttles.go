package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/client"
)

type throttlesCmd struct {
	List listThrottlesCmd `cmd:"" help:"List the contexts that have fired, and when they may again."`
}

type listThrottlesCmd struct {
	Workflow string `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Record   string `name:"record" placeholder:"TYPE/ID" help:"Of this record."`
	paging
	remote
	output
}

// Run lists throttles.
func (c *listThrottlesCmd) Run(s *session) error {
	typ, id, ok := strings.Cut(c.Record, "/")
	if c.Record != "" && (!ok || typ == "" || id == "") {
		return fmt.Errorf("%q is not a record: write TYPE/ID, such as kiosk/123", c.Record)
	}
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Throttle], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Throttle], error) {
			return api.Throttles(s.ctx, client.ThrottleQuery{Workflow: c.Workflow, Type: typ, ID: id, Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, one := range page.Items {
		record := ""
		if one.Type != "" {
			record = one.Type + "/" + one.ID
		}
		rows[i] = []string{one.Workflow, one.Context, record, c.at(one.FiredAt), c.at(one.Until), strconv.Itoa(one.HeldBack)}
	}
	s.table([]string{"workflow", "context", "record", "fired_at", "until", "held_back"}, rows)
	s.more(page.NextCursor)
	return nil
}

type runsCmd struct {
	List listRunsCmd `cmd:"" help:"List runs, the newest first."`
}

type listRunsCmd struct {
	paging
	remote
	output
}

// Run lists runs.
func (c *listRunsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Run], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Run], error) {
			return api.Runs(s.ctx, client.RunQuery{Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, one := range page.Items {
		rows[i] = []string{one.Kind, one.Subject, one.Status, fmt.Sprintf("%d of %d", one.Done, one.Total), c.at(one.StartedAt), c.at(one.FinishedAt)}
	}
	s.table([]string{"kind", "subject", "status", "done", "started_at", "finished_at"}, rows)
	s.more(page.NextCursor)
	return nil
}
