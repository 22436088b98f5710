// Package function is the sink that calls a function of the program: that of a binary of one's own (package carillon at the root).
//
// A function that panics, or that ends its goroutine, has failed for now. One that does not return when its time is up is left behind, and
// the event counts as perhaps taken; only a few such calls may be left behind at a time, so that a function that never returns cannot
// fill the memory.
package function

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
)

const (
	// maxLeftBehind is how many calls of one function may be left behind before it is called again: enough for a slow hour of what the
	// function talks to, and each is one goroutine with one event.
	maxLeftBehind = 16
	// maxPanic bounds the text of a panic, which the author of the function has not written for people.
	maxPanic = 200
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
	call       func(ctx context.Context, m sink.Message) error
	leftBehind atomic.Int64
}

// Send calls the function.
func (f *function) Send(ctx context.Context, m sink.Message) error {
	if f.leftBehind.Load() >= maxLeftBehind {
		return sink.Failed(fmt.Errorf("%d calls of the function have not returned, though their time was up", maxLeftBehind))
	}
	m.Body = bytes.Clone(m.Body) // it belongs to the function
	const running, returned, abandoned = 0, 1, 2
	var state atomic.Int32
	done := make(chan error, 1)
	go func() {
		var err error = threw(errors.New("the function has ended its goroutine"))
		defer func() { // also after runtime.Goexit
			if !state.CompareAndSwap(running, returned) {
				f.leftBehind.Add(-1)
			}
			done <- err
		}()
		err = f.guarded(ctx, m)
	}()
	select {
	case err := <-done:
		return classify(ctx, err)
	case <-ctx.Done():
	}
	f.leftBehind.Add(1)
	if !state.CompareAndSwap(running, abandoned) { // it has returned meanwhile
		f.leftBehind.Add(-1)
		return classify(ctx, <-done)
	}
	return sink.Lost(fmt.Errorf("the function has not returned: %w", context.Cause(ctx)))
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

// guarded calls the function and turns a panic into an error with its place.
func (f *function) guarded(ctx context.Context, m sink.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = threw(fmt.Errorf("the function panicked%s: %s", place(), shortened(fmt.Sprint(p))))
		}
	}()
	return f.call(ctx, m)
}

func threw(err error) *sink.Error {
	return &sink.Error{Reason: reason.SendThrew, Retry: sink.Temporary, Err: err}
}

// place says where the panic that is being recovered began.
func place() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for began := false; ; {
		frame, more := frames.Next()
		inside := strings.HasPrefix(frame.Function, "runtime.")
		if began && !inside && frame.File != "" {
			return fmt.Sprintf(" at %s:%d", filepath.Base(frame.File), frame.Line)
		}
		began = began || frame.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

func shortened(text string) string {
	if len(text) > maxPanic {
		return strings.ToValidUTF8(text[:maxPanic], "") + "…"
	}
	return text
}

// Close does nothing: calls end with their contexts.
func (f *function) Close() error { return nil }
