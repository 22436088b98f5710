package cli

import (
	"github.com/carillonhq/carillon/client"
)

type runCmd struct {
	Workflow string `arg:"" help:"The workflow's name."`
	RunID    string `name:"run-id" required:"" placeholder:"ID" help:"Your id of this run: the same id again makes no second one."`
	remote
	jsonOnly
}

// Help is the long help.
func (runCmd) Help() string {
	return `Makes an occasion of the workflow that is due now, besides those of its triggers. The audience and the texts must
need neither an event nor a record, as with a schedule: its period then ends today.`
}

// Run runs a workflow by hand.
func (c *runCmd) Run(s *session) error {
	r, err := call(c.remote, func(api *client.Client) (client.ManualRun, error) { return api.RunWorkflow(s.ctx, c.Workflow, c.RunID) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, r)
	}
	what := "+ created"
	if !r.Created {
		what = "= exists"
	}
	s.rows([][]string{{what, r.Instance, r.Key}})
	return nil
}
