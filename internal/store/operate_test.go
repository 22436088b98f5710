package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// operate works on a locked instance and its locked deliveries.
func (f fixture) operate(id instance.ID, work func(tx *store.Tx, in instance.Row, rows []delivery.Row) error) error {
	return f.s.WriteHoldingDefinitions(f.Context(), func(tx *store.Tx) error {
		in, err := tx.LockInstance(f.ws, id)
		if err != nil {
			return err
		}
		rows, err := tx.LockDeliveriesOfInstance(f.ws, id)
		if err != nil {
			return err
		}
		return work(tx, in, rows)
	})
}

func TestOperateWritesRowsWithTheirAudit(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.instance("k:1", instance.Pending)
		first, second := f.delivery(in, f.contact("c-1")), f.delivery(in, f.contact("c-2"))
		second.Status, second.SendAt = delivery.Unknown, time.Time{}
		f.add(store.OccasionWrites{Instances: []instance.Row{in}, Deliveries: []delivery.Row{first, second}})
		audit := store.Audit{At: now, Actor: "ops", Action: "cancel", Target: "k:1", Detail: json.RawMessage(`{"n":1}`)}
		f.must(f.operate(in.ID, func(tx *store.Tx, old instance.Row, rows []delivery.Row) error {
			if diff := cmp.Diff(in, old) + cmp.Diff([]delivery.Row{first, second}, rows); diff != "" {
				t.Errorf("locked (-want +got)\n%s", diff)
			}
			in.Status, in.Hold, in.DueAt, in.NextRetryAt, in.LeaseUntil = instance.Cancelled, "", now.Add(1), now.Add(2), now.Add(3)
			in.DueAt, in.NextRetryAt, in.LeaseUntil = now.Add(time.Second), now.Add(2*time.Second), now.Add(3*time.Second)
			in.Attempts, in.RetryCount, in.Crashes, in.Reason, in.Trace, in.CompletedAt = 1, 2, 3, reason.CancelledByPerson, "t", now
			in.Hold, in.HeldAt, in.InputHash = instance.HoldConflict, now.Add(4*time.Second), "h2"
			second.Status, second.NotBefore, second.SendAt, second.Slot, second.DeferredBy = delivery.Sent, now.Add(time.Second), now.Add(time.Hour), time.Time{}, reason.CadenceDaily
			second.LeaseUntil, second.Step, second.AttemptNo, second.IntentAt, second.RetryCount = now.Add(time.Minute), 1, 2, now, 3
			second.RemindersRemaining, second.LastSentAt, second.Reason, second.StopReason = 4, now, reason.RetryByOperator, reason.Suppressed
			second.Trace, second.CompletedAt, second.Resent = "x", now, true
			f.must(tx.UpdateInstance(now, old, in))
			f.must(tx.UpdateDeliveries(now, rows, []delivery.Row{second}))
			return tx.Audit(f.ws, now, audit)
		}))
		in.Version, second.Version = 1, 1
		got, err := s.InstanceByID(t.Context(), f.ws, in.ID)
		f.must(err)
		if diff := cmp.Diff(in, got); diff != "" {
			t.Errorf("instance (-want +got)\n%s", diff)
		}
		for _, want := range []delivery.Row{first, second} {
			if diff := cmp.Diff(want, f.row(want.ID)); diff != "" {
				t.Errorf("delivery (-want +got)\n%s", diff)
			}
		}
		log, err := s.AuditLog(t.Context(), f.ws, store.Page{})
		f.must(err)
		if len(log) == 1 {
			audit.ID = log[0].ID
		}
		if diff := cmp.Diff([]store.Audit{audit}, log); diff != "" || audit.ID == 0 {
			t.Errorf("audit (-want +got)\n%s", diff)
		}
	})
}

func TestOperateReleasesWork(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.instance("k:1", instance.Pending)
		in.Hold = instance.HoldRetries
		f.add(store.OccasionWrites{Instances: []instance.Row{in}})
		f.must(f.operate(in.ID, func(tx *store.Tx, old instance.Row, _ []delivery.Row) error {
			released := old
			released.Hold = ""
			return tx.UpdateInstance(now, old, released)
		}))
		if n := f.expand(nil); n != 1 {
			t.Errorf("a released instance is not due")
		}
	})
}

func TestOperateRefuses(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		rows := f.scheduled(2, nil)
		tests := []struct {
			name string
			work func(tx *store.Tx, in instance.Row, mine []delivery.Row) error
			want error
		}{
			{"another instance's row", func(tx *store.Tx, in instance.Row, _ []delivery.Row) error {
				other := in
				other.ID++
				return tx.UpdateInstance(now, in, other)
			}, store.ErrInvalid},
			{"another instance's delivery", func(tx *store.Tx, _ instance.Row, mine []delivery.Row) error {
				return tx.UpdateDeliveries(now, mine, []delivery.Row{rows[1]})
			}, store.ErrInvalid},
			{"a delivery twice", func(tx *store.Tx, _ instance.Row, mine []delivery.Row) error {
				return tx.UpdateDeliveries(now, mine, slices.Concat(mine, mine))
			}, store.ErrInvalid},
			{"C27 a final delivery that would be sent", func(tx *store.Tx, _ instance.Row, mine []delivery.Row) error {
				final := slices.Clone(mine)
				final[0].Status = delivery.Cancelled
				return tx.UpdateDeliveries(now, mine, final)
			}, store.ErrInvalid},
		}
		for _, test := range tests {
			if err := f.operate(rows[0].Instance, test.work); err == nil {
				t.Errorf("%s was written", test.name)
			} else {
				f.mustBe(err, test.want)
			}
		}
		f.mustBe(f.operate(1, nil), store.ErrNotFound)
		elsewhere := fixture{f.TB, f.s, f.ws + 1}
		f.mustBe(elsewhere.operate(rows[0].Instance, nil), store.ErrNotFound)
		for _, want := range rows {
			if diff := cmp.Diff(want, f.row(want.ID)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	})
}

