package operator

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
)

var now = time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)

func acting() *action {
	next := int64(100)
	return &action{now: now, detail: map[string]any{}, ids: func(time.Time) int64 {
		next++
		return next
	}}
}

// waiting is a delivery that waits for its slot; change gives it another state.
func waiting(change func(*delivery.Row)) delivery.Row {
	d := delivery.Row{
		Workspace: 1, ID: 5, Instance: 3, Key: "k|7|sms:x", Status: delivery.Scheduled, NotBefore: now.Add(-time.Hour), SendAt: now.Add(time.Hour),
		Slot: now.Add(time.Hour), ExpiresAt: now.Add(24 * time.Hour), RemindersRemaining: 2,
	}
	if change != nil {
		change(&d)
	}
	return d
}

func inFlight(d *delivery.Row) {
	d.IntentAt, d.LeaseUntil = now.Add(-time.Second), now.Add(time.Minute)
}

func sent(d *delivery.Row) {
	d.Status, d.Step, d.LastSentAt, d.SendAt = delivery.Sent, 1, now.Add(-time.Minute), now.Add(24*time.Hour)
}

// A cancelled delivery sends nothing more. A message in flight is only marked, and one that has ended stays as it is.
func TestCancelDelivery(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		row     delivery.Row
		change  func(*delivery.Row) // nil: nothing is changed
		refused bool
		marked  int
	}{
		{"waits", waiting(nil), func(d *delivery.Row) {
			d.Status, d.Reason, d.SendAt, d.Slot, d.ExpiresAt, d.CompletedAt = delivery.Cancelled, reason.CancelledByPerson, time.Time{}, time.Time{}, time.Time{}, now
		}, false, 0},
		{"reminders are left", waiting(sent), func(d *delivery.Row) {
			d.Status, d.Reason, d.SendAt, d.Slot, d.ExpiresAt, d.CompletedAt = delivery.Cancelled, reason.CancelledByPerson, time.Time{}, time.Time{}, time.Time{}, now
		}, false, 0},
		{"in flight", waiting(inFlight), func(d *delivery.Row) { d.StopReason = reason.CancelledByPerson }, false, 1},
		{"in flight and marked", waiting(func(d *delivery.Row) { inFlight(d); d.StopReason = reason.Suppressed }), nil, false, 0},
		{"cancelled", waiting(func(d *delivery.Row) { d.Status = delivery.Cancelled }), nil, false, 0},
		{"answered", waiting(func(d *delivery.Row) { d.Status = delivery.Responded }), nil, true, 0},
		{"sent, without reminders", waiting(func(d *delivery.Row) { sent(d); d.SendAt, d.CompletedAt = time.Time{}, now }), nil, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := acting()
			c, err := a.cancelDelivery(test.row)
			var refused *StateError
			if errors.As(err, &refused) != test.refused || err != nil && refused == nil {
				t.Fatalf("error %v", err)
			}
			var want []delivery.Row
			if test.change != nil {
				want = []delivery.Row{test.row}
				test.change(&want[0])
			}
			if diff := cmp.Diff(want, c.Deliveries); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if a.marked != test.marked || len(a.entries) != len(want) {
				t.Errorf("%d marked, %d entries", a.marked, len(a.entries))
			}
		})
	}
}

// A delivery that waits is retried in its own row. One that has ended is made again, once, under the next key of its occasion.
func TestRetryDelivery(t *testing.T) {
	t.Parallel()
	ended := func(status delivery.Status) delivery.Row {
		return waiting(func(d *delivery.Row) {
			d.Status, d.SendAt, d.Slot, d.CompletedAt = status, time.Time{}, time.Time{}, now
		})
	}
	s := state{Instance: instance.Row{Workspace: 1, ID: 3, Key: "k:retry:1", Status: instance.Completed}, Retries: 2}
	for _, test := range []struct {
		name    string
		row     delivery.Row
		refused string
		again   bool
	}{
		{"waits", waiting(nil), "", false},
		{"outcome unknown", waiting(func(d *delivery.Row) { d.Status, d.UnknownSince = delivery.Unknown, now }), "", false},
		{"failed", ended(delivery.Failed), "", true},
		{"sent", ended(delivery.Sent), "", true},
		{"made again before", func() delivery.Row { d := ended(delivery.Failed); d.Resent = true; return d }(), "sent again already", false},
		{"answered", ended(delivery.Responded), "responded", false},
		{"in flight", waiting(inFlight), "being sent", false},
		{"opened", ended(delivery.Opened), "", true},
		{"answered by message", func() delivery.Row { d := ended(delivery.Opened); d.Asks = "fever"; return d }(), "being answered, by message", false},
		{"asked by message", func() delivery.Row { d := ended(delivery.Sent); d.Asks = "fever"; return d }(), "", true},
		{"a further question", func() delivery.Row { d := ended(delivery.Sent); d.Turn = 1; return d }(), "a further message of a conversation", false},
		{"a further question that waits", waiting(func(d *delivery.Row) { d.Turn = 1 }), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := acting()
			c, err := a.retryDelivery(s, test.row)
			var refused *StateError
			if errors.As(err, &refused); test.refused != "" {
				if refused == nil || refused.Status != test.refused || !c.none() {
					t.Errorf("%+v, %v", c, err)
				}
				return
			}
			if err != nil || len(c.Deliveries) != 1 {
				t.Fatalf("%+v, %v", c, err)
			}
			old := c.Deliveries[0]
			if !test.again {
				if old.Status != delivery.Scheduled || !old.SendAt.Equal(now) || old.Reason != reason.RetryByOperator || c.NewInstance != nil {
					t.Errorf("%+v", c)
				}
				return
			}
			if c.NewInstance == nil || len(c.NewDeliveries) != 1 || !old.Resent || old.StopReason != reason.ResentByOperator {
				t.Fatalf("%+v", c)
			}
			in, d := *c.NewInstance, c.NewDeliveries[0]
			if in.Key != "k:retry:3" || d.Key != "k:retry:3|7|sms:x" || d.Instance != in.ID || d.Status != delivery.Scheduled || !d.SendAt.Equal(now) || d.ID == test.row.ID {
				t.Errorf("%+v, %+v", in, d)
			}
		})
	}
}

