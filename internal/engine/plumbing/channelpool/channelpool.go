// Package channelpool opens the channels of definitions. It keeps each channel open while its definition and its secrets stay the same (see package
// pool), with its requests in flight and the state of its breaker.
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
	"github.com/carillonhq/carillon/internal/engine/plumbing/pool"
	"github.com/carillonhq/carillon/internal/flow"
)

// ErrClosed means that the channel's definition has changed: the message belongs to the channel that is open now.
var ErrClosed = errors.New("the channel's definition has changed")

// Channel is an open channel with the bounds of its definition and the state of its provider. It is safe for concurrent use.
type Channel struct {
	channel.Channel
	KeepContent bool

	key   pool.Key
	def   *definition.Channel
	use   *pool.Use     // counts the requests that have begun and not ended
	slots chan struct{} // holds a token for each request in flight

	mu         sync.Mutex
	breaker    flow.Breaker
	away       []Try // consecutive tries that found the provider away while the breaker was closed
	acceptedAt time.Time
	failedAt   time.Time
	failure    string
}

// Enter waits until one more request may be in flight. Leave must follow.
func (o *Channel) Enter(ctx context.Context) error {
	select {
	case o.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Concurrency is the greatest number of requests in flight.
func (o *Channel) Concurrency() int { return cap(o.slots) }

// Leave returns the token of Enter.
func (o *Channel) Leave() { <-o.slots }

// Begin asks whether a message may be sent now. If it may, End must follow.
func (o *Channel) Begin(now time.Time) (flow.Verdict, error) {
	if !o.use.Begin() {
		return flow.Verdict{}, ErrClosed
	}
	o.mu.Lock()
	var v flow.Verdict
	o.breaker, v = o.breaker.Ask(now)
	o.mu.Unlock()
	if v.OK {
		return v, nil
	}
	o.use.End()
	return v, nil
}

// Outcome is what a request showed about its provider.
type Outcome struct {
	Signal     flow.Signal
	RetryAfter time.Duration // how long the provider asked not to be called; 0 = it did not ask
	Err        error         // nil: accepted
	Try        Try           // of a message; the zero Try cannot be uncounted
}

// Try is one try at a provider that may turn out to be away.
type Try struct {
	Delivery int64
	Number   int
	Due      time.Time
	Drawn    []string // the keys by which the random part of its next wait is drawn
}

// BreakerWait is the breaker's answer to a try that found its provider away.
type BreakerWait struct {
	flow.Verdict       // OK: the channel does not rest
	Tries        []Try // the earlier tries that opened the breaker
}

// End reports how a request ended. If the provider is away and the breaker is open, the result says for how long.
func (o *Channel) End(now time.Time, v flow.Verdict, out Outcome) BreakerWait {
	defer o.use.End()
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.breaker.Failures()
	o.breaker = o.breaker.After(now, out.Signal, v, out.RetryAfter)
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
	case o.breaker.Failures() > before && out.Try.Delivery != 0:
		o.away = append(o.away, out.Try)
	case out.Signal == flow.Answered:
		o.away = nil
	}
	return rest
}

// Resting is the breaker's answer to a message that would be sent now; OK if it may be sent.
func (o *Channel) Resting(now time.Time) flow.Verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, v := o.breaker.Ask(now)
	v.OK = v.OK || o.breaker.State(now) != flow.Open
	return v
}

// shut closes the channel.
func (o *Channel) shut() error {
	if c, ok := o.Channel.(io.Closer); ok {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close channel %s: %w", o.def.Key, err)
		}
	}
	return nil
}
