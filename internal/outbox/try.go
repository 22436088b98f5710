package outbox

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

const (
	// DefaultAttempts is how often an event is tried at one sink (product decision 42). With the default waits the last try begins 15
	// to 18 hours after the first, so that a receiver may be away for a night.
	DefaultAttempts = 8
	// DefaultJitter is how many percent are added to a wait at most, so that the events of an outage do not all return at once.
	DefaultJitter = 20
	// MaxRetryAfter bounds what a sink may ask for: a day, as for channels.
	MaxRetryAfter = 24 * time.Hour

	// The default waits are 10 s, 40 s, 2 min 40 s, … : most failures are restarts, the others take hours.
	firstWait   = 10 * time.Second
	growth      = 4
	longestWait = 12 * time.Hour

	// jitterSteps is the resolution of the jitter draw.
	jitterSteps = 1000
)

// Policy is what a sink's definition says about tries.
type Policy struct {
	// Backoff holds the waits between tries; the last one repeats. Empty: from 10 seconds, each four times the one before, up to 12
	// hours.
	Backoff []time.Duration
	// Attempts is how many tries there are at most; 0: DefaultAttempts. 1 is the source's rule: dead after one failure (C38).
	Attempts int
	Jitter   int // percent added to a wait at most; 0: none
}

func (p Policy) attempts() int {
	if p.Attempts <= 0 {
		return DefaultAttempts
	}
	return p.Attempts
}

// wait returns the wait after a number of tries.
func (p Policy) wait(tries int, draw func(limit uint64) uint64) time.Duration {
	wait := firstWait
	if n := len(p.Backoff); n > 0 {
		wait = p.Backoff[min(max(tries, 1), n)-1]
	} else {
		for range min(tries-1, DefaultAttempts) {
			wait = min(wait*growth, longestWait)
		}
	}
	if p.Jitter > 0 {
		// Divided first: a long wait times a percentage goes beyond what a duration holds.
		wait += wait / (100 * jitterSteps) * time.Duration(p.Jitter) * time.Duration(draw(jitterSteps))
	}
	return wait
}

// Outcome is what became of one try.
type Outcome string

// The values of Outcome.
const (
	Accepted  Outcome = "accepted"
	Temporary Outcome = "temporary" // it failed, or its outcome is unknown: the same message may be sent again
	Permanent Outcome = "permanent" // the sink refuses this message for good
	Gone      Outcome = "gone"      // the sink wants no message any more (410)
)

// Result is the result of one try.
type Result struct {
	Outcome    Outcome
	Reason     reason.Reason // of a failure: temporary_error, permanent_error, reply_lost …
	RetryAfter time.Duration // the wait that the sink asked for; 0: none
}

// Begin decides about a pending row whose try is due. The patch is written before the request leaves; until now + lease
// nobody else begins a try. Send is false if none begins: because the row is not pending, which stays as it is; because it is behind another
// event of its group, and waits until that one's next try; or because no try is left, as the process of the last one died before it could
// write a result, and the row is dead.
func Begin(row Row, policy Policy, now time.Time, lease time.Duration) (p Patch, send bool) {
	p = row.same()
	if row.Status != Pending {
		return p, false
	}
	if !row.Behind.IsZero() {
		next := row.Behind
		if !next.After(now) {
			next = now.Add(lease) // that one is about to be tried
		}
		p.NextAt = ceil(next).Add(time.Microsecond)
		return p, false
	}
	if row.Attempts >= policy.attempts() {
		p.Status, p.NextAt, p.Reason = Dead, time.Time{}, reason.WorkerLost
		return p, false
	}
	p.Attempts, p.AttemptNo, p.NextAt = row.Attempts+1, row.AttemptNo+1, ceil(now.Add(lease))
	return p, true
}

// WithoutSink decides about a pending row whose try is due, and whose sink is not defined any more. The row is dead without a try, whether
// another event of its group is before it or not: a person who defines the sink again redrives it. A row that is not pending stays as it is.
func WithoutSink(row Row) Patch {
	p := row.same()
	if row.Status == Pending {
		p.Status, p.NextAt, p.Reason = Dead, time.Time{}, reason.NoSink
	}
	return p
}

// Decide decides what follows a try that Begin has counted. Draw returns a number in [0, limit), the same for the same row in every
// replay (Row.Draw); it is called only when there is jitter.
//
// A failure waits for the longer of the policy's wait and the sink's wish, which counts for at most a day; after the last try the row
// is dead. A refusal for good is dead at once. A sink that is gone is disabled (Health.After): the try does not count, and the event
// is due when the sink is enabled again. A row that is not pending stays as it is: only a redrive changes it.
func Decide(row Row, result Result, policy Policy, now time.Time, draw func(limit uint64) uint64) Patch {
	p := row.same()
	if row.Status != Pending {
		return p
	}
	p.Reason = result.Reason
	switch result.Outcome {
	case Accepted:
		p.Status, p.NextAt, p.Reason = Dispatched, time.Time{}, reason.Delivered
		return p
	case Permanent:
		p.Status, p.NextAt = Dead, time.Time{}
		return p
	case Gone:
		p.Attempts, p.NextAt = max(row.Attempts-1, 0), now
		return p
	case Temporary:
	}
	if row.Attempts >= policy.attempts() {
		p.Status, p.NextAt, p.Reason = Dead, time.Time{}, reason.RetriesUsedUp
		return p
	}
	p.NextAt = ceil(now.Add(max(policy.wait(row.Attempts, draw), min(result.RetryAfter, MaxRetryAfter))))
	return p
}

// Redrive makes a dead row pending again with all its tries (product decision 42). It is due at once, and later events of its group
// wait for it. Ok is false for any other row, which stays as it is.
func Redrive(row Row, now time.Time) (p Patch, ok bool) {
	p = row.same()
	if row.Status != Dead {
		return p, false
	}
	p.Status, p.Attempts, p.NextAt, p.Reason = Pending, 0, now, reason.RetryByOperator
	return p, true
}

// ceil rounds up to the microseconds that the store keeps, so that no try begins before its wait is over.
func ceil(t time.Time) time.Time {
	if down := t.Truncate(time.Microsecond); down.Before(t) {
		return down.Add(time.Microsecond)
	}
	return t
}
