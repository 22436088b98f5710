package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/reason"
)

// selection are the flags that describe many deliveries.
type selection struct {
	Workflow string   `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Channel  string   `name:"channel" placeholder:"CHANNEL" help:"Of this channel, such as sms:twilio."`
	Reason   string   `name:"reason" values:"reasons" placeholder:"REASON" help:"With this reason; carillon reasons lists them."`
	Status   []string `name:"status" values:"delivery_statuses" placeholder:"STATUS" help:"In this state, given once or several times: ${delivery_statuses}."`
	Since    moment   `name:"since" placeholder:"WHEN" help:"First planned for this instant or later, such as 2026-05-14T05:00:00Z, or how long ago: 1d, 6h."`
	Until    moment   `name:"until" placeholder:"WHEN" help:"First planned for before this instant, written the same way."`
	DryRun   bool     `name:"dry-run" help:"Count and show what would be done, and do nothing."`
	Wait     bool     `name:"wait" help:"Wait until the run has ended."`
}

// moment is an instant, or how long ago it was.
type moment struct{ time.Time }

// UnmarshalText reads it.
func (m *moment) UnmarshalText(text []byte) (err error) {
	if m.Time, err = civil.ParseMoment(string(text), (&clock.System{}).Now(), time.UTC); err != nil {
		return fmt.Errorf("it is neither an instant nor a duration: %w", err)
	}
	return nil
}

func (f selection) wire() client.Selection {
	return client.Selection{
		Workflow: f.Workflow, Channel: f.Channel, Reason: f.Reason, Status: f.Status, Since: f.Since.Time, Until: f.Until.Time, DryRun: f.DryRun,
	}
}

func (f selection) given() bool {
	return f.Workflow+f.Channel+f.Reason != "" || len(f.Status) > 0 || !f.Since.IsZero() || !f.Until.IsZero() || f.DryRun || f.Wait
}

// described reports whether the flags exclude any delivery.
func (f selection) described() bool {
	f.DryRun, f.Wait = false, false
	return f.given()
}

// bulk asks for a run over the deliveries that the flags describe.
func (f selection) bulk(s *session, r remote, o output, done string, do func(*client.Client, context.Context, client.Selection) (client.BulkAnswer, error)) error {
	if !f.described() {
		return errors.New("name a delivery, or describe several: --channel, --workflow, --reason, --status, --since, --until")
	}
	answer, err := call(r, func(api *client.Client) (client.BulkAnswer, error) { return do(api, s.ctx, f.wire()) })
	if err != nil {
		return err
	}
	if f.Wait && answer.Run != nil {
		if *answer.Run, err = s.waitFor(r, *answer.Run); err != nil {
			return err
		}
	}
	if o.JSON {
		return printJSON(s.Out, answer)
	}
	if answer.Run == nil && !answer.DryRun {
		fmt.Fprintln(s.Out, "nothing to do: no delivery matches")
		return nil
	}
	if answer.DryRun {
		fmt.Fprintf(s.Out, "would be %s: %s\n", done, numbers(answer))
		s.printReasons(answer, done)
		if len(answer.Samples) > 0 {
			s.printDeliveries(o, answer.Samples)
		}
		if more := answer.Matched - len(answer.Samples); more > 0 {
			s.note("… and %d more", more)
		}
		return nil
	}
	fmt.Fprintf(s.Out, "run %s, %s: %s\n", answer.Run.ID, answer.Run.Status, howFar(*answer.Run))
	if answer.Run.Kind == "retry" {
		s.printAway(r, o, f.Channel)
	}
	return nil
}

// printReasons counts what a selection finds by reason.
func (s *session) printReasons(a client.BulkAnswer, done string) {
	if len(a.ByReason) == 0 {
		return
	}
	rows := [][]string{{"reason", "count", "meaning"}}
	for _, why := range slices.Sorted(maps.Keys(a.ByReason)) {
		meaning := reason.Reason(why).Sentence()
		if why == string(reason.PermanentError) && done == "retried" {
			meaning += " It will probably be refused again."
		}
		rows = append(rows, []string{why, fmt.Sprint(a.ByReason[why]), meaning})
	}
	s.rows(rows)
}

// printAway names the channels, or the one of them that is meant, whose provider is away: what is retried waits for it.
func (s *session) printAway(r remote, o output, only string) {
	list, err := call(r, func(api *client.Client) (client.Channels, error) { return api.Channels(s.ctx) })
	if err != nil {
		s.note("whether a provider is away is not known: %v", err)
		return
	}
	for _, c := range list.Items {
		if c.State.Breaker == client.BreakerOpen && (only == "" || only == c.Key) {
			s.rows([][]string{{c.Key, "its provider is away: it is tried next at " + o.at(c.State.OpenUntil) + ", and what waits for it leaves after that"}})
		}
	}
}

func numbers(a client.BulkAnswer) string {
	parts := make([]string, 0, len(a.ByStatus))
	for _, status := range slices.Sorted(maps.Keys(a.ByStatus)) {
		parts = append(parts, fmt.Sprintf("%d %s", a.ByStatus[status], status))
	}
	text := "1 delivery"
	if a.Matched != 1 {
		text = fmt.Sprintf("%d deliveries", a.Matched)
	}
	if a.More {
		text = "at least " + text
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// runPause is the time between two looks at a run.
const runPause = 500 * time.Millisecond

// waitFor looks at a run until it has ended.
func (s *session) waitFor(r remote, run client.Run) (client.Run, error) {
	system := &clock.System{}
	for run.Status == "running" {
		if err := system.Sleep(s.ctx, system.Now().Add(runPause)); err != nil {
			return run, err
		}
		page, err := call(r, func(api *client.Client) (client.Page[client.Run], error) { return api.Runs(s.ctx, client.RunQuery{}) })
		if err != nil {
			return run, err
		}
		found := slices.IndexFunc(page.Items, func(one client.Run) bool { return one.ID == run.ID })
		if found < 0 {
			return run, fmt.Errorf("run %s is no longer among the newest: carillon runs list shows it", run.ID)
		}
		run = page.Items[found]
	}
	return run, nil
}
