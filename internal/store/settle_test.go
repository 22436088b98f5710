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

// A result is decided for the row as it was claimed. If others have stopped or answered the delivery since, it is decided again.
//
// Shows: C32.
func TestSettle(t *testing.T) {
	t.Parallel()
	const (
		stop    = `UPDATE delivery SET stop_reason = 'cancelled_by_operator' WHERE id = $1`
		open    = `UPDATE delivery SET status = 'opened' WHERE id = $1`
		respond = `UPDATE delivery SET status = 'responded', send_at = 0, completed_at = 7, reason = 'answer' WHERE id = $1`
	)
	failed := func(c delivery.Claim) settlement {
		s := refused(c)
		s.Change = delivery.Change{Step: c.Step, Status: delivery.Failed, Completed: true, Release: true, Reason: reason.PermanentError}
		return s
	}
	tests := []struct {
		name      string
		meanwhile []string
		of        func(delivery.Claim) settlement
		status    delivery.Status
	}{
		{"accepted", nil, accepted, delivery.Sent},
		{"retry", nil, refused, delivery.Scheduled},
		{"failed", nil, failed, delivery.Failed},
		{"opened, accepted", []string{open}, accepted, delivery.Opened},
		{"responded, failed", []string{respond}, failed, delivery.Responded},
		{"stopped, refused", []string{stop}, refused, delivery.Cancelled},
		{"stopped and opened, refused", []string{open, stop}, refused, delivery.Cancelled},
	}
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		byID := map[delivery.ID]int{}
		for i, d := range f.scheduled(len(tests), nil) {
			byID[d.ID] = i
		}
		var list []settlement
		want := map[delivery.ID]delivery.Row{}
		for _, c := range f.claim(now) {
			test := tests[byID[c.ID]]
			for _, text := range test.meanwhile {
				f.exec(text, int64(c.ID))
			}
			result := test.of(c)
			list = append(list, result)
			next, release := delivery.Settled(f.row(c.ID), result.Change, now)
			if release {
				next.Slot = time.Time{}
			}
			next.Version++
			want[c.ID] = next
		}
		if stale := f.settle(list...); len(stale) != 0 {
			t.Fatalf("%d stale", len(stale))
		}
		for _, s := range list {
			test, got := tests[byID[s.ID]], f.row(s.ID)
			if diff := cmp.Diff(want[s.ID], got); diff != "" || got.Status != test.status {
				t.Errorf("%s: %s (-want +got)\n%s", test.name, got.Status, diff)
			}
			attempts, err := f.s.Attempts(t.Context(), f.ws, s.ID)
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
		late := []settlement{refused(zombie[0]), refused(zombie[1])}
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
		r.Change.SendAt, r.HeldBackTo = now, now.Add(time.Minute) // C45: the instant stays, the next tick tries again
		f.settle(r)
		if early := f.claim(now.Add(59 * time.Second)); len(early) != 0 {
			t.Errorf("taken up too early")
		}
		next, err := s.EarliestDue(t.Context(), now)
		if err != nil || !next.Equal(r.HeldBackTo) {
			t.Errorf("next due %v %v", next, err)
		}
		c := f.claim(r.HeldBackTo)
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
			r.Change.SendAt, r.Content = now, &c
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
		_, err := settle(t.Context(), s, accepted(c), refused(c))
		f.mustBe(err, store.ErrInvalid)
	})
}