// A delivery that was sent again, and is made once more with its instance, begins as one that nobody has sent again.
func TestRepeatedIsNotResent(t *testing.T) {
	t.Parallel()
	old := waiting(func(d *delivery.Row) {
		d.Status, d.SendAt, d.Resent, d.StopReason = delivery.Failed, time.Time{}, true, reason.ResentByOperator
	})
	if d := acting().repeated(old, instance.Row{Workspace: 1, ID: 9, Key: "k:retry:3"}); d.Resent || d.StopReason != "" {
		t.Errorf("%+v", d)
	}
}

// Of a large occasion a cancel changes the mark alone, and begins a job; of a small one it ends the deliveries. The mark is set once, and only where
// there is something to cancel.
func TestCancelDeliveries(t *testing.T) {
	t.Parallel()
	ended := waiting(func(d *delivery.Row) { d.Status, d.SendAt = delivery.Cancelled, time.Time{} })
	earlier := now.Add(-time.Hour)
	for _, test := range []struct {
		name       string
		state      state
		deliveries int
		marked     time.Time // zero: the instance is not written
		job        bool
		running    int64
	}{
		{"small", state{Deliveries: []delivery.Row{waiting(nil), ended}}, 1, now, false, 0},
		{"small, in flight", state{Deliveries: []delivery.Row{waiting(inFlight)}}, 1, now, false, 0},
		{"small, and all have ended", state{Deliveries: []delivery.Row{ended}}, 0, time.Time{}, false, 0},
		{"small, with another message of its course", state{Deliveries: []delivery.Row{waiting(func(d *delivery.Row) { d.Instance = 9 })}}, 1, time.Time{}, false, 0},
		{"large", state{Large: true, Left: true}, 0, now, true, 0},
		{"large, and nothing is left", state{Large: true, AllEnded: true}, 0, time.Time{}, false, 0},
		{"large, and its job runs", state{Large: true, Left: true, Job: 7, Instance: instance.Row{CancelledAt: earlier}}, 0, time.Time{}, false, 7},
		{"large, and its job was ended", state{Large: true, Left: true, Instance: instance.Row{CancelledAt: earlier}}, 0, time.Time{}, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.state.Instance.ID, test.state.Instance.Status = 3, instance.Completed
			a, c := acting(), change{}
			if err := a.cancelDeliveries(&c, test.state); err != nil {
				t.Fatal(err)
			}
			if len(c.Deliveries) != test.deliveries || (c.Job != nil) != test.job || a.result.Job != test.running {
				t.Errorf("%d deliveries, job %+v, %d", len(c.Deliveries), c.Job, a.result.Job)
			}
			if (c.Instance == nil) != test.marked.IsZero() || c.Instance != nil && (!c.Instance.CancelledAt.Equal(test.marked) || !c.OnlyMark) {
				t.Errorf("instance %+v", c.Instance)
			}
		})
	}
}

// A delivery of a cancelled occasion counts as cancelled before its row is ended: a retry makes a new occasion, without the mark. One in flight
// still is.
func TestRetryOfACancelledOccasion(t *testing.T) {
	t.Parallel()
	s := state{Instance: instance.Row{Workspace: 1, ID: 3, Key: "k", Status: instance.Completed, CancelledAt: now.Add(-time.Minute)}}
	a := acting()
	c, err := a.retryDelivery(s, waiting(nil))
	if err != nil || c.NewInstance == nil || !c.NewInstance.CancelledAt.IsZero() || len(c.Deliveries) != 1 || c.Deliveries[0].Status != delivery.Cancelled || !c.Deliveries[0].Resent {
		t.Errorf("%+v, %v", c, err)
	}
	var refused *StateError
	if _, err := acting().retryDelivery(s, waiting(inFlight)); !errors.As(err, &refused) {
		t.Errorf("in flight: %v", err)
	}
}
