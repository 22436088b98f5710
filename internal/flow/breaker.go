package flow

import "time"

const (
	// Threshold is the number of failures in a row that open the breaker. Fewer failures may be the fault of a message.
	Threshold = 5
	// firstOpening is short, because most outages are restarts. Each failed probe doubles it, up to longestOpening: a probe every two
	// minutes finds the end of an outage soon enough and puts no load on the provider.
	firstOpening   = 10 * time.Second
	longestOpening = 2 * time.Minute
	// longestWish bounds the time for which one answer of a provider stops the channel.
	longestWish = time.Hour
	// probeWait is how long other callers wait while a probe is in flight.
	probeWait = 5 * time.Second
)

// State is the state of a breaker.
type State string

// The values of State.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// Signal is what the outcome of a request shows about the provider, not about the message.
type Signal int

// The values of Signal.
const (
	Nothing  Signal = iota // the request was not made, or failed in this process
	Answered               // the provider answered, even with a refusal
	Away                   // no connection, no answer, or an error of the provider itself
)

// Breaker stops requests to a provider that is away. The zero value is closed.
type Breaker struct {
	failures int           // in a row
	opening  time.Duration // length of the present opening; 0: closed
	until    time.Time
	probing  bool
}

// Verdict is the decision about one message.
type Verdict struct {
	OK     bool
	Probe  bool          // it is a probe, whose outcome decides for all; After must be called for it
	Until  time.Time     // if it must wait: the instant before which it must not be sent
	Spread time.Duration // waiting messages should be spread over this time after Until, so that they do not all come at once
}

// State returns the state at an instant.
func (b Breaker) State(now time.Time) State {
	switch {
	case b.opening == 0:
		return Closed
	case now.Before(b.until) && !b.until.After(now.Add(longestWish)): // else the clock was set back
		return Open
	}
	return HalfOpen
}

// Failures returns how many requests in a row found the provider away.
func (b Breaker) Failures() int { return b.failures }

// Until returns when an open breaker allows a probe.
func (b Breaker) Until() time.Time { return b.until }

// Ask decides about one message. If the message is a probe, After must be called with its outcome.
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

// After records the signal of a request at an instant. Wish is how long the provider asked for no further requests; 0: it did not. Requests
// that were in flight when the breaker opened do not count: only the probe closes it.
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
