package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
)

// actor is the actor of a scenario's operator actions.
const actor = "scenario"

// do performs an action now, and puts its repetitions on the agenda.
func (w *world) do(ctx context.Context, a *Action) error {
	if !a.every.IsZero() {
		next := w.clock.Now().Add(a.every.Exact())
		if a.until.IsZero() || !next.After(a.until) {
			w.later(next, func(ctx context.Context) error { return w.do(ctx, a) })
		}
	}
	switch {
	case a.Event != nil:
		return w.event(ctx, a)
	case a.Record != nil:
		return w.record(ctx, a)
	case a.Contact != nil:
		return w.contact(ctx, a)
	case a.Load != nil:
		return w.load(a)
	case a.Operator != nil:
		return w.operate(ctx, a)
	case a.Run != nil:
		return w.run(ctx, a)
	case a.Channel != nil:
		c := a.Channel
		var until time.Time
		if !c.during.IsZero() {
			until = w.clock.Now().Add(c.during.Exact())
		}
		w.wire.behave(c.key, c.behave, c.times, until)
	case a.Sink != nil:
		s := a.Sink
		var until time.Time
		if !s.during.IsZero() {
			until = w.clock.Now().Add(s.during.Exact())
		}
		w.wire.behave(sinkKey(s.name), s.behave, s.times, until)
	case a.HTTP != nil:
		h := a.HTTP
		var until time.Time
		if !h.during.IsZero() {
			until = w.clock.Now().Add(h.during.Exact())
		}
		w.wire.behave(h.url, h.behave, h.times, until)
		if h.body != nil {
			w.wire.bodies[h.url] = h.body
		}
	case a.Apply != nil:
		path := w.scenario.path(a.Apply.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return w.change(ctx, a, []definition.File{{Name: path, Text: text}})
	case a.Edit != nil:
		return w.edit(ctx, a)
	case a.Engine != nil:
		return w.control(a)
	case a.Database != nil:
		return w.damage(ctx, a)
	case a.Open != nil:
		return w.openSurvey(ctx, a)
	case a.Submit != nil:
		return w.submitSurvey(ctx, a)
	case a.Subscribe != nil:
		return w.subscribe(ctx, a)
	case a.Publish != nil:
		return w.publish(ctx, a)
	case a.Reply != nil:
		return w.reply(ctx, a)
	case a.Receipt != nil:
		return w.receipt(ctx, a)
	}
	return nil
}

func (w *world) control(a *Action) error {
	switch e := a.Engine; {
	case e.verb == "stop":
		w.engine, w.second, w.crash = nil, nil, "none"
	case e.verb == "crash" && e.point == "":
		w.crash = "none"
		w.end(w.engine)
	case e.verb == "crash":
		w.crash = e.point
	case w.second == nil:
		return w.start()
	}
	return nil
}

// event posts an event to the engine, as the API does.
func (w *world) event(ctx context.Context, a *Action) error {
	e := a.Event
	var b bytes.Buffer
	b.WriteString(`{"kind":`)
	writeString(&b, e.kind)
	if e.id != "" {
		b.WriteString(`,"id":`)
		writeString(&b, e.id)
	}
	at := e.occurredAt
	if e.occursNow {
		at = w.clock.Now()
	}
	if !at.IsZero() {
		fmt.Fprintf(&b, `,"occurred_at":%q`, at.UTC().Format(time.RFC3339Nano))
	}
	if e.payload != nil {
		fmt.Fprintf(&b, `,"payload":%s`, e.payload)
	}
	if e.recipient != nil {
		fmt.Fprintf(&b, `,"recipient":%s`, e.recipient)
	}
	b.WriteByte('}')
	return w.ingest(ctx, a, "event "+e.kind, b.Bytes())
}

// ingest posts one event and keeps the answer. A stopped engine accepts no events: its process is gone.
func (w *world) ingest(ctx context.Context, a *Action, what string, raw []byte) error {
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	results, err := w.engine.Ingest(ctx, w.workspace, []ingest.Item{ingest.Parse(raw, w.clock.Now())})
	if err != nil {
		return err
	}
	r := results[0]
	cells := map[string]cell{"outcome": textCell(string(r.Outcome)), "reason": textCell(string(r.Reason))}
	if r.Error != nil {
		cells["field"], cells["error"] = textCell(r.Error.Field), textCell(r.Error.Message)
	}
	w.answered(a, what, cells)
	return nil
}

// answered compares the answer to an action. An action that fails without an expected answer is a difference: nothing
// breaks unnoticed.
func (w *world) answered(a *Action, what string, cells map[string]cell) {
	spec := listSpec{name: "answer to " + what, answer: true}
	for _, f := range answerFields(a.verb()) {
		spec.fields = append(spec.fields, f)
		if f.kind == fieldName {
			spec.show = append(spec.show, f.name)
		}
	}
	e := expectation{spec: spec, pos: a.pos, count: -1, value: a.node}
	var actual []row
	switch {
	case a.answer != nil:
		e.rows = []expectedRow{{pos: a.answer.pos, times: 1, fields: a.answer.fields, value: a.node}}
		actual = []row{{cells: cells}}
	case cells["error"].text != "":
		actual = []row{{cells: cells}}
	default:
		return
	}
	w.answers = append(w.answers, compare(e, actual))
}

// verb is the first key of an action.
func (a *Action) verb() string {
	switch {
	case a.Event != nil:
		return "event"
	case a.Record != nil:
		return "record"
	case a.Contact != nil:
		return "contact"
	case a.Operator != nil:
		return "operator"
	case a.Run != nil:
		return "run"
	case a.Edit != nil, a.Apply != nil:
		return "apply"
	case a.Database != nil:
		return "database"
	case a.Open != nil:
		return "open"
	case a.Submit != nil:
		return "submit"
	case a.Subscribe != nil && a.Subscribe.confirms:
		return "confirm"
	case a.Subscribe != nil && a.Subscribe.frequency != "":
		return "subscribe"
	case a.Subscribe != nil:
		return "unsubscribe"
	case a.Publish != nil:
		return "publish"
	case a.Reply != nil:
		return "reply"
	case a.Receipt != nil:
		return "receipt"
	}
	return ""
}

// run runs a workflow by hand, as the API does.
func (w *world) run(ctx context.Context, a *Action) error {
	what := "run " + a.Run.workflow
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	run, err := w.engine.RunManually(ctx, w.workspace, a.Run.workflow, a.Run.id, actor, nil)
	var state *operator.StateError
	var refused *engine.NotManualError
	cells := map[string]cell{"outcome": textCell("created")}
	switch {
	case errors.As(err, &state), errors.As(err, &refused), errors.Is(err, operator.ErrNotFound):
		cells = map[string]cell{"outcome": textCell("failed"), "error": textCell(err.Error())}
	case err != nil:
		return err
	case !run.Created:
		cells["outcome"] = textCell("exists")
	}
	w.answered(a, what, cells)
	return nil
}
