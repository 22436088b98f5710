package outbox

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

const (
	// DefaultDisableAfter is how long a sink fails before it is disabled: longer than a long weekend.
	DefaultDisableAfter = 5 * 24 * time.Hour
	// quiet is the time without a failure after which a further one begins a new count: two messages that were refused a week apart say
	// nothing about the time between them. It is longer than any wait between two tries.
	quiet = 2 * MaxRetryAfter
	// shortRest and longRest bound how long a sink rests after a failure: half of the time for which it has been failing. Meanwhile one event
	// at a time tries whether it is back, so that an outage costs other events no tries.
	shortRest, longRest = time.Second, time.Minute
)

// State says whether a sink gets events.
type State string

// The values of State.
const (
	Active   State = "active"
	Paused   State = "paused"   // by a person
	Disabled State = "disabled" // because it failed for days, or is gone; a person enables it again
)

// Health is what is known of a sink. The events of a sink that is not active stay pending: none of them leaves, and none uses up a try.
type Health struct {
	State State
	// FailingSince is the first failure after the last success; zero: its last try succeeded, or there was none.
	FailingSince time.Time
	FailedAt     time.Time     // the last failure; zero as FailingSince
	RestUntil    time.Time     // no try begins before, because the last one failed; zero: it does not rest
	Reason       reason.Reason // of the last failure; of a disabled sink, why
}

// Batch returns how many of n events may be tried together: one while the sink is failing.
func (h Health) Batch(n int) int {
	if h.RestUntil.IsZero() {
		return n
	}
	return min(n, 1)
}

// Sends reports whether the sink gets events.
func (h Health) Sends() bool { return h.State == Active || h.State == "" }

// NextTry returns when an event is tried at the sink that may be tried from an instant on: not while the sink rests, and not before. Zero: it
// is not tried, because the sink gets no events, or because there is no such instant.
func (h Health) NextTry(from time.Time) time.Time {
	switch {
	case !h.Sends() || from.IsZero():
		return time.Time{}
	case from.Before(h.RestUntil):
		return h.RestUntil
	}
	return from
}

// Redriven returns a sink's health after a person had events of it tried again: it rests no longer. One event at a time still finds out
// whether it is back. Ok is false when nothing changes.
func (h Health) Redriven(now time.Time) (next Health, ok bool) {
	if !h.RestUntil.After(now) {
		return h, false
	}
	h.RestUntil = now
	return h, true
}

// After returns a sink's health after a try. It is disabled at once when it is gone, and when it has failed for disableAfter (0:
// DefaultDisableAfter) without a success between. Every failure counts, also a refusal: a sink that refuses all messages is as useless as
// one that is away. A success clears the failures, but enables nothing: a person has paused the sink, or it said that it is gone.
func (h Health) After(result Result, now time.Time, disableAfter time.Duration) Health {
	if result.Outcome == Accepted {
		if h.State != Disabled {
			h.Reason = ""
		}
		h.FailingSince, h.FailedAt, h.RestUntil = time.Time{}, time.Time{}, time.Time{}
		return h
	}
	if disableAfter <= 0 {
		disableAfter = DefaultDisableAfter
	}
	if h.FailingSince.IsZero() || now.Sub(h.FailedAt) > quiet {
		h.FailingSince = now
	}
	h.FailedAt, h.RestUntil = now, time.Time{}
	if result.Outcome == Temporary {
		h.RestUntil = ceil(now.Add(min(max(now.Sub(h.FailingSince)/2, shortRest), longRest)))
	}
	if h.State == Disabled {
		return h
	}
	h.Reason = result.Reason
	switch {
	case result.Outcome == Gone:
		h.State = Disabled
	case h.Sends() && now.Sub(h.FailingSince) >= disableAfter:
		h.State, h.Reason = Disabled, reason.RetriesUsedUp
	}
	return h
}

// Pause stops a sink's events. A disabled sink stays disabled; ok is false when nothing changes.
func (h Health) Pause() (next Health, ok bool) {
	if !h.Sends() {
		return h, false
	}
	h.State = Paused
	return h, true
}

// Enable lets a sink's events leave again, whether it was paused or disabled. The count of days starts afresh. Ok is false when nothing changes.
func (h Health) Enable() (next Health, ok bool) {
	if h.Sends() {
		return h, false
	}
	return Health{State: Active}, true
}
