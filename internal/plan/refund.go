package plan

import (
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// refund is what becomes of a cooldown when a message of its alert ends unsent.
type refund int

const (
	refundLater refund = iota // its people could not be reached: the cooldown counts for FailedFor
	refundSoon                // the audience turned out to be empty (product decision 8): it counts for NobodyFor
	refundNow                 // there was nothing to say any more, or the person is suppressed: it counts no longer
	refundNever               // a person ended it, or answered, and so knows about it: the cooldown counts in full
)

const (
	// FailedFor is how long a cooldown counts at most after its alert has failed for good. It equals the cooldown that applies where none is set
	// (A12), and about the time that the retries of a channel take before the failure.
	FailedFor = time.Hour
	// NobodyFor is how long it counts at most after its alert had nobody to go to: the tick of the data sources (A2).
	NobodyFor = 5 * time.Minute
)

// refunds lists each reason for which a message of an alert, or an alert without messages, can end unsent. A reason that is not listed refunds
// later.
//
// These reasons steer, because why nobody was notified is what the rule is about. It is known only from the messages as they ended, of several
// people and channels; a column of each would say the same a second time.
var refunds = map[reason.Reason]refund{ //nolint:gochecknoglobals // never changes
	reason.ConditionCleared: refundNow,
	reason.Suppressed:       refundNow,
	reason.Unsubscribed:     refundNow,
	reason.OptedOut:         refundNow,
	reason.WorkflowInactive: refundNow,
	reason.DeferredTooLong:  refundNow,

	reason.NoRecipient: refundSoon,

	reason.CancelledByPerson: refundNever,
	reason.AnsweredElsewhere: refundNever,
	reason.PrimaryDelivered:  refundNever, // it has arrived

	reason.AudienceFailed: refundLater, reason.Forgotten: refundLater, reason.Restored: refundLater, reason.RuleChanged: refundLater,
	reason.SourceGone: refundLater, reason.Stale: refundLater,
	reason.NoAddress: refundLater, reason.AddressStopped: refundLater, reason.NotAllowed: refundLater, reason.NoChannel: refundLater, reason.SecretMissing: refundLater,
	reason.CannotRead: refundLater, reason.CannotRender: refundLater, reason.OutputTooLarge: refundLater,
	reason.PermanentError: refundLater, reason.RetriesUsedUp: refundLater,
}

// RefundAt returns the instant from which the cooldown of an alert that reached nobody no longer counts. Zero: it counts in full. Why are the distinct
// reasons of its messages, or the reason of the alert if it has no messages:
//
//	a person ended one of them      it counts in full
//	only "the audience is empty"    NobodyFor
//	all refund now                  now
//	else                            FailedFor
func RefundAt(why []reason.Reason, at time.Time) time.Time {
	var seen [refundNever + 1]int
	for _, r := range why {
		seen[refunds[r]]++
	}
	switch {
	case seen[refundNever] > 0:
		return time.Time{}
	case seen[refundNow] == len(why):
		return at
	case seen[refundSoon] == len(why):
		return at.Add(NobodyFor)
	}
	return at.Add(FailedFor)
}
