package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func lease(c delivery.Claim) store.LeaseRef {
	return store.LeaseRef{Workspace: c.Workspace, ID: c.ID, Version: c.Version}
}

func TestRenewAndReleaseLeases(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(3, nil)
		claims := f.claim(now)
		gone := lease(claims[0])
		gone.Version--
		until := now.Add(time.Minute)
		lost, err := s.RenewLeases(t.Context(), until, []store.LeaseRef{lease(claims[2]), gone, lease(claims[1])})
		f.must(err)
		if diff := cmp.Diff([]delivery.ID{gone.ID}, lost); diff != "" {
			t.Errorf("lost (-want +got)\n%s", diff)
		}
		if d := f.row(claims[1].ID); !d.LeaseUntil.Equal(until) || d.Version != claims[1].Version {
			t.Errorf("renewed %+v", d)
		}
		if d := f.row(claims[0].ID); !d.LeaseUntil.Equal(claims[0].LeaseUntil) {
			t.Errorf("a lost lease was renewed")
		}
		stale := claims[0]
		stale.Version--
		f.must(release(t.Context(), s, time.Time{}, stale, claims[1]))
		want := claims[1].Row
		want.LeaseUntil, want.IntentAt, want.AttemptNo, want.Version = time.Time{}, time.Time{}, 0, 2
		if diff := cmp.Diff(want, f.row(want.ID)); diff != "" {
			t.Errorf("released (-want +got)\n%s", diff)
		}
		if again := f.claim(now); len(again) != 1 || again[0].ID != want.ID || again[0].AttemptNo != 1 || !again[0].LostIntent.IsZero() {
			t.Errorf("claimed again %+v", again)
		}
		if stale := f.settle(accepted(claims[1])); len(stale) != 1 {
			t.Errorf("a released claim settled")
		}
	})
}

// Shows: C28, C44.
func (f fixture) expire(at time.Time, limit int) (rows []delivery.Row, err error) {
	return rows, f.s.Write(f.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.ExpireDue(at, limit)
		return err
	})
}

func TestExpireDue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(d *delivery.Row)
		want   reason.Reason // empty: stays
	}{
		{"one µs past", func(d *delivery.Row) { d.ExpiresAt = now.Add(-time.Microsecond) }, reason.NoResponse},
		{"exactly now stays", func(d *delivery.Row) { d.ExpiresAt = now }, ""},
		{"never sent", func(d *delivery.Row) { d.Status, d.ExpiresAt = delivery.Scheduled, now.Add(-time.Hour) }, reason.NoResponse},
		{"opened", func(d *delivery.Row) { d.Status, d.ExpiresAt = delivery.Opened, now.Add(-time.Hour) }, reason.NoResponse},
		{"without a channel", func(d *delivery.Row) {
			d.Status, d.Hold, d.Reason, d.ExpiresAt = delivery.Scheduled, delivery.HoldNoChannel, reason.NoChannel, now.Add(-time.Hour)
		}, reason.NoChannel},
		{"unknown", func(d *delivery.Row) {
			d.Status, d.Reason, d.ExpiresAt = delivery.Unknown, reason.ReplyLost, now.Add(-time.Hour)
		}, reason.NeverSettled},
		{"leased stays", func(d *delivery.Row) { d.ExpiresAt, d.LeaseUntil = now.Add(-time.Hour), now.Add(time.Hour) }, ""},
		{"without an expiry stays", func(d *delivery.Row) {}, ""},
	}
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		rows := f.scheduled(len(tests), func(i int, d *delivery.Row) {
			d.Status, d.SendAt = delivery.Sent, time.Time{}
			tests[i].change(d)
		})
		var want []delivery.Row
		for i, d := range rows {
			if tests[i].want != "" {
				d.Status, d.Hold, d.Reason, d.ExpiresAt, d.CompletedAt, d.Version = delivery.Expired, "", tests[i].want, time.Time{}, now, 1
				want = append(want, d)
			} else {
				if diff := cmp.Diff(d, f.row(d.ID)); diff != "" {
					t.Errorf("%s (-want +got)\n%s", tests[i].name, diff)
				}
			}
		}
		var got []delivery.Row
		for range want { // one at a time: the limit counts
			some, err := f.expire(now, 1)
			f.must(err)
			got = append(got, some...)
		}
		more, err := f.expire(now, 100)
		if err != nil || len(more) != 0 {
			t.Errorf("%d more, %v", len(more), err)
		}
		byID := map[delivery.ID]delivery.Row{}
		for _, d := range got {
			byID[d.ID] = d
		}
		for _, d := range want {
			if diff := cmp.Diff(d, byID[d.ID]); diff != "" {
				t.Errorf("returned (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(d, f.row(d.ID)); diff != "" {
				t.Errorf("stored (-want +got)\n%s", diff)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d expired, want %d", len(got), len(want))
		}
	})
}

