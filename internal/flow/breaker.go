package flow

import "time"

const (
	// Threshold is how many failures in a row say that the provider is away and not one message at fault.
	Threshold = 5
	// firstOpening is short: most outages are a restart. Each failed probe doubles it, up to longestOpening: a probe
	// every two minutes finds the end of an outage soon enough and is no load.
	firstOpening   = 10 * time.Second
	longestOpening = 2 * time.Minute
	// longestWish bounds how long one answer of a provider can close the channel.
	longestWish = time.Hour
	// probeWait is how long callers wait that come while a probe is in flight.
	probeWait = 5 * time.Second
)

// State is the state of a breaker.
type State string

// The states.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// Signal is what a request says about its provider, whatever it says about the message.
type Signal int

// The signals.
const (
	Nothing  Signal = iota // it was never made, or broke down here
	Answered               // somebody is there, be it with a refusal
	Away                   // no connection, no answer, or a failure of the provider's own
)

// Breaker keeps requests from a provider that is away. The zero value is closed.
type Breaker struct {
	failures int           // in a row
	opening  time.Duration // of the present opening; 0 = closed
	until    time.Time
	probing  bool
}

// Verdict is the answer to "may one more message be handed over?".
type Verdict struct {
	OK     bool
	Probe  bool          // the outcome decides for all; report it as a probe's
	Until  time.Time     // otherwise: not before
	Spread time.Duration // and over this long, so that not everybody comes at once
}

// State is the state at an instant.
func (b Breaker) State(now time.Time) State {
	switch {
	case b.opening == 0:
		return Closed
	case now.Before(b.until) && !b.until.After(now.Add(longestWish)): // else the clock was set back
		return Open
	}
	return HalfOpen
}

// Failures is how many requests in a row found the provider away.
func (b Breaker) Failures() int { return b.failures }

// Until is when an open breaker lets a probe through.
func (b Breaker) Until() time.Time { return b.until }

// Ask decides about one message. One that is a probe must be reported with After.
func (b Breaker) Ask(now time.Time) (Breaker, Verdict) {
	switch b.State(now) {
	case Closed:
		return b, Verdict{OK: true}
	case Open:
		return b, Verdict{Until: b.until, Spread: max(b.opening, firstOpening)}
	case HalfOpen:
	}
	if b.probing {
		return b, Verdict{Until: now.Add(probeWait), Spread: max(b.opening, firstOpening)}
	}
	b.probing = true
	return b, Verdict{OK: true, Probe: true}
}

// After takes note of what a request said at an instant. Wish is for how long the provider asked to be left alone, 0
// when it did not. What was on its way when the breaker opened no longer counts: only the probe closes it.
func (b Breaker) After(now time.Time, signal Signal, probe bool, wish time.Duration) Breaker {
	if probe {
		b.probing = false
	}
	switch {
	case signal == Answered && (probe || b.opening == 0):
		b.failures, b.opening = 0, 0
	case signal == Away && probe:
		b.failures++
		b.open(now, min(max(2*b.opening, firstOpening), longestOpening))
	case signal == Away && b.opening == 0:
		if b.failures++; b.failures >= Threshold {
			b.open(now, firstOpening)
		}
	}
	if wish = min(wish, longestWish); wish > 0 && (b.opening == 0 || now.Add(wish).After(b.until)) {
		if b.opening == 0 {
			b.opening = firstOpening
		}
		b.until = now.Add(wish)
	}
	return b
}

func (b *Breaker) open(now time.Time, opening time.Duration) {
	b.opening, b.until = opening, now.Add(opening)
}
