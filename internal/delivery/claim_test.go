package delivery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/reason"
)

var (
	at = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	no time.Time
)

// claimedRow is a first message, or a reminder, whose attempt is in flight.
func claimedRow(step int) Row {
	row := Row{
		ID: 1, Status: Scheduled, SendAt: at, Slot: at, AttemptNo: 1, IntentAt: at, LeaseUntil: at.Add(30 * time.Second), Version: 3,
		Step: step, RemindersRemaining: 2, RetryCount: 0,
	}
	if step > 0 {
		row.Status = Sent
	}
	return row
}

// What happened to the row between intent and result, and what the result then makes of it.
//
// Shows: C32.
func TestSettled(t *testing.T) {
	t.Parallel()
	reminder, expiry := at.Add(24*time.Hour), at.Add(30*24*time.Hour)
	stop := func(r *Row) { r.StopReason = reason.CancelledByPerson }
	open := func(r *Row) { r.Status = Opened }
	respond := func(r *Row) {
		r.Status, r.SendAt, r.CompletedAt, r.Reason = Responded, no, time.UnixMicro(7).UTC(), "answer"
	}
	accepted := func(r Row) Change {
		return Change{Accepted: true, Step: r.Step + 1, Status: Sent, SendAt: reminder, ExpiresAt: expiry, Remaining: 1, Reason: reason.Delivered}
	}
	refused := func(r Row) Change {
		return Change{Step: r.Step, Status: r.Status, SendAt: at.Add(5 * time.Minute), ExpiresAt: expiry, RetryCount: 1, Remaining: r.RemindersRemaining, Reason: reason.TemporaryError}
	}
	failed := func(c *Change) {
		c.Status, c.SendAt, c.ExpiresAt, c.Completed, c.Release, c.Reason = Failed, no, no, true, true, reason.PermanentError
	}
	unknown := func(c *Change) {
		c.Status, c.SendAt, c.ExpiresAt, c.UnknownSince, c.Reason = Unknown, no, expiry, at, reason.ReplyLost
	}
	again := func(c *Change) { c.UnknownSince, c.Reason = at, reason.ReplyLost }
	type want struct {
		status       Status
		send, expire time.Time
		reason       reason.Reason
		slot         bool
		completed    time.Time
	}
	tests := []struct {
		name      string
		step      int // steps that are over before the attempt; above 0 the row is sent
		meanwhile []func(*Row)
		base      func(Row) Change
		change    func(*Change)
		want      want
	}{
		{"accepted", 0, nil, accepted, nil, want{Sent, reminder, no, reason.Delivered, true, no}},
		{"accepted, the last", 0, nil, accepted, func(s *Change) { s.SendAt = no }, want{Sent, no, expiry, reason.Delivered, true, no}},
		{"accepted, complete", 0, nil, accepted, func(s *Change) { s.SendAt, s.ExpiresAt, s.Completed = no, no, true }, want{Sent, no, no, reason.Delivered, true, at}},
		{"retry", 0, nil, refused, nil, want{Scheduled, at.Add(5 * time.Minute), no, reason.TemporaryError, true, no}},
		{"failed", 0, nil, refused, failed, want{Failed, no, no, reason.PermanentError, false, at}},
		{"a final status drops what was planned", 0, nil, refused, func(s *Change) { failed(s); s.SendAt, s.ExpiresAt = reminder, expiry }, want{Failed, no, no, reason.PermanentError, false, at}},
		{"unknown", 0, nil, refused, unknown, want{Unknown, no, expiry, reason.ReplyLost, true, no}},
		{"opened, accepted", 0, []func(*Row){open}, accepted, nil, want{Opened, reminder, no, reason.Delivered, true, no}},
		{"opened, retry", 0, []func(*Row){open}, refused, nil, want{Opened, at.Add(5 * time.Minute), no, reason.TemporaryError, true, no}},
		{"opened, unknown", 0, []func(*Row){open}, refused, unknown, want{Opened, no, expiry, reason.ReplyLost, true, no}},
		{"opened, failed for good", 0, []func(*Row){open}, refused, failed, want{Failed, no, no, reason.PermanentError, false, at}},
		{"responded, accepted", 0, []func(*Row){respond}, accepted, nil, want{Responded, no, no, "answer", true, time.UnixMicro(7).UTC()}},
		{"responded, failed", 1, []func(*Row){respond}, refused, failed, want{Responded, no, no, "answer", false, time.UnixMicro(7).UTC()}},
		{"responded and stopped", 0, []func(*Row){respond, stop}, refused, nil, want{Responded, no, no, "answer", false, time.UnixMicro(7).UTC()}},
		{"stopped, accepted: no reminders", 0, []func(*Row){stop}, accepted, nil, want{Sent, no, expiry, reason.Delivered, true, no}},
		{"stopped, accepted, nothing to wait for", 0, []func(*Row){stop}, accepted, func(s *Change) { s.ExpiresAt = no }, want{Sent, no, no, reason.Delivered, true, at}},
		{"stopped, refused: no retry", 0, []func(*Row){stop}, refused, nil, want{Cancelled, no, no, reason.CancelledByPerson, false, at}},
		{"stopped, failed", 0, []func(*Row){stop}, refused, failed, want{Cancelled, no, no, reason.CancelledByPerson, false, at}},
		{"stopped, unknown and held", 0, []func(*Row){stop}, refused, unknown, want{Unknown, no, expiry, reason.ReplyLost, true, no}},
		{"stopped, unknown: no resend, the slot stays taken", 0, []func(*Row){stop}, refused, again, want{Cancelled, no, no, reason.CancelledByPerson, true, at}},
		{"stopped, a reminder refused", 1, []func(*Row){stop}, refused, nil, want{Sent, no, expiry, reason.TemporaryError, false, no}},
		{"stopped, a reminder accepted", 1, []func(*Row){stop}, accepted, nil, want{Sent, no, expiry, reason.Delivered, true, no}},
		{"stopped and opened, a reminder accepted", 1, []func(*Row){open, stop}, accepted, nil, want{Opened, no, expiry, reason.Delivered, true, no}},
		{"stopped and opened, refused", 0, []func(*Row){open, stop}, refused, nil, want{Cancelled, no, no, reason.CancelledByPerson, false, at}},
	}
	for _, test := range tests {
		row := claimedRow(test.step)
		change := test.base(row)
		if test.change != nil {
			test.change(&change)
		}
		for _, f := range test.meanwhile {
			f(&row)
		}
		got, release := Settled(row, change, at)
		if diff := cmp.Diff(test.want, want{got.Status, got.SendAt, got.ExpiresAt, got.Reason, !release, got.CompletedAt}, cmp.AllowUnexported(want{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
		if got.Step != change.Step || got.RemindersRemaining != change.Remaining || got.RetryCount != change.RetryCount || got.Version != row.Version ||
			!got.LeaseUntil.IsZero() || !got.IntentAt.IsZero() || got.LastSentAt.Equal(at) != change.Accepted {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	early := claimedRow(0)
	early.Slot = at.Add(time.Second)
	if got, _ := Settled(early, accepted(early), at); !got.LastSentAt.Equal(early.Slot) {
		t.Errorf("sent at %s, before its slot", got.LastSentAt)
	}
}

// What its channel cannot take now is moved, remembers when it was due, and stays where it is when it was stopped.
func TestReleased(t *testing.T) {
	t.Parallel()
	later := at.Add(time.Minute)
	row := claimedRow(0)
	free := Released(row, no, "")
	want := row
	want.LeaseUntil, want.IntentAt, want.AttemptNo = no, no, 0
	if diff := cmp.Diff(want, free); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want.SendAt, want.Hold, want.DueAt, want.EligibleAt, want.Reason, want.Trace = later, HoldChannelDown, at, at, reason.ChannelDown, "why"
	if diff := cmp.Diff(want, Released(row, later, "why")); diff != "" {
		t.Errorf("moved (-want +got)\n%s", diff)
	}
	moved := want
	moved.SendAt, moved.AttemptNo = later.Add(time.Minute), -1
	if diff := cmp.Diff(moved, Released(want, moved.SendAt, "why")); diff != "" {
		t.Errorf("moved again (-want +got)\n%s", diff)
	}
	row.StopReason = reason.CancelledByPerson
	if got := Released(row, later, "why"); !got.SendAt.Equal(at) || !got.DueAt.IsZero() || got.Reason != "" {
		t.Errorf("stopped: %+v", got)
	}
}

// A message that does not leave gives its slot back when its step ends, unless the slot may have been used.
func TestUnsent(t *testing.T) {
	t.Parallel()
	later := at.Add(time.Hour)
	sent := func(r *Row) { r.Step, r.Status, r.LastSentAt = 1, Sent, at }
	tests := []struct {
		name   string
		row    func(*Row)
		change Change
		want   Row
	}{
		{"moved", nil, Change{Status: Scheduled, SendAt: later, ExpiresAt: later, Remaining: 2}, Row{Status: Scheduled, SendAt: later, Slot: at, RemindersRemaining: 2}},
		{"ended", nil, Change{Status: Skipped, Completed: true, Release: true}, Row{Status: Skipped, CompletedAt: later}},
		{
			"ended, and may have arrived", func(r *Row) { r.UnknownSince = at },
			Change{Status: Unknown, ExpiresAt: later, Release: true},
			Row{Status: Unknown, ExpiresAt: later, Slot: at, UnknownSince: at},
		},
		{
			"a reminder skipped, in the slot of the message before", sent,
			Change{Status: Sent, SendAt: later, Step: 2, Remaining: 1},
			Row{Status: Sent, SendAt: later, Slot: at, Step: 2, RemindersRemaining: 1, LastSentAt: at},
		},
		{
			"a reminder skipped, in a slot of its own", func(r *Row) { sent(r); r.LastSentAt = at.Add(-time.Hour) },
			Change{Status: Sent, SendAt: later, Step: 2, Remaining: 1},
			Row{Status: Sent, SendAt: later, Step: 2, RemindersRemaining: 1, LastSentAt: at.Add(-time.Hour)},
		},
	}
	for _, test := range tests {
		row := claimedRow(0)
		if test.row != nil {
			test.row(&row)
		}
		test.want.ID, test.want.Version = row.ID, row.Version
		if diff := cmp.Diff(test.want, Unsent(row, test.change, later)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
}
