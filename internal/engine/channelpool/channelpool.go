// Package channelpool opens the channels that definitions name, and keeps each open with its state while its definition
// stays: how many requests are on the wire, and whether its provider is there.
package channelpool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/flow"
)

// ErrClosed says that the channel's definition has changed since: the message is for the one that is open now.
var ErrClosed = errors.New("the channel's definition has changed")

// Channel is an open channel with what its definition and its provider say about it. It is safe for concurrent use.
type Channel struct {
	channel.Channel
	KeepContent bool

	key      name
	def      *definition.Channel
	settings map[string]string
	slots    chan struct{} // holds a token for each request on the wire

	mu         sync.Mutex
	breaker    flow.Breaker
	away       []Try // in a row, that found the provider away while the breaker was closed
	requests   int   // begun and not ended
	closed     bool  // no more requests
	acceptedAt time.Time
	failedAt   time.Time
	failure    string
}

// Enter waits until one more request may be on the wire. Leave follows.
func (o *Channel) Enter(ctx context.Context) error {
	select {
	case o.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Concurrency is how many requests are on the wire at once at most.
func (o *Channel) Concurrency() int { return cap(o.slots) }

// Leave frees the place that Enter took.
func (o *Channel) Leave() { <-o.slots }

// Begin asks whether a message may be handed over now. When it may, End follows.
func (o *Channel) Begin(now time.Time) (flow.Verdict, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return flow.Verdict{}, ErrClosed
	}
	var v flow.Verdict
	if o.breaker, v = o.breaker.Ask(now); v.OK {
		o.requests++
	}
	return v, nil
}

// Outcome is what a request said about its provider.
type Outcome struct {
	Signal     flow.Signal
	RetryAfter time.Duration // for how long the provider asked to be left alone; 0 = it did not
	Err        error         // nil: accepted
	Try        Try           // of a message; the zero Try is none that can be given back
}

// Try is one of the tries at a provider that may turn out to be away.
type Try struct {
	Delivery int64
	Number   int
	Due      time.Time
	Drawn    []string // by what the chance in its next wait is drawn
}

// BreakerWait is what an outlet that rests makes of a try that found its provider away.
type BreakerWait struct {
	flow.Verdict       // OK: it does not rest
	Tries        []Try // those before it that have opened the breaker
}

// End takes note of how a request ended. Where the provider was away and the breaker is open for that, the rest says so.
func (o *Channel) End(now time.Time, v flow.Verdict, out Outcome) (BreakerWait, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests--
	o.breaker = o.breaker.After(now, out.Signal, v.Probe, out.RetryAfter)
	if out.Err == nil {
		o.acceptedAt = now
	} else {
		o.failedAt, o.failure = now, out.Err.Error()
	}
	rest := BreakerWait{Verdict: flow.Verdict{OK: true}}
	switch {
	case out.Signal == flow.Away && o.breaker.State(now) == flow.Open:
		_, rest.Verdict = o.breaker.Ask(now)
		rest.Tries, o.away = o.away, nil
	case out.Signal == flow.Away && out.Try.Delivery != 0:
		o.away = append(o.away, out.Try)
	case out.Signal == flow.Answered:
		o.away = nil
	}
	return rest, o.shut()
}

// Resting is the breaker's answer to those who would come now; OK when they may.
func (o *Channel) Resting(now time.Time) flow.Verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, v := o.breaker.Ask(now)
	v.OK = v.OK || o.breaker.State(now) != flow.Open
	return v
}

// retire closes the channel as soon as nothing of it is on the wire.
func (o *Channel) retire() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	return o.shut()
}

func (o *Channel) shut() error {
	if !o.closed || o.requests > 0 {
		return nil
	}
	if c, ok := o.Channel.(io.Closer); ok {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close channel %s: %w", o.def.Key, err)
		}
	}
	return nil
}
