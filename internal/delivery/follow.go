package delivery

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// NextTick is the wait before a retry without backoff. C45 and C46 retry at the next tick, once a minute:
// without a wait it would be a request in every loop of the engine.
const NextTick = time.Minute

// jitterSteps is the resolution of the jitter draw.
const jitterSteps = 1000

// Policy holds the settings of a delivery's workflow and channel that decide what follows an attempt.
type Policy struct {
	Timing  schedule.Timing
	Awaits  bool            // the message asks for an answer, so it expires without one
	Session bool            // its session ends it
	Backoff []time.Duration // waits between attempts (product decision 31)
	Jitter  int             // percent added to a wait at most
	Forever bool            // never give up (product decision 31)
	// HoldUnknown says that the engine never repeats an attempt whose outcome is unknown (P4).
	HoldUnknown bool
	// KeyLife is how long the provider remembers an idempotency key. A message that may have arrived is repeated only within this time
	// (P3). 0: for ever.
	KeyLife time.Duration
}

const (
	// keyMargin is how long before its end a key is no longer used: the request needs time to arrive, and clocks differ.
	keyMargin = time.Minute
	// keyShare bounds the margin for short key lives: SNS FIFO remembers a key for five minutes.
	keyShare = 10
)

// KeyExpired reports whether a step that may have arrived must not be sent again at an instant, because its provider might have
// forgotten the key by then (reliability: no retry of an unknown outcome after ttl - margin).
func (p Policy) KeyExpired(row Row, at time.Time) bool {
	if !row.OutcomeUnknown() || p.KeyLife == 0 {
		return false
	}
	return at.After(row.UnknownSince.Add(p.KeyLife - min(keyMargin, p.KeyLife/keyShare)))
}

// Result is the result of one attempt.
type Result struct {
	Outcome    Outcome
	Reason     reason.Reason
	Retry      bool          // whether a retry can succeed
	RetryAfter time.Duration // the wait that the provider asked for; 0 = none
	// RestUntil is set when the provider was unavailable: its breaker keeps the channel closed until then. Such an attempt does not count,
	// for at most as long as all retries would take. None: the channel is open.
	RestUntil time.Time
}

// Change is what a result changes in a row.
type Change struct {
	Accepted     bool
	Status       Status
	SendAt       time.Time
	Hold         Hold
	HeldBackTo   time.Time // no worker claims the row before; none: it is free at once
	ExpiresAt    time.Time // applies once no message is planned, also when a stop ends the delivery before SendAt
	Step         int
	RetryCount   int
	Remaining    int
	Reason       reason.Reason
	Completed    bool
	Release      bool      // its slot is released
	Retried      bool      // the same step is retried at SendAt
	EligibleAt   time.Time // when it could have left, if a retry or a missing channel delays it; none: SendAt
	DueAt        time.Time // when it was due, if the attempt does not count; none: SendAt
	UnknownSince time.Time
}

// After decides what follows a result at now. Draw returns an integer in [0, max), the same for the same row and attempt in every
// replay; it is only called when there is jitter.
//
// A success plans the next reminder (C20) or, after the last, the expiry (C28). A failure plans a retry; when the retries are used up
// it fails the delivery, or only the step if that is a reminder. An unknown outcome is retried under the same key or waits for a
// person, as the channel says. A step with an attempt that may have arrived never fails: it ends as unknown and keeps its slot
// (P4, P6).
func After(row Row, policy Policy, result Result, now time.Time, draw func(max uint64) uint64) Change {
	c := Change{
		Status: row.Status, Step: row.Step, RetryCount: row.RetryCount, Remaining: row.RemindersRemaining,
		Reason: result.Reason, UnknownSince: row.UnknownSince,
	}
	switch result.Outcome {
	case AttemptDelivered:
		c.Accepted, c.RetryCount, c.UnknownSince = true, 0, time.Time{}
		if c.Status == Scheduled || c.Status == Unknown {
			c.Status = Sent
		}
		c.advance(row, policy, now)
	case AttemptUnknown:
		if row.UnknownSince.IsZero() {
			row.UnknownSince = row.IntentAt
			c.UnknownSince = row.IntentAt
		}
		if !policy.HoldUnknown && result.Retry && c.retry(row, policy, result, now, draw) {
			return c
		}
		c.unknown(row, policy, now)
	case AttemptFailed, AttemptNone:
		if result.Retry && c.retry(row, policy, result, now, draw) {
			return c
		}
		if row.OutcomeUnknown() {
			if c.Reason != reason.KeyExpired {
				c.Reason = reason.EarlierUnknown
			}
			c.unknown(row, policy, now)
			return c
		}
		if result.Retry {
			c.Reason = reason.RetriesUsedUp
		}
		if row.Step > 0 {
			c.RetryCount, c.Release = 0, true
			c.advance(row, policy, now)
			return c
		}
		c.Status, c.RetryCount, c.Completed, c.Release = Failed, row.RetryCount, true, true
	}
	return c
}