func TestNextDue(t *testing.T) {
	t.Parallel()
	var none time.Time
	at := func(d time.Duration) time.Time { return now.Add(d) }
	pending := func(due, retry time.Time) func(fixture) {
		return func(f fixture) {
			in := f.instance("k", instance.Pending)
			in.DueAt, in.NextRetryAt = due, retry
			f.add(store.OccasionWrites{Instances: []instance.Row{in}})
		}
	}
	row := func(send, lease, expire time.Time) func(fixture) {
		return func(f fixture) {
			f.scheduled(1, func(_ int, d *delivery.Row) { d.SendAt, d.LeaseUntil, d.ExpiresAt = send, lease, expire })
		}
	}
	tests := []struct {
		name string
		rows []func(fixture)
		want time.Time
	}{
		{"nothing", nil, none},
		{"an instance", []func(fixture){pending(at(time.Hour), none), row(at(2*time.Hour), none, none)}, at(time.Hour)},
		{"an instance's retry", []func(fixture){pending(at(-time.Hour), at(time.Minute))}, at(time.Minute)},
		{"a delivery", []func(fixture){pending(at(2*time.Hour), none), row(at(time.Hour), none, none)}, at(time.Hour)},
		{"a backlog", []func(fixture){row(at(-time.Hour), none, none), row(at(-2*time.Hour), none, none), row(at(-3*time.Hour), at(time.Second), none)}, at(-2 * time.Hour)},
		{"an expiry is due from the µs after it", []func(fixture){row(none, none, at(time.Hour))}, at(time.Hour + time.Microsecond)},
		{"the end of a lease", []func(fixture){row(at(-time.Hour), at(time.Minute), none), row(at(time.Hour), none, none)}, at(time.Minute)},
		{"before the end of a lease", []func(fixture){row(at(-time.Hour), at(time.Minute), none), row(at(time.Second), none, none)}, at(time.Second)},
		{"a lease that ends now", []func(fixture){row(at(-time.Hour), now, none)}, at(-time.Hour)},
		{"a lease by a later clock", []func(fixture){row(at(time.Second), at(time.Minute), none)}, at(time.Minute)},
		{"a lease by a later clock beside what is due later", []func(fixture){row(at(time.Second), at(time.Minute), none), row(at(time.Hour), none, none)}, at(time.Minute)},
		{"an expiry under a lease by a later clock", []func(fixture){row(none, at(time.Minute), at(time.Second))}, at(time.Minute)},
		{"an instance under a lease by a later clock", []func(fixture){func(f fixture) {
			in := f.instance("k", instance.Pending)
			in.DueAt, in.LeaseUntil = at(time.Second), at(time.Minute)
			f.add(store.OccasionWrites{Instances: []instance.Row{in}})
		}}, at(time.Minute)},
		{"nothing planned", []func(fixture){row(none, none, none)}, none},
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for _, test := range tests {
			for _, add := range test.rows {
				add(f)
			}
			got, err := s.EarliestDue(t.Context(), now)
			if err != nil || !got.Equal(test.want) {
				t.Errorf("%s: %v %v, want %v", test.name, got, err, test.want)
			}
			for _, table := range []string{"instance", "delivery"} {
				_, err := s.Exec(t.Context(), "DELETE FROM "+table)
				f.must(err)
			}
		}
	})
}

// A delivery in flight has a lease, and afterwards the instant of its next step: NextDue always sees one of the two.
func TestNextDueBesideResults(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(1, func(_ int, d *delivery.Row) { d.SendAt, d.LeaseUntil = now.Add(-time.Hour), now.Add(time.Minute) })
		stop := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			for {
				_, err := s.Exec(t.Context(), "UPDATE delivery SET lease_until = $1 - lease_until, send_at = $2 - send_at",
					now.Add(time.Minute).UnixMicro(), now.UnixMicro()*2)
				select {
				case <-stop:
					done <- err
					return
				default:
				}
				if err != nil {
					done <- err
					return
				}
			}
		}()
		for i := range 1000 {
			if next, err := s.EarliestDue(t.Context(), now); err != nil || next.IsZero() {
				t.Errorf("look %d: %v %v", i, next, err)
				break
			}
		}
		close(stop)
		f.must(<-done)
	})
}

