package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/feedback"
)

type deliveriesCmd struct {
	List   listDeliveriesCmd `cmd:"" help:"List deliveries, the newest first."`
	Show   showDeliveryCmd   `cmd:"" help:"Show a delivery with its attempts and its content."`
	Cancel cancelDeliveryCmd `cmd:"" help:"Stop a delivery, or many."`
	Retry  retryDeliveryCmd  `cmd:"" help:"Try a delivery again, or many."`
}

type listDeliveriesCmd struct {
	Workflow string `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Status   string `name:"status" values:"delivery_statuses" placeholder:"STATUS" help:"In this state: ${delivery_statuses}."`
	Channel  string `name:"channel" placeholder:"CHANNEL" help:"Of this channel, such as sms:twilio."`
	Reason   string `name:"reason" values:"reasons" placeholder:"REASON" help:"With this reason; carillon reasons lists them."`
	To       string `name:"to" placeholder:"PERSON" help:"To this person: any of their addresses, your id of them, or their whole name."`
	Instance string `name:"instance" placeholder:"ID" help:"Of this instance: its id, or its key."`
	span
	paging
	remote
	output
}

// Run lists deliveries.
func (c *listDeliveriesCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Delivery], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Delivery], error) {
			return api.Deliveries(s.ctx, client.DeliveryQuery{
				Workflow: c.Workflow, Status: c.Status, Channel: c.Channel, Reason: c.Reason, To: c.To, Instance: c.Instance, Since: c.Since, Until: c.Until, Limit: limit, Cursor: cursor,
			})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.Out, page)
	} else {
		s.printDeliveries(c.output, page.Items)
		s.more(page.NextCursor)
	}
	if err == nil && c.To != "" && len(page.Items) == 0 && c.Cursor == "" {
		narrowed := cmp.Or(c.Workflow, c.Status, c.Channel, c.Reason, c.Instance, c.Since, c.Until) != ""
		err = s.noteNothingTo(c.remote, c.To, narrowed)
	}
	return err
}

func (s *session) printDeliveries(o output, list []client.Delivery) {
	rows := make([][]string, len(list))
	for i, d := range list {
		rows[i] = []string{d.ID, d.Workflow, d.Channel, addressee(d), deliveryStatus(d), o.at(d.SendAt), fmt.Sprint(d.Attempts), cmp.Or(d.WaitsFor, d.Reason)}
	}
	s.table([]string{"id", "workflow", "channel", "address", "status", "send_at", "attempts", "reason"}, rows)
}

// addressee is the address, or your id of the person who has none.
func addressee(d client.Delivery) string {
	if d.Address == "" && d.CustomerRef != "" {
		return "(" + d.CustomerRef + ")"
	}
	return d.Address
}

func deliveryStatus(d client.Delivery) string {
	if d.Sending {
		return d.Status + ",sending"
	}
	return d.Status
}

type showDeliveryCmd struct {
	IDs []string `arg:"" name:"id" help:"The delivery's id; several are shown one after the other."`
	remote
	output
}

// Run shows deliveries.
func (c *showDeliveryCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.DeliveryDetail, error) {
		return api.Delivery(s.ctx, id)
	}, parted(s, c.print))
}

func (c *showDeliveryCmd) print(s *session, d client.DeliveryDetail) error {
	if d.Outlook != nil && (d.Outlook.At.IsZero() || d.Outlook.Reason == "channel_down") {
		d.SendAt = time.Time{} // nobody can say
	}
	s.fields("delivery", d.ID, "next", outlook(c.output, d), "key", d.Key, "instance", d.Instance, "workflow", versioned(d.Workflow, d.WorkflowVersion), "trigger", d.Trigger,
		"event", d.Event, "channel", d.Channel, "address", d.Address, "locale", d.Locale, "customer_ref", d.CustomerRef, "priority", d.Priority, "conversation", turnOf(d.Delivery),
		"status", deliveryStatus(d.Delivery), "reason", because(d.Reason, d.Message), "stop_reason", d.StopReason,
		"not_before", c.at(d.NotBefore), "send_at", c.at(d.SendAt), limitLabel(d.Delivery), d.DeferredBy, "waits_for", d.WaitsFor, "because", strings.Join(d.Says, "; "), "folded_into", foldedInto(d), "steps", positive(d.Step),
		"reminders_remaining", positive(d.RemindersRemaining), "last_sent_at", c.at(d.LastSentAt), "expires_at", c.at(d.ExpiresAt),
		"created_at", c.at(d.CreatedAt), "completed_at", c.at(d.CompletedAt))
	if len(d.Folded) > 0 {
		s.title("left with it, or is to")
		rows := make([][]string, len(d.Folded))
		for i, f := range d.Folded {
			rows[i] = []string{f.ID, f.Workflow, f.Trigger, f.Status, f.Reason}
		}
		s.table([]string{"id", "workflow", "trigger", "status", "reason"}, rows)
	}
	if len(d.AttemptLog) > 0 {
		s.title("attempts")
		rows := make([][]string, len(d.AttemptLog))
		for i, t := range d.AttemptLog {
			rows[i] = []string{fmt.Sprint(t.Number), fmt.Sprint(t.Step), c.at(t.IntentAt), t.Outcome, t.Reason, t.ProviderID, t.Error}
		}
		s.table([]string{"number", "step", "intent_at", "outcome", "reason", "provider_id", "error"}, rows)
	}
	if len(d.Receipts) > 0 {
		s.title("receipts")
		rows := make([][]string, len(d.Receipts))
		for i, t := range d.Receipts {
			rows[i] = []string{c.at(t.At), feedback.Name(feedback.Status(t.Status), t.Soft), positive(t.Attempt), t.ProviderID, t.Detail}
		}
		s.table([]string{"at", "status", "attempt", "provider_id", "detail"}, rows)
	}
	for _, t := range d.Contents {
		s.title(fmt.Sprintf("step %d, %s", t.Step, c.at(t.At)))
		if t.Subject != "" {
			fmt.Fprintln(s.Out, "subject:", cell(t.Subject))
		}
		for line := range strings.Lines(t.Text) {
			fmt.Fprintln(s.Out, "  "+cell(strings.TrimRight(line, "\r\n")))
		}
	}
	s.printTrace(d.Trace)
	return nil
}

// outlook says when the next message leaves, and never an instant at which it cannot.
func outlook(o output, d client.DeliveryDetail) string {
	next := d.Outlook
	if next == nil || d.Sending {
		return ""
	}
	besides := ""
	if next.Away {
		besides = " Besides, its provider is away now."
	}
	switch {
	case next.Reason == "" && next.Away:
		return "leaves at " + o.at(next.At) + "." + besides
	case next.Reason == "":
		return "leaves at " + o.at(next.At)
	case next.At.IsZero():
		return "does not leave: " + next.Message + besides
	case next.Reason == "channel_down":
		return "does not leave before its provider is back: " + next.Message
	default:
		return "leaves at " + o.at(next.At) + " at the earliest: " + next.Message + besides
	}
}

// limitLabel names the limit that moved a message, which is history once it has left.
func limitLabel(d client.Delivery) string {
	if d.WaitsFor == "" {
		return "was deferred_by"
	}
	return "deferred_by"
}

// turnOf says what a message is in a conversation.
func turnOf(d client.Delivery) string {
	if d.Conversation == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("turn %d: %s %s", d.Conversation.Turn, d.Conversation.Says, d.Conversation.Asks))
}

// foldedInto names the fold head of a delivery, with its state.
func foldedInto(d client.DeliveryDetail) string {
	if d.FoldHead == nil {
		return d.FoldedInto
	}
	return fmt.Sprintf("%s (%s: %s)", d.FoldedInto, d.FoldHead.Workflow, strings.TrimSuffix(d.FoldHead.Status+", "+d.FoldHead.Reason, ", "))
}

type onDelivery struct {
	IDs []string `arg:"" optional:"" name:"id" help:"The delivery's id; several are done one after the other. Without one the flags say which deliveries."`
	selection
	remote
	output
}

type (
	cancelDeliveryCmd struct{ onDelivery }
	retryDeliveryCmd  struct{ onDelivery }
)

// Help is the long help.
func (cancelDeliveryCmd) Help() string {
	return `With an id one delivery is stopped. With flags instead a run stops all deliveries that they describe and that still have
something to send: carillon runs list shows how far it is, and --dry-run what it would do. What was sent stays sent.`
}

// Run cancels a delivery, or many.
func (c *cancelDeliveryCmd) Run(s *session) error {
	if len(c.IDs) == 0 {
		return c.bulk(s, c.remote, c.output, "cancelled", (*client.Client).CancelDeliveries)
	}
	return c.one(s, "cancelled", (*client.Client).CancelDelivery)
}

// Help is the long help.
func (retryDeliveryCmd) Help() string {
	return `With an id one delivery is tried again. One that still waits is tried at once, under the same key at the provider. One
that has ended is sent again as a new occasion with a key of its own, so that the provider does not take it for the first one.

With flags instead a run does this with all deliveries that they describe: those that have failed, and those that a retry, their
channel or a missing channel delays. What was sent, or may have been, is left alone unless --status names it. carillon runs list
shows how far the run is, and --dry-run what it would do.`
}

// Run retries a delivery, or many.
func (c *retryDeliveryCmd) Run(s *session) error {
	if len(c.IDs) == 0 {
		return c.bulk(s, c.remote, c.output, "retried", (*client.Client).RetryDeliveries)
	}
	return c.one(s, "retried", (*client.Client).RetryDelivery)
}

func (c *onDelivery) one(s *session, done string, do func(*client.Client, context.Context, string) (client.Operated, error)) error {
	if c.given() {
		return errors.New("an id names one delivery: leave the flags out, or the id")
	}
	return s.operatedAll(c.remote, c.JSON, done, c.IDs, func(api *client.Client, id string) (client.Operated, error) { return do(api, s.ctx, id) })
}
