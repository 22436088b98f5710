package cli

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/client"
)

type workflowsCmd struct {
	List   listWorkflowsCmd  `cmd:"" help:"List the workflows, and which of them are paused."`
	Pause  pauseWorkflowCmd  `cmd:"" help:"Stop a workflow until it is resumed."`
	Resume resumeWorkflowCmd `cmd:"" help:"Have a paused workflow go on, with what waited."`
}

type listWorkflowsCmd struct {
	remote
	output
}

// Run lists workflows.
func (c *listWorkflowsCmd) Run(s *session) error {
	list, err := call(c.remote, func(api *client.Client) (client.Workflows, error) { return api.Workflows(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	rows := make([][]string, len(list.Workflows))
	for i, w := range list.Workflows {
		p := cmp.Or(w.Pause, &client.WorkflowPause{})
		rows[i] = []string{w.Workflow, w.Type, positive(int(w.Version)), workflowStatus(w), c.at(p.PausedAt), stoppedBy(*p), whyPaused(*p)}
	}
	s.table([]string{"workflow", "type", "version", "status", "paused_at", "stopped", "reason"}, rows)
	return nil
}

// whyPaused is why a workflow is paused: what the person gave, or the cause for which it was paused by itself.
func whyPaused(p client.WorkflowPause) string {
	if p.Cause != "" {
		return p.Cause + ": " + p.Reason
	}
	return p.Reason
}

// stoppedBy says how much a pause stops; empty: nothing.
func stoppedBy(p client.WorkflowPause) string {
	switch {
	case p.Stopped == 0:
		return positive(int(p.Instances + p.Deliveries)) // the pause is over, and what it parked is being claimed
	case p.More:
		return fmt.Sprintf("%d+ (%d+ due)", p.Stopped, p.Due)
	}
	return fmt.Sprintf("%d (%d due)", p.Stopped, p.Due)
}

func workflowStatus(w client.Workflow) string {
	switch {
	case w.Paused:
		return "paused"
	case w.Pause != nil:
		return "resuming"
	case !w.Enabled:
		return "off"
	}
	return "on"
}

type pauseWorkflowCmd struct {
	Workflows []string `arg:"" optional:"" name:"workflow" help:"The workflow's name; several are done one after the other."`
	All       bool     `name:"all" help:"Pause every workflow that is not paused."`
	Reason    string   `name:"reason" placeholder:"TEXT" help:"Why, for those who wonder later."`
	remote
	jsonOnly
}

// Help is the long help.
func (pauseWorkflowCmd) Help() string {
	return `Nothing of it is sent until it is resumed, whatever is applied or restarted meanwhile. New occasions go on being
planned; what comes due is held with the reason workflow_paused. A message that is on its way to the provider cannot
be called back.

  carillon workflows pause --all --reason incident-7
  carillon workflows resume --all --reason incident-7

stops everything, and later resumes what this command has paused: a workflow that was paused before stays paused. A
workflow that is applied for the first time in between is not paused.`
}

// Validate asks for names or --all.
func (c *pauseWorkflowCmd) Validate() error { return namesOrAll(c.Workflows, c.All) }

// Run pauses a workflow.
func (c *pauseWorkflowCmd) Run(s *session) error {
	names, err := c.Workflows, error(nil)
	if c.All {
		if names, err = s.workflows(c.remote, func(w client.Workflow) bool { return !w.Paused }); err != nil {
			return err
		}
	}
	return s.paused(c.remote, form{c.JSON, c.All || len(names) != 1}, "paused", names, func(api *client.Client, name string) (client.PausedWorkflow, error) {
		return api.PauseWorkflow(s.ctx, name, c.Reason)
	})
}

type resumeWorkflowCmd struct {
	Workflows []string `arg:"" optional:"" name:"workflow" help:"The workflow's name; several are done one after the other."`
	All       bool     `name:"all" help:"Resume every workflow that is paused."`
	Reason    string   `name:"reason" placeholder:"TEXT" help:"With --all: only those that were paused for this reason."`
	remote
	jsonOnly
}

// Help is the long help.
func (resumeWorkflowCmd) Help() string {
	return `What came due meanwhile is taken up at once; to wait for this is no lateness. Of a series of the calendar,
backlog decides which of the occasions that came due meanwhile are sent.`
}

// Validate asks for names or --all.
func (c *resumeWorkflowCmd) Validate() error {
	if c.Reason != "" && !c.All {
		return errors.New("--reason selects among the paused workflows: it needs --all")
	}
	return namesOrAll(c.Workflows, c.All)
}

// Run resumes a workflow.
func (c *resumeWorkflowCmd) Run(s *session) error {
	names, err := c.Workflows, error(nil)
	if c.All {
		names, err = s.workflows(c.remote, func(w client.Workflow) bool {
			return w.Paused && (c.Reason == "" || c.Reason == cmp.Or(w.Pause.Cause, w.Pause.Reason))
		})
		if err != nil {
			return err
		}
	}
	return s.paused(c.remote, form{c.JSON, c.All || len(names) != 1}, "resumed", names, func(api *client.Client, name string) (client.PausedWorkflow, error) {
		return api.ResumeWorkflow(s.ctx, name)
	})
}

func namesOrAll(names []string, all bool) error {
	if (len(names) == 0) != all {
		return errors.New("name one or several workflows, or say --all")
	}
	return nil
}

// workflows are the names of the workflows that a command for all of them concerns. It says so when there are none.
func (s *session) workflows(r remote, concerned func(client.Workflow) bool) ([]string, error) {
	list, err := call(r, func(api *client.Client) (client.Workflows, error) { return api.Workflows(s.ctx) })
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range list.Workflows {
		if concerned(w) {
			names = append(names, w.Workflow)
		}
	}
	if len(names) == 0 {
		s.note("nothing to do: no such workflow")
	}
	return names, nil
}

// paused says what pausing or resuming workflows did.
func (s *session) paused(r remote, as form, done string, names []string, do func(*client.Client, string) (client.PausedWorkflow, error)) error {
	return each(s, as, names, func(name string) (client.PausedWorkflow, error) {
		return call(r, func(api *client.Client) (client.PausedWorkflow, error) { return do(api, name) })
	}, func(p client.PausedWorkflow) error {
		if p.Changed {
			s.rows([][]string{{"~ " + done, p.Workflow}})
		} else {
			s.rows([][]string{{"=", p.Workflow, "it was so already"}})
		}
		return nil
	})
}
