package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// When the cooldown of an alert stops counting, by the reason for which its only message ended.
func TestRefundsOfEachReason(t *testing.T) {
	t.Parallel()
	const whole = time.Duration(-1)
	wait := map[reason.Reason]time.Duration{
		// Nobody was to be notified any more.
		reason.ConditionCleared: 0,
		reason.Suppressed:       0,
		reason.WorkflowInactive: 0,
		reason.DeferredTooLong:  0,
		// Nobody was there. At the next tick of the data sources somebody may be.
		reason.NoRecipient: 5 * time.Minute,
		// A person ended it, and knows about it.
		reason.AnsweredElsewhere: whole,
		reason.PrimaryDelivered:  whole,
		reason.CancelledByPerson: whole,
		// Its people could not be reached.
		reason.AudienceFailed: time.Hour,
		reason.CannotRead:     time.Hour,
		reason.CannotRender:   time.Hour,
		reason.Forgotten:      time.Hour,
		reason.NoAddress:      time.Hour,
		reason.AddressStopped: time.Hour, reason.OptedOut: 0,
		reason.NoChannel:      time.Hour,
		reason.NotAllowed:     time.Hour,
		reason.OutputTooLarge: time.Hour,
		reason.PermanentError: time.Hour,
		reason.Restored:       time.Hour,
		reason.RetriesUsedUp:  time.Hour,
		reason.RuleChanged:    time.Hour,
		reason.SecretMissing:  time.Hour,
		reason.SourceGone:     time.Hour,
		reason.Unsubscribed:   0,
		reason.Stale:          time.Hour,
	}
	// Reasons of a skip, a stop or a failure that end no message of an alert unsent.
	others := []reason.Reason{
		// The message was sent, may have arrived, or leaves with another one.
		reason.BeingSent, reason.Covered, reason.FoldedInto, reason.NeverSettled, reason.NoResponse, reason.SessionReplaced,
		// It is tried again.
		reason.EvaluationFailed, reason.SendThrew, reason.TemporaryError, reason.WorkerCrashed,
		// A later message of the same context has taken its place, and the cooldown.
		reason.Superseded,
		// They are of planned and repeated occasions, or nothing was made.
		reason.Collapsed, reason.CostExceeded, reason.CourseOver, reason.CourseReset, reason.DateChanged, reason.Duplicate, reason.ExpressionFailed, reason.LateJoiner, reason.LeftAudience, reason.OutsideCalendar,
		// They are of outbox events.
		reason.Gone, reason.LoopStopped, reason.NoSink,
		// They explain limits.
		reason.LimitsUnreadable,
	}
	at := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	for _, info := range reason.All() {
		r := info.Reason
		want, ends := wait[r]
		_, decided := refunds[r]
		may := slices.Contains([]reason.Class{reason.Skip, reason.Stop, reason.Failure}, info.Class)
		switch {
		case ends != decided:
			t.Errorf("%s: this test and refunds do not list the same reasons", r)
		case ends && slices.Contains(others, r):
			t.Errorf("%s ends messages, and ends none", r)
		case may && !ends && !slices.Contains(others, r):
			t.Errorf("%s is a reason of class %s: decide in refunds what becomes of the cooldown, or list here why it ends no message", r, info.Class)
		case ends:
			expected := at.Add(want)
			if want == whole {
				expected = time.Time{}
			}
			if got := RefundAt([]reason.Reason{r}, at); !got.Equal(expected) {
				t.Errorf("%s: %s, want %s", r, got, expected)
			}
		}
	}
}

// The messages of one alert may end for several reasons.
func TestRefundsOfSeveralReasons(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		why  []reason.Reason
		want time.Time
	}{
		"none":                                    {nil, at},
		"over, and unwanted":                      {[]reason.Reason{reason.ConditionCleared, reason.Suppressed}, at},
		"over, and failed":                        {[]reason.Reason{reason.ConditionCleared, reason.PermanentError}, at.Add(FailedFor)},
		"over, and an empty audience":             {[]reason.Reason{reason.ConditionCleared, reason.NoRecipient}, at.Add(FailedFor)},
		"an empty audience, and failed":           {[]reason.Reason{reason.NoRecipient, reason.PermanentError}, at.Add(FailedFor)},
		"cancelled by a person, and failed":       {[]reason.Reason{reason.CancelledByPerson, reason.PermanentError}, time.Time{}},
		"cancelled by a person, and unwanted":     {[]reason.Reason{reason.CancelledByPerson, reason.Suppressed}, time.Time{}},
		"a reason of another version, and nobody": {[]reason.Reason{"other", reason.NoRecipient}, at.Add(FailedFor)},
	} {
		if got := RefundAt(tt.why, at); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
