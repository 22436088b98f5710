package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// What happened to the row between intent and result, and what the result then makes of it.
//
// Shows: C32.
func TestSettle(t *testing.T) {
	t.Parallel()
	reminder := now.Add(24 * time.Hour)
	expiry := now.Add(30 * 24 * time.Hour)
	const (
		stop    = `UPDATE delivery SET stop_reason = 'cancelled_by_operator' WHERE id = $1`
		open    = `UPDATE delivery SET status = 'opened' WHERE id = $1`
		respond = `UPDATE delivery SET status = 'responded', send_at = 0, completed_at = 7, reason = 'answer' WHERE id = $1`
	)
	failed := func(s *store.Settlement) {
		s.Status, s.SendAt, s.ExpiresAt, s.Completed, s.Release, s.Reason = delivery.Failed, time.Time{}, time.Time{}, true, true, reason.PermanentError
	}
	unknown := func(s *store.Settlement) {
		s.Status, s.SendAt, s.ExpiresAt, s.Attempt.Outcome, s.Reason = delivery.Unknown, time.Time{}, expiry, delivery.AttemptUnknown, reason.ReplyLost
	}
	again := func(s *store.Settlement) { s.Attempt.Outcome, s.Reason = delivery.AttemptUnknown, reason.ReplyLost }
	type row struct {
		status       delivery.Status
		send, expire time.Time
		reason       reason.Reason
		slot         bool
		completed    time.Time
	}
	var no time.Time
	tests := []struct {
		name      string
		step      int // steps that are over before the attempt; above 0 the row is sent
		meanwhile []string
		base      func(store.Claim) store.Settlement
		change    func(*store.Settlement)
		want      row
	}{
		{"accepted", 0, nil, accepted, nil, row{delivery.Sent, reminder, no, reason.Delivered, true, no}},
		{"accepted, the last", 0, nil, accepted, func(s *store.Settlement) { s.SendAt = no }, row{delivery.Sent, no, expiry, reason.Delivered, true, no}},
		{"accepted, complete", 0, nil, accepted, func(s *store.Settlement) { s.SendAt, s.ExpiresAt, s.Completed = no, no, true }, row{delivery.Sent, no, no, reason.Delivered, true, now}},
		{"retry", 0, nil, refused, nil, row{delivery.Scheduled, now.Add(5 * time.Minute), no, reason.TemporaryError, true, no}},
		{"failed", 0, nil, refused, failed, row{delivery.Failed, no, no, reason.PermanentError, false, now}},
		{"a final status drops what was planned", 0, nil, refused, func(s *store.Settlement) { failed(s); s.SendAt, s.ExpiresAt = reminder, expiry }, row{delivery.Failed, no, no, reason.PermanentError, false, now}},
		{"unknown", 0, nil, refused, unknown, row{delivery.Unknown, no, expiry, reason.ReplyLost, true, no}},

		{"opened, accepted", 0, []string{open}, accepted, nil, row{delivery.Opened, reminder, no, reason.Delivered, true, no}},
		{"opened, retry", 0, []string{open}, refused, nil, row{delivery.Opened, now.Add(5 * time.Minute), no, reason.TemporaryError, true, no}},
		{"opened, unknown", 0, []string{open}, refused, unknown, row{delivery.Opened, no, expiry, reason.ReplyLost, true, no}},
		{"opened, failed for good", 0, []string{open}, refused, failed, row{delivery.Failed, no, no, reason.PermanentError, false, now}},
		{"responded, accepted", 0, []string{respond}, accepted, nil, row{delivery.Responded, no, no, "answer", true, time.UnixMicro(7).UTC()}},
		{"responded, failed", 1, []string{respond}, refused, failed, row{delivery.Responded, no, no, "answer", false, time.UnixMicro(7).UTC()}},
		{"responded and stopped", 0, []string{respond, stop}, refused, nil, row{delivery.Responded, no, no, "answer", false, time.UnixMicro(7).UTC()}},

		{"stopped, accepted: no reminders", 0, []string{stop}, accepted, nil, row{delivery.Sent, no, expiry, reason.Delivered, true, no}},
		{"stopped, accepted, nothing to wait for", 0, []string{stop}, accepted, func(s *store.Settlement) { s.ExpiresAt = no }, row{delivery.Sent, no, no, reason.Delivered, true, now}},
		{"stopped, refused: no retry", 0, []string{stop}, refused, nil, row{delivery.Cancelled, no, no, reason.CancelledByPerson, false, now}},
		{"stopped, failed", 0, []string{stop}, refused, failed, row{delivery.Cancelled, no, no, reason.CancelledByPerson, false, now}},
		{"stopped, unknown and held", 0, []string{stop}, refused, unknown, row{delivery.Unknown, no, expiry, reason.ReplyLost, true, no}},
		{"stopped, unknown: no resend, the place stays taken", 0, []string{stop}, refused, again, row{delivery.Cancelled, no, no, reason.CancelledByPerson, true, now}},
		{"stopped, a reminder refused", 1, []string{stop}, refused, nil, row{delivery.Sent, no, expiry, reason.TemporaryError, false, no}},
		{"stopped, a reminder accepted", 1, []string{stop}, accepted, nil, row{delivery.Sent, no, expiry, reason.Delivered, true, no}},
		{"stopped and opened, a reminder accepted", 1, []string{open, stop}, accepted, nil, row{delivery.Opened, no, expiry, reason.Delivered, true, no}},
		{"stopped and opened, refused", 0, []string{open, stop}, refused, nil, row{delivery.Cancelled, no, no, reason.CancelledByPerson, false, now}},
	}
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		byID := map[delivery.ID]int{}
		for i, d := range f.scheduled(len(tests), func(i int, d *delivery.Row) {
			if d.Step = tests[i].step; d.Step > 0 {
				d.Status = delivery.Sent
			}
		}) {
			byID[d.ID] = i
		}
		var list []store.Settlement
		claims := f.claim(now)
		for _, c := range claims {
			test := tests[byID[c.ID]]
			for _, text := range test.meanwhile {
				f.exec(text, int64(c.ID))
			}
			s := test.base(c)
			if test.change != nil {
				test.change(&s)
			}
			list = append(list, s)
		}
		if stale := f.settle(list...); len(stale) != 0 {
			t.Fatalf("%d stale", len(stale))
		}
		for i, c := range claims {
			test := tests[byID[c.ID]]
			d := f.row(c.ID)
			got := row{d.Status, d.SendAt, d.ExpiresAt, d.Reason, !d.Slot.IsZero(), d.CompletedAt}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("%s (-want +got)\n%s", test.name, diff)
			}
			s := list[i]
			if d.Step != s.Step || d.RemindersRemaining != s.Remaining || d.RetryCount != s.RetryCount || d.Version != 2 || !d.LeaseUntil.IsZero() || !d.IntentAt.IsZero() || d.LastSentAt.Equal(now) != s.Accepted {
				t.Errorf("%s: %+v", test.name, d)
			}
			attempts, err := f.s.Attempts(t.Context(), f.ws, c.ID)
			if diff := cmp.Diff([]delivery.Attempt{s.Attempt}, attempts); diff != "" || err != nil {
				t.Errorf("%s: attempts %v (-want +got)\n%s", test.name, err, diff)
			}
		}
	})
}

