package sim

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/store"
)

// replyAction: somebody writes back.
type replyAction struct {
	text string
	from string // their address
	via  string // the channel, as kind:name
	id   string // the provider's id of the message; empty: one of its own
}

// reply reads what somebody writes back.
func (p *parser) reply(n *portable.Node, text string) *replyAction {
	fields := p.actionFields(n, "from", "via", "id")
	r := &replyAction{text: text, from: p.needed(n, fields, "from", "the address of who writes, such as +254700000001")}
	r.via = p.needed(n, fields, "via", "the channel, such as sms")
	if r.via != "" && !strings.Contains(r.via, ":") {
		r.via += ":default"
	}
	r.id, _ = p.optional(fields["id"], "a text")
	return r
}

// reply hands in what somebody writes back, as the callback of a provider does.
func (w *world) reply(ctx context.Context, a *Action) error {
	r := a.Reply
	what := "reply of " + r.from
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	id := r.id
	if id == "" {
		w.replies++
		id = fmt.Sprintf("scenario-%d", w.replies)
	}
	now := w.clock.Now()
	taken, err := w.engine.Replies().Take(ctx, w.workspace, r.via, []reply.Reply{{ID: id, From: r.from, Text: r.text, At: now}}, now, nil)
	if err != nil {
		return err
	}
	cells := map[string]cell{"outcome": textCell("created"), "reason": textCell(string(taken[0].Reason))}
	if !taken[0].TakenIn() {
		cells["outcome"] = textCell("skipped")
	}
	w.answered(a, what, cells)
	return nil
}

// sessions returns the conversations, the newest first.
func (w *world) sessions(ctx context.Context) (rows []row, err error) {
	list, err := all(pagesOf(
		func(p store.Page) ([]store.ListedSession, error) {
			return w.store.Sessions(ctx, w.workspace.ID, store.SessionFilter{}, p)
		},
		func(s store.ListedSession) int64 { return int64(s.Delivery) }))
	for _, s := range list {
		rows = append(rows, row{instance: int64(s.Instance), delivery: int64(s.Delivery), alias: []string{s.ExtID}, cells: map[string]cell{
			"workflow": textCell(s.Workflow), "to": textCell(s.Address), "channel": textCell(s.Channel),
			"status": textCell(string(s.Status)), "reason": textCell(string(s.Reason)), "question": textCell(s.Question), "answers": answersCell(s.Answers),
			"at": instantCell(s.OpenedAt), "until": instantCell(s.ExpiresAt),
		}})
	}
	return rows, err
}
