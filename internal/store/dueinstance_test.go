package store_test

import (
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// result is what a test makes of a due instance.
type result struct {
	instance.Patch
	Deliveries []delivery.Row
	Successors []iter.Seq[instance.Row]
}

func dueAt(at time.Time, limit int) func(*store.Tx) ([]store.DueInstance, error) {
	return func(tx *store.Tx) ([]store.DueInstance, error) { return tx.DueInstances(at, limit) }
}

// fanOut is a step of the fan-out: audience names the contacts of each instance. nil: nobody.
func (f fixture) fanOut(at time.Time, find func(*store.Tx) ([]store.DueInstance, error), audience func(int, store.DueInstance) store.Audience,
	decide func([]store.DueInstance, []store.People) ([]result, error),
) (n int, err error) {
	err = f.s.WriteHoldingDefinitions(f.Context(), func(tx *store.Tx) error {
		due, err := find(tx)
		if n = len(due); err != nil || n == 0 {
			return err
		}
		var events []store.EventRef
		audiences := make([][]store.Audience, n)
		for i, in := range due {
			if in.Event != 0 {
				events = append(events, store.EventRef{Workspace: in.Workspace, ID: in.Event})
			}
			if audiences[i] = make([]store.Audience, 1); audience != nil {
				audiences[i][0] = audience(i, in)
			}
		}
		if known, err := tx.EventsByID(events); err != nil || len(known) != len(events) {
			return fmt.Errorf("%d of %d events: %w", len(known), len(events), err)
		}
		found, err := tx.People(at, audiences, func(i int) subject.WorkspaceID { return due[i].Workspace }, nil, false)
		if err != nil {
			return err
		}
		people := make([]store.People, len(found))
		for i := range found {
			people[i] = found[i][0]
		}
		results, err := decide(due[:len(people)], people)
		if err != nil {
			return err
		}
		n = len(results)
		tx.LeaveInstances(at, due[n:])
		var w store.InstanceWrites
		var successors []iter.Seq[instance.Row]
		for i, r := range results {
			w.Patches = append(w.Patches, store.InstancePatch{Row: due[i].Row, Patch: r.Patch})
			w.Deliveries, successors = append(w.Deliveries, r.Deliveries...), append(successors, r.Successors...)
		}
		if err := tx.WriteInstances(at, w); err != nil {
			return err
		}
		_, err = tx.EnsureOccasions(successors)
		return err
	})
	return n, err
}

// expand expands what is due now; without decide every instance completes without recipients.
func (f fixture) expand(decide func([]store.DueInstance, []store.People) ([]result, error), refs ...store.RecipientRef) int {
	f.Helper()
	if decide == nil {
		decide = complete
	}
	n, err := f.fanOut(now, dueAt(now, 1000), func(int, store.DueInstance) store.Audience { return store.Audience{Refs: refs} }, decide)
	f.must(err)
	return n
}

func complete(due []store.DueInstance, _ []store.People) ([]result, error) {
	results := make([]result, len(due))
	for i := range results {
		results[i].Patch = instance.Patch{Status: instance.Completed, Reason: reason.Expanded}
	}
	return results, nil
}

func TestFanOutTakesDueInstances(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		event := f.event("closed")
		var list []instance.Row
		add := func(key string, change func(*instance.Row)) {
			in := f.instance(key, instance.Pending)
			change(&in)
			list = append(list, in)
		}
		add("later", func(i *instance.Row) { i.DueAt = now.Add(time.Microsecond) })
		add("now", func(i *instance.Row) { i.Event = event.ID })
		add("earlier", func(i *instance.Row) { i.DueAt = now.Add(-time.Hour) })
		add("before 1970", func(i *instance.Row) { i.DueAt = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) })
		add("waits for its retry", func(i *instance.Row) { i.NextRetryAt = now.Add(time.Minute) })
		add("held", func(i *instance.Row) { i.Hold = instance.HoldRetries })
		add("over", func(i *instance.Row) { i.Status = instance.Skipped })
		f.add(store.OccasionWrites{Events: []store.EventRow{event}, Instances: list})
		var got []string
		n := f.expand(func(due []store.DueInstance, people []store.People) ([]result, error) {
			for i, in := range due {
				got = append(got, in.Key)
				if (in.Event == event.ID) != (in.Key == "now") || len(people[i].Persons) != 1 || people[i].Persons[0].ExtID != "c-1" {
					t.Errorf("%s: event %d, people %v", in.Key, in.Event, people[i])
				}
			}
			return complete(due, people)
		}, person("c-1", ""))
		if diff := cmp.Diff([]string{"before 1970", "earlier", "now"}, got); diff != "" || n != 3 {
			t.Errorf("%d taken (-want +got)\n%s", n, diff)
		}
		in, err := s.InstanceByKey(t.Context(), f.ws, "now")
		f.must(err)
		if in.Status != instance.Completed || in.Reason != reason.Expanded || !in.CompletedAt.Equal(now) || in.Version != 1 || in.Attempts != 1 {
			t.Errorf("%+v", in)
		}
		if n := f.expand(nil); n != 0 {
			t.Errorf("%d taken again", n)
		}
	})
}

