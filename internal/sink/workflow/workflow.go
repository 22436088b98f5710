// Package workflow is the sink that makes an outcome an event of the workspace, so that the triggers of workflows fire for it: an answer of
// one workflow is the occasion of the next.
//
// It only hands the message on. What takes it in makes the event: its kind is the message's type (response.completed), its id the message's
// id, by which a repetition is found; and it bounds the length of a chain, because a workflow may be routed to itself.
package workflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/internal/sink"
)

// Name is that of the provider.
const Name = "workflow"

// Ingest makes an event of a message and returns nil when the event is committed. It may be called again with the same message. An error is
// as one of sink.Sink.Send: a *sink.Error, or any other, which counts as temporary.
type Ingest func(ctx context.Context, m sink.Message) error

// Provider returns the provider; all its sinks share ingest. A nil ingest is for checking definitions, where nothing is opened.
func Provider(ingest Ingest) sink.Provider {
	return sink.Provider{
		Name: Name,
		Doc:  "Makes an event of every outcome, for triggers of the same workspace.",
		Check: func(settings map[string]string) error {
			for name := range settings {
				return &sink.SettingError{Setting: name, Err: errors.New("is not known: the provider workflow has no settings")}
			}
			return nil
		},
		Open: func(map[string]string) (sink.Sink, error) {
			if ingest == nil {
				return nil, errors.New("this process takes in no events of its own")
			}
			return workflow{ingest}, nil
		},
	}
}

type workflow struct{ ingest Ingest }

// Send hands the message to ingest.
func (w workflow) Send(ctx context.Context, m sink.Message) error {
	if m.Workspace == "" {
		return sink.Refused(errors.New("the outcome names no workspace"))
	}
	if err := w.ingest(ctx, m); err != nil {
		var known *sink.Error
		if errors.As(err, &known) {
			return known
		}
		return sink.Failed(fmt.Errorf("take in the event: %w", err))
	}
	return nil
}

// Close does nothing.
func (workflow) Close() error { return nil }
