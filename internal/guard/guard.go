// Package guard calls the functions of a binary of one's own (package carillon at the root) so that they can harm nothing: one that panics or ends
// its goroutine has failed, and one that does not return when its time is up is left behind. Only a few calls of a function may be left
// behind at a time, so that a function that never returns cannot fill the memory.
//
// It does not decide what follows from a failure.
package guard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
)

const (
	// maxLeftBehind is how many calls of one function may be left behind before it is called again: enough for a slow hour of what the
	// function talks to, and each is one goroutine with one value.
	maxLeftBehind = 16
	// maxPanic bounds the text of a panic, which the author of the function has not written for people.
	maxPanic = 200
)

// Guard counts the calls of one function that were left behind. The zero value is ready for use, by several goroutines at once.
type Guard struct{ leftBehind atomic.Int64 }

// ErrBusy means that the function was not called: too many of its calls have not returned.
var ErrBusy = fmt.Errorf("%d calls of the function have not returned, though their time was up", maxLeftBehind)

// PanicError is the error of a function that panicked or ended its goroutine.
type PanicError struct{ text string }

func (e *PanicError) Error() string { return e.text }

// LostError is the error of a call that was left behind.
type LostError struct{ cause error }

func (e *LostError) Error() string { return "the function has not returned: " + e.cause.Error() }

func (e *LostError) Unwrap() error { return e.cause }

// Call calls f and returns what it returns: at once when ctx is done, whatever f does. Its own errors are ErrBusy, *PanicError and *LostError.
func Call[T any](ctx context.Context, g *Guard, f func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if g.leftBehind.Load() >= maxLeftBehind {
		return none, ErrBusy
	}
	type result struct {
		value T
		err   error
	}
	const running, returned, abandoned = 0, 1, 2
	var state atomic.Int32
	done := make(chan result, 1)
	go func() {
		r := result{err: &PanicError{"the function has ended its goroutine"}}
		defer func() { // also after runtime.Goexit
			if !state.CompareAndSwap(running, returned) {
				g.leftBehind.Add(-1)
			}
			done <- r
		}()
		r.value, r.err = recovered(ctx, f)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	g.leftBehind.Add(1)
	if !state.CompareAndSwap(running, abandoned) { // it has returned meanwhile
		g.leftBehind.Add(-1)
		r := <-done
		return r.value, r.err
	}
	return none, &LostError{context.Cause(ctx)}
}

// recovered calls the function and turns a panic into an error with its place.
func recovered[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{fmt.Sprintf("the function panicked%s: %s", place(), shortened(fmt.Sprint(p)))}
		}
	}()
	return f(ctx)
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

// IsLost reports whether a call was left behind.
func IsLost(err error) bool {
	var lost *LostError
	return errors.As(err, &lost)
}

// IsPanic reports whether the function panicked or ended its goroutine.
func IsPanic(err error) bool {
	var panicked *PanicError
	return errors.As(err, &panicked)
}