func TestFanOutSettles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		result instance.Patch
		next   time.Time
	}{
		{"retry", instance.Patch{Status: instance.Pending, Delay: instance.DelayedByFailure, Reason: reason.AudienceFailed, NextRetryAt: now.Add(time.Minute), RetryCount: 1, Trace: "x"}, now.Add(time.Minute)},
		{"at once", instance.Patch{Status: instance.Pending}, now},
		{"held", instance.Patch{Status: instance.Pending, Hold: instance.HoldRetries, Delay: instance.DelayedByHold, Reason: reason.RetriesUsedUp, RetryCount: 3}, time.Time{}},
		{"deactivated", instance.Patch{Status: instance.Deactivated, Reason: reason.WorkflowInactive}, time.Time{}},
		{"failed", instance.Patch{Status: instance.Failed, Reason: reason.ExpressionFailed}, time.Time{}},
	}
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for _, test := range tests {
			in := f.instance("k:"+test.name, instance.Pending)
			in.Trace = "as planned"
			f.add(store.OccasionWrites{Instances: []instance.Row{in}})
			f.expand(func(due []store.DueInstance, _ []store.People) ([]result, error) {
				return []result{{Patch: test.result}}, nil
			})
			want := in
			want.Status, want.Hold, want.Delay, want.Reason, want.NextRetryAt, want.RetryCount = test.result.Status, test.result.Hold, test.result.Delay, test.result.Reason, test.result.NextRetryAt, test.result.RetryCount
			want.Version, want.Attempts = 1, 1
			if want.Held() {
				want.HeldAt = now
			}
			if test.result.Trace != "" {
				want.Trace = test.result.Trace
			}
			if want.Status != instance.Pending {
				want.CompletedAt = now
			}
			got, err := s.InstanceByID(t.Context(), f.ws, in.ID)
			f.must(err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", test.name, diff)
			}
			next, err := s.EarliestDue(t.Context(), now)
			if err != nil || !next.Equal(test.next) {
				t.Errorf("%s: next due %v %v, want %v", test.name, next, err, test.next)
			}
			f.exec(`UPDATE instance SET ready_at = 0 WHERE id = $1`, int64(in.ID))
		}
	})
}

func TestFanOutKeepsDeliveriesThatExist(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.instance("k:1", instance.Pending)
		before := f.delivery(in, f.contact("c-1"))
		f.add(store.OccasionWrites{Instances: []instance.Row{in}, Deliveries: []delivery.Row{before}})
		ref := person("c-1", "")
		ref.Lock = true
		f.expand(func(due []store.DueInstance, people []store.People) ([]result, error) {
			if p := people[0].Persons[0]; !p.Locked || len(p.Slots) != 1 {
				t.Errorf("person %+v", p)
			}
			again, other := f.delivery(due[0].Row, people[0].Persons[0].ID), f.delivery(due[0].Row, people[0].Persons[1].ID)
			again.Slot = now.Add(time.Hour)
			return []result{{Patch: instance.Patch{Status: instance.Completed}, Deliveries: []delivery.Row{again, other}}}, nil
		}, ref, person("c-2", ""))
		rows, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{Instance: in.ID}, store.Page{})
		f.must(err)
		if len(rows) != 2 || rows[1].ID != before.ID || !rows[1].Slot.Equal(before.Slot) {
			t.Errorf("deliveries %+v", rows)
		}
	})
}

func TestFanOutErrorsRollBack(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("k:1", instance.Pending)}})
		_, err := f.fanOut(now, dueAt(now, 10), nil, func([]store.DueInstance, []store.People) ([]result, error) { return nil, errBroken })
		f.mustBe(err, errBroken)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = f.fanOut(now, dueAt(now, 10), nil, func([]store.DueInstance, []store.People) ([]result, error) { panic("x") })
		}()
		if n := f.expand(nil); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
}

func TestRacingFanOutsTakeEachInstanceOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const instances = 200
		f := setup(t, s)
		var w store.OccasionWrites
		for i := range instances {
			w.Instances = append(w.Instances, f.instance(fmt.Sprintf("k:%d", i), instance.Pending))
		}
		f.add(w)
		var mu sync.Mutex
		taken := 0
		race(t, 8, func(int) error {
			for {
				n, err := f.fanOut(now, dueAt(now, 7), func(i int, _ store.DueInstance) store.Audience {
					ref := person(fmt.Sprintf("c-%d", i%3), "")
					ref.Lock = true
					return store.Audience{Refs: []store.RecipientRef{ref}}
				}, func(due []store.DueInstance, people []store.People) ([]result, error) {
					results, _ := complete(due, people)
					for i, in := range due {
						results[i].Deliveries = []delivery.Row{f.delivery(in.Row, people[i].Persons[0].ID)}
					}
					return results, nil
				})
				mu.Lock()
				taken += n
				mu.Unlock()
				if err != nil || n == 0 {
					return err
				}
			}
		})
		counts, err := s.Counts(t.Context(), f.ws)
		f.must(err)
		if taken != instances || counts.InstancesByStatus[instance.Completed] != instances || counts.DeliveriesByStatus[delivery.Scheduled] != instances {
			t.Errorf("taken %d, %+v, want %d", taken, counts, instances)
		}
	})
}
