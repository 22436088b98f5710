package flow

import (
	"math"
	"time"
)

const (
	// Threshold is the number of failures in a row that open the breaker, in the order of their requests. Fewer failures may be the fault of a
	// message.
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
//
// It numbers the requests that it lets through. Many are in flight at once, and their outcomes arrive in any order: a hundred answers, and among
// them those of five lost connections one after the other. So a failure counts only if no later request was answered.
type Breaker struct {
	failures int           // in a row
	opening  time.Duration // length of the present opening; 0: closed
	until    time.Time
	probing  bool
	asked    uint64 // number of the last request
	answered uint64 // number of the last request that was answered
	first    uint64 // number of the first request of the failures in a row
}

// onlyProbe as Breaker.first: no request that is in flight closes the breaker.
const onlyProbe = math.MaxUint64

// Verdict is the decision about one message.
type Verdict struct {
	OK     bool
	Number uint64        // of the request that follows; 0: none does
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
		b.asked++
		return b, Verdict{OK: true, Number: b.asked}
	case Open:
		return b, Verdict{Until: b.until, Spread: max(b.opening, firstOpening)}
	case HalfOpen:
	}
	if b.probing {
		return b, Verdict{Until: now.Add(probeWait), Spread: max(b.opening, firstOpening)}
	}
	b.probing = true
	b.asked++
	return b, Verdict{OK: true, Number: b.asked, Probe: true}
}

// After records the signal of the request that Ask let through with a verdict. Wish is how long the provider asked for no further requests; 0: it
// did not. The answer to a request that began after one of the failures shows that they were not in a row: it ends their count, and closes a breaker that they
// opened. Else only a probe closes it.
func (b Breaker) After(now time.Time, signal Signal, v Verdict, wish time.Duration) Breaker {
	if v.Probe {
		b.probing = false
	}
	switch signal {
	case Answered:
		b.answered = max(b.answered, v.Number)
		if v.Probe || v.Number > b.first {
			b.failures, b.opening = 0, 0
		}
	case Away:
		b = b.away(now, v)
	case Nothing:
	}
	if wish = min(wish, longestWish); wish > 0 && (b.opening == 0 || now.Add(wish).After(b.until)) {
		if b.opening == 0 {
			b.opening = firstOpening
		}
		b.until, b.first = now.Add(wish), onlyProbe
	}
	return b
}

// away records a failure.
func (b Breaker) away(now time.Time, v Verdict) Breaker {
	switch {
	case v.Probe && b.opening > 0:
		b.failures, b.first = b.failures+1, onlyProbe
		b.opening = min(max(2*b.opening, firstOpening), longestOpening)
	case b.opening > 0, v.Number < b.answered:
		return b
	default:
		if b.failures++; b.failures == 1 || v.Number < b.first {
			b.first = v.Number
		}
		if b.failures < Threshold {
			return b
		}
		b.opening = firstOpening
	}
	b.until = now.Add(b.opening)
	return b
}
