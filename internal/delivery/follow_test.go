package delivery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

const day = 24 * time.Hour

var (
	created = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
	now     = created.Add(26 * time.Second)
	ladder  = []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}
)

func timing(t *testing.T, reminders ...string) schedule.Timing {
	t.Helper()
	var all []civil.Duration
	for _, r := range reminders {
		d, err := civil.ParseDuration(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return schedule.Timing{Reminders: all}
}

// Shows: C19, C20, C23, C45, C46, C47.
func TestAfter(t *testing.T) {
	t.Parallel()
	survey := Policy{Timing: timing(t, "1d"), Awaits: true, Backoff: ladder}
	alert := Policy{Timing: timing(t), Backoff: ladder}
	hold := survey
	hold.HoldUnknown = true
	literal := Policy{Timing: timing(t, "1d"), Awaits: true, Forever: true}
	forever := Policy{Timing: timing(t), Backoff: ladder, Forever: true}
	first := Row{Status: Scheduled, NotBefore: created, SendAt: created, CreatedAt: created, RemindersRemaining: 1}
	climbed := func(n int) Row { r := first; r.RetryCount = n; return r }
	reminder := Row{Status: Sent, NotBefore: created, SendAt: now, CreatedAt: created, Step: 1, LastSentAt: created}
	opened := reminder
	opened.Status = Opened
	delivered := Result{Outcome: AttemptDelivered, Reason: reason.Delivered}
	temporary := Result{Outcome: AttemptFailed, Reason: reason.TemporaryError, Retry: true}
	permanent := Result{Outcome: AttemptFailed, Reason: reason.PermanentError}
	lost := Result{Outcome: AttemptUnknown, Reason: reason.ReplyLost, Retry: true}
	wished := temporary
	wished.RetryAfter = 40 * time.Minute

	lateRow := first
	lateRow.SendAt, lateRow.EligibleAt = now, now.Add(-80*time.Minute)
	resting := temporary
	resting.RestUntil = now.Add(11 * time.Second)
	lostAndResting := lost
	lostAndResting.RestUntil = resting.RestUntil
	soonForgotten := survey
	soonForgotten.KeyLife = 10 * time.Second
	unknown := climbed(1)
	unknown.IntentAt, unknown.UnknownSince = now, now

	tests := []struct {
		name   string
		row    Row
		policy Policy
		result Result
		want   Change
	}{
		{
			"C19 C20 delivered plans the reminder", first, survey, delivered,
			Change{Accepted: true, Status: Sent, Step: 1, SendAt: now.Add(day), ExpiresAt: now.Add(30 * day), Reason: reason.Delivered},
		},
		{
			"C20 C21 the last reminder waits for an answer", reminder, survey, delivered,
			Change{Accepted: true, Status: Sent, Step: 2, ExpiresAt: now.Add(30 * day), Reason: reason.Delivered},
		},
		{
			"opened stays opened", opened, survey, delivered,
			Change{Accepted: true, Status: Opened, Step: 2, ExpiresAt: now.Add(30 * day), Reason: reason.Delivered},
		},
		{
			"what asks nothing is over when sent", first, alert, delivered,
			Change{Accepted: true, Status: Sent, Step: 1, Remaining: 1, Completed: true, Reason: reason.Delivered},
		},
		{
			"C46 C47 first failure", first, survey, temporary,
			Change{Status: Scheduled, SendAt: now.Add(5 * time.Minute), RetryCount: 1, Remaining: 1, Reason: reason.TemporaryError, Retried: true},
		},
		{
			"third failure", climbed(2), survey, temporary,
			Change{Status: Scheduled, SendAt: now.Add(time.Hour), RetryCount: 3, Remaining: 1, Reason: reason.TemporaryError, Retried: true},
		},
		{
			"C47 the ladder ends", climbed(3), survey, temporary,
			Change{Status: Failed, RetryCount: 3, Remaining: 1, Reason: reason.RetriesUsedUp, Completed: true, Release: true},
		},
		{
			"a permanent error ends it at once", first, survey, permanent,
			Change{Status: Failed, Remaining: 1, Reason: reason.PermanentError, Completed: true, Release: true},
		},
		{
			"a reminder that fails for good ends only itself", reminder, survey, permanent,
			Change{Status: Sent, Step: 2, ExpiresAt: now.Add(30 * day), Reason: reason.PermanentError, Release: true},
		},
		{
			"the provider's wish counts when it is longer", first, survey, wished,
			Change{Status: Scheduled, SendAt: now.Add(40 * time.Minute), RetryCount: 1, Remaining: 1, Reason: reason.TemporaryError, Retried: true},
		},
		{
			"a lost reply is tried again", first, survey, lost,
			Change{Status: Scheduled, SendAt: now.Add(5 * time.Minute), RetryCount: 1, Remaining: 1, Reason: reason.ReplyLost, Retried: true},
		},
		{
			"a lost reply is held where the channel says so", first, hold, lost,
			Change{Status: Unknown, ExpiresAt: now.Add(30 * day), Remaining: 1, Reason: reason.ReplyLost},
		},
		{
			"a lost reply is never a failure", climbed(3), survey, lost,
			Change{Status: Unknown, RetryCount: 3, ExpiresAt: now.Add(30 * day), Remaining: 1, Reason: reason.ReplyLost},
		},
		{
			"an attempt with the provider unavailable does not count", climbed(2), survey, resting,
			Change{Status: Scheduled, SendAt: now.Add(11 * time.Second), DueAt: created, RetryCount: 2, Remaining: 1, Hold: HoldChannelDown, Reason: reason.ChannelDown, Retried: true},
		},
		{
			"also after the last rung", climbed(3), survey, resting,
			Change{Status: Scheduled, SendAt: now.Add(11 * time.Second), DueAt: created, RetryCount: 3, Remaining: 1, Hold: HoldChannelDown, Reason: reason.ChannelDown, Retried: true},
		},
		{
			"also when its reply was lost", climbed(1), survey, lostAndResting,
			Change{Status: Scheduled, SendAt: now.Add(11 * time.Second), DueAt: created, RetryCount: 1, Remaining: 1, Hold: HoldChannelDown, Reason: reason.ChannelDown, Retried: true},
		},
		{
			"not when the provider may have forgotten its key by then", unknown, soonForgotten, lostAndResting,
			Change{Status: Unknown, ExpiresAt: now.Add(30 * day), RetryCount: 1, Remaining: 1, Reason: reason.KeyExpired, UnknownSince: now},
		},
		{
			"nor for longer than the ladder takes", lateRow, survey, resting,
			Change{Status: Scheduled, SendAt: now.Add(5 * time.Minute), RetryCount: 1, Remaining: 1, Reason: reason.TemporaryError, Retried: true},
		},
		{
			"nor where it is held", first, hold, lostAndResting,
			Change{Status: Unknown, ExpiresAt: now.Add(30 * day), Remaining: 1, Reason: reason.ReplyLost},
		},
		{
			"C45 the source's literal reading keeps the instant", first, literal, temporary,
			Change{Status: Scheduled, SendAt: created, HeldBackTo: now.Add(NextTick), RetryCount: 1, Remaining: 1, Reason: reason.TemporaryError, Retried: true},
		},
		{
			"forever stays on the last rung", climbed(9), forever, temporary,
			Change{Status: Scheduled, SendAt: now.Add(time.Hour), RetryCount: 10, Remaining: 1, Reason: reason.TemporaryError, Retried: true},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.want.Retried { // the lateness of a retry counts from when the message could have left
				test.want.EligibleAt = test.row.Eligible()
			}
			got := After(test.row, test.policy, test.result, now, func(uint64) uint64 { t.Error("drew without jitter"); return 0 })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestJitterStaysWithinItsShare(t *testing.T) {
	t.Parallel()
	policy := Policy{Backoff: ladder, Jitter: 20}
	row := Row{Status: Scheduled, SendAt: created, CreatedAt: created}
	result := Result{Outcome: AttemptFailed, Reason: reason.TemporaryError, Retry: true}
	for _, draw := range []uint64{0, 500, 999} {
		got := After(row, policy, result, now, func(limit uint64) uint64 {
			if limit != jitterSteps {
				t.Errorf("draw below %d", limit)
			}
			return draw
		}).SendAt.Sub(now)
		want := 5*time.Minute + time.Minute*time.Duration(draw)/jitterSteps
		if got != want {
			t.Errorf("draw %d: waits %s, want %s", draw, got, want)
		}
	}
}

func TestJitterOfTheLongestWait(t *testing.T) {
	t.Parallel()
	policy := Policy{Backoff: []time.Duration{100 * 365 * 24 * time.Hour}, Jitter: 100}
	row := Row{Status: Scheduled, SendAt: created, CreatedAt: created}
	got := After(row, policy, Result{Outcome: AttemptFailed, Reason: reason.TemporaryError, Retry: true}, now, func(uint64) uint64 { return 500 }).SendAt
	if want := now.Add(150 * 365 * 24 * time.Hour); !got.Equal(want) {
		t.Errorf("tried again at %s, want %s", got, want)
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	policy := Policy{Timing: timing(t, "5d", "10d"), Awaits: true}
	tests := []struct {
		name string
		row  Row
		want Change
	}{
		{
			"a late first step skips the delivery",
			Row{Status: Scheduled, RemindersRemaining: 2},
			Change{Status: Skipped, Remaining: 2, Reason: reason.Stale, Completed: true, Release: true},
		},
		{
			"a late reminder skips itself and the next counts from now",
			Row{Status: Sent, Step: 1, RemindersRemaining: 1},
			Change{Status: Sent, Step: 2, SendAt: now.Add(10 * day), ExpiresAt: now.Add(30 * day), Reason: reason.Stale},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Skip(test.row, policy, reason.Stale, now)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The lateness of the second retry counts from the same instant as that of the first.
func TestEligibleStaysOverRetries(t *testing.T) {
	t.Parallel()
	row := Row{Status: Scheduled, SendAt: created}
	for range 3 {
		c := After(row, Policy{Backoff: []time.Duration{time.Minute}, Forever: true}, Result{Outcome: AttemptFailed, Retry: true}, now, nil)
		if row.SendAt, row.EligibleAt, row.RetryCount = c.SendAt, c.EligibleAt, c.RetryCount; !row.Eligible().Equal(created) || !row.Delayed() {
			t.Fatalf("%+v", row)
		}
	}
	for name, over := range map[string]Row{
		"cancelled": {Status: Cancelled, EligibleAt: created}, "sent": {Status: Sent, EligibleAt: created}, "parked": {Status: Scheduled, SendAt: created, Hold: HoldPaused, EligibleAt: created},
		"not delayed": {Status: Scheduled, SendAt: created},
	} {
		if over.Delayed() {
			t.Errorf("%s: it is reported as delayed", name)
		}
	}
}

// Shows: C29, C44.
func TestNoChannelExpiresFromItsCreation(t *testing.T) {
	t.Parallel()
	got := NoChannel(Row{Status: Scheduled, CreatedAt: created, RemindersRemaining: 1, SendAt: created}, Policy{})
	want := Change{Status: Scheduled, Remaining: 1, Hold: HoldNoChannel, Reason: reason.NoChannel, ExpiresAt: created.Add(30 * day), Release: true, EligibleAt: created}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A key is reused only within its life, and a step that may have arrived never fails.
//
// Shows: P3, P4, P6.
func TestAfterADoubt(t *testing.T) {
	t.Parallel()
	policy := Policy{Timing: timing(t), Backoff: ladder}
	short, long := policy, policy
	short.KeyLife, long.KeyLife = 5*time.Minute, 24*time.Hour
	fresh := Row{Status: Scheduled, NotBefore: created, SendAt: created, CreatedAt: created, IntentAt: created}
	unknown := fresh
	unknown.UnknownSince, unknown.IntentAt, unknown.RetryCount = created.Add(-time.Minute), now, 3
	lost := Result{Outcome: AttemptUnknown, Reason: reason.ReplyLost, Retry: true}
	permanent := Result{Outcome: AttemptFailed, Reason: reason.PermanentError}
	temporary := Result{Outcome: AttemptFailed, Reason: reason.TemporaryError, Retry: true}
	expiry := now.Add(30 * day)
	tests := []struct {
		name   string
		row    Row
		policy Policy
		result Result
		want   Change
	}{
		{
			"the outcome is unknown since the first intent", fresh, policy, lost,
			Change{Status: Scheduled, SendAt: now.Add(5 * time.Minute), RetryCount: 1, Reason: reason.ReplyLost, Retried: true, UnknownSince: created},
		},
		{
			"within the life of the key", fresh, long, lost,
			Change{Status: Scheduled, SendAt: now.Add(5 * time.Minute), RetryCount: 1, Reason: reason.ReplyLost, Retried: true, UnknownSince: created},
		},
		{
			"the next rung lies beyond the life of the key", fresh, short, lost,
			Change{Status: Unknown, ExpiresAt: expiry, Reason: reason.KeyExpired, UnknownSince: created},
		},
		{
			"accepted in the end", unknown, policy,
			Result{Outcome: AttemptDelivered, Reason: reason.Delivered},
			Change{Accepted: true, Status: Sent, Step: 1, Completed: true, Reason: reason.Delivered},
		},
		{
			"a permanent error after an unknown outcome", unknown, policy, permanent,
			Change{Status: Unknown, RetryCount: 3, ExpiresAt: expiry, Reason: reason.EarlierUnknown, UnknownSince: unknown.UnknownSince},
		},
		{
			"the last retry fails after an unknown outcome", unknown, policy, temporary,
			Change{Status: Unknown, RetryCount: 3, ExpiresAt: expiry, Reason: reason.EarlierUnknown, UnknownSince: unknown.UnknownSince},
		},
		{
			"what surely never arrived needs no key", fresh, short, temporary,
			Change{Status: Scheduled, SendAt: now.Add(5 * time.Minute), RetryCount: 1, Reason: reason.TemporaryError, Retried: true},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.want.Retried {
				test.want.EligibleAt = test.row.Eligible()
			}
			if diff := cmp.Diff(test.want, After(test.row, test.policy, test.result, now, nil)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// For any sequence of results: no attempt of a step that may have arrived is planned beyond the life of its key, an unknown outcome
// ends only when the outcome is known or a person decides, and until then the delivery does not fail.
func TestDoubtsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{Backoff: ladder, Forever: rapid.Bool().Draw(t, "forever"), HoldUnknown: rapid.Bool().Draw(t, "hold")}
		policy.KeyLife = time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "life"))
		row := Row{Status: Scheduled, SendAt: created, CreatedAt: created}
		unknown := false
		for at := created; !row.SendAt.IsZero(); {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later")))
			if policy.KeyExpired(row, at) {
				return // the sender checks this before it claims
			}
			row.IntentAt = at
			result := rapid.SampledFrom([]Result{
				{Outcome: AttemptDelivered},
				{Outcome: AttemptUnknown, Retry: true},
				{Outcome: AttemptFailed, Retry: true, RetryAfter: time.Hour},
				{Outcome: AttemptFailed},
			}).Draw(t, "result")
			unknown = unknown || result.Outcome == AttemptUnknown
			c := After(row, policy, result, at, nil)
			switch {
			case result.Outcome == AttemptDelivered:
				if !c.Accepted || !c.UnknownSince.IsZero() {
					t.Fatalf("accepted: %+v", c)
				}
			case c.UnknownSince.IsZero() == unknown:
				t.Fatalf("unknown %t, since %s", unknown, c.UnknownSince)
			case unknown && (c.Status == Failed || c.Release):
				t.Fatalf("it may have arrived, and is called failed: %+v", c)
			case c.Retried && unknown && policy.KeyLife > 0 && c.SendAt.After(c.UnknownSince.Add(policy.KeyLife)):
				t.Fatalf("a try at %s, the key ends at %s", c.SendAt, c.UnknownSince.Add(policy.KeyLife))
			case c.Retried && policy.HoldUnknown && result.Outcome == AttemptUnknown:
				t.Fatal("what is held was tried again")
			}
			row.Status, row.SendAt, row.UnknownSince, row.RetryCount, row.Step = c.Status, c.SendAt, c.UnknownSince, c.RetryCount, c.Step
		}
	})
}