func TestOperateOnADeliveryThatIsBeingSent(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		id := f.scheduled(1, nil)[0].Instance
		claim := f.claim(now)[0]
		f.mustBe(f.operate(id, func(tx *store.Tx, _ instance.Row, rows []delivery.Row) error {
			changed := slices.Clone(rows)
			changed[0].Status, changed[0].SendAt = delivery.Cancelled, time.Time{}
			return tx.UpdateDeliveries(now, rows, changed)
		}), store.ErrConflict)
		f.must(f.operate(id, func(tx *store.Tx, _ instance.Row, rows []delivery.Row) error {
			changed := slices.Clone(rows)
			changed[0].StopReason = reason.CancelledByPerson
			return tx.UpdateDeliveries(now, rows, changed)
		}))
		want := claim.Row
		want.StopReason = reason.CancelledByPerson
		if diff := cmp.Diff(want, f.row(want.ID)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if stale := f.settle(refused(claim)); len(stale) != 0 {
			t.Errorf("a stop took the claim away")
		}
		if d := f.row(want.ID); d.Status != delivery.Cancelled || d.Reason != reason.CancelledByPerson {
			t.Errorf("%s %s", d.Status, d.Reason)
		}
	})
}

func TestOperateMakesRepetitions(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const operators = 16
		f := setup(t, s)
		in := f.instance("k:1", instance.Completed)
		longer := f.instance("k:10", instance.Completed) // not a repetition of k:1
		p := f.contact("c-1")
		f.add(store.OccasionWrites{Instances: []instance.Row{in, longer}, Deliveries: []delivery.Row{f.delivery(in, p)}})
		race(t, operators, func(int) error {
			return f.operate(in.ID, func(tx *store.Tx, _ instance.Row, _ []delivery.Row) error {
				n, err := tx.Retries(f.ws, "k:1")
				if err != nil {
					return err
				}
				again := f.instance(fmt.Sprintf("k:1:retry:%d", n+1), instance.Completed)
				return tx.WriteOccasions(f.ws, store.OccasionWrites{Instances: []instance.Row{again}, Deliveries: []delivery.Row{f.delivery(again, p)}})
			})
		})
		last, err := s.InstanceByKey(t.Context(), f.ws, fmt.Sprintf("k:1:retry:%d", operators))
		f.must(err)
		f.must(f.operate(last.ID, func(tx *store.Tx, _ instance.Row, rows []delivery.Row) error {
			if n, err := tx.Retries(f.ws, "k:1"); err != nil || n != operators || len(rows) != 1 {
				t.Errorf("%d repetitions, %d deliveries, %v", n, len(rows), err)
			}
			return nil
		}))
	})
}

// Senders, operators and results at once: no deadlock ends in an error, nothing is sent after a stop.
func TestOperateRacesSenders(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const deliveries = 60
		f := setup(t, s)
		rows := f.scheduled(deliveries, nil)
		race(t, 6, func(n int) error {
			if n%2 == 0 {
				for _, d := range rows {
					err := f.operate(d.Instance, func(tx *store.Tx, _ instance.Row, rows []delivery.Row) error {
						d := rows[0]
						switch {
						case !d.IntentAt.IsZero() && d.LeaseUntil.After(now):
							d.StopReason = reason.CancelledByPerson
						case d.Status == delivery.Scheduled:
							d.Status, d.SendAt, d.Slot, d.StopReason = delivery.Cancelled, time.Time{}, time.Time{}, reason.CancelledByPerson
						default:
							return nil
						}
						return tx.UpdateDeliveries(now, rows, []delivery.Row{d})
					})
					if err != nil {
						return err
					}
				}
				return nil
			}
			for {
				claims, err := claimDue(t.Context(), s, now, 3, nil)
				if err != nil || len(claims) == 0 {
					return err
				}
				list := make([]settlement, len(claims))
				for i, c := range claims {
					if list[i] = accepted(c); c.StopReason != "" {
						t.Errorf("claimed after a stop")
					}
				}
				if stale, err := settle(t.Context(), s, list...); err != nil || len(stale) > 0 {
					return fmt.Errorf("%d stale: %w", len(stale), err)
				}
			}
		})
		counts, err := s.Counts(t.Context(), f.ws)
		f.must(err)
		if counts.DeliveriesByStatus[delivery.Sent]+counts.DeliveriesByStatus[delivery.Cancelled] != deliveries {
			t.Errorf("%+v", counts)
		}
	})
}
