package sim

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/store"
)

// receiptAction: a provider reports what became of a message.
type receiptAction struct {
	status   feedback.Status
	soft     bool
	to       string
	workflow string
	channel  string // empty: any
	step     int    // 0: the last one that was tried
	detail   string
}

// receipt reads what is reported of a message.
func (p *parser) receipt(n *portable.Node, status string) *receiptAction {
	fields := p.actionFields(n, "to", "workflow", "channel", "step", "soft", "detail")
	var all []string
	for _, s := range feedback.Statuses() {
		all = append(all, string(s))
	}
	word, _ := p.oneOf(n.Fields[0].Value, "receipt", all...)
	r := &receiptAction{status: feedback.Status(word), to: p.needed(n, fields, "to", "who the message was to")}
	r.workflow, _ = p.optional(fields["workflow"], "the name of a workflow")
	if r.channel, _ = p.optional(fields["channel"], "a channel, such as sms"); r.channel != "" {
		r.channel = channelKey(r.channel)
	}
	r.detail, _ = p.optional(fields["detail"], "a text")
	if at := fields["step"]; at != nil {
		r.step, _ = p.number(at, 1)
	}
	if at := fields["soft"]; at != nil {
		r.soft = p.bool(at)
		if r.soft && r.status != feedback.Bounced {
			p.report(at.Pos, definition.CodeInvalid, "soft is of use with bounced alone", "remove it")
		}
	}
	return r
}

// receipt hands in what a provider reports of the last message to somebody, as its callback does.
func (w *world) receipt(ctx context.Context, a *Action) error {
	r := a.Receipt
	what := fmt.Sprintf("receipt %s of %s", r.status, r.to)
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	rows, err := w.deliveries(ctx, store.DeliveryFilter{Workflow: r.workflow, To: store.ContactQuery{Text: r.to}})
	if err != nil {
		return err
	}
	var of *delivery.Row
	for i := range rows {
		if rows[i].AttemptNo > 0 && (r.channel == "" || rows[i].Channel == r.channel) {
			of = &rows[i]
		}
	}
	if of == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("no message was sent to " + r.to)})
		return nil
	}
	step := r.step
	if step == 0 {
		if step = of.Step; of.MayHaveArrived() || step == 0 {
			step++
		}
	}
	report := receipt.Report{Status: r.status, Soft: r.soft, Channel: of.Channel, Delivery: of.ID, Step: step, Detail: r.detail, Actor: actor}
	taken, err := w.engine.Receipts().Take(ctx, w.workspace, []receipt.Report{report}, w.clock.Now(), nil)
	if err != nil {
		return err
	}
	outcome := "recorded"
	switch {
	case taken[0].Settled:
		outcome = "settled"
	case taken[0].Cancelled > 0:
		outcome = "cancelled"
	case taken[0].Stopped:
		outcome = "stopped"
	}
	w.answered(a, what, map[string]cell{"outcome": textCell(outcome)})
	return nil
}

// receiptsCell writes what was reported of a delivery, in the order in which it came.
func (w *world) receiptsCell(ctx context.Context, of delivery.Row) (cell, error) {
	if of.AttemptNo == 0 {
		return textCell(""), nil
	}
	list, err := w.store.Receipts(ctx, w.workspace.ID, of.ID)
	if err != nil {
		return cell{}, err
	}
	words := make([]string, len(list))
	for i, r := range list {
		words[i] = feedback.Name(feedback.Status(r.Status), r.Soft)
	}
	return textCell(strings.Join(words, ", ")), nil
}

// bounce hands in what providers report of messages that they have accepted and could not deliver.
func (w *world) bounce(ctx context.Context) error {
	ids := engine.PublicIDs(w.workspace)
	for _, out := range w.wire.bounced() {
		_, _, id, ok := ids.Decode(out.DeliveryID)
		if !ok || w.engine == nil {
			continue
		}
		report := receipt.Report{
			Status: feedback.Bounced, Address: out.Address, Channel: out.Channel, Delivery: delivery.ID(id), Step: out.Step, Detail: "the simulated provider could not deliver it", Actor: actor,
		}
		if _, err := w.engine.Receipts().Take(ctx, w.workspace, []receipt.Report{report}, w.clock.Now(), nil); err != nil {
			return err
		}
	}
	return nil
}
