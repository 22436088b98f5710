package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/outcome"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/subject"
)

// follow is the provider workflow: an outcome becomes an event of its workspace, which triggers read as any other. Its id is the message id, so a
// repeated message makes nothing twice; its payload is what the outcome says, and its recipient the person of the delivery. After
// outcome.MaxChain outcomes that followed one from another it is refused: two workflows may be the cause of each other.
func (e *Engine) follow(ctx context.Context, m sink.Message) error {
	ws, ok := e.catalog.Named(m.Workspace)
	if !ok {
		return sink.Refused(fmt.Errorf("there is no workspace %q", m.Workspace))
	}
	raw, err := outcomeEvent(m)
	if err != nil {
		return err
	}
	results, err := e.Ingest(ctx, ws, []ingest.Item{ingest.ParseOutcome(raw, e.config.Clock.Now())})
	if err != nil {
		return sink.Failed(err)
	}
	if refused := results[0].Error; refused != nil {
		return &sink.Error{Reason: refused.Reason, Retry: sink.Permanent, Err: errors.New(refused.Message)}
	}
	return nil
}

// outcomeEvent writes an outcome as an event.
func outcomeEvent(m sink.Message) (json.RawMessage, error) {
	var body struct {
		Time time.Time                  `json:"time"`
		Data map[string]json.RawMessage `json:"data"`
	}
	var said outcome.CloudEvent
	if err := errors.Join(json.Unmarshal(m.Body, &body), json.Unmarshal(m.Body, &said)); err != nil {
		return nil, sink.Refused(fmt.Errorf("read the outcome: %w", err))
	}
	links := said.Data.Chain + 1
	if links > outcome.MaxChain {
		return nil, &sink.Error{
			Reason: reason.LoopStopped, Retry: sink.Permanent, Err: fmt.Errorf("%d outcomes followed one from another", outcome.MaxChain),
		}
	}
	body.Data["chain"] = json.RawMessage(fmt.Sprint(links))
	event := struct {
		ID         string                     `json:"id"`
		Kind       string                     `json:"kind"`
		OccurredAt time.Time                  `json:"occurred_at"`
		Payload    map[string]json.RawMessage `json:"payload"`
		Recipient  *subject.Recipient         `json:"recipient,omitempty"`
	}{ID: m.ID, Kind: m.Type, OccurredAt: body.Time, Payload: body.Data}
	if to := said.Data; to.Address != "" || to.CustomerRef != "" {
		event.Recipient = &subject.Recipient{Address: to.Address, Locale: to.Locale, CustomerRef: to.CustomerRef}
	}
	raw, err := json.Marshal(event)
	if err != nil {
		return nil, sink.Refused(fmt.Errorf("write the event: %w", err))
	}
	return raw, nil
}
