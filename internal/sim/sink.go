package sim

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
)

// sinkKey names a sink among the rules of the wire.
func sinkKey(name string) string { return "sink " + name }

// standSinks returns the providers of sinks, each replaced by the wire: same name, same settings, no real requests.
func (w *wire) standSinks(providers []sink.Provider) []sink.Provider {
	stands := make([]sink.Provider, len(providers))
	for i, p := range providers {
		p.Open = func(map[string]string) (sink.Sink, error) { return simulatedSink{w}, nil }
		stands[i] = p
	}
	return stands
}

// simulatedSink is every sink of a scenario but those of the provider workflow, which is the engine's own.
type simulatedSink struct{ wire *wire }

// Send accepts or refuses an event by the rule of its sink.
func (s simulatedSink) Send(_ context.Context, m sink.Message) error {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	switch s.wire.present(sinkKey(m.Sink), s.wire.clock.Now()) {
	case behaveTemporary:
		return sink.Failed(errors.New("the simulated sink refuses for now"))
	case behaveDown:
		return sink.Failed(errors.New("the simulated sink cannot be reached"))
	case behavePermanent:
		return sink.Refused(errors.New("the simulated sink refuses for good"))
	case behaveGone:
		return sink.NotWanted(errors.New("the simulated sink wants no event any more"))
	case behaveLoseReply:
		return sink.Lost(errors.New("the simulated sink's answer was lost"))
	case behaveOK, behaveBounce: // the second is of channels
	}
	return nil
}

// Close implements sink.Sink.
func (simulatedSink) Close() error { return nil }

// outbox returns the outbox events, each at each of its sinks. One that goes nowhere has a row without a sink.
func (w *world) outbox(ctx context.Context) (rows []row, err error) {
	pages := pagesOf(
		func(p store.Page) ([]outbox.Event, error) {
			return w.store.OutboxEvents(ctx, w.workspace.ID, store.OutboxFilter{}, p)
		},
		func(e outbox.Event) int64 { return e.ID })
	for events, err := range pages {
		if err != nil {
			return nil, err
		}
		ids := make([]int64, len(events))
		for i, e := range events {
			ids[i] = e.ID
		}
		at, err := w.store.Dispatches(ctx, w.workspace.ID, ids)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if len(at[e.ID]) == 0 {
				rows = append(rows, outboxRow(e, outbox.Row{Status: outbox.Whole(nil)}))
			}
			for _, r := range at[e.ID] {
				rows = append(rows, outboxRow(e, r))
			}
		}
	}
	return rows, nil
}

func outboxRow(e outbox.Event, r outbox.Row) row {
	return row{instance: int64(e.Instance), delivery: int64(e.Delivery), cells: map[string]cell{
		"workflow": textCell(e.Workflow), "event": textCell(e.Type), "sink": textCell(r.Sink), "attempt": numberCell(r.AttemptNo), "at": instantCell(e.CreatedAt),
		"reason": textCell(string(r.Reason)), "status": textCell(string(r.Status)), "until": instantCell(r.NextAt),
	}}
}

// redrive makes the dead events of a sink pending again.
func (w *world) redrive(ctx context.Context, a *Action) error {
	if w.engine == nil {
		w.answered(a, "redrive", map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	n, err := w.engine.Sinks().RedriveAll(ctx, store.SinkRef{Workspace: w.workspace.ID, Name: a.Operator.sink}, "scenario", w.clock.Now())
	outcome := "changed"
	if n == 0 {
		outcome = "unchanged"
	}
	w.answered(a, "redrive", map[string]cell{"outcome": textCell(outcome)})
	return err
}
