package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/client"
)

type runCmd struct {
	Workflow string `arg:"" help:"The workflow's name."`
	RunID    string `name:"run-id" placeholder:"ID" help:"Your id of this run: the same id again makes no second one."`
	Count    bool   `name:"count" help:"Make nothing: say how many people the audience has now, and name the first of them."`
	Sample   int    `name:"sample" default:"10" placeholder:"N" help:"With --count: how many of them are named, at most: 0 to 200."`
	remote
	jsonOnly
}

// Help is the long help.
func (runCmd) Help() string {
	return `Makes an occasion of the workflow that is due now, besides those of its triggers. The audience and the texts must
need neither an event nor a record, as with a schedule: its period then ends today.

  carillon run weekly-tip --count
  carillon run weekly-tip --run-id 2026-05-14

Limits, suppression and missing addresses are found when the messages are made, so a run may send fewer than
--count says.`
}

// Validate refuses what says two things, or neither.
func (c *runCmd) Validate() error {
	switch {
	case c.Count && c.RunID != "":
		return errors.New("--count makes no run: leave --run-id out, or run without --count")
	case !c.Count && c.RunID == "":
		return errors.New("give --run-id: the same id again makes no second run; or --count, which makes nothing")
	case c.Sample < 0 || c.Sample > 200:
		return fmt.Errorf("--sample %d: give a number from 0 to 200", c.Sample)
	}
	return nil
}

// Run runs a workflow by hand, or counts whom that would concern.
func (c *runCmd) Run(s *session) error {
	if c.Count {
		return c.count(s)
	}
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

func (c *runCmd) count(s *session) error {
	r, err := call(c.remote, func(api *client.Client) (client.Recipients, error) {
		return api.Recipients(s.ctx, c.Workflow, c.Sample)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, r)
	}
	fmt.Fprintln(s.Out, recipientsLine(r))
	if len(r.Sample) == 0 {
		return nil
	}
	rows := [][]string{{"contact", "address", "timezone", "state"}}
	for _, one := range r.Sample {
		note := ""
		if one.Suppressed {
			note = "suppressed"
		}
		rows = append(rows, []string{one.Contact, one.Address, one.Timezone, note})
	}
	s.rows(rows)
	if more := r.Count - len(r.Sample); more > 0 {
		fmt.Fprintf(s.Out, "and %d more\n", more)
	}
	return nil
}

// recipientsLine says how many people an audience has.
func recipientsLine(r client.Recipients) string {
	if r.Count == 0 {
		return fmt.Sprintf("The audience of %s has no people now.", r.Workflow)
	}
	line := fmt.Sprintf("The audience of %s has %d people now", r.Workflow, r.Count)
	if r.Count == 1 {
		line = fmt.Sprintf("The audience of %s has one person now", r.Workflow)
	}
	var of []string
	if r.New > 0 {
		of = append(of, fmt.Sprintf("%d without a contact yet", r.New))
	}
	if r.Suppressed > 0 {
		of = append(of, fmt.Sprintf("%d suppressed", r.Suppressed))
	}
	if len(of) > 0 {
		line += ", of these " + strings.Join(of, " and ")
	}
	if r.Most > 0 && r.Count > r.Most {
		return fmt.Sprintf("%s. A run is held after %d of them (max_recipients_per_run), until a person releases it.", line, r.Most)
	}
	return line + "."
}