func TestOnCommitReportsTheEarliestInstant(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var reported []time.Time
		s.OnCommit(func(due store.Due) { reported = append(reported, due.Earliest()) })
		s.OnCommit(func(store.Due) { // a listener may use the store
			if _, err := s.EarliestDue(t.Context(), now); err != nil {
				t.Error(err)
			}
		})
		expect := func(what string, want ...time.Time) {
			t.Helper()
			if diff := cmp.Diff(want, reported); diff != "" {
				t.Errorf("%s (-want +got)\n%s", what, diff)
			}
			reported = nil
		}
		in := f.instance("k:1", instance.Pending)
		in.DueAt = now.Add(time.Hour)
		f.add(store.OccasionWrites{Events: []store.EventRow{f.event("x")}})
		expect("an event alone")
		f.add(store.OccasionWrites{Instances: []instance.Row{in}})
		expect("an instance", in.DueAt)
		f.scheduled(2, func(i int, d *delivery.Row) { d.SendAt = now.Add(-time.Duration(i) * time.Minute) })
		expect("deliveries", now.Add(-time.Minute))
		claims := f.claim(now)
		expect("claims")
		s1, s2 := accepted(claims[0]), refused(claims[1])
		s2.HeldBackTo = now.Add(10 * time.Minute)
		f.settle(s1, s2)
		expect("results", now.Add(10*time.Minute))
		_ = ingest(t.Context(), s, f.ws, ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
			return store.OccasionWrites{Instances: []instance.Row{f.instance("k:2", instance.Pending)}}, errBroken
		})
		expect("what was rolled back")
	})
}

// What its channel cannot take now is moved, remembers when it was due, and stays where it is when it was stopped.
func TestReleaseLater(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(2, nil)
		claims := f.claim(now)
		f.exec(`UPDATE delivery SET stop_reason = 'cancelled_by_operator' WHERE id = $1`, int64(claims[1].ID))
		at := now.Add(time.Minute)
		f.must(release(t.Context(), s, at, claims[0], claims[1]))
		if d := f.row(claims[0].ID); !d.SendAt.Equal(at) || !d.DueAt.Equal(now) || d.Reason != reason.ChannelDown || d.Trace == "" || d.AttemptNo != 0 || !d.IntentAt.IsZero() {
			t.Errorf("moved %+v", d)
		}
		if d := f.row(claims[1].ID); !d.SendAt.Equal(now) || !d.DueAt.IsZero() || d.Reason == reason.ChannelDown {
			t.Errorf("stopped %+v", d)
		}
		again := f.claim(at)
		if again[0].ID != claims[0].ID {
			again[0] = again[1]
		}
		f.must(release(t.Context(), s, at.Add(time.Minute), again[0]))
		if d := f.row(again[0].ID); !d.DueAt.Equal(now) || !d.SendAt.Equal(at.Add(time.Minute)) {
			t.Errorf("moved again %+v", d)
		}
	})
}

// A doubt begins with the intent whose result never came, outlives what follows, and ends with a known outcome.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		id := f.scheduled(1, nil)[0].ID
		f.claim(now)
		second := f.claim(now.Add(30 * time.Second))[0]
		if !second.UnknownSince.Equal(now) || !second.LostIntent.Equal(now) {
			t.Fatalf("claimed again: outcome unknown since %s", second.UnknownSince)
		}
		f.must(release(t.Context(), s, time.Time{}, second))
		third := f.claim(now.Add(time.Minute))[0]
		if !third.UnknownSince.Equal(now) || !third.LostIntent.IsZero() {
			t.Fatalf("released: outcome unknown since %s", third.UnknownSince)
		}
		kept := refused(third)
		kept.Change.UnknownSince = third.UnknownSince
		f.settle(kept)
		if d := f.row(id); !d.UnknownSince.Equal(now) {
			t.Errorf("a refusal ended the doubt: %+v", d)
		}
		f.settle(accepted(f.claim(now.Add(time.Hour))[0]))
		if d := f.row(id); d.OutcomeUnknown() {
			t.Errorf("accepted, and still in doubt: %+v", d)
		}
	})
}
