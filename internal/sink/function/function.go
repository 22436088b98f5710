// Package function is the sink that calls a function of the program: that of a binary of one's own (package carillon at the root).
//
// A function that panics, or that ends its goroutine, has failed for now. One that does not return when its time is up is left behind
// (package guard), and the event counts as perhaps taken.
package function

import (
	"bytes"
	"context"
	"errors"

	"github.com/carillonhq/carillon/internal/guard"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
)

// Provider returns the provider of that name, whose sinks all call one function. The function may be called from several goroutines at
// once. It returns nil once it is responsible for the event. A *sink.Error says what follows; any other error is a failure that may pass.
func Provider(name string, call func(ctx context.Context, m sink.Message) error) sink.Provider {
	f := &function{call: call}
	return sink.Provider{
		Name: name,
		Doc:  "Calls a function of this program with every event.",
		Check: func(settings map[string]string) error {
			for setting := range settings {
				return &sink.SettingError{Setting: setting, Err: errors.New("is not known: a function has no settings")}
			}
			return nil
		},
		Open: func(map[string]string) (sink.Sink, error) { return f, nil },
	}
}

type function struct {
	call  func(ctx context.Context, m sink.Message) error
	guard guard.Guard
}

// Send calls the function.
func (f *function) Send(ctx context.Context, m sink.Message) error {
	m.Body = bytes.Clone(m.Body) // it belongs to the function
	_, err := guard.Call(ctx, &f.guard, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.call(ctx, m) })
	switch {
	case errors.Is(err, guard.ErrBusy):
		return sink.Failed(err)
	case guard.IsPanic(err):
		return &sink.Error{Reason: reason.SendThrew, Retry: sink.Temporary, Err: err}
	case guard.IsLost(err):
		return sink.Lost(err)
	}
	return classify(ctx, err)
}

// classify turns what a function returned into what Send returns.
func classify(ctx context.Context, err error) error {
	var known *sink.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil: // whatever it talked to may have taken the event
		return sink.Lost(err)
	}
	return sink.Failed(err)
}

// Close does nothing: calls end with their contexts.
func (f *function) Close() error { return nil }
