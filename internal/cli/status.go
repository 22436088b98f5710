package cli

import (
	"cmp"
	"fmt"

	"github.com/carillonhq/carillon/client"
)

type statusCmd struct {
	remote
	output
}

// Help is the long help.
func (statusCmd) Help() string {
	return `Prints a line for each channel with its breaker, then a line for each of these that exists, with the command that acts
on it or shows the rest:

  copy      the database is a restored, cloned or moved copy: nothing is sent before somebody accepts it
  waiting   messages that could have left and have not, by channel and reason; since is that of the oldest one
  due       instances whose time has come and that have made no message yet
  records   records that wait for evaluation
  held      instances that wait for a person
  unknown   deliveries whose outcome is unknown
  failed    deliveries made in the last day that have failed and were not sent again, by channel and reason
  paused    a workflow that a person has paused, or that its own brake has (too_fast), with all that the pause stops
  sink      a sink that is paused or disabled, or that fails, with the events that wait for it; since when it fails
  dead      events of a sink that are not tried again before a person redrives them

A number with a + is so many or more: of what waits 10,000 are counted, of a sink's events 100,000, and of the last day the newest
50,000 deliveries.
A message that waits for a limit, or is planned for later, is not late and not listed. A channel's line shows the state in the
process that answers. Exit status 0, also when something is late.`
}

// Run prints the state of the workspace.
func (c *statusCmd) Run(s *session) error {
	status, err := call(c.remote, func(api *client.Client) (client.Status, error) { return api.Status(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, status)
	}
	rows := make([][]string, len(status.Items))
	late, person := false, false
	for i, one := range status.Items {
		n, why := fmt.Sprint(one.N), one.Reason
		if one.More {
			n += "+"
		}
		switch one.What {
		case client.StatusChannel:
			n, why = one.State, one.Message
			if !one.Until.IsZero() {
				n += ", tried again at " + c.at(one.Until)
			}
			person = person || one.State != client.BreakerClosed
		case client.StatusCopy:
			n, person = "-", true
		case client.StatusWaiting, client.StatusDue, client.StatusRecords:
			late = true
		case client.StatusSink:
			count := n
			n, person = one.State+", "+count+" pending", true
			if one.State == client.SinkActive {
				n = "failing, " + count + " pending"
			}
			if !one.Until.IsZero() {
				n += ", tried again at " + c.at(one.Until)
			}
		default:
			person = true
		}
		if one.What == client.StatusPaused && one.Message != "" {
			why += ": " + one.Message
		}
		rows[i] = []string{one.What, one.Name, n, c.at(one.Since), why, one.Example, cmp.Or(one.Command, "-")}
	}
	s.table([]string{"what", "name", "n", "since", "reason", "example", "command"}, rows)
	switch {
	case !late && !person:
		s.note("Nothing is late, and nothing waits for a person.")
	case !late:
		s.note("Nothing is late.")
	}
	return nil
}