// Skip ends the present step without sending it: a first step skips the delivery, a reminder only itself (R2).
func Skip(row Row, policy Policy, why reason.Reason, now time.Time) Change {
	c := Change{Status: row.Status, Step: row.Step, Remaining: row.RemindersRemaining, Reason: why}
	if row.Step == 0 {
		c.Status, c.Completed, c.Release = Skipped, true, true
		return c
	}
	c.advance(row, policy, now)
	return c
}

// NoChannel stops a row whose channel is not defined: no message is planned, and it expires like one without an answer (C44).
func NoChannel(row Row, policy Policy) Change {
	return Change{
		Status: row.Status, Step: row.Step, Remaining: row.RemindersRemaining, RetryCount: row.RetryCount,
		Hold: HoldNoChannel, EligibleAt: row.Eligible(), Reason: reason.NoChannel, Release: row.Step == 0, ExpiresAt: policy.Timing.ExpiresAt(row.LastSentAt, row.CreatedAt),
	}
}

// unknown leaves the delivery to a person, or to a later report of the provider.
func (c *Change) unknown(row Row, policy Policy, now time.Time) {
	c.Status, c.RetryCount, c.ExpiresAt = Unknown, row.RetryCount, policy.Timing.ExpiresAt(now, row.CreatedAt)
}

// advance ends the step and plans the next one.
func (c *Change) advance(row Row, policy Policy, now time.Time) {
	c.Step++
	if policy.Awaits && !policy.Session {
		c.ExpiresAt = policy.Timing.ExpiresAt(now, row.CreatedAt)
	}
	if at, remaining, more := policy.Timing.Next(now, row.NotBefore, row.RemindersRemaining); more {
		c.SendAt, c.Remaining = at, remaining
	} else if !policy.Awaits {
		c.Completed = true
	}
}

// retry plans another attempt of the same step. It returns false when the retries are used up, and when the provider might have
// forgotten the key of an attempt that it may have accepted.
func (c *Change) retry(row Row, policy Policy, result Result, now time.Time, draw func(max uint64) uint64) bool {
	if policy.refunds(row, result, now) {
		c.RetryCount, c.Retried, c.SendAt, c.Hold, c.Reason = row.RetryCount, true, result.RestUntil, HoldChannelDown, reason.ChannelDown
		c.DueAt, c.EligibleAt = row.Due(), row.Eligible()
		return true
	}
	rung := row.RetryCount
	if rung >= len(policy.Backoff) {
		if !policy.Forever {
			return false
		}
		rung = len(policy.Backoff) - 1
	}
	at, next := now.Add(max(NextTick, result.RetryAfter)), row.Due()
	if rung >= 0 {
		at = now.Add(max(policy.wait(rung, draw), result.RetryAfter)).Truncate(time.Microsecond)
		next = at
	}
	if policy.KeyExpired(row, at) {
		c.Reason = reason.KeyExpired
		return false
	}
	c.RetryCount, c.Retried, c.SendAt, c.EligibleAt = row.RetryCount+1, true, next, row.Eligible()
	if rung < 0 {
		c.HeldBackTo = at
	}
	return true
}

// refunds reports whether an attempt does not count, because the provider was unavailable for all messages: the step is due again when
// its channel is open. The total time of all retries bounds this, so that a delivery with a fallback reaches it and none waits for ever.
func (p Policy) refunds(row Row, result Result, now time.Time) bool {
	if result.RestUntil.IsZero() || len(p.Backoff) == 0 || p.KeyExpired(row, result.RestUntil) {
		return false
	}
	var ladder time.Duration
	for _, wait := range p.Backoff {
		ladder += wait
	}
	return p.Forever || now.Sub(row.Eligible()) < ladder
}

// wait returns the wait before a retry.
func (p Policy) wait(rung int, draw func(max uint64) uint64) time.Duration {
	wait := p.Backoff[rung]
	if p.Jitter > 0 {
		// Divided first: a wait of years times a percentage goes beyond what a duration holds. Waits are whole
		// seconds, so nothing is lost.
		wait += wait / (100 * jitterSteps) * time.Duration(p.Jitter) * time.Duration(draw(jitterSteps))
	}
	return wait
}
