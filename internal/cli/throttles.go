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
	List   listRunsCmd  `cmd:"" help:"List runs, the newest first."`
	Cancel cancelRunCmd `cmd:"" help:"End a run where it is, which lets its workflows be edited again."`
	Resume resumeRunCmd `cmd:"" help:"Have a run that was cancelled or has failed go on where it was."`
	Undo   undoRunCmd   `cmd:"" help:"Take back what a run has done to the subscriptions of many people."`
}

type cancelRunCmd struct {
	IDs []string `arg:"" name:"id" help:"The run's id; several are done one after the other."`
	remote
	output
}

// Help is the long help.
func (cancelRunCmd) Help() string {
	return `What it has gone over stays as it is. The next edit of the workflow begins a run over everything. A run that has failed is not listed by carillon status any more.`
}

// Run cancels a run.
func (c *cancelRunCmd) Run(s *session) error {
	return s.turned(c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.Run, error) { return api.CancelRun(s.ctx, id) })
}

type resumeRunCmd struct {
	IDs []string `arg:"" name:"id" help:"The run's id; several are done one after the other."`
	remote
	output
}

// Run resumes a run.
func (c *resumeRunCmd) Run(s *session) error {
	return s.turned(c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.Run, error) { return api.ResumeRun(s.ctx, id) })
}

type undoRunCmd struct {
	IDs  []string `arg:"" name:"id" help:"The run's id; several are done one after the other."`
	Wait bool     `name:"wait" help:"Wait until the run that takes it back has ended."`
	remote
	output
}

// Help is the long help.
func (undoRunCmd) Help() string {
	return `A run of its own takes it back: what the run began ends, and what it ended goes on from where it was. People for whom something newer
stands against it, such as that they have left the topic since, stay as they are. A run that goes on is cancelled first.`
}

// Run undoes a run.
func (c *undoRunCmd) Run(s *session) error {
	return s.turned(c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.Run, error) {
		run, err := api.UndoRun(s.ctx, id)
		if err != nil || !c.Wait {
			return run, err
		}
		return s.waitFor(c.remote, run)
	})
}

// turned shows runs after something was done to them.
func (s *session) turned(r remote, asJSON bool, ids []string, do func(*client.Client, string) (client.Run, error)) error {
	return oneByOne(s, r, asJSON, ids, do, func(run client.Run) error {
		_, err := fmt.Fprintf(s.Out, "%s: %s\n", run.Status, howFar(run))
		return err
	})
}

// howFar says how many rows a run has processed, and what it repaired.
func howFar(run client.Run) string {
	text := fmt.Sprintf("%d of %d", run.Done, run.Total)
	if run.Status == "running" && run.Total <= run.Done { // not counted
		text = fmt.Sprintf("%d so far", run.Done)
	}
	if run.Changed > 0 {
		text += fmt.Sprintf(", %d %s", run.Changed, changed(run.Kind))
	}
	if run.Repaired > 0 {
		text += fmt.Sprintf(", %d repaired", run.Repaired)
	}
	return text
}

// changed says what a run has done with what it has changed.
func changed(kind string) string {
	switch kind {
	case "retry":
		return "planned again"
	case "cancel":
		return "cancelled"
	}
	return "changed"
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
		rows[i] = []string{one.ID, one.Kind, one.Subject, one.Status, howFar(one), c.at(one.StartedAt), c.at(one.FinishedAt), one.Error}
	}
	s.table([]string{"id", "kind", "subject", "status", "done", "started_at", "finished_at", "error"}, rows)
	s.more(page.NextCursor)
	return nil
}