// A worker that was frozen past its lease wakes up and reports. (CARILLON_SABOTAGE=nofence with the build tag sabotage makes this fail.)
//
// Shows: B26.
func TestSettleRefusesWhatCameTooLate(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(2, nil)
		zombie := f.claim(now)
		worker := f.claim(now.Add(time.Minute))
		if stale := f.settle(accepted(worker[0])); len(stale) != 0 {
			t.Fatalf("the holder's result was refused")
		}
		settled, held := f.row(worker[0].ID), f.row(worker[1].ID)
		late := []store.Settlement{refused(zombie[0]), refused(zombie[1])}
		for i := range late {
			late[i].Release = true
			late[i].Content = &store.Content{Workspace: f.ws, Delivery: late[i].ID, Step: 2, At: now, Text: "late"}
		}
		stale := f.settle(late...)
		if diff := cmp.Diff([]delivery.ID{late[0].ID, late[1].ID}, stale); diff != "" {
			t.Errorf("stale (-want +got)\n%s", diff)
		}
		for _, want := range []delivery.Row{settled, held} {
			if diff := cmp.Diff(want, f.row(want.ID)); diff != "" {
				t.Errorf("changed (-want +got)\n%s", diff)
			}
			contents, err := s.Contents(t.Context(), f.ws, want.ID, store.Page{})
			if err != nil || len(contents) != 0 {
				t.Errorf("kept %v %v", contents, err)
			}
		}
		attempts, err := s.Attempts(t.Context(), f.ws, held.ID)
		if err != nil || len(attempts) != 0 {
			t.Errorf("logged %v %v", attempts, err)
		}
	})
}

func TestSettleHoldsBack(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(1, nil)
		r := refused(f.claim(now)[0])
		r.SendAt, r.LeaseUntil = now, now.Add(time.Minute) // C45: the instant stays, the next tick tries again
		f.settle(r)
		if early := f.claim(now.Add(59 * time.Second)); len(early) != 0 {
			t.Errorf("taken up too early")
		}
		next, err := s.NextDue(t.Context(), now)
		if err != nil || !next.Equal(r.LeaseUntil) {
			t.Errorf("next due %v %v", next, err)
		}
		c := f.claim(r.LeaseUntil)
		if len(c) != 1 || !c[0].LostIntent.IsZero() || !c[0].SendAt.Equal(now) || c[0].AttemptNo != 2 {
			t.Errorf("%+v", c)
		}
	})
}

func TestSettleKeepsTheFirstContent(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(1, nil)
		content := store.Content{Workspace: f.ws, Step: 1, At: now, Channel: "sms:twilio", Address: "+1", Locale: "ar", Subject: "s", Text: "first", HTML: "<p>"}
		for i, text := range []string{"first", "second"} {
			at := now.Add(time.Duration(i) * time.Hour)
			r := refused(f.claim(at)[0])
			c := content
			c.Delivery, c.Text, c.At = r.ID, text, at
			r.SendAt, r.Content = now, &c
			f.settle(r)
			content.Delivery = r.ID
		}
		for _, id := range []delivery.ID{0, content.Delivery} {
			got, err := s.Contents(t.Context(), f.ws, id, store.Page{})
			f.must(err)
			if len(got) == 1 {
				content.ID = got[0].ID
			}
			if diff := cmp.Diff([]store.Content{content}, got); diff != "" || content.ID == 0 {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	})
}

func TestSettleRefusesOneRowTwice(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(1, nil)
		c := f.claim(now)[0]
		_, err := s.Settle(t.Context(), now, []store.Settlement{accepted(c), refused(c)})
		f.mustBe(err, store.ErrInvalid)
	})
}
