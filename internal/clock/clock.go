// Package clock is the only door to wall time.
//
// Everything that decides takes an instant as a parameter; what has to wait takes a Clock. All instants are UTC
// and whole microseconds, the resolution at which they are stored.
package clock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock tells the time and waits for it.
type Clock interface {
	// Now is the present instant in UTC, in whole microseconds.
	Now() time.Time
	// Sleep returns when the clock has reached until, or ctx is done, whichever is first; in the second case it
	// returns the context's cause.
	Sleep(ctx context.Context, until time.Time) error
	// Wait is Sleep that also ends, without an error, when something is sent on wake.
	Wait(ctx context.Context, until time.Time, wake <-chan struct{}) error
}

// System is the machine's clock plus a correction, by which the replicas of one database agree on its time.
// The zero value is ready for use.
type System struct {
	offset atomic.Int64 // nanoseconds
}

// SetOffset sets what is added to the machine's time.
func (c *System) SetOffset(d time.Duration) { c.offset.Store(int64(d)) }

// Offset is what is added to the machine's time.
func (c *System) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Now is the corrected time of the machine.
func (c *System) Now() time.Time { return time.Now().Add(c.Offset()).UTC().Truncate(time.Microsecond) }

// Sleep waits on a timer of the machine.
func (c *System) Sleep(ctx context.Context, until time.Time) error { return c.Wait(ctx, until, nil) }

// Wait waits on a timer of the machine, or for wake.
func (c *System) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) error {
	d := until.Sub(c.Now())
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Monotonic measures durations of real work, which no correction of the clock may disturb.
func Monotonic() (elapsed func() time.Duration) {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Manual is a clock that stands still until it is set. Its Sleep returns when Set passes the instant.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	changed chan struct{}
}

// NewManual returns a clock that shows now.
func NewManual(now time.Time) *Manual {
	return &Manual{now: now.UTC().Truncate(time.Microsecond), changed: make(chan struct{})}
}

// Now is the instant last set.
func (c *Manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock, forwards or back.
func (c *Manual) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now.UTC().Truncate(time.Microsecond)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Sleep waits until the clock has been set to until or later.
func (c *Manual) Sleep(ctx context.Context, until time.Time) error { return c.Wait(ctx, until, nil) }

// Wait waits until the clock has been set to until or later, or for wake.
func (c *Manual) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) error {
	for {
		c.mu.Lock()
		reached, changed := !c.now.Before(until), c.changed
		c.mu.Unlock()
		if reached {
			return context.Cause(ctx)
		}
		select {
		case <-changed:
		case <-wake:
			return context.Cause(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
