package delivery

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

// NextTick is how long a row is left alone when its retry has no backoff: the period of the source's ticker, so
// that "the next tick retries" (C45, C46) does not become a request in every loop of the engine.
const NextTick = time.Minute

// jitterSteps is the resolution of the jitter draw.
const jitterSteps = 1000

// Policy is what a delivery's workflow says about what follows an attempt.
type Policy struct {
	Timing  schedule.Timing
	Awaits  bool            // the message asks for an answer, so that silence makes it expire
	Backoff []time.Duration // waits between tries; the ladder of decision 31
	Jitter  int             // percent added to a wait at most
	Forever bool            // never give up (decision 31)
	// HoldUnknown: an attempt whose outcome is unknown is never repeated by the engine (P4).
	HoldUnknown bool
	// KeyLife is how long the provider knows an idempotency key: what may have arrived is repeated within it only (P3).
	// 0: for ever.
	KeyLife time.Duration
}

const (
	// keyMargin is how long before its end a key is not used any more: the request has to get there, and clocks differ.
	keyMargin = time.Minute
	// keyShare bounds the margin of short lives: SNS FIFO knows a key for five minutes.
	keyShare = 10
)

// KeyExpired reports whether a step that may have arrived already must not be sent again at an instant, since its
// provider might have forgotten the key by then (reliability: no retry of an unknown outcome after ttl - margin).
func (p Policy) KeyExpired(row Row, at time.Time) bool {
	if !row.OutcomeUnknown() || p.KeyLife == 0 {
		return false
	}
	return at.After(row.UnknownSince.Add(p.KeyLife - min(keyMargin, p.KeyLife/keyShare)))
}

// Result is what became of one attempt.
type Result struct {
	Outcome    Outcome
	Reason     reason.Reason
	Retry      bool          // whether trying again can help
	RetryAfter time.Duration // the provider's wish; 0 = none
	// RestUntil: the provider was away, and its channel rests until then. The try does not count, for as long as the ladder
	// would take. None: the channel does not rest.
	RestUntil time.Time
}

// Change is what a result makes of a row.
type Change struct {
	Accepted     bool
	Status       Status
	SendAt       time.Time
	HeldBackTo   time.Time // nobody takes the row up before; none: it is free at once
	ExpiresAt    time.Time // counts once nothing more is planned, which a stop may bring about before SendAt
	Step         int
	RetryCount   int
	Remaining    int
	Reason       reason.Reason
	Completed    bool
	Release      bool      // its slot is given back
	Retried      bool      // the same step is tried again at SendAt
	EligibleAt   time.Time // since when it could have left, while a retry or a missing channel delays it; none: SendAt
	DueAt        time.Time // when it was due, where the try does not count; none: SendAt
	UnknownSince time.Time
}

// After decides what follows a result at now. Draw picks a whole number in [0, max), the same for the same row
// and attempt in every replay; it is only called when there is jitter.
//
// A success plans the next reminder (C20) or, after the last, the expiry (C28). A failure climbs the ladder and at
// its end fails the delivery, or, when a reminder failed, ends only that step. An unknown outcome is tried again
// under the same key or waits for a person, as the channel says. A step of which any try may have arrived is never
// called failed: at its end it is unknown, and keeps its slot (P4, P6).
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

// NoChannel parks a row whose channel is not defined: nothing is planned, and it expires like one that nobody
// answered (C44).
func NoChannel(row Row, policy Policy) Change {
	return Change{
		Status: row.Status, Step: row.Step, Remaining: row.RemindersRemaining, RetryCount: row.RetryCount,
		EligibleAt: row.Eligible(), Reason: reason.NoChannel, Release: row.Step == 0, ExpiresAt: policy.Timing.ExpiresAt(row.LastSentAt, row.CreatedAt),
	}
}

// unknown leaves the delivery to a person, or to the provider's word.
func (c *Change) unknown(row Row, policy Policy, now time.Time) {
	c.Status, c.RetryCount, c.ExpiresAt = Unknown, row.RetryCount, policy.Timing.ExpiresAt(now, row.CreatedAt)
}

// advance ends the step and plans the next one.
func (c *Change) advance(row Row, policy Policy, now time.Time) {
	c.Step++
	if policy.Awaits {
		c.ExpiresAt = policy.Timing.ExpiresAt(now, row.CreatedAt)
	}
	if at, remaining, more := policy.Timing.Next(now, row.NotBefore, row.RemindersRemaining); more {
		c.SendAt, c.Remaining = at, remaining
	} else if !policy.Awaits {
		c.Completed = true
	}
}

// retry plans another try of the same step; it reports false at the end of the ladder, and when the provider might
// have forgotten by then what it may have accepted.
func (c *Change) retry(row Row, policy Policy, result Result, now time.Time, draw func(max uint64) uint64) bool {
	if policy.givesBack(row, result, now) {
		c.RetryCount, c.Retried, c.SendAt, c.Reason = row.RetryCount, true, result.RestUntil, reason.ChannelDown
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

// givesBack reports whether a try does not count, since it found the provider of all messages away: the step is due again
// when its channel takes messages. The whole ladder bounds it in time, so that what has another channel gets there, and
// nothing waits for ever.
func (p Policy) givesBack(row Row, result Result, now time.Time) bool {
	if result.RestUntil.IsZero() || len(p.Backoff) == 0 || p.KeyExpired(row, result.RestUntil) {
		return false
	}
	var ladder time.Duration
	for _, wait := range p.Backoff {
		ladder += wait
	}
	return p.Forever || now.Sub(row.Eligible()) < ladder
}

// wait is how long a rung of the ladder is.
func (p Policy) wait(rung int, draw func(max uint64) uint64) time.Duration {
	wait := p.Backoff[rung]
	if p.Jitter > 0 {
		// Divided first: a wait of years times a percentage goes beyond what a duration holds. Waits are whole
		// seconds, so nothing is lost.
		wait += wait / (100 * jitterSteps) * time.Duration(p.Jitter) * time.Duration(draw(jitterSteps))
	}
	return wait
}
